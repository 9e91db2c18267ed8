"""Snapshots that the server makes itself, by a schedule or when asked, and going back to a point in time."""

import contextlib
import shutil
import socket
import threading
import time
import urllib.request

import pytest

from support.filling import fill
from support.resp import Closed
from support.seeds import generator
from support.servers import free_port
from support.waiting import eventually, persistence

from .conftest import Archive
from .test_snapshots import LIBRARY, digest, numbered, store


def status(connection):
    reply = connection.call("MANTISSA.ARCHIVE", "STATUS")
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return {name.decode(): value if isinstance(value, int) else value.decode() for name, value in pairs}


def listed(connection, *count):
    replies = connection.call("MANTISSA.ARCHIVE", "LIST", *count)
    return [{name.decode(): value for name, value in zip(reply[::2], reply[1::2], strict=True)} for reply in replies]


def archived(connection):
    """Have a snapshot be made, and wait for it; what is known of it."""
    assert connection.call("MANTISSA.ARCHIVE", "NOW") == b"Background archiving started"
    eventually(lambda: status(connection)["state"] != "running", "the snapshot does not end")
    return status(connection)


def stored(connection):
    """Wait until the archive has all that was written by now."""
    now_ms = time.time() * 1000
    eventually(lambda: status(connection)["log-stored-ms"] > now_ms, "the log is not stored")


def until_saves(connection, wanted):
    eventually(lambda: int(persistence(connection)["archive_saves"]) >= wanted, "no snapshot is made")


def until_logged(connection):
    """Until the log has begun, and the snapshot that it begins with is there."""
    eventually(lambda: status(connection)["log"] == "on", "the log does not begin")
    until_saves(connection, 1)
    eventually(lambda: status(connection)["state"] == "idle", "the snapshot does not end")


@pytest.fixture
def archiving(start_server, archive):
    """Starts a server with the archive."""

    def start(**options):
        words = {f"archive-{name.replace('_', '-')}": value for name, value in options.items()}
        also = {"metrics-port": words.pop("archive-metrics-port")} if "archive-metrics-port" in words else {}
        return start_server("subject", options={"archive-url": archive.path, **words, **also})

    return start


def test_a_snapshot_that_is_asked_for(archiving, archive, digest_of, tmp_path):
    port = free_port()
    server = archiving(metrics_port=port)
    with server.connect() as connection:
        fill(connection)
        connection.call("FUNCTION", "LOAD", LIBRARY)
        assert status(connection)["state"] == "idle" and archive.snapshots() == []
        known = archived(connection)
        assert known["state"] == "idle" and known["error"] == "" and known["snapshots"] == 1
        again = archived(connection)
        assert again["new-bytes"] == 0 < again["bytes"] == known["bytes"] == known["new-bytes"]
        info = persistence(connection)
        assert info["archive_last_status"] == "ok" and info["archive_saves"] == "2"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        figures = response.read().decode()
    assert "\nmantissa_archive_saves_total 2\n" in figures and "\nmantissa_archive_last_status 1\n" in figures
    first, second = archive.snapshots()
    assert first["digest"] == second["digest"] == digest(server)
    assert again["snapshot"] == second["snapshot"] and first["functions"] == 1
    with server.connect() as connection:
        newest, oldest = listed(connection)
        assert newest["name"].decode() == second["snapshot"] and oldest["name"].decode() == first["snapshot"]
        assert (newest["keys"], newest["bytes"], newest["new-bytes"]) == (again["keys"], again["bytes"], 0)
        assert listed(connection, 1) == [newest]
        for wrong in ("-1", "x"):
            assert connection("MANTISSA.ARCHIVE", "LIST", wrong).is_error
    # A manifest that is damaged hides no other, and a server that starts knows what others have stored.
    [manifest] = (archive.path / "snapshots").glob(first["snapshot"])
    manifest.write_bytes(b"damaged")
    server.restart()
    with server.connect() as connection:
        eventually(lambda: len(listed(connection)) == 2, "the archive is not looked at")
        assert listed(connection)[0] == newest
        damaged = listed(connection)[1]
        assert damaged["name"].decode() == first["snapshot"] and damaged["error"] != b"" and damaged["keys"] == 0
    archive.do("export", "latest", tmp_path / "export.rdb")
    assert digest_of(tmp_path / "export.rdb") == first["digest"]


