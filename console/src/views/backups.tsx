// The backup that BACKUP makes of the running server: how far it is, its files, and what can be done with it.
import { useState } from "preact/hooks";
import type { Session } from "../session";
import { useEvery, useLoaded, useStore } from "../store";
import { fields, moment, numberOf, show, type Reply } from "../text";
import { attempt, Button, confirm, Failure, Panel, Table } from "../ui";

interface Backup {
  state: string;
  error: string;
  /** Unix times in ms; 0 if it has not begun, or is not sealed. */
  beganMs: number;
  sealedMs: number;
  files: string[];
  settings: Map<string, Reply>;
}

interface Deed {
  /** The subcommand of BACKUP. */
  word: string;
  /** The right to it, as `Session.may` knows it. */
  right: string;
  name: string;
  /** The states in which the server accepts it. */
  states: string[];
  done: string;
  /** What is asked first, where something is thrown away. */
  question?: (backup: Backup) => [title: string, text: string];
}

const DEEDS: Deed[] = [
  {
    word: "START",
    right: "backupStart",
    name: "Start",
    states: ["idle", "failed"],
    done: "A backup has begun",
  },
  {
    word: "SEAL",
    right: "backupSeal",
    name: "Seal",
    states: ["incrementing"],
    done: "The backup is sealed",
  },
  {
    word: "ABORT",
    right: "backupAbort",
    name: "Abort",
    states: ["pending", "snapshotting", "incrementing"],
    done: "The backup was aborted",
    question: () => ["Abort the backup?", "The files that it has so far are removed."],
  },
  {
    word: "CLEANUP",
    right: "backupCleanup",
    name: "Clean up",
    states: ["sealed", "failed"],
    done: "The backup was removed",
    question: ({ files }) => ["Remove the backup?", ["Its files are removed.", ...files].join("\n")],
  },
];

/** What a state means, and what comes next. */
const MEANINGS: Record<string, string> = {
  idle: "There is no backup. Start begins one.",
  pending: "It waits for a dump or rewrite that is under way.",
  snapshotting: "Its base is being written.",
  incrementing:
    "It follows what is written. Its base may be copied; Seal completes it with the data of that moment.",
  sealed: "It is complete. Copy its files to where backups are kept, then clean up.",
  failed: "Its files are removed. Start begins another one.",
};

async function load(session: Session): Promise<Backup> {
  const [status, files, settings] = await Promise.all([
    session.call("BACKUP", "STATUS").then(fields),
    session.may("backupList") ? session.call("BACKUP", "LIST") : [],
    session.call("CONFIG", "GET", "dir", "backupdirname", "backup-sealed-ttl").catch(() => null),
  ]);
  return {
    state: show(status.get("state")),
    error: show(status.get("error")),
    beganMs: 1000 * numberOf(status.get("start_time")),
    sealedMs: 1000 * numberOf(status.get("end_time")),
    files: (files as Reply[]).map(show),
    settings: fields(settings),
  };
}

function facts({ state, error, beganMs, sealedMs, settings }: Backup): [string, string][] {
  const rows: [string, string][] = [["State", error === "" ? state : `${state}: ${error}`]];
  if (beganMs > 0) rows.push(["Begun", moment(beganMs)]);
  if (sealedMs > 0) rows.push(["Sealed", moment(sealedMs)]);
  if (settings.size > 0) {
    const keptMs = 1000 * numberOf(settings.get("backup-sealed-ttl"));
    if (sealedMs > 0) rows.push(["Kept until", keptMs > 0 ? moment(sealedMs + keptMs) : "it is cleaned up"]);
    rows.push(["Folder", `${show(settings.get("dir"))}/${show(settings.get("backupdirname"))}`]);
  }
  return rows;
}

export function Backups(props: { session: Session }) {
  const { session } = props;
  const readOnly = useStore(session.readOnly);
  const [running, setRunning] = useState<string[]>([]);
  const loaded = useLoaded(() => load(session), [session]);
  useEvery(2000, loaded.again, [session]);
  const backup = loaded.value;
  const run = async ({ word, name, done, question }: Deed) => {
    if (question && !(await confirm(...question(backup!), name))) return;
    setRunning((before) => [...before, word]);
    await attempt(() => session.callApart("BACKUP", word), done);
    setRunning((before) => before.filter((it) => it !== word));
    loaded.again();
  };
  return (
    <Panel
      title="Backups"
      tools={
        !readOnly &&
        DEEDS.filter((deed) => session.may(deed.right)).map((deed) => (
          <Button
            kind={deed.question ? "danger" : "plain"}
            disabled={!deed.states.includes(backup?.state ?? "") || running.includes(deed.word)}
            onClick={() => void run(deed)}
          >
            {deed.name}
          </Button>
        ))
      }
    >
      <Failure text={loaded.error} />
      {backup && (
        <>
          <Table label="Backup" columns={["Field", "Value"]} rows={facts(backup)} />
          {backup.files.length > 0 && (
            <Table label="Files of the backup" columns={["File"]} rows={backup.files.map((it) => [it])} />
          )}
          <p class="quiet-text">{MEANINGS[backup.state]}</p>
        </>
      )}
    </Panel>
  );
}
