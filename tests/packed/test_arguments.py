"""MANTISSA.UNPACK: packed numbers do what the same numbers as text do."""

import math
import struct

import pytest

from .wire import DELTA, F32, F64, VARINT, pack


@pytest.fixture
def client(subject):
    return subject.connect()


def error(client, *command):
    reply = client(*command)
    assert reply.is_error, reply
    return reply.text()


DOUBLES = [0.1, -2.5, 3.0, 1e20, 1e-7, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, 123456.789]


def test_scores_are_exact(client):
    names = [b"member:%d" % index for index in range(len(DOUBLES))]
    assert client("MANTISSA.UNPACK", "ZADD", "packed", pack(F64, DOUBLES, names)).plain() == len(names)
    words = [word for pair in zip(map(repr, DOUBLES), names) for word in pair]
    assert client("ZADD", "text", *words).plain() == len(names)
    both = [client("ZRANGE", key, 0, -1, "WITHSCORES").plain() for key in ("packed", "text")]
    assert both[0] == both[1]
    assert client("MANTISSA.UNPACK", "ZADD", "packed", pack(F64, [7.0], names[:1])).plain() == 0
    assert client("ZSCORE", "packed", names[0]).plain() == b"7"
    assert client("MANTISSA.UNPACK", "ZADD", "small", pack(DELTA, [1, 5, 2**60], names[:3])).plain() == 3
    assert client("ZSCORE", "small", names[2]).plain() == b"%d" % 2**60
    assert client("MANTISSA.UNPACK", "ZADD", "floats", pack(F32, [0.5], names[:1])).plain() == 1


def test_numbers_become_the_text_of_scores(client):
    assert client("MANTISSA.UNPACK", "RPUSH", "l", pack(F64, DOUBLES)).plain() == len(DOUBLES)
    client("ZADD", "z", *[word for pair in zip(map(repr, DOUBLES), range(len(DOUBLES))) for word in pair])
    scores = [client("ZSCORE", "z", index).plain() for index in range(len(DOUBLES))]
    # A sorted set that is small keeps no negative zero.
    texts = [b"0" if text == b"-0" else text for text in client("LRANGE", "l", 0, -1).plain()]
    assert texts == scores
    assert [float(text) for text in client("LRANGE", "l", 0, -1).plain()] == DOUBLES
    client("MANTISSA.UNPACK", "RPUSH", "floats", pack(F32, [0.1, 2.0, -1e10, math.inf]))
    assert client("LRANGE", "floats", 0, -1).plain() == [b"0.1", b"2", b"-10000000000", b"inf"]
    client("MANTISSA.UNPACK", "RPUSH", "integers", pack(VARINT, [-(2**63), 2**63 - 1]))
    assert client("LRANGE", "integers", 0, -1).plain() == [b"%d" % -(2**63), b"%d" % (2**63 - 1)]
    assert client("MANTISSA.UNPACK", "HSET", "h", pack(F64, [1.5, 2.0], [b"a", b""])).plain() == 2
    assert client("HGETALL", "h").plain() == [b"a", b"1.5", b"", b"2"]
    assert client("MANTISSA.UNPACK", "MSET", pack(VARINT, [5, -6]), "x", "y").value == b"OK"
    assert client("MGET", "x", "y").plain() == [b"5", b"-6"]
    assert client("OBJECT", "ENCODING", "x").plain() == b"int"


def test_a_reply_can_be_sent_back(client):
    client("ZADD", "z", *[word for index in range(500) for word in (index / 7, f"m{index}")])
    reply = client("MANTISSA.PACKED", "F64", "ZRANGE", "z", 0, -1, "WITHSCORES").value
    assert client("MANTISSA.UNPACK", "ZADD", "copy", reply).plain() == 500
    assert client("ZRANGE", "copy", 0, -1, "WITHSCORES").plain() == client(
        "ZRANGE", "z", 0, -1, "WITHSCORES"
    ).plain()


def test_bad_bytes_are_refused_and_change_nothing(client):
    good = pack(F64, [1.0, 2.0], [b"a", b"b"])
    missing = struct.pack(">2sBBBBHII", b"MP", 1, VARINT, 2, 0, 1, 2, 2) + b"\x02\x02\x02"
    assert error(client, "MANTISSA.UNPACK", "RPUSH", "z", missing) == "ERR packed number 1 is not a number"
    malformed = "ERR malformed packed numbers"
    for size in range(len(good)):
        assert error(client, "MANTISSA.UNPACK", "ZADD", "z", good[:size]) == malformed
    assert error(client, "MANTISSA.UNPACK", "ZADD", "z", good + b"x") == malformed
    lying = [
        struct.pack(">2sBBBBHII", b"MP", 1, kind, flags, 0, columns, 2**32 - 1, size) + b"\x01" * 50
        for kind in (0, 1, 2, 3, 4, 5)
        for flags in (0, 2, 4, 8, 15)
        for columns in (0, 1, 3)
        for size in (0, 50, 2**32 - 1)
    ]
    for data in lying:
        for command in (("ZADD", "z", data), ("RPUSH", "z", data), ("HSET", "z", data), ("MSET", data, "z")):
            assert error(client, "MANTISSA.UNPACK", *command) == malformed
    assert error(client, "MANTISSA.UNPACK", "ZADD", "z", pack(F64, [1.0])) == (
        "ERR packed numbers with names are needed"
    )
    assert error(client, "MANTISSA.UNPACK", "ZADD", "z", pack(F64, [], [])) == "ERR there are no packed numbers"
    nan = pack(F64, [1.0, math.nan], [b"a", b"b"])
    for command in (("ZADD", "z", nan), ("HSET", "z", nan), ("RPUSH", "z", pack(F32, [1.0, math.nan]))):
        assert error(client, "MANTISSA.UNPACK", *command) == "ERR packed number 1 is not a number"
    assert error(client, "MANTISSA.UNPACK", "MSET", pack(F64, [1.0]), "z", "y") == (
        "ERR as many packed numbers as keys are needed"
    )
    assert client("EXISTS", "z", "y").plain() == 0
    client("SET", "text", "x")
    for command in ("ZADD", "HSET"):
        assert error(client, "MANTISSA.UNPACK", command, "text", good).startswith("WRONGTYPE")
    assert error(client, "MANTISSA.UNPACK", "SET", "z", good).startswith("ERR unknown subcommand 'SET'")
    assert "wrong number of arguments" in error(client, "MANTISSA.UNPACK", "ZADD", "z")
    assert client("MANTISSA.UNPACK", "HELP").is_aggregate


def test_in_transactions_and_scripts(client):
    data = pack(F64, [1.5, 2.0], [b"a", b"b"])
    client("MULTI")
    client("MANTISSA.UNPACK", "ZADD", "z", data)
    client("MANTISSA.UNPACK", "MSET", pack(VARINT, [1, 2]), "k1", "k2")
    client("MANTISSA.UNPACK", "MSET", pack(VARINT, [3, 4]), "k3", "k1")
    assert client("EXEC").plain() == [2, b"OK", b"OK"]
    assert client("MGET", "k1", "k2", "k3").plain() == [b"4", b"2", b"3"]
    script = "return redis.call('MANTISSA.UNPACK', 'HSET', KEYS[1], ARGV[1])"
    assert client("EVAL", script, 1, "h", data).plain() == 2
    assert client("HGET", "h", "a").plain() == b"1.5"
