// Clients that are connected.
import { useState } from "preact/hooks";
import type { Session } from "../session";
import { useEvery, useLoaded, useStore } from "../store";
import { bytes, count, duration, show } from "../text";
import { attempt, Button, Check, confirm, Failure, Field, Table } from "../ui";

const SHOWN_MAX = 500;

/** A line of CLIENT LIST. */
function parse(line: string): Map<string, string> {
  return new Map(
    line.split(" ").map((word): [string, string] => {
      const at = word.indexOf("=");
      return [word.slice(0, at), word.slice(at + 1)];
    }),
  );
}

export function Clients(props: { session: Session }) {
  const { session } = props;
  const readOnly = useStore(session.readOnly);
  const [filter, setFilter] = useState("");
  const [isLive, setLive] = useState(true);
  const loaded = useLoaded(async () => {
    const text = show(await session.call("CLIENT", "LIST"));
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map(parse);
  }, [session]);
  useEvery(2000, () => isLive && loaded.again(), [session, isLive]);
  const kills = session.may("clientKill") && !readOnly;
  const kill = async (client: Map<string, string>) => {
    const question = `${client.get("addr")} ${client.get("name")}, user ${client.get("user")}`;
    if (!(await confirm("Close this connection?", question, "Close it"))) return;
    await attempt(() => session.call("CLIENT", "KILL", "ID", client.get("id")!).then(loaded.again), "Closed");
  };
  const all = loaded.value ?? [];
  const word = filter.toLowerCase();
  const found = all.filter(
    (client) => word === "" || [...client.values()].some((it) => it.toLowerCase().includes(word)),
  );
  return (
    <>
      <h1>Clients</h1>
      <div class="row">
        <Field
          label="Filter"
          hidden
          placeholder="Address, name, user, command"
          value={filter}
          onInput={setFilter}
          type="search"
        />
        <Check label="Live" value={isLive} onChange={setLive} />
        <span class="quiet-text">
          {count(found.length)} of {count(all.length)}
        </span>
      </div>
      <Failure text={loaded.error} />
      <Table
        label="Clients"
        numeric={[0, 4, 5, 8]}
        columns={[
          "Id",
          "Address",
          "Name",
          "User",
          "Age",
          "Idle",
          "Database",
          "Command",
          "Memory",
          ...(kills ? [""] : []),
        ]}
        rows={found.slice(0, SHOWN_MAX).map((client) => {
          const of = (name: string) => client.get(name) ?? "";
          return [
            of("id"),
            of("addr"),
            of("name"),
            of("user"),
            duration(1000 * Number(of("age"))),
            duration(1000 * Number(of("idle"))),
            of("db"),
            of("cmd").replace("|", " "),
            bytes(Number(of("tot-mem"))),
            ...(kills
              ? [
                  <Button kind="quiet" label={`Close client ${of("id")}`} onClick={() => void kill(client)}>
                    ✕
                  </Button>,
                ]
              : []),
          ];
        })}
      />
    </>
  );
}
