// The settings, with what they mean. The descriptions are those of the book.
import { useState } from "preact/hooks";
import sections from "settings";
import { FormDialog } from "../form";
import type { Session } from "../session";
import { useLoaded, useStore } from "../store";
import { fields, show } from "../text";
import { attempt, Button, Check, Failure, Field, Panel } from "../ui";

export function Configuration(props: { session: Session }) {
  const { session } = props;
  const readOnly = useStore(session.readOnly);
  const [filter, setFilter] = useState("");
  const [onlyChanged, setOnlyChanged] = useState(false);
  const [edited, setEdited] = useState<{ name: string; takes: string; text: string } | null>(null);
  const loaded = useLoaded(async () => fields(await session.call("CONFIG", "GET", "*")), [session]);
  const sets = session.may("configSet") && !readOnly;
  const word = filter.toLowerCase();
  const values = loaded.value;
  const isChanged = (name: string, takes: string) => {
    const usual = /default: `([^`]*)`/.exec(takes)?.[1];
    return usual !== undefined && usual !== show(values?.get(name));
  };
  const shown = sections
    .map((section) => ({
      title: section.title,
      settings: section.settings.filter(
        (it) =>
          values?.has(it.name) &&
          (it.name.includes(word) || it.text.toLowerCase().includes(word)) &&
          (!onlyChanged || isChanged(it.name, it.takes)),
      ),
    }))
    .filter((section) => section.settings.length > 0);
  return (
    <>
      <h1>Configuration</h1>
      <div class="row">
        <Field
          label="Filter"
          hidden
          placeholder="Name or description"
          value={filter}
          onInput={setFilter}
          type="search"
        />
        <Check label="Not at their defaults" value={onlyChanged} onChange={setOnlyChanged} />
        {session.may("configRewrite") && !readOnly && (
          <Button
            onClick={() => void attempt(() => session.call("CONFIG", "REWRITE"), "Written into the file")}
          >
            Write into the file
          </Button>
        )}
      </div>
      <Failure text={loaded.error} />
      {shown.map((section) => (
        <Panel title={section.title}>
          <dl class="settings">
            {section.settings.map((it) => (
              <div class="setting">
                <dt>
                  <code>{it.name}</code>
                  {sets && /run time/.test(it.takes) && (
                    <Button kind="quiet" label={`Change ${it.name}`} onClick={() => setEdited(it)}>
                      ✎
                    </Button>
                  )}
                </dt>
                <dd>
                  <code class={isChanged(it.name, it.takes) ? "changed" : ""}>
                    {show(values?.get(it.name)) || "(empty)"}
                  </code>
                  <p>{it.text}</p>
                  <p class="quiet-text">{it.takes}</p>
                </dd>
              </div>
            ))}
          </dl>
        </Panel>
      ))}
      {edited && (
        <FormDialog
          title={edited.name}
          onClose={() => setEdited(null)}
          asked={[{ name: "value", label: edited.takes, value: show(values?.get(edited.name)) }]}
          run={async ({ value }) => {
            await session.call("CONFIG", "SET", edited.name, value!);
            loaded.again();
          }}
        />
      )}
    </>
  );
}
