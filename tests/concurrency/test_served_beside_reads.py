"""Other clients of the same worker are served while a large value is read."""

import re
import socket
import struct
import threading

import pytest

from support.memory import figure
from support.resp import encode
from support.servers import Server, subject_is_oracle
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server serves nobody beside a long read")
COUNT = 100_000
BATCH = 10_000
READS = 12


def fill(client, key):
    for first in range(0, COUNT, BATCH):
        client.call("HSET", key, *(word for n in range(first, first + BATCH) for word in (f"field:{n:08}", n)))


@pytest.fixture(scope="module", params=["io_uring", "epoll"])
def server(request):
    with Server("subject", {"io-driver": request.param}, workers=1) as server:
        with server.connect() as client:
            fill(client, "hash")
        yield server
        if not server.alive:
            print(server.log_tail())


class Reader:
    """Reads the hash several times in one pipeline, between two other commands."""

    def __init__(self, server, first=("PING",), last=("PING",)):
        self.server, self.connection = server, server.connect()
        self.id = self.connection.call("CLIENT", "ID")
        with server.connect() as client:
            client.call("CONFIG", "RESETSTAT")
        self.replies = []
        requests = [first, *[("HGETALL", "hash")] * READS, last]
        self.connection.send_raw(b"".join(encode(request) for request in requests))
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for _ in range(READS + 2):
            self.replies.append(self.connection.read(timeout=120))

    def is_in_the_middle(self, client):
        """Whether the client is served while the hash is being read, and not between two reads, when the reader waits
        for its turn. Needs that nobody else reads it."""
        line = client.call("CLIENT", "LIST", "ID", self.id).decode()
        return " cmd=hgetall" in line and " flags=b" not in line and ended_reads(client) < READS

    def ended(self):
        self.thread.join()
        self.connection.close()
        assert len(self.replies) == READS + 2
        return self.replies[1:-1]


def ended_reads(client):
    text = client("INFO", "commandstats").value.decode()
    found = re.search(r"cmdstat_hgetall:calls=(\d+)", text)
    return int(found[1]) if found else 0


def test_others_are_served_meanwhile(server):
    with server.connect() as client:
        reader = Reader(server)
        eventually(lambda: reader.is_in_the_middle(client), "nobody is served beside a long read")
        with server.connect() as new:
            assert new.call("EVAL", "return redis.call('INCR', KEYS[1])", 1, "counter") > 0
            assert ended_reads(client) < READS
        client.call("HSET", "hash", "field:00000000", "new")
        assert ended_reads(client) < READS
        assert all(len(reply.plain()) == 2 * COUNT for reply in reader.ended())
        assert ended_reads(client) == READS


def test_a_read_is_of_one_moment_though_its_worker_deletes_the_key(server):
    with server.connect() as client:
        client.call("COPY", "hash", "kept")
        expected = dict(zip(*[iter(client("HGETALL", "hash").plain())] * 2))
        reader = Reader(server)
        eventually(lambda: reader.is_in_the_middle(client), "nobody is served beside a long read")
        client.call("DEL", "hash")
        reader.thread.join()
        reader.connection.close()
        client.call("RENAME", "kept", "hash")
        sizes = [len(reply.plain()) for reply in reader.replies[1:-1]]
        assert sizes == sorted(sizes, reverse=True) and set(sizes) <= {0, 2 * COUNT}
        whole = [reply for reply in reader.replies[1:-1] if reply.plain()]
        assert whole and all(dict(zip(*[iter(reply.plain())] * 2)) == expected for reply in whole[-2:])


def test_long_reads_of_one_worker_take_turns(server):
    with server.connect() as client:
        readers = [Reader(server) for _ in range(4)]
        replies = [reply.raw for reader in readers for reply in reader.ended()]
        assert len(set(replies)) == 1 and replies[0].startswith(b"*%d\r\n" % (2 * COUNT))
        # The last one has reset what was counted. One read may have been under way, whose lookup was counted before.
        hits, ended = int(figure(client, "keyspace_hits")), ended_reads(client)
        assert READS <= ended <= 4 * READS and hits in (ended - 1, ended)


