"""DEBUG DIGEST and all data, of every type, are the same after every way in which a server may be loaded again."""

import shutil

import pytest

from differential.generator import Grammar
from support.filling import fill
from support.seeds import generator
from support.state import differences, read_state
from support.waiting import until_written

FAMILIES = ["strings", "bits", "lists", "hashes", "sets", "zsets", "streams", "sketches", "geo"]


def rewrite(connection):
    connection.call("BGREWRITEAOF")
    until_written(connection)


def debug_reload(server, connection):
    connection.call("DEBUG", "RELOAD")


def debug_reload_without_save(server, connection):
    connection.call("SAVE")
    connection.call("DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE")


def dump(server, connection):
    connection.call("SAVE")
    server.restart(crash=True, appendonly="no")


def background_dump(server, connection):
    connection.call("BGSAVE")
    until_written(connection)
    server.restart(crash=True, appendonly="no")


def dump_at_the_end(server, connection):
    connection.call("CONFIG", "SET", "save", "3600 1")
    server.restart()


def switch_on(server, connection):
    connection.call("CONFIG", "SET", "appendonly", "yes")
    until_written(connection)


def log(server, connection):
    switch_on(server, connection)
    server.restart(appendonly="yes")


def log_after_a_crash(server, connection):
    switch_on(server, connection)
    connection.call("WAITAOF", 1, 0, 10_000)
    server.restart(crash=True, appendonly="yes")


def debug_loadaof(server, connection):
    switch_on(server, connection)
    connection.call("DEBUG", "LOADAOF")


def log_of_commands(server, connection):
    connection.call("CONFIG", "SET", "aof-use-rdb-preamble", "no")
    switch_on(server, connection)
    rewrite(connection)
    server.restart(appendonly="yes")


def log_of_one_file(server, connection):
    """As before version 7: one file, which begins with a dump."""
    switch_on(server, connection)
    rewrite(connection)
    server.terminate()
    folder = server.directory / "appendonlydir"
    parts = sorted(folder.glob("*.base.rdb")) + sorted(folder.glob("*.incr.aof"))
    (server.directory / "appendonly.aof").write_bytes(b"".join(part.read_bytes() for part in parts))
    shutil.rmtree(folder)
    server.options |= {"appendonly": "yes"}
    server.start()


PATHS = [
    debug_reload, debug_reload_without_save, dump, background_dump, dump_at_the_end, log, log_after_a_crash,
    debug_loadaof, log_of_commands, log_of_one_file,
]  # fmt: skip


@pytest.mark.parametrize("thresholds", ["default", "small"])
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
def test_the_digest_survives(path, thresholds, start_server):
    small = {"list-max-listpack-size": 2} | {f"{kind}-max-listpack-entries": 3 for kind in ("hash", "set", "zset")}
    server = start_server(options=small if thresholds == "small" else {}, workers=2)
    random = generator("digest", path.__name__, thresholds)
    with server.connect() as connection:
        fill(connection)
        grammar = Grammar(FAMILIES, random)
        connection.pipeline([grammar.command() for _ in range(2_000)])
        connection("EXEC")
        # A sorted set that has become small again has its negative zeros made positive by the first load, as in Redis.
        connection.call("DEBUG", "RELOAD")
        before = connection.call("DEBUG", "DIGEST"), read_state(connection, encodings=False)
        path(server, connection)
    with server.connect() as connection:
        after = connection.call("DEBUG", "DIGEST"), read_state(connection, encodings=False)
    found = differences(before[1], after[1])
    assert not found, "\n".join(found[:20])
    assert before[0] == after[0]
