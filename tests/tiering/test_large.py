"""Large values on disk: collections of every form come back as they were, whatever happens to them meanwhile."""

import threading

import pytest

from support.filling import fill
from support.memory import figure, used
from support.seeds import generator
from support.servers import subject_is_oracle
from support.state import all_keys, databases
from support.waiting import eventually, until_loaded

from .test_tier import location

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no values on disk")
LIMIT_BYTES = 32 << 20


def wait_for_disk(connection, keys):
    """Values are drawn by chance, some with each command."""
    left = set(keys)

    def all_are_there():
        left.difference_update([key for key in left if location(connection, key) == "disk"])
        return not left

    eventually(all_are_there, lambda: f"not on disk: {left}")


def fill_large(connection):
    """Collections in the forms for large ones, some of them with few elements left, and other large values."""
    elements = [f"element:{number}" for number in range(3_000)]
    connection.call("HSET", "large:hash", *[word for element in elements for word in (element, element)])
    connection.call("SADD", "large:set", *elements)
    connection.call("ZADD", "large:zset", *[word for at, element in enumerate(elements) for word in (at / 7, element)])
    connection.call("RPUSH", "large:list", *elements)
    connection.call("RPUSH", "large:wide", *[element * 1_000 for element in elements[:50]])
    for at in range(0, 3_000, 3):
        connection.call("XADD", "large:stream", f"{at + 1}-1", "field", elements[at])
    connection.call("XGROUP", "CREATE", "large:stream", "group", "0")
    connection.call("XREADGROUP", "GROUP", "group", "reader", "COUNT", 40, "STREAMS", "large:stream", ">")
    connection.call("HSET", "few:hash", *[word for element in elements for word in (element, element)])
    connection.call("HDEL", "few:hash", *elements[3:])
    connection.call("SADD", "few:set", *elements)
    connection.call("SREM", "few:set", *elements[3:])
    connection.call("SADD", "few:packed", "1", "2", "word", "x" * 60)
    connection.call("SREM", "few:packed", "word", "x" * 60)
    connection.call("SADD", "few:packed", *range(10, 40))
    connection.call("ZADD", "few:zset", *[word for element in elements for word in ("-0", element)])
    connection.call("ZREM", "few:zset", *elements[5:])
    connection.call("JSON.SET", "large:json", "$", "[" + ",".join(f'{{"a":{n},"b":"{n}"}}' for n in range(3_000)) + "]")
    connection.call("BF.RESERVE", "large:bloom", "0.001", "50000")
    connection.call("BF.MADD", "large:bloom", *elements)
    connection.call("CF.RESERVE", "large:cuckoo", "5000")
    connection.call("CMS.INITBYDIM", "large:sketch", "2000", "5")
    connection.call("CMS.INCRBY", "large:sketch", *[word for element in elements for word in (element, 3)])
    connection.call("TOPK.RESERVE", "large:top", "50")
    connection.call("TOPK.ADD", "large:top", *elements)


def told(connection, keys):
    """What is told of the keys and their values."""
    asked = (("TYPE",), ("OBJECT", "ENCODING"), ("PEXPIRETIME",), ("DEBUG", "DIGEST-VALUE"))
    replies = connection.pipeline([(*words, key) for key in keys for words in asked])
    return [reply.plain() for reply in replies]


def test_every_value_comes_back_as_it_was(tiered):
    server = tiered(**{"maxmemory": "1gb"})
    with server.connect() as connection:
        fill(connection)
        fill_large(connection)
        expected = {}
        for number in databases(connection):
            connection.call("SELECT", number)
            expected[number] = told(connection, all_keys(connection))
        connection.call("CONFIG", "SET", "tier-pressure", "yes")
        # Limits that tell nothing of the values that are there.
        limits = [("hash-max-listpack-entries", 1), ("set-max-intset-entries", 1), ("zset-max-listpack-entries", 1)]
        limits += [("set-max-listpack-entries", 1), ("list-max-listpack-size", 1)]
        for name, value in limits:
            connection.call("CONFIG", "SET", name, value)
        connection.call("SELECT", 0)
        gone = [key for key in all_keys(connection) if key.startswith((b"large:", b"few:h", b"few:s", b"few:z"))]
        wait_for_disk(connection, gone)
        for _ in range(2):
            for number, values in expected.items():
                connection.call("SELECT", number)
                assert told(connection, all_keys(connection)) == values
        connection.call("SELECT", 0)
        wait_for_disk(connection, gone)
        # They are as before to commands that change them, too.
        assert connection.call("HSET", "large:hash", "element:5", "changed", "new", "value") == 1
        assert connection.call("HGET", "large:hash", "element:5") == b"changed"
        assert connection.call("ZRANK", "large:zset", "element:2999") == 2_999
        assert connection.call("LINDEX", "large:list", -1) == b"element:2999"
        assert connection.call("XPENDING", "large:stream", "group")[0] == 40
        assert connection.call("XLEN", "large:stream") == 1_000
        assert connection.call("JSON.GET", "large:json", "$[2999].b") == b'["2999"]'
        assert connection.call("BF.EXISTS", "large:bloom", "element:77") == 1


