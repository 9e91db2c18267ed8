"""Random command streams on both servers: replies, encodings and digests must agree.

A run is made of short episodes, each on empty servers and from its own seed, so that a failure needs no long
history: the failing episode is cut down to the commands that matter, and printed. MANTISSA_TEST_SEED changes
the run, MANTISSA_TEST_EPISODES its length.
"""

import os

import pytest

from differential.generator import Grammar
from differential.policy import agree, agree_exec, policy_of
from differential.runner import SMALL_THRESHOLDS, from_difference
from support.resp import show
from support.seeds import generator
from support.servers import Server, subject_is_oracle

FAMILIES = {
    "strings": ["strings"],
    "bits": ["bits"],
    "lists": ["lists", "strings"],
    "hashes": ["hashes"],
    "hash_expiry": ["hash_expiry", "hashes"],
    "sets": ["sets"],
    "zsets": ["zsets"],
    "streams": ["streams"],
    "keys": ["keys"],
    "sketches": ["sketches", "strings"],
    "geo": ["geo"],
    "mixed": [
        "strings",
        "bits",
        "lists",
        "hashes",
        "hash_expiry",
        "sets",
        "zsets",
        "streams",
        "keys",
        "sketches",
        "geo",
    ],
}
EPISODES = int(os.environ.get("MANTISSA_TEST_EPISODES", "25"))
COMMANDS_PER_EPISODE = 250
FAILURES_SHOWN_MAX = 6
SHRINK_REPLAYS_MAX = 250
WRITES_PROBED = 0.4


def episode_commands(families, random):
    """The commands of one episode; after many of them a look at the encoding of the key."""
    grammar = Grammar(families, random)
    commands = []
    for _ in range(COMMANDS_PER_EPISODE):
        command = grammar.command()
        commands.append(command)
        if len(command) > 1 and random.random() < WRITES_PROBED:
            commands.append([b"OBJECT", b"ENCODING", command[1]])
        if random.random() < 0.05:
            commands.append([b"DEBUG", b"DIGEST"])
    return [*commands, [b"EXEC"], [b"DEBUG", b"DIGEST"]]


def first_difference(commands, oracle, subject):
    """Play on empty servers: (index, oracle's reply, subject's reply) of the first disagreement, or None."""
    requests = [[b"RESET"], *([[b"HELLO", b"3"]] if oracle.protocol == 3 else []), [b"FLUSHALL"], *commands]
    skipped = len(requests) - len(commands)
    answers = [connection.pipeline(requests, batch=500) for connection in (oracle, subject)]
    queue = None
    for index, command in enumerate(commands):
        left, right = (replies[index + skipped] for replies in answers)
        if command[0] == b"EXEC" and queue is not None and left.is_aggregate:
            same = agree_exec(queue, left, right)
        else:
            same = agree(policy_of(command), left, right)
        if not same:
            return index, left, right
        if command[0] == b"MULTI" and left.raw == b"+OK\r\n":
            queue = []
        elif command[0] in (b"EXEC", b"DISCARD"):
            queue = None
        elif queue is not None and left.raw == b"+QUEUED\r\n":
            queue.append(policy_of(command))
    return None


def shrink(commands, found, oracle, subject):
    """Fewer commands that still end in a disagreement, and that disagreement. One that comes and goes stays whole."""
    commands = commands[: found[0] + 1]
    if not first_difference(commands, oracle, subject):
        return [[b"#", b"does", b"not", b"repeat:", b"the", b"last", b"of"], *commands[-40:]], found
    replays, size = 0, max(1, len(commands) // 2)
    while replays < SHRINK_REPLAYS_MAX:
        start, smaller = 0, False
        while start < len(commands) - 1 and replays < SHRINK_REPLAYS_MAX:
            end = min(start + size, len(commands) - 1)
            candidate = commands[:start] + commands[end:]
            replays += 1
            difference = first_difference(candidate, oracle, subject)
            if difference:
                commands, found, smaller = candidate[: difference[0] + 1], difference, True
            else:
                start = end
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    return commands, first_difference(commands, oracle, subject) or found


def describe(seed, commands, found):
    _, left, right = found
    history = "\n".join("      " + " ".join(quoted(arg) for arg in command) for command in commands)
    left, right = from_difference(show(left.raw, 100_000), show(right.raw, 100_000))
    head = f"  episode {seed}, cut to {len(commands)} commands:\n{history}"
    return f"{head}\n    oracle:  {left}\n    subject: {right}"


def quoted(arg):
    """An argument as redis-cli takes it."""
    text = show(arg, 100_000)
    return (
        text
        if text and text.isprintable() and not set(text) & set(" \"'\\")
        else '"' + text.replace('"', '\\"') + '"'
    )


def connect(server, protocol):
    connection = server.connect(protocol)
    connection.protocol = protocol
    return connection


@pytest.fixture(scope="module", params=["default", "small"])
def servers(request):
    options = {"hz": 500} | (SMALL_THRESHOLDS if request.param == "small" else {})
    yield from both(options, options)


@pytest.fixture(scope="module")
def servers_on_disk():
    """The subject has every value that can be there on disk before each request."""
    options = {"hz": 500}
    yield from both(options, options | {"tier-dir": ".", "tier-pressure": "yes", "tier-min-bytes": "1"})


def both(of_oracle, of_subject):
    with Server("oracle", of_oracle) as oracle, Server("subject", of_subject, workers=2) as subject:
        yield oracle, subject
        if not subject.alive:
            print(subject.log_tail())


@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
@pytest.mark.parametrize("family", FAMILIES)
def test_generated(family, protocol, servers):
    compare_episodes(family, FAMILIES[family], protocol, servers)


@pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no values on disk")
@pytest.mark.parametrize("family", FAMILIES)
def test_values_on_disk_change_nothing(family, servers_on_disk):
    compare_episodes(family, FAMILIES[family], 2, servers_on_disk)


def compare_episodes(family, grammars, protocol, servers):
    """Play all episodes of a family; fails with what disagrees."""
    failures, signatures = [], set()
    for episode in range(EPISODES):
        assert servers[1].alive, "the subject is gone"
        seed = (family, protocol, episode)
        commands = episode_commands(grammars, generator(*seed))
        with connect(servers[0], protocol) as oracle, connect(servers[1], protocol) as subject:
            found = first_difference(commands, oracle, subject)
            if not found:
                continue
            commands, found = shrink(commands, found, oracle, subject)
        signature = (commands[-1][0], found[1].raw[:30], found[2].raw[:30])
        if signature not in signatures:
            signatures.add(signature)
            failures.append(describe(seed, commands, found))
        if len(failures) >= FAILURES_SHOWN_MAX:
            break
    if failures:
        pytest.fail(f"{len(failures)} kinds of disagreement\n" + "\n".join(failures), pytrace=False)
