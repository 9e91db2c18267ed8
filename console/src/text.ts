// Strings of the server. They are bytes: those that are UTF-8 come as strings, others as base64.

/** A string of the server. */
export type Text = string | { base64: string };
/** What a command replies. Integers that a number can not hold are of the type bigint. */
export type Reply = null | boolean | number | bigint | string | Reply[] | { [name: string]: Reply };

/** Before the digits of such an integer, between JSON and a reply. Nobody else can know it. */
const MARK = `${crypto.getRandomValues(new Uint32Array(4)).join("-")}:`;

/** JSON with every integer as it is. */
export function parseJson(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(markIntegers(text), (_, value) =>
    typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
  );
}

/** Makes strings of the integers of JSON that a number can not hold. */
function markIntegers(text: string): string {
  const parts: string[] = [];
  const token = /"|-?\d[\d.eE+-]*/g;
  let copied = 0;
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    if (found[0] === '"') {
      token.lastIndex = stringEnd(text, found.index);
    } else if (/^-?\d{16,}$/.test(found[0]) && !Number.isSafeInteger(Number(found[0]))) {
      parts.push(text.slice(copied, found.index), `"${MARK}${found[0]}"`);
      copied = token.lastIndex;
    }
  }
  return parts.join("") + text.slice(copied);
}

/** Where the string of JSON that begins at `at` ends. */
export function stringEnd(text: string, at: number): number {
  for (at += 1; at < text.length; at += 1) {
    const letter = text[at];
    if (letter === "\\") at += 1;
    else if (letter === '"') return at + 1;
  }
  return text.length;
}

/** A reply as JSON, with every integer as it is. */
export function jsonOf(reply: Reply, indent?: number): string {
  const text = JSON.stringify(
    reply,
    (_, value: unknown) => (typeof value === "bigint" ? `${MARK}${value}` : value),
    indent,
  );
  return text.replaceAll(new RegExp(`"${MARK}(-?\\d+)"`, "g"), "$1");
}

/** Whether a reply is bytes that are not UTF-8. */
export function isBytes(reply: unknown): reply is { base64: string } {
  return (
    typeof reply === "object" &&
    reply !== null &&
    !Array.isArray(reply) &&
    typeof (reply as { base64?: unknown }).base64 === "string" &&
    Object.keys(reply).length === 1
  );
}

/** Whether a part of a reply is an error. */
export function isError(reply: unknown): reply is { error: string } {
  return (
    typeof reply === "object" &&
    reply !== null &&
    !Array.isArray(reply) &&
    typeof (reply as { error?: unknown }).error === "string" &&
    Object.keys(reply).length === 1
  );
}

export function bytesOf(text: Text): Uint8Array {
  if (typeof text === "string") return new TextEncoder().encode(text);
  return Uint8Array.from(atob(text.base64), (letter) => letter.charCodeAt(0));
}

/** The text for bytes: a string if they are UTF-8. */
export function textOf(bytes: Uint8Array): Text {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    let letters = "";
    for (let at = 0; at < bytes.length; at += 8192) {
      letters += String.fromCharCode(...bytes.subarray(at, at + 8192));
    }
    return { base64: btoa(letters) };
  }
}

/** How text is shown: as it is, or with `\xNN` for bytes that are no UTF-8. */
export function show(text: unknown): string {
  if (typeof text === "string") return text;
  if (isBytes(text)) return escapeBytes(bytesOf(text));
  if (text === null || text === undefined) return "";
  return typeof text === "object" ? jsonOf(text as Reply) : String(text);
}

function escapeBytes(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (const byte of bytes) {
    if (byte === 0x5c) parts.push("\\\\");
    else if (byte === 13) parts.push("\\r");
    else if (byte === 10 || byte === 9 || (byte >= 32 && byte < 127)) parts.push(String.fromCharCode(byte));
    else parts.push("\\x" + byte.toString(16).padStart(2, "0"));
  }
  return parts.join("");
}

