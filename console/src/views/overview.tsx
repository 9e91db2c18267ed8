// How the server is doing, live.
import { Chart } from "../chart";
import { part, type Info, type Samples } from "../samples";
import { useStore } from "../store";
import { bytes, count, duration, moment } from "../text";
import { Failure, Panel, Table } from "../ui";

function Figure(props: { name: string; value: string; note?: string }) {
  return (
    <div class="figure">
      <dt>{props.name}</dt>
      <dd>
        {props.value}
        {props.note && <small>{props.note}</small>}
      </dd>
    </div>
  );
}

export function Overview(props: { samples: Samples }) {
  const samples = useStore(props.samples.all);
  const info = useStore(props.samples.info);
  const error = useStore(props.samples.error);
  const last = samples[samples.length - 1];
  const number = (name: string) => Number(info.get(name) ?? 0);
  const x = samples.map((sample) => sample.at);
  const line = (label: string, of: (sample: (typeof samples)[number]) => number | null) => ({
    label,
    values: samples.map(of),
  });
  const looked = number("keyspace_hits") + number("keyspace_misses");
  const keys = [...info].filter(([name]) => /^db\d+$/.test(name));
  const maximum = number("maxmemory");
  return (
    <>
      <h1>Overview</h1>
      <Failure text={error} />
      <dl class="figures">
        <Figure
          name="Commands a second"
          value={last ? count(Math.round(last.commands)) : "–"}
          note={`${count(number("total_commands_processed"))} in all`}
        />
        <Figure
          name="Memory"
          value={bytes(number("used_memory"))}
          note={maximum > 0 ? `of ${bytes(maximum)}` : `peak ${bytes(number("used_memory_peak"))}`}
        />
        {info.has("tier_values") && (
          <Figure
            name="On disk"
            value={bytes(number("tier_value_bytes"))}
            note={`${count(number("tier_values"))} values, ${bytes(number("tier_max_bytes"))} at most`}
          />
        )}
        <Figure
          name="Keys"
          value={count(keys.reduce((sum, [, it]) => sum + Number(part(it, "keys")), 0))}
          note={`${count(number("expired_keys"))} expired, ${count(number("evicted_keys"))} evicted`}
        />
        <Figure
          name="Hit rate"
          note={`${count(looked)} lookups`}
          value={looked > 0 ? `${((100 * number("keyspace_hits")) / looked).toFixed(1)} %` : "–"}
        />
        <Figure
          name="99 % of calls within"
          value={last?.latency ? duration(last.latency[1]) : "–"}
          note="in the last two seconds"
        />
        <Figure
          name="Clients"
          value={count(number("connected_clients"))}
          note={`${count(number("blocked_clients"))} blocked, at most ${count(number("maxclients"))}`}
        />
        <Figure
          name="Up for"
          value={duration(1000 * number("uptime_in_seconds"))}
          note={`${info.get("role") ?? ""}, port ${info.get("tcp_port") ?? ""}`}
        />
        <Figure
          name="Last save"
          value={lastSave(info)}
          note={`${count(number("rdb_changes_since_last_save"))} changes since`}
        />
      </dl>
      <div class="charts">
        <Chart
          label="Commands a second"
          isTime
          x={x}
          format={count}
          lines={[line("commands", (it) => it.commands)]}
        />
        <Chart
          label="Latency"
          isTime
          x={x}
          format={duration}
          lines={[
            line("50 %", (it) => it.latency?.[0] ?? null),
            line("99 %", (it) => it.latency?.[1] ?? null),
            line("99.9 %", (it) => it.latency?.[2] ?? null),
          ]}
        />
        <Chart
          label="Memory"
          isTime
          x={x}
          format={bytes}
          lines={[line("used", (it) => it.used), line("resident", (it) => it.resident)]}
        />
        <Chart
          label="Hit rate"
          isTime
          x={x}
          format={(value) => `${count(value)} %`}
          lines={[line("hits", (it) => it.hits)]}
        />
        <Chart
          label="Network, bytes a second"
          isTime
          x={x}
          format={bytes}
          lines={[line("in", (it) => it.input), line("out", (it) => it.output)]}
        />
        <Chart
          label="Clients"
          isTime
          x={x}
          format={count}
          lines={[line("connected", (it) => it.clients), line("blocked", (it) => it.blocked)]}
        />
        <Chart
          label="Keys removed a second"
          isTime
          x={x}
          format={count}
          lines={[line("expired", (it) => it.expired), line("evicted", (it) => it.evicted)]}
        />
      </div>
      <Panel title="Databases">
        <Table
          label="Databases"
          columns={["Database", "Keys", "With expiry", "Mean time to live"]}
          numeric={[1, 2, 3]}
          empty="All databases are empty."
          rows={keys.map(([name, it]) => [
            name,
            count(Number(part(it, "keys"))),
            count(Number(part(it, "expires"))),
            Number(part(it, "avg_ttl")) > 0 ? duration(Number(part(it, "avg_ttl"))) : "–",
          ])}
        />
      </Panel>
      <Panel title="Commands by calls">
        <Commands info={info} />
      </Panel>
      <Panel title="Replication">
        <Replication info={info} />
      </Panel>
    </>
  );
}

