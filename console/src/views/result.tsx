// A reply: as text like redis-cli's, as a table, as a chart, where it has the shape.
import { useState } from "preact/hooks";
import { Chart } from "../chart";
import { count, isBytes, isError, jsonOf, numberOf, show, type Reply } from "../text";
import { Table, Tabs } from "../ui";

/** Rows of a table, and lines of text, that are shown. */
const ROWS_MAX = 500;
const TEXT_MAX = 200_000;

interface Grid {
  columns: string[];
  rows: Reply[][];
}

type Form = "text" | "table" | "chart" | "json";

export function Result(props: { reply: Reply }) {
  const { reply } = props;
  const grid = gridOf(reply);
  const plot = plotOf(reply);
  const [form, setForm] = useState<Form>(grid && grid.columns.length > 1 ? "table" : "text");
  const options: [Form, string][] = [["text", "Text"]];
  if (grid) options.push(["table", "Table"]);
  if (plot) options.push(["chart", "Chart"]);
  if (typeof reply === "object" && reply !== null) options.push(["json", "JSON"]);
  return (
    <div class="result">
      {options.length > 1 && (
        <Tabs<Form> label="Form of the result" value={form} options={options} onChange={setForm} />
      )}
      {form === "text" && (
        <pre class="dump" tabIndex={0}>
          {cut(textOf(reply))}
        </pre>
      )}
      {form === "json" && (
        <pre class="dump" tabIndex={0}>
          {cut(jsonOf(reply, 2))}
        </pre>
      )}
      {form === "table" && grid && (
        <>
          <Table
            label="Result"
            columns={grid.columns}
            empty="An empty list."
            rows={grid.rows.slice(0, ROWS_MAX).map((row) => row.map((it) => cellOf(it)))}
          />
          {grid.rows.length > ROWS_MAX && (
            <p class="quiet-text">{count(grid.rows.length - ROWS_MAX)} more rows</p>
          )}
        </>
      )}
      {form === "chart" && plot && (
        <Chart
          label="Result"
          x={plot.x}
          isTime={plot.isTime}
          format={count}
          height={220}
          lines={[{ label: "value", values: plot.y }]}
          hasPoints={plot.x.length < 60}
        />
      )}
    </div>
  );
}

function cut(text: string): string {
  return text.length > TEXT_MAX
    ? `${text.slice(0, TEXT_MAX)}\n… ${count(text.length - TEXT_MAX)} more characters`
    : text;
}

function cellOf(reply: Reply): string {
  const text = isScalar(reply) ? (reply === null ? "(nil)" : show(reply)) : jsonOf(reply);
  return text.length > 500 ? `${text.slice(0, 500)}…` : text;
}

function isScalar(reply: Reply): boolean {
  return reply === null || typeof reply !== "object" || isBytes(reply);
}

/** A reply as redis-cli writes it. */
export function textOf(reply: Reply, indent = ""): string {
  if (reply === null) return "(nil)";
  if (typeof reply === "number" || typeof reply === "bigint") return `(number) ${reply}`;
  if (typeof reply === "boolean") return `(${reply})`;
  if (isError(reply)) return `(error) ${reply.error}`;
  if (typeof reply === "string" || isBytes(reply)) return show(reply);
  const isList = Array.isArray(reply);
  const entries = isList
    ? reply.map((it, at): [string, Reply] => [`${at + 1})`, it])
    : Object.entries(reply).map(([name, it]): [string, Reply] => [`${name} =>`, it]);
  if (entries.length === 0) return isList ? "(empty list)" : "(empty map)";
  return entries
    .map(([name, it], at) => {
      const inner = textOf(it, `${indent}${" ".repeat(name.length + 1)}`);
      return `${at === 0 ? "" : indent}${name} ${inner}`;
    })
    .join("\n");
}

function gridOf(reply: Reply): Grid | null {
  if (reply === null || typeof reply !== "object" || isBytes(reply) || isError(reply)) return null;
  if (!Array.isArray(reply)) {
    return { columns: ["Field", "Value"], rows: Object.entries(reply).map(([name, it]) => [name, it]) };
  }
  if (reply.length === 0) return null;
  const isMap = (it: Reply) =>
    typeof it === "object" && it !== null && !Array.isArray(it) && !isBytes(it) && !isError(it);
  if (reply.every(isMap)) {
    const columns = [...new Set(reply.flatMap((it) => Object.keys(it as object)))];
    return {
      columns,
      rows: reply.map((it) => columns.map((name) => (it as Record<string, Reply>)[name] ?? null)),
    };
  }
  if (isEntries(reply)) return entriesOf(reply);
  const width = Array.isArray(reply[0]) ? reply[0].length : 0;
  if (width > 0 && width < 20 && reply.every((it) => Array.isArray(it) && it.length === width)) {
    return { columns: Array.from({ length: width }, (_, at) => String(at + 1)), rows: reply as Reply[][] };
  }
  return reply.every(isScalar) ? { columns: ["Value"], rows: reply.map((it) => [it]) } : null;
}

function isEntries(reply: Reply[]): boolean {
  return reply.every(
    (it) => Array.isArray(it) && it.length === 2 && /^\d+-\d+$/.test(show(it[0])) && Array.isArray(it[1]),
  );
}

/** Entries of a stream: a column for each field. */
function entriesOf(reply: Reply[]): Grid {
  const maps = reply.map((it) => {
    const [id, flat] = it as [string, Reply[]];
    const row = new Map<string, Reply>([["id", id]]);
    for (let at = 0; at + 1 < flat.length; at += 2) row.set(show(flat[at]), flat[at + 1]!);
    return row;
  });
  const columns = [...new Set(maps.flatMap((row) => [...row.keys()]))].slice(0, 30);
  return { columns, rows: maps.map((row) => columns.map((name) => row.get(name) ?? null)) };
}

interface Plot {
  x: number[];
  y: (number | null)[];
  isTime: boolean;
}

function plotOf(reply: Reply): Plot | null {
  if (!Array.isArray(reply) || reply.length < 2) return null;
  const number = (it: Reply | undefined) => {
    const found = isScalar(it ?? null) && show(it) !== "" ? numberOf(it) : NaN;
    return Number.isFinite(found) ? found : null;
  };
  const pairs = reply.every((it) => Array.isArray(it) && it.length === 2);
  const values = reply.map((it) => number(pairs ? (it as Reply[])[1] : it));
  if (values.every((it) => it === null) || values.filter((it) => it === null).length > values.length / 2)
    return null;
  const first = pairs ? reply.map((it) => number((it as Reply[])[0])) : [];
  const isOrdered = pairs && first.every((it, at) => it !== null && (at === 0 || it > first[at - 1]!));
  if (!isOrdered) return { x: values.map((_, at) => at), y: values, isTime: false };
  const isTime = first[0]! > 1e11;
  return { x: first.map((it) => (isTime ? it! / 1000 : it!)), y: values, isTime };
}
