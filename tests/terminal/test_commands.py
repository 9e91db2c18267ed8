"""`mantissa cli` in pipes against redis-cli: the same bytes on both outputs, the same exit codes."""

import json
import socketserver
import threading
from types import SimpleNamespace

import pytest

from support.terminal import kill


def fill(server):
    with server.connect() as connection:
        connection.call("MSET", "a", "1", "text", 'quote " back \\ bell \a', "bytes", b"\x00\xff\xc3\xa9", "empty", "")
        connection.call("RPUSH", "list", *[f"item {i}" for i in range(12)])
        connection.call("HSET", "hash", "field", "value", "other", "")
        connection.call("SADD", "set", "one")
        connection.call("ZADD", "board", "1.5", "x", "3", "y", "inf", "z")
        connection.call("XADD", "stream", "1-1", "f", "v", "g", "w")


COMMANDS = [
    ["GET", "a"],
    ["GET", "missing"],
    ["GET", "text"],
    ["GET", "bytes"],
    ["GET", "empty"],
    ["LRANGE", "list", "0", "-1"],
    ["LRANGE", "missing", "0", "-1"],
    ["HGETALL", "hash"],
    ["SMEMBERS", "set"],
    ["ZRANGE", "board", "0", "-1", "WITHSCORES"],
    ["XRANGE", "stream", "-", "+"],
    ["XINFO", "STREAM", "stream", "FULL"],
    ["LLEN", "a"],
    ["NOSUCHCOMMAND", "x"],
    ["GET"],
    ["PING"],
    ["EVAL", "return {1, {2, {3, 'x'}}, false}", "0"],
    ["COMMAND", "INFO", "get"],
    ["CONFIG", "GET", "maxmemory*"],
    ["DEBUG", "PROTOCOL", "attrib"],
    ["OBJECT", "HELP"],
]
FORMATS = [
    [],
    ["--no-raw"],
    ["--raw"],
    ["--csv"],
    ["--json"],
    ["--quoted-json"],
    ["-3"],
    ["-3", "--no-raw"],
    ["-3", "--csv"],
    ["--json", "-2"],
    ["--json", "--csv"],
    ["--raw", "--quoted-json"],
    ["--no-raw", "--raw"],
    ["-e"],
    ["-e", "--json"],
    ["-d", "|"],
    ["-D", "END"],
    ["-r", "2"],
    ["-n", "3"],
    ["-n", "99"],
]


def is_no_json(text):
    """redis-cli writes no valid JSON for errors, infinities, bytes that are not UTF-8, and escaped quotes."""
    try:
        json.loads(text.decode())
    except ValueError:
        return True
    return b"Infinity" in text


@pytest.mark.parametrize("options", FORMATS, ids=" ".join)
def test_replies(options, subject, cli, redis_cli):
    fill(subject)
    for command in COMMANDS:
        if command[:2] == ["DEBUG", "PROTOCOL"]:
            continue  # redis-cli cannot read attributes
        ours, theirs = cli(subject, *options, *command), redis_cli(subject, *options, *command)
        if "json" in str(options) and is_no_json(theirs.out):
            continue
        assert ours == theirs, (options, command)


LINES = b"""
SET k 'single quoted'
GET k
  get   "k"
3 INCR counter
LRANGE list 0 2
nosuch thing
GET "unbalanced
SET esc "tab\\there\\x41"
GET esc
MULTI
INCR counter
EXEC
SELECT 2
GET k
"""


