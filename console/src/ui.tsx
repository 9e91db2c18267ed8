// What the views are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Store, useStore } from "./store";

export function Button(props: {
  onClick?: () => void;
  children: ComponentChildren;
  kind?: "plain" | "main" | "danger" | "quiet";
  label?: string;
  disabled?: boolean;
  submit?: boolean;
  pressed?: boolean;
}) {
  return (
    <button
      type={props.submit ? "submit" : "button"}
      class={`button ${props.kind ?? "plain"}`}
      onClick={props.onClick}
      aria-label={props.label}
      title={props.label}
      disabled={props.disabled}
      aria-pressed={props.pressed}
    >
      {props.children}
    </button>
  );
}

export function Field(props: {
  label: string;
  value: string;
  onInput: (value: string) => void;
  type?: "text" | "password" | "number" | "search";
  placeholder?: string;
  list?: string[];
  lines?: number;
  hidden?: boolean;
  autocomplete?: string;
  disabled?: boolean;
}) {
  const id = useId();
  const shared = {
    id,
    value: props.value,
    placeholder: props.placeholder,
    spellcheck: false,
    disabled: props.disabled,
    autocapitalize: "off" as const,
    onInput: (event: Event) => props.onInput((event.target as HTMLInputElement).value),
  };
  return (
    <div class={`field ${props.lines ? "wide" : ""}`}>
      <label for={id} class={props.hidden ? "unseen" : ""}>
        {props.label}
      </label>
      {props.lines ? (
        <textarea {...shared} rows={props.lines} />
      ) : (
        <input
          {...shared}
          type={(props.type ?? "text") as "text"}
          autocomplete={props.autocomplete ?? "off"}
          list={props.list ? `${id}-list` : undefined}
        />
      )}
      {props.list && (
        <datalist id={`${id}-list`}>
          {props.list.map((word) => (
            <option value={word} />
          ))}
        </datalist>
      )}
    </div>
  );
}

