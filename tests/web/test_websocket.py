"""WebSocket at `/ws`: the protocol by numbers of RFC 6455 and of the Autobahn test suite, commands in RESP and in
JSON, logins, origins, and that nobody can hold the server up."""

import base64
import struct
import time

import pytest
from support.resp import encode
from support.servers import free_port
from support.waiting import eventually
from support.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    Refused,
    WebSocket,
    eventually_closed,
    frame,
)

PORT = "http-port"


@pytest.fixture
def one(start_server):
    """A server where the driver does not matter."""
    return started(start_server, {})


def started(start_server, options):
    options = {PORT: free_port()} | options
    server = start_server(options=options, workers=2)
    server.http_port = options[PORT]
    return server


def connected(server, **options):
    return WebSocket(server.http_port, **options)


def refused(server, **options):
    with pytest.raises(Refused) as caught:
        connected(server, **options)
    return caught.value


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def with_user(server, name="ann", password="secret", rules=("~ann:*", "+@all", "&*")):
    with server.connect() as client:
        client.call("ACL", "SETUSER", name, "on", f">{password}", *rules)


# ---- the opening handshake ----


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"path": "/pipeline"}, 405),
        ({"path": "/wsx/1"}, 400),
        ({"without": ["Host"]}, 400),
        ({"without": ["Upgrade"]}, 426),
        ({"without": ["Connection"]}, 426),
        ({"without": ["Sec-WebSocket-Version"]}, 426),
        ({"fields": {"Sec-WebSocket-Version": "8"}}, 426),
        ({"without": ["Sec-WebSocket-Key"]}, 400),
        ({"fields": {"Sec-WebSocket-Key": "short"}}, 400),
        ({"fields": {"Content-Length": "5"}}, 400),
        ({"fields": {"Transfer-Encoding": "chunked"}}, 400),
        ({"fields": {"X": "x" * 9000}}, 431),
        ({"fields": {"Authorization": "Basic ***"}}, 401),
        ({"fields": {"Authorization": "Digest x"}}, 401),
        ({"path": "/ws?ticket=0123"}, 401),
    ],
)
def test_section_4_2_what_is_refused(one, options, status):
    assert refused(one, **options).status == status
    if status == 426:
        assert refused(one, **options).fields["sec-websocket-version"] == "13"


def test_section_4_2_a_list_may_name_more(one):
    fields = {"Connection": "keep-alive, Upgrade", "Upgrade": "h2c, WebSocket"}
    with connected(one, fields=fields) as client:
        assert client.call("PING") == b"PONG"


def test_section_4_1_frames_may_follow_at_once(server):
    with connected(server, rest=frame(BINARY, encode(["PING"]))) as client:
        assert client.read_reply() == b"PONG"


def test_subprotocols(one):
    for offered, chosen in [("json", "json"), ("x, resp3, json", "resp3")]:
        with connected(one, fields={"Sec-WebSocket-Protocol": offered}) as client:
            assert client.fields["sec-websocket-protocol"] == chosen
    with connected(one, fields={"Sec-WebSocket-Protocol": "other"}) as client:
        assert "sec-websocket-protocol" not in client.fields
    with connected(one, fields={"Sec-WebSocket-Protocol": "json"}) as client:
        client.send_command("PING")
        assert client.read_close() == 1003


# ---- RESP and JSON ----


