// Sketches: what they say of themselves, their items where they keep some, and a question to them.
import { useState } from "preact/hooks";
import { Chart } from "../../chart";
import { useLoaded } from "../../store";
import { count, fields, numberOf, show, type Reply } from "../../text";
import { attempt, Button, Failure, Field, Panel, Table } from "../../ui";
import { Cell, useWriting, type ValueProps } from "../key";

interface Sketch {
  info: string;
  ask?: { label: string; command: string };
  add?: string[];
}

const SKETCHES: Record<string, Sketch> = {
  "MBbloom--": { info: "BF.INFO", ask: { label: "Is it there?", command: "BF.EXISTS" }, add: ["BF.ADD"] },
  MBbloomCF: { info: "CF.INFO", ask: { label: "How often?", command: "CF.COUNT" }, add: ["CF.ADD"] },
  "CMSk-TYPE": {
    info: "CMS.INFO",
    ask: { label: "How often?", command: "CMS.QUERY" },
    add: ["CMS.INCRBY", "1"],
  },
  "TopK-TYPE": {
    info: "TOPK.INFO",
    ask: { label: "Is it among them?", command: "TOPK.QUERY" },
    add: ["TOPK.ADD"],
  },
  "TDIS-TYPE": {
    info: "TDIGEST.INFO",
    ask: { label: "Share of values up to", command: "TDIGEST.CDF" },
    add: ["TDIGEST.ADD"],
  },
};

const QUANTILES = [0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1];

export function SketchValue(props: ValueProps) {
  const { session, name, type } = props;
  const sketch = SKETCHES[type];
  const [item, setItem] = useState("");
  const [answer, setAnswer] = useState("");
  const writing = useWriting(props);
  const loaded = useLoaded(async () => {
    if (sketch === undefined) return new Map<string, Reply>();
    return fields(await session.call(sketch.info, name));
  }, [session, name, type]);
  if (sketch === undefined) return <p class="empty">There is no view of this type.</p>;
  const ask = () =>
    attempt(async () => {
      const reply = await session.call(sketch.ask!.command, name, item);
      setAnswer(show(Array.isArray(reply) ? reply[0] : reply));
    });
  const add = () =>
    attempt(async () => {
      await session.call(sketch.add![0]!, name, item, ...sketch.add!.slice(1));
      loaded.again();
      props.onChange();
    }, "Added");
  return (
    <>
      <Failure text={loaded.error} />
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void ask();
        }}
      >
        <Field label={sketch.ask!.label} value={item} onInput={setItem} />
        <Button submit>Ask</Button>
        {writing && <Button onClick={() => void add()}>Add it</Button>}
        <output aria-label="Answer">{answer}</output>
      </form>
      {type === "TopK-TYPE" && <TopItems {...props} />}
      {type === "TDIS-TYPE" && <Quantiles {...props} />}
      <Panel title="About it">
        <Table
          label="About the sketch"
          columns={["Field", "Value"]}
          numeric={[1]}
          rows={[...(loaded.value ?? [])].map(([field, it]) => [
            field,
            typeof it === "number" ? count(it) : show(it),
          ])}
        />
      </Panel>
    </>
  );
}

function TopItems(props: ValueProps) {
  const { session, name } = props;
  const loaded = useLoaded(() => session.call("TOPK.LIST", name, "WITHCOUNT"), [session, name]);
  const flat = (loaded.value ?? []) as Reply[];
  const rows = [];
  for (let at = 0; at + 1 < flat.length; at += 2)
    rows.push([<Cell text={flat[at]} />, count(numberOf(flat[at + 1]))]);
  return <Table label="Top items" columns={["Item", "Count"]} numeric={[1]} rows={rows} />;
}

function Quantiles(props: ValueProps) {
  const { session, name } = props;
  const loaded = useLoaded(() => session.call("TDIGEST.QUANTILE", name, ...QUANTILES), [session, name]);
  const values = ((loaded.value ?? []) as Reply[]).map((it) => {
    const found = numberOf(it);
    return Number.isFinite(found) ? found : null;
  });
  if (values.length === 0) return null;
  return (
    <Chart
      label="Quantiles"
      x={QUANTILES.map((it) => 100 * it)}
      format={count}
      hasPoints
      lines={[{ label: "value", values }]}
    />
  );
}
