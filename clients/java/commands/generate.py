#!/usr/bin/env python3
"""Writes the typed methods of the Java client, one class for each group of commands, from a server's COMMAND DOCS.

    commands/generate.py PORT FOLDER

FOLDER is src/main/java/mantissa/client/commands; `run_tests` compares it with what a server gives. Arguments that a
command must have are parameters with types; from the first optional one on, the words follow as they are. What each
command replies is in replies.txt.
"""

import html
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tests"))
from support.resp import Connection  # noqa: E402

# They turn the connection to something else, or end it: PubSub and Connection speak them.
LEFT_OUT = set(
    "subscribe unsubscribe psubscribe punsubscribe ssubscribe sunsubscribe monitor sync psync replconf quit reset"
    " hello asking client|reply client|tracking multi exec discard watch unwatch".split()
)
TYPES = {"key": "String", "integer": "long", "double": "double", "unix-time": "long", "pattern": "String"}
JAVA_TYPES = {
    "LONG": "Long", "BOOLEAN": "Boolean", "STRING": "String", "BYTES": "byte[]", "DOUBLE": "Double",
    "STRINGS": "List<String>", "LONGS": "List<Long>", "BOOLEANS": "List<Boolean>", "DOUBLES": "double[]",
    "STRING_MAP": "Map<String, String>", "SCORED": "ScoredMembers",
}  # fmt: skip
GROUPS = {"generic": "Key", "pubsub": "PubSub", "hyperloglog": "HyperLogLog"}
# What modules have in Redis is one group there.
PREFIXES = {
    "json.": "json", "ts.": "time-series", "bf.": "bloom-filter", "cf.": "cuckoo-filter", "cms.": "count-min-sketch",
    "topk.": "top-k", "tdigest.": "t-digest", "mantissa.": "mantissa",
}  # fmt: skip
# Redis calls them doubles, but they may be exclusive: "(1".
BOUNDS = {"min", "max"}
# Redis calls this one an integer, but it may be any score.
TYPES_OF_ARGUMENTS = {("zincrby", "increment"): "double"}
JAVA_WORDS = set(
    "abstract assert boolean break byte case catch char class const continue default do double else enum extends final"
    " finally float for goto if implements import instanceof int interface long native new package private protected"
    " public return short static super switch synchronized this throw throws transient try void volatile while".split()
)


def plain(reply):
    """A reply of maps and lists as Python has them."""
    if reply.is_aggregate:
        elements = [plain(each) for each in reply.value]
        return dict(zip(elements[::2], elements[1::2])) if reply.kind == "%" else elements
    value = reply.plain()
    return value.decode() if isinstance(value, bytes) else value


def plural(name):
    return name[:-1] + "ies" if name.endswith("ity") else name + "s"


def camel(name, first_upper=False):
    words = [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]
    text = "".join(word.capitalize() for word in words) or "Argument"
    text = text[:1].lower() + text[1:]
    text = text[:1].upper() + text[1:] if first_upper else text
    return text + "Value" if text in JAVA_WORDS else text


def syntax(argument):
    """An argument in the notation of Redis's pages."""
    kind, flags = argument["type"], argument.get("flags", [])
    inner = [syntax(each) for each in argument.get("arguments", [])]
    if kind == "pure-token":
        text = argument.get("token") or '""'
    elif kind == "oneof":
        text = "|".join(inner)
    else:
        text = " ".join(inner) if kind == "block" else argument.get("display_text", argument["name"])
    token = argument.get("token") if kind != "pure-token" else None
    repeated = text
    if token and "multiple_token" in flags:
        repeated = f"{token} {text}"
    if token:
        text = f"{token} {text}"
    if "multiple" in flags:
        text = f"{text} [{repeated} ...]"
    if "optional" in flags:
        return f"[{text}]"
    return f"<{text}>" if kind == "oneof" else text


def is_simple(argument):
    return argument["type"] in TYPES or argument["type"] == "string"


def is_word(argument):
    """One of several fixed words."""
    return argument["type"] == "oneof" and all(each["type"] == "pure-token" for each in argument["arguments"])


