// Messages of channels and keyspace events, as they come, on a connection of their own.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Connection } from "../connection";
import type { Session } from "../session";
import { useLoaded, useStore } from "../store";
import { count, fields, numberOf, show, type Reply } from "../text";
import { attempt, Button, clock, Failure, Field, Panel, Table } from "../ui";
import { Cell } from "./key";

const SHOWN_MAX = 500;

interface Message {
  at: Date;
  channel: Reply;
  text: Reply;
}

export function Live(props: { session: Session }) {
  const { session } = props;
  const [pattern, setPattern] = useState("*");
  const [following, setFollowing] = useState<string[]>([]);
  const [messages, setMessages] = useState<Message[]>([]);
  const [total, setTotal] = useState(0);
  const [isPaused, setPaused] = useState(false);
  const [error, setError] = useState("");
  const connection = useRef<Connection | null>(null);
  const wanted = useRef(new Set<string>());
  const pending = useRef<Message[]>([]);
  const paused = useRef(false);
  paused.current = isPaused;
  useEffect(() => {
    const opened = session.connect();
    connection.current = opened;
    opened.onReady = () => {
      for (const it of wanted.current)
        opened.call("PSUBSCRIBE", it).catch((failure: Error) => setError(failure.message));
    };
    opened.onPush = (push) => {
      if (push[0] !== "pmessage") return;
      pending.current.push({ at: new Date(), channel: cut(push[2]!), text: cut(push[3]!) });
      // What is not shown is not kept.
      if (pending.current.length > 4 * SHOWN_MAX) pending.current.splice(0, 2 * SHOWN_MAX);
    };
    opened.open();
    // However many come, the page is drawn a few times a second.
    const timer = setInterval(() => {
      const come = pending.current.splice(0);
      if (come.length === 0) return;
      setTotal((before) => before + come.length);
      if (!paused.current) setMessages((before) => [...come.reverse(), ...before].slice(0, SHOWN_MAX));
    }, 200);
    return () => {
      clearInterval(timer);
      session.disconnect(opened);
    };
  }, [session]);
  const follow = async (it: string) => {
    setError("");
    try {
      await connection.current!.whenReady();
      await connection.current!.call("PSUBSCRIBE", it);
      wanted.current.add(it);
      setFollowing([...wanted.current]);
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  const leave = (it: string) => {
    wanted.current.delete(it);
    setFollowing([...wanted.current]);
    connection.current?.call("PUNSUBSCRIBE", it).catch(() => {});
  };
  return (
    <>
      <h1>Live</h1>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void follow(pattern);
        }}
      >
        <Field label="Channels" value={pattern} onInput={setPattern} />
        <Button submit kind="main">
          Subscribe
        </Button>
        <KeyspaceEvents session={session} onFollow={follow} />
      </form>
      <Failure text={error} />
      <div class="row">
        {following.map((it) => (
          <span class="chip">
            {it}{" "}
            <Button kind="quiet" label={`Unsubscribe from ${it}`} onClick={() => leave(it)}>
              ✕
            </Button>
          </span>
        ))}
      </div>
      {session.may("publish") && <Publish session={session} />}
      <Panel
        title="Messages"
        tools={
          <>
            <span class="quiet-text">{count(total)} have come</span>
            <Button pressed={isPaused} onClick={() => setPaused(!isPaused)}>
              Pause
            </Button>
            <Button onClick={() => setMessages([])}>Clear</Button>
          </>
        }
      >
        <Table
          label="Messages"
          columns={["Time", "Channel", "Message"]}
          empty="None have come yet."
          rows={messages.map((it) => [clock(it.at), <Cell text={it.channel} />, <Cell text={it.text} />])}
        />
      </Panel>
      <Channels session={session} />
    </>
  );
}

/** What is kept of a message. */
function cut(text: Reply): Reply {
  const shown = show(text);
  return shown.length > 1000 ? `${shown.slice(0, 1000)}…` : text;
}

/** Events of keys are messages of channels, if the server is set to send them. */
function KeyspaceEvents(props: { session: Session; onFollow: (pattern: string) => void }) {
  const { session } = props;
  const database = useStore(session.database);
  const readOnly = useStore(session.readOnly);
  const loaded = useLoaded(async () => {
    if (!session.may("config")) return null;
    return show(
      fields(await session.call("CONFIG", "GET", "notify-keyspace-events")).get("notify-keyspace-events"),
    );
  }, [session]);
  const follow = <Button onClick={() => props.onFollow(`__keyevent@${database}__:*`)}>Events of keys</Button>;
  if (loaded.value === "" && session.may("configSet") && !readOnly) {
    return (
      <Button
        onClick={() =>
          void attempt(async () => {
            await session.call("CONFIG", "SET", "notify-keyspace-events", "AKE");
            loaded.again();
            props.onFollow(`__keyevent@${database}__:*`);
          }, "notify-keyspace-events is AKE now")
        }
      >
        Turn events of keys on
      </Button>
    );
  }
  return follow;
}

function Publish(props: { session: Session }) {
  const [channel, setChannel] = useState("");
  const [message, setMessage] = useState("");
  const [reached, setReached] = useState("");
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        void attempt(async () => {
          const receivers = numberOf(await props.session.call("PUBLISH", channel, message));
          setReached(`${count(receivers)} have got it`);
        });
      }}
    >
      <Field label="Channel" value={channel} onInput={setChannel} />
      <div class="grow">
        <Field label="Message" value={message} onInput={setMessage} />
      </div>
      <Button submit>Publish</Button>
      <output>{reached}</output>
    </form>
  );
}

function Channels(props: { session: Session }) {
  const { session } = props;
  const loaded = useLoaded(async () => {
    const names = ((await session.call("PUBSUB", "CHANNELS")) as Reply[]).slice(0, 200);
    if (names.length === 0) return [];
    const counts = await session.call("PUBSUB", "NUMSUB", ...names.map((it) => it as string));
    return [...fields(counts)];
  }, [session]);
  return (
    <Panel title="Channels with subscribers" tools={<Button onClick={loaded.again}>↻ Ask again</Button>}>
      <Failure text={loaded.error} />
      <Table
        label="Channels"
        columns={["Channel", "Subscribers"]}
        numeric={[1]}
        rows={(loaded.value ?? []).map(([name, it]) => [name, count(numberOf(it))])}
      />
    </Panel>
  );
}
