"""What is freed in the background is counted as redis-server counts it, and comes back without traffic."""

import pytest

from support.servers import Server
from support.waiting import eventually

ELEMENTS = 1000


def figures(connection):
    text = connection.call("INFO", "memory").decode()
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(fields["lazyfree_pending_objects"]), int(fields["lazyfreed_objects"])


def fill(connection):
    """Values of all kinds, large and small, of which four take long to free."""
    numbers = range(ELEMENTS)
    connection.pipeline(
        [
            ("SET", "string", "x" * 100_000),
            ("SADD", "integers", *range(100)),
            ("SADD", "set", *(f"member:{n}" for n in numbers)),
            ("HSET", "hash", *(word for n in numbers for word in (f"field:{n}", n))),
            ("HSET", "small-hash", *(word for n in range(100) for word in (f"field:{n}", n))),
            ("ZADD", "zset", *(word for n in numbers for word in (n, f"member:{n}"))),
            ("RPUSH", "list", *numbers),
            ("RPUSH", "long-list", *(str(n) * 200 for n in numbers)),
        ]
    )
    return 8


def keys():
    return ["string", "integers", "set", "hash", "small-hash", "zset", "list", "long-list", "missing"]


SERVER_DEL = [("CONFIG", "SET", "lazyfree-lazy-server-del", "yes")]
# What DUMP says of the string 1.
SMALL_DUMP = bytes.fromhex("00c0010c00ed0ed3762b2b8fb5")


def functions(count):
    """Loads a library with that many functions."""
    lines = (f"redis.register_function('f{n}', function() return 1 end)" for n in range(count))
    return "FUNCTION", "LOAD", "\n".join(["#!lua name=library", *lines])


CALLS = {
    "unlink": [("UNLINK", *keys())],
    "del": [("DEL", *keys())],
    "lazy del": [("CONFIG", "SET", "lazyfree-lazy-user-del", "yes"), ("DEL", *keys())],
    "flushall": [("FLUSHALL",)],
    "flushall sync": [("FLUSHALL", "SYNC")],
    "flushdb async": [("FLUSHDB", "ASYNC")],
    "flush in a transaction": [("MULTI",), ("FLUSHALL",), ("EXEC",)],
    "async in a transaction": [("MULTI",), ("FLUSHALL", "ASYNC"), ("EXEC",)],
    "lazily in a transaction": [
        ("CONFIG", "SET", "lazyfree-lazy-user-flush", "yes"),
        ("MULTI",),
        ("FLUSHALL",),
        ("EXEC",),
    ],
    "flush in a script": [("EVAL", "return redis.call('FLUSHALL')", 0)],
    "expire in the past": [
        ("CONFIG", "SET", "lazyfree-lazy-expire", "yes"),
        *(("PEXPIREAT", key, 1) for key in keys()),
    ],
    "expire": [
        ("CONFIG", "SET", "lazyfree-lazy-expire", "yes"),
        *(("PEXPIRE", key, 1) for key in keys()),
    ],
    "expire, not lazily": [("PEXPIRE", key, 1) for key in keys()],
    "evict": [
        ("CONFIG", "SET", "lazyfree-lazy-eviction", "yes"),
        ("CONFIG", "SET", "maxmemory-policy", "allkeys-random"),
        ("CONFIG", "SET", "maxmemory", 1),
    ],
    "evict, not lazily": [
        ("CONFIG", "SET", "maxmemory-policy", "allkeys-random"),
        ("CONFIG", "SET", "maxmemory", 1),
    ],
    "replace": [
        *SERVER_DEL,
        *(("SET", key, "x") for key in keys()),
        ("DEL", *keys()),
    ],
    "replace, not lazily": [*(("SET", key, "x") for key in keys()), ("DEL", *keys())],
    "rename": [
        *SERVER_DEL,
        *(command for key in keys()[:-1] for command in (("SET", "new", 1), ("RENAME", "new", key))),
        ("DEL", *keys()),
    ],
    "copy": [
        *SERVER_DEL,
        ("SET", "new", 1),
        *(("COPY", "new", key, "REPLACE") for key in keys()),
        ("DEL", "new", *keys()),
    ],
    "restore": [
        *SERVER_DEL,
        *(("RESTORE", key, 0, SMALL_DUMP, "REPLACE") for key in keys()),
        ("DEL", *keys()),
    ],
    "store": [
        *SERVER_DEL,
        ("SADD", "new", 1),
        ("SUNIONSTORE", "set", "new"),
        ("SINTERSTORE", "hash", "missing"),
        ("ZUNIONSTORE", "zset", 1, "new"),
        ("SORT", "new", "STORE", "long-list"),
        ("SORT", "missing", "STORE", "list"),
        ("BITOP", "NOT", "small-hash", "missing"),
        ("DEL", "new", *keys()),
    ],
    "take all": [
        *SERVER_DEL,
        # SPOP counts twice in redis-server, which copies the set for its reply and frees that in the background too.
        ("SREM", "set", *(f"member:{n}" for n in range(ELEMENTS))),
        ("LTRIM", "long-list", 1, 0),
        ("ZREMRANGEBYRANK", "zset", 0, -1),
        ("DEL", *keys()),
    ],
    "delete beside server-del": [*SERVER_DEL, ("DEL", *keys())],
    "move": [
        *SERVER_DEL,
        *(("MOVE", key, 1) for key in keys()),
        ("SWAPDB", 0, 1),
        ("FLUSHALL",),
    ],
    "scripts": [
        *(("SCRIPT", "LOAD", f"return {n}") for n in range(65)),
        ("SCRIPT", "FLUSH", "ASYNC"),
        *(("SCRIPT", "LOAD", f"return {n}") for n in range(64)),
        ("SCRIPT", "FLUSH", "ASYNC"),
        *(("SCRIPT", "LOAD", f"return {n}") for n in range(65)),
        ("SCRIPT", "FLUSH"),
        ("FLUSHALL",),
    ],
    "functions": [
        *(command for count in (64, 65) for command in (functions(count), ("FUNCTION", "FLUSH", "ASYNC"))),
        functions(65),
        ("FUNCTION", "FLUSH", "SYNC"),
        ("CONFIG", "SET", "lazyfree-lazy-user-flush", "yes"),
        functions(65),
        ("FUNCTION", "FLUSH"),
        ("FLUSHALL", "SYNC"),
    ],
}


