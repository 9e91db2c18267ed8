"""FLUSHALL where save points are configured: what was flushed does not come back after a crash."""

import pytest

from support.servers import Server
from support.waiting import eventually, persistence

SAVES = {"save": ["3600", "1000000"]}
LIBRARY = "#!lua name=library\nredis.register_function('f', function() return 1 end)"


def flush(connection, how):
    """FLUSHALL in this manner, with a key set before and one after it. Returns the keys that remain."""
    if how == "script":
        connection.call("EVAL", "redis.call('SET', 'x', 1) redis.call('FLUSHALL') redis.call('SET', 'y', 1)", 0)
        return {b"y"}
    if how == "transaction":
        connection.pipeline([("MULTI",), ("SET", "x", 1), ("FLUSHALL",), ("SET", "y", 1), ("EXEC",)])
        return {b"y"}
    assert connection.call("FLUSHALL", *how.split()) == b"OK"
    return set()


@pytest.mark.parametrize("how", ["", "ASYNC", "SYNC", "script", "transaction"])
@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_an_empty_dump_is_written_at_once(kind, how):
    with Server(kind, SAVES) as server, server.connect() as connection:
        connection.call("FUNCTION", "LOAD", LIBRARY)
        connection.call("SET", "key", "value")
        assert connection.call("SAVE") == b"OK"
        saves = int(persistence(connection)["rdb_saves"])
        left = flush(connection, how)
        assert set(connection.call("KEYS", "*")) == left
        state = persistence(connection)
        assert int(state["rdb_changes_since_last_save"]) == len(left)
        assert int(state["rdb_saves"]) == saves
        server.restart(crash=True)
        with server.connect() as again:
            assert again.call("DBSIZE") == 0
            assert again.call("FCALL", "f", 0) == 1


@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_without_save_points_the_dump_stays(kind):
    with Server(kind) as server, server.connect() as connection:
        connection.call("SET", "key", "value")
        assert connection.call("SAVE") == b"OK"
        assert connection.call("FLUSHALL") == b"OK"
        server.restart(crash=True)
        with server.connect() as again:
            assert again.call("GET", "key") == b"value"


@pytest.mark.parametrize("kind", ["oracle", "subject"])
@pytest.mark.parametrize("save", [["3600", "1000000"], ""])
def test_a_dump_that_is_being_written_is_given_up(kind, save):
    options = {"save": save, "rdb-key-save-delay": 10_000_000}
    with Server(kind, options) as server, server.connect() as connection:
        connection.pipeline([("SET", f"key:{number}", "value") for number in range(100)])
        connection.call("BGSAVE")
        assert persistence(connection)["rdb_bgsave_in_progress"] == "1"
        assert connection.call("FLUSHALL") == b"OK"
        # Within far less than what is left would take.
        ended = lambda: persistence(connection)["rdb_bgsave_in_progress"] == "0"
        eventually(ended, "the dump is still written")
        assert persistence(connection)["rdb_last_bgsave_status"] == "ok"
        assert (server.directory / "dump.rdb").exists() == bool(save)
        assert not list(server.directory.glob("temp-*"))
        server.restart(crash=True)
        with server.connect() as again:
            assert again.call("DBSIZE") == 0


def test_flushing_a_database_leaves_the_dump():
    with Server("subject", SAVES) as server, server.connect() as connection:
        connection.call("SET", "key", "value")
        connection.call("SAVE")
        assert connection.call("FLUSHDB") == b"OK"
        server.restart(crash=True)
        with server.connect() as again:
            assert again.call("GET", "key") == b"value"


def test_later_dumps_are_not_replaced():
    """A dump that begins after the flush is the one that stays."""
    with Server("subject", SAVES, workers=4) as server, server.connect() as connection:
        for number in range(30):
            requests = [("FLUSHALL",), ("SET", "key", number), ("BGSAVE",), ("SET", "later", number)]
            with server.connect() as other:
                connection.pipeline(requests)
                other.call("PING")
            ended = lambda: persistence(connection)["rdb_bgsave_in_progress"] == "0"
            eventually(ended, "the dump is still written")
        server.restart(crash=True)
        with server.connect() as again:
            assert again.call("GET", "key") == b"29"
