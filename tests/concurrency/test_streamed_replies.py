"""Long replies leave while they are being written. What arrives is what the same command replies in a transaction,
where nothing is streamed, whatever the pace of the reader."""

import re

import pytest

from support.memory import used
from support.resp import encode
from support.servers import Server
from support.waiting import eventually

COUNT = 40_000
BATCH = 1000
# Of far more bytes than a kernel takes of a reply.
LONG = 30_000_000

READS = {
    "HGETALL": ("HGETALL", "hash"),
    "HKEYS": ("HKEYS", "hash"),
    "HVALS": ("HVALS", "hash"),
    "LRANGE": ("LRANGE", "list", 0, -1),
    "ZRANGE": ("ZRANGE", "zset", 0, -1, "WITHSCORES"),
    "ZREVRANGE": ("ZREVRANGE", "zset", 0, -1),
    "ZRANGEBYSCORE": ("ZRANGEBYSCORE", "zset", "(10", "+inf", "WITHSCORES", "LIMIT", 5, COUNT),
    "SMEMBERS": ("SMEMBERS", "set"),
    "XRANGE": ("XRANGE", "stream", "-", "+"),
    "XRANGE COUNT": ("XRANGE", "stream", "-", "+", "COUNT", COUNT - 7),
    "XREVRANGE": ("XREVRANGE", "stream", "+", "-"),
    "XRANGE from": ("XRANGE", "stream", "9-0", "+"),
    "TS.RANGE": ("TS.RANGE", "series", "-", "+"),
    "TS.RANGE COUNT": ("TS.RANGE", "series", 77, COUNT * 5, "COUNT", COUNT - 1000),
    "TS.REVRANGE": ("TS.REVRANGE", "series", 77, COUNT * 9),
    "TS.RANGE filtered": ("TS.RANGE", "series", "-", "+", "FILTER_BY_VALUE", 1, 1e9),
    "TS.RANGE buckets": ("TS.RANGE", "series", "-", "+", "AGGREGATION", "avg", 20),
}


def write(client):
    """One value of each type, with replies of half a megabyte and more."""
    client.call("TS.CREATE", "series")
    for first in range(0, COUNT, BATCH):
        numbers = range(first, first + BATCH)
        requests = [
            ("HSET", "hash", *(word for n in numbers for word in (f"field:{n}", f"value:{n * n}"))),
            ("RPUSH", "list", *(f"element:{n}" if n % 3 else n for n in numbers)),
            ("ZADD", "zset", *(word for n in numbers for word in (n / 7, f"member:{n}"))),
            ("SADD", "set", *(f"member:{n}" for n in numbers)),
            ("TS.MADD", *(word for n in numbers for word in ("series", n * 10, n / 7))),
            *(("XADD", "stream", f"{n + 1}-0", "field", n) for n in numbers),
        ]
        assert not any(reply.is_error for reply in client.pipeline(requests))


@pytest.fixture(scope="module", params=["io_uring", "epoll"])
def filled(request):
    with Server("subject", {"io-driver": request.param}, workers=2) as server:
        with server.connect() as client:
            write(client)
        yield server
        if not server.alive:
            print(server.log_tail())


def in_transaction(client, command):
    """The reply's bytes as the only one of a transaction."""
    raw = client.pipeline([("MULTI",), command, ("EXEC",)])[-1].raw
    assert raw.startswith(b"*1\r\n")
    return raw[4:]


def received(connection, size, piece):
    """So many bytes, of which no more than a piece is asked for at a time."""
    parts = bytearray()
    while len(parts) < size:
        part = connection.socket.recv(min(piece, size - len(parts)))
        assert part, "the connection is closed"
        parts += part
    return bytes(parts)


