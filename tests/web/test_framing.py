"""Where requests end (RFC 9112): what is in doubt is refused, and nothing behind it is understood as a request.

The section numbers are those of RFC 9112.
"""

import json
import time

import pytest
from support.http import HttpConnection
from support.waiting import eventually

from .conftest import Rest

PING = b'["PING"]'
# A request that must never run, behind one whose end is in doubt.
SMUGGLED = b'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 24\r\n\r\n["SET","smuggled","yes"]'
HOST = b"Host: localhost\r\n"


def post(fields, body):
    return b"POST / HTTP/1.1\r\n" + HOST + fields + b"\r\n" + body


REFUSED = {
    "2.2 bare line feeds": b"POST / HTTP/1.1\nHost: localhost\nContent-Length: 8\n\n" + PING,
    "2.2 a bare line feed in fields": post(b"X: a\nContent-Length: 8\r\n", PING),
    "2.2 a bare carriage return": post(b"X: a\rContent-Length: 80\r\nContent-Length: 8\r\n", PING),
    "2.2 a space before the first field": b"POST / HTTP/1.1\r\n " + HOST + b"Content-Length: 8\r\n\r\n" + PING,
    "2.3 another version": b"POST / HTTP/2.0\r\n" + HOST + b"Content-Length: 8\r\n\r\n" + PING,
    "2.3 no version": b"POST /\r\n" + HOST + b"Content-Length: 8\r\n\r\n" + PING,
    "3 two spaces": b"POST  / HTTP/1.1\r\n" + HOST + b"Content-Length: 8\r\n\r\n" + PING,
    "3.2 two hosts": post(b"Host: localhost\r\nContent-Length: 8\r\n", PING),
    "3.2 no host": b"POST / HTTP/1.1\r\nContent-Length: 8\r\n\r\n" + PING,
    "3.2 a host that is none": b"POST / HTTP/1.1\r\nHost: a b\r\nContent-Length: 8\r\n\r\n" + PING,
    "3.2 user information": b"POST http://u@localhost/ HTTP/1.1\r\n" + HOST + b"Content-Length: 8\r\n\r\n" + PING,
    "3.2 authority form": b"CONNECT localhost:1 HTTP/1.1\r\n" + HOST + b"Content-Length: 8\r\n\r\n" + PING,
    "3.2 a fragment": b"POST /#x HTTP/1.1\r\n" + HOST + b"Content-Length: 8\r\n\r\n" + PING,
    "5.1 a space before the colon": post(b"Content-Length : 8\r\n", PING),
    "5.1 no name": post(b": x\r\nContent-Length: 8\r\n", PING),
    "5.2 a folded line": post(b"X: a\r\n b\r\nContent-Length: 8\r\n", PING),
    "5.2 a folded length": post(b"Content-Length:\r\n 8\r\n", PING),
    "5.5 a NUL byte": post(b"X: a\0\r\nContent-Length: 8\r\n", PING),
    "6.1 both ways": post(b"Content-Length: 8\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "6.1 both ways, the other way around": post(b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n"),
    "6.1 chunked twice": post(b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n"),
    "6.1 two fields": post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "6.1 chunked is not the last": post(b"Transfer-Encoding: chunked, gzip\r\n", b"0\r\n\r\n"),
    "6.1 a coding before": post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    "6.1 an unknown coding": post(b"Transfer-Encoding: gzip\r\n", b"0\r\n\r\n"),
    "6.1 another unknown coding": post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    "6.1 a control character": post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"),
    "6.1 quotes": post(b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n"),
    "6.1 in HTTP/1.0": b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "6.2 two lengths": post(b"Content-Length: 8\r\nContent-Length: 9\r\n", PING),
    "6.2 the same length twice": post(b"Content-Length: 8\r\nContent-Length: 8\r\n", PING),
    "6.2 a list of lengths": post(b"Content-Length: 8, 8\r\n", PING),
    "6.2 a sign": post(b"Content-Length: +8\r\n", PING),
    "6.2 a negative length": post(b"Content-Length: -8\r\n", PING),
    "6.2 hexadecimal": post(b"Content-Length: 0x8\r\n", PING),
    "6.2 a fraction": post(b"Content-Length: 8.0\r\n", PING),
    "6.2 no length": post(b"Content-Length: \r\n", PING),
    "7.1 no size": post(b"Transfer-Encoding: chunked\r\n", b"\r\n" + PING),
    "7.1 a sign": post(b"Transfer-Encoding: chunked\r\n", b"+8\r\n" + PING + b"\r\n0\r\n\r\n"),
    "7.1 a prefix": post(b"Transfer-Encoding: chunked\r\n", b"0x8\r\n" + PING + b"\r\n0\r\n\r\n"),
    "7.1 a space": post(b"Transfer-Encoding: chunked\r\n", b"8 \r\n" + PING + b"\r\n0\r\n\r\n"),
    "7.1 a size that overflows": post(b"Transfer-Encoding: chunked\r\n", b"10000000000000008\r\n" + PING),
    "7.1 a bare line feed": post(b"Transfer-Encoding: chunked\r\n", b"8\n" + PING + b"\n0\n\n"),
    "7.1 a chunk that is longer": post(b"Transfer-Encoding: chunked\r\n", b"7\r\n" + PING + b"\r\n0\r\n\r\n"),
    "7.1 a chunk that is shorter": post(b"Transfer-Encoding: chunked\r\n", b"9\r\n" + PING + b"\r\n0\r\n\r\n"),
    "7.1.1 a line feed in an extension": post(
        b"Transfer-Encoding: chunked\r\n", b"8;a\nb\r\n" + PING + b"\r\n0\r\n\r\n"
    ),
    "7.1.2 a folded trailer": post(b"Transfer-Encoding: chunked\r\n", b"8\r\n" + PING + b"\r\n0\r\n x\r\n\r\n"),
}


def test_what_is_in_doubt_is_refused(server):
    connections = {case: HttpConnection(server.http_port) for case in REFUSED}
    for case, connection in connections.items():
        connection.send(REFUSED[case] + SMUGGLED)
    for case, connection in connections.items():
        response = connection.read()
        assert response.status in (400, 413, 501), (case, response)
        assert response.fields["connection"] == "close", (case, response)
    for case, connection in connections.items():
        assert connection.is_closed(), case
        connection.close()
    with Rest(server.http_port) as connection:
        assert connection.call("EXISTS", "smuggled") == {"result": 0}


ACCEPTED = {
    "2.2 empty lines before": b"\r\n\r\n" + post(b"Content-Length: 8\r\n", PING),
    "3.2 absolute form": b"POST http://localhost/ HTTP/1.1\r\n" + HOST + b"Content-Length: 8\r\n\r\n" + PING,
    "3.2 absolute form, whatever Host is": (
        b"POST http://localhost/ HTTP/1.1\r\nHost: evil\r\nContent-Length: 8\r\n\r\n" + PING
    ),
    "6.2 zeros": post(b"Content-Length: 008\r\n", PING),
    "7.1 chunks": post(b"Transfer-Encoding: chunked\r\n", b'3\r\n["P\r\n5;x=y\r\nING"]\r\n0\r\n\r\n'),
    "7.1 zeros, and any case": post(b"transfer-encoding: CHUNKED\r\n", b"0008\r\n" + PING + b"\r\n000\r\n\r\n"),
    "7.1.2 trailers": post(b"Transfer-Encoding: chunked\r\n", b"8\r\n" + PING + b"\r\n0\r\nContent-Length: 99\r\n\r\n"),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_is_clear_is_answered_however_split(server, case):
    data = ACCEPTED[case]
    with HttpConnection(server.http_port) as connection:
        connection.send(data * 3)
        for _ in range(3):
            assert json.loads(connection.read().content) == {"result": "PONG"}
        for at in range(1, len(data), 7):
            connection.send(data[:at])
            connection.send(data[at:])
            assert json.loads(connection.read().content) == {"result": "PONG"}


def test_a_name_in_absolute_form_is_checked(server):
    with HttpConnection(server.http_port) as connection:
        connection.send(b"GET http://evil.example/get/a HTTP/1.1\r\n" + HOST + b"\r\n")
        assert connection.read().status == 421


def test_requests_sent_ahead_are_answered_in_order(server):
    with HttpConnection(server.http_port) as connection:
        bodies = [json.dumps(["ECHO", str(number)]).encode() for number in range(5000)]
        blocked = b'["BLPOP","none","0.2"]'
        connection.send(post(b"Content-Length: %d\r\n" % len(blocked), blocked))
        connection.send(b"".join(post(b"Content-Length: %d\r\n" % len(body), body) for body in bodies))
        assert json.loads(connection.read().content) == {"result": None}
        for number in range(len(bodies)):
            assert json.loads(connection.read().content) == {"result": str(number)}


def test_who_does_not_read_is_not_answered(server, rest):
    assert rest.call("SET", "large", "x" * (1 << 20)) == {"result": "OK"}
    with HttpConnection(server.http_port) as connection, server.connect() as client:
        connection.send(b"GET /get/large HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400)
        length = (1 << 20) + len('{"result":""}')
        assert len(connection.read().content) == length
        calls = "cmdstat_get:calls="
        count = int(client.call("INFO", "commandstats").decode().split(calls)[1].split(",")[0])
        assert count < 100, "requests ran whose answers nobody takes"
        for _ in range(399):
            assert len(connection.read().content) == length


def test_connections_end_as_asked(server):
    cases = [("1.1", "x", True), ("1.1", "close", False), ("1.0", "x", False), ("1.0", "keep-alive", True)]
    for version, field, stays in cases:
        with HttpConnection(server.http_port) as connection:
            connection.request("/ping", version=version, fields={"Connection": field})
            response = connection.read()
            assert response.status == 200
            assert response.fields["connection"] == ("keep-alive" if stays else "close")
            assert stays or connection.is_closed()


def test_content_is_waited_for(server):
    with HttpConnection(server.http_port) as connection:
        connection.send(post(b"Content-Length: 8\r\nExpect: 100-continue\r\n", b""))
        while b"\r\n\r\n" not in connection.pending:
            connection._fill()
        assert connection.pending == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.pending = b""
        connection.send(PING)
        assert json.loads(connection.read().content) == {"result": "PONG"}
        # Content that is not wanted is not asked for.
        connection.send(post(b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n", b""))
        assert connection.read().status == 413


def test_limits(server, rest):
    port = server.http_port
    rest.call("CONFIG", "SET", "http-max-body", "1000")
    assert rest.post("/", ["ECHO", "x" * 900]).status == 200
    for data in [
        post(b"Content-Length: 1001\r\n", b""),
        post(b"Transfer-Encoding: chunked\r\n", b"3e9\r\n"),
        post(b"Transfer-Encoding: chunked\r\n", b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\n"),
    ]:
        with HttpConnection(port) as connection:
            connection.send(data)
            assert connection.read().status == 413
    for data in [b"GET /" + b"x" * 9000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 70 + b"\r\n", b"\r\n" * 5000]:
        with HttpConnection(port) as connection:
            connection.send(data)
            assert connection.read().status == 431
    rest.call("CONFIG", "SET", "http-timeout", "1")
    with HttpConnection(port) as connection:
        assert connection.is_closed()
    with server.connect() as client:
        client.call("CONFIG", "SET", "http-timeout", "60")
    # A length that is promised takes nothing.
    with Rest(port) as rest:
        promise_much(port, rest)


def promise_much(port, rest):
    rest.call("CONFIG", "SET", "http-max-body", "1gb")
    before = rest.call("MEMORY", "STATS")["result"]
    waiting = [HttpConnection(port) for _ in range(50)]
    for connection in waiting:
        connection.send(post(b"Content-Length: 1000000000\r\n", b"["))
    eventually(lambda: rest.call("CLIENT", "LIST")["result"].count("fd=") >= 51, "they are there")
    after = rest.call("MEMORY", "STATS")["result"]
    grown = after[after.index("total.allocated") + 1] - before[before.index("total.allocated") + 1]
    assert grown < 4 << 20
    for connection in waiting:
        connection.close()


def test_a_slow_head_is_refused(server):
    with HttpConnection(server.http_port) as connection:
        connection.send(b"GET /")
        began = time.monotonic()
        assert connection.read().status == 408
        # Its own limit, not that of idle connections, which is 60 seconds.
        assert 9 < time.monotonic() - began < 50
