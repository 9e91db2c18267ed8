// Who is logged in, what that user may do, and the commands that the views run.
import { CommandError, Connection, LostError, type Login, type Word } from "./connection";
import { Store } from "./store";
import { fields, isError, jsonOf, numberOf, show, type Reply, type Text } from "./text";

/** What the server's settings say of the console. */
export interface About {
  label: string;
}

/** What was to be changed is not what was shown any more. Nothing was written. */
export class ChangedError extends Error {
  constructor(what: string) {
    super(`${what} has changed meanwhile: nothing was written.`);
  }
}

/** The outcome of `work`; that a key has another type now is a ChangedError. */
export async function orChanged<T>(what: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const isOther = error instanceof CommandError && /^WRONGTYPE|wrong Redis type/.test(error.message);
    throw isOther ? new ChangedError(what) : error;
  }
}

/** A change that is made only to what was shown. */
export interface Exchange {
  /** What it changes, as the first words of a sentence. */
  what: string;
  key: Text;
  reads: Word[][];
  /** Whether the replies to `reads` are what was shown. */
  isShown: (replies: Reply[]) => boolean;
  writes: Word[][];
  /** It has changed, and is to be shown anew. */
  onChanged: () => void;
}

/** For `isShown`: whether replies are these. */
export function are(...shown: Reply[]): (replies: Reply[]) => boolean {
  return (replies) => jsonOf(replies) === jsonOf(shown);
}

/** How often an exchange begins anew because others write to the key between its reads and its writes. */
const ROUNDS_MAX = 20;

/** Commands that a view needs to make sense, and those that change something. Their words after the name are
 * arguments that the command would take. */
const ASKED: Record<string, string[]> = {
  tree: ["MANTISSA.TREE", ""],
  bulkDelete: ["MANTISSA.DELETE", "k", "DRYRUN"],
  jobs: ["MANTISSA.JOBS", "LIST"],
  scan: ["SCAN", "0"],
  info: ["INFO"],
  histogram: ["LATENCY", "HISTOGRAM"],
  latency: ["LATENCY", "LATEST"],
  latencyReset: ["LATENCY", "RESET"],
  slowlog: ["SLOWLOG", "GET"],
  slowlogReset: ["SLOWLOG", "RESET"],
  clients: ["CLIENT", "LIST"],
  clientKill: ["CLIENT", "KILL", "ID", "1"],
  config: ["CONFIG", "GET", "*"],
  configSet: ["CONFIG", "SET", "maxmemory", "0"],
  configRewrite: ["CONFIG", "REWRITE"],
  users: ["ACL", "LIST"],
  userSet: ["ACL", "SETUSER", "u"],
  userDelete: ["ACL", "DELUSER", "u"],
  functions: ["FUNCTION", "LIST"],
  functionLoad: ["FUNCTION", "LOAD", "code"],
  functionDelete: ["FUNCTION", "DELETE", "library"],
  save: ["BGSAVE"],
  rewrite: ["BGREWRITEAOF"],
  backup: ["BACKUP", "STATUS"],
  backupList: ["BACKUP", "LIST"],
  backupStart: ["BACKUP", "START"],
  backupSeal: ["BACKUP", "SEAL"],
  backupAbort: ["BACKUP", "ABORT"],
  backupCleanup: ["BACKUP", "CLEANUP"],
  archive: ["MANTISSA.ARCHIVE", "STATUS"],
  archiveNow: ["MANTISSA.ARCHIVE", "NOW"],
  publish: ["PUBLISH", "channel", "message"],
  subscribe: ["PSUBSCRIBE", "*"],
  "edit string": ["SET", "k", "v"],
  "edit hash": ["HSET", "k", "f", "v"],
  "edit list": ["RPUSH", "k", "v"],
  "edit set": ["SADD", "k", "v"],
  "edit zset": ["ZADD", "k", "1", "v"],
  "edit stream": ["XADD", "k", "*", "f", "v"],
  "edit ReJSON-RL": ["JSON.SET", "k", "$", "1"],
  "edit TSDB-TYPE": ["TS.ADD", "k", "1", "1"],
  "edit vectorset": ["VREM", "k", "v"],
  "edit MBbloom--": ["BF.ADD", "k", "v"],
  "edit MBbloomCF": ["CF.ADD", "k", "v"],
  "edit CMSk-TYPE": ["CMS.INCRBY", "k", "v", "1"],
  "edit TopK-TYPE": ["TOPK.ADD", "k", "v"],
  "edit TDIS-TYPE": ["TDIGEST.ADD", "k", "1"],
  delete: ["UNLINK", "k"],
  rename: ["RENAMENX", "k", "l"],
  expire: ["EXPIRE", "k", "1"],
  exchange: ["WATCH", "k"],
  memory: ["MEMORY", "USAGE", "k"],
  bigKeys: ["MANTISSA.KEYS", "BIG"],
};