def test_commands_in_binary_messages(server):
    with connected(server) as client:
        assert client.call("SET", "k", b"\0\xff" * 1000) == b"OK"
        assert client.call("GET", "k") == b"\0\xff" * 1000
        client.call("HSET", "h", "f", "v")
        client.send_command("HGETALL", "h")
        opcode, payload = client.read_frame()
        assert (opcode, payload) == (BINARY, b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n")
        assert client.call("HELLO", "2")[5] == 2
        client.send_command("HGETALL", "h")
        assert client.read_frame()[1].startswith(b"*2\r\n")
        assert client.call("RESET") == b"RESET"
        client.send_command("HGETALL", "h")
        assert client.read_frame()[1].startswith(b"%1\r\n")


def test_messages_may_begin_and_end_anywhere_in_the_stream(server):
    requests = b"".join(encode(["INCRBY", "n", str(number)]) for number in range(1, 30))
    with connected(server) as client:
        for step in [1, 2, 3, 7, 50, 1000]:
            client.call("SET", "n", "0")
            client.send_raw(
                b"".join(frame(BINARY, requests[at : at + step]) for at in range(0, len(requests), step))
            )
            replies = [client.read_reply() for _ in range(1, 30)]
            assert replies == [number * (number + 1) // 2 for number in range(1, 30)], step


def test_a_frame_may_be_cut_anywhere(server):
    commands = [frame(BINARY, encode(words)) for words in (["SET", "cut", "x" * 200], ["GET", "cut"])]
    data = frame(PING, b"p").join(commands)
    wanted = b"+OK\r\n$200\r\n" + b"x" * 200 + b"\r\n"
    with connected(server) as client:
        for cut in range(0, len(data), 9):
            client.send_raw(data[:cut])
            time.sleep(0)
            client.send_raw(data[cut:])
            # The replies are in one message or two, before or behind the pong.
            replies, pongs = b"", 0
            while not pongs or len(replies) < len(wanted):
                opcode, payload = client.read_frame()
                pongs += (opcode, payload) == (PONG, b"p")
                replies += payload if opcode == BINARY else b""
            assert replies == wanted and pongs == 1


def test_a_large_value(server):
    value = bytes(range(256)) * 40000
    with connected(server) as client:
        assert client.call("SET", "large", value) == b"OK"
        assert client.call("GET", "large") == value
        assert client.call("STRLEN", "large") == len(value)


def test_commands_in_json(server):
    with connected(server) as client:
        assert client.ask("SET", "k", "wört\n\"") == {"reply": "OK"}
        assert client.ask("GET", "k") == {"reply": "wört\n\""}
        assert client.ask("INCR", "n") == {"reply": 1}
        assert client.ask("INCRBYFLOAT", "f", 1.5) == {"reply": "1.5"}
        client.send(TEXT, b'["SET","exact",12345678901234567890.50]')
        assert client.read_json() == {"reply": "OK"}
        assert client.ask("GET", "exact") == {"reply": "12345678901234567890.50"}
        assert client.ask("GET", "none") == {"reply": None}
        assert client.ask("HSET", "h", "a", 1, "b", 2) == {"reply": 2}
        assert client.ask("HGETALL", "h") == {"reply": {"a": "1", "b": "2"}}
        assert client.ask("ZADD", "z", 1.5, "m") == {"reply": 1}
        assert client.ask("ZSCORE", "z", "m") == {"reply": 1.5}
        assert client.ask("ZADD", "z", "inf", "i") == {"reply": 1}
        assert client.ask("ZSCORE", "z", "i") == {"reply": "inf"}
        error = "WRONGTYPE Operation against a key holding the wrong kind of value"
        assert client.ask("LPUSH", "k", "x") == {"error": error}
        client.send_json({"id": 7, "command": ["SET", "b", {"base64": "AP8="}]})
        assert client.read_json() == {"id": 7, "reply": "OK"}
        client.send_json({"id": "x", "command": ["GET", "b"]})
        assert client.read_json() == {"id": "x", "reply": {"base64": "AP8="}}
        # RESP2 loses kinds of values, so JSON is always made of RESP3.
        client.ask("HELLO", "2")
        assert client.ask("HGETALL", "h") == {"reply": {"a": "1", "b": "2"}}
        assert client.ask("RESET") == {"reply": "RESET"}
        assert client.ask("HGETALL", "h") == {"reply": {"a": "1", "b": "2"}}


def test_ids_stay_with_their_commands(server):
    """Also around commands that wait, that answer nothing, and transactions."""
    with connected(server) as client, connected(server) as other:
        for number in range(100):
            client.send_json({"id": number, "command": ["ECHO", str(number)]})
        for number in range(100):
            assert client.read_json() == {"id": number, "reply": str(number)}
        client.send_json({"id": "wait", "command": ["BLPOP", "list", 0]})
        client.send_json({"id": "after", "command": ["PING"]})
        eventually(lambda: b"blocked_clients:1" in other.call("INFO", "clients"), "it does not wait")
        other.call("RPUSH", "list", "v")
        assert client.read_json() == {"id": "wait", "reply": ["list", "v"]}
        assert client.read_json() == {"id": "after", "reply": "PONG"}
        client.send_json({"id": 1, "command": ["CLIENT", "REPLY", "SKIP"]})
        client.send_json({"id": 2, "command": ["PING"]})
        client.send_json({"id": 3, "command": ["MULTI"]})
        client.send_json({"id": 4, "command": ["PING"]})
        client.send_json({"id": 5, "command": ["NONE"]})
        client.send_json({"command": ["DISCARD"]})
        assert client.read_json() == {"id": 3, "reply": "OK"}
        assert client.read_json() == {"id": 4, "reply": "QUEUED"}
        assert client.read_json()["id"] == 5
        assert client.read_json() == {"reply": "OK"}


def test_ids_stay_with_their_commands_behind_a_silent_wait(server):
    with connected(server) as client:
        commands = [["CLIENT", "REPLY", "SKIP"], ["BLPOP", "none", "0.05"], ["ECHO", "a"], ["CLIENT", "REPLY", "OFF"]]
        commands += [["BLPOP", "none", "0.05"], ["PING"], ["CLIENT", "REPLY", "ON"], ["ECHO", "b"]]
        for number, command in enumerate(commands):
            client.send_json({"id": number, "command": command})
        assert client.read_json() == {"id": 2, "reply": "a"}
        assert client.read_json() == {"id": 6, "reply": "OK"}
        assert client.read_json() == {"id": 7, "reply": "b"}


@pytest.mark.parametrize("text", ["", "1", "[]", "{}", "[[]]", "[null]", '["a"', '{"command":"x"}', '["a"] b'])
def test_text_that_is_no_command_ends_the_connection(one, text):
    with connected(one) as client:
        client.send_json(["PING"])
        client.send(TEXT, text.encode())
        assert client.read_json() == {"reply": "PONG"}
        assert client.read_close() == 1007


def test_an_id_is_short(one):
    with connected(one) as client:
        client.send_json({"id": "x" * 1022, "command": ["PING"]})
        assert client.read_json() == {"id": "x" * 1022, "reply": "PONG"}
        client.send_json({"id": "x" * 1023, "command": ["PING"]})
        assert client.read_close() == 1007


def test_who_waits_is_read_from_up_to_a_bound_of_ids(server):
    with connected(server) as client, server.connect() as admin:
        client.socket.settimeout(2)
        client.send_json({"command": ["BLPOP", "list", 0]})
        sent = 0
        try:
            for sent in range(30_000):
                client.send_json({"id": f"{sent:01000}", "command": ["PING"]})
        except TimeoutError:
            pass
        assert sent < 29_999, "the server reads on"
        assert admin.call("DBSIZE") == 0


def test_kinds_of_messages_do_not_mix(one):
    with connected(one) as client:
        client.ask("PING")
        client.send_command("PING")
        assert client.read_close() == 1003
    with connected(one) as client:
        client.call("PING")
        client.send_json(["PING"])
        assert client.read_close() == 1003


def test_a_protocol_error_of_resp_is_told(one):
    with connected(one) as client:
        client.send(BINARY, b"*1\r\n:1\r\n")
        assert b"Protocol error" in client.read_frame()[1]
        assert client.read_close() == 1000


# ---- pushes ----


def test_pushes_in_resp(server):
    with connected(server) as client, server.connect() as other:
        assert client.call("SUBSCRIBE", "c") == [b"subscribe", b"c", 1]
        assert client.call("PSUBSCRIBE", "p*") == [b"psubscribe", b"p*", 2]
        other.call("PUBLISH", "c", "hello")
        assert client.read_reply() == [b"message", b"c", b"hello"]
        other.call("PUBLISH", "px", "hello")
        assert client.read_reply() == [b"pmessage", b"p*", b"px", b"hello"]
        # RESP3: other commands go on.
        assert client.call("PING") == b"PONG"


def test_pushes_in_json(server):
    with connected(server) as client, server.connect() as other:
        client.send_json({"id": 1, "command": ["SUBSCRIBE", "c", "d"]})
        assert client.read_json() == {"id": 1, "push": ["subscribe", "c", 1]}
        assert client.read_json() == {"id": 1, "push": ["subscribe", "d", 2]}
        other.call("PUBLISH", "c", "wört")
        assert client.read_json() == {"push": ["message", "c", "wört"]}
        other.call("PUBLISH", "c", b"\xff")
        assert client.read_json() == {"push": ["message", "c", {"base64": "/w=="}]}
        assert client.ask("PING") == {"reply": "PONG"}


def test_unasked_pushes_have_no_id(server):
    with connected(server) as client:
        commands = [["CLIENT", "TRACKING", "ON"], ["GET", "a"], ["SET", "a", "1"], ["FLUSHALL"]]
        commands += [["SUBSCRIBE", "c"], ["PUBLISH", "c", "m"], ["UNSUBSCRIBE", "c"], ["PING"]]
        for number, command in enumerate(commands):
            client.send_json({"id": number, "command": command})
        messages = [client.read_json()]
        while messages[-1].get("id") != len(commands) - 1:
            messages.append(client.read_json())
        assert [message["id"] for message in messages if "id" in message] == list(range(len(commands)))
        unasked = [message["push"] for message in messages if "id" not in message]
        assert ["invalidate", ["a"]] in unasked and ["message", "c", "m"] in unasked


def test_keyspace_events(server):
    with connected(server) as client, server.connect() as other:
        other.call("CONFIG", "SET", "notify-keyspace-events", "KEA")
        client.ask("PSUBSCRIBE", "__keyevent@0__:*")
        other.call("SET", "k", "v")
        pattern, event = "__keyevent@0__:*", "__keyevent@0__:set"
        assert client.read_json() == {"push": ["pmessage", pattern, event, "k"]}


def test_client_side_caching(server):
    with connected(server) as client, connected(server) as binary, server.connect() as other:
        assert client.ask("CLIENT", "TRACKING", "ON") == {"reply": "OK"}
        assert binary.call("CLIENT", "TRACKING", "ON") == b"OK"
        client.ask("GET", "cached")
        binary.call("GET", "cached")
        other.call("SET", "cached", "1")
        assert client.read_json() == {"push": ["invalidate", ["cached"]]}
        assert binary.read_reply() == [b"invalidate", [b"cached"]]


def test_monitor(one):
    with connected(one) as client, one.connect() as other:
        assert client.ask("MONITOR") == {"reply": "OK"}
        other.call("PING", "seen")
        assert '"seen"' in client.read_json()["push"]
        # A command of its own is answered once, and shown in a push.
        for number in range(3):
            client.send_json({"id": number, "command": ["ECHO", f"own {number}"]})
        for number in range(3):
            assert client.read_json() == {"id": number, "reply": f"own {number}"}
            line = client.read_json()
            assert list(line) == ["push"] and f'"own {number}"' in line["push"]
        client.send_json({"id": 7, "command": ["RESET"]})
        assert client.read_json() == {"id": 7, "reply": "RESET"}


# ---- logins and rights ----


def test_a_login_by_header(one):
    with_user(one)
    with connected(one, fields=basic("ann", "secret")) as client:
        assert client.ask("ACL", "WHOAMI") == {"reply": "ann"}
        assert client.ask("SET", "ann:1", "x") == {"reply": "OK"}
        assert client.ask("SET", "other", "x")["error"].startswith("NOPERM")
    with connected(one, fields={"Authorization": "Bearer ann:secret"}) as client:
        assert client.call("ACL", "WHOAMI") == b"ann"
    assert refused(one, fields=basic("ann", "wrong")).status == 401
    with one.connect() as client:
        assert client.call("ACL", "LOG")


def test_a_login_by_message(one):
    with_user(one)
    with one.connect() as admin:
        admin.call("CONFIG", "SET", "requirepass", "top")
        with connected(one) as client:
            assert client.ask("GET", "k")["error"].startswith("NOAUTH")
            assert client.ask("AUTH", "ann", "wrong")["error"].startswith("WRONGPASS")
            assert client.ask("AUTH", "ann", "secret") == {"reply": "OK"}
            assert client.ask("ACL", "WHOAMI") == {"reply": "ann"}
        with connected(one) as client:
            assert client.call("HELLO", "3", "AUTH", "ann", "secret")[1] == b"redis"
            assert client.call("ACL", "WHOAMI") == b"ann"
            client.call("RESET")
            client.send_command("PING")
            assert b"NOAUTH" in client.read_frame()[1]
        with connected(one) as client:
            client.send(BINARY, b"x" * 70000)
            assert client.read_close() == 1009


def test_a_ticket_is_good_once(one):
    with_user(one)
    with one.connect() as admin, one.connect() as client:
        client.call("AUTH", "ann", "secret")
        ticket = client.call("MANTISSA.TICKET").decode()
        assert len(ticket) == 32 and ticket != client.call("MANTISSA.TICKET").decode()
        with connected(one, path=f"/ws?ticket={ticket}") as browser:
            assert browser.ask("ACL", "WHOAMI") == {"reply": "ann"}
        assert refused(one, path=f"/ws?ticket={ticket}").status == 401
        # One that is too old.
        ticket = client.call("MANTISSA.TICKET", "SECONDS", "1").decode()
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > 1.2, "time stands still")
        assert refused(one, path=f"/ws?ticket={ticket}").status == 401
        # One whose user is gone.
        ticket = client.call("MANTISSA.TICKET").decode()
        admin.call("ACL", "DELUSER", "ann")
        assert refused(one, path=f"/ws?ticket={ticket}").status == 401
        for words in [["SECONDS"], ["SECONDS", "0"], ["SECONDS", "3601"], ["SECONDS", "x"], ["X", "1"]]:
            assert admin("MANTISSA.TICKET", *words).is_error


def test_origins(one):
    port = one.http_port
    own = {"Host": f"127.0.0.1:{port}", "Origin": f"http://127.0.0.1:{port}"}
    with connected(one, fields=own) as client:
        assert client.call("PING") == b"PONG"
    local = {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}
    connected(one, fields=local).close()
    # Another site, and a name of another site that leads here.
    assert refused(one, fields={"Origin": "https://evil.example"}).status == 403
    assert refused(one, fields={"Origin": "null"}).status == 403
    rebound = {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}"}
    assert refused(one, fields=rebound).status == 421
    with one.connect() as admin:
        admin.call("CONFIG", "SET", "http-allowed-origins", "https://a.example https://b.example")
        connected(one, fields={"Origin": "https://b.example"}).close()
        assert refused(one, fields={"Origin": "https://c.example"}).status == 403
        admin.call("CONFIG", "SET", "http-allowed-origins", "*")
        connected(one, fields={"Origin": "https://c.example"}).close()


# ---- it is an ordinary session ----


def test_client_list_and_kill(server):
    with connected(server) as client, server.connect() as admin:
        client.call("CLIENT", "SETNAME", "socket")
        number = client.call("CLIENT", "ID")
        listed = admin.call("CLIENT", "LIST", "ID", str(number)).decode()
        assert "name=socket" in listed and "resp=3" in listed
        assert admin.call("CLIENT", "KILL", "ID", str(number)) == 1
        assert eventually_closed(client)
        assert admin.call("CLIENT", "LIST", "ID", str(number)) == b""


def test_quit(one):
    with connected(one) as client:
        client.send_command("QUIT")
        assert client.read_reply() == b"OK"
        assert client.read_close() == 1000
    with connected(one) as client:
        assert client.ask("QUIT") == {"reply": "OK"}
        assert client.read_close() == 1000


def test_maxclients(one):
    with one.connect() as admin:
        admin.call("CONFIG", "SET", "maxclients", "2")
        with connected(one) as client:
            assert client.call("PING") == b"PONG"
            assert refused(one).status == 503


def test_replies_wait_for_the_disk(start_server):
    server = started(start_server, {"appendonly": "yes", "appendfsync": "always"})
    with connected(server) as client:
        for number in range(20):
            client.send_json({"id": number, "command": ["INCR", "n"]})
        client.send_json(["QUIT"])
        assert [client.read_json()["reply"] for _ in range(20)] == list(range(1, 21))
        assert client.read_json() == {"reply": "OK"}
        assert client.read_close() == 1000


# ---- frames, by the numbers of the Autobahn test suite ----


def echoed(client, frames, wanted):
    """Sends frames of a message that makes a command, and reads its reply."""
    client.send_raw(b"".join(frames))
    assert client.read_json() == {"reply": wanted}


def by_bytes(text):
    """A message with a frame for each byte."""
    last = len(text) - 1
    return [frame(CONTINUATION if at else TEXT, text[at : at + 1], fin=at == last) for at in range(len(text))]


def test_case_1_lengths(one):
    with connected(one) as client:
        for size in [0, 1, 100, 125, 126, 127, 128, 65000, 65535, 65536, 70000]:
            assert client.ask("ECHO", "*" * size) == {"reply": "*" * size}


def test_case_2_pings(server):
    with connected(server) as client:
        for payload in [b"", b"Hello", b"\0\xff\xfe", b"\xfe" * 125]:
            client.send(PING, payload)
            assert client.read_frame() == (PONG, payload)
        client.send(PONG, b"unasked")
        client.send_raw(b"".join(frame(PING, bytes([number])) for number in range(10)))
        assert [client.read_frame() for _ in range(10)] == [(PONG, bytes([number])) for number in range(10)]
        # While it waits in a command.
        client.send_command("BLPOP", "nothing", "0")
        client.send(PING, b"waiting")
        assert client.read_frame() == (PONG, b"waiting")
    with connected(server) as client:
        client.send(PING, b"x" * 126)
        assert client.read_close() == 1002


BROKEN = [
    ("3", [frame(TEXT, b"x", reserved=bits)])
    for bits in range(1, 8)
] + [
    ("4", [frame(opcode, b"", fin=fin)])
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15]
    for fin in [True, False]
] + [
    ("5.1.1", [frame(PING, b"a", fin=False), frame(CONTINUATION, b"b")]),
    ("5.2", [frame(PONG, b"a", fin=False), frame(CONTINUATION, b"b")]),
    ("5.9", [frame(CONTINUATION, b"x")]),
    ("5.12", [frame(CONTINUATION, b"x", fin=False)]),
    ("5.18", [frame(TEXT, b"a", fin=False), frame(TEXT, b"b")]),
    ("7.3.2", [frame(CLOSE, b"\x03")]),
    ("7.3.6", [frame(CLOSE, b"\x03\xe8" + b"x" * 124)]),
    ("section 5.1", [frame(TEXT, b"[]", mask=False)]),
    ("section 5.2", [b"\x82\xfe\x00\x7d", b"\x37\xfa\x21\x3d" + b"x" * 125]),
    ("section 5.2", [b"\x82\xff\x80" + b"\0" * 7]),
] + [
    ("7.9", [frame(CLOSE, struct.pack(">H", code))])
    for code in [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535]
]


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_cases_3_to_7_what_breaks_the_protocol(shared, number):
    case, frames = BROKEN[number]
    with connected(shared) as client:
        client.send(PING, b"before")
        client.send_raw(b"".join(frames))
        assert client.read_frame() == (PONG, b"before")
        assert client.read_close() == 1002, case


