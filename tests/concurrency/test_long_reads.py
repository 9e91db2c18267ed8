"""Long reads of large values: they see one moment while others write, and are counted and tracked as others."""

import struct

import pytest

from support.crowd import Crowd
from support.memory import figure, used
from support.resp import encode
from support.seeds import generator
from support.waiting import eventually

COUNT = 600
VERSIONS = 150
READERS = 3

FIELDS = [f"field:{number:04}" for number in range(COUNT)]


def pairs(version, first):
    """Each name with the version, in the order in which a command takes them."""
    return [word for name in FIELDS for word in ((name, version) if first == "name" else (version, name))]


def write_hash(version):
    return [("HSET", "key", *pairs(version, "name"))]


def write_list(version):
    return [("DEL", "key"), ("RPUSH", "key", *[version] * COUNT)]


def write_sorted_set(version):
    return [("ZADD", "key", *pairs(version, "score"))]


def write_set(version):
    return [("DEL", "key"), ("SADD", "key", *(f"{name}={version}" for name in FIELDS))]


def write_stream(version):
    return [("DEL", "key")] + [("XADD", "key", f"{at + 1}-0", "field", version) for at in range(COUNT)]


def write_series(version):
    return [("TS.MADD", *(word for time in range(COUNT) for word in ("key", time, version)))]


def write_document(version):
    return [("JSON.SET", "key", "$", "[" + ",".join([str(version)] * COUNT) + "]")]


def write_sets(version):
    """Two sets with the same members, and one with others."""
    names = [f"{name}={version}" for name in FIELDS]
    others = [("SADD", "third", *(f"other-{name}" for name in names))]
    return [("DEL", "key", "other", "third"), ("SADD", "key", *names), ("SADD", "other", *names), *others]


def write_sorted_sets(version):
    return [("ZADD", key, *pairs(version, "score")) for key in ("key", "other")]


def every_second(reply):
    return reply.plain()[1::2]


def versions(members):
    return [member.split(b"=")[1] for member in members]


WORKS = {
    "HGETALL": (write_hash, ("HGETALL", "key"), every_second),
    "HVALS": (write_hash, ("HVALS", "key"), lambda reply: reply.plain()),
    "LRANGE": (write_list, ("LRANGE", "key", 0, -1), lambda reply: reply.plain()),
    "ZRANGE": (write_sorted_set, ("ZRANGE", "key", 0, -1, "WITHSCORES"), every_second),
    "ZRANGEBYSCORE": (write_sorted_set, ("ZRANGEBYSCORE", "key", "-inf", "+inf", "WITHSCORES"), every_second),
    "SMEMBERS": (write_set, ("SMEMBERS", "key"), lambda reply: versions(reply.plain())),
    "HSCAN": (write_hash, ("HSCAN", "key", 0, "COUNT", 9999), lambda reply: reply.plain()[1][1::2]),
    "SSCAN": (write_set, ("SSCAN", "key", 0, "COUNT", 9999), lambda reply: versions(reply.plain()[1])),
    "ZSCAN": (write_sorted_set, ("ZSCAN", "key", 0, "COUNT", 9999), lambda reply: reply.plain()[1][1::2]),
    "XRANGE": (write_stream, ("XRANGE", "key", "-", "+"), lambda reply: [entry[1][1] for entry in reply.plain()]),
    "SUNION": (write_sets, ("SUNION", "none", "other", "key", "key"), lambda reply: versions(reply.plain())),
    "SINTER": (write_sets, ("SINTER", "key", "other", "key"), lambda reply: versions(reply.plain())),
    "SDIFF": (write_sets, ("SDIFF", "key", "third", "none"), lambda reply: versions(reply.plain())),
    "ZUNION": (
        write_sorted_sets,
        ("ZUNION", 3, "none", "other", "key", "AGGREGATE", "MAX", "WITHSCORES"),
        every_second,
    ),
    "ZINTER": (write_sorted_sets, ("ZINTER", 2, "other", "key", "AGGREGATE", "MIN", "WITHSCORES"), every_second),
    "TS.RANGE": (write_series, ("TS.RANGE", "key", "-", "+"), lambda reply: [float(pair[1]) for pair in reply.plain()]),
    "JSON.GET": (write_document, ("JSON.GET", "key", "$[*]"), lambda reply: reply.plain().strip(b"[]").split(b",")),
}


