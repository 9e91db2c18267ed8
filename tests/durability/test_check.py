"""`mantissa check aof`: what it finds and repairs, compared with redis-check-aof."""

import os
import pathlib
import re
import subprocess

import pytest

from support.servers import oracle_path, subject_path
from support.terminal import Terminal, run
from support.waiting import until_written

MANIFEST = "file base seq 1 type b\nfile i1 seq 1 type i\nfile i2 seq 2 type i\n"


def command(*words):
    out = b"*%d\r\n" % len(words)
    for word in words:
        word = word.encode() if isinstance(word, str) else word
        out += b"$%d\r\n%s\r\n" % (len(word), word)
    return out


def timestamp(seconds):
    return b"#TS:%d\r\n" % seconds


GOOD = command("SELECT", "0") + command("SET", "a", "1")
FULL = (
    timestamp(100)
    + command("SELECT", "3")
    + command("SET", "b", "1")
    + timestamp(200)
    + command("MULTI")
    + command("RPUSH", "list", "1", "2")
    + command("EXEC")
    + timestamp(300)
    + command("DEL", "b", "c")
)
TORN_TRANSACTION = GOOD + command("MULTI") + command("SET", "c", "1")


def check(*words, stdin=b""):
    return run([subject_path(), "check", "aof", *words], stdin=stdin)


def redis_check(*words, stdin=b""):
    """redis-check-aof is redis-server under another name."""
    completed = subprocess.run(
        ["redis-check-aof", *map(str, words)], executable=oracle_path(), input=stdin, capture_output=True
    )
    return completed.returncode


def write_files(directory, base=GOOD, i1=FULL, i2=FULL, manifest=MANIFEST):
    directory.mkdir()
    for name, contents in {"base": base, "i1": i1, "i2": i2, "log.manifest": manifest.encode()}.items():
        if contents is not None:
            (directory / name).write_bytes(contents)
    return directory / "log.manifest"


def contents(directory):
    """The files, but for the copies that are kept."""
    names = (path for path in directory.iterdir() if "before-fix" not in path.name)
    return {path.name: path.read_bytes() for path in names}


CASES = {
    "whole": {},
    "empty increments": {"i1": b"", "i2": b""},
    "torn command": {"i2": FULL[:-3]},
    "torn length": {"i2": FULL + b"*3\r\n$3"},
    "torn transaction": {"i2": TORN_TRANSACTION},
    "only a transaction": {"i2": command("MULTI")},
    "damage": {"i2": GOOD + b"xx" + GOOD},
    "zeros at the end": {"i2": GOOD + bytes(5000)},
    "an EXEC too many": {"i2": GOOD + command("EXEC") + GOOD},
    "a MULTI in a MULTI": {"i2": GOOD + command("MULTI") + command("MULTI") + GOOD},
    "torn, not the last": {"i1": FULL[:-3]},
    "torn base": {"base": GOOD[:-3]},
    "no increment": {"i2": None},
    "no base": {"base": None},
    "damaged dump": {"base": b"REDIS0012garbage"},
    "bad manifest": {"manifest": "file i1 seq 1 type i\nfile i2 seq 1 type i\n"},
    "no files named": {"manifest": "file i1 seq 1 type h\n"},
}


@pytest.mark.parametrize("flags", [[], ["--fix"]])
@pytest.mark.parametrize("name", CASES)
def test_verdict_and_repair_are_those_of_redis(name, flags, tmp_path):
    ours = write_files(tmp_path / "ours", **CASES[name])
    theirs = write_files(tmp_path / "theirs", **CASES[name])
    result = check(*flags, ours, stdin=b"y\n")
    assert result.code == redis_check(*flags, theirs, stdin=b"y\n"), result
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs"), result
    if result.code == 0:
        assert result.out.endswith(b"All AOF files and manifest are valid\n")
        assert check(ours).code == redis_check(theirs) == 0


@pytest.mark.parametrize("seconds", [50, 99, 100, 150, 200, 250, 300, 1000, "x", -1])
@pytest.mark.parametrize("files", [{"i1": GOOD}, {}, {"i2": timestamp(400) + GOOD}])
def test_cutting_at_a_time_is_as_in_redis(seconds, files, tmp_path):
    ours = write_files(tmp_path / "ours", **files)
    theirs = write_files(tmp_path / "theirs", **files)
    result = check("--truncate-to-timestamp", seconds, ours)
    expected = redis_check("--truncate-to-timestamp", str(seconds), theirs)
    assert (result.code != 0) == (expected != 0), result
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs"), result


@pytest.mark.parametrize("length", range(0, len(FULL), 7))
def test_old_files_are_cut_where_redis_cuts_them(length, tmp_path):
    ours, theirs = tmp_path / "ours.aof", tmp_path / "theirs.aof"
    for path in (ours, theirs):
        path.write_bytes(FULL[:length])
    result = check("--fix", "--yes", ours)
    assert result.code == redis_check("--fix", theirs, stdin=b"y\n") == 0, result
    # redis-check-aof takes a line that begins with # for whole without its end.
    torn_line = theirs.read_bytes().rpartition(b"\n")[2]
    assert ours.read_bytes() + (torn_line if torn_line.startswith(b"#") else b"") == theirs.read_bytes()


