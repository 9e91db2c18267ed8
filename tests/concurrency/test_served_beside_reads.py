"""Other clients of the same worker are served while a large value is read."""

import re
import threading

import pytest

from support.memory import figure
from support.resp import encode
from support.servers import Server, subject_is_oracle
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server serves nobody beside a long read")
COUNT = 100_000
BATCH = 10_000
# One batch of requests, between which nobody else is served.
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
        """Whether the client is served while the hash is being read. Needs that nobody else reads it."""
        lines = client.call("CLIENT", "LIST", "ID", self.id).decode()
        return " cmd=hgetall" in lines and ended_reads(client) < READS

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
            assert reader.is_in_the_middle(new)
        client.call("HSET", "hash", "field:00000000", "new")
        assert reader.is_in_the_middle(client)
        client.call("HSET", "hash", "field:00000000", "0")
        assert all(len(reply.plain()) == 2 * COUNT for reply in reader.ended())
        assert ended_reads(client) == READS


def test_a_read_is_of_one_moment_though_its_worker_deletes_the_key(server):
    with server.connect() as client:
        client.call("COPY", "hash", "kept")
        expected = dict(zip(*[iter(client("HGETALL", "hash").plain())] * 2))
        reader = Reader(server)
        eventually(lambda: reader.is_in_the_middle(client), "nobody is served beside a long read")
        client.call("DEL", "hash")
        seen = ended_reads(client)
        reader.thread.join()
        reader.connection.close()
        client.call("RENAME", "kept", "hash")
        assert seen < READS
        sizes = [len(reply.plain()) for reply in reader.replies[1:-1]]
        assert sizes == sorted(sizes, reverse=True) and set(sizes) <= {0, 2 * COUNT}
        whole = [reply for reply in reader.replies[1:-1] if reply.plain()]
        assert len(whole) >= seen + 1
        assert all(dict(zip(*[iter(reply.plain())] * 2)) == expected for reply in whole[-2:])


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