function lastSave(info: Info): string {
  if (info.get("rdb_bgsave_in_progress") === "1") return "under way";
  if (info.get("rdb_last_bgsave_status") === "err") return "failed";
  const at = Number(info.get("rdb_last_save_time") ?? 0);
  return at > 0 ? `${duration(Math.max(1000, Date.now() - 1000 * at))} ago` : "never";
}

function Commands(props: { info: Info }) {
  const rows = [...props.info]
    .filter(([name]) => name.startsWith("cmdstat_"))
    .map(([name, it]) => ({
      name: name.slice("cmdstat_".length),
      calls: Number(part(it, "calls")),
      mean: Number(part(it, "usec_per_call")),
      failed: Number(part(it, "failed_calls")) + Number(part(it, "rejected_calls")),
      latency: props.info.get(`latency_percentiles_usec_${name.slice("cmdstat_".length)}`),
    }))
    .sort((one, other) => other.calls - one.calls)
    .slice(0, 20);
  const time = (text: string) => (text === "" ? "–" : duration(Number(text) / 1000));
  return (
    <Table
      label="Commands by calls"
      numeric={[1, 2, 3, 4, 5, 6]}
      columns={["Command", "Calls", "Mean", "50 %", "99 %", "99.9 %", "Failed"]}
      rows={rows.map((row) => [
        row.name.replace("|", " "),
        count(row.calls),
        duration(row.mean / 1000),
        time(part(row.latency, "p50")),
        time(part(row.latency, "p99")),
        time(part(row.latency, "p99.9")),
        count(row.failed),
      ])}
    />
  );
}

function Replication(props: { info: Info }) {
  const { info } = props;
  const replicas = [...info].filter(([name, it]) => /^slave\d+$/.test(name) && it.includes("ip="));
  return (
    <>
      <p>
        {info.get("role") === "slave"
          ? `A replica of ${info.get("master_host")}:${info.get("master_port")}; the link is ` +
            `${info.get("master_link_status")}.`
          : `A primary with ${replicas.length} replicas.`}{" "}
        {info.get("aof_enabled") === "1" ? "The append-only file is on." : "The append-only file is off."} The
        last dump was written {moment(1000 * Number(info.get("rdb_last_save_time") ?? 0))}.
      </p>
      {replicas.length > 0 && (
        <Table
          label="Replicas"
          columns={["Address", "State", "Offset", "Lag"]}
          numeric={[2, 3]}
          rows={replicas.map(([, it]) => [
            `${part(it, "ip")}:${part(it, "port")}`,
            part(it, "state"),
            part(it, "offset"),
            `${part(it, "lag")} s`,
          ])}
        />
      )}
    </>
  );
}
