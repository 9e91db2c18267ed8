"""Replicas with values on disk: what a primary's commands need is read ahead of them, and they have their order."""

import pytest

from support.memory import figure
from support.seeds import generator
from support.servers import subject_is_oracle
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no values on disk")
LIMIT_BYTES = 10 << 20
HASHES = 6_000
TEXTS = 2_000


@pytest.fixture
def pair(start_server, tiered):
    """A primary with all values in memory, and its replica, which has most of them on disk."""
    primary = start_server(options={"save": ""}, workers=2)
    with primary.connect() as connection:
        commands = [("HSET", f"hash:{n}", "n", n, "text", str(n % 10) * 900, "more", "x" * 900) for n in range(HASHES)]
        commands += [("SET", f"text:{n}", "y" * 1_500) for n in range(TEXTS)]
        connection.pipeline(commands)
    replica = tiered(replicaof=f"127.0.0.1 {primary.port}")
    with replica.connect() as connection:
        eventually(lambda: figure(connection, "master_link_status") == "up", "the link does not come up")
        eventually(lambda: int(figure(connection, "tier_waiting_bytes")) < 1 << 20, "values do not reach the disk")
        assert int(figure(connection, "tier_values")) > HASHES // 2
    return primary, replica


def is_level(primary, replica):
    offsets = [figure(node, "master_repl_offset") for node in (primary, replica)]
    return offsets[0] == offsets[1]


def changes(random, count):
    """Commands on random values, one in ten of them in a transaction that uses two databases."""
    commands = []
    while len(commands) < count:
        number = random.randrange(HASHES)
        unit = random.choice(
            [
                [("HSET", f"hash:{number}", f"new:{random.randrange(3)}", random.random())],
                [("HINCRBY", f"hash:{number}", "n", random.randrange(100))],
                [("HDEL", f"hash:{number}", "more")],
                [("APPEND", f"text:{number % TEXTS}", f"+{number}")],
                [("RENAME", f"hash:{number}", f"hash:{number % 1_000}"), ("HSET", f"hash:{number}", "n", number)],
                [("SELECT", 1), ("SET", f"text:{number}", "z" * 200), ("SELECT", 0), ("DEL", f"text:{number % 50}")],
            ]
        )
        if random.randrange(10) == 0:
            other = [("HINCRBY", f"hash:{(number + at) % HASHES}", "n", 1) for at in range(random.randrange(100))]
            elsewhere = [("SELECT", 1), ("APPEND", f"text:{number}", "!"), ("SELECT", 0)]
            unit = [("MULTI",), *unit, *elsewhere, *other, ("EXEC",)]
        commands += unit
    return commands


def test_what_a_primary_changes_is_read_ahead(pair):
    primary, replica = pair
    with primary.connect() as connection, replica.connect() as other:
        before = {name: int(figure(other, name)) for name in ("tier_reads", "tier_waited_requests")}
        replies = connection.pipeline(changes(generator(), 8_000))
        assert not [reply for reply in replies if reply.is_error and "no such key" not in reply.text()]
        connection.call("WAIT", 1, 60_000)
        eventually(lambda: is_level(connection, other), "the replica does not get as far")
        assert connection.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST")
        reads = int(figure(other, "tier_reads")) - before["tier_reads"]
        waits = int(figure(other, "tier_waited_requests")) - before["tier_waited_requests"]
        assert reads > 1_000, "values were read"
        assert 0 < waits < reads / 4, f"{waits} waits for {reads} values: they are read together"
        assert "Connection with master lost" not in replica.log_text()


def test_a_link_that_is_cut_while_it_waits_goes_on_where_it_was(pair):
    primary, replica = pair
    random = generator()
    with primary.connect() as connection, replica.connect() as other:
        for _ in range(10):
            connection.pipeline(changes(random, 500))
            other.call("CLIENT", "KILL", "TYPE", "master")
        eventually(lambda: is_level(connection, other), "the replica does not get as far")
        assert connection.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST")
        assert figure(connection, "sync_full") == "1"
        assert int(figure(connection, "sync_partial_ok")) > 0


def lengths_of(connection, keys):
    return [reply.plain() for reply in connection.pipeline([("STRLEN", key) for key in keys])]


def test_a_promoted_replica_has_the_front_of_the_stream_and_nothing_later(pair):
    primary, replica = pair
    keys = [f"text:{number}" for number in range(TEXTS)]
    with primary.connect() as connection, replica.connect() as other:
        connection.pipeline([("APPEND", key, "!") for key in keys])
        assert other.call("REPLICAOF", "NO", "ONE") == b"OK"
        lengths = lengths_of(other, keys)
        applied = sum(length - 1_500 for length in lengths)
        assert lengths == [1_501] * applied + [1_500] * (TEXTS - applied)
        connection.call("SET", "later", "1")
        assert other.call("SET", keys[-1], "mine") == b"OK"
        assert lengths_of(other, keys[:-1]) == lengths[:-1]
        assert other.call("EXISTS", "later") == 0
        # And it follows again, with all data.
        assert other.call("REPLICAOF", "127.0.0.1", primary.port) == b"OK"
        eventually(lambda: is_level(connection, other), "the replica does not get as far")
        assert connection.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST")


def test_a_replica_that_waits_ends_when_told(pair):
    primary, replica = pair
    with primary.connect() as connection, replica.connect() as other:
        connection.pipeline([("APPEND", f"text:{number}", "!") for number in range(TEXTS)])
        other.send("SHUTDOWN", "NOSAVE")
        assert replica.wait_exit() == 0
