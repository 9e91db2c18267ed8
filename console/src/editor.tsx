// The editor of the workbench: CodeMirror, in a shadow root, where its styles are sheets made by the script,
// which the page's policy allows.
import {
  autocompletion,
  completionKeymap,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import type { Command } from "./commands";

/** What the view does with the editor. */
export interface Handle {
  /** The lines that are selected, or the one with the cursor. */
  chosen: () => string[];
  lines: () => string[];
  replace: (text: string) => void;
  insert: (line: string) => void;
}

const language = StreamLanguage.define<{ isFirst: boolean }>({
  startState: () => ({ isFirst: true }),
  token(stream, state) {
    if (stream.sol()) state.isFirst = true;
    if (stream.eatSpace()) return null;
    if (state.isFirst && stream.match(/^#.*/)) return "comment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/) || stream.match(/^'(?:[^'\\]|\\.)*'?/)) return "string";
    const word = stream.match(/^\S+/) as RegExpMatchArray;
    const isFirst = state.isFirst;
    state.isFirst = false;
    if (isFirst) return "keyword";
    return /^-?\d+(\.\d+)?$/.test(word[0]) ? "number" : null;
  },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: tags.string, color: "var(--line-3)" },
  { tag: tags.number, color: "var(--line-2)" },
  { tag: tags.comment, color: "var(--quiet)" },
]);

const theme = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--panel)", fontSize: "13px" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-content": { caretColor: "var(--ink)", fontFamily: "ui-monospace, monospace", minHeight: "110px" },
  ".cm-scroller": { maxHeight: "34vh", overflow: "auto" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--code)", color: "var(--quiet)", border: "0" },
  ".cm-placeholder": { color: "var(--quiet)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--hover)",
  },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--ink)", border: "1px solid var(--edge)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--accent)",
    color: "var(--accent-ink)",
  },
  ".cm-completionDetail": { fontStyle: "normal", opacity: "0.8" },
});

function complete(loading: Promise<Map<string, Command>>) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const commands = await loading;
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    const words = before.trimStart().split(/\s+/);
    if (before.trimStart().startsWith("#") || (before.trim() === "" && !context.explicit)) return null;
    const container = words.length === 2 ? commands.get(words[0]!.toUpperCase()) : undefined;
    if (words.length > 1 && container?.syntax !== "subcommand") return null;
    const options = [...commands.values()].flatMap((command) => {
      const parts = command.name.split(" ");
      if (words.length === 1 ? parts.length > 1 : parts.length !== 2 || parts[0] !== container!.name)
        return [];
      const label = parts[parts.length - 1]!;
      return [
        { label, detail: ` ${command.syntax}`.slice(0, 60), info: command.summary, apply: `${label} ` },
      ];
    });
    return { from: context.pos - words[words.length - 1]!.length, options, validFor: /^[\w.|-]*$/ };
  };
}

export function Editor(props: {
  text: string;
  commands: Promise<Map<string, Command>>;
  onRun: () => void;
  onChange: (text: string, line: string) => void;
  onEarlier: (step: number) => void;
  handle: { current: Handle | null };
}) {
  const box = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const element = box.current!;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const run = () => {
      latest.current.onRun();
      return true;
    };
    const earlier = (step: number) => () => {
      latest.current.onEarlier(step);
      return true;
    };
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: latest.current.text,
        extensions: [
          keymap.of([
            { key: "Mod-Enter", run },
            { key: "Alt-ArrowUp", run: earlier(1) },
            { key: "Alt-ArrowDown", run: earlier(-1) },
          ]),
          lineNumbers(),
          history(),
          drawSelection(),
          language,
          syntaxHighlighting(colours),
          theme,
          autocompletion({
            override: [(context) => complete(latest.current.commands)(context)],
            icons: false,
          }),
          keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
          placeholder("A command a line, as in redis-cli"),
          EditorView.contentAttributes.of({ "aria-label": "Commands" }),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged && !update.selectionSet) return;
            const { state } = update;
            latest.current.onChange(state.doc.toString(), state.doc.lineAt(state.selection.main.head).text);
          }),
        ],
      }),
    });
    props.handle.current = {
      chosen: () => {
        const { doc, selection } = view.state;
        const { from, to } = selection.main;
        const [first, last] = [doc.lineAt(from).number, doc.lineAt(to).number];
        return Array.from({ length: last - first + 1 }, (_, at) => doc.line(first + at).text);
      },
      lines: () => view.state.doc.toString().split("\n"),
      replace: (text) =>
        view.dispatch({
          changes: { from: 0, to: view.state.doc.length, insert: text },
          selection: { anchor: text.length },
        }),
      insert: (text) => {
        const line = view.state.doc.lineAt(view.state.selection.main.head);
        view.dispatch({
          changes: { from: line.from, to: line.to, insert: text },
          selection: { anchor: line.from + text.length },
        });
        view.focus();
      },
    };
    view.focus();
    return () => view.destroy();
  }, []);
  return <div class="editor" ref={box} />;
}
