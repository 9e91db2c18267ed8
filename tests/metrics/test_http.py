"""The HTTP part under the metrics: what it answers, and that nobody can hold it up."""

import threading
import time

import pytest
from support.http import HttpConnection, ask
from support.resp import Closed
from support.servers import free_port
from support.waiting import PATIENCE_S, eventually

CONNECTIONS_MAX = 32
HEAD_BYTES_MAX = 8 << 10


@pytest.fixture(params=["io_uring", "epoll"])
def server(request, start_server):
    """A server with metrics, on each driver."""
    options = {"io-driver": request.param, "metrics-port": free_port()}
    server = start_server(options=options, workers=2)
    server.metrics_port = options["metrics-port"]
    return server


def set_timeout(server, seconds):
    with server.connect() as client:
        client.call("CONFIG", "SET", "metrics-timeout", str(seconds))


def test_paths_and_methods(server):
    with HttpConnection(server.metrics_port) as connection:
        for path, method, status in [
            ("/healthz", "GET", 200),
            ("/readyz", "GET", 200),
            ("/metrics", "GET", 200),
            ("/metrics?name[]=x", "GET", 200),
            ("http://elsewhere:1/healthz", "GET", 200),
            ("/", "GET", 404),
            ("/metrics/", "GET", 404),
            ("/Metrics", "GET", 404),
            ("/%6detrics", "GET", 404),
            ("/nothing", "POST", 404),
            ("/metrics", "POST", 405),
            ("/healthz", "DELETE", 405),
            ("*", "OPTIONS", 404),
        ]:
            response = connection.ask(path, method=method)
            assert response.status == status, (path, method, response)
            assert response.fields["connection"] == "keep-alive"
            assert ("allow" in response.fields) == (status == 405)
        assert response.fields["date"].endswith(" GMT")


def test_head_has_the_length_and_no_content(server):
    with HttpConnection(server.metrics_port) as connection:
        for path in ["/healthz", "/metrics", "/nothing"]:
            response = connection.ask(path, method="HEAD")
            assert response.content == b"" and int(response.fields["content-length"]) > 2, response
        assert connection.ask("/healthz").content == b"ok\n"


