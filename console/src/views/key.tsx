// A key: what is true of every key, and below it the view of its type.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Session } from "../session";
import { useLoaded, useStore } from "../store";
import { FormDialog } from "../form";
import {
  bytes,
  duration,
  editable,
  isBytes,
  isEscaped,
  labelFor,
  numberOf,
  show,
  typed,
  type Text,
} from "../text";
import { attempt, Button, confirm, copy, Failure, notify } from "../ui";
import { typeName } from "../value_types";
import { HashValue } from "./values/hash";
import { JsonValue } from "./values/json";
import { ListValue } from "./values/list";
import { SeriesValue } from "./values/series";
import { SetValue } from "./values/set";
import { SketchValue } from "./values/sketch";
import { SortedSetValue } from "./values/sorted_set";
import { StreamValue } from "./values/stream";
import { StringValue } from "./values/string";
import { VectorsValue } from "./values/vectors";

/** What the view of a value is given. */
export interface ValueProps {
  session: Session;
  name: Text;
  type: string;
  /** The value has been changed here. */
  onChange: () => void;
}

interface About {
  type: string;
  ttlMs: number;
  bytes: number | null;
  encoding: string;
}

export function KeyPane(props: {
  session: Session;
  name: Text;
  onClose: (wasDeleted: boolean) => void;
  onOpen: (key: Text) => void;
}) {
  const { session, name } = props;
  const readOnly = useStore(session.readOnly);
  const [dialog, setDialog] = useState<"" | "rename" | "expiry">("");
  const [round, setRound] = useState(0);
  const about = useLoaded<About>(async () => {
    const ask = (...words: Text[]) => session.call(...words).catch(() => null);
    const [type, ttl, size, encoding] = await Promise.all([
      session.call("TYPE", name),
      ask("PTTL", name),
      ask("MEMORY", "USAGE", name),
      ask("OBJECT", "ENCODING", name),
    ]);
    return {
      type: show(type),
      ttlMs: ttl === null ? -1 : numberOf(ttl),
      bytes: size === null ? null : numberOf(size),
      encoding: show(encoding),
    };
  }, [session, name, round]);
  const found = about.value;
  // What was open in the view of another type is gone: that is not to be a riddle.
  const typeBefore = useRef("none");
  const type = found?.type ?? "none";
  useEffect(() => {
    if (typeBefore.current !== "none" && type !== "none" && type !== typeBefore.current)
      notify(`This key has become another: ${typeName(type)}.`, true);
    typeBefore.current = type;
  }, [type]);
  const change = () => about.again();
  const remove = async () => {
    const question = `${show(name).slice(0, 300)}\n\nThe key and its value will be gone.`;
    if (!(await confirm("Delete this key?", question, "Delete"))) return;
    if (await attempt(() => session.call("UNLINK", name), "Deleted")) props.onClose(true);
  };
  return (
    <>
      <header class="key-head">
        <Button kind="quiet" label="Back to the keys" onClick={() => props.onClose(false)}>
          ←
        </Button>
        <h2 class="name">{show(name).slice(0, 1000)}</h2>
        <Button kind="quiet" label="Copy the name" onClick={() => copy(show(name))}>
          Copy
        </Button>
      </header>
      <Failure text={about.error} />
      {found && found.type === "none" && <p class="empty">This key is not there (any more).</p>}
      {found && found.type !== "none" && (
        <>
          <p class="key-facts">
            <span>
              {typeName(found.type)}
              {found.encoding !== "" && ` (${found.encoding})`}
            </span>
            {found.bytes !== null && <span>{bytes(found.bytes)}</span>}
            <span>{found.ttlMs < 0 ? "no expiry" : `expires in ${duration(found.ttlMs)}`}</span>
          </p>
          <div class="row">
            <Button label="Ask again" onClick={() => setRound(round + 1)}>
              ↻
            </Button>
            {session.may("expire") && session.may("exchange") && !readOnly && (
              <Button onClick={() => setDialog("expiry")}>Expiry</Button>
            )}
            {session.may("rename") && !readOnly && (
              <Button onClick={() => setDialog("rename")}>Rename</Button>
            )}
            {session.may("delete") && !readOnly && (
              <Button kind="danger" onClick={() => void remove()}>
                Delete
              </Button>
            )}
          </div>
          <div class="value" key={`${found.type} ${round}`}>
            {valueOf({ session, name, type: found.type, onChange: change })}
          </div>
        </>
      )}
      {dialog === "rename" && (
        <FormDialog
          title="Rename"
          deed="Rename"
          onClose={() => setDialog("")}
          asked={[{ name: "to", label: labelFor("New name", name, true), value: editable(name, true) }]}
          run={async ({ to }) => {
            const target = typed(to!, name, true);
            if ((await session.call("RENAMENX", name, target)) !== 1)
              throw new Error("A key of this name is there.");
            props.onOpen(target);
          }}
        />
      )}
      {dialog === "expiry" && found && (
        <ExpiryDialog
          session={session}
          name={name}
          about={found}
          onClose={() => {
            setDialog("");
            change();
          }}
        />
      )}
    </>
  );
}

