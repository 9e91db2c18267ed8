"""Strings that are set or deleted if they are what they should be (SET with IFEQ and its kin, DELEX, DELIFEQ), DIGEST,
MSETEX, and SCRIPT SHOW: commands that redis-server has since 8.4 or Valkey since 8, beside a valkey-server where that
has them."""

import pytest

from support.servers import Server, subject_is_oracle
from support.state import differences, whole_state
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has none of them")

# What Valkey 9.1 has too.
LINES = """
SCRIPT LOAD "return 1"
SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db
SCRIPT SHOW E0E1F9FABFC9D4800C877A703B823AC0578FF8DB
SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8dc
SCRIPT SHOW abc
SCRIPT SHOW
SCRIPT SHOW a b
COMMAND INFO script|show
SET k 1
SET k 2 IFEQ 1
SET k 3 IFEQ 1
SET k 3 ifeq 2 GET
SET k 4 GET IFEQ 2
GET k
SET none 1 IFEQ 1
SET none 1 IFEQ 1 GET
EXISTS none
SET k 5 IFEQ 3 EX 100
TTL k
SET k 6 IFEQ 5 KEEPTTL
TTL k
SET k 7 EXAT 33177117420 IFEQ 6
EXPIRETIME k
SET k 8 IFEQ 7 PXAT 33177117420000
SET k 9 IFEQ 8
TTL k
SET k 10 IFEQ
SET k 10 IFEQ 9 NX
SET k 10 XX IFEQ 9
SET k 10 IFEQ 9 IFEQ 9
SET k 10 IFEQ 9 EX 0
SET k 10 IFEQ 9 EX x
RPUSH list 1
SET list 1 IFEQ 1
SET list 1 IFEQ 1 GET
DELIFEQ list 1
DELIFEQ k 8
DELIFEQ k 9
DELIFEQ k 9
DELIFEQ k
SET integer 0123
DELIFEQ integer 123
DELIFEQ integer 0123
SET integer 123
DELIFEQ integer 123
MSETEX 2 a 1 b 2
MSETEX 2 a 3 b 4 NX
MSETEX 2 a 3 c 4 XX
MSETEX 2 c 3 d 4 nx EX 100
TTL d
MSETEX 2 c 5 a 6 XX KEEPTTL
TTL c
MSETEX 2 c 5 a 6 EXAT 33177117420 XX
EXPIRETIME a
MSETEX 1 c 7
TTL c
MSETEX 1 list x PX 100000
TYPE list
MSETEX 2 e 1 e 2
GET e
MSETEX 2 f 1 f 2 NX
GET f
MSETEX 1 past 1 PXAT 1
EXISTS past
MSETEX 2 a 1 b
MSETEX 3 a 1 b 2
MSETEX 1 a 1 b 2
MSETEX 0 a 1
MSETEX -1 a 1
MSETEX x a 1
MSETEX 99999999999 a 1
MSETEX 1 a
MSETEX 1 a 1 EX
MSETEX 1 a 1 EX 0
MSETEX 1 a 1 EX -1
MSETEX 1 a 1 EX x
MSETEX 1 a 1 PX 9223372036854775807
MSETEX 1 a 1 NX XX
MSETEX 1 a 1 EX 1 PX 1
MSETEX 1 a 1 EX 1 KEEPTTL
MSETEX 1 a 1 PERSIST
MSETEX 1 a 1 foo
MGET a b c d e
COMMAND GETKEYSANDFLAGS MSETEX 2 a 1 b 2 EX 10
""".strip().splitlines()
# What Redis 8.4 has, with what it replies.
ALONE = [
    ("SET s hello", "+OK"), ("DIGEST s", "9555e8555c62dcfd"), ("DIGEST none", None), ("SET z v8", "+OK"),
    ("DIGEST z", "0cc76dbb41381419"), ("SET i 123", "+OK"), ("DIGEST i", "404a763b3f4c8c9a"), ("RPUSH l 1", 1),
    ("DIGEST l", "-WRONGTYPE"), ("DIGEST s s", "-ERR wrong number of arguments for 'digest' command"),
    ("SET s 2 IFDEQ 9555e8555c62dcfe", None), ("SET s 2 IFDEQ 9555E8555C62DCFD", "+OK"), ("SET s 3 IFNE 2", None),
    ("SET s 3 IFNE 1", "+OK"), ("SET new 1 IFNE 1", "+OK"), ("SET new2 1 IFDNE 9555e8555c62dcfd", "+OK"),
    ("SET new3 1 IFDEQ 9555e8555c62dcfd", None), ("SET l 1 IFNE 1", "-WRONGTYPE"),
    ("SET s 4 IFDNE 123", "-ERR must be exactly 16 hexadecimal characters"),
    ("SET s 4 IFEQ 3 IFNE 4", "-ERR syntax error"), ("SET s hello IFDNE 9555e8555c62dcfd EX 100", "+OK"),
    ("SET s x IFDNE 9555e8555c62dcfd GET", "hello"), ("TTL s", 100), ("DELEX none", 0), ("DELEX none FOO 1", 0),
    ("DELEX none IFEQ 1", 0), ("DELEX l IFEQ 1", "-ERR Key should be of string type if conditions are specified"),
    ("DELEX l", 1), ("DELEX s FOO 1", "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"),
    ("DELEX s IFEQ", "-ERR wrong number of arguments for 'delex' command"), ("DELEX s IFEQ x", 0),
    ("DELEX s IFNE hello", 0), ("DELEX s IFDEQ 0000000000000000", 0), ("DELEX s IFDEQ zzzzzzzzzzzzzzzz", 0),
    ("DELEX s IFDNE 9555E8555C62DCFD", 0),
    ("DELEX s IFDEQ 9555e8555c62dcf", "-ERR must be exactly 16 hexadecimal characters"),
    ("DELEX s ifdeq 9555e8555c62dcfd", 1), ("DELEX i IFDNE zzzzzzzzzzzzzzzz", 1), ("DELEX z IFNE v9", 1),
    ("DELEX new IFEQ 1", 1), ("KEYS *", ["new2"]),
]


