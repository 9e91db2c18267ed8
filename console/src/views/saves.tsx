// What is written to disk: dumps, the append-only file, a backup, and snapshots in an archive.
import { parseInfo } from "../samples";
import type { Session } from "../session";
import { useEvery, useLoaded, useStore } from "../store";
import { bytes, count, duration, fields, moment, numberOf, show, type Reply } from "../text";
import { attempt, Button, Failure, Panel, Table } from "../ui";
import { Backups } from "./backups";

type Found = Map<string, Reply>;

export function Saves(props: { session: Session }) {
  const { session } = props;
  const readOnly = useStore(session.readOnly);
  const loaded = useLoaded(async () => {
    const [info, settings, archive, snapshots] = await Promise.all([
      session.call("INFO", "persistence"),
      session.call("CONFIG", "GET", "save", "dir", "dbfilename", "append*", "archive-*").catch(() => null),
      session.may("archive") ? session.call("MANTISSA.ARCHIVE", "STATUS").catch(() => null) : null,
      session.may("archive") ? session.call("MANTISSA.ARCHIVE", "LIST", "100").catch(() => null) : null,
    ]);
    return {
      info: parseInfo(show(info)),
      settings: settings === null ? null : fields(settings),
      archive: archive === null ? null : fields(archive),
      snapshots: Array.isArray(snapshots) ? snapshots.map(fields) : [],
    };
  }, [session]);
  useEvery(2000, loaded.again, [session]);
  const of = (name: string) => loaded.value?.info.get(name) ?? "";
  // Of settings that this user may not read nothing is known.
  const settings = loaded.value?.settings;
  const setting = (name: string) => show(settings?.get(name)) || "–";
  const path = (folder: string, name: string) =>
    settings?.has(folder) && settings.has(name) ? `${setting(folder)}/${setting(name)}` : "–";
  const isSaving = of("rdb_bgsave_in_progress") === "1";
  const isRewriting = of("aof_rewrite_in_progress") === "1" || of("aof_rewrite_scheduled") === "1";
  const took = (seconds: string) => (Number(seconds) < 0 ? "–" : duration(1000 * Number(seconds)));
  return (
    <>
      <h1>Saves</h1>
      <Failure text={loaded.error} />
      <Panel
        title="Dump"
        tools={
          session.may("save") &&
          !readOnly && (
            <Button
              disabled={isSaving}
              onClick={() =>
                void attempt(() => session.call("BGSAVE").then(loaded.again), "A save has begun")
              }
            >
              Save now
            </Button>
          )
        }
      >
        <Table
          label="Dump"
          columns={["Field", "Value"]}
          rows={[
            [
              "State",
              isSaving
                ? `under way for ${took(of("rdb_current_bgsave_time_sec"))}`
                : of("rdb_last_bgsave_status"),
            ],
            ["Last", moment(1000 * Number(of("rdb_last_save_time")))],
            ["Took", took(of("rdb_last_bgsave_time_sec"))],
            ["Changes since", count(Number(of("rdb_changes_since_last_save")))],
            ["Save points", settings?.get("save") === "" ? "none" : setting("save")],
            ["File", path("dir", "dbfilename")],
          ]}
        />
      </Panel>
      <Panel
        title="Append-only file"
        tools={
          of("aof_enabled") === "1" &&
          session.may("rewrite") &&
          !readOnly && (
            <Button
              disabled={isRewriting}
              onClick={() =>
                void attempt(() => session.call("BGREWRITEAOF").then(loaded.again), "A rewrite has begun")
              }
            >
              Rewrite now
            </Button>
          )
        }
      >
        <Table
          label="Append-only file"
          columns={["Field", "Value"]}
          rows={
            of("aof_enabled") !== "1"
              ? [["State", "off"]]
              : [
                  ["State", isRewriting ? "being rewritten" : `writes ${of("aof_last_write_status")}`],
                  [
                    "Last rewrite",
                    `${of("aof_last_bgrewrite_status")}, took ${took(of("aof_last_rewrite_time_sec"))}`,
                  ],
                  [
                    "Size",
                    `${bytes(Number(of("aof_current_size")))}, ${bytes(Number(of("aof_base_size")))} after the last rewrite`,
                  ],
                  ["Synced", setting("appendfsync")],
                  ["Folder", path("dir", "appenddirname")],
                ]
          }
        />
      </Panel>
      {session.may("backup") && <Backups session={session} />}
      {loaded.value?.archive && (
        <ArchivePanel
          session={session}
          status={loaded.value.archive}
          settings={loaded.value.settings}
          snapshots={loaded.value.snapshots}
          again={loaded.again}
        />
      )}
    </>
  );
}

