// A list, page by page.
import { useState } from "preact/hooks";
import type { Word } from "../../connection";
import { FormDialog } from "../../form";
import { are } from "../../session";
import { useLoaded } from "../../store";
import { editable, labelFor, numberOf, show, typed, type Text } from "../../text";
import { attempt, Button, confirm, Failure, Table } from "../../ui";
import { Cell, useExchanging, useWriting, type ValueProps } from "../key";
import { pageOf, Pager } from "./pages";

interface Element {
  at: number;
  value: Text;
}

export function ListValue(props: ValueProps) {
  const { session, name } = props;
  const [from, setFrom] = useState(0);
  const [edited, setEdited] = useState<Element | "LPUSH" | "RPUSH" | null>(null);
  const loaded = useLoaded(async () => {
    const total = numberOf(await session.call("LLEN", name));
    const page = await pageOf(session, name, total);
    const found = (await session.call("LRANGE", name, from, from + page - 1)) as Text[];
    return { total, page, found };
  }, [session, name, from]);
  const writing = useWriting(props);
  const exchanging = useExchanging(props);
  const changed = () => {
    loaded.again();
    props.onChange();
  };
  /** Writes if the element still is at its index. */
  const exchange = ({ at, value }: Element, onChanged: () => void, ...writes: Word[][]) =>
    session.exchange({
      what: "The list",
      key: name,
      reads: [["LINDEX", name, at]],
      isShown: are(value),
      writes,
      onChanged,
    });
  const remove = async (it: Element) => {
    const { at, value } = it;
    const question = `Element ${at}: ${show(value).slice(0, 200)}`;
    if (!(await confirm("Delete this element?", question, "Delete"))) return;
    await attempt(async () => {
      // There is no command for one position: it gets a value that is nowhere else, and that is removed.
      const mark = `deleted-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`;
      await exchange(it, changed, ["LSET", name, at, mark], ["LREM", name, 1, mark]);
      changed();
    }, "Deleted");
  };
  const { value } = loaded;
  if (value === null) return <Failure text={loaded.error} />;
  const element = typeof edited === "string" ? null : edited;
  return (
    <>
      <div class="row">
        <Pager from={from} total={value.total} page={value.page} onMove={setFrom} />
        {writing && <Button onClick={() => setEdited("LPUSH")}>Add in front</Button>}
        {writing && <Button onClick={() => setEdited("RPUSH")}>Add at the end</Button>}
      </div>
      <Table
        label="Elements"
        columns={["Index", "Value", ...(exchanging ? [""] : [])]}
        numeric={[0]}
        rows={value.found.map((it, index) => {
          const at = from + index;
          return [
            at,
            <Cell text={it} />,
            ...(exchanging
              ? [
                  <span class="acts">
                    <Button
                      kind="quiet"
                      label={`Edit element ${at}`}
                      onClick={() => setEdited({ at, value: it })}
                    >
                      ✎
                    </Button>
                    <Button
                      kind="quiet"
                      label={`Delete element ${at}`}
                      onClick={() => void remove({ at, value: it })}
                    >
                      ✕
                    </Button>
                  </span>,
                ]
              : []),
          ];
        })}
      />
      {edited !== null && (
        <FormDialog
          title={element ? `Element ${element.at}` : "New element"}
          onClose={() => {
            setEdited(null);
            props.onChange();
          }}
          asked={[
            {
              name: "value",
              label: labelFor("Value", element?.value ?? ""),
              lines: 8,
              value: editable(element?.value ?? ""),
            },
          ]}
          run={async (words) => {
            const text = typed(words.value!, element?.value ?? null);
            if (element) await exchange(element, loaded.again, ["LSET", name, element.at, text]);
            else await session.call(edited as string, name, text);
            loaded.again();
          }}
        />
      )}
    </>
  );
}