def test_a_schedule_and_retention(archiving, archive):
    server = archiving(schedule="every 1s", keep_last=2)
    with server.connect() as connection:
        for number in range(4):
            connection.call("SET", "key", number)
            wanted = 1 + int(persistence(connection)["archive_saves"])
            until_saves(connection, wanted)
        eventually(lambda: status(connection)["state"] != "running", "the snapshot does not end")
        assert status(connection)["next-time-ms"] > 0
        connection.call("CONFIG", "SET", "archive-schedule", "")
        eventually(lambda: status(connection)["state"] != "running", "the snapshot does not end")
    assert len(archive.snapshots()) == 2
    archive.do("verify")


def test_retention_is_for_each_server(archiving, archive, subject, tmp_path):
    server = archiving(keep_last=2)
    store(subject, [("other", 1)])
    other = archive.create(subject)
    file = tmp_path / "monday.rdb"
    archive.do("export", "latest", file)
    of_file = archive.create(file)
    with server.connect() as connection:
        made = [archived(connection)["snapshot"] for _ in range(3)]
    kept = [other["snapshot"], of_file["snapshot"], *made[1:]]
    assert [one["snapshot"] for one in archive.snapshots()] == kept
    assert archive.snapshots()[-1]["source"] == f"{socket.gethostname()}:{server.port}"
    archive.do("prune", "--keep-last", 1)
    assert [one["snapshot"] for one in archive.snapshots()] == [kept[0], kept[1], kept[3]]


def test_a_restart_neither_delays_nor_repeats(archiving, archive):
    server = archiving(schedule="every 300d")
    with server.connect() as connection:
        eventually(lambda: int(persistence(connection)["archive_saves"]) == 1, "no snapshot is made")
    server.restart()
    with server.connect() as connection:
        eventually(lambda: status(connection)["last-time-ms"] > 0, "the newest snapshot is not looked at")
        assert int(persistence(connection)["archive_saves"]) == 0
    assert len(archive.snapshots()) == 1


def test_snapshots_of_others_are_not_of_the_schedule(archiving, archive, subject):
    store(subject, [("other", 1)])
    archive.create(subject)
    with archiving(schedule="every 300d").connect() as connection:
        until_saves(connection, 1)
    assert len(archive.snapshots()) == 2


def test_segments_that_are_damaged_hide_nothing(archiving, archive, start_server, tmp_path):
    server = archiving(log="yes", log_interval=3600)
    with server.connect() as connection:
        until_logged(connection)
        connection.call("SET", "key", "value")
        before, time_s = digest(server), next_second()
        connection.call("CONFIG", "SET", "archive-log", "no")
        eventually(lambda: status(connection)["log"] == "off", "the log does not end")
    other = archiving(log="yes", log_interval=3600)
    own = set((archive.path / "log").iterdir())
    with other.connect() as connection:
        until_logged(connection)
        connection.call("SET", "key", "other")
        next_second()
        connection.call("CONFIG", "SET", "archive-log", "no")
        eventually(lambda: status(connection)["log"] == "off", "the log does not end")
    [segment] = set((archive.path / "log").iterdir()) - own
    content = bytearray(segment.read_bytes())
    content[5] ^= 1
    segment.write_bytes(content)
    for command in ("list", "verify"):
        result = archive.call(command)
        assert result.code == 1 and f"log/{segment.name}: it is damaged".encode() in result.err
        assert result.out.count(b"\n") >= 2
    restored, text = state_at(archive, start_server, tmp_path / "folder", time_s)
    assert restored == before and segment.name in text


