// What takes long: the slow log, and the events that the latency monitor has seen.
import { useState } from "preact/hooks";
import { Chart } from "../chart";
import type { Session } from "../session";
import { useLoaded, useStore } from "../store";
import { count, duration, fields, moment, numberOf, show, type Reply } from "../text";
import { attempt, Button, confirm, Failure, Panel, Table } from "../ui";

export function SlowLog(props: { session: Session }) {
  const { session } = props;
  const readOnly = useStore(session.readOnly);
  const loaded = useLoaded(async () => {
    const [entries, settings] = await Promise.all([
      session.call("SLOWLOG", "GET", 128),
      session.call("CONFIG", "GET", "slowlog-*").catch(() => null),
    ]);
    return { entries: entries as Reply[][], settings: fields(settings) };
  }, [session]);
  const reset = async () => {
    if (!(await confirm("Empty the slow log?", "Its entries will be gone.", "Empty it"))) return;
    await attempt(() => session.call("SLOWLOG", "RESET").then(loaded.again), "The slow log is empty");
  };
  const threshold = loaded.value?.settings.get("slowlog-log-slower-than");
  return (
    <>
      <h1>Slow log</h1>
      <div class="row">
        <Button onClick={loaded.again}>↻ Ask again</Button>
        {session.may("slowlogReset") && !readOnly && (
          <Button kind="danger" onClick={() => void reset()}>
            Empty it
          </Button>
        )}
        {threshold !== undefined && (
          <span class="quiet-text">Calls of more than {duration(numberOf(threshold) / 1000)} are in it.</span>
        )}
      </div>
      <Failure text={loaded.error} />
      <Panel title="Calls, newest first">
        <Table
          label="Slow calls"
          columns={["Id", "Time", "Took", "Call", "Client"]}
          numeric={[0, 2]}
          empty="No call was slow."
          rows={(loaded.value?.entries ?? []).map((entry) => [
            show(entry[0]),
            moment(1000 * numberOf(entry[1])),
            duration(numberOf(entry[2]) / 1000),
            ((entry[3] ?? []) as Reply[]).map((word) => show(word).slice(0, 100)).join(" "),
            `${show(entry[4])} ${show(entry[5])}`,
          ])}
        />
      </Panel>
    </>
  );
}

export function Latency(props: { session: Session }) {
  const { session } = props;
  const readOnly = useStore(session.readOnly);
  const [event, setEvent] = useState("");
  const loaded = useLoaded(async () => (await session.call("LATENCY", "LATEST")) as Reply[][], [session]);
  const calls = useLoaded(async () => [...fields(await session.call("LATENCY", "HISTOGRAM"))], [session]);
  const again = () => {
    loaded.again();
    calls.again();
  };
  return (
    <>
      <h1>Latency</h1>
      <div class="row">
        <Button onClick={again}>↻ Ask again</Button>
        {session.may("latencyReset") && !readOnly && (
          <Button
            kind="danger"
            onClick={() => void attempt(() => session.call("LATENCY", "RESET").then(again), "Forgotten")}
          >
            Forget events
          </Button>
        )}
      </div>
      <Failure text={loaded.error || calls.error} />
      <Panel title="Events">
        <Table
          label="Events"
          columns={["Event", "Last", "Took", "Longest"]}
          numeric={[2, 3]}
          empty="None, or latency-monitor-threshold is 0."
          rows={(loaded.value ?? []).map((it) => [
            <Button kind="quiet" onClick={() => setEvent(show(it[0]))}>
              {show(it[0])}
            </Button>,
            moment(1000 * numberOf(it[1])),
            duration(numberOf(it[2])),
            duration(numberOf(it[3])),
          ])}
        />
        {event !== "" && <EventHistory session={session} event={event} />}
      </Panel>
      <Panel title="Calls by the time they took">
        <Table
          label="Calls by the time they took"
          columns={["Command", "Calls", "50 %", "99 %", "Longest"]}
          numeric={[1, 2, 3, 4]}
          rows={(calls.value ?? []).map(([name, it]) => distribution(name, fields(it)))}
        />
      </Panel>
    </>
  );
}

function distribution(name: string, command: Map<string, Reply>): string[] {
  const buckets = [...fields(command.get("histogram_usec") ?? null)].map(([bound, total]) => [
    Number(bound),
    numberOf(total),
  ]);
  buckets.sort((one, other) => one[0]! - other[0]!);
  const calls = numberOf(command.get("calls"));
  const within = (share: number) => {
    const found = buckets.find(([, total]) => total! >= share * calls) ?? buckets[buckets.length - 1];
    return found === undefined ? "–" : duration(found[0]! / 1000);
  };
  return [name.replace("|", " "), count(calls), within(0.5), within(0.99), within(1)];
}

function EventHistory(props: { session: Session; event: string }) {
  const loaded = useLoaded(
    async () => (await props.session.call("LATENCY", "HISTORY", props.event)) as [number, number][],
    [props.session, props.event],
  );
  if (loaded.value === null || loaded.value.length === 0) return <Failure text={loaded.error} />;
  return (
    <Chart
      label={props.event}
      isTime
      x={loaded.value.map(([at]) => at)}
      format={duration}
      hasPoints
      lines={[{ label: "took", values: loaded.value.map(([, ms]) => ms) }]}
    />
  );
}
