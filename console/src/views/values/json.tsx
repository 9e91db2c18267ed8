// A JSON document: a tree that opens part by part, and an editor of its text. Numbers keep the text that the
// server has for them: the document is cut into parts here, not parsed into numbers of JavaScript.
import { useState } from "preact/hooks";
import { FormDialog } from "../../form";
import { useLoaded } from "../../store";
import { count, show, stringEnd, type Reply } from "../../text";
import { Button, Failure, Tabs } from "../../ui";
import { useExchanging, type ValueProps } from "../key";
import { Draft, type Drafted } from "./draft";

/** A value of JSON: text for what has no parts. */
type Part = { text: string } | { list: Part[] } | { members: [string, Part][] };

/** Parts of one list or object that are shown at first. */
const SHOWN = 100;

export function JsonValue(props: ValueProps) {
  const { session, name } = props;
  const [tab, setTab] = useState<"tree" | "text">("tree");
  const [draft, setDraft] = useState<Drafted<string> | null>(null);
  const [edited, setEdited] = useState<{ path: string; text: string } | null>(null);
  const writing = useExchanging(props);
  const loaded = useLoaded(async () => show(await session.call("JSON.GET", name)), [session, name]);
  const { value } = loaded;
  if (value === null) return <Failure text={loaded.error} />;
  const anew = () => {
    setDraft(null);
    loaded.again();
    props.onChange();
  };
  const set = (path: string, text: string, read: string[], isShown: (now: Reply) => boolean) =>
    session.exchange({
      what: "The document",
      key: name,
      reads: [["JSON.GET", name, ...read]],
      isShown: ([now]) => isShown(now!),
      writes: [["JSON.SET", name, path, text]],
      onChanged: loaded.again,
    });
  const save = async ({ text, base }: Drafted<string>) => {
    await set("$", text, [], (now) => show(now) === base);
    anew();
  };
  /** Sets a part, which is compared: others may change meanwhile. */
  const setPart = async (path: string, text: string, shown: string) => {
    await set(path, text, [path], (now) => textOf(parse(show(now))) === `[${shown}]`);
    anew();
  };
  return (
    <>
      <div class="row">
        <Tabs
          label="Form"
          value={tab}
          onChange={setTab}
          options={[
            ["tree", "Tree"],
            ["text", "Text"],
          ]}
        />
        <span class="quiet-text">{count(value.length)} characters</span>
      </div>
      {tab === "tree" && (
        <div class="json">
          <JsonPart
            part={parse(value)}
            path="$"
            name="$"
            isOpen
            onEdit={writing ? (path, text) => setEdited({ path, text }) : undefined}
          />
        </div>
      )}
      {tab === "text" && (
        <Draft
          label="Document"
          value={value}
          text={value}
          draft={draft}
          onDraft={setDraft}
          isLoading={loaded.isLoading}
          mayEdit={writing}
          onSave={save}
          onAnew={anew}
        />
      )}
      {edited && (
        <FormDialog
          title={edited.path}
          onClose={() => {
            setEdited(null);
            props.onChange();
          }}
          asked={[{ name: "text", label: "JSON", lines: 8, value: edited.text }]}
          run={({ text }) => setPart(edited.path, text!, edited.text)}
        />
      )}
    </>
  );
}

function JsonPart(props: {
  part: Part;
  path: string;
  name: string;
  isOpen?: boolean;
  onEdit?: (path: string, text: string) => void;
}) {
  const { part, path } = props;
  const [isOpen, setOpen] = useState(props.isOpen ?? false);
  const [shown, setShown] = useState(SHOWN);
  const edit = props.onEdit && (
    <Button kind="quiet" label={`Edit ${path}`} onClick={() => props.onEdit!(path, textOf(part))}>
      ✎
    </Button>
  );
  if ("text" in part) {
    return (
      <div class="json-row">
        <span class="json-name">{props.name}</span>: <span class="json-leaf">{part.text.slice(0, 2000)}</span>
        {edit}
      </div>
    );
  }
  const inner: [string, Part][] = "list" in part ? part.list.map((it, at) => [String(at), it]) : part.members;
  const below = (name: string) => ("list" in part ? `${path}[${name}]` : `${path}[${JSON.stringify(name)}]`);
  return (
    <div>
      <div class="json-row">
        <button type="button" class="json-open" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "▾" : "▸"} <span class="json-name">{props.name}</span>{" "}
          <span class="quiet-text">
            {"list" in part ? `[${count(inner.length)}]` : `{${count(inner.length)}}`}
          </span>
        </button>
        {edit}
      </div>
      {isOpen && (
        <div class="json-inner">
          {inner.slice(0, shown).map(([name, it]) => (
            <JsonPart key={name} part={it} name={name} path={below(name)} onEdit={props.onEdit} />
          ))}
          {inner.length > shown && (
            <Button kind="quiet" onClick={() => setShown(shown + 10 * SHOWN)}>
              {count(inner.length - shown)} more
            </Button>
          )}
        </div>
      )}
    </div>
  );
}

function textOf(part: Part): string {
  if ("text" in part) return part.text;
  if ("list" in part) return `[${part.list.map(textOf).join(",")}]`;
  return `{${part.members.map(([name, it]) => `${JSON.stringify(name)}:${textOf(it)}`).join(",")}}`;
}

/** The text of a part, a line for each of its parts. */
export function laidOut(part: Part, indent = ""): string {
  if ("text" in part) return part.text;
  const [open, close] = "list" in part ? "[]" : "{}";
  const inner = `${indent}  `;
  const lines =
    "list" in part
      ? part.list.map((it) => inner + laidOut(it, inner))
      : part.members.map(([name, it]) => `${inner}${JSON.stringify(name)}: ${laidOut(it, inner)}`);
  return lines.length === 0 ? `${open}${close}` : `${open}\n${lines.join(",\n")}\n${indent}${close}`;
}

/** Cuts the text of a document into its parts. Nesting is kept on a list of its own, however deep it is. */
export function parse(text: string): Part {
  const open: { part: Part; name: string | null }[] = [];
  let whole: Part = { text };
  const add = (part: Part) => {
    const parent = open[open.length - 1];
    if (parent === undefined) whole = part;
    else if ("list" in parent.part) parent.part.list.push(part);
    else if ("members" in parent.part) {
      parent.part.members.push([parent.name ?? "", part]);
      parent.name = null;
    }
  };
  let at = 0;
  while (at < text.length) {
    const sign = text[at]!;
    const parent = open[open.length - 1];
    if (sign === "{" || sign === "[") {
      const part: Part = sign === "{" ? { members: [] } : { list: [] };
      add(part);
      open.push({ part, name: null });
      at += 1;
    } else if (sign === "}" || sign === "]") {
      open.pop();
      at += 1;
    } else if (sign === '"') {
      const end = stringEnd(text, at);
      const string = text.slice(at, end);
      if (parent && "members" in parent.part && parent.name === null)
        parent.name = JSON.parse(string) as string;
      else add({ text: string });
      at = end;
    } else if (/[\s,:]/.test(sign)) {
      at += 1;
    } else {
      const begin = at;
      while (at < text.length && !/[\s,:{}[\]"]/.test(text[at]!)) at += 1;
      add({ text: text.slice(begin, at) });
    }
  }
  return whole;
}
