// A string: as text, as JSON that is laid out, as bytes, as bits.
import { useState } from "preact/hooks";
import { useLoaded } from "../../store";
import { are, ChangedError, orChanged } from "../../session";
import { bytes, bytesOf, count, editable, labelFor, numberOf, show, typed, type Text } from "../../text";
import { Button, Failure, Tabs } from "../../ui";
import { FormDialog } from "../../form";
import { useWriting, type ValueProps } from "../key";
import { Draft, type Drafted } from "./draft";
import { laidOut, parse } from "./json";

/** Bytes of a value that are asked for at first. */
const BYTES_MAX = 2 << 20;
/** Bytes that are shown in hexadecimal or as bits. */
const DUMPED_MAX = 4096;

type Form = "text" | "json" | "bytes" | "bits";

export function StringValue(props: ValueProps) {
  const { session, name } = props;
  const [limit, setLimit] = useState(BYTES_MAX);
  const [form, setForm] = useState<Form>("text");
  const [draft, setDraft] = useState<Drafted<Text> | null>(null);
  const loaded = useLoaded(async () => {
    const length = numberOf(await session.call("STRLEN", name));
    const text = (await session.call("GETRANGE", name, 0, limit - 1)) as Text;
    return { length, text };
  }, [session, name, limit]);
  const writing = useWriting(props);
  const { value } = loaded;
  if (value === null) return <Failure text={loaded.error} />;
  const isWhole = value.length <= limit;
  const anew = () => {
    setDraft(null);
    loaded.again();
    props.onChange();
  };
  const save = async ({ text, base }: Drafted<Text>) => {
    const what = "The string";
    const edited = typed(text, base);
    if (value.length > BYTES_MAX) {
      // Two of this length need not fit into one message.
      await session.exchange({
        what,
        key: name,
        reads: [["GET", name]],
        isShown: are(base),
        writes: [["SET", name, edited, "KEEPTTL"]],
        onChanged: () => {},
      });
    } else {
      const reply = await orChanged(what, session.call("SET", name, edited, "IFEQ", base, "KEEPTTL"));
      if (reply === null) throw new ChangedError(what);
    }
    anew();
  };
  return (
    <>
      <div class="row">
        <Tabs<Form>
          label="Form"
          value={form}
          onChange={setForm}
          options={[
            ["text", "Text"],
            ["json", "JSON"],
            ["bytes", "Bytes"],
            ["bits", "Bits"],
          ]}
        />
        <span class="quiet-text">{count(value.length)} bytes</span>
        {!isWhole && (
          <Button onClick={() => setLimit(value.length)}>
            Show all: {bytes(limit)} of {bytes(value.length)} are here
          </Button>
        )}
      </div>
      {form === "text" && (
        <Draft
          label={labelFor("Value", draft?.base ?? value.text)}
          value={value.text}
          text={editable(value.text)}
          draft={draft}
          onDraft={setDraft}
          isLoading={loaded.isLoading}
          mayEdit={isWhole && writing}
          onSave={save}
          onAnew={anew}
        />
      )}
      {form === "json" && (
        <pre class="dump" tabIndex={0}>
          {asJson(show(value.text))}
        </pre>
      )}
      {form === "bytes" && (
        <pre class="dump" tabIndex={0}>
          {dump(bytesOf(value.text).subarray(0, DUMPED_MAX))}
        </pre>
      )}
      {form === "bits" && <Bits {...props} text={value.text} length={value.length} again={loaded.again} />}
    </>
  );
}

function asJson(text: string): string {
  try {
    JSON.parse(text);
    return laidOut(parse(text));
  } catch {
    return "This is not JSON.";
  }
}

function dump(data: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = [...data.subarray(at, at + 16)];
    const digits = row
      .map((byte) => byte.toString(16).padStart(2, "0"))
      .join(" ")
      .padEnd(47);
    const letters = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits}  ${letters}`);
  }
  return lines.join("\n");
}

function Bits(props: ValueProps & { text: Text; length: number; again: () => void }) {
  const { session, name } = props;
  const [isAsking, setAsking] = useState(false);
  const ones = useLoaded(() => session.call("BITCOUNT", name), [session, name, props.text]);
  const writing = useWriting(props);
  const data = bytesOf(props.text).subarray(0, DUMPED_MAX);
  const lines: string[] = [];
  for (let at = 0; at < data.length; at += 8) {
    const row = [...data.subarray(at, at + 8)].map((byte) => byte.toString(2).padStart(8, "0"));
    lines.push(`${String(8 * at).padStart(8)}  ${row.join(" ")}`);
  }
  return (
    <>
      <div class="row">
        <span>
          {count(numberOf(ones.value ?? 0))} of {count(8 * props.length)} bits are set
        </span>
        {writing && <Button onClick={() => setAsking(true)}>Set a bit</Button>}
      </div>
      <pre class="dump" tabIndex={0}>
        {lines.join("\n")}
      </pre>
      {isAsking && (
        <FormDialog
          title="Set a bit"
          onClose={() => setAsking(false)}
          asked={[
            { name: "offset", label: "Offset" },
            { name: "bit", label: "0 or 1", value: "1" },
          ]}
          run={async ({ offset, bit }) => {
            await session.call("SETBIT", name, offset!, bit!);
            props.again();
            props.onChange();
          }}
        />
      )}
    </>
  );
}