class Method:
    """The parameters of a command, and the words that they become."""

    def __init__(self, name, docs):
        self.docs, self.arguments = docs, docs.get("arguments", [])
        self.types = {argument: kind for (command, argument), kind in TYPES_OF_ARGUMENTS.items() if command == name}
        self.name = camel(name)
        self.words = [f'"{word}"' for word in name.upper().split("|")]
        self.parameters, self.lists, self.rest = [], set(), None
        self.counted = False
        for index, argument in enumerate(self.arguments):
            if self.counted:
                self.counted = False
            elif not self.take(argument, self.arguments[index + 1 :]):
                break

    def take(self, argument, following):
        """Adds an argument; false where all that is left are words."""
        flags, name = argument.get("flags", []), camel(argument["name"])
        while name in [taken for _, taken in self.parameters]:
            name += "2"
        if argument["type"] == "pure-token" and "optional" not in flags:
            self.words.append(f'"{argument["token"]}"')
            return True
        if "optional" in flags or not (is_simple(argument) or is_word(argument)) or "multiple_token" in flags:
            optional = all("optional" in each.get("flags", []) for each in [argument, *following])
            self.rest = "options" if optional else "words"
            return False
        if argument.get("token"):
            self.words.append(f'"{argument["token"]}"')
        keys = following[:1]
        if name == "numkeys" and keys and "multiple" in keys[0].get("flags", []) and is_simple(keys[0]):
            self.words.append(camel(keys[0]["name"]) + "s.size()")
            keys[0] = {**keys[0], "flags": ["multiple"]}
            self.take(keys[0], following[1:])
            self.counted = True
            return True
        if "multiple" not in flags:
            kind = self.types.get(argument["name"]) or TYPES.get(
                argument["type"], "String" if is_word(argument) else "Object"
            )
            self.parameters.append(("Object" if kind == "double" and name in BOUNDS else kind, name))
            self.words.append(name)
        elif following or self.words[-1].endswith(".size()"):
            name = plural(name)
            self.parameters.append(("List<?>", name))
            self.words.append(name)
            self.lists.add(name)
        else:
            self.rest = plural(name)
        return True

    def javadoc(self, usage):
        text = html.escape(self.docs.get("summary", usage), quote=False).rstrip(".") + "."
        lines = textwrap.wrap(text, 110)
        lines += ["", *textwrap.wrap("<p>{@code " + usage + "}", 110)]
        complexity = self.docs.get("complexity")
        if complexity:
            lines[-1] += "."
            lines += textwrap.wrap("Complexity: " + html.escape(complexity, quote=False).rstrip(".") + ".", 110)
        return "    /**\n" + "".join(f"     * {line}".rstrip() + "\n" for line in lines) + "     */\n"

    def java(self, command, reply):
        usage = " ".join([command.upper().replace("|", " "), *map(syntax, self.arguments)])
        kind = JAVA_TYPES.get(reply, "Reply")
        parameters = [f"{kind} {name}" for kind, name in self.parameters]
        if self.rest:
            parameters.append(f"Object... {self.rest}")
        start = f"    public static Command<{kind}> {self.name}("
        head = start + ", ".join(parameters) + ") {"
        if len(head) > 118:
            head = start + "\n            " + ", ".join(parameters) + ") {"
        type_name = f"ReplyTypes.{reply}" if reply else "Reply.TYPE"
        plain_words = not self.lists
        maker = "Words.of" if plain_words else "Words.flat"
        rest = f", {self.rest}" if self.rest else ""
        words = ", ".join(self.words)
        call = f"        return {maker}({type_name}, new Object[] {{{words}}}{rest});"
        if len(call) > 118:
            call = f"        return {maker}({type_name},\n                new Object[] {{{words}}}{rest});"
        return f"{self.javadoc(usage)}{head}\n{call}\n    }}\n"


def class_name(group):
    return GROUPS.get(group, camel(group, True)) + "Commands"


def write_class(folder, group, methods):
    body = "\n".join(method.java(command, reply) for command, method, reply in methods)
    kinds = " ".join(JAVA_TYPES.get(reply, "Reply") for _, _, reply in methods)
    imports = [name for name in ("Map", "List") if re.search(rf"\b{name}<", kinds + body)]
    own = ["Command"] + [name for name in ("Reply", "ReplyTypes", "ScoredMembers") if re.search(rf"\b{name}\b", body)]
    lines = [f"import java.util.{name};" for name in sorted(imports)]
    lines += [f"import mantissa.client.{name};" for name in own]
    name = class_name(group)
    text = (
        "package mantissa.client.commands;\n\n" + "\n".join(lines) + "\n\n"
        f"/** Commands of the group {group}. Made by commands/generate.py. */\n"
        f"public final class {name} {{\n    private {name}() {{}}\n\n{body}}}\n"
    )
    (folder / f"{name}.java").write_text(text)


def commands_of(docs):
    for name, entry in docs.items():
        subcommands = entry.get("subcommands") or {}
        if not subcommands:
            yield name.lower(), entry
        for sub, each in subcommands.items():
            if not sub.lower().endswith("|help"):
                yield sub.lower(), {"group": entry["group"], **each}


def main():
    port, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
    connection = Connection(("127.0.0.1", port))
    connection("HELLO", 3)
    docs = plain(connection("COMMAND", "DOCS"))
    replies = {}
    for line in (HERE / "replies.txt").read_text().splitlines():
        kind, *names = line.split()
        if kind != "#":
            replies.update((name, kind) for name in names)
    groups, known = {}, set()
    for name, entry in sorted(commands_of(docs)):
        known.add(name)
        if name not in LEFT_OUT:
            group = next((to for prefix, to in PREFIXES.items() if name.startswith(prefix)), entry["group"])
            if group == "module" and re.fullmatch("v[a-z]+", name):
                group = "vector-set"
            groups.setdefault(group, []).append((name, Method(name, entry), replies.get(name)))
    unknown = set(replies) - known
    if unknown:
        sys.exit(f"replies.txt names commands that the server does not have: {sorted(unknown)}")
    folder.mkdir(parents=True, exist_ok=True)
    for group, methods in sorted(groups.items()):
        write_class(folder, group, methods)


if __name__ == "__main__":
    main()