@pytest.fixture(scope="module")
def shared(request):
    from support.servers import Server

    port = free_port()
    with Server("subject", options={PORT: port}) as server:
        server.http_port = port
        yield server


def test_case_5_fragments(server):
    with connected(server) as client:
        text = '["ECHO","fragmént"]'.encode()
        for cut in range(len(text) + 1):
            echoed(client, [frame(TEXT, text[:cut], fin=False), frame(CONTINUATION, text[cut:])], "fragmént")
        echoed(client, by_bytes(text), "fragmént")
        client.send_raw(
            frame(TEXT, text[:5], fin=False)
            + frame(PING, b"1")
            + frame(CONTINUATION, text[5:9], fin=False)
            + frame(PING, b"2")
            + frame(CONTINUATION, text[9:])
        )
        assert client.read_frame() == (PONG, b"1")
        assert client.read_frame() == (PONG, b"2")
        assert client.read_json() == {"reply": "fragmént"}


@pytest.mark.parametrize(
    "text",
    [
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
        b"\xf4\x90\x80\x80",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\x80",
        b"\xff",
        b"x" * 500 + b"\xe0\x9f\xbf" + b"x" * 500,
        b"\xce",
    ],
)
def test_case_6_text_that_is_no_utf_8(shared, text):
    with connected(shared) as client:
        client.send(TEXT, text)
        assert client.read_close() == 1007
    with connected(shared) as client:
        client.send_raw(b"".join(by_bytes(text)))
        assert client.read_close() == 1007


