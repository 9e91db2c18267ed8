// The keys of the database: a tree of prefixes beside the key that is chosen.
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import type { Session } from "../session";
import { useStore } from "../store";
import { Tree, type Filter, type Row } from "../tree";
import { bytes, count, duration, fields, isBytes, show, type Reply, type Text } from "../text";
import { attempt, Button, Choice, clock, Dialog, Failure, Field, Table, VirtualList } from "../ui";
import { BulkDelete } from "./bulk_delete";
import { TYPES, typeName } from "../value_types";
import { KeyPane } from "./key";
import { NewKey } from "./new_key";

const ROW_HEIGHT = 30;

/** The address of a key within the page. */
export function addressOf(key: Text): string {
  return `#/keys/${isBytes(key) ? `b:${encodeURIComponent(key.base64)}` : `t:${encodeURIComponent(key)}`}`;
}

function keyOfAddress(): Text | null {
  const found = /^#\/keys\/([bt]):(.*)$/s.exec(location.hash);
  if (found === null) return null;
  try {
    const text = decodeURIComponent(found[2]!);
    return found[1] === "b" ? { base64: text } : text;
  } catch {
    return null;
  }
}

export function Keys(props: { session: Session }) {
  // What belongs to another database is not kept.
  const database = useStore(props.session.database);
  return <KeysOf key={database} session={props.session} />;
}

function KeysOf(props: { session: Session }) {
  const { session } = props;
  const [filter, setFilter] = useState<Filter>({ pattern: "", type: "", delimiter: ":", sort: "KEYS" });
  const [typing, setTyping] = useState("");
  const [round, setRound] = useState(0);
  const [chosen, setChosen] = useState<Text | null>(keyOfAddress());
  const [dialog, setDialog] = useState<"" | "new" | "delete" | "big">("");
  const hasTree = session.may("tree");
  const tree = useMemo(() => (hasTree ? new Tree(session, filter) : null), [filter, round]);
  useEffect(() => () => tree?.close(), [tree]);
  useLayoutEffect(() => {
    const go = () => setChosen(keyOfAddress());
    addEventListener("hashchange", go);
    return () => removeEventListener("hashchange", go);
  }, []);
  const open = (key: Text) => {
    location.hash = addressOf(key);
  };
  const close = (wasDeleted: boolean) => {
    if (wasDeleted && chosen !== null) tree?.forget(chosen);
    location.hash = "#/keys";
  };
  return (
    <div class={`keys ${chosen === null ? "" : "has-chosen"}`}>
      <section class="key-list" aria-label="Keys">
        <h1 class="unseen">Keys</h1>
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            setFilter({ ...filter, pattern: typing });
          }}
        >
          <div class="grow">
            <Field
              label="Pattern"
              hidden
              value={typing}
              onInput={setTyping}
              placeholder="Pattern, such as *user*"
              type="search"
            />
          </div>
          <Button submit>Find</Button>
        </form>
        <div class="row">
          <Choice
            label="Type"
            value={filter.type}
            options={[["", "all"], ...TYPES]}
            onChange={(type) => setFilter({ ...filter, type })}
          />
          {tree && (
            <>
              <Choice
                label="Order"
                value={filter.sort}
                options={[
                  ["KEYS", "most keys"],
                  ["BYTES", "most bytes"],
                  ["NAME", "name"],
                ]}
                onChange={(sort) => setFilter({ ...filter, sort })}
              />
              <div class="short">
                <Field
                  label="Delimiter"
                  value={filter.delimiter}
                  onInput={(delimiter) => setFilter({ ...filter, delimiter })}
                />
              </div>
            </>
          )}
        </div>
        <div class="row">
          <Button onClick={() => setRound(round + 1)} label="Ask again">
            ↻
          </Button>
          {session.may("edit string") && <Button onClick={() => setDialog("new")}>New key</Button>}
          {session.may("bigKeys") && <Button onClick={() => setDialog("big")}>Hot, big</Button>}
          {session.may("bulkDelete") && (
            <Button kind="danger" onClick={() => setDialog("delete")}>
              Delete many
            </Button>
          )}
        </div>
        {tree ? (
          <TreeList tree={tree} chosen={chosen} onOpen={open} />
        ) : (
          <ScanList
            key={`${filter.pattern} ${filter.type} ${round}`}
            session={session}
            filter={filter}
            onOpen={open}
          />
        )}
      </section>
      <section class="key-pane" aria-label="Key">
        {chosen === null ? (
          <p class="empty">Choose a key.</p>
        ) : (
          <KeyPane
            key={JSON.stringify(chosen)}
            session={session}
            name={chosen}
            onClose={close}
            onOpen={open}
          />
        )}
      </section>
      {dialog === "new" && (
        <NewKey
          session={session}
          onClose={() => setDialog("")}
          onMade={(key) => {
            setDialog("");
            setRound(round + 1);
            open(key);
          }}
        />
      )}
      {dialog === "delete" && (
        <BulkDelete
          session={session}
          prefix={activePrefix(tree)}
          pattern={filter.pattern}
          type={filter.type}
          onClose={(changed) => {
            setDialog("");
            if (changed) setRound(round + 1);
          }}
        />
      )}
      {dialog === "big" && (
        <HotAndBig
          session={session}
          onClose={() => setDialog("")}
          onOpen={(key) => {
            setDialog("");
            open(key);
          }}
        />
      )}
    </div>
  );
}

