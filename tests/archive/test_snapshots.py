"""Snapshots of everything that a server can hold, back into servers, and how much room they take."""

import os
import signal
import socket
import subprocess

import pytest

from support import modules
from support.filling import fill
from support.seeds import generator
from support.servers import subject_path
from support.terminal import run
from support.waiting import eventually

COUNT = 20_000
BATCH = 1000
LIBRARY = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"


def digest(server):
    with server.connect() as connection:
        return connection.call("DEBUG", "DIGEST").decode()


def store(server, texts):
    """Sets many strings."""
    with server.connect() as connection:
        texts = list(texts)
        for at in range(0, len(texts), BATCH):
            connection.pipeline([("SET", key, value) for key, value in texts[at : at + BATCH]])


def numbered(random, numbers):
    return [(f"key:{number:06}", random.randbytes(90)) for number in numbers]


@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_everything_comes_back(kind, start_server, archive, digest_of, tmp_path):
    server = start_server(kind)
    with server.connect() as connection:
        fill(connection)
        connection.call("FUNCTION", "LOAD", LIBRARY)
        connection.call("SAVE")
    before = digest(server)
    live = archive.create(server, "--tag", "live")
    dumped = archive.create(server.directory / "dump.rdb", "--source", "north")
    assert live["digest"] == dumped["digest"] == before
    assert live["functions"] == 1 and live["tag"] == "live"
    # As the server's own snapshots: another machine has a server at 127.0.0.1 and this port, too.
    assert live["source"] == f"{socket.gethostname()}:{server.port}"
    assert dumped["source"] == "north"
    assert [one["database"] for one in live["databases"]] == [0, 3]
    # Whatever order the source has them in, the chunks are the same.
    assert dumped["new_bytes"] == 0 < live["new_bytes"]
    for command in ("restore", "export"):
        file = tmp_path / f"{command}.rdb"
        archive.do(command, "latest", file)
        assert digest_of(file) == digest_of(file, "oracle") == before
    assert archive.do("verify").count("are right") == 2


def test_types_of_modules_come_back(start_server, archive, digest_of, tmp_path):
    modules.need_modules()
    server = modules.start(start_server, "subject")
    with server.connect() as connection:
        connection.call("JSON.SET", "json", "$", '{"a":[1,2.5,"text"]}')
        connection.call("BF.ADD", "bloom", "x")
        connection.call("CMS.INITBYDIM", "cms", 100, 5)
        connection.call("TOPK.RESERVE", "topk", 3)
        connection.call("TDIGEST.CREATE", "tdigest")
        connection.call("TS.ADD", "series", 1000, 1.5)
        connection.call("VADD", "vectors", "VALUES", 3, 1, 2, 3, "x")
    before = digest(server)
    assert archive.create(server)["digest"] == before
    archive.do("export", "latest", tmp_path / "export.rdb")
    assert digest_of(tmp_path / "export.rdb") == before
    archive.do("verify")


def test_a_change_takes_room_for_itself_only(subject, archive):
    random = generator("archive room")
    store(subject, numbered(random, range(COUNT)))
    first = archive.create(subject)
    assert first["new_bytes"] == first["bytes"]
    again = archive.create(subject)
    assert again["new_bytes"] == again["stored_bytes"] == 0
    changed = COUNT // 100
    store(subject, numbered(random, range(7 * changed, 8 * changed)))
    prefix = archive.create(subject)
    assert 0 < prefix["new_bytes"] < 0.02 * prefix["bytes"], prefix
    store(subject, numbered(random, random.sample(range(COUNT), changed)))
    scattered = archive.create(subject)
    assert 0 < scattered["new_bytes"] < 0.15 * scattered["bytes"], scattered
    with subject.connect() as connection:
        connection.call("DEL", "key:000123", "key:015000")
    # A chunk or two for each; how long they are depends on the identity of the archive, which is random.
    assert archive.create(subject)["new_bytes"] < 0.005 * prefix["bytes"]


def test_a_change_of_a_large_value_takes_little(subject, archive, digest_of, tmp_path):
    random = generator("archive large")
    with subject.connect() as connection:
        text = random.randbytes(4_000_000)
        connection.call("SET", "text", text)
        connection.call("RPUSH", "list", *[random.randbytes(500) for _ in range(4000)])
        first = archive.create(subject)
        connection.call("SET", "text", text[:1_500_000] + b"inserted" + text[1_500_000:])
        connection.call("LPOP", "list")
    second = archive.create(subject)
    assert second["new_bytes"] < 0.05 * first["bytes"], second
    archive.do("restore", "latest", tmp_path / "large.rdb")
    assert digest_of(tmp_path / "large.rdb", "oracle") == digest(subject)