def test_case_6_4_bad_text_fails_at_once(one):
    with connected(one) as client:
        client.send(TEXT, "κόσμε".encode() + b"\xf4\x90", fin=False)
        assert client.read_close() == 1007


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999])
def test_case_7_7_the_code_is_answered(shared, code):
    with connected(shared) as client:
        client.send(CLOSE, struct.pack(">H", code) + "grüße".encode())
        assert client.read_close() == code


def test_case_7_1_closes(server):
    with connected(server) as client:
        ping = frame(BINARY, encode(["PING"]))
        client.send_raw(ping + frame(CLOSE) + ping + frame(PING))
        assert client.read_reply() == b"PONG"
        assert client.read_close() is None
    with connected(server) as client:
        client.send(CLOSE, b"\x03\xe8" + b"\xed\xa0\x80")
        assert client.read_close() == 1007
    with connected(server) as client, server.connect() as other:
        client.send_command("BLPOP", "nothing", "0")
        eventually(lambda: b"blocked_clients:1" in other.call("INFO", "clients"), "it does not wait")
        client.send(CLOSE)
        assert client.read_close() is None
        eventually(lambda: b"blocked_clients:0" in other.call("INFO", "clients"), "it still waits")


# ---- limits ----

NESTED = "local outer = {} local inner = outer for i = 1, 600 do inner[1] = {} inner = inner[1] end return outer"


