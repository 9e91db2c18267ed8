// ACL users: their rules, and changes to them.
import { useState } from "preact/hooks";
import { FormDialog } from "../form";
import type { Session } from "../session";
import { useLoaded, useStore } from "../store";
import { duration, fields, numberOf, show, type Reply, type Text } from "../text";
import { attempt, Button, confirm, Failure, Panel, Table } from "../ui";
import { split } from "../words";

export function Users(props: { session: Session }) {
  const { session } = props;
  const readOnly = useStore(session.readOnly);
  const [edited, setEdited] = useState<{ name: string; isNew: boolean } | null>(null);
  const loaded = useLoaded(async () => {
    const names = (await session.call("ACL", "USERS")) as Text[];
    const users = await Promise.all(names.map((name) => session.call("ACL", "GETUSER", name)));
    return names.map((name, at) => ({ name: show(name), user: fields(users[at]!) }));
  }, [session]);
  const log = useLoaded(
    async () => ((await session.call("ACL", "LOG", 50).catch(() => [])) as Reply[]).map(fields),
    [session],
  );
  const sets = session.may("userSet") && !readOnly;
  const remove = async (name: string) => {
    const question = `${name}\n\nThe user's connections are closed.`;
    if (!(await confirm("Delete this user?", question, "Delete"))) return;
    await attempt(() => session.call("ACL", "DELUSER", name).then(loaded.again), "Deleted");
  };
  return (
    <>
      <h1>Users</h1>
      <div class="row">
        <Button
          onClick={() => {
            loaded.again();
            log.again();
          }}
        >
          ↻ Ask again
        </Button>
        {sets && <Button onClick={() => setEdited({ name: "", isNew: true })}>New user</Button>}
      </div>
      <Failure text={loaded.error} />
      <Panel title="Rules">
        <Table
          label="Rules of users"
          columns={["User", "Flags", "Passwords", "Commands", "Keys", "Channels", ...(sets ? [""] : [])]}
          rows={(loaded.value ?? []).map(({ name, user }) => [
            name,
            ((user.get("flags") ?? []) as Reply[]).map(show).join(" "),
            String(((user.get("passwords") ?? []) as Reply[]).length),
            show(user.get("commands")),
            show(user.get("keys")),
            show(user.get("channels")),
            ...(sets
              ? [
                  <span class="acts">
                    <Button
                      kind="quiet"
                      label={`Change ${name}`}
                      onClick={() => setEdited({ name, isNew: false })}
                    >
                      ✎
                    </Button>
                    {name !== "default" && session.may("userDelete") && (
                      <Button kind="quiet" label={`Delete ${name}`} onClick={() => void remove(name)}>
                        ✕
                      </Button>
                    )}
                  </span>,
                ]
              : []),
          ])}
        />
      </Panel>
      <Panel title="What was refused">
        <Table
          label="What was refused"
          columns={["Age", "Reason", "What", "User", "Times", "Client"]}
          numeric={[4]}
          empty="Nothing."
          rows={(log.value ?? []).map((entry) => [
            duration(1000 * numberOf(entry.get("age-seconds"))),
            show(entry.get("reason")),
            show(entry.get("object")),
            show(entry.get("username")),
            show(entry.get("count")),
            /addr=(\S+)/.exec(show(entry.get("client-info")))?.[1] ?? "",
          ])}
        />
      </Panel>
      {edited && (
        <FormDialog
          title={edited.isNew ? "New user" : `Change ${edited.name}`}
          onClose={() => setEdited(null)}
          asked={[
            ...(edited.isNew ? [{ name: "name", label: "Name" }] : []),
            {
              name: "rules",
              label: "Rules of ACL SETUSER, which add to those that are there",
              lines: 3,
              placeholder: "on >password ~app:* +@read",
              value: edited.isNew ? "on " : "",
            },
          ]}
          run={async ({ name, rules }) => {
            await session.call("ACL", "SETUSER", edited.isNew ? name! : edited.name, ...split(rules!));
            loaded.again();
          }}
        />
      )}
    </>
  );
}