def test_refusals_and_errors(archiving, archive, start_server):
    plain = start_server("subject")
    with plain.connect() as connection:
        reply = connection("MANTISSA.ARCHIVE", "NOW")
        assert reply.is_error and "archive-url" in reply.text()
        assert status(connection)["state"] == "off"
        assert connection("MANTISSA.ARCHIVE", "LATER").is_error
        assert connection("CONFIG", "SET", "archive-schedule", "every").is_error
        assert "archive_saves" not in persistence(connection)
    server = archiving()
    with server.connect() as connection:
        moved = archive.path.with_name("moved")
        archive.path.rename(moved)
        failed = archived(connection)
        assert failed["state"] == "failed" and "there is no archive" in failed["error"]
        assert persistence(connection)["archive_last_status"] == "err"
        moved.rename(archive.path)
        # What is in the way of writing: a file where a folder is to be.
        (archive.path / "packs").write_bytes(b"")
        connection.call("SET", "key", "value")
        assert archived(connection)["state"] == "failed"
        (archive.path / "packs").unlink()
        assert archived(connection)["state"] == "idle"
    assert "Archiving failed" in server.log_text()
    archive.do("verify")


def test_a_flush_does_not_end_it(archiving, archive):
    server = archiving()
    with server.connect() as connection:
        store(server, numbered(generator("archive flush"), range(5000)))
        connection.call("CONFIG", "SET", "rdb-key-save-delay", 100)
        before = digest(server)
        connection.call("MANTISSA.ARCHIVE", "NOW")
        eventually(lambda: persistence(connection)["current_save_keys_processed"] != "0", "it does not begin")
        connection.call("FLUSHALL")
        eventually(lambda: status(connection)["state"] != "running", "the snapshot does not end")
    assert [one["digest"] for one in archive.snapshots()] == [before]


def state_at(archive, start_server, folder, time_s, kind="subject"):
    """The digest of what a server has that is started on the state of a second."""
    text = archive.do("restore", "--at", time_s, folder)
    server = start_server(kind, directory=folder, options={"appendonly": "yes"})
    return digest(server), text


def next_second():
    """Let a second begin, and return the one that has ended."""
    ended = int(time.time())
    eventually(lambda: int(time.time()) > ended, "the clock stands")
    return ended


def test_any_second_can_be_gone_back_to(archiving, archive, start_server, tmp_path):
    server = archiving(log="yes", log_interval=1)
    known = []
    with server.connect() as connection:
        until_logged(connection)
        for number in range(4):
            connection.call("SELECT", number % 3)
            connection.call("SET", "key", number)
            connection.pipeline([("MULTI",), ("LPUSH", "list", number), ("INCRBY", "n", 5), ("EXEC",)])
            connection.call("SETEX", f"short:{number}", 1000, "x")
            connection.call("EVAL", "redis.call('SADD', KEYS[1], ARGV[1])", 1, "set", number)
            known.append((digest(server), next_second()))
            if number == 1:
                archived(connection)
                next_second()
        stored(connection)
        connection.call("FLUSHALL")
        stored(connection)
    for number, (before, time_s) in enumerate(known):
        for kind in ("subject", "oracle"):
            found, text = state_at(archive, start_server, tmp_path / f"{kind}-{number}", time_s, kind)
            assert found == before, text
            assert "is not known" not in text
    assert "log of" in archive.do("list")
    result = archive.call("restore", "--at", 1000, tmp_path / "early")
    assert result.code == 1 and b"no snapshot is as old" in result.err
    archive.do("verify")


