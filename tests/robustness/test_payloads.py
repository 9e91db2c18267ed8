"""RESTORE of damaged payloads whose checksum is right: a clear error or a value that can be read, never a crash.

Payloads of every type and encoding, from both servers, are damaged at random: bytes changed, dropped, doubled,
cut, spliced, lengths made huge. Each is restored, and what was taken is read through every command that walks it.
"""

import struct

import pytest

from support.rdbfile import crc64
from support.resp import show, to_bytes
from support.seeds import generator

REFUSED = b"ERR Bad data format"
ROUNDS = 1200
READERS = [
    ("TYPE",),
    ("OBJECT", "ENCODING"),
    ("DUMP",),
    ("GET",),
    ("PFCOUNT",),
    ("LRANGE", 0, -1),
    ("SMEMBERS",),
    ("HGETALL",),
    ("ZRANGE", 0, -1, "WITHSCORES"),
    ("SORT", "ALPHA"),
    ("DEBUG", "DIGEST-VALUE"),
    ("MEMORY", "USAGE"),
    ("XLEN",),
]


def fill(connection):
    """Keys of many types and encodings; their names."""
    calls = [
        ("SET", "short", "abc"),
        ("SET", "integer", 12345),
        ("SET", "compressed", "abc" * 30),
        ("RPUSH", "list", "a", "b", 1, 70000, -5, "x" * 70),
        ("RPUSH", "long_list", *range(300), "y" * 9000),
        ("SADD", "integers", 1, 2, 300000),
        ("SADD", "set", "a", "b", 3),
        ("SADD", "long_set", *(f"m{number}" for number in range(150))),
        ("ZADD", "zset", 1, "a", 2.5, "b", -7, "c"),
        ("ZADD", "long_zset", *(word for number in range(140) for word in (number, f"m{number}"))),
        ("HSET", "hash", "f", "v", "g", 2),
        ("HSET", "long_hash", *(f"f{number}" for number in range(600))),
        ("HSET", "expiring", "f", "v", "g", 2),
        ("HPEXPIREAT", "expiring", 33177117420000, "FIELDS", 1, "f"),
        ("HSET", "long_expiring", *(f"f{number}" for number in range(600))),
        ("HPEXPIREAT", "long_expiring", 33177117420000, "FIELDS", 1, "f0"),
    ]
    streams = [
        ("XADD", "stream", "1-1", "temp", 1, "hum", 2),
        ("XADD", "stream", "2-1", "temp", 1, "hum", 2),
        ("XADD", "stream", "2-2", "other", "x"),
        ("XDEL", "stream", "1-1"),
        ("XGROUP", "CREATE", "stream", "group", 0),
        ("XREADGROUP", "GROUP", "group", "consumer", "STREAMS", "stream", ">"),
    ]
    for call in calls:
        connection.call(*call)
    for call in streams:
        connection(*call)  # they need not be there
    return sorted(connection.call("KEYS", "*"))


def with_footer(body):
    """The body as a payload whose version and checksum are right."""
    checked = body + struct.pack("<H", 11)
    return checked + struct.pack("<Q", crc64(checked))


def damaged(random, body, others):
    """The body with some damage."""
    body = bytearray(body)
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        place = random.randrange(len(body)) if body else 0
        match random.randrange(7):
            case 0:
                body[place : place + 1] = bytes([random.randrange(256)])
            case 1 if body:
                body[place] ^= 1 << random.randrange(8)
            case 2:
                del body[place : place + random.randint(1, 4)]
            case 3:
                body[place:place] = body[place : place + random.randint(1, 8)]
            case 4:
                del body[place:]
            case 5:
                body[place : place + 1] = random.choice([b"\xff", b"\x81" + b"\xff" * 8, b"\x80\x7f\xff\xff\xff"])
            case _:
                body[place:] = random.choice(others)[-random.randint(1, 40) :]
    return bytes(body)


@pytest.mark.parametrize("source", ["oracle", "subject"])
def test_damaged_payloads(start_server, source):
    random = generator("payloads", source)
    subject = start_server("subject", workers=2)
    with start_server(source).connect() as connection:
        bodies = {key: connection.call("DUMP", key)[:-10] for key in fill(connection)}
    with subject.connect() as connection:
        for key, body in bodies.items():
            reply = connection("RESTORE", key, 0, with_footer(body))
            assert not reply.is_error, (key, reply)
        for number in range(ROUNDS):
            # The shorter ones more often: their damage has more ways to matter.
            key = random.choice(sorted(bodies, key=lambda key: len(bodies[key]))[: random.randint(1, len(bodies))])
            payload = with_footer(damaged(random, bodies[key], list(bodies.values())))
            reply = connection("RESTORE", "K", 0, payload, "REPLACE")
            assert reply.raw in (b"+OK\r\n", b"-" + REFUSED + b"\r\n"), show(payload)
            if reply.is_error:
                continue
            for name, *arguments in READERS:
                split = 1 if name in ("OBJECT", "DEBUG", "MEMORY") else 0
                connection(name, *arguments[:split], "K", *arguments[split:])
            again = connection.call("DUMP", "K")
            if again is None:  # damage to a time: all fields have expired
                continue
            assert connection("RESTORE", "again", 0, again, "REPLACE").raw == b"+OK\r\n", show(payload)
            digests = [connection.call("DEBUG", "DIGEST-VALUE", key)[0] for key in ("K", "again")]
            assert digests[0] == digests[1], show(payload)
            assert connection.call("DEL", "K", "again") == 2, number
        assert connection.call("PING") == b"PONG"
    assert subject.alive


def test_versions_and_checksums(start_server):
    """A later version and any wrong bit are refused."""
    with start_server("subject").connect() as connection:
        body = b"\x00\x03abc"
        for version in (0, 1, 6, 11, 12):
            checked = body + struct.pack("<H", version)
            payload = checked + struct.pack("<Q", crc64(checked))
            assert connection.call("RESTORE", f"k{version}", 0, payload) == b"OK"
        refused = b"-ERR DUMP payload version or checksum are wrong\r\n"
        checked = body + struct.pack("<H", 99)
        assert connection("RESTORE", "k", 0, checked + struct.pack("<Q", crc64(checked))).raw == refused
        payload = bytearray(with_footer(body))
        for bit in range(len(payload) * 8):
            broken = bytearray(payload)
            broken[bit // 8] ^= 1 << bit % 8
            assert connection("RESTORE", "k", 0, bytes(broken)).raw == refused, bit
        for size in range(len(payload)):
            assert connection("RESTORE", "k", 0, to_bytes(payload[:size])).raw == refused, size