@pytest.mark.parametrize("options", [[], ["--no-raw"], ["--csv"], ["-e"], ["-3", "--no-raw"]], ids=" ".join)
def test_lines_of_standard_input(options, start_server, cli, redis_cli):
    results = []
    for call in (cli, redis_cli):
        server = start_server()
        fill(server)
        results.append(call(server, *options, stdin=LINES))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "words, stdin",
    [
        (["-x", "SET", "k"], b"from\nstdin\x00"),
        (["-X", "tag", "SET", "k", "tag", "EX", "100"], b"tagged"),
        (["-X", "tag", "GET", "a"], b""),
        (["--quoted-input", "SET", '"k\\x00"', "'v'"], b""),
        (["--quoted-input", "GET", '"open'], b""),
        (["--quoted-input", "-x", "SET", "k"], b"plain"),
        (["--scan", "--pattern", "nothing*"], b""),
        (["--scan", "--quoted-pattern", '"\\x61"'], b""),
        (["--pipe"], b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING\r\n"),
        (["--pipe"], b"NOSUCH\r\nPING\r\n"),
        (["--pipe", "--pipe-timeout", "1"], b""),
        (["--show-pushes", "no", "PING"], b""),
        (["--eval", "/no/such/file"], b""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_other_ways_in(words, stdin, subject, cli, redis_cli):
    fill(subject)
    assert cli(subject, *words, stdin=stdin) == redis_cli(subject, *words, stdin=stdin)


def test_logging_in(start_server, cli, redis_cli):
    server = start_server(options={"requirepass": "secret"}, wait=False)
    server.wait_ready()
    uri = f"redis://default:secret@127.0.0.1:{server.port}/1"
    for words, env in [
        (["-a", "secret", "PING"], {}),
        (["-a", "wrong", "PING"], {}),
        (["-a", "secret", "--no-auth-warning", "PING"], {}),
        (["-a", "secret", "--user", "default", "PING"], {}),
        (["-a", "secret", "--user", "nobody", "PING"], {}),
        (["--pass", "secret", "PING"], {}),
        (["PING"], {"REDISCLI_AUTH": "secret"}),
        (["PING"], {}),
        (["-u", uri, "SET", "k", "v"], {}),
        (["-u", "foo://x", "PING"], {}),
    ]:
        assert cli(server, *words, env=env) == redis_cli(server, *words, env=env), words


def test_a_script_from_a_file(subject, cli, redis_cli, tmp_path):
    script = tmp_path / "script.lua"
    script.write_text("return {KEYS[1], KEYS[2], ARGV[1]}")
    words = ["--eval", str(script), "k1", "k2", ",", "argument"]
    assert cli(subject, *words) == redis_cli(subject, *words)


def test_no_server(subject, cli, redis_cli):
    kill(subject)
    for words in (["PING"], ["--bigkeys"], ["--stat"], ["--scan"], ["--pipe"]):
        assert cli(subject, *words) == redis_cli(subject, *words), words


def test_what_is_not_there_is_refused_by_name(subject, cli):
    for words in (["--cluster", "create"], ["--ldb", "--eval", "x"], ["--lru-test", "10"]):
        result = cli(subject, *words)
        assert result.code == 1 and words[0].encode() in result.err, result
    result = cli(subject, "--no-such-option")
    assert result.code == 1 and b"--no-such-option" in result.err


HABITS = [
    ["-p", "1", "-p", "PORT", "PING"],
    ["-n", "1", "-n", "0", "-p", "PORT", "--raw", "--raw", "PING"],
    ["--verbose", "-p", "PORT", "PING"],
]


@pytest.mark.parametrize("words", HABITS, ids=" ".join)
def test_habits_of_the_command_line(words, subject, cli, redis_cli):
    words = [str(subject.port) if word == "PORT" else word for word in words]
    ours, theirs = cli(subject, *words), redis_cli(subject, *words)
    assert ours == theirs


def test_help_in_one_shot(subject, cli, tool):
    result = cli(subject, "help", "set")
    assert result.code == 0 and b"SET key value" in result.out and b"group: string" in result.out, result
    assert b"\x1b" not in result.out
    assert b"HSET" in cli(subject, "help", "@hash").out
    assert b"The server says nothing about nosuch" in cli(subject, "HELP", "nosuch").out
    assert b"help COMMAND" in tool("cli", "-p", "1", "help").out
    result = tool("cli", "-p", "1", "help", "set")
    assert result.code == 1 and b"Could not connect" in result.err
    for words in (["-h"], ["-p", "1", "-h"]):
        result = tool("cli", *words)
        assert result.code == 0 and b"--latency-history" in result.out and result.err == b"", result


def test_help_in_lines(subject, cli):
    result = cli(subject, stdin=b"multi\nhelp get\nexec\n")
    assert result.code == 0 and b"GET key" in result.out, result


class ClosingServer(socketserver.StreamRequestHandler):
    """Answers PING and MULTI, and closes the connection without a reply at anything else; takes notes."""

    def handle(self):
        while head := self.rfile.readline():
            words = [self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
            if words[0] != b"COMMAND":
                self.server.seen.append(words)
            reply = {b"ping": b"+PONG\r\n", b"multi": b"+OK\r\n", b"COMMAND": b"-ERR\r\n"}.get(words[0])
            if reply is None:
                return
            self.wfile.write(reply)


@pytest.mark.parametrize("lines", [b"ping\nincr x\nping\n", b"ping\nincr x\n", b"multi\nincr x\nping\n"], ids=str)
def test_lines_go_on_after_a_lost_connection(lines, cli, redis_cli):
    results = []
    for call in (cli, redis_cli):
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), ClosingServer) as server:
            server.daemon_threads, server.seen = True, []
            threading.Thread(target=server.serve_forever, daemon=True).start()
            result = call(SimpleNamespace(port=server.server_address[1]), stdin=lines)
            server.shutdown()
        results.append((result, server.seen))
    assert results[0] == results[1]
    assert results[0][0].code == 0 and b"Server closed the connection" in results[0][0].err
