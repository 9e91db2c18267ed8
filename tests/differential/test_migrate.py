"""MIGRATE from this server and from redis-server: the same replies, the same data on both sides, and nothing
lost where the network or another client comes in between."""

import contextlib
import socket
import threading

import pytest

from support.waiting import eventually


PASSWORD = "secret"
CALLS = [
    ("MIGRATE", "HOST", "PORT", "missing", 0, 1000),
    ("MIGRATE", "HOST", "PORT", "k", "x", 1000),
    ("MIGRATE", "HOST", "PORT", "k", 0, "x"),
    ("MIGRATE", "HOST", "PORT", "missing", -1, -1),
    ("MIGRATE", "HOST", "PORT", "k", 0, 0),
    ("MIGRATE", "HOST", "PORT", "k", 0, 5000, "AUTH", "bad"),
    ("MIGRATE", "HOST", "PORT", "k", 0, 5000, "AUTH"),
    ("MIGRATE", "HOST", "PORT", "k", 0, 5000, "AUTH2", "default"),
    ("MIGRATE", "HOST", "PORT", "k", 0, 5000, "AUTH2", "default", "bad"),
    ("MIGRATE", "HOST", "PORT", "k", 0, 5000, "COPY", "AUTH2", "default", PASSWORD),
    ("MIGRATE", "HOST", "PORT", "k", 0, 5000, "AUTH", PASSWORD),
    ("MIGRATE", "HOST", "PORT", "k", 99, 5000, "AUTH", PASSWORD),
    ("MIGRATE", "HOST", "PORT", "k", 0, 5000, "REPLACE", "AUTH", PASSWORD),
    ("MIGRATE", "HOST", "PORT", "k", 0, 5000, "AUTH", PASSWORD),
    ("MIGRATE", "HOST", "PORT", "", 0, 5000, "KEYS", "missing"),
    ("MIGRATE", "HOST", "PORT", "", 0, 5000, "KEYS"),
    ("MIGRATE", "HOST", "PORT", "k", 0, 5000, "KEYS", "a", "b"),
    ("MIGRATE", "HOST", "PORT", "", 0, 5000),
    ("MIGRATE", "HOST", "PORT", "a", 0, 5000, "BOGUS"),
    ("MIGRATE", "HOST", 1, "a", 0, 5000),
    ("MIGRATE", "HOST", "1x", "a", 0, 5000),
    ("MIGRATE", "nosuch.invalid", 1, "a", 0, 5000),
    ("MIGRATE", "HOST", "PORT", "", 0, 5000, "COPY", "AUTH", PASSWORD, "KEYS", "a", "b", "missing"),
    ("MIGRATE", "HOST", "PORT", "", 0, 5000, "COPY", "AUTH", PASSWORD, "KEYS", "a", "b"),
    ("MIGRATE", "HOST", "PORT", "", 0, 5000, "AUTH", PASSWORD, "KEYS", "a", "b", "c"),
    ("EXISTS", "a", "b", "c"),
    ("MIGRATE", "HOST", "PORT", "", 0, 5000, "AUTH", PASSWORD, "REPLACE", "KEYS", "a", "b"),
    ("EXISTS", "a", "b", "c"),
    ("MIGRATE", "HOST", "PORT", "list", 3, 5000, "AUTH", PASSWORD),
    ("MULTI",),
    ("MIGRATE", "HOST", "PORT", "queued", 1, 5000, "AUTH", PASSWORD),
    ("EXISTS", "queued"),
    ("MIGRATE", "HOST", "PORT", "queued", 1, 5000, "AUTH", PASSWORD),
    ("EXEC",),
    ("SET", "", "the empty key"),
    ("MIGRATE", "HOST", "PORT", "", 1, 5000, "AUTH", PASSWORD),
    ("DBSIZE",),
    ("MIGRATE", "HOST", "PORT", "k", 0),
]


@pytest.mark.parametrize("protocol", [2, 3])
def test_replies(start_server, protocol):
    """Both servers, each with a target of its own, answer the same and leave the same."""
    seen = []
    for kind in ("oracle", "subject"):
        source = start_server(kind)
        target = start_server("oracle", options={"requirepass": PASSWORD})
        with source.connect(protocol) as connection, target.connect() as there:
            for name in ("k", "a", "b", "c", "queued"):
                connection.call("SET", name, f"value of {name}", "PX", 10**9)
            connection.call("RPUSH", "list", *range(100))
            replies = []
            for call in CALLS:
                words = [{"HOST": "127.0.0.1", "PORT": target.port}.get(word, word) for word in call]
                replies.append((call, connection(*words).raw))
            there.call("AUTH", PASSWORD)
            left = sorted(connection.call("KEYS", "*"))
            arrived = []
            for database in (0, 1, 3):
                there.call("SELECT", database)
                arrived.append(sorted((key, there.call("PTTL", key) > 0) for key in there.call("KEYS", "*")))
            seen.append((replies, left, arrived))
    for left, right in zip(*seen):
        assert left == right


