"""The hand-written streams: what a line means, and the lines of a file.

A stream is a text file of inputs; the oracle gives the expected replies. A line is

    [annotation, ...] @CONNECTION command "quoted \\x00 argument" ...

- Words are split and quoted as redis-cli does: "..." with \\n \\r \\t \\a \\b \\\\ \\" \\xHH, '...' with \\'.
- `@2` sends on connection 2; without it connection 1. Connections open when first named, with the stream's
  protocol.
- Annotations: a policy (POLICY.md); `blocks` (wait until the server reports the client as blocked, read
  nothing);
  `replies=N` (read N replies, 0 is allowed); `closes` (the server must hang up after the replies); `iterate`
  (a SCAN command: follow the cursor to its end and compare everything found); `resp2` or `resp3` (only in
  that protocol);
  `bag` (the replies of this line may come in any order); `packed` (with the default thresholds the order is
  known, and compared).
- `@2 <` reads one more reply or push on connection 2, `@2 <3` three.
- `!raw "bytes"` sends the bytes as they are. `!close` and `!reset` end a connection, the latter abruptly.
- `!until :0 EXISTS k` repeats a command on both servers until it gives this raw reply, or `nil` for a null.
- `!repeat 100 RPUSH l "v{i}"` sends a command for i = 0..99, with `{i}` replaced.
- `${id:2}` is the client id of connection 2 on that server, `${addr:2}` its address, `${x*1000}` is `x` 1,000
  times.
- `#` starts a comment line.
"""

import dataclasses
import re

from differential import policy

ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "b": b"\b", "a": b"\a"}
REPEAT = re.compile(rb"\$\{(.)\*(\d+)\}", re.S)
FLAGS = {"bag", "blocks", "closes", "iterate", "packed", "resp2", "resp3"}


@dataclasses.dataclass
class Line:
    """One line of a stream."""

    where: str
    text: str
    connection: int
    action: str  # send, raw, read, until, close, reset
    args: list
    policy: str | None = None
    replies: int = 1
    flags: frozenset = frozenset()


def split_words(text):
    """Split as redis-cli does; raises ValueError on unbalanced quotes."""
    words, position = [], 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position == len(text):
            return words
        word = bytearray()
        while position < len(text) and not text[position].isspace():
            if text[position] in "\"'":
                position = quoted(text, position, word)
            else:
                word += text[position].encode()
                position += 1
        words.append(REPEAT.sub(lambda found: found[1] * int(found[2]), bytes(word)))


def quoted(text, position, word):
    """Append the quoted part that starts here to `word`; returns the position after it."""
    quote = text[position]
    position += 1
    while position < len(text) and text[position] != quote:
        if text[position] == "\\" and position + 1 < len(text):
            escape = text[position + 1]
            if (
                quote == '"'
                and escape == "x"
                and re.fullmatch("[0-9a-fA-F]{2}", text[position + 2 : position + 4])
            ):
                word += bytes.fromhex(text[position + 2 : position + 4])
                position += 4
                continue
            if quote == '"':
                word += ESCAPES.get(escape, escape.encode())
            else:
                word += b"'" if escape == "'" else b"\\" + escape.encode()
            position += 2
            continue
        word += text[position].encode()
        position += 1
    if position == len(text):
        raise ValueError(f"unbalanced quotes in {text!r}")
    return position + 1


def parse_annotations(text):
    """The policy, the number of replies and the flags in `[...]`."""
    chosen, replies, flags = None, 1, set()
    for item in filter(None, (item.strip() for item in text.split(","))):
        if item in FLAGS:
            flags.add(item)
        elif item.startswith("replies="):
            replies = int(item.removeprefix("replies="))
        elif policy.known(item):
            chosen = item
        else:
            raise ValueError(f"unknown annotation {item!r}")
    return chosen, replies, frozenset(flags)


def parse_line(where, text):
    """The lines that one line of text stands for; none for a comment."""
    rest = text.strip()
    if not rest or rest.startswith("#"):
        return []
    chosen, replies, flags = None, 1, frozenset()
    if rest.startswith("["):
        annotations, _, rest = rest[1:].partition("]")
        chosen, replies, flags = parse_annotations(annotations)
        rest = rest.strip()
    connection = 1
    if rest.startswith("@"):
        number, _, rest = rest[1:].partition(" ")
        connection, rest = int(number), rest.strip()

    def line(action, args, replies=replies):
        return Line(where, text.strip(), connection, action, args, chosen, replies, flags)

    if rest.startswith("<"):
        return [line("read", [], int(rest[1:] or 1))]
    if rest.startswith("!repeat "):
        _, count, command = rest.split(" ", 2)
        return [line("send", split_words(command.replace("{i}", str(index)))) for index in range(int(count))]
    if rest.startswith("!until "):
        words = split_words(rest)
        return [line("until", words[1:])]
    if rest.startswith("!"):
        action, _, data = rest[1:].partition(" ")
        if action not in ("raw", "close", "reset"):
            raise ValueError(f"unknown action {action!r}")
        return [line(action, split_words(data))]
    return [line("send", split_words(rest))]


def load(path):
    """All lines of a stream file."""
    lines = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        try:
            lines += parse_line(f"{path.name}:{number}", text)
        except ValueError as error:
            raise ValueError(f"{path.name}:{number}: {error}") from error
    return lines
