"""What `mantissa cli` does besides commands: keys that stand out, statistics, latency, dumps."""

import json
import re
import subprocess

import pytest

from support.servers import subject_path
from support.waiting import eventually


def fill(server):
    with server.connect() as connection:
        connection.call("MSET", "a", "1", "bb", "22", "long", "x" * 50, "with space", "5")
        connection.call("RPUSH", "list", 1, 2, 3)
        connection.call("SADD", "set", "a", "b")
        connection.call("ZADD", "board", 1, "a", 2, "b", 3, "c", 4, "d")
        connection.call("HSET", "hash", "f", "v")
        connection.call("XADD", "stream", "1-1", "a", "b")


def sorted_lines(result):
    """redis-cli lists types in an order of its own, and what is found on the way depends on it."""
    return sorted(line for line in result.out.splitlines() if b"so far" not in line)


KEY_OPTIONS = [
    ["--bigkeys"],
    ["--memkeys"],
    ["--memkeys-samples", "0"],
    ["--memkeys", "--memkeys-samples", "0"],
    ["--bigkeys", "--pattern", "b*"],
]


@pytest.mark.parametrize("options", KEY_OPTIONS, ids=" ".join)
def test_big_keys(options, subject, cli, redis_cli):
    fill(subject)
    ours, theirs = cli(subject, *options), redis_cli(subject, *options)
    assert (ours.code, sorted_lines(ours)) == (theirs.code, sorted_lines(theirs))


def test_hot_keys(oracle, cli, redis_cli):
    with oracle.connect() as connection:
        connection.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
    fill(oracle)
    assert sorted_lines(cli(oracle, "--hotkeys")) == sorted_lines(redis_cli(oracle, "--hotkeys"))
    with oracle.connect() as connection:
        connection.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert cli(oracle, "--hotkeys") == redis_cli(oracle, "--hotkeys")


def test_hot_keys_that_the_server_knows(subject, cli):
    assert b"No key was used often enough" in cli(subject, "--hotkeys").out
    with subject.connect() as connection:
        for _ in range(20):
            connection.pipeline([("GET", "hot key")] * 1000)
    result = cli(subject, "--hotkeys")
    line = rb'hot key found with \d+ accesses/s\tdatabase: 0\tkeyname: "hot key"\n'
    assert result.code == 0 and re.search(line, result.out), result


def test_key_statistics(subject, cli):
    fill(subject)
    for options in (["--keystats"], ["--keystats-samples", "0", "--top", "2"]):
        text = cli(subject, *options).out.decode()
        assert "--- 9 keys ---" in text and re.search(r"^string +4 ", text, re.M), text
        biggest = text.split("biggest keys ---\n\n")[1].split("\n\n")[0].splitlines()
        assert len(biggest) == (2 if "--top" in options else 9) and '"stream"' in biggest[0], text
        assert "100 % of the keys take at most" in text and "(9 keys)" in text
    with subject.connect() as connection:
        connection.call("SET", "large", "x" * 3_000_000)
    assert re.search("100 % of the keys take at most +3.00M", cli(subject, "--keystats").out.decode())


def test_all_keys_are_listed(subject, cli):
    with subject.connect() as connection:
        connection.pipeline([("SET", f"key {i}", i) for i in range(5000)])
    result = cli(subject, "--scan", "--pattern", "key *", "--count", "100")
    assert sorted(result.out.split(b"\n")[:-1]) == sorted(b"key %d" % i for i in range(5000))


def test_statistics_as_lines(subject, cli):
    fill(subject)
    lines = cli(subject, "--stat", "-r", "3", "-i", "0.01").out.decode().splitlines()
    assert lines[1].split() == ["keys", "mem", "clients", "blocked", "requests", "connections"]
    rows = [line.split() for line in lines[2:]]
    assert len(rows) == 3 and all(row[0] == "9" and re.fullmatch(r"\d+\.\d\d[KMG]", row[1]) for row in rows)
    assert all(re.fullmatch(r"\(\+\d+\)", row[5]) for row in rows)