/** The prefix of the row that is active. */
function activePrefix(tree: Tree | null): Text {
  const row = tree?.rows[tree.active];
  if (row === undefined) return "";
  const node = "node" in row ? (row.node.isPrefix ? row.node : row.node.parent) : row.more;
  return node?.name ?? "";
}

function TreeList(props: { tree: Tree; chosen: Text | null; onOpen: (key: Text) => void }) {
  const { tree, onOpen } = props;
  useStore(tree.changed);
  const act = (row: Row | undefined) => {
    if (row === undefined) return;
    if ("more" in row) void tree.load(row.more);
    else if (row.node.isPrefix) tree.toggle(row.node);
    else onOpen(row.node.name);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = tree.rows[tree.active];
    const node = row && "node" in row ? row.node : null;
    const moves: Record<string, () => void> = {
      ArrowDown: () => tree.move(tree.active + 1),
      ArrowUp: () => tree.move(tree.active - 1),
      PageDown: () => tree.move(tree.active + 15),
      PageUp: () => tree.move(tree.active - 15),
      Home: () => tree.move(0),
      End: () => tree.move(tree.rows.length - 1),
      Enter: () => act(row),
      " ": () => act(row),
      ArrowRight: () => {
        if (node?.isPrefix && !node.isOpen) tree.toggle(node);
        else tree.move(tree.active + 1);
      },
      ArrowLeft: () => {
        if (node?.isPrefix && node.isOpen) tree.toggle(node);
        else if (node?.parent)
          tree.move(tree.rows.findIndex((it) => "node" in it && it.node === node.parent));
      },
    };
    const move = moves[event.key];
    if (move === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move();
  };
  const walking = tree.progress !== null || tree.root.isLoading;
  return (
    <>
      <p class="summary" aria-live="polite">
        {tree.root.children !== null &&
          `${count(tree.root.keys)} keys, ${bytes(tree.root.bytes)}` +
            ` (counted in ${duration(tree.elapsedMs)}, at ${clock(tree.countedAt)})`}
        {walking && (
          <>
            {" "}
            <progress aria-label="Counting" max={100} value={tree.progress ?? undefined} />
            <Button kind="quiet" onClick={() => tree.stop()}>
              Stop
            </Button>
          </>
        )}
      </p>
      <Failure text={tree.error} />
      <VirtualList
        label="Keys by prefix"
        role="tree"
        length={tree.rows.length}
        rowHeight={ROW_HEIGHT}
        active={tree.active}
        activeId={tree.rows.length > 0 ? `row-${tree.active}` : undefined}
        onKeyDown={onKeyDown}
        row={(at) => (
          <TreeRow
            key={at}
            at={at}
            row={tree.rows[at]!}
            isActive={at === tree.active}
            chosen={props.chosen}
            onClick={() => {
              tree.move(at);
              act(tree.rows[at]);
            }}
          />
        )}
      />
    </>
  );
}

function TreeRow(props: {
  at: number;
  row: Row;
  isActive: boolean;
  chosen: Text | null;
  onClick: () => void;
}) {
  const { row } = props;
  const shared = { id: `row-${props.at}`, role: "treeitem" as const, onClick: props.onClick };
  if ("more" in row) {
    const { more } = row;
    return (
      <div
        {...shared}
        aria-level={more.depth + 1}
        class={`tree-row more ${props.isActive ? "active" : ""}`}
        style={{ paddingLeft: `${8 + 14 * more.depth}px` }}
      >
        {more.isLoading ? "Counting…" : `${count(more.rest)} keys more…`}
      </div>
    );
  }
  const { node } = row;
  const isChosen = !node.isPrefix && JSON.stringify(props.chosen) === JSON.stringify(node.name);
  return (
    <div
      {...shared}
      aria-level={node.depth}
      aria-selected={isChosen}
      aria-expanded={node.isPrefix ? node.isOpen : undefined}
      title={show(node.name).slice(0, 500)}
      class={`tree-row ${props.isActive ? "active" : ""} ${isChosen ? "chosen" : ""}`}
      style={{ paddingLeft: `${8 + 14 * (node.depth - 1)}px` }}
    >
      <span class="arrow" aria-hidden="true">
        {node.isPrefix ? (node.isOpen ? "▾" : "▸") : ""}
      </span>
      <span class="tree-name">{node.label.slice(0, 300)}</span>
      <span class="tree-note">
        {node.isLoading
          ? "counting…"
          : node.isPrefix
            ? `${count(node.keys)} · ${bytes(node.bytes)}`
            : `${typeName(node.type)} · ${bytes(node.bytes)}`}
      </span>
    </div>
  );
}

/** Where the user may not use MANTISSA.TREE: keys in the order of SCAN. */
function ScanList(props: { session: Session; filter: Filter; onOpen: (key: Text) => void }) {
  const { session, filter } = props;
  const [keys, setKeys] = useState<Text[]>([]);
  const [cursor, setCursor] = useState("0");
  const [active, setActive] = useState(0);
  const [error, setError] = useState("");
  const more = async () => {
    try {
      const found = [...keys];
      let next = cursor;
      do {
        const words = ["SCAN", next, "COUNT", "1000"];
        if (filter.pattern !== "") words.push("MATCH", filter.pattern);
        if (filter.type !== "") words.push("TYPE", filter.type);
        const reply = (await session.call(...words)) as [string, Text[]];
        next = show(reply[0]);
        found.push(...reply[1]);
      } while (next !== "0" && found.length < keys.length + 1000);
      setKeys(found);
      setCursor(next === "0" ? "" : next);
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  useEffect(() => void more(), []);
  return (
    <>
      <p class="summary">
        {count(keys.length)} keys
        {cursor !== "" && (
          <Button kind="quiet" onClick={() => void more()}>
            More
          </Button>
        )}
      </p>
      <Failure text={error} />
      <VirtualList
        label="Keys"
        role="listbox"
        length={keys.length}
        rowHeight={ROW_HEIGHT}
        active={active}
        activeId={keys.length > 0 ? `row-${active}` : undefined}
        onKeyDown={(event) => {
          const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[event.key];
          if (step !== undefined) setActive(Math.max(0, Math.min(keys.length - 1, active + step)));
          else if (event.key === "Enter" && keys[active] !== undefined) props.onOpen(keys[active]!);
          else return;
          event.preventDefault();
        }}
        row={(at) => (
          <div
            id={`row-${at}`}
            role="option"
            aria-selected={at === active}
            class={`tree-row ${at === active ? "active" : ""}`}
            onClick={() => {
              setActive(at);
              props.onOpen(keys[at]!);
            }}
          >
            <span class="tree-name">{show(keys[at]).slice(0, 300)}</span>
          </div>
        )}
      />
    </>
  );
}

function HotAndBig(props: { session: Session; onClose: () => void; onOpen: (key: Text) => void }) {
  const { session } = props;
  const [found, setFound] = useState<{ hot: Reply[]; big: Reply[] }>({ hot: [], big: [] });
  useEffect(
    () =>
      void attempt(async () => {
        const [hot, big] = await Promise.all([
          session.call("MANTISSA.KEYS", "HOT", "COUNT", 20),
          session.call("MANTISSA.KEYS", "BIG", "COUNT", 20),
        ]);
        setFound({ hot: hot as Reply[], big: big as Reply[] });
      }),
    [],
  );
  const rows = (list: Reply[]) =>
    list.map(fields).map((it) => [
      Number(it.get("database")) === session.database.value ? (
        <Button kind="quiet" onClick={() => props.onOpen(it.get("key") as Text)}>
          {show(it.get("key")).slice(0, 100)}
        </Button>
      ) : (
        `db${show(it.get("database"))}: ${show(it.get("key")).slice(0, 100)}`
      ),
      typeName(show(it.get("type"))),
      it.has("bytes") ? bytes(Number(it.get("bytes"))) : "",
      [...it]
        .filter(([name]) => !["database", "key", "type", "bytes", "encoding"].includes(name))
        .map(([name, value]) => `${name} ${show(value)}`)
        .join(", "),
    ]);
  const columns = ["Key", "Type", "Bytes", "More"];
  return (
    <Dialog title="Hot and big keys" onClose={props.onClose}>
      <h3>Hot</h3>
      <Table
        label="Hot keys"
        columns={columns}
        rows={rows(found.hot)}
        empty="None were called often enough."
      />
      <h3>Big</h3>
      <Table label="Big keys" columns={columns} rows={rows(found.big)} />
    </Dialog>
  );
}
