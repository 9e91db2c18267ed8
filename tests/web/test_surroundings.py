"""HTTP within TLS, across an upgrade, and where clients are limited."""

import json
import os
import signal
import urllib.request

from support.http import HttpConnection
from support.servers import free_port
from upgrade.conftest import start_upgrade

from .conftest import Rest


def test_http_within_tls(tls_server):
    port, trusted = tls_server
    url = f"https://localhost:{port}/"
    value = "x" * 300_000
    for command, result in [(["SET", "k", value], "OK"), (["GET", "k"], value)]:
        request = urllib.request.Request(url, data=json.dumps(command).encode())
        with urllib.request.urlopen(request, timeout=20, context=trusted) as answer:
            assert json.load(answer) == {"result": result}


def test_clients_are_limited(server, rest):
    assert rest.call("CONFIG", "SET", "maxclients", "2") == {"result": "OK"}
    with Rest(server.http_port) as second, HttpConnection(server.http_port) as third:
        assert second.call("PING") == {"result": "PONG"}
        answer = third.read()
        assert (answer.status, json.loads(answer.content)) == (503, {"error": "ERR max number of clients reached"})
        assert third.is_closed()


def test_clients_are_seen_and_killed(server, rest):
    with server.connect() as client:
        port = rest.socket.getsockname()[1]
        rest.call("PING")
        assert f"addr=127.0.0.1:{port}".encode() in client.call("CLIENT", "LIST")
        assert client.call("CLIENT", "KILL", f"127.0.0.1:{port}") == b"OK"
        assert rest.is_closed()


def test_writes_wait_for_the_disk_and_for_a_pause(start_server):
    options = {"http-port": free_port(), "appendonly": "yes", "appendfsync": "always"}
    server = start_server(options=options, workers=2)
    with Rest(options["http-port"]) as rest, server.connect() as client:
        commands = [["INCR", "n"]] * 100
        for _ in range(10):
            assert rest.post("/pipeline", commands).status == 200
        assert rest.call("GET", "n") == {"result": "1000"}
        client.call("CLIENT", "PAUSE", "200", "WRITE")
        assert rest.call("INCR", "n") == {"result": 1001}


def test_large_values(rest):
    value = "\u00e9\"" * 1_000_000
    assert rest.call("SET", "large", value) == {"result": "OK"}
    assert rest.call("GET", "large") == {"result": value}
    many = [str(number) for number in range(100_000)]
    assert rest.call("RPUSH", "many", *many) == {"result": len(many)}
    assert rest.call("LRANGE", "many", 0, -1) == {"result": many}


def test_an_upgrade_takes_port_and_connections_along(server, rest):
    assert rest.call("SET", "k", "v") == {"result": "OK"}
    connection, process = start_upgrade(server)
    try:
        with connection:
            assert connection.read().plain().startswith(b"OK process ")
        assert rest.call("APPEND", "k", "w") == {"result": 2}
        with Rest(server.http_port) as other:
            assert other.call("GET", "k") == {"result": "vw"}
    finally:
        os.kill(process, signal.SIGKILL)
