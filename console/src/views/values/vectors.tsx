// A vector set: elements, and the neighbours of one of them.
import { useState } from "preact/hooks";
import { useLoaded } from "../../store";
import { count, fields, numberOf, show, typed, type Reply, type Text } from "../../text";
import { attempt, Button, confirm, Failure, Field, Panel, Table } from "../../ui";
import { Cell, useWriting, type ValueProps } from "../key";

const ELEMENTS = 100;
const NEIGHBOURS = 20;

export function VectorsValue(props: ValueProps) {
  const { session, name } = props;
  const [element, setElement] = useState<Text | null>(null);
  const [typing, setTyping] = useState("");
  const writing = useWriting(props);
  const loaded = useLoaded(async () => {
    const [info, found] = await Promise.all([
      session.call("VINFO", name),
      session.call("VRANDMEMBER", name, ELEMENTS),
    ]);
    return { info: fields(info), found: found as Text[] };
  }, [session, name]);
  const { value } = loaded;
  if (value === null) return <Failure text={loaded.error} />;
  const remove = async (it: Text) => {
    if (!(await confirm("Delete this element?", show(it).slice(0, 300), "Delete"))) return;
    await attempt(async () => {
      await session.call("VREM", name, it);
      setElement(null);
      loaded.again();
      props.onChange();
    }, "Deleted");
  };
  return (
    <>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          setElement(typing);
        }}
      >
        <Field label="Neighbours of" value={typing} onInput={setTyping} />
        <Button submit>Find</Button>
        <span class="quiet-text">
          {count(numberOf(value.info.get("size")))} elements of{" "}
          {count(numberOf(value.info.get("vector-dim")))} numbers, {show(value.info.get("quant-type"))}
        </span>
      </form>
      {element !== null && (
        <Neighbours
          {...props}
          element={element}
          onOpen={setElement}
          onDelete={writing ? remove : undefined}
        />
      )}
      <h3>Some elements</h3>
      <p class="elements">
        {value.found.map((it) => (
          <Button onClick={() => setElement(it)}>
            <Cell text={it} />
          </Button>
        ))}
      </p>
    </>
  );
}

function Neighbours(
  props: ValueProps & {
    element: Text;
    onOpen: (element: Text) => void;
    onDelete?: (element: Text) => void;
  },
) {
  const { session, name, element } = props;
  const loaded = useLoaded(async () => {
    const [similar, vector, attributes] = await Promise.all([
      session.call("VSIM", name, "ELE", element, "WITHSCORES", "COUNT", NEIGHBOURS),
      session.call("VEMB", name, element),
      session.call("VGETATTR", name, element).catch(() => null),
    ]);
    const found = [...fields(similar)].map(([it, score]): [Text, number] => [ofName(it), numberOf(score)]);
    found.sort((one, other) => other[1] - one[1]);
    return { found, vector: vector as Reply[], attributes };
  }, [session, name, element]);
  const { value } = loaded;
  return (
    <Panel
      title={`Neighbours of ${show(element).slice(0, 100)}`}
      tools={
        props.onDelete && (
          <Button kind="danger" onClick={() => props.onDelete!(element)}>
            Delete this element
          </Button>
        )
      }
    >
      <Failure text={loaded.error} />
      {value && (
        <>
          <Table
            label="Neighbours"
            columns={["Element", "Similarity"]}
            numeric={[1]}
            rows={value.found.map(([it, score]) => [
              <Button kind="quiet" onClick={() => props.onOpen(it)}>
                <Cell text={it} />
              </Button>,
              score.toFixed(4),
            ])}
          />
          <p class="mono">
            {value.vector.slice(0, 24).map(show).join(", ")}
            {value.vector.length > 24 && ", …"}
          </p>
          {value.attributes !== null && <p class="mono">{show(value.attributes)}</p>}
        </>
      )}
    </Panel>
  );
}

/** An element from the name of a field: bytes that are not UTF-8 are JSON there. */
function ofName(name: string): Text {
  return /^\{"base64":"[A-Za-z0-9+/=]*"\}$/.test(name) ? (JSON.parse(name) as Text) : typed(name, null);
}