@pytest.mark.parametrize("name", WORKS)
def test_a_long_read_sees_one_moment(start_server, name):
    server = start_server("subject", workers=2)
    write, read, versions_of = WORKS[name]
    with server.connect() as client:
        if name == "TS.RANGE":
            client.call("TS.CREATE", "key", "DUPLICATE_POLICY", "LAST")
        for command in write(0):
            assert not client(*command).is_error

    def writes(connection, _, stop):
        for version in range(1, VERSIONS):
            if stop.is_set():
                return
            replies = connection.pipeline([("MULTI",), *write(version), ("EXEC",)])
            assert not replies[-1].is_error
        stop.set()

    def reads(connection, _, stop):
        seen = 0
        while not stop.is_set():
            versions = versions_of(connection(*read))
            assert len(versions) == COUNT
            assert len(set(versions)) == 1, set(versions)
            assert float(versions[0]) >= seen
            seen = float(versions[0])

    crowd = Crowd(server)
    random = generator(name)
    crowd.start(writes, random)
    for _ in range(READERS):
        crowd.start(reads, random)
    crowd.join()


def test_packed_replies_read_images(start_server):
    server = start_server("subject")
    with server.connect() as client:
        for command in write_sorted_set(7):
            client.call(*map(str, command))
        text = client("ZRANGEBYSCORE", "key", "-inf", "+inf", "WITHSCORES").plain()[1::2]
        packed = client("MANTISSA.PACKED", "F64", "ZRANGEBYSCORE", "key", "-inf", "+inf", "WITHSCORES").value
        assert text == [b"7"] * COUNT and packed.count(struct.pack(">d", 7.0)) == COUNT


@pytest.mark.parametrize("size", [3, 200, 5_000])
def test_what_is_read_of_several_values_is_as_in_a_transaction(start_server, size):
    server = start_server("subject", workers=1)
    with server.connect() as client:
        numbers = range(size)
        client.call("SADD", "a", *(f"member:{n}" for n in numbers), *numbers)
        client.call("SADD", "b", *(f"member:{n * 2}" for n in numbers), *(n * 3 for n in numbers))
        client.call("SADD", "integers", *(n * 5 for n in numbers))
        client.call("ZADD", "z", *(word for n in numbers for word in (n / 4, f"member:{n * 3}")))
        client.call("SET", "text", "x" * 100_000)
        keys = [("a", "b"), ("b", "a"), ("none", "a", "integers"), ("integers", "b", "a", "b"), ("a", "a"), ("none",)]
        keys += [("a", "text"), ("text", "a")]
        plain = [(name, *some) for name in ("SUNION", "SINTER", "SDIFF") for some in keys]
        counted = [(n, len(some), *some) for n in ("SINTERCARD", "SUNIONCARD", "SDIFFCARD") for some in keys]
        scored = [
            (name, len(some) + 1, *some, "z", "WITHSCORES") for name in ("ZUNION", "ZINTER", "ZDIFF") for some in keys
        ]
        counted += [("ZINTERCARD", len(some) + 1, *some, "z", "LIMIT", 70) for some in keys]
        packed = [("MANTISSA.PACKED", "F64", *command) for command in scored]
        for command in plain + counted + scored + packed:
            before = hits(client)
            reply = client(*command)
            seen, before = hits(client) - before, hits(client)
            held = client.pipeline([("MULTI",), command, ("EXEC",)])[-1]
            assert hits(client) - before == seen, command
            one, other = reply.plain() if not reply.is_error else reply.text(), held
            other = other.plain()[0] if not reply.is_error else other.raw.decode().strip().split("-", 1)[1]
            if command in plain and not reply.is_error:
                one, other = sorted(one), sorted(other)
            assert one == other, command


def hits(client):
    return int(figure(client, "keyspace_hits"))


def test_a_long_read_counts_once_and_marks_its_key_as_used(start_server):
    server = start_server("subject", options={"maxmemory-policy": "allkeys-lfu", "lfu-log-factor": 0})
    with server.connect() as client:
        for command in write_hash(1):
            client.call(*map(str, command))
        frequency = client("OBJECT", "FREQ", "key").plain()
        before = hits(client)
        assert len(client("HGETALL", "key").plain()) == 2 * COUNT
        assert hits(client) == before + 1
        assert client("OBJECT", "FREQ", "key").plain() == frequency + 1
        assert client("TYPE", "key").plain() == b"hash"
        assert client("LRANGE", "key", 0, -1).text().startswith("WRONGTYPE")


