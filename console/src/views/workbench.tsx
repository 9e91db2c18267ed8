// Commands by hand, on a connection of their own: MULTI, SELECT and WATCH hold from one to the next.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { loadCommands, type Command } from "../commands";
import type { Connection } from "../connection";
import { Editor, type Handle } from "../editor";
import type { Session } from "../session";
import { useLoaded, useStore } from "../store";
import { duration, show, type Reply, type Text } from "../text";
import { Button, clock, Dialog } from "../ui";
import { split } from "../words";
import { Result } from "./result";

const RESULTS_MAX = 50;
const HISTORY_MAX = 200;

interface Done {
  id: number;
  line: string;
  at: Date;
  reply?: Reply;
  error?: string;
  ms?: number;
}

/** What answers without end; there is a view for it. */
const ENDLESS = ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "PSYNC", "SYNC"];
/** Lines that may hold secrets are not remembered. */
const SECRET = /^\s*(AUTH|HELLO|ACL|MIGRATE|CONFIG\s+SET|EVAL|SENTINEL)\b/i;

function remembered(): string[] {
  try {
    return JSON.parse(sessionStorage.getItem("console.history") ?? "[]") as string[];
  } catch {
    return [];
  }
}

export function Workbench(props: { session: Session }) {
  const { session } = props;
  const loading = useMemo(() => loadCommands(session).catch(() => new Map<string, Command>()), [session]);
  const commands = useLoaded(() => loading, [session]).value;
  const [done, setDone] = useState<Done[]>([]);
  const [line, setLine] = useState("");
  const [running, setRunning] = useState(false);
  const [inMulti, setInMulti] = useState(false);
  const [past, setPast] = useState(remembered);
  const [isPastOpen, setPastOpen] = useState(false);
  const handle = useRef<Handle | null>(null);
  const connection = useRef<Connection | null>(null);
  const back = useRef(0);
  const nextId = useRef(0);
  const database = useStore(session.database);
  const connect = () => {
    if (connection.current) session.disconnect(connection.current);
    const opened = session.connect();
    opened.onState = () => opened.state === "lost" && setInMulti(false);
    opened.open();
    connection.current = opened;
    setInMulti(false);
  };
  useEffect(() => {
    connect();
    return () => session.disconnect(connection.current!);
  }, [session, database]);
  const remember = (text: string) => {
    back.current = 0;
    if (SECRET.test(text)) return;
    const all = [text, ...past.filter((it) => it !== text)].slice(0, HISTORY_MAX);
    setPast(all);
    sessionStorage.setItem("console.history", JSON.stringify(all));
  };
  const note = (entry: Done) =>
    setDone((before) => [entry, ...before.filter((it) => it.id !== entry.id)].slice(0, RESULTS_MAX));
  const runOne = async (text: string): Promise<boolean> => {
    const entry: Done = { id: nextId.current++, line: text, at: new Date() };
    const began = performance.now();
    try {
      const words: Text[] = split(text);
      const name = show(words[0]).toUpperCase();
      if (ENDLESS.includes(name))
        throw new Error(`${name} does not end: the view Live is for messages and events.`);
      session.check(words);
      note(entry);
      await connection.current!.whenReady();
      const reply = await connection.current!.call(...words);
      if (name === "MULTI") setInMulti(true);
      if (name === "EXEC" || name === "DISCARD" || name === "RESET") setInMulti(false);
      note({ ...entry, reply, ms: performance.now() - began });
      return true;
    } catch (error) {
      note({ ...entry, error: (error as Error).message, ms: performance.now() - began });
      return false;
    }
  };
  const run = async (lines: string[]) => {
    const wanted = lines.filter((it) => it.trim() !== "" && !it.trimStart().startsWith("#"));
    if (running || wanted.length === 0) return;
    remember(wanted[wanted.length - 1]!);
    setRunning(true);
    for (const text of wanted) if (!(await runOne(text))) break;
    setRunning(false);
  };
  const earlier = (step: number) => {
    back.current = Math.max(0, Math.min(past.length, back.current + step));
    handle.current?.insert(back.current === 0 ? "" : past[back.current - 1]!);
  };
  return (
    <>
      <h1>Workbench</h1>
      <Editor
        text={sessionStorage.getItem("console.workbench") ?? ""}
        commands={loading}
        handle={handle}
        onRun={() => void run(handle.current!.chosen())}
        onEarlier={earlier}
        onChange={(text, current) => {
          setLine(current);
          sessionStorage.setItem(
            "console.workbench",
            text
              .split("\n")
              .filter((it) => !SECRET.test(it))
              .join("\n"),
          );
        }}
      />
      <Hint commands={commands} line={line} />
      <div class="row">
        <Button kind="main" disabled={running} onClick={() => void run(handle.current!.chosen())}>
          Run
        </Button>
        <Button disabled={running} onClick={() => void run(handle.current!.lines())}>
          Run all
        </Button>
        {running && <Button onClick={connect}>Stop</Button>}
        <Button onClick={() => setPastOpen(true)}>History</Button>
        <Button onClick={() => setDone([])}>Clear</Button>
        {inMulti && <span class="chip">in a transaction</span>}
        <span class="quiet-text">
          Ctrl+Enter runs the line or what is selected, Alt+↑ brings earlier ones.
        </span>
      </div>
      <div aria-live="polite">
        {done.map((entry) => (
          <section class="panel done" key={entry.id} aria-label={entry.line.slice(0, 100)}>
            <header>
              <code class="name">{entry.line.slice(0, 500)}</code>
              <span class="quiet-text">
                {clock(entry.at)}
                {entry.ms === undefined ? ", running…" : `, ${duration(entry.ms)}`}
              </span>
            </header>
            {entry.error !== undefined && <p class="failure">{entry.error}</p>}
            {entry.reply !== undefined && <Result reply={entry.reply} />}
          </section>
        ))}
      </div>
      {isPastOpen && (
        <Dialog title="History" onClose={() => setPastOpen(false)}>
          {past.length === 0 && <p class="empty">Nothing yet.</p>}
          <ul class="past">
            {past.map((text) => (
              <li>
                <Button
                  kind="quiet"
                  onClick={() => {
                    setPastOpen(false);
                    handle.current?.insert(text);
                  }}
                >
                  {text.slice(0, 200)}
                </Button>
              </li>
            ))}
          </ul>
        </Dialog>
      )}
    </>
  );
}

/** What the command of the line takes. */
function Hint(props: { commands: Map<string, Command> | null; line: string }) {
  const words = props.line.trimStart().toUpperCase().split(/\s+/);
  const command = props.commands?.get(`${words[0]} ${words[1]}`) ?? props.commands?.get(words[0]!);
  return (
    <p class="hint">
      {command ? (
        <>
          <code>
            {command.name} {command.syntax}
          </code>{" "}
          <span>
            {command.summary} {command.complexity}
          </span>
        </>
      ) : (
        " "
      )}
    </p>
  );
}
