// Dialogs that ask for a few words and then run a command.
import { useState } from "preact/hooks";
import { Button, Dialog, Failure, Field } from "./ui";

export interface Asked {
  name: string;
  label: string;
  value?: string;
  lines?: number;
  placeholder?: string;
  list?: string[];
}

export function FormDialog<T extends Asked>(props: {
  title: string;
  asked: readonly T[];
  deed?: string;
  onClose: () => void;
  run: (words: Record<string, string>) => Promise<unknown>;
}) {
  const [words, setWords] = useState<Record<string, string>>(
    Object.fromEntries(props.asked.map((it) => [it.name, it.value ?? ""])),
  );
  const [error, setError] = useState("");
  const [isRunning, setRunning] = useState(false);
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <form
        class="form"
        onSubmit={async (event) => {
          event.preventDefault();
          setRunning(true);
          try {
            await props.run(words);
            props.onClose();
          } catch (failure) {
            setError((failure as Error).message);
            setRunning(false);
          }
        }}
      >
        {props.asked.map((it) => (
          <Field
            key={it.name}
            label={it.label}
            value={words[it.name]!}
            lines={it.lines}
            placeholder={it.placeholder}
            list={it.list}
            onInput={(value) => setWords((before) => ({ ...before, [it.name]: value }))}
          />
        ))}
        <Failure text={error} />
        <div class="row end">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button submit kind="main" disabled={isRunning}>
            {props.deed ?? "Save"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