/** Calls that do nothing, to learn what may be done where there is no other way: each is fast, or has an
 * argument that is refused after the user's rights have been looked at. */
const PROBES: Record<string, string[]> = {
  tree: ["MANTISSA.TREE", "", "LIMIT", "x"],
  bulkDelete: ["MANTISSA.DELETE", "", "DRYRUN", "x"],
  bigKeys: ["MANTISSA.KEYS", "BIG", "COUNT", "x"],
  jobs: ["MANTISSA.JOBS", "LIST"],
  scan: ["SCAN", "0", "COUNT", "1"],
  info: ["INFO", "server"],
  memory: ["MEMORY", "USAGE", ""],
  histogram: ["LATENCY", "HISTOGRAM", "none"],
  latency: ["LATENCY", "LATEST"],
  slowlog: ["SLOWLOG", "LEN"],
  clients: ["CLIENT", "LIST", "ID", "x"],
  config: ["CONFIG", "GET", "none"],
  functions: ["FUNCTION", "LIST", "LIBRARYNAME", "none"],
  backup: ["BACKUP", "STATUS"],
  backupList: ["BACKUP", "LIST"],
  archive: ["MANTISSA.ARCHIVE", "STATUS"],
};

export class Session {
  readonly main: Connection;
  readonly changed = new Store(0);
  readonly readOnly: Store<boolean>;
  readonly database = new Store(0);
  user = "";
  version = "";
  private allowed = new Map<string, boolean>();
  private reads: Set<string> | null = null;
  private further: Connection[] = [];

  constructor(
    private login: Login,
    readonly about: About,
  ) {
    this.readOnly = new Store(about.label !== "" || localStorage.getItem("console.read-only") === "yes");
    this.main = new Connection(login);
    this.main.onState = () => this.changed.set(this.changed.value + 1);
  }

  /** A connection of its own, for commands that wait or belong together. */
  connect(): Connection {
    const connection = new Connection(this.login);
    connection.database = this.database.value;
    this.further.push(connection);
    return connection;
  }

  disconnect(connection: Connection): void {
    connection.close();
    this.further = this.further.filter((other) => other !== connection);
  }

  close(): void {
    for (const connection of [...this.further, this.main]) connection.close();
  }

  /** Runs a command on the main connection. */
  async call(...words: Word[]): Promise<Reply> {
    this.check(words);
    return this.main.call(...words);
  }

  /** Runs a command that waits, on a connection of its own: what the views ask meanwhile is answered. */
  async callApart(...words: Word[]): Promise<Reply> {
    this.check(words);
    return this.apart((connection) => connection.call(...words));
  }

