"""What redis-server has by modules (support/modules.py), compared with a redis-server that has loaded them:
hand-written streams, random ones, bad calls and the command table, as for the core.

A family has up to three files of its name: `streams/modules/NAME.txt`, `grammar/modules/NAME.txt` and
`matrix_modules/NAME.txt`. In the last, `:TYPE command` is a command that makes the key K of that type, `-WORD` is a
bad argument that is not tried; the other lines are as in matrix.txt. Values are compared by their DUMP.
"""

import pathlib

import pytest

from differential.generator import GRAMMARS
from differential.runner import Runner
from differential.stream import load, split_words
from differential.test_command_table import differences, pairs, table_entry
from differential.test_generated import compare_episodes
from differential.test_matrix import SETUPS, SHOWN_MAX, play
from support.modules import COMMANDS, LATER, has_series, need_modules
from support.servers import Server, subject_is_oracle
from support.steps import figures

HERE = pathlib.Path(__file__).parent
STREAMS = sorted((HERE / "streams" / "modules").glob("*.txt"))
FAMILIES = sorted(path.stem for path in (GRAMMARS / "modules").glob("*.txt"))
MATRICES = sorted((HERE / "matrix_modules").glob("*.txt"))
# What compression makes of equal values differs, so there is none.
OPTIONS = {"hz": 500, "slowlog-log-slower-than": -1, "rdbcompression": "no"}


def read_matrix(path):
    """The setups, the good calls and what is left out: ({type: [command]}, [[type, word, ...]], {word})."""
    setups, calls, left_out = {}, [], set()
    for line in path.read_text().splitlines():
        if line.startswith(":"):
            kind, *command = split_words(line[1:])
            setups.setdefault(kind.decode(), []).append(command)
        elif line.startswith("-"):
            left_out.add(split_words(line[1:])[0])
        elif line and not line.startswith("#"):
            kind, *call = split_words(line)
            calls.append([kind.decode(), *call])
    return setups, calls, left_out


@pytest.fixture(scope="module")
def servers():
    yield from both(OPTIONS)


@pytest.fixture(scope="module")
def servers_on_disk():
    """The subject has every value that can be there on disk before each request."""
    yield from both(OPTIONS | {"tier-dir": ".", "tier-pressure": "yes", "tier-min-bytes": "1"})


def both(of_subject):
    need_modules()
    with Server("oracle", OPTIONS, modules=True) as oracle:
        with Server("subject", of_subject, workers=2, modules=True) as subject:
            yield oracle, subject
            if not subject.alive:
                print(subject.log_tail())


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_module_stream(path, protocol):
    need_modules(path.stem)
    lines = load(path)
    with Server("oracle", OPTIONS, modules=True) as oracle:
        with Server("subject", OPTIONS, workers=2, modules=True) as subject:
            runner = Runner(oracle, subject, protocol)
            mismatches = runner.play(lines)
            runner.close()
            end = "" if subject.alive else f"\nthe subject is gone:\n{subject.log_tail()}"
    if mismatches:
        shown = "\n".join(map(str, mismatches[:SHOWN_MAX]))
        pytest.fail(f"{len(mismatches)} mismatches of {len(lines)} lines\n{shown}{end}", pytrace=False)


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
@pytest.mark.parametrize("family", FAMILIES)
def test_module_generated(family, protocol, servers):
    need_modules(family)
    compare_episodes(family, [f"modules/{family}"], protocol, servers)


@pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no values on disk")
@pytest.mark.parametrize("family", FAMILIES)
def test_module_values_on_disk_change_nothing(family, servers_on_disk):
    need_modules(family)
    compare_episodes(family, [f"modules/{family}"], 2, servers_on_disk)


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
@pytest.mark.parametrize("path", MATRICES, ids=lambda path: path.stem)
def test_module_calls(path, protocol, servers):
    need_modules(path.stem)
    setups, calls, left_out = read_matrix(path)
    typical = {kind: kind for kind in setups} | {"none": "none"}
    setups = {name: SETUPS[name] for name in ("none", "string", "hash")} | setups
    found = []
    with servers[0].connect(protocol) as oracle, servers[1].connect(protocol) as subject:
        for call in calls:
            assert servers[1].alive, "the subject is gone"
            found += play(call, oracle, subject, setups, typical, left_out)
    if found:
        pytest.fail(f"{len(found)} mismatches\n" + "\n".join(map(str, found[:SHOWN_MAX])), pytrace=False)


