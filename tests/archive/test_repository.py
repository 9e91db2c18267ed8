"""The archive as a folder: kills, damage, retention, encryption, two writers, and what is said of it all."""

import json
import re
import signal
import subprocess

import pytest

from support.seeds import generator
from support.servers import subject_path
from support.terminal import run

from .test_snapshots import digest, numbered, store

KILLS = 12


def large_values(server, random, count):
    """In place of all data, values that no compression makes smaller: 1 MB each."""
    name = random.random()
    with server.connect() as connection:
        connection.call("FLUSHALL")
        for number in range(count):
            connection.call("SET", f"{name}:{number}", random.randbytes(1_000_000))


def saved(server):
    with server.connect() as connection:
        connection.call("SAVE")
    return server.directory / "dump.rdb"


def objects(path):
    """How many files the archive has, finished or not."""
    return sum(1 for folder in ("unfinished", "packs", "indexes", "snapshots") for _ in path.glob(f"{folder}/*"))


def kill_when(process, happened):
    """End a process at once as soon as something has happened; whether it was still there."""
    while process.poll() is None and not happened():
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_a_kill_at_any_moment_loses_nothing(subject, archive, digest_of, tmp_path):
    random = generator("archive kill")
    store(subject, numbered(random, range(2000)))
    first = archive.create(subject)
    killed = 0
    for round_ in range(KILLS):
        large_values(subject, random, 20)
        file = saved(subject)
        words = [str(subject_path()), "archive", "create", str(archive.path), str(file)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        # From the first temporary file up to the manifest: two packs of 16 MB, their indexes, the manifest.
        there, wanted = objects(archive.path), 1 + round_ % 6
        killed += kill_when(process, lambda: objects(archive.path) >= there + wanted)
        known = [one["snapshot"] for one in archive.snapshots()]
        assert known[0] == first["snapshot"] and len(known) <= 2 + round_
        archive.do("verify", first["snapshot"])
        if round_ % 4 == 3:
            archive.do("prune", "--keep-last", 1 + len(known))
            assert not list(archive.path.glob("unfinished/*"))
    assert killed >= KILLS // 2
    last = archive.create(subject)
    archive.do("verify")
    archive.do("restore", first["snapshot"], tmp_path / "first.rdb")
    archive.do("restore", last["snapshot"], tmp_path / "last.rdb")
    assert digest_of(tmp_path / "first.rdb") == first["digest"]
    assert digest_of(tmp_path / "last.rdb", "oracle") == last["digest"] == digest(subject)


def test_a_killed_prune_loses_nothing_that_stays(subject, archive):
    random = generator("archive prune kill")
    for _ in range(6):
        large_values(subject, random, 3)
        archive.create(saved(subject))
    last = archive.snapshots()[-1]["snapshot"]
    words = [str(subject_path()), "archive", "prune", str(archive.path), "--keep-last", "1"]
    for _ in range(3):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        there = objects(archive.path)
        kill_when(process, lambda: objects(archive.path) < there)
        assert archive.snapshots()[-1]["snapshot"] == last
        archive.do("verify", last)
    archive.do("prune", "--keep-last", 1)
    assert [one["snapshot"] for one in archive.snapshots()] == [last]
    assert len(list(archive.path.glob("packs/*"))) == len(list(archive.path.glob("indexes/*"))) == 1
    archive.do("verify")


def test_damage_anywhere_is_found(subject, archive, tmp_path):
    random = generator("archive damage")
    store(subject, numbered(random, range(1500)))
    with subject.connect() as connection:
        connection.call("SET", "large", random.randbytes(500_000))
    archive.create(subject)
    out = tmp_path / "out.rdb"
    for path in archive.files():
        content = path.read_bytes()
        for number in range(12):
            broken = bytearray(content)
            at = random.randrange(len(broken))
            if number % 3 == 0:
                del broken[at:]
            elif number % 3 == 1:
                broken[at] ^= 1 << random.randrange(8)
            else:
                broken[at : at + 20] = random.randbytes(20)
            path.write_bytes(broken)
            result = archive.call("verify")
            # A word of the file `config` that nobody reads may be another.
            assert result.code == 1 or path.name == "config", (path, at, result)
            assert result.code == 0 or result.err, result
            if number < 3 and result.code == 1:
                assert archive.call("restore", "latest", out).code == 1 and not out.exists()
            archive.call("list")
            archive.call("show")
        path.write_bytes(content)
    archive.do("verify")


def test_a_pack_that_is_gone_is_found(subject, archive):
    store(subject, numbered(generator("gone"), range(100)))
    archive.create(subject)
    [pack] = archive.path.glob("packs/*")
    content = pack.read_bytes()
    pack.unlink()
    result = archive.call("verify")
    assert result.code == 1 and pack.name.encode() in result.err
    # The data are stored again, for that snapshot and for the next one.
    archive.create(subject)
    assert pack.read_bytes() == content
    archive.do("verify")


def test_a_damaged_dump_makes_no_snapshot(subject, archive, tmp_path):
    store(subject, numbered(generator("broken dump"), range(500)))
    content = saved(subject).read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 4
    for name, broken in {"short": content[:-20], "none": b"", "text": b"hello", "flip": flipped}.items():
        file = tmp_path / f"{name}.rdb"
        file.write_bytes(broken)
        result = archive.call("create", file)
        assert result.code == 1 and str(file).encode() in result.err, result
    assert archive.call("create", tmp_path / "absent.rdb").code == 1
    assert archive.snapshots() == []


def test_old_snapshots_go_and_their_packs(subject, archive, digest_of, tmp_path):
    random = generator("archive retention")
    made = []
    for _ in range(4):
        large_values(subject, random, 2)
        made.append(archive.create(subject))
    names = [one["snapshot"] for one in made]
    assert names == sorted(names)
    said = archive.do("prune", "--keep-last", 2, "--dry-run")
    assert f"would remove {names[0]}\nwould remove {names[1]}\n" in said and len(archive.snapshots()) == 4
    size = sum(path.stat().st_size for path in archive.files())
    said = archive.do("prune", "--keep-last", 2)
    assert "removed 2 snapshots and 2 packs, which frees 4.0" in said and "2 snapshots stay" in said
    assert [one["snapshot"] for one in archive.snapshots()] == names[2:]
    assert sum(path.stat().st_size for path in archive.files()) < 0.6 * size
    # All of them were made within a day or two.
    archive.do("prune", "--keep-daily", 7, "--keep-weekly", 4, "--keep-monthly", 12)
    assert archive.snapshots()[-1]["snapshot"] == names[-1] and len(archive.snapshots()) <= 2
    archive.do("restore", "latest", tmp_path / "out.rdb")
    assert digest_of(tmp_path / "out.rdb") == digest(subject)
    before = archive.files()
    archive.do("prune")
    assert archive.files() == before


def test_packs_of_which_little_is_needed_are_rewritten(subject, archive):
    with subject.connect() as connection:
        large_values(subject, generator("archive sparse"), 10)
        archive.create(saved(subject))
        connection.call("DEL", *connection.call("KEYS", "*:[2-9]"))
    last = archive.create(saved(subject))
    assert last["new_bytes"] < 100
    said = archive.do("prune", "--keep-last", 1)
    assert "what was needed of 1 packs was written to others" in said, said
    assert sum(path.stat().st_size for path in archive.files()) < 2_200_000
    [left] = archive.snapshots()
    assert left | {"snapshot": ""} == last | {"snapshot": ""}
    archive.do("verify")
    assert archive.create(subject)["new_bytes"] == 0


def test_keys_keep_out_who_lacks_them(subject, archive, tmp_path, digest_of):
    secret, write_only = tmp_path / "secret.key", tmp_path / "write.key"
    archive.path = tmp_path / "encrypted"
    archive.do("init", "--new-key-file", secret, "--new-write-key-file", write_only)
    assert secret.stat().st_mode & 0o777 == 0o600
    text = b"plain text that must not be seen " * 40
    with subject.connect() as connection:
        connection.call("SET", "the name of a key", text)
    result = archive.call("create", "-p", subject.port)
    assert result.code == 1 and b"--key-file" in result.err
    archive.keys = (write_only,)
    first = archive.create(subject)
    assert archive.create(subject)["new_bytes"] == 0
    for path in archive.files():
        content = path.read_bytes()
        assert b"plain text" not in content and b"name of a key" not in content
    assert json.loads(archive.do("show", "--json"))["digest"] == first["digest"]
    for command in (["verify"], ["restore", "latest", tmp_path / "no.rdb"], ["export", "latest", tmp_path / "no.rdb"]):
        result = archive.call(*command)
        assert result.code == 1 and b"read key" in result.err, result
    archive.keys = (secret,)
    archive.do("verify")
    archive.do("export", "latest", tmp_path / "out.rdb")
    assert digest_of(tmp_path / "out.rdb") == digest(subject)
    other = tmp_path / "other.key"
    run([subject_path(), "archive", "init", tmp_path / "second", "--new-key-file", other])
    archive.keys = (other,)
    assert b"another archive" in archive.call("list").err
    other.write_text("mantissa-archive-key 1\nwrite 12\n")
    assert archive.call("list").code == 1
    # A key file is never written over.
    assert run([subject_path(), "archive", "init", tmp_path / "third", "--new-key-file", secret]).code == 1
    assert not (tmp_path / "third").exists()


def test_one_writes_at_a_time(subject, archive):
    words = [str(subject_path()), "archive", "create", str(archive.path), "-"]
    waiting = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        while not (archive.path / "lock").exists():
            assert waiting.poll() is None
        result = archive.call("create", "-p", subject.port)
        while result.code == 0:
            result = archive.call("prune")
        assert b"another process is writing" in result.err
        assert b"another process is writing" in archive.call("repair").err
        archive.do("list")
    finally:
        waiting.kill()
        waiting.communicate()
    archive.create(subject)


def test_what_is_said(subject, archive, tmp_path):
    store(subject, numbered(generator("said"), range(10)))
    assert archive.do("list") == ""
    assert archive.call("show").err == b"the archive has no snapshot\n"
    said = archive.do("create", "-p", subject.port, "--tag", "before the upgrade")
    assert re.fullmatch(r"\d{8}T\d{9}Z-[0-9a-f]{16}: 10 keys, .* kB, of which .* are new and take .*\n", said), said
    [snapshot] = archive.snapshots()
    name = snapshot["snapshot"]
    [_, line] = archive.do("list").splitlines()
    assert line.startswith(f"{name} ") and line.endswith("before the upgrade")
    for short in (name, name[:20], name[-16:], name[-16:-10], "latest"):
        page = archive.do("show", short)
        assert name in page and "10 keys, 0 expire" in page and snapshot["digest"] in page
    assert archive.call("show", "zzz").err == b"there is no snapshot 'zzz'\n"
    archive.create(subject)
    assert b"several snapshots" in archive.call("show", "2").err
    assert archive.call("init").err == b"there is an archive already\n"
    assert archive.call("restore", "latest", tmp_path / "no" / "such.rdb").code == 1
    nowhere = run([subject_path(), "archive", "list", tmp_path / "nowhere"])
    assert nowhere.code == 1 and b"mantissa archive init" in nowhere.err
    assert not (tmp_path / "nowhere").exists()


COMMANDS = ["init", "create", "list", "show", "restore", "verify", "repair", "prune", "export"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command):
    result = run([subject_path(), "archive", command, "--help"])
    assert result.code == 0 and result.out.startswith(b"") and b"ARCHIVE" in result.out


def test_progress_on_a_terminal(subject, archive, terminal):
    large_values(subject, generator("progress"), 30)
    one = terminal("archive", "create", archive.path, saved(subject))
    one.wait_for("reading")
    one.wait_for("are new")
    assert one.wait_end() == 0
