"""Commands over HTTP: what runs, as whom, and what is answered."""

import base64
import json
import struct

from support.http import HttpConnection
from support.resp import Closed
from support.waiting import eventually

from .conftest import Rest

NOTHING_FOR_PAGES = "ERR GET without credentials runs commands that only read: use POST"


def content(response):
    return json.loads(response.content)


def test_commands_and_answers(rest):
    assert rest.call("SET", "k", "v\u00e9\"\\\n\0") == {"result": "OK"}
    assert rest.call("GET", "k") == {"result": "v\u00e9\"\\\n\0"}
    assert rest.call("INCRBY", "n", 9007199254740993) == {"result": 9007199254740993}
    assert rest.call("GET", "none") == {"result": None}
    assert rest.call("MGET", "none", "n", "k") == {"result": [None, "9007199254740993", "v\u00e9\"\\\n\0"]}
    assert rest.call("HSET", "h", "f", "1.50", "g", 2) == {"result": 2}
    assert rest.call("HGETALL", "h") == {"result": ["f", "1.50", "g", "2"]}
    assert rest.call("ZADD", "z", 1.5, "m") == {"result": 1}
    assert rest.call("ZSCORE", "z", "m") == {"result": "1.5"}
    response = rest.post("/", ["LPUSH", "k", "x"])
    assert response.status == 400 and content(response)["error"].startswith("WRONGTYPE "), response
    assert response.fields["content-type"] == "application/json"
    response = rest.post("/", b'["SET","raw",1.50e+1]')
    assert rest.call("GET", "raw") == {"result": "1.50e+1"}
    for body in [b"", b"[]", b"{}", b'["GET"', b'[["GET","k"]]', b"[null]", b'["GET","\xff"]']:
        response = rest.post("/", body)
        assert response.status == 400 and content(response)["error"].startswith("ERR "), (body, response)


def test_pipelines_and_transactions(rest):
    answer = rest.post("/pipeline", [["SET", "a", 1], ["LPUSH", "a", "x"], ["INCR", "a"], ["NOSUCH"]])
    assert answer.status == 200
    first, second, third, fourth = content(answer)
    assert (first, third) == ({"result": "OK"}, {"result": 2})
    assert second["error"].startswith("WRONGTYPE ") and fourth["error"].startswith("ERR unknown command")
    assert content(rest.post("/pipeline", [])) == []
    answer = rest.post("/multi-exec", [["SET", "b", 1], ["LPUSH", "b", "x"], ["INCR", "b"]])
    assert answer.status == 200
    first, second, third = content(answer)
    assert (first, third) == ({"result": "OK"}, {"result": 2}) and second["error"].startswith("WRONGTYPE ")
    answer = rest.post("/multi-exec", [["SET", "b", 7], ["NOSUCH"]])
    assert answer.status == 400
    assert content(answer)["error"].startswith("EXECABORT Transaction discarded because of: unknown command")
    assert rest.call("GET", "b") == {"result": "2"}
    assert content(rest.post("/multi-exec", [])) == []
    for commands in [[["EXEC"]], [["MULTI"]], [["SUBSCRIBE", "c"]], [["CLIENT", "REPLY", "OFF"]], [[]], ["GET"]]:
        assert rest.post("/multi-exec", commands).status == 400, commands
    for command in [["HELLO", "3"], ["RESET"], ["QUIT"], ["PSYNC", "?", "-1"], ["client", "tracking", "on"]]:
        assert rest.post("/", command).status == 400, command
        assert rest.post("/pipeline", [["PING"], command]).status == 400, command


