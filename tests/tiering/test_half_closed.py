"""Clients that end their side behind their requests: those that wait for values on disk get all replies, and what
follows runs, as where the values are in memory."""

import json
import socket

import pytest

from support.http import HttpConnection
from support.resp import Closed, encode
from support.servers import free_port, subject_is_oracle
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no values on disk")
LIMIT_BYTES = 1 << 30
VALUE = b"v" * 5000
ROUNDS = 20


@pytest.fixture(params=["io_uring", "epoll"])
def server(tiered, tmp_path, request):
    options = {"io-driver": request.param, "http-port": free_port(), "unixsocket": tmp_path / "socket"}
    server = tiered(**{"tier-pressure": "yes", "tier-min-bytes": 1}, **options)
    server.http_port = options["http-port"]
    server.socket_path = str(options["unixsocket"])
    return server


@pytest.fixture
def cold(server):
    """Names of keys whose values are on disk."""
    keys = [f"cold:{number}" for number in range(ROUNDS)]
    with server.connect() as connection:
        connection.pipeline([("SET", key, VALUE) for key in keys])
        places = lambda: [reply.plain() for reply in connection.pipeline([("MANTISSA.LOCATION", key) for key in keys])]
        eventually(lambda: set(places()) == {b"disk"}, "not all are on disk")
    return keys


def sent_and_ended(server, *commands):
    """What comes back for commands behind which this side is ended."""
    with server.connect() as client:
        client.send_raw(b"".join(encode(command) for command in commands))
        client.socket.shutdown(socket.SHUT_WR)
        replies = []
        with pytest.raises(Closed):
            while True:
                replies.append(client.read().plain())
        return replies


def test_reads(server, cold):
    for key in cold:
        assert sent_and_ended(server, ("GET", key)) == [VALUE]


def test_reads_between_others(server, cold):
    for key, other in zip(cold, cold[::-1]):
        commands = [("PING",), ("GET", key), ("ECHO", "x"), ("GET", other), ("ECHO", "y")]
        assert sent_and_ended(server, *commands) == [b"PONG", VALUE, b"x", VALUE, b"y"]


def test_writes_behind_a_change_of_a_value(server, cold):
    with server.connect() as connection:
        for number, key in enumerate(cold):
            writes = [("SET", f"after:{number}:{n}", "1") for n in range(100)]
            replies = sent_and_ended(server, ("SET", f"before:{number}", "1"), ("APPEND", key, "x"), *writes)
            assert replies == [b"OK", len(VALUE) + 1] + [b"OK"] * 100
            assert connection.call("STRLEN", key) == len(VALUE) + 1
            assert connection.call("EXISTS", f"before:{number}", f"after:{number}:99") == 2


def test_requests_beyond_what_is_read_at_once(server, cold):
    """What has not been read when the client ends its side is read once its requests go on."""
    large = b"z" * 300_000
    for key in cold[:5]:
        replies = sent_and_ended(server, ("GET", key), *[("ECHO", large), ("GET", key)] * 10)
        assert replies == [VALUE] + [large, VALUE] * 10


def test_transactions(server, cold):
    for key in cold:
        replies = sent_and_ended(server, ("MULTI",), ("GET", key), ("INCR", "n"), ("EXEC",), ("PING",))
        assert replies[:3] == [b"OK", b"QUEUED", b"QUEUED"]
        assert replies[3][0] == VALUE and replies[4:] == [b"PONG"]


def test_scripts(server, cold):
    for key in cold:
        call = ("EVAL", "return #redis.call('GET', ARGV[1])", 0, key)
        assert sent_and_ended(server, call, ("PING",)) == [len(VALUE), b"PONG"]


def test_requests_over_http(server, cold):
    for key in cold:
        with HttpConnection(server.http_port) as client:
            request = f"GET /get/{key} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            client.send(request * 2)
            client.socket.shutdown(socket.SHUT_WR)
            for _ in range(2):
                assert json.loads(client.read().content) == {"result": VALUE.decode()}


def test_who_sends_and_goes_over_a_unix_socket(server, cold):
    with server.connect() as connection:
        for number, key in enumerate(cold):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(server.socket_path)
                client.sendall(encode(("APPEND", key, "x")) + encode(("SET", f"after:{number}", "1")))
            eventually(lambda: connection.call("EXISTS", f"after:{number}") == 1, "what follows is not run")
            assert connection.call("STRLEN", key) == len(VALUE) + 1


def test_nobody_stays_who_is_gone(server, cold):
    with server.connect() as connection:
        for key in cold:
            with server.connect() as client:
                client.send("GET", key)
        listed = lambda: connection.call("CLIENT", "LIST").decode().splitlines()
        eventually(lambda: len(listed()) == 1, lambda: f"still there: {listed()}")