def test_large_collections_beyond_memory(tiered):
    server = tiered()
    with server.connect() as connection:
        for number in range(60):
            for start in range(0, 10_000, 1_000):
                fields = [f"field:{at}" for at in range(start, start + 1_000)]
                words = [word for field in fields for word in (field, f"value:{number}:{field}:" * 4)]
                connection.call("HSET", f"hash:{number}", *words)
        assert int(figure(connection, "evicted_keys")) == 0
        eventually(lambda: used(connection) < LIMIT_BYTES * 1.2, lambda: f"{used(connection)} bytes")
        random = generator()
        for _ in range(200):
            number, field = random.randrange(60), f"field:{random.randrange(10_000)}"
            assert connection.call("HGET", f"hash:{number}", field) == (f"value:{number}:{field}:" * 4).encode()
        assert all(connection.call("HLEN", f"hash:{number}") == 10_000 for number in range(60))
        digest = connection.call("DEBUG", "DIGEST")
        assert connection.call("SAVE") == b"OK"
    server.restart(crash=True)
    with server.connect() as connection:
        until_loaded(connection)
        assert connection.call("DEBUG", "DIGEST") == digest
        assert connection.call("FLUSHALL") == b"OK"
        eventually(lambda: int(figure(connection, "tier_values")) == 0, "values stay on disk")


def test_changes_while_values_go(tiered):
    """Each client has collections of its own, of which it knows what is in them."""
    server = tiered(**{"tier-pressure": "yes", "maxmemory": "256mb"})
    failures = []

    def work(client):
        random = generator(client)
        members, scores, entries = set(), {}, []
        names = [f"{kind}:{client}" for kind in ("set", "zset", "list")]
        with server.connect() as connection:
            for step in range(80):
                fresh = [f"{client}:{step}:{number}" for number in range(random.randrange(1, 60))]
                connection.call("SADD", names[0], *fresh)
                members.update(fresh)
                gone = random.sample(sorted(members), min(len(members), random.randrange(1, 20)))
                connection.call("SREM", names[0], *gone)
                members.difference_update(gone)
                connection.call("ZADD", names[1], *[word for member in fresh for word in (step, member)])
                scores.update(dict.fromkeys(fresh, step))
                connection.call("RPUSH", names[2], *fresh)
                entries += fresh
                if random.random() < 0.05:
                    connection.call("RENAME", names[0], f"{names[0]}:other")
                    connection.call("RENAME", f"{names[0]}:other", names[0])
                if random.random() < 0.02:
                    connection.call("DEL", names[2])
                    entries = []
                seen = connection.call("SCARD", names[0]), connection.call("ZCARD", names[1])
                seen += (connection.call("LLEN", names[2]), connection.call("ZSCORE", names[1], fresh[0]))
                expected = (len(members), len(scores), len(entries), str(step).encode())
                if seen != expected:
                    failures.append((client, step, seen, expected))
            if set(connection.call("SMEMBERS", names[0])) != {member.encode() for member in members}:
                failures.append((client, "members"))
            if connection.call("LRANGE", names[2], 0, -1) != [entry.encode() for entry in entries]:
                failures.append((client, "elements"))

    threads = [threading.Thread(target=work, args=(client,)) for client in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:5]
    with server.connect() as connection:
        assert int(figure(connection, "tier_offloaded_values")) > 20
        assert int(figure(connection, "tier_read_errors")) == 0
