// A time series as a chart. Of many samples the means of even parts of the time are asked for.
import { useState } from "preact/hooks";
import { Chart } from "../../chart";
import { FormDialog } from "../../form";
import { useLoaded } from "../../store";
import { count, fields, moment, numberOf, show, type Reply } from "../../text";
import { Button, Choice, Failure, Table } from "../../ui";
import { useWriting, type ValueProps } from "../key";

const POINTS_MAX = 1000;
const MEANS = ["avg", "min", "max", "sum", "count", "first", "last"] as const;

export function SeriesValue(props: ValueProps) {
  const { session, name } = props;
  const [mean, setMean] = useState<(typeof MEANS)[number]>("avg");
  const [isAdding, setAdding] = useState(false);
  const writing = useWriting(props);
  const loaded = useLoaded(async () => {
    const info = fields(await session.call("TS.INFO", name));
    const [first, last] = [numberOf(info.get("firstTimestamp")), numberOf(info.get("lastTimestamp"))];
    const isMany = numberOf(info.get("totalSamples")) > POINTS_MAX;
    const width = Math.max(1, Math.ceil((last - first + 1) / POINTS_MAX));
    const means = isMany ? ["AGGREGATION", mean, width] : [];
    const samples = (await session.call("TS.RANGE", name, "-", "+", ...means)) as [number, Reply][];
    return { info, samples, isMany };
  }, [session, name, mean]);
  const { value } = loaded;
  if (value === null) return <Failure text={loaded.error} />;
  const values = value.samples.map(([, it]) => {
    const found = numberOf(it);
    return Number.isFinite(found) ? found : null;
  });
  return (
    <>
      <div class="row">
        <span class="quiet-text">
          {count(numberOf(value.info.get("totalSamples")))} samples,{" "}
          {moment(numberOf(value.info.get("firstTimestamp")))} to{" "}
          {moment(numberOf(value.info.get("lastTimestamp")))}
        </span>
        {value.isMany && (
          <Choice
            label="Of each part"
            value={mean}
            options={MEANS.map((it) => [it, it] as const)}
            onChange={setMean}
          />
        )}
        {writing && <Button onClick={() => setAdding(true)}>Add</Button>}
      </div>
      <Chart
        label="Samples"
        isTime
        x={value.samples.map(([at]) => at / 1000)}
        format={count}
        height={260}
        lines={[{ label: value.isMany ? mean : "value", values }]}
        hasPoints={values.length < 60}
      />
      <Table
        label="About the series"
        columns={["Field", "Value"]}
        rows={[...value.info].map(([field, it]) => [field, show(it)])}
      />
      {isAdding && (
        <FormDialog
          title="New sample"
          deed="Add"
          onClose={() => setAdding(false)}
          asked={[
            { name: "at", label: "Milliseconds since 1970; * for now", value: "*" },
            { name: "value", label: "Value" },
          ]}
          run={async (words) => {
            await session.call("TS.ADD", name, words.at!, words.value!);
            loaded.again();
            props.onChange();
          }}
        />
      )}
    </>
  );
}
