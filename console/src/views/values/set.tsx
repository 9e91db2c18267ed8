// A set.
import { useState } from "preact/hooks";
import { FormDialog } from "../../form";
import { show, type Text } from "../../text";
import { attempt, Button, Table } from "../../ui";
import { Cell, useWriting, type ValueProps } from "../key";
import { Scanned, useScan } from "./scan";

export function SetValue(props: ValueProps) {
  const { session, name } = props;
  const scan = useScan<Text>(props, "SSCAN", "SCARD", async (flat) => flat);
  const [isAdding, setAdding] = useState(false);
  const writing = useWriting(props);
  const changed = () => {
    scan.again();
    props.onChange();
  };
  return (
    <>
      <Scanned scan={scan} what="members" onAdd={writing ? () => setAdding(true) : undefined}>
        <Table
          label="Members"
          columns={["Member", ...(writing ? [""] : [])]}
          rows={scan.found.map((it) => [
            <Cell text={it} />,
            ...(writing
              ? [
                  <Button
                    kind="quiet"
                    label={`Delete ${show(it).slice(0, 60)}`}
                    onClick={() =>
                      void attempt(() => session.call("SREM", name, it).then(changed), "Deleted")
                    }
                  >
                    ✕
                  </Button>,
                ]
              : []),
          ])}
        />
      </Scanned>
      {isAdding && (
        <FormDialog
          title="New member"
          deed="Add"
          onClose={() => setAdding(false)}
          asked={[{ name: "member", label: "Member", lines: 4 }]}
          run={async ({ member }) => {
            if ((await session.call("SADD", name, member!)) === 0)
              throw new Error("This member is there already.");
            changed();
          }}
        />
      )}
    </>
  );
}
