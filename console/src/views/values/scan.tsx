// Elements of hashes and sets, in the order of HSCAN and SSCAN, more and more of them.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { count, numberOf, show, type Text } from "../../text";
import { Button, Failure, Field } from "../../ui";
import type { ValueProps } from "../key";
import { pageOf } from "./pages";

/** Elements that are asked for at once, and those that are shown at most. */
const PART = 200;
const SHOWN_MAX = 5000;

export interface Scan<T> {
  found: T[];
  total: number;
  pattern: string;
  isAtEnd: boolean;
  error: string;
  setPattern: (pattern: string) => void;
  more: () => void;
  again: () => void;
}

export function useScan<T>(
  props: ValueProps,
  command: string,
  counting: string,
  read: (flat: Text[]) => Promise<T[]>,
): Scan<T> {
  const { session, name } = props;
  const [state, setState] = useState({ found: [] as T[], cursor: "0", isAtEnd: false, total: 0, error: "" });
  const [pattern, setPattern] = useState("");
  const [round, setRound] = useState(0);
  const ask = async (found: T[], from: string) => {
    try {
      const total = numberOf(await session.call(counting, name));
      const part = await pageOf(session, name, total, PART);
      const flat: Text[] = [];
      let cursor = from;
      do {
        const words = [command, name, cursor, "COUNT", part, ...(pattern === "" ? [] : ["MATCH", pattern])];
        const reply = (await session.call(...words)) as [string, Text[]];
        cursor = show(reply[0]);
        flat.push(...reply[1]);
      } while (cursor !== "0" && flat.length < part);
      const entries = await read(flat);
      setState({ found: [...found, ...entries], cursor, isAtEnd: cursor === "0", total, error: "" });
    } catch (error) {
      setState((before) => ({ ...before, error: (error as Error).message }));
    }
  };
  useEffect(() => void ask([], "0"), [round, pattern]);
  return {
    ...state,
    pattern,
    setPattern,
    isAtEnd: state.isAtEnd || state.found.length >= SHOWN_MAX,
    more: () => void ask(state.found, state.cursor),
    again: () => setRound(round + 1),
  };
}

export function Scanned<T>(props: {
  scan: Scan<T>;
  what: string;
  onAdd?: () => void;
  children: ComponentChildren;
}) {
  const { scan, what } = props;
  const [typing, setTyping] = useState("");
  return (
    <>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          scan.setPattern(typing);
        }}
      >
        <Field
          label={`Pattern of ${what}`}
          hidden
          placeholder={`Pattern of ${what}`}
          value={typing}
          onInput={setTyping}
          type="search"
        />
        <Button submit>Find</Button>
        {props.onAdd && <Button onClick={props.onAdd}>Add</Button>}
        <span class="quiet-text">
          {count(scan.found.length)} of {count(scan.total)} {what}
        </span>
      </form>
      <Failure text={scan.error} />
      {props.children}
      {!scan.isAtEnd && (
        <div class="row">
          <Button onClick={scan.more}>More</Button>
        </div>
      )}
    </>
  );
}