BAD_REQUESTS = [
    (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"GET /healthz HTTP/3.0\r\nHost: a\r\n\r\n", 400),
    (b"GET /healthz\r\n\r\n", 400),
    (b"GET /health z HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nA: \x00\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 405),
    (b"*1\r\n$4\r\nPING\r\n", 400),
    (b"\x16\x03\x01\x00\x05hello", 400),
    (b"GET /" + b"x" * HEAD_BYTES_MAX, 431),
    (b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"x" * HEAD_BYTES_MAX + b"\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 100 + b"\r\n", 431),
    (b"\r\n" * HEAD_BYTES_MAX, 431),
]


def test_bad_requests_are_refused_and_their_connections_end(server):
    connections = [(HttpConnection(server.metrics_port), *case) for case in BAD_REQUESTS]
    for connection, data, status in connections:
        connection.send(data)
        response = connection.read()
        assert response.status == status, (data[:100], response)
        assert response.fields["connection"] == "close"
    assert ask(server.metrics_port, "/healthz").status == 200
    for connection, data, _ in connections:
        with connection:
            assert connection.is_closed(), data[:100]


def test_a_connection_ends_when_the_client_says_so(server):
    for version, fields, stays in [
        ("1.1", {}, True),
        ("1.1", {"Connection": "close"}, False),
        ("1.0", {}, False),
        ("1.0", {"Connection": "keep-alive"}, True),
    ]:
        for path in ["/healthz", "/metrics"]:
            with HttpConnection(server.metrics_port) as connection:
                assert connection.ask(path, version=version, fields=fields).status == 200
                if stays:
                    assert connection.ask("/healthz", version=version, fields=fields).status == 200
                else:
                    assert connection.is_closed()


def test_pipelined_requests_are_answered_in_order(server):
    with HttpConnection(server.metrics_port) as connection:
        paths = ["/healthz", "/metrics", "/nothing", "/metrics", "/readyz"] * 4
        for path in paths:
            connection.request(path)
        for path in paths:
            response = connection.read()
            assert response.status == (404 if path == "/nothing" else 200)
            assert (b"redis_up 1\n" in response.content) == (path == "/metrics")


def test_requests_come_byte_by_byte(server):
    with HttpConnection(server.metrics_port) as connection:
        for byte in b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /readyz HTTP/1.1\r\nHost: a\r\n\r\n":
            connection.send(bytes([byte]))
        assert [connection.read().status for _ in range(2)] == [200, 200]


def test_a_slow_head_is_not_waited_for(server):
    """More bytes do not give it more time."""
    set_timeout(server, 2)
    began = time.monotonic()
    with HttpConnection(server.metrics_port) as slow:
        slow.send(b"GET /healthz HTTP/1.1\r\n")
        slow.socket.settimeout(0.05)
        closed = False
        while not closed and time.monotonic() - began < PATIENCE_S:
            try:
                slow.send(b"X: y\r\n")
                slow._fill()
            except (TimeoutError, BlockingIOError):
                pass
            except (Closed, OSError):
                closed = True
        assert closed and slow.pending.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert time.monotonic() - began > 1.5


def test_idle_connections_end(server):
    set_timeout(server, 1)
    with HttpConnection(server.metrics_port) as fresh, HttpConnection(server.metrics_port) as used:
        assert used.ask("/healthz").status == 200
        assert fresh.is_closed() and used.is_closed()


def test_connections_are_limited_and_places_come_back(server):
    crowd = [HttpConnection(server.metrics_port) for _ in range(CONNECTIONS_MAX)]
    assert all(connection.ask("/healthz").status == 200 for connection in crowd)
    with HttpConnection(server.metrics_port) as one_more:
        response = one_more.read()
        assert response.status == 503 and one_more.is_closed()
    # RESP clients have places of their own.
    with server.connect() as client:
        assert client.call("PING") == b"PONG"
        assert b"connected_clients:1\r\n" in client.call("INFO", "clients")
    for connection in crowd:
        connection.close()

    def is_served():
        try:
            return ask(server.metrics_port, "/healthz").status == 200
        except (Closed, OSError):
            return False

    eventually(is_served, "places are not given back")


def test_who_does_not_read_holds_little(server):
    """Answers wait for a client that takes none, and so do its requests."""
    before = server.memory_bytes()
    with HttpConnection(server.metrics_port) as connection:
        connection.socket.settimeout(1)
        request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
        try:
            for _ in range(2_000):
                connection.send(request * 100)
        except (TimeoutError, OSError):
            pass
        with server.connect() as client:
            assert client.call("PING") == b"PONG"
        assert server.memory_bytes() - before < 16 << 20
    assert ask(server.metrics_port, "/healthz").status == 200


def test_clients_do_not_notice_scrapes(server):
    """Scrapes are no clients, commands or bytes of clients, and are served while a script runs."""
    with server.connect() as client, server.connect() as watcher:
        client.call("CONFIG", "SET", "busy-reply-threshold", "50")
        client.send("EVAL", "local n = 0 while n == 0 do end", 0)
        eventually(lambda: watcher("PING").text().startswith("BUSY"), "the script does not become slow")
        assert b"redis_up 1\n" in ask(server.metrics_port, "/metrics").content
        assert ask(server.metrics_port, "/healthz").status == 200
        watcher.call("SCRIPT", "KILL")
        assert client.read().is_error
        fields = {}
        for count in (0, 20):
            for _ in range(count):
                ask(server.metrics_port, "/metrics")
            text = watcher.call("INFO", "stats").decode()
            fields[count] = dict(line.split(":") for line in text.splitlines() if ":" in line)
        assert int(fields[20]["total_commands_processed"]) - int(fields[0]["total_commands_processed"]) == 1
        assert fields[20]["total_connections_received"] == fields[0]["total_connections_received"]
        received = int(fields[20]["total_net_input_bytes"]) - int(fields[0]["total_net_input_bytes"])
        assert received < 100


def test_many_scrape_at_once(server):
    failures = []

    def scrape():
        try:
            with HttpConnection(server.metrics_port) as connection:
                for _ in range(5):
                    assert b"redis_up 1\n" in connection.ask("/metrics").content
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=scrape) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_port_can_be_moved_and_closed(start_server):
    server = start_server()
    with server.connect() as client:
        for port in (free_port(), free_port()):
            client.call("CONFIG", "SET", "metrics-port", str(port))
            eventually(lambda port=port: is_open(port), "the new port is not served")
        client.call("CONFIG", "SET", "metrics-port", "0")
        eventually(lambda: not is_open(port), "the old port is still served")
        taken = client("CONFIG", "SET", "metrics-port", str(server.port))
        assert taken.is_error and "Unable to listen on this port" in taken.text()
        assert client.call("CONFIG", "GET", "metrics-port")[1] == b"0"


def is_open(port):
    try:
        return ask(port, "/healthz").status == 200
    except (OSError, Closed):
        return False


def test_metrics_alone_are_not_enough_to_listen_on(start_server):
    server = start_server(options={"metrics-port": free_port()}, wait=False)
    server.kill()
    server.options["port"] = 0
    server.start(wait=False)
    assert server.wait_exit() == 1
    assert "Configured to not listen anywhere" in server.log_text()
