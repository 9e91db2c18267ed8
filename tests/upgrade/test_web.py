"""Connections over HTTP and WebSocket go to the next process as those over RESP do."""

import json

import pytest
from support.certificates import HAS_OPENSSL, make_authority, make_certificate
from support.http import HttpConnection
from support.resp import Closed, encode
from support.servers import free_port
from support.waiting import eventually
from support.websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, WebSocket, frame


@pytest.fixture
def server(start_upgradable):
    port = free_port()
    server = start_upgradable(options={"http-port": port}, workers=2)
    server.http_port = port
    return server


def post(connection, path, content):
    """Send a request in JSON."""
    data = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
    connection.send(head.encode() + data)


def answer(connection):
    return json.loads(connection.read().content)


def blocked(server):
    with server.connect() as connection:
        text = connection.call("INFO", "clients").decode()
    return int(text.split("blocked_clients:")[1].split()[0])


def received(server, connection):
    """The bytes that the server has received of a connection."""
    address = f"addr=127.0.0.1:{connection.socket.getsockname()[1]} "
    with server.connect() as client:
        lines = client.call("CLIENT", "LIST").decode().splitlines()
    line = next(line for line in lines if address in line)
    return int(line.split("tot-net-in=")[1].split()[0])


def test_http_goes_on(server):
    idle, part, waiting = (HttpConnection(server.http_port) for _ in range(3))
    post(idle, "/", ["SET", "a", "1"])
    assert answer(idle) == {"result": "OK"}
    request = b"GET /get/a HTTP/1.1\r\nHost: localhost\r\n\r\n"
    part.send(request[:20])
    post(waiting, "/pipeline", [["ECHO", "x"], ["BLPOP", "list", "0"], ["GET", "a"]])
    eventually(lambda: blocked(server.server) == 1, "nothing blocks")
    # What is sent ahead waits behind it.
    post(waiting, "/", ["GET", "a"])
    server.upgrade()
    part.send(request[20:])
    assert answer(part) == {"result": "1"}
    post(idle, "/", ["INCR", "a"])
    assert answer(idle) == {"result": 2}
    with server.server.connect() as client:
        client.call("RPUSH", "list", "v")
    assert answer(waiting) == [{"result": "x"}, {"result": ["list", "v"]}, {"result": "2"}]
    assert answer(waiting) == {"result": "2"}
    for connection in (idle, part, waiting):
        connection.close()
    server.await_end_of_former()


def test_events_go_on(server):
    events = HttpConnection(server.http_port)
    events.request("/subscribe/news", fields={"Accept": "text/event-stream"})
    with server.server.connect() as client:
        eventually(lambda: client.call("PUBLISH", "news", "one") == 1, "nobody listens")
    server.upgrade()
    with server.server.connect() as client:
        assert client.call("PUBLISH", "news", "two") == 1
    while b"data: message,news,two\n\n" not in events.pending:
        events._fill()
    assert b"data: message,news,one\n\n" in events.pending and events.pending.count(b"HTTP/1.1") == 1
    events.close()


def test_content_that_is_to_come_is_refused(server):
    connection = HttpConnection(server.http_port)
    connection.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n[")
    with server.server.connect() as client:
        eventually(lambda: b"qbuf=1 " in client.call("CLIENT", "LIST"), "the content does not arrive")
    server.upgrade()
    refusal = connection.read()
    assert refusal.status == 503 and b"nothing was run" in refusal.content
    assert refusal.fields["connection"] == "close"
    with pytest.raises(Closed):
        connection.read()


def test_websockets_go_on(server):
    resp, text, waiting = (WebSocket(server.http_port) for _ in range(3))
    # A message in two frames, of which the second has come in part.
    whole = encode(("SET", "a", "1"))
    second = frame(CONTINUATION, whole[9:])
    resp.send_raw(frame(BINARY, whole[:9], fin=False) + frame(PING, b"here"))
    command = json.dumps({"id": "ü", "command": ["ECHO", "ä"]}, ensure_ascii=False).encode()
    cut = command.index("ä".encode()) + 1
    text.send_raw(frame(TEXT, b'{"id":1,"command":["SUBSCRIBE","news"]}'))
    assert json.loads(text.read_frame()[1])["push"][0] == "subscribe"
    text.send_raw(frame(TEXT, command[:cut], fin=False))
    waiting.send_raw(frame(TEXT, b'{"id":2,"command":["BLPOP","list",0]}'))
    waiting.send_raw(frame(TEXT, b'{"id":3,"command":["GET","a"]}'))
    eventually(lambda: blocked(server.server) == 1, "nothing blocks")
    text.send_raw(frame(PING, b"here"))
    for connection in (resp, text):
        assert connection.read_frame() == (PONG, b"here")
    before = received(server.server, resp)
    resp.send_raw(second[:8])
    eventually(lambda: received(server.server, resp) == before + 8, "the part does not arrive")
    server.upgrade()
    with server.server.connect() as client:
        assert client.call("PUBLISH", "news", "hello") == 1
        assert json.loads(text.read_frame()[1]) == {"push": ["message", "news", "hello"]}
        text.send_raw(frame(CONTINUATION, command[cut:]))
        assert json.loads(text.read_frame()[1]) == {"id": "ü", "reply": "ä"}
        resp.send_raw(second[8:])
        assert resp.read_reply() == b"OK"
        # Who waits is listened to.
        waiting.send_raw(frame(PING, b"still"))
        assert waiting.read_frame() == (PONG, b"still")
        client.call("RPUSH", "list", "v")
    assert json.loads(waiting.read_frame()[1]) == {"id": 2, "reply": ["list", "v"]}
    assert json.loads(waiting.read_frame()[1]) == {"id": 3, "reply": "1"}
    server.await_end_of_former()
    for connection in (resp, text, waiting):
        connection.send_raw(frame(CLOSE, b"\x03\xe8"))
        assert connection.read_close() == 1000


def test_who_asks_over_websocket_is_answered(server):
    with WebSocket(server.http_port) as connection:
        connection.send_raw(frame(TEXT, b'{"id":5,"command":["MANTISSA.UPGRADE"]}'))
        reply = json.loads(connection.read_frame()[1])
        assert reply["id"] == 5 and reply["reply"].startswith("OK process")
        server.processes.append(server.process())


def test_within_tls_they_are_told(start_upgradable, tmp_path):
    if not HAS_OPENSSL:
        pytest.skip("needs the openssl command")
    import ssl

    make_authority(tmp_path, "ca")
    make_certificate(tmp_path, "server", "ca")
    port = free_port()
    options = {
        "http-tls-port": port,
        "tls-cert-file": tmp_path / "server.crt",
        "tls-key-file": tmp_path / "server.key",
        "tls-ca-cert-file": tmp_path / "ca.crt",
        "tls-auth-clients": "no",
    }
    server = start_upgradable(options=options, workers=2)
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    with WebSocket(port, tls=context) as connection:
        server.upgrade()
        assert connection.read_close() == 1012
    with WebSocket(port, tls=context) as connection:
        connection.send(BINARY, encode(("PING",)))
        assert connection.read_reply() == b"PONG"
