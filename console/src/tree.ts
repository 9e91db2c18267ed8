// The keys of a database as a tree of prefixes, level by level from MANTISSA.TREE.
import type { Connection } from "./connection";
import type { Session } from "./session";
import { Store } from "./store";
import { fields, isBytes, numberOf, sameText, show, type Reply, type Text } from "./text";

/** Children that are asked for at once, and children of each of them that come along: those are there when it
 * is opened. */
const CHILDREN_MAX = 1000;
const GRANDCHILDREN_MAX = 10;

export interface Filter {
  pattern: string;
  type: string;
  delimiter: string;
  sort: "KEYS" | "BYTES" | "NAME";
}

export interface Counts {
  keys: number;
  bytes: number;
  expiring: number;
}

export interface Node extends Counts {
  name: Text;
  /** The part of the name that is not the parent's. */
  label: string;
  isPrefix: boolean;
  type: string;
  depth: number;
  parent: Node | null;
  children: Node[] | null;
  /** Keys below it that are in no child that has been asked for. */
  rest: number;
  isOpen: boolean;
  isLoading: boolean;
}

/** A row of the list: a node, or what stands for the children of `of` that have not been asked for. */
export type Row = { node: Node } | { more: Node };

export class Tree {
  readonly changed = new Store(0);
  readonly root: Node;
  rows: Row[] = [];
  active = 0;
  error = "";
  /** Percent of the walk that is under way. */
  progress: number | null = null;
  /** What that walk took. */
  elapsedMs = 0;
  /** When the walk over all keys ended. */
  countedAt = new Date();
  private walker: Connection;
  private client: Reply = null;
  private job: Reply = null;
  private walks = 0;
  private timer = 0;

  constructor(
    private session: Session,
    private filter: Filter,
  ) {
    this.root = emptyNode();
    this.walker = session.connect();
    this.walker.onReady = () =>
      void this.walker.call("CLIENT", "ID").then(
        (id) => (this.client = id),
        () => {},
      );
    this.walker.open();
    this.timer = window.setInterval(() => void this.look(), 400);
    void this.load(this.root);
  }

  close(): void {
    clearInterval(this.timer);
    this.session.disconnect(this.walker);
  }

  /** Asks for the children of a node; those behind the ones that are there, if there are any. */
  async load(node: Node): Promise<void> {
    if (node.isLoading) return;
    node.isLoading = true;
    node.isOpen = true;
    this.walks += 1;
    this.draw();
    try {
      const { pattern, type, delimiter, sort } = this.filter;
      const words: Text[] = ["MANTISSA.TREE", node.name, "DELIMITER", delimiter || ":", "SORT", sort];
      if (pattern !== "") words.push("MATCH", pattern);
      if (type !== "") words.push("TYPE", type);
      words.push("OFFSET", String(node.children?.length ?? 0), "LIMIT", String(CHILDREN_MAX));
      words.push("DEPTH", "2", "BELOW", String(GRANDCHILDREN_MAX));
      await this.walker.whenReady();
      this.take(node, fields(await this.walker.call(...words)));
      this.error = "";
    } catch (error) {
      this.error = (error as Error).message;
    }
    node.isLoading = false;
    this.walks -= 1;
    if (this.walks === 0) this.progress = null;
    this.draw();
  }

  private take(node: Node, reply: Map<string, Reply>): void {
    Object.assign(node, countsOf(reply));
    if (node === this.root) {
      this.elapsedMs = numberOf(reply.get("elapsed-ms"));
      this.countedAt = new Date();
    }
    const found = (reply.get("children") as Reply[]).map((child) => nodeOf(fields(child), node));
    // A new walk may order children otherwise where their counts are equal.
    const before = new Set(node.children?.map((child) => `${child.isPrefix} ${show(child.name)}`));
    const isNew = (child: Node) => !before.has(`${child.isPrefix} ${show(child.name)}`);
    node.children = [...(node.children ?? []), ...found.filter(isNew)];
    // The server's memory for children is bounded: then nothing more comes.
    node.rest = found.length === 0 ? 0 : keysBeside(node);
  }

  toggle(node: Node): void {
    if (node.isOpen) node.isOpen = false;
    else if (node.children === null) void this.load(node);
    else node.isOpen = true;
    this.draw();
  }

  /** Takes a key out that is gone. */
  forget(name: Text): void {
    for (const row of this.rows) {
      if (!("node" in row) || row.node.isPrefix || !sameText(row.node.name, name)) continue;
      const { node } = row;
      node.parent!.children = node.parent!.children!.filter((it) => it !== node);
      for (let above: Node | null = node.parent; above !== null; above = above.parent) {
        above.keys -= 1;
        above.bytes -= node.bytes;
      }
    }
    this.draw();
  }

  stop(): void {
    if (this.job !== null) void this.session.call("MANTISSA.JOBS", "STOP", show(this.job)).catch(() => {});
  }

  move(to: number): void {
    this.active = Math.max(0, Math.min(this.rows.length - 1, to));
    this.changed.set(this.changed.value + 1);
  }

  private async look(): Promise<void> {
    if (this.walks === 0 || this.client === null || !this.session.may("jobs")) return;
    const jobs = await this.session.call("MANTISSA.JOBS", "LIST").catch(() => []);
    const mine = (jobs as Reply[]).map(fields).find((job) => job.get("client") === this.client);
    this.job = mine?.get("id") ?? null;
    this.progress = mine === undefined ? null : numberOf(mine.get("percent"));
    this.changed.set(this.changed.value + 1);
  }

  private draw(): void {
    const rows: Row[] = [];
    const add = (node: Node) => {
      for (const child of node.children ?? []) {
        rows.push({ node: child });
        if (child.isOpen) add(child);
      }
      if (node.children !== null && node.rest > 0) rows.push({ more: node });
    };
    add(this.root);
    this.rows = rows;
    this.active = Math.max(0, Math.min(this.active, rows.length - 1));
    this.changed.set(this.changed.value + 1);
  }
}

function emptyNode(): Node {
  return {
    name: "",
    label: "",
    isPrefix: true,
    type: "",
    depth: 0,
    parent: null,
    children: null,
    rest: 0,
    isOpen: true,
    isLoading: false,
    keys: 0,
    bytes: 0,
    expiring: 0,
  };
}

function countsOf(reply: Map<string, Reply>): Counts {
  const number = (name: string) => numberOf(reply.get(name));
  return { keys: number("keys"), bytes: number("bytes"), expiring: number("expiring") };
}

/** Keys below a node that are in none of its children. */
function keysBeside(node: Node): number {
  return node.keys - (node.children ?? []).reduce((sum, it) => sum + it.keys, 0);
}

function nodeOf(reply: Map<string, Reply>, parent: Node): Node {
  const name = reply.get("name") as Text;
  const above = parent.name;
  const isBelow = !isBytes(name) && !isBytes(above) && name.startsWith(above) && name.length > above.length;
  const node: Node = {
    ...emptyNode(),
    ...countsOf(reply),
    name,
    parent,
    label: isBelow ? name.slice(above.length) : show(name),
    isPrefix: reply.get("kind") === "prefix",
    type: [...fields(reply.get("types")!).keys()][0] ?? "",
    depth: parent.depth + 1,
    isOpen: false,
  };
  const children = reply.get("children");
  if (Array.isArray(children)) {
    node.children = children.map((child) => nodeOf(fields(child), node));
    node.rest = keysBeside(node);
  }
  return node;
}