def test_a_reply_that_is_nested_too_deeply(server):
    with connected(server) as client:
        client.send_json({"id": 1, "command": ["EVAL", NESTED, "0"]})
        client.send_json({"id": 2, "command": ["PING"]})
        assert client.read_json() == {"id": 1, "error": "ERR the reply is nested too deeply"}
        assert client.read_json() == {"id": 2, "reply": "PONG"}


def test_limits_of_frames_and_messages(one):
    with one.connect() as admin:
        admin.call("CONFIG", "SET", "websocket-max-frame", "1000")
        admin.call("CONFIG", "SET", "websocket-max-message", "1500")
    with connected(one) as client:
        client.send(BINARY, b"*" * 1001)
        assert client.read_close() == 1009
    with connected(one) as client:
        client.send(TEXT, b"[" * 1000, fin=False)
        client.send_raw(frame(CONTINUATION, b"[" * 501))
        assert client.read_close() == 1009
    with connected(one) as client:
        # Refused by its header: the payload never comes.
        client.send_raw(b"\x82\xff\x00\x00\x00\x7f\xff\xff\xff\xff")
        assert client.read_close() == 1009


def test_a_message_in_progress_counts(server):
    begun = frame(TEXT, b'["ECHO","' + b"x" * 3_000_000)[:2_000_000]
    with connected(server) as client, server.connect() as admin:
        client.send_raw(begun)
        own = admin.call("CLIENT", "ID")

        def used():
            lines = admin.call("CLIENT", "LIST").decode().splitlines()
            return max(int(line.split(" qbuf=")[1].split()[0]) for line in lines if f"id={own} " not in line)

        eventually(lambda: used() > 1_990_000, "it is not listed")
        admin.call("CONFIG", "SET", "client-query-buffer-limit", "1mb")
        client.send_raw(b"xx")
        assert eventually_closed(client)
    with connected(server) as client, server.connect() as admin:
        admin.call("CONFIG", "SET", "client-query-buffer-limit", "1gb", "maxmemory-clients", "1500000")
        client.send_raw(begun)
        assert eventually_closed(client)