def test_messages_keep_their_order(server):
    with server.connect() as listener, server.connect() as client:
        listener.call("SUBSCRIBE", "channel")
        reader = Reader(server, ("PUBLISH", "channel", "first"), ("PUBLISH", "channel", "last"))
        eventually(lambda: reader.is_in_the_middle(client), "nobody is served beside a long read")
        client.call("PUBLISH", "channel", "between")
        messages = [listener.read(timeout=120).plain()[2] for _ in range(3)]
        reader.ended()
        assert messages == [b"first", b"between", b"last"]


def test_who_reads_gets_messages_in_their_order(server):
    with server.connect(3) as reader, server.connect() as client:
        client.call("CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0")
        reader.call("SUBSCRIBE", "channel")
        reader.send_raw(encode(("HGETALL", "hash")) * READS)
        for number in range(100):
            client.call("PUBLISH", "channel", number)
        found = []
        while len(found) < 100 + READS:
            reply = reader.read(timeout=120)
            found.append(reply.plain()[2] if reply.raw.startswith(b">") else b"read")
        assert [each for each in found if each != b"read"] == [b"%d" % number for number in range(100)]


def test_copies_are_invalidated_by_own_writes_before_a_long_read(server):
    with server.connect(3) as client:
        client.call("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "own")
        client.send_raw(b"".join(encode(each) for each in (("SET", "own:key", 1), ("HGETALL", "hash"), ("PING",))))
        replies = [client.read(timeout=120).raw for _ in range(4)]
        assert b">2\r\n$10\r\ninvalidate\r\n*1\r\n$7\r\nown:key\r\n" in replies
        assert replies[0] == b"+OK\r\n" and b"+PONG\r\n" in replies


def test_who_has_sent_all_waits_for_a_long_read_too(server):
    """A client that has closed its side gets its replies."""
    with server.connect() as client:
        client.call("DEL", "small")
        client.call("HSET", "small", *(word for n in range(2_000) for word in (f"field:{n:08}", n)))
        reader = Reader(server)
        eventually(lambda: reader.is_in_the_middle(client), "nobody is served beside a long read")
        with server.connect() as half:
            half.send_raw(encode(("HGETALL", "small")) + encode(("ECHO", "end")))
            half.socket.shutdown(socket.SHUT_WR)
            assert len(half.read(timeout=120).plain()) == 4_000 and half.read(timeout=120).plain() == b"end"
        reader.ended()


def test_a_slow_script_within_a_read_keeps_no_client_that_has_left(server):
    loop = "local i = 0 while i < tonumber(ARGV[1]) do i = i + 1 end return i"
    with server.connect() as client, server.connect() as runner, server.connect() as reader:
        client.call("CONFIG", "SET", "busy-reply-threshold", 1)
        id = reader.call("CLIENT", "ID")
        reader.send_raw(encode(("HGETALL", "hash")) * READS)
        runner.send("EVAL", loop, 1, "other", 30_000_000)
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reader.close()
        new = [server.connect() for _ in range(3)]
        assert runner.read(timeout=120).plain() == 30_000_000
        assert [each.call("ECHO", "x") for each in new] == [b"x"] * 3
        eventually(lambda: not client.call("CLIENT", "LIST", "ID", id), "it is still there")
        for each in new:
            each.close()
        client.call("CONFIG", "SET", "busy-reply-threshold", 5_000)


def test_a_reader_can_be_killed(server):
    with server.connect() as client:
        reader = Reader(server)
        eventually(lambda: reader.is_in_the_middle(client), "nobody is served beside a long read")
        # Its thread finds the connection closed.
        threading.excepthook, hook = lambda _: None, threading.excepthook
        assert client.call("CLIENT", "KILL", "ID", reader.id) == 1
        reader.thread.join()
        threading.excepthook = hook
        reader.connection.close()
        eventually(lambda: not client.call("CLIENT", "LIST", "ID", reader.id), "it is still there")
        assert client.call("HLEN", "hash") == COUNT
