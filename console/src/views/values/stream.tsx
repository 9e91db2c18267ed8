// A stream: its entries, newest first, and its groups with their consumers.
import { useState } from "preact/hooks";
import { FormDialog } from "../../form";
import { useLoaded } from "../../store";
import { count, duration, fields, numberOf, show, type Reply, type Text } from "../../text";
import { attempt, Button, confirm, Failure, Table, Tabs } from "../../ui";
import { Cell, useWriting, type ValueProps } from "../key";
import { pageOf } from "./pages";

type Entry = [string, Text[]];

export function StreamValue(props: ValueProps) {
  const [tab, setTab] = useState<"entries" | "groups">("entries");
  return (
    <>
      <div class="row">
        <Tabs
          label="Part"
          value={tab}
          onChange={setTab}
          options={[
            ["entries", "Entries"],
            ["groups", "Groups"],
          ]}
        />
      </div>
      {tab === "entries" ? <Entries {...props} /> : <Groups {...props} />}
    </>
  );
}

function Entries(props: ValueProps) {
  const { session, name } = props;
  const [before, setBefore] = useState("+");
  const [isAdding, setAdding] = useState(false);
  const loaded = useLoaded(async () => {
    const total = numberOf(await session.call("XLEN", name));
    const page = await pageOf(session, name, total);
    const found = (await session.call("XREVRANGE", name, before, "-", "COUNT", page)) as Entry[];
    return { total, page, found };
  }, [session, name, before]);
  const writing = useWriting(props);
  const changed = () => {
    loaded.again();
    props.onChange();
  };
  const remove = async (id: string) => {
    if (!(await confirm("Delete this entry?", id, "Delete"))) return;
    await attempt(() => session.call("XDEL", name, id).then(changed), "Deleted");
  };
  const { value } = loaded;
  if (value === null) return <Failure text={loaded.error} />;
  const last = value.found[value.found.length - 1];
  return (
    <>
      <div class="row">
        <span class="quiet-text">{count(value.total)} entries, newest first</span>
        {before !== "+" && <Button onClick={() => setBefore("+")}>Newest</Button>}
        {value.found.length === value.page && (
          <Button onClick={() => setBefore(`(${last![0]}`)}>Older</Button>
        )}
        {writing && <Button onClick={() => setAdding(true)}>Add</Button>}
      </div>
      <Table
        label="Entries"
        columns={["Id", "Fields", ...(writing ? [""] : [])]}
        rows={value.found.map(([id, words]) => [
          id,
          <Pairs words={words} />,
          ...(writing
            ? [
                <Button kind="quiet" label={`Delete ${id}`} onClick={() => void remove(id)}>
                  ✕
                </Button>,
              ]
            : []),
        ])}
      />
      {isAdding && (
        <FormDialog
          title="New entry"
          deed="Add"
          onClose={() => setAdding(false)}
          asked={[
            { name: "id", label: "Id", value: "*" },
            { name: "fields", label: "Fields: a line for each, as name=value", lines: 6 },
          ]}
          run={async (words) => {
            const pairs = words
              .fields!.split("\n")
              .filter((line) => line !== "")
              .map((line) => {
                const at = line.indexOf("=");
                if (at < 0) throw new Error(`There is no = in: ${line}`);
                return [line.slice(0, at), line.slice(at + 1)];
              });
            await session.call("XADD", name, words.id!, ...pairs.flat());
            changed();
          }}
        />
      )}
    </>
  );
}

function Pairs(props: { words: Text[] }) {
  const pairs = [];
  for (let at = 0; at + 1 < props.words.length; at += 2) {
    pairs.push(
      <div>
        <b>
          <Cell text={props.words[at]} />
        </b>{" "}
        = <Cell text={props.words[at + 1]} />
      </div>,
    );
  }
  return <>{pairs}</>;
}

function Groups(props: ValueProps) {
  const { session, name } = props;
  const [isAdding, setAdding] = useState(false);
  const loaded = useLoaded(async () => {
    const groups = ((await session.call("XINFO", "GROUPS", name)) as Reply[]).map(fields);
    const consumers = await Promise.all(
      groups.map((group) => session.call("XINFO", "CONSUMERS", name, group.get("name") as Text)),
    );
    return groups.map((group, at) => ({ group, consumers: (consumers[at] as Reply[]).map(fields) }));
  }, [session, name]);
  const writing = useWriting(props);
  const changed = () => {
    loaded.again();
    props.onChange();
  };
  const remove = async (group: Text) => {
    const question = `${show(group)}\n\nWhat its consumers have not confirmed is forgotten.`;
    if (!(await confirm("Delete this group?", question, "Delete"))) return;
    await attempt(() => session.call("XGROUP", "DESTROY", name, group).then(changed), "Deleted");
  };
  return (
    <>
      <Failure text={loaded.error} />
      {writing && (
        <div class="row">
          <Button onClick={() => setAdding(true)}>New group</Button>
        </div>
      )}
      {loaded.value?.length === 0 && <p class="empty">There are no groups.</p>}
      {loaded.value?.map(({ group, consumers }) => (
        <section>
          <h3>
            <Cell text={group.get("name")} />{" "}
            {writing && (
              <Button
                kind="quiet"
                label={`Delete ${show(group.get("name"))}`}
                onClick={() => void remove(group.get("name") as Text)}
              >
                ✕
              </Button>
            )}
          </h3>
          <p>
            {count(numberOf(group.get("pending")))} pending, lag {show(group.get("lag")) || "unknown"}, last
            delivered {show(group.get("last-delivered-id"))}
          </p>
          <Table
            label={`Consumers of ${show(group.get("name"))}`}
            columns={["Consumer", "Pending", "Idle"]}
            numeric={[1, 2]}
            empty="No consumers."
            rows={consumers.map((it) => [
              <Cell text={it.get("name")} />,
              count(numberOf(it.get("pending"))),
              duration(numberOf(it.get("idle"))),
            ])}
          />
        </section>
      ))}
      {isAdding && (
        <FormDialog
          title="New group"
          deed="Make"
          onClose={() => setAdding(false)}
          asked={[
            { name: "group", label: "Name" },
            { name: "id", label: "Delivers what comes after", value: "$" },
          ]}
          run={async ({ group, id }) => {
            await session.call("XGROUP", "CREATE", name, group!, id!);
            changed();
          }}
        />
      )}
    </>
  );
}
