"""INCREX of Redis 8.8, SUNIONCARD and SDIFFCARD of 8.10: what they reply and what comes of it. No server with them
is at hand, so the replies are those of Redis's documentation and tests."""

import pytest

from support.seeds import generator
from support.servers import Server, subject_is_oracle
from support.state import differences, whole_state
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has none of them")

MOST, LEAST = 2**63 - 1, -(2**63)
# Before, the words behind `INCREX k`, the reply, and the value afterwards.
INTEGERS = [
    (None, "", [1, 1], "1"), ("10", "", [11, 1], "11"), ("100", "BYINT 5", [105, 5], "105"),
    ("100", "byint -10", [90, -10], "90"), ("95", "BYINT 0", [95, 0], "95"),
    ("50", "BYINT 100 UBOUND 80 SATURATE", [80, 30], "80"), ("10", "BYINT -100 LBOUND 0 SATURATE", [0, -10], "0"),
    ("5", "BYINT 1 LBOUND 0 UBOUND 10", [6, 1], "6"), ("10", "BYINT 10 UBOUND 15", [10, 0], "10"),
    ("10", "BYINT -10 LBOUND 5", [10, 0], "10"), ("5", "BYINT 5 UBOUND 10", [10, 5], "10"),
    (MOST - 7, f"BYINT {MOST} SATURATE", [MOST, 7], str(MOST)),
    (MOST - 7, f"BYINT {MOST}", [MOST - 7, 0], str(MOST - 7)),
    (LEAST + 8, f"BYINT {LEAST} SATURATE", [LEAST, -8], str(LEAST)), (MOST, "SATURATE", [MOST, 0], str(MOST)),
    (10, f"BYINT {MOST} UBOUND 100 SATURATE", [100, 90], "100"), (10, f"BYINT {MOST} UBOUND 100", [10, 0], "10"),
    (MOST, f"BYINT -5 UBOUND {LEAST} SATURATE", "ERR applied increment would overflow", str(MOST)),
    ("10", "BYINT 5 UBOUND 5 SATURATE", [5, -5], "5"), ("10", "BYINT -5 LBOUND 20 SATURATE", [20, 10], "20"),
    ("10", "BYINT -5 UBOUND 5", [5, -5], "5"), ("10", "BYINT 5 LBOUND 20", [10, 0], "10"),
    (None, "BYINT 15 UBOUND 10", [0, 0], None), (None, "UBOUND 0 SATURATE", [0, 0], "0"),
    (None, "LBOUND 5 SATURATE", [5, 5], "5"), ("5", "LBOUND 0 BYINT 100 UBOUND 10 SATURATE", [10, 5], "10"),
    ("1.5", "", "ERR value is not an integer or out of range", "1.5"),
    ("1", "BYINT 1.5", "ERR Increment is not an integer or out of range", "1"),
    ("1", "LBOUND abc", "ERR LBOUND is not an integer or out of range", "1"),
    ("1", "BYINT 5 UBOUND 12.5", "ERR UBOUND is not an integer or out of range", "1"),
    ("1", "LBOUND 10 UBOUND 5", "ERR LBOUND can't be greater than UBOUND", "1"),
]
FLOATS = [
    ("1.5", "BYFLOAT 0.25", ["1.75", "0.25"], "1.75"), ("10", "BYFLOAT 0.5", ["10.5", "0.5"], "10.5"),
    ("10", "BYFLOAT 100 UBOUND 42.5 SATURATE", ["42.5", "32.5"], "42.5"), ("0.1", "BYFLOAT 0.2", ["0.3", "0.2"], "0.3"),
    ("0", "BYFLOAT -100 LBOUND -5.5 SATURATE", ["-5.5", "-5.5"], "-5.5"),
    ("50.5", "BYFLOAT 5.5 UBOUND 30", ["50.5", "0"], "50.5"),
    ("50.5", "BYFLOAT 5.5 UBOUND 30 SATURATE", ["30", "-20.5"], "30"),
    ("50", "BYFLOAT -25 UBOUND 30", ["25", "-25"], "25"),
    (None, "BYFLOAT -0.5 UBOUND -1.5", ["0", "0"], None), (None, "BYFLOAT 5.5 UBOUND 10", ["5.5", "5.5"], "5.5"),
    ("10", "BYFLOAT 1.0 UBOUND inf", ["11", "1"], "11"),
    ("10", "BYFLOAT 1.0 LBOUND -inf UBOUND -inf", ["10", "0"], "10"),
    ("10", "BYFLOAT 1e4932 UBOUND 100 SATURATE", ["100", "90"], "100"),
    ("10", "BYFLOAT 1 LBOUND inf UBOUND inf SATURATE", "ERR applied increment would be Infinity", "10"),
    ("10", "BYFLOAT 1.0 UBOUND -inf", "ERR LBOUND can't be greater than UBOUND", "10"),
    ("10", "BYFLOAT inf", "ERR BYFLOAT increment cannot be Infinity", "10"),
    ("inf", "BYFLOAT 1", "ERR value cannot be Infinity", "inf"),
    ("x", "BYFLOAT 1", "ERR value is not a valid float", "x"),
    ("1", "BYFLOAT x", "ERR Increment is not a valid float", "1"),
    ("1", "BYFLOAT 1 LBOUND x", "ERR LBOUND is not a valid float", "1"),
]
# The time to live before, the words, and that afterwards; None where the key is gone.
TIMES = [
    (-1, "EX 100", 100), (-1, "PX 100000", 100), (500, "", 500), (500, "PERSIST", -1), (-1, "PERSIST", -1),
    (-1, "EX 100 ENX", 100), (500, "ENX EX 10", 500), (500, "BYINT 5 UBOUND 5 EX 100", 500),
    (-1, "UBOUND 5 EX 100", -1),
    (500, "UBOUND 5 PERSIST", 500), (-1, "BYINT 5 UBOUND 12 SATURATE EX 100", 100), (-1, "EXAT 1", None),
    (500, "EXAT 1 ENX", 500), (-1, "PXAT 1 ENX", None), (-1, "BYFLOAT 1.5 EX 100", 100),
    (500, "BYFLOAT 1.5 PERSIST", -1),
]
SYNTAX = [
    "FOO", "BYINT 1 FOO", "BYINT", "LBOUND", "EX", "BYINT 1 BYFLOAT 1.5", "BYFLOAT 1.5 BYINT 1", "BYINT 1 BYINT 1",
    "EX 10 PX 5000", "EX 10 EX 20", "EX 10 PERSIST", "PERSIST EX 10", "PERSIST PERSIST", "PERSIST ENX", "ENX PERSIST",
    "SATURATE SATURATE", "KEEPTTL", "ENX ENX EX 1", "LBOUND 1 LBOUND 1",
]  # fmt: skip