function ExpiryDialog(props: { session: Session; name: Text; about: About; onClose: () => void }) {
  const { session, name } = props;
  // What is true of the key later does not change what was shown.
  const [about] = useState(props.about);
  const shown = secondsOf(about.ttlMs);
  return (
    <FormDialog
      title="Expiry"
      onClose={props.onClose}
      asked={[
        {
          name: "seconds",
          label: "Seconds from now on; nothing for no expiry",
          placeholder: "never",
          value: shown,
        },
      ]}
      run={async (words) => {
        const seconds = checkedSeconds(words.seconds!);
        if (seconds === shown) return;
        await session.exchange({
          what: "The key",
          key: name,
          reads: [
            ["TYPE", name],
            ["PTTL", name],
          ],
          isShown: ([type, ttl]) => show(type) === about.type && numberOf(ttl) < 0 === about.ttlMs < 0,
          writes: [seconds === "" ? ["PERSIST", name] : ["EXPIRE", name, seconds]],
          onChanged: () => {},
        });
      }}
    />
  );
}

/** Milliseconds until something expires, less than 0 for never, as seconds in a field. */
export function secondsOf(ttlMs: number): string {
  return ttlMs < 0 ? "" : String(Math.ceil(ttlMs / 1000));
}

/** The seconds of a field. What expires at once would be deleted, and a deletion is to be called one. */
export function checkedSeconds(input: string): string {
  const seconds = input.trim();
  if (seconds !== "" && !(Number(seconds) > 0))
    throw new Error("The expiry must be more than 0 seconds, or nothing.");
  return seconds;
}

function valueOf(props: ValueProps): ComponentChildren {
  switch (props.type) {
    case "string":
      return <StringValue {...props} />;
    case "hash":
      return <HashValue {...props} />;
    case "list":
      return <ListValue {...props} />;
    case "set":
      return <SetValue {...props} />;
    case "zset":
      return <SortedSetValue {...props} />;
    case "stream":
      return <StreamValue {...props} />;
    case "ReJSON-RL":
      return <JsonValue {...props} />;
    case "TSDB-TYPE":
      return <SeriesValue {...props} />;
    case "vectorset":
      return <VectorsValue {...props} />;
    default:
      return <SketchValue {...props} />;
  }
}

/** Text of an element in a table: long text is cut, and whole in the editor. */
export function Cell(props: { text: unknown }) {
  const it = typeof props.text === "string" || isBytes(props.text) ? props.text : show(props.text);
  const text = editable(it);
  return (
    <span class={isEscaped(it) ? "bytes" : ""}>{text.length > 300 ? `${text.slice(0, 300)}…` : text}</span>
  );
}

/** Whether what changes values is offered: not in the read-only mode, and not to users who may not write. */
export function useWriting(props: ValueProps): boolean {
  return !useStore(props.session.readOnly) && props.session.may(`edit ${props.type}`);
}

/** Whether what changes only what was shown is offered, too. */
export function useExchanging(props: ValueProps): boolean {
  return useWriting(props) && props.session.may("exchange");
}