def test_there_and_back(start_server):
    """Keys of every type go to redis-server and come back as they were."""
    ours, theirs = start_server("subject"), start_server("oracle")
    with ours.connect() as here, theirs.connect() as there:
        here.call("SET", "string", "x" * 1000)
        here.call("SET", "number", 12345)
        here.call("RPUSH", "list", *range(3000))
        here.call("SADD", "set", *(f"member {number}" for number in range(3000)))
        here.call("ZADD", "zset", *(word for number in range(3000) for word in (number / 7, f"m{number}")))
        here.call("HSET", "hash", *(f"f{number}" for number in range(3000)))
        here.call("HPEXPIRE", "hash", 10**9, "FIELDS", 1, "f0")
        here.call("PFADD", "sketch", *range(100))
        here.call("SET", "expiring", "v", "PX", 10**9)
        names = sorted(here.call("KEYS", "*"))
        digest = here.call("DEBUG", "DIGEST-VALUE", *[name for name in names if name != b"hash"])
        for source, target in ((here, theirs), (there, ours)):
            reply = source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 10000, "KEYS", *names)
            assert reply == b"OK" and source.call("DBSIZE") == 0
        assert sorted(here.call("KEYS", "*")) == names
        assert here.call("DEBUG", "DIGEST-VALUE", *[name for name in names if name != b"hash"]) == digest
        assert here.call("HLEN", "hash") == 1500 and here.call("PTTL", "expiring") > 10**8


class Target:
    """A server that takes what it is sent, and answers when it is told to."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.arrived, self.may_answer = threading.Event(), threading.Event()
        self.answer = b"+OK\r\n+OK\r\n"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        connection, _ = self.listener.accept()
        with connection:
            received = b""
            while b"RESTORE" not in received:
                received += connection.recv(1 << 16)
            self.arrived.set()
            assert self.may_answer.wait(60)
            with contextlib.suppress(ConnectionError):
                connection.sendall(self.answer)
                connection.recv(1)  # until the other side ends


@pytest.fixture
def target():
    target = Target()
    yield target
    target.may_answer.set()
    target.listener.close()


def test_others_go_on_meanwhile(start_server, target):
    """While the target is silent the only worker serves everybody, also with writes of the same key: such a
    key is kept, and the client is told."""
    server = start_server("subject", workers=1)
    with server.connect() as mover, server.connect() as other:
        identifier = mover.call("CLIENT", "ID")
        other.call("MSET", "moves", 1, "changes", 2)
        mover.send("MIGRATE", "127.0.0.1", target.port, "", 0, 60000, "KEYS", "moves", "changes")
        assert target.arrived.wait(60)
        assert other.call("INCR", "changes") == 3
        assert other.call("DBSIZE") == 2
        assert other.call("CLIENT", "UNBLOCK", identifier) == 0
        lines = other.call("CLIENT", "LIST").splitlines()
        assert [b" flags=b " in line for line in lines if b"cmd=migrate" in line] == [True]
        target.answer = b"+OK\r\n+OK\r\n+OK\r\n"
        target.may_answer.set()
        assert mover.read().raw.startswith(b"-ERR A key has changed while it was on its way")
        assert other.call("MGET", "moves", "changes") == [None, b"3"]


def test_the_client_may_leave(start_server, target):
    """What has arrived is removed here, also if nobody waits for the reply."""
    server = start_server("subject", workers=1)
    with server.connect() as mover, server.connect() as other:
        other.call("SET", "moves", 1)
        mover.send("MIGRATE", "127.0.0.1", target.port, "moves", 0, 60000)
        assert target.arrived.wait(60)
        mover.close()
        target.may_answer.set()
        eventually(lambda: not other.call("EXISTS", "moves"), "the key stays")


@pytest.mark.parametrize(
    "answer, reply",
    [
        (b"", b"-IOERR error or timeout reading to target instance\r\n"),
        (b"+OK\r\n", b"-IOERR error or timeout reading to target instance\r\n"),
        (b"+OK\r\n-LOADING not now\r\n", b"-ERR Target instance replied with error: LOADING not now\r\n"),
        (b"-NOAUTH no\r\n+OK\r\n", b"-ERR Target instance replied with error: NOAUTH no\r\n"),
        (b"what\r\nis this\r\n", b"-ERR Target instance replied with error: what\r\n"),
        (b"x" * 100_000, b"-IOERR error or timeout reading to target instance\r\n"),
    ],
)
def test_odd_answers(start_server, target, answer, reply):
    """The key stays unless its arrival is confirmed."""
    target.answer = answer
    target.may_answer.set()
    with start_server("subject").connect() as connection:
        connection.call("SET", "stays", 1)
        assert connection("MIGRATE", "127.0.0.1", target.port, "stays", 0, 300).raw == reply
        assert connection.call("EXISTS", "stays") == 1
