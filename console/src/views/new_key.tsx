// Makes a key of any type that can begin with one element.
import { useState } from "preact/hooks";
import type { Session } from "../session";
import type { Text } from "../text";
import { Button, Choice, Dialog, Failure, Field } from "../ui";

type Making = { words: (key: string, value: string, more: string) => string[]; value: string; more?: string };

/** The command that makes a key of each type, and what its words are called. */
const MAKING: Record<string, Making> = {
  string: { value: "Value", words: (key, value) => ["SET", key, value, "NX"] },
  hash: { more: "Field", value: "Value", words: (key, value, field) => ["HSETNX", key, field, value] },
  list: { value: "First element", words: (key, value) => ["RPUSH", key, value] },
  set: { value: "First member", words: (key, value) => ["SADD", key, value] },
  zset: {
    more: "Score",
    value: "First member",
    words: (key, value, score) => ["ZADD", key, "NX", score || "0", value],
  },
  stream: { more: "Field", value: "Value", words: (key, value, field) => ["XADD", key, "*", field, value] },
  JSON: { value: "Document", words: (key, value) => ["JSON.SET", key, "$", value, "NX"] },
};

export function NewKey(props: { session: Session; onClose: () => void; onMade: (key: Text) => void }) {
  const [type, setType] = useState("string");
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const [more, setMore] = useState("");
  const [error, setError] = useState("");
  const making = MAKING[type]!;
  return (
    <Dialog title="New key" onClose={props.onClose}>
      <form
        class="form"
        onSubmit={async (event) => {
          event.preventDefault();
          try {
            if ((await props.session.call("EXISTS", key)) !== 0)
              throw new Error("A key of this name is there.");
            // Nothing is made if it has come meanwhile.
            const reply = await props.session.call(...making.words(key, value, more));
            if (reply === null || reply === 0) throw new Error("A key of this name is there.");
            props.onMade(key);
          } catch (failure) {
            setError((failure as Error).message);
          }
        }}
      >
        <Field label="Name" value={key} onInput={setKey} />
        <Choice
          label="Type"
          value={type}
          options={Object.keys(MAKING).map((it) => [it, it] as const)}
          onChange={setType}
        />
        {making.more && <Field label={making.more} value={more} onInput={setMore} />}
        <Field label={making.value} value={value} onInput={setValue} lines={4} />
        <Failure text={error} />
        <div class="row end">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button submit kind="main">
            Make
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
