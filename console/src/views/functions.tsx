// Libraries of functions.
import { useState } from "preact/hooks";
import { FormDialog } from "../form";
import { ChangedError, type Session } from "../session";
import { useLoaded, useStore } from "../store";
import { editable, fields, labelFor, sameText, show, typed, type Reply, type Text } from "../text";
import { attempt, Button, confirm, Failure, Panel, Table } from "../ui";

const EXAMPLE = `#!lua name=example
redis.register_function{
  function_name = "example",
  callback = function(keys, args) return redis.call("GET", keys[1]) end,
  flags = { "no-writes" },
}
`;

export function Functions(props: { session: Session }) {
  const { session } = props;
  const readOnly = useStore(session.readOnly);
  const [edited, setEdited] = useState<{ name: string; code: Text } | null>(null);
  const loaded = useLoaded(
    async () => ((await session.call("FUNCTION", "LIST", "WITHCODE")) as Reply[]).map(fields),
    [session],
  );
  const loads = session.may("functionLoad") && !readOnly;
  const replace = async (name: string, shown: Text, code: Text) => {
    // Nothing watches libraries: a change between these two commands is not seen.
    const found = (await session.call("FUNCTION", "LIST", "LIBRARYNAME", name, "WITHCODE")) as Reply[];
    const now = found.length === 0 ? null : fields(found[0]!).get("library_code");
    if (!now || !sameText(now as Text, shown)) {
      loaded.again();
      throw new ChangedError("The library");
    }
    await session.call("FUNCTION", "LOAD", "REPLACE", code);
  };
  const remove = async (name: string) => {
    if (!(await confirm("Delete this library?", name, "Delete"))) return;
    await attempt(() => session.call("FUNCTION", "DELETE", name).then(loaded.again), "Deleted");
  };
  return (
    <>
      <h1>Functions</h1>
      <div class="row">
        <Button onClick={loaded.again}>↻ Ask again</Button>
        {loads && <Button onClick={() => setEdited({ name: "", code: EXAMPLE })}>Load a library</Button>}
      </div>
      <Failure text={loaded.error} />
      {loaded.value?.length === 0 && <p class="empty">There are no libraries.</p>}
      {loaded.value?.map((library) => {
        const name = show(library.get("library_name"));
        return (
          <Panel
            title={name}
            tools={
              <>
                {loads && (
                  <Button onClick={() => setEdited({ name, code: library.get("library_code") as Text })}>
                    Change
                  </Button>
                )}
                {session.may("functionDelete") && !readOnly && (
                  <Button kind="danger" onClick={() => void remove(name)}>
                    Delete
                  </Button>
                )}
              </>
            }
          >
            <Table
              label={`Functions of ${name}`}
              columns={["Function", "Description", "Flags"]}
              rows={((library.get("functions") ?? []) as Reply[])
                .map(fields)
                .map((it) => [
                  show(it.get("name")),
                  show(it.get("description")),
                  ((it.get("flags") ?? []) as Reply[]).map(show).join(" "),
                ])}
            />
            <pre class="dump" tabIndex={0}>
              {show(library.get("library_code"))}
            </pre>
          </Panel>
        );
      })}
      {edited !== null && (
        <FormDialog
          title="Load a library"
          deed="Load"
          onClose={() => setEdited(null)}
          asked={[
            { name: "code", label: labelFor("Code", edited.code), lines: 16, value: editable(edited.code) },
          ]}
          run={async (words) => {
            const code = typed(words.code!, edited.code);
            if (edited.name === "") await session.call("FUNCTION", "LOAD", code);
            else await replace(edited.name, edited.code, code);
            loaded.again();
          }}
        />
      )}
    </>
  );
}