def unread_bytes(client, connection_id):
    line = client.call("CLIENT", "LIST", "ID", connection_id).decode()
    return int(re.search(r" omem=(\d+)", line)[1])


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("name", READS)
def test_a_streamed_reply_is_whole_and_in_its_place(filled, name, protocol):
    command = READS[name]
    with filled.connect(protocol) as client, filled.connect(protocol) as reader:
        expected = in_transaction(client, command)
        assert len(expected) > 400_000 or "buckets" in name
        requests = [("ECHO", "before"), command, ("ECHO", "between"), command, ("ECHO", "after")]
        whole = b"$6\r\nbefore\r\n" + expected + b"$7\r\nbetween\r\n" + expected + b"$5\r\nafter\r\n"
        for piece in (1 << 20, 3000):
            reader.send_raw(b"".join(encode(request) for request in requests))
            assert received(reader, len(whole), piece) == whole
        assert reader.call("PING") == b"PONG"


def test_who_reads_late_gets_everything(filled):
    command = READS["HGETALL"]
    with filled.connect() as client, filled.connect() as reader:
        expected = in_transaction(client, command)
        count = LONG // len(expected) + 1
        own_id = reader("CLIENT", "ID").plain()
        reader.send_raw(encode(command) * count)
        eventually(lambda: unread_bytes(client, own_id) > 1_000_000, "the kernel takes all")
        assert received(reader, len(expected) * count, 100_000) == expected * count


def test_who_leaves_in_the_middle_leaves_nothing_behind(filled):
    with filled.connect() as client:
        before = used(client)
        for piece in (1, 10_000, 300_000):
            for _ in range(10):
                with filled.connect() as reader:
                    reader.send(*READS["ZRANGE"])
                    received(reader, piece, piece)
        eventually(lambda: used(client) < before + 4_000_000, "memory is kept")
        assert client("ZCARD", "zset").plain() == COUNT


def test_a_reply_over_the_limit_closes_its_client(filled):
    with filled.connect() as client, filled.connect() as reader:
        size = len(in_transaction(client, READS["HGETALL"]))
        try:
            client.call("CONFIG", "SET", "client-output-buffer-limit", "normal 500000 0 0")
            reader.send(*READS["HGETALL"])
            assert len(reader.read_until_closed()) < size
        finally:
            client.call("CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0")


def test_replies_that_are_switched_off_are_not_streamed(filled):
    with filled.connect() as reader:
        requests = [("CLIENT", "REPLY", "SKIP"), READS["HGETALL"], ("PING",), ("CLIENT", "REPLY", "OFF")]
        requests += [READS["LRANGE"], READS["ZRANGE"], ("CLIENT", "REPLY", "ON")]
        reader.send_raw(b"".join(encode(request) for request in requests))
        assert received(reader, 12, 12) == b"+PONG\r\n+OK\r\n"
        assert reader.call("PING") == b"PONG"


@pytest.mark.parametrize("mode", ["always", "everysec"])
def test_a_reply_stays_behind_those_that_wait_for_the_log(start_server, mode):
    server = start_server("subject", options={"appendonly": "yes", "appendfsync": mode}, workers=2)
    with server.connect() as client:
        words = [word for number in range(COUNT) for word in (f"field:{number}", number)]
        client.call("HSET", "hash", *words)
        for turn in range(20):
            requests = [("INCR", "n"), ("HSET", "hash", "field:1", turn), ("HGETALL", "hash"), ("INCR", "n")]
            plain = [reply.plain() for reply in client.pipeline(requests)]
            found = dict(zip(plain[2][::2], plain[2][1::2], strict=True))
            assert plain[0] == turn * 2 + 1 and plain[3] == turn * 2 + 2
            assert len(found) == COUNT and found[b"field:1"] == b"%d" % turn


def test_who_leaves_too_much_unread_is_closed_and_nobody_else(start_server):
    server = start_server(options={"client-output-buffer-limit": "normal 8000000 0 0"}, workers=2)
    with server.connect() as client:
        for first in range(0, 100_000, BATCH):
            client.call("HSET", "hash", *(word for n in range(first, first + BATCH) for word in (n, "v" * 100)))
        with server.connect() as reader:
            own_id = reader("CLIENT", "ID").plain()
            reader.send_raw(encode(("HGETALL", "hash")))
            eventually(lambda: not client.call("CLIENT", "LIST", "ID", own_id), "it is not closed")
    # All workers are there.
    for _ in range(8):
        with server.connect() as connection:
            assert connection.call("PING") == b"PONG"