def module_table(connection):
    """COMMAND INFO by name, of the commands of the modules that are compared."""
    names = tuple(name.encode() for name in COMMANDS if name != "ts." or has_series())
    commands = {command.value[0].value: command for command in connection("COMMAND").value}
    return {name: command for name, command in commands.items() if name.startswith(names) and name not in LATER}


def without_rights(entry):
    """An element of COMMAND INFO without what decides about rights: modules of that time name no ACL categories, and
    say of all commands that they change their keys."""
    kind, parts = entry
    specs = [(spec, [field for field in fields if field[0] != b"flags"]) for spec, fields in parts[8][1]]
    return (kind, [*parts[:6], *parts[7:8], specs, *parts[9:]])


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
def test_module_command_info(protocol, servers):
    tables = []
    for server in servers[::-1]:
        with server.connect(protocol) as connection:
            table = module_table(connection).items()
            tables.append({name: without_rights(table_entry(command)) for name, command in table})
    # It changes its key, and is told to be one that reads.
    tables[0].pop(b"cf.compact", None)
    found = differences(*tables, tables[0])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
def test_module_command_docs(protocol, servers):
    """These modules document nothing but where a command comes from."""
    found = []
    for server in servers[::-1]:
        with server.connect(protocol) as connection:
            docs = pairs(connection("COMMAND", "DOCS", *module_table(servers[1].connect())))
            found.append({name.value: pick(documentation) for name, documentation in docs})
    assert found[0] == found[1]


def pick(documentation):
    return {key.value: value.value for key, value in pairs(documentation) if key.value in (b"group", b"module")}


def test_questions_to_digests_count_as_lookups(servers):
    """Whether they compress the digest or not, and where they fail."""
    questions = (
        "CDF d 2", "RANK d 2", "REVRANK d 9", "BYRANK d 1", "BYREVRANK d 0", "QUANTILE d 0.5 0.9",
        "TRIMMED_MEAN d 0.1 0.9", "MIN d", "MAX d", "INFO d", "CDF d x", "RANK none 1", "CDF none 1",
    )
    counted = []
    for server in servers:
        with server.connect() as connection:
            connection.call("FLUSHALL")
            connection.call("TDIGEST.CREATE", "d")
            counts = []
            for question in questions * 2:
                connection.call("TDIGEST.ADD", "d", 1, 2, 3, 9)
                before = figures(connection, "stats")
                connection(*f"TDIGEST.{question}".split())
                after = figures(connection, "stats")
                names = ("keyspace_hits", "keyspace_misses")
                counts.append((question, [int(after[name]) - int(before[name]) for name in names]))
            counted.append(counts)
    assert counted[0] == counted[1]


def test_changes_by_popping_are_counted(servers):
    """JSON.ARRPOP of an empty array is a change if a legacy path leads to it."""
    counted = []
    for server in servers:
        with server.connect() as connection:
            connection.call("JSON.SET", "k", "$", '{"a":[],"b":[[],[]],"c":[1]}')
            counts = []
            for path in ("$.a", ".a", "$.b[*]", ".b[*]", "$..a", "$.*", "$.none"):
                before = figures(connection, "persistence")
                reply = connection("JSON.ARRPOP", "k", path)
                after = figures(connection, "persistence")
                name = "rdb_changes_since_last_save"
                counts.append((path, reply.raw, int(after[name]) - int(before[name])))
            counted.append(counts)
    assert counted[0] == counted[1]
