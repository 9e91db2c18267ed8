// Pages of what has an order: lists, sorted sets, streams.
import { count } from "../../text";
import { Button } from "../../ui";

export const PAGE = 100;

export function Pager(props: { from: number; total: number; onMove: (from: number) => void }) {
  const { from, total } = props;
  if (total <= PAGE) return <span class="quiet-text">{count(total)} elements</span>;
  const last = Math.floor((total - 1) / PAGE) * PAGE;
  return (
    <span class="pager">
      <Button label="First page" disabled={from === 0} onClick={() => props.onMove(0)}>⇤</Button>
      <Button label="Page before" disabled={from === 0} onClick={() => props.onMove(Math.max(0, from - PAGE))}>◀</Button>
      <span>{count(from)} to {count(Math.min(total, from + PAGE) - 1)} of {count(total)}</span>
      <Button label="Next page" disabled={from >= last} onClick={() => props.onMove(from + PAGE)}>▶</Button>
      <Button label="Last page" disabled={from >= last} onClick={() => props.onMove(last)}>⇥</Button>
    </span>
  );
}