def test_paths_are_commands(rest):
    rest.call("SET", "a b/c%", "1")
    assert content(rest.ask("/get/a%20b%2Fc%25")) == {"result": "1"}
    assert content(rest.post("/set/p/v+v?EX=100&NX", b"")) == {"result": "OK"}
    assert rest.call("GET", "p") == {"result": "v+v"} and 0 < rest.call("TTL", "p")["result"] <= 100
    assert content(rest.post("/set/p", b"\x00 any bytes \xff")) == {"result": "OK"}
    assert rest.call("STRLEN", "p") == {"result": 13}
    assert content(rest.ask("/strlen/%70/")) == {"error": "ERR wrong number of arguments for 'strlen' command"}
    assert content(rest.ask("/get/%zz"))["error"] == "ERR the path is not percent-encoded"
    head = rest.ask("/get/a%20b%2Fc%25", method="HEAD")
    assert head.status == 200 and int(head.fields["content-length"]) == len('{"result":"1"}')
    for path, method, status in [("/pipeline", "GET", 405), ("/get/a", "DELETE", 405), ("*", "OPTIONS", 204)]:
        rest.request(path, method=method)
        assert rest.read(with_content=status != 204).status == status, (path, method)


def test_get_without_credentials_changes_nothing(rest):
    commands = ["set/a/1", "flushall", "eval/return/0", "publish/c/m", "config/set/maxmemory/1", "debug/sleep/0"]
    commands += ["script/flush", "script/load/return%201", "script/kill", "function/kill", "memory/purge"]
    commands += ["mantissa.ticket", "mantissa.jobs/stop/1", "client/setname/x", "mantissa.packed/f64/zincrby/z/1/a"]
    for path in [f"/{command}" for command in commands]:
        assert content(rest.ask(path)) == {"error": NOTHING_FOR_PAGES}, path
    for path in ["/ping", "/info/server", "/time", "/command/count", "/script/exists/0", "/memory/help"]:
        assert "result" in content(rest.ask(path)), path
    assert content(rest.ask("/mantissa.packed/f64/get/none")).get("error") != NOTHING_FOR_PAGES
    token = {"Authorization": "Bearer any"}
    assert content(rest.ask("/set/a/1", fields=token)) == {"result": "OK"}
    # A page of another site can put any token in a path: it is worth something where it could have been wrong.
    assert rest.call("ACL", "SETUSER", "open", "on", "nopass", "~*", "+@all") == {"result": "OK"}
    assert rest.call("ACL", "SETUSER", "closed", "on", ">secret", "~*", "+@all") == {"result": "OK"}
    for token in ["any", "", "default:any", "open:", "open:secret"]:
        assert content(rest.ask(f"/set/a/2?_token={token}")) == {"error": NOTHING_FOR_PAGES}, token
        assert content(rest.ask(f"/get/a?_token={token}")) == {"result": "1"}, token
    assert rest.ask("/set/a/2?_token=closed:any").status == 401
    assert content(rest.ask("/set/a/2?_token=closed:secret")) == {"result": "OK"}
    assert content(rest.ask("/get/a")) == {"result": "2"}


def test_users(server, rest):
    assert rest.call("ACL", "SETUSER", "anna", "on", ">se:cret", "~a*", "+@all", "-flushall") == {"result": "OK"}
    assert rest.call("CONFIG", "SET", "requirepass", "main") == {"result": "OK"}
    basic = base64.b64encode(b"anna:se:cret").decode()
    for field, user in [
        (None, None),
        ("Bearer main", "default"),
        ("Bearer wrong", None),
        ("Bearer anna:se:cret", "anna"),
        ("Bearer anna:secret", None),
        ("Bearer nobody:se:cret", None),
        (f"Basic {basic}", "anna"),
        ("Basic !", None),
        ("Digest x", None),
        (None, None),
    ]:
        with Rest(server.http_port) as connection:
            answer = connection.post("/", ["ACL", "WHOAMI"], {"Authorization": field} if field else {})
            if user:
                assert content(answer) == {"result": user}, field
                continue
            assert answer.status == 401 and answer.fields["www-authenticate"].startswith("Bearer"), field
            assert content(answer)["error"].split()[0] in ("NOAUTH", "WRONGPASS")
            assert answer.fields["connection"] == "close"
    anna = {"Authorization": "Bearer anna:se:cret"}
    assert rest.post("/", ["SET", "a1", "x"], anna).status == 200
    assert content(rest.post("/", ["SET", "b1", "x"], anna))["error"].startswith("NOPERM")
    assert content(rest.post("/", ["FLUSHALL"], anna))["error"].startswith("NOPERM")
    # The connection has no user of its own.
    assert rest.post("/", ["GET", "a1"]).status == 401