def line(words):
    return ["INCREX", "k", *words.split()]


def said(reply):
    if reply.is_error:
        return reply.text()
    return [part.decode() if isinstance(part, bytes) else part for part in reply.plain()]


def begin(connection, before, expiry=-1):
    connection.call("DEL", "k")
    if before is not None:
        connection.call("SET", "k", before, *(("EX", expiry) if expiry > 0 else ()))


def test_counting_within_bounds(subject):
    with subject.connect() as connection:
        for before, words, expected, after in INTEGERS + FLOATS:
            begin(connection, before)
            assert said(connection(*line(words))) == expected, words
            found = connection.call("GET", "k")
            assert found == (after if after is None else after.encode()), words
        begin(connection, "1")
        connection.call(*line("BYINT 5"))
        assert connection.call("OBJECT", "ENCODING", "k") == b"int"


def test_numbers_of_resp3(subject):
    with subject.connect() as connection:
        connection.call("HELLO", 3)
        begin(connection, None)
        assert connection(*line("BYFLOAT 2.5")).raw == b"*2\r\n,2.5\r\n,2.5\r\n"
        begin(connection, None)
        assert connection(*line("BYINT 5")).raw == b"*2\r\n:5\r\n:5\r\n"


def test_expiries(subject):
    with subject.connect() as connection:
        for before, words, after in TIMES:
            begin(connection, "10", before)
            assert not connection(*line(words)).is_error, words
            left = connection.call("TTL", "k")
            assert (left == -2) if after is None else (after - 3 <= left <= after), words
        begin(connection, None)
        assert said(connection(*line("EXAT 1"))) == [1, 1] and connection.call("EXISTS", "k") == 0
        for words in ("EX 0", "PX -1", "EXAT 0", "EX 9999999999999999"):
            assert said(connection(*line(words))) == "ERR invalid expire time in 'increx' command", words
        assert said(connection(*line("ENX"))) == "ERR ENX flag requires an expiration"
        for words in SYNTAX:
            assert said(connection(*line(words))) == "ERR syntax error", words
        connection.call("RPUSH", "list", 1)
        assert connection("INCREX", "list", "BYFLOAT", 1).text().startswith("WRONGTYPE")
        assert connection("INCREX").text() == "ERR wrong number of arguments for 'increx' command"


