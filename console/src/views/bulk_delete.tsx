// Deletion of all keys below a prefix: a dry run, then the deletion with its progress, which can be stopped.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Connection } from "../connection";
import type { Session } from "../session";
import {
  bytes,
  count,
  duration,
  editable,
  fields,
  labelFor,
  numberOf,
  show,
  typed,
  type Reply,
  type Text,
} from "../text";
import { Button, Choice, Dialog, Failure, Field } from "../ui";
import { TYPES, typeName } from "../value_types";

interface Outcome {
  isDry: boolean;
  state: string;
  keys: number;
  bytes: number;
  types: Map<string, Reply>;
  elapsedMs: number;
}

export function BulkDelete(props: {
  session: Session;
  prefix: Text;
  pattern: string;
  type: string;
  onClose: (changed: boolean) => void;
}) {
  const { session } = props;
  const [prefix, setPrefix] = useState(editable(props.prefix, true));
  const [pattern, setPattern] = useState(props.pattern);
  const [type, setType] = useState(props.type);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [error, setError] = useState("");
  const [progress, setProgress] = useState<number | null>(null);
  const [changed, setChanged] = useState(false);
  const connection = useRef<Connection | null>(null);
  const job = useRef<string | null>(null);
  useEffect(
    () => () => {
      if (connection.current) session.disconnect(connection.current);
    },
    [],
  );
  // Another prefix needs another dry run.
  const ask =
    <T,>(set: (value: T) => void) =>
    (value: T) => {
      set(value);
      setOutcome(null);
    };
  const run = async (isDry: boolean) => {
    setError("");
    setProgress(0);
    const words: Text[] = ["MANTISSA.DELETE", typed(prefix, props.prefix, true)];
    if (pattern !== "") words.push("MATCH", pattern);
    if (type !== "") words.push("TYPE", type);
    if (isDry) words.push("DRYRUN");
    const walker = session.connect();
    connection.current = walker;
    let timer = 0;
    try {
      session.check(words);
      walker.open();
      await walker.whenReady();
      const client = await walker.call("CLIENT", "ID").catch(() => null);
      timer = window.setInterval(async () => {
        const jobs = await session.call("MANTISSA.JOBS", "LIST").catch(() => []);
        const mine = (jobs as Reply[]).map(fields).find((it) => it.get("client") === client);
        job.current = mine === undefined ? null : show(mine.get("id"));
        if (mine !== undefined) setProgress(numberOf(mine.get("percent")));
      }, 200);
      const reply = fields(await walker.call(...words));
      setOutcome({
        isDry,
        state: show(reply.get("state")),
        keys: numberOf(reply.get("keys")),
        bytes: numberOf(reply.get("bytes")),
        types: fields(reply.get("types") ?? null),
        elapsedMs: numberOf(reply.get("elapsed-ms")),
      });
      if (!isDry) setChanged(true);
    } catch (failure) {
      setError((failure as Error).message);
      if (!isDry) setChanged(true);
    }
    clearInterval(timer);
    session.disconnect(walker);
    connection.current = null;
    job.current = null;
    setProgress(null);
  };
  const isRunning = progress !== null;
  return (
    <Dialog title="Delete many keys" onClose={() => props.onClose(changed)}>
      <div class="row">
        <div class="grow">
          <Field
            label={labelFor("Keys that begin with", props.prefix, true)}
            value={prefix}
            onInput={ask(setPrefix)}
            disabled={isRunning}
          />
        </div>
        <div class="grow">
          <Field
            label="And match"
            value={pattern}
            onInput={ask(setPattern)}
            disabled={isRunning}
            placeholder="any name"
          />
        </div>
        <Choice label="Of type" value={type} options={[["", "all"], ...TYPES]} onChange={ask(setType)} />
      </div>
      <Failure text={error} />
      {isRunning && (
        <p>
          <progress aria-label="Progress" max={100} value={progress} /> {progress.toFixed(0)} %
        </p>
      )}
      {outcome && (
        <div role="status">
          <p>
            {outcome.isDry
              ? `${count(outcome.keys)} keys of ${bytes(outcome.bytes)} would be deleted`
              : `${count(outcome.keys)} keys of ${bytes(outcome.bytes)} were deleted`}
            {outcome.state === "done" ? "." : `: ${outcome.state}.`} It took {duration(outcome.elapsedMs)}.
          </p>
          <p>
            {[...outcome.types].map(([name, it]) => `${typeName(name)}: ${count(numberOf(it))}`).join(", ")}
          </p>
        </div>
      )}
      <div class="row end">
        {isRunning ? (
          <Button
            onClick={() => job.current !== null && void session.call("MANTISSA.JOBS", "STOP", job.current)}
          >
            Stop
          </Button>
        ) : (
          <Button onClick={() => void run(true)}>Dry run</Button>
        )}
        {outcome?.isDry && outcome.state === "done" && outcome.keys > 0 && !isRunning && (
          <Button kind="danger" disabled={session.readOnly.value} onClick={() => void run(false)}>
            Delete {count(outcome.keys)} keys
          </Button>
        )}
      </div>
    </Dialog>
  );
}