/** Snapshots of the whole data in an archive, and the log between them. */
function ArchivePanel(props: {
  session: Session;
  status: Found;
  settings: Found | null;
  snapshots: Found[];
  again: () => void;
}) {
  const { session, status, settings, snapshots } = props;
  const readOnly = useStore(session.readOnly);
  const state = show(status.get("state"));
  const log = show(status.get("log"));
  const number = (name: string) => numberOf(status.get(name));
  const failure = (error: string) => (error === "" ? "" : `: ${error}`);
  const schedule = show(settings?.get("archive-schedule")) || "–";
  const rows: [string, string][] = [["State", `${state}${failure(show(status.get("error")))}`]];
  if (state !== "off") {
    rows.push(
      ["Archive", show(settings?.get("archive-url")) || "–"],
      ["Schedule", settings?.get("archive-schedule") === "" ? "none" : schedule],
      ["Next", number("next-time-ms") > 0 ? moment(number("next-time-ms")) : "–"],
      ["Snapshots", count(number("snapshots"))],
      ["Last", moment(number("last-time-ms"))],
    );
    if (number("last-time-ms") > 0) {
      rows.push(
        ["Name", show(status.get("snapshot"))],
        ["Took", duration(number("duration-ms"))],
        ["Keys", count(number("keys"))],
        [
          "Size",
          `${bytes(number("bytes"))}, ${bytes(number("new-bytes"))} of them new, ` +
            `${bytes(number("stored-bytes"))} written`,
        ],
      );
    }
    rows.push(["Log", `${log}${failure(show(status.get("log-error")))}`]);
    if (number("log-stored-ms") > 0) rows.push(["Log reaches to", moment(number("log-stored-ms"))]);
  }
  return (
    <Panel
      title="Archive"
      tools={
        state !== "off" &&
        session.may("archiveNow") &&
        !readOnly && (
          <Button
            disabled={state === "running"}
            onClick={() =>
              void attempt(
                () => session.call("MANTISSA.ARCHIVE", "NOW").then(props.again),
                "A snapshot has begun",
              )
            }
          >
            Snapshot now
          </Button>
        )
      }
    >
      <Table label="Archive" columns={["Field", "Value"]} rows={rows} />
      {snapshots.length > 0 && <Snapshots snapshots={snapshots} all={number("snapshots")} />}
      {state === "off" && <p class="quiet-text">The settings archive-url and archive-schedule turn it on.</p>}
    </Panel>
  );
}

/** What is in the archive, the newest first. */
function Snapshots(props: { snapshots: Found[]; all: number }) {
  const { snapshots, all } = props;
  const rows = snapshots.map((snapshot) => {
    const number = (name: string) => numberOf(snapshot.get(name));
    const error = show(snapshot.get("error"));
    const name = show(snapshot.get("name"));
    if (error !== "") return ["–", name, error, "", "", "", ""];
    return [
      moment(number("time-ms")),
      name,
      show(snapshot.get("tag")),
      count(number("keys")),
      bytes(number("bytes")),
      bytes(number("new-bytes")),
      bytes(number("stored-bytes")),
    ];
  });
  return (
    <>
      <Table
        label="Snapshots"
        columns={["Time", "Name", "Tag", "Keys", "Size", "New", "Stored"]}
        rows={rows}
        numeric={[3, 4, 5, 6]}
      />
      {all > snapshots.length && <p class="quiet-text">Older ones: mantissa archive list.</p>}
    </>
  );
}