def test_nothing_is_cut_without_an_answer_and_a_copy(tmp_path):
    manifest = write_files(tmp_path / "aof", i2=TORN_TRANSACTION)
    for answer in (b"", b"n\n", b"\n"):
        result = check("--fix", manifest, stdin=answer)
        assert result.code == 1 and result.out.count(b"Aborting...") == 1
        assert (tmp_path / "aof" / "i2").read_bytes() == TORN_TRANSACTION
    for number in (1, 2):
        assert check("--fix", "--yes", tmp_path / "aof").code == 0
        assert (tmp_path / "aof" / "i2").read_bytes() == GOOD
        copy = tmp_path / "aof" / f"i2.before-fix-{number}"
        assert copy.read_bytes() == TORN_TRANSACTION
        (tmp_path / "aof" / "i2").write_bytes(TORN_TRANSACTION)


def test_nothing_is_cut_where_no_copy_can_be_made(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("the superuser may write anywhere")
    manifest = write_files(tmp_path / "aof", i2=TORN_TRANSACTION)
    (tmp_path / "aof").chmod(0o555)
    result = check("--fix", "--yes", manifest)
    (tmp_path / "aof").chmod(0o755)
    assert result.code == 1 and b"Failed to copy" in result.err
    assert (tmp_path / "aof" / "i2").read_bytes() == TORN_TRANSACTION


def test_the_place_of_damage_and_a_summary_are_shown(tmp_path):
    write_files(tmp_path / "aof", i2=GOOD + b"*2\r\n$900\r\nGET\r\n" + FULL)
    result = check(tmp_path / "aof")
    text = result.out.decode()
    assert result.code == 1
    assert f"AOF i2: an argument of 900 bytes ends past the end of the file at byte {len(GOOD) + 4}\n" in text
    assert f"ok_up_to={len(GOOD)}, " in text and "Use the --fix option to try fixing it." in text
    assert "commands, database 0: they name 1 key\n" in text and "commands, database 0: 2 on type string" in text
    assert "commands, database 3: they name 3 keys\n" in text and "commands, database 3: 1 on type any" in text
    assert "transactions: 1\n" in text and "timestamps: 100 to 300\n" in text


def test_what_cannot_be_cut_is_explained(tmp_path):
    manifest = write_files(tmp_path / "aof", i1=TORN_TRANSACTION)
    result = check("--fix", "--yes", manifest)
    assert result.code == 1 and b"because it is not the last file" in result.out
    assert b"remove their lines from the manifest" in result.out
    manifest.write_text("".join(MANIFEST.splitlines(keepends=True)[:2]))
    assert check("--fix", "--yes", manifest).code == 0


def test_files_of_redis_are_whole(start_server, tmp_path):
    options = {"appendonly": "yes", "aof-timestamp-enabled": "yes", "auto-aof-rewrite-percentage": "0"}
    oracle = start_server("oracle", options=options)
    with oracle.connect() as connection:
        connection.call("SET", "a", "x" * 5000)
        connection.call("RPUSH", "list", *"abcdef")
        connection.call("SELECT", 4)
        connection.call("ZADD", "board", 1, "a", 2, "b")
        connection.call("BGREWRITEAOF")
        until_written(connection)
        connection.call("EVAL", "redis.call('SET', 'x', 1) redis.call('HSET', 'hash', 'f', 1)", 0)
        connection.call("FLUSHDB")
    oracle.terminate()
    result = check(oracle.directory)
    text = result.out.decode()
    assert result.code == 0, result
    assert "Start to check BASE AOF (RDB format)." in text
    assert "base, database 0: 1 keys of type string" in text
    assert "base, database 4: 1 keys of type zset" in text
    assert "commands, database 4: 1 on type hash" in text and "transactions: 1" in text
    base = next((oracle.directory / "appendonlydir").glob("*.base.rdb"))
    data = bytearray(base.read_bytes())
    data[len(data) // 2] ^= 1
    base.write_bytes(data)
    result = check("--fix", "--yes", oracle.directory)
    assert result.code == 1 and b"cannot be repaired by cutting" in result.out


def test_a_directory_needs_one_manifest(tmp_path):
    (tmp_path / "empty").mkdir()
    result = check(tmp_path / "empty")
    assert result.code == 1 and b"there is no manifest in this directory" in result.err
    write_files(tmp_path / "two")
    (tmp_path / "two" / "b.manifest").write_text(MANIFEST)
    (tmp_path / "two" / "temp-b.manifest").write_text(MANIFEST)
    assert b"there are several manifests" in check(tmp_path / "two").err
    assert check(tmp_path / "none").code == 1


def test_it_answers_to_the_names_of_redis_tools(tmp_path):
    manifest = write_files(tmp_path / "aof", i2=TORN_TRANSACTION)
    for name in ("redis-check-aof", "redis-check-rdb"):
        (tmp_path / name).symlink_to(pathlib.Path(subject_path()).resolve())
    tool = tmp_path / "redis-check-aof"
    assert run([tool, manifest]).code == 1
    assert run([tool, "--fix", manifest], stdin=b"y\n").code == 0
    assert run([tool]).code == 1
    (tmp_path / "bad.rdb").write_bytes(b"REDIS0012")
    assert run([tmp_path / "redis-check-rdb", tmp_path / "bad.rdb"]).code == 1


def test_long_files_show_their_progress(tmp_path):
    big = command("SET", "key", b"x" * 8_000_000)
    (tmp_path / "big.aof").write_bytes(big * 5)
    terminal = Terminal([str(subject_path()), "check", "aof", str(tmp_path / "big.aof")], {})
    shown = terminal.wait_for("is valid", raw=True)
    assert re.search(r"[\d.]+ (MiB|B)/38\.15 MiB", shown), shown
    assert terminal.wait_end() == 0
    assert b"MiB/" not in check(tmp_path / "big.aof").err
