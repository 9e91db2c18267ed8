// What INFO and LATENCY HISTOGRAM said, again and again: the overview's rates.
import type { Session } from "./session";
import { Store } from "./store";
import { fields, numberOf, show, type Reply } from "./text";

const SAMPLES_MAX = 300;

/** What happened between two moments, and how things stood at the later one. */
export interface Sample {
  /** Seconds since 1970. */
  at: number;
  commands: number;
  input: number;
  output: number;
  used: number;
  resident: number;
  /** Of keys looked up, those found, in percent; null if none were. */
  hits: number | null;
  clients: number;
  blocked: number;
  evicted: number;
  expired: number;
  /** Milliseconds that 50 %, 99 % and 99.9 % of calls took at most; null if there were none. */
  latency: [number, number, number] | null;
}

export type Info = Map<string, string>;

export function parseInfo(text: string): Info {
  const info: Info = new Map();
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0 && !line.startsWith("#")) info.set(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return info;
}

/** A part of a field such as `keys=1,expires=0`. */
export function part(field: string | undefined, name: string): string {
  const found = (field ?? "").split(",").find((it) => it.startsWith(`${name}=`));
  return found?.slice(name.length + 1) ?? "";
}

/** Calls of all commands by the microseconds that they took at most. */
type Histogram = Map<number, number>;

function histogram(reply: Reply): Histogram {
  const calls: Histogram = new Map();
  for (const [name, command] of fields(reply)) {
    // What the console asks itself would be most of what a quiet server does.
    if (name === "latency|histogram" || name === "info") continue;
    let before = 0;
    for (const [bound, total] of fields(fields(command).get("histogram_usec") ?? null)) {
      calls.set(Number(bound), (calls.get(Number(bound)) ?? 0) + numberOf(total) - before);
      before = numberOf(total);
    }
  }
  return calls;
}

function percentiles(now: Histogram, before: Histogram): [number, number, number] | null {
  const bounds = [...now.keys()].sort((one, other) => one - other);
  const calls = bounds.map((bound) => Math.max(0, now.get(bound)! - (before.get(bound) ?? 0)));
  const total = calls.reduce((sum, it) => sum + it, 0);
  if (total === 0) return null;
  const within = (share: number) => {
    let sum = 0;
    const at = calls.findIndex((it) => (sum += it) >= share * total);
    return bounds[at === -1 ? bounds.length - 1 : at]! / 1000;
  };
  return [within(0.5), within(0.99), within(0.999)];
}

export class Samples {
  readonly all = new Store<Sample[]>([]);
  readonly info = new Store<Info>(new Map());
  readonly error = new Store("");
  private before: { at: number; info: Info; histogram: Histogram } | null = null;
  private isAsking = false;

  constructor(private session: Session) {}

  async take(): Promise<void> {
    if (this.isAsking || this.session.main.state !== "ready") return;
    this.isAsking = true;
    try {
      const calls = this.session.may("histogram")
        ? this.session.call("LATENCY", "HISTOGRAM").catch(() => null)
        : Promise.resolve(null);
      const [text, latencies] = await Promise.all([this.session.call("INFO", "everything"), calls]);
      this.note(performance.now() / 1000, parseInfo(show(text)), histogram(latencies));
      this.error.set("");
    } catch (error) {
      this.error.set((error as Error).message);
    } finally {
      this.isAsking = false;
    }
  }

  private note(at: number, info: Info, calls: Histogram): void {
    const number = (name: string) => Number(info.get(name) ?? 0);
    const before = this.before;
    this.before = { at, info, histogram: calls };
    const restarted = before !== null && before.info.get("run_id") !== info.get("run_id");
    if (before !== null && !restarted && at > before.at) {
      const grown = (name: string) => Math.max(0, number(name) - Number(before.info.get(name) ?? 0));
      const rate = (name: string) => grown(name) / (at - before.at);
      const looked = grown("keyspace_hits") + grown("keyspace_misses");
      const sample: Sample = {
        at: Date.now() / 1000,
        commands: rate("total_commands_processed"),
        input: rate("total_net_input_bytes"),
        output: rate("total_net_output_bytes"),
        used: number("used_memory"),
        resident: number("used_memory_rss"),
        hits: looked > 0 ? (100 * grown("keyspace_hits")) / looked : null,
        clients: number("connected_clients"),
        blocked: number("blocked_clients"),
        evicted: rate("evicted_keys"),
        expired: rate("expired_keys"),
        latency: percentiles(calls, before.histogram),
      };
      this.all.set([...this.all.value.slice(1 - SAMPLES_MAX), sample]);
    }
    this.info.set(info);
  }
}