@pytest.fixture(scope="module")
def valkey():
    with Server("valkey") as server:
        yield server


def plain(reply):
    if reply.is_error:
        return "-" + reply.text()
    value = reply.plain()
    text = lambda part: part.decode() if isinstance(part, bytes) else part
    value = [text(part) for part in value] if isinstance(value, list) else text(value)
    return "+" + value if reply.kind == "+" else value


def test_what_valkey_does(valkey, subject):
    with valkey.connect() as theirs, subject.connect() as ours:
        theirs.call("FLUSHALL")
        for line in LINES:
            assert ours(*line.split()).raw == theirs(*line.split()).raw, line


def test_what_redis_does(subject):
    with subject.connect() as connection:
        connection.call("FLUSHALL")
        for line, expected in ALONE:
            found = plain(connection(*line.split()))
            cut = "-WRONGTYPE" if expected == "-WRONGTYPE" and str(found).startswith("-WRONGTYPE") else found
            assert cut == expected, line


@pytest.mark.parametrize("kinds", [("subject", "redis"), ("valkey", "subject"), ("subject", "subject")], ids="-".join)
def test_replicas_have_what_came_of_it(kinds):
    """A redis-server of 8.2 does not know the commands: it gets others."""
    with Server(kinds[0]) as server, server.connect() as primary:
        with Server(kinds[1], options={"replicaof": ["127.0.0.1", server.port]}) as copy, copy.connect() as replica:
            eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
            lines = LINES if kinds[0] == "valkey" else LINES + [line for line, _ in ALONE]
            for line in lines:
                primary(*line.split())
            assert primary.call("WAIT", 1, 10_000) == 1
            assert not (found := differences(whole_state(primary), whole_state(replica), near=0)), "\n".join(found[:20])


def test_rights_to_read_are_needed_for_conditions(subject):
    """Otherwise one who may only write finds out what is there."""
    with subject.connect() as connection, subject.connect() as limited:
        connection.call("FLUSHALL")
        connection.call("ACL", "SETUSER", "writer", "on", ">secret", "%W~*", "+@all")
        connection.call("SET", "k", "v")
        limited.call("AUTH", "writer", "secret")
        for line in ("SET k w IFEQ v", "SET k w IFDNE 9555e8555c62dcfd", "DELEX k IFEQ v", "DELIFEQ k v", "DIGEST k"):
            assert limited(*line.split()).text().startswith("NOPERM"), line
        assert limited.call("MSETEX", 1, "m", 1, "NX") == 1
        assert limited.call("DELEX", "m") == 1
        connection.call("ACL", "DELUSER", "writer")


def test_values_on_disk_are_compared(start_server):
    options = {"tier-dir": ".", "tier-pressure": "yes", "tier-min-bytes": 1}
    server = start_server(options=options)
    text = "v" * 1000
    with server.connect() as connection:
        digest = connection.call("SET", "key", text) and connection.call("DIGEST", "key")
        lines = [f"SET key:0 x IFEQ {text}", f"DELEX key:1 IFEQ {text}", f"DELIFEQ key:2 {text}", "DIGEST key:3"]
        replies = []
        for line in lines:
            key = line.split()[1]
            connection.call("SET", key, text)
            eventually(lambda: connection.call("MANTISSA.LOCATION", key) == b"disk", "it is not on disk")
            replies.append(connection.call(*line.split()))
        assert replies == [b"OK", 1, 1, digest]
        assert connection.call("GET", "key:0") == b"x" and connection.call("EXISTS", "key:1", "key:2") == 0