def test_nothing_is_left_over_from_a_request(rest):
    rest.post("/pipeline", [["SELECT", "1"], ["SET", "only-in-1", "x"], ["MULTI"], ["SET", "a", "1"]])
    assert rest.call("EXEC") == {"error": "ERR EXEC without MULTI"}
    assert rest.call("GET", "only-in-1") == {"result": None}
    assert content(rest.post("/pipeline", [["SELECT", "1"], ["GET", "only-in-1"]]))[1] == {"result": "x"}
    rest.call("CLIENT", "SETNAME", "anna")
    assert rest.call("CLIENT", "GETNAME") == {"result": None}


def test_forms_of_answers(rest):
    rest.call("HSET", "h", "f", "\u00e9", "n", 1)
    fields = {"Accept": "application/vnd.mantissa.resp3"}
    answer = rest.post("/", ["HGETALL", "h"], fields)
    assert answer.content == "%2\r\n$1\r\nf\r\n$2\r\n\u00e9\r\n$1\r\nn\r\n$1\r\n1\r\n".encode()
    assert answer.fields["content-type"] == fields["Accept"]
    assert rest.post("/pipeline", [["PING"], ["NOSUCH"]], fields).content.startswith(b"+PONG\r\n-ERR ")
    assert rest.post("/multi-exec", [["INCR", "i"]], fields).content == b"*1\r\n:1\r\n"
    assert rest.post("/", ["GET", "none"], {"Upstash-Response-Format": "resp2"}).content == b"$-1\r\n"
    answer = rest.post("/", ["HGETALL", "h"], {"Upstash-Encoding": "base64"})
    assert content(answer) == {"result": ["Zg==", "w6k=", "bg==", "MQ=="]}
    assert rest.call("SET", "ok", "OK", **{"Upstash-Encoding": "base64"}) == {"result": "OK"}
    assert rest.call("GET", "ok", **{"Upstash-Encoding": "base64"}) == {"result": "T0s="}
    rest.post("/", ["RPUSH", "l", 1.5, -2])
    packed = {"Accept": "application/vnd.mantissa.packed; type=F64"}
    answer = rest.post("/", ["LRANGE", "l", 0, -1], packed)
    assert answer.content[:3] == b"MP\x01" and struct.unpack(">2d", answer.content[16:32]) == (1.5, -2.0)
    assert rest.post("/", ["GET", "h"], packed).status == 400
    assert rest.post("/pipeline", [["LRANGE", "l", 0, -1]], packed).status == 400
    rest.post("/set/bytes", b"a\xffb")
    assert rest.call("GET", "bytes") == {"result": "a\ufffdb"}


def test_a_blocked_request_is_served(server, rest):
    with server.connect() as other:
        rest.send(b'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n["BLPOP","q","0"]')
        eventually(lambda: b"blocked_clients:1" in other.call("INFO", "clients"), "it is blocked")
        other.call("RPUSH", "q", "served")
        assert content(rest.read()) == {"result": ["q", "served"]}
        assert rest.call("BLPOP", "q", "0.01") == {"result": None}
        with Rest(server.http_port) as gone:
            gone.send(b'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n["BLPOP","q","0"]')
            eventually(lambda: b"blocked_clients:1" in other.call("INFO", "clients"), "it is blocked")
        eventually(lambda: b"blocked_clients:0" in other.call("INFO", "clients"), "it is gone")


def read_events(connection, count):
    """The next events, each a list of its lines of data."""
    while connection.pending.count(b"\n\n") < count:
        connection._fill()
    *events, connection.pending = connection.pending.split(b"\n\n", count)
    return [[line.removeprefix(b"data: ") for line in event.split(b"\n")] for event in events]


def begin_events(server, path, **request):
    connection = HttpConnection(server.http_port)
    connection.request(path, **request)
    response = connection.read(with_content=False)
    assert response.fields["content-type"] == "text/event-stream" and "content-length" not in response.fields
    return connection


