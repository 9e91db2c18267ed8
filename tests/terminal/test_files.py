"""`mantissa check`, completions for shells, man pages."""

import json
import os
import shutil
import subprocess

import pytest

from support.servers import subject_path


def test_a_dump_is_looked_through(subject, tool):
    with subject.connect() as connection:
        connection.call("MSET", "a", "1", "b", "2", "expiring", "x")
        connection.call("PEXPIREAT", "expiring", 4102444800000)
        connection.call("RPUSH", "big list", *["x" * 100] * 50)
        connection.call("SELECT", 2)
        connection.call("ZADD", "board", 1, "a")
        connection.call("SAVE")
    path = subject.directory / "dump.rdb"
    result = tool("check", "rdb", path, "--top", 2)
    assert result.code == 0, result
    text = result.out.decode()
    assert "database 0: 3 keys of type string" in text and "database 2: 1 keys of type zset" in text
    assert "5 keys, 1 with an expiry, 0 expired" in text and "whole, checksum verified" in text
    report = json.loads(tool("check", "rdb", path, "--top", 2, "--json").out)
    assert report["keys"] == 5 and report["damage"] is None and len(report["biggest"]) == 2
    assert report["biggest"][0]["key"] == "big list" and report["biggest"][0]["bytes"] > 5000


def test_damage_is_named_with_its_place(subject, tool):
    with subject.connect() as connection:
        connection.call("SET", "k", "v" * 100)
        connection.call("SAVE")
    path = subject.directory / "dump.rdb"
    path.write_bytes(path.read_bytes()[:-30])
    result = tool("check", "rdb", path)
    assert result.code == 1 and b"DAMAGED: " in result.out
    assert json.loads(tool("check", "rdb", path, "--json").out)["damage"]
    assert tool("check", "rdb", subject.directory / "none").code == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions(shell, tool):
    result = tool("completions", shell)
    assert result.code == 0 and b"bigkeys" in result.out and b"compare" in result.out
    assert b"truncate-to-timestamp" in result.out
    if shell == "bash" and shutil.which("bash"):
        script = result.out.decode() + "\nCOMP_WORDS=(mantissa cli --big); COMP_CWORD=2\n"
        script += "_mantissa mantissa --big cli; echo ${COMPREPLY[@]}\n"
        assert "--bigkeys" in subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout


def test_man_pages(tool, tmp_path):
    assert tool("manual", tmp_path).code == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert {"mantissa.1", "mantissa-cli.1", "mantissa-benchmark.1", "mantissa-import.1", "mantissa.conf.5"} <= names
    assert "bigkeys" in (tmp_path / "mantissa-cli.1").read_text()
    server, program = (tmp_path / "mantissa-server.1").read_text(), (tmp_path / "mantissa.1").read_text()
    assert ".SH SIGNALS" in server and "SIGHUP" in server and ".SH FILES" in server and ".SH EXIT STATUS" in server
    assert ".SH ENVIRONMENT" in program and "REDISCLI_AUTH" in program and ".SH EXIT STATUS" in program
    directives = (tmp_path / "mantissa.conf.5").read_text()
    assert "\\fBappendfsync everysec\\fR" in directives and "\\fBmaxmemory\\-policy noeviction\\fR" in directives
    if shutil.which("man"):
        for path in tmp_path.iterdir():
            shown = subprocess.run(["man", "--warnings", "-l", path], capture_output=True, text=True)
            assert shown.returncode == 0 and shown.stdout and not shown.stderr, (path, shown.stderr)


def printing(words, output, stdin=None):
    """The exit code and errors of a tool with an output that cannot be written to."""
    if output == "full":
        out = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, out = os.pipe()
        os.close(reader)
    words = [str(word) for word in (subject_path(), *words)]
    try:
        ended = subprocess.run(words, stdin=stdin or subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(out)
    return ended.returncode, ended.stderr.decode()


@pytest.mark.parametrize("output", ["closed", "full"])
def test_an_output_that_cannot_be_written_to_is_no_crash(output, subject, tool, tmp_path):
    with subject.connect() as connection:
        connection.call("SET", "k", "v")
    port, archive, requests = subject.port, tmp_path / "archive", tmp_path / "requests"
    requests.write_bytes(b"SET piped 1\r\n")
    (tmp_path / "data.jsonl").write_text('{"key":"imported","value":"v"}\n')
    (tmp_path / "file.aof").write_bytes(b"*1\r\n$4\r\nPING\r\n")
    assert tool("archive", "init", archive).code == 0
    assert tool("archive", "create", archive, "-p", port).code == 0
    for words in [
        ("archive", "create", archive, "-p", port),
        ("archive", "list", archive),
        ("archive", "show", archive, "latest"),
        ("archive", "verify", archive),
        ("archive", "repair", archive),
        ("archive", "prune", archive, "--keep-last", 1),
        ("archive", "init", tmp_path / "other"),
        ("check", "aof", tmp_path / "file.aof"),
        ("import", tmp_path / "data.jsonl", "-p", port),
        ("import", tmp_path / "file.aof", "-p", port, "--replace"),
        ("export", tmp_path / "out.rdb", "-p", port),
        ("export", "-", "--format", "csv", "-p", port),
        ("export", "-", "--format", "json", "-p", port),
        ("cli", "-p", port, "--pipe"),
        ("cli", "-p", port, "PING"),
    ]:
        with requests.open("rb") as stdin:
            code, errors = printing(words, output, stdin)
        assert code == 1 and "panicked" not in errors, (words, code, errors)
        expected = "" if output == "closed" else "standard output: No space left on device"
        assert (errors == "") if output == "closed" else (expected in errors), (words, errors)
    with subject.connect() as connection:
        assert connection.call("EXISTS", "imported", "piped") == 2