def test_no_replica_comes_over_websocket(one):
    with connected(one) as client:
        for words in (["PSYNC", "?", "-1"], ["SYNC"]):
            assert client.call(*words) == b"ERR SYNC and PSYNC are not for connections over WebSocket"


def test_a_silent_client_is_asked_and_closed(one):
    with one.connect() as admin:
        admin.call("CONFIG", "SET", "websocket-timeout", "4")
    with connected(one) as silent, connected(one) as alive:
        opcode, payload = alive.read_frame()
        assert opcode == PING
        alive.send(PONG, payload)
        assert silent.read_frame()[0] == PING
        silent.expect_end()
        assert alive.call("PING") == b"PONG"


def test_who_does_not_read_is_not_read_from(server):
    """The server stops reading, holds a bounded amount, and goes on when the client reads."""
    with connected(server) as client, server.connect() as admin:
        admin.call("SET", "big", "x" * 100_000)
        client.socket.settimeout(2)
        request = frame(BINARY, encode(["GET", "big"])) * 50
        sent = 0
        try:
            while sent < 400 << 20:
                sent += client.socket.send(request)
        except TimeoutError:
            pass
        assert sent < 400 << 20, "the server reads on"
        assert int(admin.call("INFO", "memory").split(b"used_memory:")[1].split()[0]) < 300 << 20
        client.socket.settimeout(20)
        assert client.read_reply() == b"x" * 100_000


