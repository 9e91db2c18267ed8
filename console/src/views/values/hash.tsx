// A hash: its fields, their values and their expiry.
import { useState } from "preact/hooks";
import { FormDialog } from "../../form";
import { are } from "../../session";
import { duration, editable, labelFor, numberOf, show, typed, type Reply, type Text } from "../../text";
import { attempt, Button, Table } from "../../ui";
import { Cell, checkedSeconds, secondsOf, useExchanging, useWriting, type ValueProps } from "../key";
import { Scanned, useScan } from "./scan";

interface Entry {
  field: Text;
  value: Text;
  ttlMs: number;
}

export function HashValue(props: ValueProps) {
  const { session, name } = props;
  const scan = useScan<Entry>(props, "HSCAN", "HLEN", async (flat) => {
    const found: Entry[] = [];
    for (let at = 0; at + 1 < flat.length; at += 2)
      found.push({ field: flat[at]!, value: flat[at + 1]!, ttlMs: -1 });
    if (found.length === 0) return found;
    const names = found.map((it) => it.field);
    const expiries = await session.call("HPTTL", name, "FIELDS", names.length, ...names).catch(() => []);
    (expiries as Reply[]).forEach((ttl, at) => (found[at]!.ttlMs = numberOf(ttl)));
    return found;
  });
  const [edited, setEdited] = useState<Entry | "new" | null>(null);
  const writing = useWriting(props);
  const exchanging = useExchanging(props);
  const changed = () => {
    scan.again();
    props.onChange();
  };
  const entry = edited === "new" ? null : edited;
  return (
    <>
      <Scanned scan={scan} what="fields" onAdd={exchanging ? () => setEdited("new") : undefined}>
        <Table
          label="Fields"
          columns={["Field", "Value", "Expiry", ...(writing ? [""] : [])]}
          rows={scan.found.map((it) => [
            <Cell text={it.field} />,
            <Cell text={it.value} />,
            it.ttlMs < 0 ? "–" : duration(it.ttlMs),
            ...(writing
              ? [
                  <span class="acts">
                    {exchanging && (
                      <Button
                        kind="quiet"
                        label={`Edit ${show(it.field).slice(0, 60)}`}
                        onClick={() => setEdited(it)}
                      >
                        ✎
                      </Button>
                    )}
                    <Button
                      kind="quiet"
                      label={`Delete ${show(it.field).slice(0, 60)}`}
                      onClick={() =>
                        void attempt(() => session.call("HDEL", name, it.field).then(changed), "Deleted")
                      }
                    >
                      ✕
                    </Button>
                  </span>,
                ]
              : []),
          ])}
        />
      </Scanned>
      {edited !== null && (
        <FormDialog
          title={entry ? "Edit a field" : "New field"}
          onClose={() => {
            setEdited(null);
            props.onChange();
          }}
          asked={[
            ...(entry ? [] : [{ name: "field", label: "Field" }]),
            {
              name: "value",
              label: labelFor("Value", entry?.value ?? ""),
              lines: 8,
              value: editable(entry?.value ?? ""),
            },
            {
              name: "seconds",
              label: "Expiry in seconds; nothing for none",
              value: secondsOf(entry?.ttlMs ?? -1),
            },
          ]}
          run={async (words) => {
            const field = entry?.field ?? words.field!;
            if (entry === null && (await session.call("HEXISTS", name, field)) !== 0)
              throw new Error("This field is there already.");
            const value = typed(words.value!, entry?.value ?? null);
            const seconds = checkedSeconds(words.seconds!);
            // HSET ends the expiry of a field.
            const writes =
              entry && seconds === secondsOf(entry.ttlMs)
                ? [["HSETEX", name, "KEEPTTL", "FIELDS", 1, field, value]]
                : [["HSET", name, field, value]];
            if (seconds !== secondsOf(entry?.ttlMs ?? -1) && seconds !== "")
              writes.push(["HEXPIRE", name, seconds, "FIELDS", 1, field]);
            await session.exchange({
              what: entry ? "The field" : "The hash",
              key: name,
              reads: [["HGET", name, field]],
              isShown: are(entry?.value ?? null),
              writes,
              onChanged: scan.again,
            });
            scan.again();
          }}
        />
      )}
    </>
  );
}