@pytest.mark.parametrize("name", CALLS)
def test_objects_are_counted_alike(name):
    counts = {}
    for kind in ("oracle", "subject"):
        with Server(kind) as server, server.connect() as connection:
            fill(connection)
            replies = connection.pipeline(CALLS[name])
            assert [reply for reply in replies if reply.is_error] == []
            eventually(lambda: connection.call("DBSIZE") == 0, "keys stay")
            connection.call("CONFIG", "SET", "maxmemory", 0)
            # What follows is freed after it, so that all is counted then.
            connection.call("SADD", "last", *(f"member:{n}" for n in range(ELEMENTS)))
            connection.call("UNLINK", "last")
            eventually(lambda: figures(connection)[0] == 0 and figures(connection)[1] > 0, "nothing is freed")
            counts[kind] = figures(connection)[1]
            connection.call("CONFIG", "RESETSTAT")
            assert figures(connection) == (0, 0)
    assert counts["subject"] == counts["oracle"]


def test_memory_comes_back_without_traffic():
    with Server("subject") as server, server.connect() as connection:
        for start in range(0, 400_000, 100):
            words = [word for n in range(start, start + 100) for word in (f"field:{n}", "x" * 50)]
            connection.call("HSET", "hash", *words)
        before, resident = used_memory(connection), server.memory_anonymous_bytes()
        connection.call("UNLINK", "hash")
        # The kernel is asked, not the server.
        eventually(lambda: server.memory_anonymous_bytes() < resident / 2, "resident memory stays")
        assert used_memory(connection) < before / 10


def used_memory(connection):
    text = connection.call("INFO", "memory").decode()
    return int(text.split("used_memory:", 1)[1].split()[0])
