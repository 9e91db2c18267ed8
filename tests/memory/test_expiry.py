"""Keys whose time has passed go by themselves, and their memory with them."""

import pytest

from support.memory import figure, used
from support.servers import Server
from support.waiting import eventually


def wait_until(connection, keys):
    eventually(lambda: connection.call("DBSIZE") <= keys, "keys stay")


def test_all_of_many_go_and_their_memory_comes_back(subject):
    with subject.connect() as connection:
        connection("SET", "warm", "up")
        before = used(connection)
        for start in range(0, 50_000, 1_000):
            connection.pipeline([("SET", f"key:{n}", "v" * 100, "PX", "1") for n in range(start, start + 1_000)])
        wait_until(connection, 1)
        assert used(connection) < before + (1 << 20)
        assert int(figure(connection, "expired_keys")) == 50_000


def test_rare_ones_among_many_go_too(subject):
    with subject.connect() as connection:
        for start in range(0, 100_000, 1_000):
            connection.pipeline([("SET", f"key:{n}", "v") for n in range(start, start + 1_000)])
        for number in range(20):
            connection("SET", f"expiring:{number}", "v", "PX", "1")
        wait_until(connection, 100_000)


def test_databases_do_not_wait_for_each_other(subject):
    with subject.connect() as connection:
        for database in range(16):
            connection("SELECT", str(database))
            connection.pipeline([("SET", f"key:{n}", "v", "PX", "1") for n in range(500)])
        for database in range(16):
            connection("SELECT", str(database))
            wait_until(connection, 0)


def test_events_are_published_without_access(subject):
    with subject.connect() as connection, subject.connect() as listener:
        connection("CONFIG", "SET", "notify-keyspace-events", "Ex")
        listener("SUBSCRIBE", "__keyevent@0__:expired")
        connection("SET", "gone", "v", "PX", "1")
        assert listener.read().plain()[2] == b"gone"


def test_effort_and_its_figures(subject):
    with subject.connect() as connection:
        for effort in (1, 10):
            assert connection.call("CONFIG", "SET", "active-expire-effort", str(effort)) == b"OK"
            connection.pipeline([("SET", f"key:{n}", "v", "PX", "1") for n in range(5_000)])
            wait_until(connection, 0)
        assert connection("CONFIG", "SET", "active-expire-effort", "11").is_error
        assert float(figure(connection, "expired_stale_perc")) >= 0
        connection("CONFIG", "RESETSTAT")
        assert int(figure(connection, "expired_keys")) == 0


def test_it_can_be_turned_off(subject):
    with subject.connect() as connection:
        connection("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        connection.pipeline([("SET", f"key:{n}", "v", "PX", "1") for n in range(100)])
        eventually(lambda: connection.call("GET", "key:0") is None, "the key lives")
        assert connection.call("DBSIZE") >= 90
        connection("DEBUG", "SET-ACTIVE-EXPIRE", "1")
        wait_until(connection, 0)


@pytest.mark.parametrize(
    "calls",
    [
        [("SCAN", "0", "COUNT", "1000", "MATCH", "none*")],
        [("MULTI",), ("SCAN", "0", "COUNT", "1000"), ("EXEC",)],
        [("EVAL", "return redis.call('SCAN', '0', 'COUNT', '1000')", "0")],
        [("KEYS", "*")],
    ],
)
def test_a_scan_removes_what_it_finds_expired(calls):
    """Without active expiry, as redis-server does; and so that the log knows."""
    for kind in ("oracle", "subject"):
        with Server(kind, {"appendonly": "yes"}) as server:
            with server.connect() as connection:
                connection.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
                connection.pipeline([("SET", f"key:{n}", "x", "PX", "1") for n in range(100)])
                connection.call("SET", "live", "x")
                connection.call("CONFIG", "SET", "notify-keyspace-events", "Ex")
                eventually(lambda: connection.call("EXISTS", "key:99") == 0, "the keys live")
                connection.pipeline(calls)
                stays = 100 if calls[0][0] == "KEYS" else 1
                assert connection.call("DBSIZE") == stays, kind
                assert f"expired_keys:{101 - stays}".encode() in connection.call("INFO", "stats")
            server.terminate()  # redis-server writes later while a sync takes its time
            log = b"".join(path.read_bytes() for path in server.directory.glob("appendonlydir/*.incr.aof"))
            assert log.count(b"DEL\r\n") == 101 - stays, kind


def test_a_random_key_is_none_that_has_expired():
    for kind in ("oracle", "subject"):
        with Server(kind) as server, server.connect() as connection:
            connection.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
            connection.pipeline([("SET", f"key:{n}", "x", "PX", "1") for n in range(9)])
            connection.call("SET", "live", "x")
            eventually(lambda: connection.call("EXISTS", "key:8") == 0, "the keys live")
            assert [connection.call("RANDOMKEY") for _ in range(200)] == [b"live"] * 200
            assert connection.call("DBSIZE") == 1, kind