/** Whether text has escapes where it is edited: bytes that are no UTF-8, and text that a field of a form would
 * change. A field makes LF of CR; one of a single line (`isLine`) drops both. */
export function isEscaped(text: Text, isLine = false): boolean {
  return isBytes(text) || (isLine ? /[\r\n]/ : /\r/).test(text);
}

/** Text for a field where it is edited. `typed` takes it back to the same bytes. */
export function editable(text: Text, isLine = false): string {
  if (!isBytes(text) && !isEscaped(text, isLine)) return text;
  const escaped = isBytes(text)
    ? escapeBytes(bytesOf(text))
    : text.replaceAll("\\", "\\\\").replaceAll("\r", "\\r");
  return isLine ? escaped.replaceAll("\n", "\\n") : escaped;
}

/** The label of a field for text, which says so where escapes are typed. */
export function labelFor(label: string, text: Text, isLine = false): string {
  return isEscaped(text, isLine) ? `${label}, with escapes: \\r, \\xff, \\\\ for \\` : label;
}

/** What was typed where `like` was to be edited: escapes stand for bytes only where they were shown. */
export function typed(input: string, like: Text | null, isLine = false): Text {
  return like !== null && isEscaped(like, isLine) ? unescape(input) : input;
}

/** Text with `\xNN`, `\n`, `\r`, `\t` and `\\` as bytes. */
export function unescape(input: string): Text {
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  for (const found of input.matchAll(/\\x([0-9a-fA-F]{2})|\\([\s\S])|[^\\]+|\\$/g)) {
    const letters: Record<string, number> = { n: 10, r: 13, t: 9, a: 7, b: 8 };
    if (found[1] !== undefined) bytes.push(parseInt(found[1], 16));
    else if (found[2] !== undefined && found[2] in letters) bytes.push(letters[found[2]]!);
    else for (const byte of encoder.encode(found[2] ?? found[0])) bytes.push(byte);
  }
  return textOf(Uint8Array.from(bytes));
}

export function sameText(one: Text, other: Text): boolean {
  return one === other || (isBytes(one) && isBytes(other) && one.base64 === other.base64);
}

/** A map of a reply, whichever of the two forms of maps the command replies. */
export function fields(reply: Reply): Map<string, Reply> {
  const found = new Map<string, Reply>();
  if (Array.isArray(reply)) {
    for (let at = 0; at + 1 < reply.length; at += 2) found.set(show(reply[at]), reply[at + 1]!);
  } else if (reply !== null && typeof reply === "object") {
    for (const [name, value] of Object.entries(reply)) found.set(name, value);
  }
  return found;
}

export function numberOf(reply: unknown): number {
  return typeof reply === "number" ? reply : Number(show(reply).replace("inf", "Infinity"));
}

const BYTE_UNITS = ["B", "KB", "MB", "GB", "TB"];

/** A number of bytes, in a unit that suits it. */
export function bytes(count: number): string {
  let unit = 0;
  while (Math.abs(count) >= 1024 && unit < BYTE_UNITS.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${count < 10 && unit > 0 ? count.toFixed(1) : Math.round(count)} ${BYTE_UNITS[unit]}`;
}

export function count(value: number): string {
  return Number.isInteger(value)
    ? value.toLocaleString("en")
    : value.toLocaleString("en", {
        maximumSignificantDigits: 4,
      });
}

/** A duration in milliseconds. */
export function duration(ms: number): string {
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
  let seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const parts: string[] = [];
  for (const [unit, length] of [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ] as const) {
    if (seconds >= length && parts.length < 2) {
      parts.push(`${Math.floor(seconds / length)} ${unit}`);
      seconds %= length;
    }
  }
  return parts.join(" ");
}

export function moment(unixMs: number): string {
  return Number.isFinite(unixMs) && unixMs > 0 && unixMs < 8.64e15
    ? new Date(unixMs)
        .toISOString()
        .replace("T", " ")
        .replace(/\.\d+Z/, " UTC")
    : "never";
}
