// A value as text that is edited, and saved or left as it was.
import { useEffect, useState } from "preact/hooks";
import { ChangedError } from "../../session";
import { Button, Failure, Field, notify } from "../../ui";

/** What a value is to become, and what the server had when that was begun. */
export interface Drafted<T> {
  text: string;
  base: T;
}

export function Draft<T>(props: {
  label: string;
  /** The value that the server has, and its text. */
  value: T;
  text: string;
  /** `null` while nothing is changed. */
  draft: Drafted<T> | null;
  onDraft: (draft: Drafted<T> | null) => void;
  mayEdit: boolean;
  /** The server is asked for the value. */
  isLoading: boolean;
  /** Throws ChangedError if the server has something else by now. */
  onSave: (draft: Drafted<T>) => Promise<void>;
  /** Gives up the draft, and asks the server again. */
  onAnew: () => void;
}) {
  const { draft, onDraft } = props;
  const [conflict, setConflict] = useState("");
  // Until what was saved is shown: what is typed in between would be lost.
  const [isSaving, setSaving] = useState(false);
  useEffect(() => {
    if (!props.isLoading) setSaving(false);
  }, [props.isLoading]);
  const save = async () => {
    if (draft === null) return;
    setSaving(true);
    try {
      await props.onSave(draft);
      setConflict("");
      notify("Saved");
    } catch (error) {
      setSaving(false);
      const { message } = error as Error;
      if (error instanceof ChangedError) setConflict(message);
      else notify(message, true);
    }
  };
  const leave = (how: () => void) => () => {
    setConflict("");
    how();
  };
  return (
    <>
      <Field
        label={props.label}
        value={draft?.text ?? props.text}
        onInput={(text) => onDraft({ text, base: draft ? draft.base : props.value })}
        lines={14}
        disabled={!props.mayEdit || isSaving}
      />
      <Failure text={conflict} />
      {props.mayEdit && (
        <div class="row">
          <Button kind="main" disabled={draft === null || isSaving} onClick={() => void save()}>
            Save
          </Button>
          <Button disabled={draft === null || isSaving} onClick={leave(() => onDraft(null))}>
            Undo
          </Button>
          {conflict !== "" && (
            <Button onClick={leave(props.onAnew)}>Load it anew, without what was typed here</Button>
          )}
        </div>
      )}
    </>
  );
}