export function Choice<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
  hidden?: boolean;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id} class={props.hidden ? "unseen" : ""}>
        {props.label}
      </label>
      <select
        id={id}
        value={props.value}
        onChange={(event) => props.onChange((event.target as HTMLSelectElement).value as T)}
      >
        {props.options.map(([value, text]) => (
          <option value={value} selected={value === props.value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

export function Check(props: { label: string; value: boolean; onChange: (value: boolean) => void }) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={props.value}
        onChange={(event) => props.onChange((event.target as HTMLInputElement).checked)}
      />
      {props.label}
    </label>
  );
}

/** Switches between a few views of one thing. */
export function Tabs<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}) {
  return (
    <div class="tabs" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button type="button" aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

export function Failure(props: { text: string }) {
  return props.text === "" ? null : (
    <p class="failure" role="alert">
      {props.text}
    </p>
  );
}

export function Panel(props: { title: string; tools?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="panel">
      <header>
        <h2>{props.title}</h2>
        {props.tools && <div class="tools">{props.tools}</div>}
      </header>
      {props.children}
    </section>
  );
}

/** A table that scrolls sideways by itself where it is too wide. */
export function Table(props: {
  label: string;
  columns: readonly string[];
  rows: ComponentChildren[][];
  numeric?: readonly number[];
  empty?: string;
}) {
  if (props.rows.length === 0) return <p class="empty">{props.empty ?? "Nothing."}</p>;
  const kind = (at: number) => (props.numeric?.includes(at) ? "number" : "");
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {props.columns.map((name, at) => (
              <th scope="col" class={kind(at)}>
                {name || <span class="unseen">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr>
              {row.map((cell, at) => (
                <td class={kind(at)}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A dialog over the page. Escape and a click beside it close it. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onClose={props.onClose}
      onClick={(event) => event.target === dialog.current && props.onClose()}
    >
      <div class="dialog">
        <header>
          <h2 id={id}>{props.title}</h2>
          <Button kind="quiet" label="Close" onClick={props.onClose}>
            ✕
          </Button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

interface Question {
  title: string;
  text: string;
  deed: string;
  answer: (yes: boolean) => void;
}

const asked = new Store<Question | null>(null);

/** Asks before something is done that can not be undone. */
export function confirm(title: string, text: string, deed: string): Promise<boolean> {
  return new Promise((answer) => asked.set({ title, text, deed, answer }));
}

export function Questions() {
  const question = useStore(asked);
  if (question === null) return null;
  const answer = (yes: boolean) => {
    asked.set(null);
    question.answer(yes);
  };
  return (
    <Dialog title={question.title} onClose={() => answer(false)}>
      <p class="asked">{question.text}</p>
      <div class="row end">
        <Button onClick={() => answer(false)}>Cancel</Button>
        <Button kind="danger" onClick={() => answer(true)}>
          {question.deed}
        </Button>
      </div>
    </Dialog>
  );
}

const notices = new Store<{ id: number; text: string; isError: boolean }[]>([]);
let noticeId = 0;

/** Shows a line for a few seconds. */
export function notify(text: string, isError = false): void {
  const notice = { id: noticeId++, text, isError };
  notices.set([...notices.value.slice(-3), notice]);
  setTimeout(() => notices.set(notices.value.filter((it) => it !== notice)), isError ? 8000 : 3000);
}

/** Runs `work` and shows its error, if it has one. Whether it went well. */
export async function attempt(work: () => Promise<unknown>, done = ""): Promise<boolean> {
  try {
    await work();
    if (done !== "") notify(done);
    return true;
  } catch (error) {
    notify((error as Error).message, true);
    return false;
  }
}

export function Notices() {
  const all = useStore(notices);
  return (
    <div class="notices" role="status" aria-live="polite">
      {all.map((notice) => (
        <p key={notice.id} class={notice.isError ? "failure" : ""}>
          {notice.text}
        </p>
      ))}
    </div>
  );
}

/** A list of any length: only the rows in sight are in the page. Rows have one height. */
export function VirtualList(props: {
  label: string;
  role: "tree" | "list" | "listbox";
  length: number;
  rowHeight: number;
  row: (at: number) => ComponentChildren;
  /** The row that is to be in sight. */
  active?: number;
  onKeyDown?: (event: KeyboardEvent) => void;
  activeId?: string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const measure = () => {
    const element = box.current;
    if (element) setView({ top: element.scrollTop, height: element.clientHeight });
  };
  useLayoutEffect(() => {
    measure();
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || props.active === undefined || props.active < 0) return;
    const top = props.active * props.rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + props.rowHeight > element.scrollTop + element.clientHeight) {
      element.scrollTop = top + props.rowHeight - element.clientHeight;
    }
  }, [props.active]);
  const whole = props.length * props.rowHeight;
  const first = Math.max(0, Math.floor(view.top / props.rowHeight) - 10);
  const last = Math.min(props.length, Math.ceil((view.top + view.height) / props.rowHeight) + 10);
  const rows: ComponentChildren[] = [];
  for (let at = first; at < last; at++) rows.push(props.row(at));
  return (
    <div
      class="virtual"
      ref={box}
      tabIndex={0}
      role={props.role}
      aria-label={props.label}
      onScroll={measure}
      onKeyDown={props.onKeyDown}
      aria-activedescendant={props.activeId}
    >
      <div class="virtual-space" role="presentation" style={{ height: `${whole}px` }}>
        <div
          role="presentation"
          class="virtual-rows"
          style={{ transform: `translateY(${first * props.rowHeight}px)` }}
        >
          {rows}
        </div>
      </div>
    </div>
  );
}

/** Puts text on the clipboard. */
export function copy(text: string): void {
  navigator.clipboard?.writeText(text).then(
    () => notify("Copied"),
    () => notify("Copying failed", true),
  );
}

/** The time of a moment on the local clock. */
export function clock(at: Date): string {
  return at.toLocaleTimeString("en-GB");
}