def test_a_killed_server_loses_no_segment(archiving, archive, start_server, tmp_path):
    random = generator("archive log kill")
    server = archiving(log="yes", log_interval=1)
    for round_ in range(4):
        with server.connect() as connection:
            until_logged(connection)
            store(server, numbered(random, range(500)))
            stored(connection)
            before, time_s = digest(server), next_second()
            # What is not stored yet may be lost, and nothing else.
            connection.call("SET", "late", round_)
            server.kill()
        found, text = state_at(archive, start_server, tmp_path / f"at-{round_}", time_s)
        assert found == before, text
        archive.do("verify")
        server.start()
    with server.connect() as connection:
        until_logged(connection)
        connection.call("SET", "last", 1)
        last, time_s = digest(server), next_second()
    # A server that ends in order stores the rest.
    server.terminate()
    assert state_at(archive, start_server, tmp_path / "last", time_s)[0] == last


def test_a_full_disk_delays_the_log_only(archiving, archive, start_server, tmp_path):
    server = archiving(log="yes", log_interval=1)
    with server.connect() as connection:
        until_logged(connection)
        (archive.path / "log").write_bytes(b"")
        connection.call("SET", "key", "value")
        eventually(lambda: status(connection)["log"] == "failed", "the error is not shown")
        assert persistence(connection)["archive_log_status"] == "err"
        (archive.path / "log").unlink()
        stored(connection)
        assert persistence(connection)["archive_log_status"] == "ok"
        before, time_s = digest(server), next_second()
    assert state_at(archive, start_server, tmp_path / "folder", time_s)[0] == before


def test_the_log_ends_in_the_archive_in_which_it_began(archive, start_server, tmp_path):
    other = Archive(tmp_path / "other")
    key = tmp_path / "other.key"
    other.do("init", "--new-key-file", key)
    other.keys = (key,)
    options = {"archive-url": archive.path, "archive-log": "yes", "enable-protected-configs": "yes"}
    server = start_server("subject", options=options | {"archive-log-interval": 3600})
    with server.connect() as connection:
        until_logged(connection)
        connection.call("SET", "key", "first")
        before, time_s = digest(server), next_second()
        connection.call("CONFIG", "SET", "archive-url", str(other.path), "archive-key-file", str(key))
        eventually(lambda: len(other.snapshots()) == 1, "the log does not begin in the other archive")
        eventually(lambda: status(connection)["state"] == "idle", "the snapshot does not end")
        connection.call("SET", "key", "second")
        later, later_s = digest(server), next_second()
        connection.call("CONFIG", "SET", "archive-url", "")
        eventually(lambda: status(connection)["log"] == "off", "the log does not end")
    for where, found, at_s in ((archive, before, time_s), (other, later, later_s)):
        restored, text = state_at(where, start_server, tmp_path / f"from-{where.path.name}", at_s)
        assert restored == found, text
        assert len(list((where.path / "log").iterdir())) == 1


def test_the_log_of_an_encrypted_archive(archive, start_server, tmp_path):
    shutil.rmtree(archive.path)
    full, write = tmp_path / "full.key", tmp_path / "write.key"
    archive.do("init", "--new-key-file", full, "--new-write-key-file", write)
    options = {"archive-url": f"file://{archive.path}", "archive-key-file": write, "archive-log": "yes"}
    server = start_server("subject", options=options | {"archive-log-interval": 1, "archive-keep-log": 1})
    with server.connect() as connection:
        until_logged(connection)
        connection.call("SET", "secret", "told")
        before = digest(server)
        stored(connection)
        time_s = next_second()
    archive.keys = (write,)
    assert b"reading takes the read key" in archive.call("restore", "--at", time_s, tmp_path / "no").err
    archive.keys = (full,)
    assert state_at(archive, start_server, tmp_path / "folder", time_s)[0] == before
    archive.do("verify")


def test_old_parts_of_the_log_go_with_their_snapshots(archiving, archive):
    server = archiving(log="yes", log_interval=1)
    with server.connect() as connection:
        until_logged(connection)
        for number in range(3):
            connection.call("SET", "key", number)
            stored(connection)
            archived(connection)
        segments = len(list((archive.path / "log").iterdir()))
        archive.do("prune", "--keep-last", 1)
        assert segments >= 3 and not list((archive.path / "log").iterdir())
        connection.call("SET", "key", "more")
        stored(connection)
        archive.do("prune", "--keep-last", 1, "--keep-log", 1)
        assert len(list((archive.path / "log").iterdir())) == 1


