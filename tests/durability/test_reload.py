"""DEBUG RELOAD and DEBUG LOADAOF are one command each: nobody sees a state in between, and nothing that was
acknowledged is lost."""

import pytest

from support.crowd import Crowd
from support.seeds import generator
from support.servers import Server

RELOADS = 25
KEYS = 40
FILLING = 2000
LOGGED = {"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-percentage": 0}


def is_loading(reply):
    return reply.is_error and reply.text().startswith("LOADING")


def count_up(counts, own):
    """Increments that wait for each answer; `counts` has how many were acknowledged for each key."""

    def work(connection, random, stop):
        while not stop.is_set():
            key = f"count:{own}:{random.randrange(KEYS)}"
            reply = connection("INCR", key)
            if is_loading(reply):
                continue
            counts[key] = counts.get(key, 0) + 1
            assert reply.value == str(counts[key]).encode(), (key, reply, counts[key])

    return work


def look(connection, random, stop):
    """The filling is there as a whole, at any time."""
    while not stop.is_set():
        reply = connection("EXISTS", *(f"filling:{number}" for number in range(0, FILLING, 100)))
        assert is_loading(reply) or reply.value == str(FILLING // 100).encode(), reply


def reload(*words):
    def work(connection, random, stop):
        for _ in range(RELOADS):
            if stop.is_set():
                return
            reply = connection("DEBUG", *words)
            # A second one has to wait its turn, or is refused while a large file is loaded.
            assert reply.raw == b"+OK\r\n" or is_loading(reply), reply

    return work


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, ("RELOAD",)),
        ({"loading-process-events-interval-bytes": 1024}, ("RELOAD",)),
        ({}, ("RELOAD", "NOFLUSH", "MERGE")),
        (LOGGED, ("RELOAD",)),
        (LOGGED, ("LOADAOF",)),
        (LOGGED | {"loading-process-events-interval-bytes": 1024}, ("LOADAOF",)),
    ],
)
def test_nothing_that_was_acknowledged_is_lost(options, words):
    counts = {}
    with Server("subject", options, workers=4) as server, server.connect() as connection:
        connection.pipeline([("SET", f"filling:{number}", "x" * 100) for number in range(FILLING)])
        crowd = Crowd(server)
        for own in range(4):
            crowd.start(count_up(counts, own), generator(f"counts {own}"))
        crowd.start(look, generator("look"))
        reloads = [crowd.start(reload(*words), generator(f"reload {number}")) for number in range(2)]
        crowd.join(reloads)
        crowd.stop.set()
        crowd.join()
        values = connection.call("MGET", *counts)
        assert {key: int(value) for key, value in zip(counts, values)} == counts
        assert connection.call("DBSIZE") == len(counts) + FILLING


def test_a_transaction_may_reload():
    with Server("subject") as server, server.connect() as connection:
        connection.call("SET", "key", "before")
        requests = [("MULTI",), ("SET", "key", "within"), ("DEBUG", "RELOAD"), ("APPEND", "key", "+"), ("EXEC",)]
        connection.pipeline(requests)
        assert connection.call("GET", "key") == b"within+"


def test_a_dump_that_can_not_be_loaded_leaves_the_data():
    with Server("subject") as server, server.connect() as connection:
        connection.call("SET", "key", "value")
        for _ in range(2):
            reply = connection("DEBUG", "RELOAD", "NOSAVE")
            assert reply.text() == "ERR Error trying to load the RDB dump, check server logs."
            assert connection.call("GET", "key") == b"value"
            (server.directory / "dump.rdb").write_bytes(b"REDIS0012 no dump")


def test_keys_of_both_are_an_error_without_merge():
    with Server("subject") as server, server.connect() as connection:
        connection.call("SET", "key", "old")
        assert connection.call("SAVE") == b"OK"
        connection.call("SET", "key", "new")
        assert connection("DEBUG", "RELOAD", "NOSAVE", "NOFLUSH").is_error
        assert connection.call("GET", "key") == b"new"
        assert connection.call("DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE") == b"OK"
        assert connection.call("GET", "key") == b"old"


def test_functions_are_reloaded_like_keys():
    code = "#!lua name=%s\nredis.register_function('f_%s', function() return '%s' end)"
    for kind in ("oracle", "subject"):
        with Server(kind) as server, server.connect() as connection:
            connection.call("FUNCTION", "LOAD", code % ("one", "one", "one"))
            assert connection.call("DEBUG", "RELOAD") == b"OK"
            connection.call("FUNCTION", "LOAD", code % ("two", "two", "two"))
            assert connection("DEBUG", "RELOAD", "NOSAVE", "NOFLUSH").is_error
            assert connection.call("DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE") == b"OK"
            assert [connection.call("FCALL", f"f_{name}", 0) for name in ("one", "two")] == [b"one", b"two"]
            assert connection.call("DEBUG", "RELOAD", "NOSAVE") == b"OK"
            assert connection("FCALL", "f_two", 0).is_error


def test_a_set_of_numbers_that_was_packed_stays_packed():
    for kind in ("oracle", "subject"):
        with Server(kind) as server, server.connect() as connection:
            connection.call("SADD", "set", 1, 2, "word")
            connection.call("SREM", "set", "word")
            connection.call("RESTORE", "restored", 0, connection.call("DUMP", "set"))
            connection.call("DEBUG", "RELOAD")
            encodings = [connection.call("OBJECT", "ENCODING", key) for key in ("set", "restored")]
            assert encodings == [b"listpack"] * 2, kind


def test_watched_keys_count_as_changed():
    """A reload removes and restores them, as in redis-server."""
    for kind in ("oracle", "subject"):
        with Server(kind) as server, server.connect() as connection, server.connect() as other:
            connection.call("SET", "key", "value")
            connection.call("WATCH", "key")
            other.call("DEBUG", "RELOAD")
            connection.call("MULTI")
            connection.call("SET", "key", "other")
            assert connection("EXEC").is_null