def test_keys_and_prefixes_into_a_file(subject, archive, start_server, tmp_path):
    random = generator("archive part")
    store(subject, numbered(random, range(3000)))
    with subject.connect() as connection:
        connection.call("FUNCTION", "LOAD", LIBRARY)
        connection.call("SET", "key:0015large", random.randbytes(300_000), "PXAT", 4102444800123)
        connection.call("SELECT", 5)
        connection.call("MSET", "key:001500", "five", "other", "5")
    archive.create(subject)
    words = ["--only-prefix", "key:0015", "--only-key", "key:000007", "--only-key", "key:001501", "--only-key", "no"]
    file = tmp_path / "dump.rdb"
    assert archive.do("restore", "latest", file, *words).startswith("wrote 103 keys")
    server = start_server("oracle", directory=tmp_path)
    with subject.connect() as source, server.connect() as target:
        assert target.call("DBSIZE") == 102 and target.call("FUNCTION", "LIST") == []
        for key in ("key:000007", "key:001500", "key:001599", "key:0015large"):
            assert target.call("DUMP", key) == source.call("DUMP", key)
        assert target.call("PEXPIRETIME", "key:0015large") == 4102444800123
        target.call("SELECT", 5)
        assert target.call("KEYS", "*") == [b"key:001500"]
    assert archive.do("restore", "latest", file, "-n", 5).startswith("wrote 2 keys")
    assert archive.do("restore", "latest", file, "-n", 5, "--only-key", "other").startswith("wrote 1 keys")
    assert archive.do("restore", "latest", file, "--only-prefix", "zzz").startswith("wrote 0 keys")


def test_a_running_server_gets_keys_back(subject, archive, start_server):
    random = generator("archive live")
    store(subject, numbered(random, range(2000)))
    with subject.connect() as connection:
        connection.call("FUNCTION", "LOAD", LIBRARY)
        archive.create(subject)
        before = digest(subject)
        connection.call("DEL", "key:000001", "key:000002")
        connection.call("MSET", "key:000010", "changed", "new", "key")
    port = ["-p", subject.port]
    result = archive.call("restore", "latest", *port, "--only-prefix", "key:00000", "--only-key", "key:000010")
    assert result.code == 1, result
    assert b"restored 2 keys" in result.out and b"9 were there already" in result.out
    assert "restored 1 keys" in archive.do("restore", "latest", *port, "--only-key", "key:000010", "--replace")
    with subject.connect() as connection:
        assert connection.call("GET", "new") == b"key"
        connection.call("DEL", "new")
    assert digest(subject) == before
    other = start_server("oracle")
    assert "restored 2000 keys, 1 library" in archive.do("restore", "latest", "-p", other.port)
    assert digest(other) == before


def test_standard_input_and_output(subject, archive, tmp_path):
    with subject.connect() as connection:
        fill(connection)
        connection.call("SAVE")
    dump = (subject.directory / "dump.rdb").read_bytes()
    result = run([subject_path(), "archive", "create", archive.path, "-"], stdin=dump)
    assert result.code == 0, result
    assert archive.snapshots()[-1]["digest"] == digest(subject)
    for command in ("restore", "export"):
        result = archive.call(command, "latest", "-")
        assert result.code == 0 and result.out.startswith(b"REDIS0012") and result.err == b""
    exported = tmp_path / "exported.rdb"
    exported.write_bytes(result.out)
    assert archive.create(exported)["new_bytes"] == 0


@pytest.mark.parametrize("sent", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_signal_leaves_no_part_of_a_dump(subject, archive, tmp_path, sent, is_ignored):
    store(subject, [("key", "value")])
    archive.create(subject)
    [pack] = archive.path.glob("packs/*")
    content = pack.read_bytes()
    pack.unlink()
    # Whoever opens it waits for a writer.
    os.mkfifo(pack)
    out = tmp_path / "out.rdb"
    part = tmp_path / "out.rdb.part"
    words = [str(subject_path()), "archive", "restore", str(archive.path), "latest", str(out)]
    if is_ignored:
        words = ["sh", "-c", f"trap '' {sent.value}; exec \"$@\"", "sh", *words]
    # Under nohup the tests themselves ignore some.
    default = lambda: signal.signal(sent, signal.SIG_DFL)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default)
    eventually(part.exists, "nothing is written")
    process.send_signal(sent)
    if is_ignored:
        # As with nohup it goes on.
        descriptor = os.open(pack, os.O_WRONLY)
        pack.unlink()
        pack.write_bytes(content)
        os.close(descriptor)
        process.communicate(timeout=60)
        assert process.returncode >= 0
    else:
        process.communicate(timeout=60)
        assert process.returncode == -sent and not out.exists()
    assert not part.exists()
