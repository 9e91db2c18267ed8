"""The command table as clients see it, against redis-server's: COMMAND INFO and COMMAND DOCS of every command, in
both protocols, and the keys that COMMAND GETKEYSANDFLAGS finds.

Everything is compared, order included, but for the sentences that are this project's own (summary, complexity,
what replaces a command, notes, what changed in a version) and the order of subcommands.
"""

import pathlib

import pytest

from differential import missing_commands
from support.modules import COMMANDS

OWN_TEXTS = {b"summary", b"replaced_by", b"notes"}
CALLS = [
    line.split(" ")
    for line in (pathlib.Path(__file__).parent / "matrix.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
GETKEYS = [
    ["GET"],
    ["GET", "a", "b"],
    ["nosuch", "a"],
    ["client", "nosuch"],
    ["client"],
    ["memory"],
    ["memory", "usage", "a"],
    ["memory", "doctor"],
    ["ping"],
    ["spublish", "a", "b"],
    ["set", "a", "b"],
    ["set", "a", "b", "EX", "10", "get"],
    ["bitfield", "a"],
    ["bitfield", "a", "GET", "u8", "0", "overflow", "wrap", "get", "u8", "1"],
    ["bitfield", "a", "GET", "u8", "0", "SET", "u8", "0", "1"],
    ["mset", "a", "b", "c"],
    ["zinter", "0", "a"],
    ["zinter", "2", "a"],
    ["lmpop", "x", "a", "left"],
    ["sort", "a", "by", "x", "store", "b"],
    ["migrate", "h", "1", "a", "0", "1"],
    ["migrate", "h", "1", "", "0", "1", "auth", "keys", "keys", "a", "b"],
    ["migrate", "h", "1", "a", "0", "1", "auth", "keys"],
    ["migrate", "h", "1", "", "0", "1"],
    ["georadius", "g", "1", "2", "3", "m", "store", "a", "storedist", "b"],
    ["georadius", "g", "1", "2", "3", "m", "count", "store", "store"],
    ["georadiusbymember", "g", "store", "3", "m", "store", "a"],
    ["georadiusbymember", "g", "m", "3", "m", "storedist"],
    ["geosearchstore", "d", "g", "frommember", "m", "byradius", "1", "m"],
    ["pfcount", "a", "b"],
    ["pfmerge", "a", "b"],
    ["sort", "a", "store", "b", "get", "store", "store", "c", "limit", "0", "1", "store"],
]


# The start of the names of commands that redis-server does not have, or by modules only (test_modules.py).
NOT_CORE = tuple(
    word.encode()
    for word in (missing_commands.OWN, *COMMANDS, *missing_commands.VECTORS, *missing_commands.LATER)
)


def table_of(connection):
    """COMMAND INFO of all commands of the core by name."""
    commands = {command.value[0].value: command for command in connection("COMMAND").value}
    return {name: command for name, command in commands.items() if not name.startswith(NOT_CORE)}


def table_with_own(connection):
    """The names of all commands."""
    return [command.value[0].value for command in connection("COMMAND").value]


def shape(reply):
    """A reply as kinds and values, sets and arrays in their order."""
    if reply.is_aggregate:
        return (reply.kind, [shape(element) for element in reply.value])
    return (reply.kind, reply.value)


def pairs(reply):
    """The keys and values of a map, in either protocol."""
    return list(zip(reply.value[::2], reply.value[1::2]))


def masked_key_spec(spec):
    shown = [(key.value, None if key.value in OWN_TEXTS else shape(value)) for key, value in pairs(spec)]
    return (spec.kind, shown)


def table_entry(command):
    """An element of COMMAND INFO, its subcommands sorted by name."""
    parts = command.value
    known = [subcommand for subcommand in parts[9].value if not subcommand.value[0].value.startswith(NOT_CORE)]
    subcommands = sorted(map(table_entry, known), key=lambda entry: entry[1][0][1])
    key_specs = (parts[8].kind, [masked_key_spec(spec) for spec in parts[8].value])
    return (command.kind, [shape(part) for part in parts[:8]] + [key_specs, (parts[9].kind, subcommands)])


def documentation(docs, wanted):
    """A map of COMMAND DOCS without the texts that are our own, with those subcommands that are wanted."""
    seen = []
    for key, value in pairs(docs):
        if key.value == b"complexity":
            continue  # some of redis-server's have none
        if key.value in OWN_TEXTS:
            seen.append((key.value, value.kind))
        elif key.value == b"history":
            seen.append((key.value, value.kind, [shape(change.value[0]) for change in value.value]))
        elif key.value == b"subcommands":
            chosen = all_documentation(value, wanted)
            seen.append((key.value, value.kind, sorted(chosen.items())))
        else:
            seen.append((key.value, shape(value)))
    return (docs.kind, seen)


def all_documentation(reply, wanted):
    """The map of COMMAND DOCS by name, of those that are wanted."""
    return {name.value: documentation(docs, wanted) for name, docs in pairs(reply) if name.value in wanted}


def differences(subject, oracle, names):
    """A readable line for each name whose two descriptions differ."""
    found = []
    for name in sorted(names):
        if name not in oracle:
            found.append(f"{name.decode()}: unknown to redis-server")
        elif subject[name] != oracle[name]:
            found.append(f"{name.decode()}:\n  subject {subject[name]}\n  oracle  {oracle[name]}")
    return found


@pytest.mark.parametrize("protocol", [2, 3])
def test_command_info(subject, oracle, protocol):
    tables = []
    for server in (subject, oracle):
        with server.connect(protocol) as connection:
            tables.append({name: table_entry(command) for name, command in table_of(connection).items()})
    ours, theirs = tables
    for name, entry in ours.items():
        known = {sub[1][0] for sub in entry[1][9][1]}
        if name in theirs:
            kept = [sub for sub in theirs[name][1][9][1] if sub[1][0] in known]
            theirs[name][1][9] = (theirs[name][1][9][0], kept)
    found = differences(ours, theirs, ours)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("protocol", [2, 3])
def test_command_docs(subject, oracle, protocol):
    with subject.connect(protocol) as connection:
        wanted = {name.encode() for name in missing_commands.names(connection)}
        ours = all_documentation(connection("COMMAND", "DOCS"), wanted)
    with oracle.connect(protocol) as connection:
        theirs = all_documentation(connection("COMMAND", "DOCS"), wanted)
    found = differences(ours, theirs, ours)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("protocol", [2, 3])
def test_keys_of_calls(subject, oracle, protocol):
    with subject.connect(protocol) as ours, oracle.connect(protocol) as theirs:
        known = {name.lower() for name in table_of(ours)}
        for call in CALLS + GETKEYS:
            if call in GETKEYS or call[0].lower().encode() in known:
                for subcommand in ("GETKEYS", "GETKEYSANDFLAGS"):
                    got = ours("COMMAND", subcommand, *call).raw
                    assert got == theirs("COMMAND", subcommand, *call).raw, (subcommand, call)


def test_the_list_of_missing_commands_is_current(subject, oracle):
    """README names exactly the commands that are missing, and COUNT counts the others."""
    with subject.connect() as ours, oracle.connect() as theirs:
        known, all_names = missing_commands.names(ours), missing_commands.names(theirs)
        absent = missing_commands.missing(known, all_names)
        _, shown, _ = missing_commands.split_readme()
        assert shown == missing_commands.described(absent), "run tests/differential/missing_commands.py"
        assert known <= all_names
        own = [name for name in table_with_own(ours) if name.startswith(NOT_CORE)]
        assert ours.call("COMMAND", "COUNT") == len(own) + sum("|" not in name for name in known)
        assert theirs.call("COMMAND", "COUNT") >= sum("|" not in name for name in all_names)


@pytest.mark.parametrize("protocol", [2, 3])
def test_selection(subject, oracle, protocol):
    """Names and filters: the same among the commands that both have."""
    filters = [
        [],
        ["FILTERBY", "ACLCAT", "bitmap"],
        ["FILTERBY", "ACLCAT", "nosuch"],
        ["FILTERBY", "MODULE", "x"],
        ["FILTERBY", "PATTERN", "G?T*"],
        ["FILTERBY", "PATTERN", "*|HELP"],
        ["FILTERBY", "PATTERN"],
        ["FILTERBY", "PATTERN", "x", "y"],
        ["FILTERBY", "x", "y"],
        ["x"],
    ]
    calls = [["INFO", "nosuch"], ["INFO", "get|x"], ["INFO", "a|"]]
    calls += [["DOCS", "nosuch"], ["COUNT", "x"], ["NOSUCH"]]
    with subject.connect(protocol) as ours, oracle.connect(protocol) as theirs:
        known = {name.value for name in ours("COMMAND", "LIST").value}
        for arguments in filters:
            got, expected = ours("COMMAND", "LIST", *arguments), theirs("COMMAND", "LIST", *arguments)
            if expected.is_error:
                assert got.raw == expected.raw, arguments
            else:
                names = sorted(name.value for name in expected.value if name.value in known)
                assert got.kind == expected.kind, arguments
                shown = [name.value for name in got.value if not name.value.startswith(NOT_CORE)]
                assert sorted(shown) == names, arguments
        for call in calls:
            assert ours("COMMAND", *call).raw == theirs("COMMAND", *call).raw, call