def test_latency_in_a_pipe(subject, cli):
    assert re.fullmatch(rb"\d+ \d+ \d+\.\d\d \d+\n", cli(subject, "--latency", "-i", "0.05").out)
    assert re.fullmatch(rb"\d+,\d+,\d+\.\d\d,\d+\n", cli(subject, "--latency", "--csv", "-i", "0.05").out)
    figures = json.loads(cli(subject, "--latency", "--json", "-i", "0.05").out)
    assert set(figures) == {"min", "max", "avg", "count"}
    history = cli(subject, "--latency-history", "-i", "0.05", "-r", "2").out.splitlines()
    assert len(history) == 2 and all(b"seconds range" in line for line in history)
    spectrum = cli(subject, "--latency-dist", "-i", "0.05", "-r", "1").out
    assert b"From 0 to 100%" in spectrum and spectrum.endswith(b"?\x1b[0m\n")


def test_latency_of_the_machine(subject, cli):
    assert b"total runs (avg latency" in cli(subject, "--intrinsic-latency", "1").out


def test_a_dump_of_redis_is_saved(oracle, start_server, cli, tmp_path):
    with oracle.connect() as connection:
        connection.call("CONFIG", "SET", "repl-diskless-sync-delay", "0")
        connection.call("SET", "k", "v")
    path = tmp_path / "saved.rdb"
    result = cli(oracle, "--rdb", path)
    assert result.code == 0 and result.err.endswith(b"bytes\n"), result
    assert cli(oracle, "--rdb", "-").out[:5] == b"REDIS"
    path.rename(tmp_path / "dump.rdb")
    with start_server("oracle", directory=tmp_path).connect() as connection:
        assert connection.call("GET", "k") == b"v"


@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_the_commands_for_replicas(diskless, start_server):
    server = start_server(options={"repl-diskless-sync": diskless, "repl-diskless-sync-delay": 0})
    command = [subject_path(), "cli", "-p", str(server.port), "--replica"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with server.connect() as connection, subprocess.Popen(command, **pipes) as shown:
        eventually(lambda: b"state=online" in connection.call("INFO", "replication"), "no replica")
        connection.call("SET", "key", "a b")
        connection.call("SELECT", 3)
        connection.call("MSET", "a", "1", "b", "2")
        lines = []
        while b'"MSET"' not in b"".join(lines[-1:]):
            lines.append(shown.stdout.readline())
            assert lines[-1], shown.stderr.read()
        connection.call("CLIENT", "KILL", "TYPE", "replica")
        assert shown.wait() == 1 and b"Server closed the connection" in shown.stderr.read()
    lines = [line.rstrip() for line in lines if line not in (b'"PING"\n', b'"SELECT","0"\n')]
    assert lines == [b'"SET","key","a b"', b'"SELECT","3"', b'"MSET","a","1","b","2"']


def test_a_dump_is_saved(subject, start_server, cli, tmp_path):
    with subject.connect() as connection:
        connection.call("SET", "k", "v")
        connection.call("SELECT", 3)
        connection.call("RPUSH", "l", "a", "b")
        code = "#!lua name=lib\nredis.register_function('f', function() return 7 end)"
        connection.call("FUNCTION", "LOAD", code)
    path = tmp_path / "dump.rdb"
    result = cli(subject, "--rdb", path)
    assert result.code == 0 and b"Transfer finished with success" in result.err, result
    assert cli(subject, "--rdb", "-").out[:5] == b"REDIS"
    with start_server("oracle", directory=tmp_path).connect() as connection:
        assert connection.call("GET", "k") == b"v" and connection.call("FCALL", "f", 0) == 7
        connection.call("SELECT", 3)
        assert connection.call("LRANGE", "l", 0, -1) == [b"a", b"b"]


def test_the_dashboard(subject, terminal):
    fill(subject)
    with subject.connect() as connection:
        connection.pipeline([("PING",)] * 50000)
    screen = terminal("cli", "-p", str(subject.port), "--stat", "-i", "0.3")
    # Blanks are not drawn where nothing was before.
    assert re.search(r"\D0\s*$", screen.wait_for("ops/s,"))
    screen.type("q")
    assert screen.wait_end() == 0
    screen = terminal("cli", "-p", str(subject.port), "--stat", "-i", "0.05")
    for wanted in ("9 keys", "ops/s", "memory", "latency", "network"):
        screen.wait_for(wanted)
    screen.type("q")
    assert screen.wait_end() == 0


def test_the_live_histogram(subject, terminal):
    screen = terminal("cli", "-p", str(subject.port), "--latency")
    screen.wait_for("p99.9")
    screen.wait_for("milliseconds")
    screen.type("q")
    screen.wait_for("samples) (")
    assert screen.wait_end() == 0
