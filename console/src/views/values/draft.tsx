// A value as text that is edited, and saved or left as it was.
import { Button, Field } from "../../ui";

export function Draft(props: {
  label: string;
  /** The value that the server has. */
  text: string;
  /** What it is to become; `null` while nothing is changed. */
  draft: string | null;
  onDraft: (draft: string | null) => void;
  mayEdit: boolean;
  onSave: () => void;
}) {
  const { draft, onDraft } = props;
  return (
    <>
      <Field
        label={props.label}
        value={draft ?? props.text}
        onInput={onDraft}
        lines={14}
        disabled={!props.mayEdit}
      />
      {props.mayEdit && (
        <div class="row">
          <Button kind="main" disabled={draft === null} onClick={props.onSave}>
            Save
          </Button>
          <Button disabled={draft === null} onClick={() => onDraft(null)}>
            Undo
          </Button>
        </div>
      )}
    </>
  );
}
