"""What a server logs makes the same data again: every hand-written stream and random commands of every family run on
a server with an append-only file, which is then loaded by a new start, and by redis-server; and the other way
round."""

import pathlib
import shutil

import pytest

from differential.generator import Grammar
from differential.runner import SMALL_THRESHOLDS
from support.rehearsal import rehearse
from support.resp import to_bytes
from support.seeds import generator
from support.servers import Server
from support.state import differences, lasting, whole_state
from support.waiting import until_written

STREAMS = pathlib.Path(__file__).parents[1] / "differential" / "streams"
# Streams about the server rather than its data, and one that changes how sketches are kept on its way.
LEFT_OUT = {
    "acl_checks", "acl_log", "acl_pubsub", "acl_rules", "auth", "client", "command", "config", "connection", "debug",
    "maxmemory", "monitor", "protocol_errors", "pubsub", "replication", "resp3_hello", "scripting_libraries",
    "scripting_patterns", "sketches", "slowlog_latency",
}  # fmt: skip
NAMES = sorted(path.stem for path in STREAMS.glob("*.txt") if path.stem not in LEFT_OUT)
FAMILIES = [f"random-{path.stem}" for path in sorted((STREAMS.parent / "grammar").glob("*.txt"))]
# Streams that leave what no command makes, here as in Redis: entries pending that have been deleted.
NOT_IN_COMMANDS = {"stream_groups"}
COMMANDS_PER_FAMILY = 1_500
OPTIONS = {"appendonly": "yes", "appendfsync": "no"}


def state_of(server):
    with server.connect() as connection:
        return whole_state(connection)


def expect_same(before, after):
    found = differences(lasting(before), after)
    assert not found, "\n".join(found[:20])


def play(server, name):
    if name in NAMES:
        rehearse(server, STREAMS / f"{name}.txt")
        return
    random = generator("effects", name)
    grammar = Grammar([name.removeprefix("random-")], random)
    with server.connect() as connection:
        for number in range(COMMANDS_PER_FAMILY):
            connection(*wrapped(grammar.command(), random, connection))
            if number == COMMANDS_PER_FAMILY // 2:
                # What comes after it goes to a new file beside the base that it makes.
                assert not connection("BGREWRITEAOF").is_error
        connection("EXEC")
        assert until_written(connection)["aof_last_bgrewrite_status"] == "ok"


def wrapped(command, random, connection):
    """A command as it is, or called by a script, or as the only one of a transaction."""
    draw = random.random()
    names = {b"MULTI", b"EXEC", b"DISCARD", b"WATCH", b"RESET", b"DEBUG", b"SELECT"}
    if draw < 0.1 and to_bytes(command[0]).upper() not in names:
        return ["EVAL", "redis.pcall(unpack(ARGV)) return redis.pcall('INCR', 'calls')", 0, *command]
    if draw < 0.2 and to_bytes(command[0]).upper() not in names and connection("MULTI").raw == b"+OK\r\n":
        connection("INCR", "transactions")
        connection(*command)
        return ["EXEC"]
    return command


@pytest.mark.parametrize("name", NAMES + FAMILIES)
def test_the_log_of_a_stream_makes_its_data_again(name, start_server, tmp_path):
    options = OPTIONS | (SMALL_THRESHOLDS if name in FAMILIES else {})
    server = start_server(options=options, workers=2)
    play(server, name)
    before = state_of(server)
    server.restart()
    expect_same(before, state_of(server))
    # What a load has made is what a rewrite writes, in either form of the base.
    with server.connect() as connection:
        preamble = "yes" if name in NOT_IN_COMMANDS else "no"
        connection.call("CONFIG", "SET", "aof-use-rdb-preamble", preamble)
        assert not connection("BGREWRITEAOF").is_error
        assert until_written(connection)["aof_last_bgrewrite_status"] == "ok"
    server.restart()
    expect_same(before, state_of(server))
    server.terminate()
    shutil.copytree(server.directory / "appendonlydir", tmp_path / "appendonlydir")
    with Server("oracle", options, directory=tmp_path) as oracle:
        expect_same(before, state_of(oracle))


@pytest.mark.parametrize("name", NAMES + FAMILIES)
def test_the_log_of_redis_server_makes_the_same_data_here(name, start_server, tmp_path):
    oracle = start_server("oracle", options=OPTIONS)
    play(oracle, name)
    # What it has not logged is gone there too.
    oracle.restart()
    before = state_of(oracle)
    oracle.terminate()
    shutil.copytree(oracle.directory / "appendonlydir", tmp_path / "appendonlydir")
    with Server("subject", OPTIONS, directory=tmp_path, workers=2) as server:
        expect_same(before, state_of(server))
