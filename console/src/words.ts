// A line of text as the words of a command, with the quotes of redis-cli.
import { textOf, type Text } from "./text";

const ESCAPES: Record<string, number> = { n: 10, r: 13, t: 9, a: 7, b: 8 };

/** Splits a line. In "..." escapes such as \n and \xff stand for bytes; in '...' only \' does. */
export function split(line: string): Text[] {
  const words: Text[] = [];
  const encoder = new TextEncoder();
  let at = 0;
  while (at < line.length) {
    if (/\s/.test(line[at]!)) {
      at += 1;
      continue;
    }
    const bytes: number[] = [];
    const put = (text: string) => {
      for (const byte of encoder.encode(text)) bytes.push(byte);
    };
    const quote = line[at] === '"' || line[at] === "'" ? line[at] : null;
    if (quote === null) {
      const end = line.slice(at).search(/\s/);
      const word = end < 0 ? line.slice(at) : line.slice(at, at + end);
      words.push(word);
      at += word.length;
      continue;
    }
    for (at += 1; line[at] !== quote; at += 1) {
      if (at >= line.length) throw new Error("A quote is open.");
      const next = line[at + 1] ?? "";
      const digits = /^\\x([0-9a-fA-F]{2})/.exec(line.slice(at, at + 4));
      if (quote === '"' && digits) {
        bytes.push(parseInt(digits[1]!, 16));
        at += 3;
      } else if (line[at] === "\\" && (quote === '"' || next === "'")) {
        if (quote === '"' && next in ESCAPES) bytes.push(ESCAPES[next]!);
        else put(next);
        at += 1;
      } else {
        const letter = String.fromCodePoint(line.codePointAt(at)!);
        put(letter);
        at += letter.length - 1;
      }
    }
    at += 1;
    if (at < line.length && !/\s/.test(line[at]!))
      throw new Error("A closing quote is followed by a letter.");
    words.push(textOf(Uint8Array.from(bytes)));
  }
  return words;
}