def test_snapshots_of_others_are_not_gone_back_to(archiving, archive, start_server, subject, tmp_path):
    server = archiving(log="yes", log_interval=1)
    store(subject, [("other", 1)])
    known = []
    with server.connect() as connection:
        until_logged(connection)
        for value in range(2):
            archive.create(subject)
            next_second()
            connection.call("SET", "key", value)
            known.append((digest(server), next_second()))
            stored(connection)
    # The first second has more of the log behind it, the last has none.
    for value, (before, time_s) in enumerate(known):
        found, text = state_at(archive, start_server, tmp_path / str(value), time_s)
        assert found == before, text
        archive.do("restore", "--at", time_s, "--only-key", "key", "-p", subject.port, "--replace")
        with subject.connect() as connection:
            assert connection.call("GET", "key") == b"%d" % value


def until_keys(connection, database, count):
    text = f"db{database}:keys={count},"
    eventually(lambda: text in connection.call("INFO", "keyspace").decode(), "the data do not come")


def test_data_of_a_primary_begin_the_log_anew(archiving, archive, start_server, subject, tmp_path):
    store(subject, numbered(generator("archive replica"), range(500)))
    with subject.connect() as primary, archiving(log="yes", log_interval=1).connect() as connection:
        primary.call("CONFIG", "SET", "repl-diskless-sync-delay", 0)
        until_logged(connection)
        connection.call("SET", "own", 1)
        connection.call("REPLICAOF", "127.0.0.1", subject.port)
        until_keys(connection, 0, 500)
        eventually(lambda: int(persistence(connection)["archive_log_breaks"]) > 0, "the log goes on")
        for promoted in (False, True):
            until_logged(connection)
            if promoted:
                connection.call("REPLICAOF", "NO", "ONE")
                eventually(lambda: int(persistence(connection)["archive_log_breaks"]) > 1, "the log goes on")
                until_logged(connection)
            writer = connection if promoted else primary
            writer.call("SELECT", 4)
            writer.call("SET", f"later:{promoted}", 1)
            until_keys(connection, 4, 1 + promoted)
            stored(connection)
            before, time_s = connection.call("DEBUG", "DIGEST").decode(), next_second()
            assert state_at(archive, start_server, tmp_path / f"{promoted}", time_s)[0] == before


def test_writers_beside_snapshots_and_a_kill(archiving, archive, start_server, tmp_path):
    server = archiving(log="yes", log_interval=1)
    with server.connect() as connection:
        until_logged(connection)

    def write(number):
        unit = [("MULTI",), ("INCR", f"a:{number}"), ("INCR", f"b:{number}"), ("RPUSH", "list", number), ("EXEC",)]
        with contextlib.suppress(OSError, Closed), server.connect() as connection:
            while True:
                connection.pipeline(unit * 20)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    with server.connect() as connection:
        for _ in range(3):
            archived(connection)
            next_second()
        stored(connection)
        lengths = int(connection.call("LLEN", "list"))
        stored(connection)
        server.kill()
    for writer in writers:
        writer.join()
    archive.do("restore", "--at", int(time.time()), tmp_path / "folder")
    restored = start_server("subject", directory=tmp_path / "folder", options={"appendonly": "yes"})
    with restored.connect() as connection:
        counts = [int(connection.call("GET", f"a:{number}")) for number in range(3)]
        assert counts == [int(connection.call("GET", f"b:{number}")) for number in range(3)]
        items = connection.call("LRANGE", "list", 0, -1)
        assert len(items) == sum(counts) >= lengths
        assert [items.count(b"%d" % number) for number in range(3)] == counts
    archive.do("verify")