def test_subscriptions_are_events(server):
    with server.connect() as other:
        with begin_events(server, "/subscribe/news/more") as events:
            assert read_events(events, 2) == [[b"subscribe,news,1"], [b"subscribe,more,2"]]
            assert other.call("PUBLISH", "news", "a,b\nc") == 1
            assert read_events(events, 1) == [[b"message,news,a,b", b"c"]]
        eventually(lambda: other.call("PUBSUB", "NUMSUB", "news") == [b"news", 0], "it is gone")
        with begin_events(server, "/psubscribe/n*", method="POST") as events:
            assert read_events(events, 1) == [[b"psubscribe,n*,1"]]
            other.call("PUBLISH", "news", "x")
            assert read_events(events, 1) == [[b"pmessage,n*,news,x"]]
        with begin_events(server, "/monitor") as events:
            assert read_events(events, 1) == [[b"OK"]]
            other.call("SET", "watched", "1")
            assert read_events(events, 1)[0][0].endswith(b'"SET" "watched" "1"')


def test_pages_of_other_sites(server, rest):
    def status(**fields):
        with Rest(server.http_port) as connection:
            return connection.post("/", ["PING"], {name.replace("_", "-"): value for name, value in fields.items()})

    port = server.http_port
    assert status(Origin=f"http://localhost:{port}").status == 403
    assert status(Host=f"localhost:{port}", Origin=f"http://localhost:{port}").status == 200
    assert status(Host="evil.example").status == 421
    assert status(Sec_Fetch_Site="cross-site").status == 403
    rest.call("CONFIG", "SET", "http-allowed-origins", "https://app.example", "http-allowed-hosts", "db.example")
    answer = status(Origin="https://app.example", Host="db.example:80")
    assert (answer.status, answer.fields["access-control-allow-origin"]) == (200, "https://app.example")
    assert answer.fields["vary"] == "Origin"
    assert status(Origin="https://app.example.evil").status == 403
    wanted = {"Origin": "https://app.example", "Access-Control-Request-Headers": "authorization"}
    rest.request("/", method="OPTIONS", fields=wanted)
    answer = rest.read(with_content=False)
    assert answer.status == 204 and answer.fields["access-control-allow-headers"] == "authorization"
    assert "POST" in answer.fields["access-control-allow-methods"]


def test_a_reply_that_is_nested_too_deeply(server, rest):
    nested = "local outer = {} local inner = outer for i = 1, 600 do inner[1] = {} inner = inner[1] end return outer"
    answer = rest.post("/", ["EVAL", nested, "0"])
    assert (answer.status, json.loads(answer.content)) == (400, {"error": "ERR the reply is nested too deeply"})
    assert answer.fields["connection"] == "close"
    assert rest.is_closed()


def test_the_port_opens_and_closes(server):
    with server.connect() as client:
        port = server.http_port
        client.call("CONFIG", "SET", "http-port", "0")
        eventually(lambda: not _answers(port), "it is closed")
        client.call("CONFIG", "SET", "http-port", str(port))
        eventually(lambda: _answers(port), "it is open")


def _answers(port):
    try:
        with Rest(port) as connection:
            return connection.call("PING") == {"result": "PONG"}
    except (OSError, Closed):
        # Closed: the kernel had taken the connection before.
        return False


def test_content_that_comes_slowly_is_no_output(server):
    with server.connect() as connection:
        connection.call("CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 512kb 1")
        size = 3_000_000
        # Clients are looked at once a second, which notes what waits and closes those above their limits.
        is_noted = lambda: f"qbuf={size - 1} ".encode() in connection.call("CLIENT", "LIST")
        with Rest(server.http_port) as rest:
            rest.send(b"POST /set/key HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size)
            rest.send(b"x" * (size - 1))
            eventually(is_noted, "the content does not come")
            rest.send(b"x")
            assert content(rest.read()) == {"result": "OK"}
        assert connection.call("STRLEN", "key") == size
