// A sorted set: pages by rank, and a plot of scores over ranks.
import { useState } from "preact/hooks";
import { Chart } from "../../chart";
import { FormDialog } from "../../form";
import { useLoaded } from "../../store";
import { count, numberOf, show, type Reply, type Text } from "../../text";
import { attempt, Button, Check, Failure, Table } from "../../ui";
import { Cell, useExchanging, useWriting, type ValueProps } from "../key";
import { pageOf, Pager } from "./pages";

/** Points of the plot: the scores at ranks that are evenly spaced. */
const POINTS_MAX = 400;

export function SortedSetValue(props: ValueProps) {
  const { session, name } = props;
  const [from, setFrom] = useState(0);
  const [isReversed, setReversed] = useState(false);
  const [edited, setEdited] = useState<{ member: Text; score: string } | "new" | null>(null);
  const loaded = useLoaded(async () => {
    const total = numberOf(await session.call("ZCARD", name));
    const page = await pageOf(session, name, total);
    const order = isReversed ? ["REV", "WITHSCORES"] : ["WITHSCORES"];
    const found = (await session.call("ZRANGE", name, from, from + page - 1, ...order)) as [Text, Reply][];
    return { total, page, found };
  }, [session, name, from, isReversed]);
  const writing = useWriting(props);
  const exchanging = useExchanging(props);
  const changed = () => {
    loaded.again();
    props.onChange();
  };
  const { value } = loaded;
  if (value === null) return <Failure text={loaded.error} />;
  const entry = edited === "new" ? null : edited;
  return (
    <>
      <Scores {...props} total={value.total} />
      <div class="row">
        <Pager from={from} total={value.total} page={value.page} onMove={setFrom} />
        <Check
          label="Highest first"
          value={isReversed}
          onChange={(on) => {
            setFrom(0);
            setReversed(on);
          }}
        />
        {writing && <Button onClick={() => setEdited("new")}>Add</Button>}
      </div>
      <Table
        label="Members"
        columns={["Rank", "Score", "Member", ...(writing ? [""] : [])]}
        numeric={[0, 1]}
        rows={value.found.map(([member, score], index) => [
          from + index,
          show(score),
          <Cell text={member} />,
          ...(writing
            ? [
                <span class="acts">
                  {exchanging && (
                    <Button
                      kind="quiet"
                      label={`Edit ${show(member).slice(0, 60)}`}
                      onClick={() => setEdited({ member, score: show(score) })}
                    >
                      ✎
                    </Button>
                  )}
                  <Button
                    kind="quiet"
                    label={`Delete ${show(member).slice(0, 60)}`}
                    onClick={() =>
                      void attempt(() => session.call("ZREM", name, member).then(changed), "Deleted")
                    }
                  >
                    ✕
                  </Button>
                </span>,
              ]
            : []),
        ])}
      />
      {edited !== null && (
        <FormDialog
          title={entry ? "Score" : "New member"}
          onClose={() => {
            setEdited(null);
            props.onChange();
          }}
          asked={[
            ...(entry ? [] : [{ name: "member", label: "Member" }]),
            { name: "score", label: "Score", value: entry?.score ?? "0" },
          ]}
          run={async (words) => {
            if (entry) {
              await session.exchange({
                what: "The score",
                key: name,
                reads: [["ZSCORE", name, entry.member]],
                isShown: ([score]) => score !== null && show(score) === entry.score,
                writes: [["ZADD", name, "XX", words.score!, entry.member]],
                onChanged: loaded.again,
              });
            } else if ((await session.call("ZADD", name, "NX", words.score!, words.member!)) === 0) {
              throw new Error("This member is there already.");
            }
            loaded.again();
          }}
        />
      )}
    </>
  );
}

function Scores(props: ValueProps & { total: number }) {
  const { session, name, total } = props;
  const loaded = useLoaded(async () => {
    const points = Math.min(total, await pageOf(session, name, total, POINTS_MAX));
    const ranks = Array.from({ length: points }, (_, at) =>
      Math.round((at * (total - 1)) / Math.max(1, points - 1)),
    );
    const replies =
      total === points
        ? [(await session.call("ZRANGE", name, 0, -1, "WITHSCORES")) as [Text, Reply][]]
        : await Promise.all(ranks.map((rank) => session.call("ZRANGE", name, rank, rank, "WITHSCORES")));
    const scores = (replies as [Text, Reply][][]).flat().map(([, score]) => {
      const found = numberOf(score);
      return Number.isFinite(found) ? found : null;
    });
    return { ranks: ranks.slice(0, scores.length), scores };
  }, [session, name, total]);
  if (loaded.value === null || loaded.value.ranks.length < 2) return null;
  return (
    <Chart
      label="Scores by rank"
      x={loaded.value.ranks}
      format={count}
      height={140}
      lines={[{ label: "score", values: loaded.value.scores }]}
      hasPoints={total < 60}
    />
  );
}
