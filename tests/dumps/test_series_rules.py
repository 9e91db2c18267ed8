"""Time series with rules travel both ways between this server and a redis-server with the module, with what their
buckets under way have come to: what is added afterwards leads to the same destinations."""

import pytest

from support.modules import DIRECTIONS, need_modules, start
from support.waiting import eventually, until_written

AGGREGATIONS = "min max sum avg count first last range std.p std.s var.p var.s twa".split()
BEFORE = [(110, 5), (120, 9), (205, 3), (210, 4), (230, 8)]
AFTER = [(260, 1.5), (440, 1), (441, 7), (600, 3), (222, 4), (900, 2)]


@pytest.fixture(autouse=True)
def modules():
    need_modules("series")


def add(connection, samples):
    for time, value in samples:
        assert connection.call("TS.ADD", "source", time, value) == time


def fill(connection):
    connection.call("TS.CREATE", "source")
    connection.call("TS.CREATE", "empty")
    connection.call("TS.CREATE", "of empty")
    connection.call("TS.CREATERULE", "empty", "of empty", "AGGREGATION", "first", 10)
    for name in AGGREGATIONS:
        connection.call("TS.CREATE", f"by-{name}")
        connection.call("TS.CREATERULE", "source", f"by-{name}", "AGGREGATION", name, 100, 7)
    add(connection, BEFORE)


def picture(connection):
    """What every series holds, and what it is linked to."""
    seen = {}
    for key in sorted(connection.call("KEYS", "*")):
        told = connection.call("TS.INFO", key)
        told = dict(zip(told[::2], told[1::2]))
        samples = connection.call("TS.RANGE", key, "-", "+"), connection.call("TS.GET", key, "LATEST")
        seen[key] = (told[b"sourceKey"], told[b"rules"], *samples)
    return seen


def shows(replica, expected):
    """Whether a replica has come that far. While it has not, keys may go between two commands."""
    try:
        return picture(replica) == expected
    except AssertionError:
        return False


@pytest.mark.parametrize("writer, reader", DIRECTIONS)
def test_dumps(writer, reader, start_server):
    writer = start(start_server, writer)
    with writer.connect() as connection:
        fill(connection)
        connection.call("SAVE")
        add(connection, AFTER)
        expected = picture(connection)
    writer.kill()
    with start(start_server, reader, directory=writer.directory).connect() as connection:
        add(connection, AFTER)
        assert picture(connection) == expected


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_logs(preamble, start_server):
    """Rewritten in the middle, as a dump or as commands. The module's lose the rules where they are commands."""
    options = {"appendonly": "yes", "aof-use-rdb-preamble": preamble}
    writer = start(start_server, "subject", options=options)
    with writer.connect() as connection:
        fill(connection)
        connection.call("BGREWRITEAOF")
        until_written(connection)
        add(connection, AFTER[:3])
        expected = picture(connection)
        digest = connection.call("DEBUG", "DIGEST")
    writer.terminate()
    with start(start_server, "subject", options=options, directory=writer.directory).connect() as connection:
        assert picture(connection) == expected
        assert connection.call("DEBUG", "DIGEST") == digest
        connection.call("DEBUG", "RELOAD")
        assert picture(connection) == expected


@pytest.mark.parametrize("primary, replica", DIRECTIONS)
def test_replicas(primary, replica, start_server):
    source, replica = start(start_server, primary), start(start_server, replica)
    with source.connect() as connection, replica.connect() as other:
        fill(connection)
        other.call("REPLICAOF", "127.0.0.1", source.port)
        eventually(lambda: b"master_link_status:up" in other.call("INFO", "replication"), "no link")
        add(connection, AFTER)
        for line in [
            "RENAME source origin",
            "RENAME by-avg mean",
            "TS.ADD origin 1200 4",
            "TS.DEL origin 400 500",
            "TS.DELETERULE origin by-min",
            "MULTI",
            "TS.ADD origin 1300 4",
            "RENAME by-count number",
            "EXEC",
            "COPY origin copy",
            "DEL by-sum",
            "TS.MADD origin 1400 1 origin 1500 2",
        ]:
            assert not connection(*line.split()).is_error, line
        connection.call("EVAL", "redis.call('TS.ADD', 'origin', 1600, 1)", 0)
        expected = picture(connection)
        eventually(lambda: shows(other, expected), "the replica has other data")


@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_a_restored_series_has_no_links(kind, start_server):
    connection = start(start_server, kind).connect()
    fill(connection)
    for key in ("source", "by-sum"):
        payload = connection.call("DUMP", key)
        connection.call("RESTORE", key, 0, payload, "REPLACE")
        assert picture(connection)[key.encode()][:2] == (None, [])
    add(connection, AFTER[:2])
    assert connection.call("TS.RANGE", "by-sum", "-", "+") == [[107, b"17"]]