PICKS = {
    "SRANDMEMBER": (("SADD", "k", 1, 2, 3), ("SRANDMEMBER", "k")),
    "HRANDFIELD": (("HSET", "k", "a", 1, "b", 2), ("HRANDFIELD", "k")),
    "ZRANDMEMBER": (("ZADD", "k", 1, "a", 2, "b"), ("ZRANDMEMBER", "k")),
}


@pytest.mark.parametrize("name", PICKS)
def test_picks_without_end_end(start_server, name):
    server = start_server("subject", workers=2)
    fill, pick = PICKS[name]
    with server.connect() as client, server.connect() as reader, server.connect() as other:
        client.call(*fill)
        few = reader.call(*pick, -100_000)
        assert len(few) == 100_000 and len(set(few)) in (2, 3)
        before = used(client)
        reader.send_raw(encode((*pick, -1_000_000_000)))
        received = 0
        while received < 100_000_000:
            received += len(reader.socket.recv(1 << 20))
        # It changes the value that is read.
        other.call(*fill)
        assert used(other) - before < 700_000_000
        while part := reader.socket.recv(1 << 20):
            received += len(part)
            assert received < 600_000_000
        eventually(lambda: used(client) - before < 20_000_000, "the reply is still there")
        assert len(client.call(*pick, -100_000)) == 100_000
    # All workers are there.
    for _ in range(8):
        with server.connect() as connection:
            assert connection.call("PING") == b"PONG"


def test_a_long_read_is_tracked(start_server):
    server = start_server("subject")
    with server.connect(3) as client, server.connect() as other:
        for command in write_hash(1):
            other.call(*map(str, command))
        client.call("CLIENT", "TRACKING", "ON")
        assert len(client("HVALS", "key").value) == COUNT
        other.call("HSET", "key", FIELDS[0], "2")
        pushed = client.read()
        assert pushed.kind == ">" and pushed.plain() == [b"invalidate", [b"key"]]


def test_transactions_and_scripts_read_what_they_have_written(start_server):
    server = start_server("subject")
    with server.connect() as client:
        for command in write_list(1):
            client.call(*map(str, command))
        direct = client("LRANGE", "key", 0, -1).plain()
        queued = [("MULTI",), ("RPUSH", "key", "last"), ("LRANGE", "key", 0, -1), ("EXEC",)]
        assert client.pipeline(queued)[-1].plain()[1] == direct + [b"last"]
        script = "redis.call('RPOP', KEYS[1]); return redis.call('LRANGE', KEYS[1], 0, -1)"
        assert client("EVAL", script, 1, "key").plain() == direct


def test_a_payload_of_a_large_value_is_whole(start_server):
    server = start_server("subject")
    with server.connect() as client:
        for command in write_hash(1):
            client.call(*map(str, command))
        payload = client("DUMP", "key").value
        client.call("RESTORE", "copy", "0", payload)
        assert sorted(client("HGETALL", "copy").plain()) == sorted(client("HGETALL", "key").plain())
        client.call("SET", "text", "x" * 5_000_000)
        client.call("RESTORE", "text2", "0", client("DUMP", "text").value)
        assert client("GET", "text2").value == client("GET", "text").value


def test_fields_that_have_expired_are_hidden(start_server):
    server = start_server("subject")
    with server.connect() as client:
        client.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        for command in write_hash(1):
            client.call(*map(str, command))
        client("HPEXPIRE", "key", 1, "FIELDS", 1, FIELDS[0])
        eventually(lambda: client("HEXISTS", "key", FIELDS[0]).plain() == 0, "the field does not expire")
        assert len(client("HKEYS", "key").plain()) == COUNT - 1


def test_a_value_that_goes_while_it_is_read_is_freed(start_server):
    server = start_server("subject", workers=2)

    def reads(connection, _, stop):
        while not stop.is_set():
            assert len(connection("LRANGE", "key", 0, -1).plain()) in (0, 20_000)

    with server.connect() as client:
        before = used(client)
        crowd = Crowd(server)
        for _ in range(READERS):
            crowd.start(reads, generator("goes"))
        for _ in range(100):
            client.pipeline([("RPUSH", "key", *["element"] * 20_000), ("UNLINK", "key")])
        crowd.stop.set()
        crowd.join()
        eventually(lambda: used(client) < before + 8_000_000, "the values are not freed")
