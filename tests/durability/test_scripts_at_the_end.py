"""Scripts that run when the server ends: what they write is kept as a whole, or not at all."""

import pytest

from support.resp import Closed
from support.servers import subject_is_oracle
from support.waiting import PATIENCE_S, eventually

# Some seconds in redis-server.
LOOP = "local i = 0 while i < tonumber(ARGV[1]) do i = i + 1 end "
SCRIPT = f"redis.call('SET', KEYS[1], 1) {LOOP} redis.call('SET', KEYS[2], 1) return 1"
FOR_EVER = "1e300"


def begin(server, loops):
    """Has a script run that has written and is slow; returns its connection."""
    connection = server.connect()
    connection.send("EVAL", SCRIPT, 2, "{k}first", "{k}second", loops)
    with server.connect() as other:
        eventually(lambda: b"BUSY" in other("GET", "{k}first").raw, "the script is not slow")
    return connection


def written(server):
    with server.connect() as connection:
        return connection.call("MGET", "{k}first", "{k}second")


@pytest.fixture(params=["always", "everysec"])
def server(request, start_server):
    options = {"appendonly": "yes", "appendfsync": request.param, "busy-reply-threshold": 20, "save": ""}
    return start_server(options=options)


def test_a_script_that_has_written_ends_before_the_server(server):
    connection = begin(server, "30000000")
    assert server.terminate() == 0
    connection.close()
    server.start()
    assert written(server) == [b"1", b"1"]


def test_a_script_that_never_ends_leaves_nothing(server):
    running = begin(server, FOR_EVER)
    with server.connect() as connection:
        connection.send("SHUTDOWN", "NOSAVE")
        assert server.wait_exit(PATIENCE_S) == 0
    running.close()
    server.start()
    assert written(server) == [None, None]


@pytest.mark.skipif(subject_is_oracle(), reason="redis-server waits for ever")
def test_a_script_that_has_not_written_ends_with_the_server(server):
    with server.connect() as connection, server.connect() as other:
        connection.send("EVAL", f"{LOOP} redis.call('SET', KEYS[1], 1)", 1, "{k}first", FOR_EVER)
        eventually(lambda: b"BUSY" in other("GET", "{k}first").raw, "the script is not slow")
        assert server.terminate() == 0
        with pytest.raises((AssertionError, Closed)):
            assert not connection.read().is_error
    server.start()
    assert written(server) == [None, None]