@pytest.mark.parametrize("kind", ["redis", "subject"])
def test_replicas_have_what_came_of_it(kind):
    with Server("subject") as server, server.connect() as primary:
        with Server(kind, options={"replicaof": ["127.0.0.1", server.port]}) as copy, copy.connect() as replica:
            eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
            cases = [(before, -1, words) for before, words, _, _ in INTEGERS + FLOATS]
            for before, expiry, words in cases + [("10", before, words) for before, words, _ in TIMES]:
                begin(primary, before, expiry)
                primary(*line(words))
                assert primary.call("WAIT", 1, 10_000) == 1
                found = differences(whole_state(primary), whole_state(replica), near=0)
                assert not found, (words, "\n".join(found[:20]))


def test_keys_tell_of_it(subject):
    with subject.connect() as connection, subject.connect() as listener:
        connection.call("CONFIG", "SET", "notify-keyspace-events", "KEA")
        listener.call("SUBSCRIBE", "__keyspace@0__:k")
        begin(connection, "10", 500)
        for words in ("EX 100", "BYFLOAT 1 PERSIST", "UBOUND 1", "EXAT 1"):
            connection(*line(words))
        connection.call("CONFIG", "SET", "notify-keyspace-events", "")
        expected = ["set", "expire", "incrby", "expire", "incrbyfloat", "persist", "del"]
        assert [listener.read().plain()[2].decode() for _ in expected] == expected


def test_members_of_sets_are_counted(subject):
    random = generator()
    with subject.connect() as connection:
        keys = [f"set:{number}" for number in range(6)]
        for round in range(60):
            connection.call("DEL", *keys)
            size = random.choice((3, 30, 3_000))
            for key in keys[:-1]:
                members = [random.randrange(2 * size) for _ in range(random.randrange(1, size))]
                connection.call("SADD", key, *(f"m{member}" if round % 2 else member for member in members))
            chosen = [random.choice(keys) for _ in range(random.randrange(1, 6))]
            union, rest = (len(connection.call(name, *chosen)) for name in ("SUNION", "SDIFF"))
            for limit in (0, 1, 2, random.randrange(1, size + 1), 10**9):
                most = limit or 10**9
                words = [len(chosen), *chosen, "LIMIT", limit]
                assert connection.call("SUNIONCARD", *words) == min(union, most)
                assert connection.call("SDIFFCARD", *words) == min(rest, most)
                about = connection.call("SUNIONCARD", *words, "APPROX")
                assert min(union, most) * 0.95 <= about <= min(union * 1.05, most)
        estimate = connection.call("SUNIONCARD", 5, *keys[:5], "APPROX")
        connection.call("PFADD", "sketch", *connection.call("SUNION", *keys[:5]))
        assert estimate == connection.call("PFCOUNT", "sketch")
        for name in ("SUNIONCARD", "SDIFFCARD"):
            assert said(connection(name, 0, "a")) == "ERR numkeys should be greater than 0"
            assert said(connection(name, 2, "a")) == "ERR Number of keys can't be greater than number of args"
            assert said(connection(name, 1, "a", "LIMIT")) == "ERR syntax error"
            assert said(connection(name, 1, "a", "LIMIT", -1)) == "ERR LIMIT can't be negative"
        assert said(connection("SDIFFCARD", 1, "a", "APPROX")) == "ERR syntax error"
        connection.call("SET", "text", 1)
        assert said(connection("SUNIONCARD", 2, "set:0", "text")).startswith("WRONGTYPE")