  private async apart<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    // It is not to run at some time later, when the server is back.
    if (this.main.state !== "ready") throw new LostError();
    const connection = this.connect();
    connection.open();
    try {
      await connection.whenReady();
      return await work(connection);
    } finally {
      this.disconnect(connection);
    }
  }

  /** Reads what was shown, and writes if it still is that, in one atomic step: by WATCH, on a connection of its own.
   * Throws ChangedError if it is not. */
  async exchange({ what, key, reads, isShown, writes, onChanged }: Exchange): Promise<Reply[]> {
    for (const words of writes) this.check(words);
    const tries = this.apart(async (connection) => {
      for (let round = 0; round < ROUNDS_MAX; round += 1) {
        const calls = [["WATCH", key], ...reads].map((words) => connection.call(...words));
        const [, ...found] = await Promise.all(calls);
        if (!isShown(found)) break;
        const replies = await transact(connection, writes);
        if (replies !== null) return replies;
      }
      throw new ChangedError(what);
    });
    try {
      return await orChanged(what, tries);
    } catch (error) {
      if (error instanceof ChangedError) onChanged();
      throw error;
    }
  }

  /** In read-only mode, refuses what is not known to read only. */
  check(words: Word[]): void {
    if (!this.readOnly.value || this.isReading(words)) return;
    throw new Error("The console is in its read-only mode: nothing was sent.");
  }

  private isReading(words: Word[]): boolean {
    const name = show(words[0]).toUpperCase();
    const second = show(words[1]).toUpperCase();
    if (ALWAYS.has(name) || ALWAYS.has(`${name}|${second}`)) return true;
    if (name === "MANTISSA.DELETE") return words.some((word) => show(word).toUpperCase() === "DRYRUN");
    const reads = this.reads ?? BASIC_READS;
    return reads.has(name.toLowerCase()) || reads.has(`${name}|${second}`.toLowerCase());
  }

  select(database: number): Promise<Reply> {
    return this.call("SELECT", database).then((reply) => {
      this.main.database = database;
      this.database.set(database);
      return reply;
    });
  }

  setReadOnly(on: boolean): void {
    this.readOnly.set(on);
    localStorage.setItem("console.read-only", on ? "yes" : "no");
  }

  /** Whether the user may do this. */
  may(deed: string): boolean {
    return this.allowed.get(deed) ?? this.allowed.get("otherwise") ?? true;
  }

  /** Learns who is logged in and what that user may. */
  async learn(): Promise<void> {
    this.allowed.clear();
    this.user = show(await this.main.call("ACL", "WHOAMI").catch(() => this.login.user));
    const info = show(await this.main.call("INFO", "server").catch(() => ""));
    this.version = /mantissa_version:(\S+)/.exec(info)?.[1] ?? "";
    const list = await this.main.call("COMMAND", "LIST", "FILTERBY", "ACLCAT", "read").catch(() => null);
    if (Array.isArray(list)) this.reads = new Set(list.map((name) => show(name).toLowerCase()));
    const known = await this.main.call("COMMAND", "INFO", "MANTISSA.DELETE").catch(() => null);
    await this.ask();
    if (Array.isArray(known) && known[0] === null) this.allowed.set("bulkDelete", false);
    this.changed.set(this.changed.value + 1);
  }

  private async ask(): Promise<void> {
    const user = this.user;
    const dry = await this.main.call("ACL", "DRYRUN", user, "PING").then(
      () => true,
      () => false,
    );
    const deeds = Object.entries(ASKED);
    if (dry) {
      const answers = deeds.map(([, words]) => this.main.call("ACL", "DRYRUN", user, ...words));
      const outcomes = await Promise.allSettled(answers);
      outcomes.forEach((outcome, at) => {
        const isAllowed =
          outcome.status === "fulfilled"
            ? show(outcome.value) === "OK" || / key| channel/.test(show(outcome.value))
            : false;
        this.allowed.set(deeds[at]![0], isAllowed);
      });
      return;
    }
    for (const [deed] of deeds) this.allowed.set(deed, false);
    // What is queued is checked and not run: the transaction is given up.
    if (
      await this.main.call("MULTI").then(
        () => true,
        () => false,
      )
    ) {
      const answers = deeds.map(([, words]) => this.main.call(...words));
      const end = this.main.call("DISCARD");
      const outcomes = await Promise.allSettled(answers);
      await end.catch(() => null);
      deeds.forEach(([deed], at) => this.allowed.set(deed, !isDenied(outcomes[at]!)));
    }
    // Some commands are refused in transactions before rights are looked at.
    const outcomes = await Promise.allSettled(Object.values(PROBES).map((words) => this.main.call(...words)));
    Object.keys(PROBES).forEach((deed, at) => this.allowed.set(deed, !isDenied(outcomes[at]!)));
  }

  /** The databases that there are. */
  async databases(): Promise<number> {
    const reply = await this.call("CONFIG", "GET", "databases").catch(() => null);
    const found = numberOf(fields(reply).get("databases") ?? 16);
    return Number.isFinite(found) ? found : 16;
  }
}