def test_who_does_not_read_is_closed_at_the_output_limit(server):
    with connected(server) as client, server.connect() as admin:
        client.call("SUBSCRIBE", "c")
        admin.call("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0")
        number = int(admin.call("CLIENT", "LIST", "TYPE", "pubsub").split()[0].split(b"=")[1])
        eventually(
            lambda: admin.call("PUBLISH", "c", "x" * 100_000) == 0
            or not admin.call("CLIENT", "LIST", "ID", str(number)),
            "it is never closed",
        )
        assert eventually_closed(client)


def test_hostile_bytes_do_no_harm(server):
    """Any frames, with a fixed seed."""
    import random

    generator = random.Random(20)
    for _ in range(60):
        with connected(server) as client:
            data = b"".join(
                frame(
                    generator.choice([0, 1, 2, 2, 2, 8, 9, 10, generator.randrange(16)]),
                    generator.choice([encode(["PING"]), b'["PING"]', generator.randbytes(99)]),
                    fin=generator.random() < 0.8,
                )
                for _ in range(generator.randrange(1, 20))
            )
            client.send_raw(data[: generator.randrange(len(data) + 1)])
    with server.connect() as admin:
        assert admin.call("PING") == b"PONG"
        eventually(lambda: b"connected_clients:1\r" in admin.call("INFO", "clients"), "clients stay")
