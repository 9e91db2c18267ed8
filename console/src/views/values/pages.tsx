// Pages of what has an order: lists, sorted sets, streams.
import type { Session } from "../../session";
import { count, numberOf, type Text } from "../../text";
import { Button } from "../../ui";

/** Elements of a page, if they are small. */
export const PAGE = 100;
/** Bytes of a page, about. */
const PAGE_BYTES = 2 << 20;

/** How many elements of a key are asked for at once: fewer where they are large. */
export async function pageOf(session: Session, name: Text, total: number, most = PAGE): Promise<number> {
  const size = await session.call("MEMORY", "USAGE", name, "SAMPLES", 20).catch(() => 0);
  const mean = numberOf(size ?? 0) / Math.max(1, total);
  return Math.max(1, Math.min(most, Math.floor(PAGE_BYTES / Math.max(1, mean))));
}

export function Pager(props: { from: number; total: number; page: number; onMove: (from: number) => void }) {
  const { from, total, page } = props;
  if (total <= page) return <span class="quiet-text">{count(total)} elements</span>;
  const last = Math.floor((total - 1) / page) * page;
  return (
    <span class="pager">
      <Button label="First page" disabled={from === 0} onClick={() => props.onMove(0)}>
        ⇤
      </Button>
      <Button
        label="Page before"
        disabled={from === 0}
        onClick={() => props.onMove(Math.max(0, from - page))}
      >
        ◀
      </Button>
      <span>
        {count(from)} to {count(Math.min(total, from + page) - 1)} of {count(total)}
      </span>
      <Button label="Next page" disabled={from >= last} onClick={() => props.onMove(from + page)}>
        ▶
      </Button>
      <Button label="Last page" disabled={from >= last} onClick={() => props.onMove(last)}>
        ⇥
      </Button>
    </span>
  );
}