/** Runs commands as a transaction; errors of single ones are thrown. `null`: a key that was watched has changed, and none of them ran. */
async function transact(connection: Connection, commands: Word[][]): Promise<Reply[] | null> {
  const calls = [["MULTI"], ...commands, ["EXEC"]].map((words) => connection.call(...words));
  const outcomes = await Promise.allSettled(calls);
  for (const outcome of outcomes.slice(0, -1)) if (outcome.status === "rejected") throw outcome.reason;
  const replies = (await calls[calls.length - 1]) as Reply[] | null;
  for (const reply of replies ?? []) if (isError(reply)) throw new Error(reply.error);
  return replies;
}

/** Commands of the category `read` that the views use, for users who may not ask which there are. */
const BASIC_READS = new Set(
  (
    "get strlen getrange bitcount type pttl exists scan hlen hscan hpttl llen lrange lindex scard sscan zcard zrange " +
    "xlen xrange xrevrange json.get ts.info ts.range vinfo vcard vrandmember vsim vemb vgetattr bf.info bf.exists " +
    "cf.info cf.count cms.info cms.query topk.info topk.list topk.query tdigest.info tdigest.quantile tdigest.cdf"
  ).split(" "),
);

/** Whether the command is not allowed; other keys or channels may be. */
function isDenied(outcome: PromiseSettledResult<Reply>): boolean {
  const text = outcome.status === "rejected" ? String(outcome.reason.message) : "";
  return text.startsWith("NOPERM") && !/ key| channel/.test(text);
}

/** What changes nothing, beside the commands of the category `read`. */
const ALWAYS = new Set([
  "AUTH",
  "HELLO",
  "PING",
  "ECHO",
  "SELECT",
  "INFO",
  "COMMAND",
  "TIME",
  "LASTSAVE",
  "DBSIZE",
  "LOLWUT",
  "ROLE",
  "MULTI",
  "EXEC",
  "DISCARD",
  "WATCH",
  "UNWATCH",
  "RESET",
  "WAIT",
  "MEMORY|USAGE",
  "MEMORY|STATS",
  "MEMORY|DOCTOR",
  "CLIENT|ID",
  "CLIENT|LIST",
  "CLIENT|INFO",
  "CLIENT|GETNAME",
  "CLIENT|SETNAME",
  "CLIENT|SETINFO",
  "CONFIG|GET",
  "CONFIG|HELP",
  "SLOWLOG|GET",
  "SLOWLOG|LEN",
  "LATENCY|LATEST",
  "LATENCY|HISTORY",
  "LATENCY|HISTOGRAM",
  "LATENCY|DOCTOR",
  "LATENCY|GRAPH",
  "ACL|WHOAMI",
  "ACL|LIST",
  "ACL|USERS",
  "ACL|GETUSER",
  "ACL|CAT",
  "ACL|DRYRUN",
  "ACL|LOG",
  "FUNCTION|LIST",
  "FUNCTION|STATS",
  "FUNCTION|DUMP",
  "SCRIPT|EXISTS",
  "OBJECT|ENCODING",
  "OBJECT|FREQ",
  "OBJECT|IDLETIME",
  "OBJECT|REFCOUNT",
  "PUBSUB|CHANNELS",
  "PUBSUB|NUMSUB",
  "PUBSUB|NUMPAT",
  "SUBSCRIBE",
  "PSUBSCRIBE",
  "SSUBSCRIBE",
  "UNSUBSCRIBE",
  "PUNSUBSCRIBE",
  "SUNSUBSCRIBE",
  "XINFO|STREAM",
  "XINFO|GROUPS",
  "XINFO|CONSUMERS",
  "MANTISSA.TREE",
  "MANTISSA.JOBS",
  "MANTISSA.KEYS",
  "BACKUP|STATUS",
  "BACKUP|LIST",
  "MANTISSA.ARCHIVE|STATUS",
  "MANTISSA.ARCHIVE|LIST",
  "EVAL_RO",
  "EVALSHA_RO",
  "FCALL_RO",
]);
