"""BACKUP of Redis 8.10: what a sealed backup holds, what may happen meanwhile, and what is left behind."""

import os
import shutil
import threading
import time

import pytest

from durability.test_aof import FOLDER, NAME, digest, limit_file_bytes, run_commands, words_of
from support.crowd import Crowd
from support.seeds import generator
from support.servers import subject_is_oracle, subject_path
from support.terminal import run
from support.waiting import eventually, persistence, until_written

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has no BACKUP")

BACKUPS = "backupdir"
NOT_SEALED = "the server ended, or was upgraded, before it was sealed"
EVERY_MODE = pytest.mark.parametrize("appendonly", ["yes", "no"])


def status(connection):
    """BACKUP STATUS, as a dict of texts."""
    flat = [value.decode() for value in connection.call("BACKUP", "STATUS")]
    return dict(zip(flat[::2], flat[1::2], strict=True))


def until_state(connection, *wanted):
    """Until the backup is in one of these states, which it returns."""
    eventually(lambda: status(connection)["state"] in wanted, lambda: f"{status(connection)}, not {wanted}")
    return status(connection)["state"]


def begin(connection):
    assert connection.call("BACKUP", "START") == b"OK"
    until_state(connection, "incrementing")
    until_written(connection)


def listed(connection):
    return [path.decode() for path in connection.call("BACKUP", "LIST")]


def backup_files(server):
    folder = server.directory / BACKUPS
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def error(connection, *words):
    reply = connection(*words)
    assert reply.is_error, reply
    return reply.text()


@pytest.fixture
def restore(start_server, tmp_path):
    """Starts a server on a copy of a backup, in a fresh folder."""
    number = 0

    def start(server, kind="subject"):
        nonlocal number
        number += 1
        folder = tmp_path / f"restored-{number}"
        shutil.copytree(server.directory / BACKUPS, folder / FOLDER)
        checked = run([subject_path(), "check", "aof", folder / FOLDER])
        assert checked.code == 0 and b"All AOF files and manifest are valid" in checked.out, checked
        return start_server(kind, directory=folder, options={"appendonly": "yes"})

    return start


def restored_digest(restore, server, kind="subject"):
    restored = restore(server, kind)
    with restored.connect() as connection:
        found = digest(connection)
    restored.kill()
    return found


@EVERY_MODE
@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_a_sealed_backup_is_the_data_of_the_moment(start_server, restore, appendonly, policy):
    server = start_server(options={"appendonly": appendonly, "appendfsync": policy})
    with server.connect() as connection:
        assert status(connection) == {"state": "idle", "error": "", "start_time": "0", "end_time": "0"}
        assert listed(connection) == []
        run_commands(connection)
        before_s = int(time.time())
        begin(connection)
        [base] = listed(connection)
        assert base.startswith(str((server.directory / BACKUPS).resolve())) and base.endswith(".base.rdb")
        run_commands(connection)
        assert connection.call("BACKUP", "SEAL") == b"OK"
        at_seal = digest(connection)
        connection.call("SET", "after", "the seal")
        state = status(connection)
        assert (state["state"], state["error"]) == ("sealed", "")
        assert before_s <= int(state["start_time"]) <= int(state["end_time"]) <= time.time()
        names = [path.rsplit("/", 1)[1] for path in listed(connection)]
        assert names[0] == base.rsplit("/", 1)[1] and names[-1] == f"{NAME}.manifest"
        assert len(names) == 3 and sorted(names) == backup_files(server)
        assert connection.call("CONFIG", "GET", "appendonly")[1].decode() == appendonly
        assert (server.directory / FOLDER).exists() == (appendonly == "yes")
        assert restored_digest(restore, server) == at_seal
        assert restored_digest(restore, server, "oracle") == at_seal
        assert connection.call("BACKUP", "CLEANUP") == b"OK"
        assert backup_files(server) == [] and status(connection)["state"] == "idle"
        run_commands(connection)
        before = digest(connection)
    if appendonly == "yes":
        server.restart()
        with server.connect() as connection:
            assert digest(connection) == before


def write_units(number, progress):
    """A client that counts in a transaction: in what is restored both counts agree."""

    def work(connection, _random, stop):
        while not stop.is_set():
            progress[number]["sent"] += 1
            connection.call("MULTI")
            connection.call("INCR", f"count {number}")
            connection.call("RPUSH", f"list {number}", progress[number]["sent"])
            assert len(connection.call("EXEC")) == 2
            progress[number]["answered"] += 1

    return work


def check_units(restored, before, after):
    """What a client was told before BACKUP SEAL is there, what it sent afterwards is not, and nothing is there half."""
    with restored.connect() as connection:
        for number, (least, most) in enumerate(zip(before, after, strict=True)):
            count = int(connection.call("GET", f"count {number}") or 0)
            assert least <= count <= most
            pushed = [int(value) for value in connection.call("LRANGE", f"list {number}", 0, -1)]
            assert pushed == list(range(1, count + 1))
    restored.kill()


@EVERY_MODE
def test_a_backup_under_load_is_of_one_instant(start_server, restore, appendonly):
    server = start_server(options={"appendonly": appendonly, "databases": 16}, workers=2)
    progress = [{"sent": 0, "answered": 0} for _ in range(4)]
    crowd = Crowd(server)
    for number in range(4):
        crowd.start(write_units(number, progress), None)
    with server.connect() as connection:
        for _ in range(3):
            begin(connection)
            reached = [client["answered"] + 20 for client in progress]
            eventually(
                lambda reached=reached: all(
                    client["answered"] >= least for client, least in zip(progress, reached, strict=True)
                ),
                "nobody writes",
            )
            before = [client["answered"] for client in progress]
            assert connection.call("BACKUP", "SEAL") == b"OK"
            after = [client["sent"] for client in progress]
            check_units(restore(server), before, after)
            assert connection.call("BACKUP", "CLEANUP") == b"OK"
    crowd.stop.set()
    crowd.join()


def test_rewrites_take_nothing_from_a_backup(start_server, restore):
    server = start_server(options={"appendonly": "yes", "auto-aof-rewrite-min-size": "1kb"})
    with server.connect() as connection:
        run_commands(connection)
        begin(connection)
        for round_number in range(3):
            run_commands(connection)
            connection.call("SET", f"round {round_number}", "x" * 2000)
            connection("BGREWRITEAOF")
            until_written(connection)
        connection.call("SET", "last", "1")
        assert connection.call("BACKUP", "SEAL") == b"OK"
        at_seal = digest(connection)
        connection.call("BGREWRITEAOF")
        until_written(connection)
        assert len(listed(connection)) > 3 and len(listed(connection)) == len(backup_files(server))
        assert restored_digest(restore, server) == at_seal
        assert restored_digest(restore, server, "oracle") == at_seal
        connection.call("SET", "after", "1")
        before = digest(connection)
    server.restart(crash=True)
    with server.connect() as connection:
        assert digest(connection) == before


def slow_down(connection, keys=50, delay_us=30_000):
    """Has a snapshot that begins from now on take about `keys` times as long as the delay, on any machine."""
    for number in range(keys):
        connection.call("SET", f"slow {number}", number)
    # One for each second core walks the keys.
    savers = (len(os.sched_getaffinity(0)) + 1) // 2
    connection.call("CONFIG", "SET", "rdb-key-save-delay", delay_us * savers)


def test_a_backup_is_sealed_while_a_rewrite_runs(start_server, restore):
    server = start_server(options={"appendonly": "yes"})
    with server.connect() as connection:
        begin(connection)
        slow_down(connection)
        connection.call("BGREWRITEAOF")
        connection.call("SET", "in", "the backup")
        assert connection.call("BACKUP", "SEAL") == b"OK"
        assert persistence(connection)["aof_rewrite_in_progress"] == "1"
        at_seal = digest(connection)
        connection.call("SET", "after", "the seal")
        before = digest(connection)
        until_written(connection)
        assert restored_digest(restore, server) == at_seal
    server.restart(crash=True)
    with server.connect() as connection:
        assert digest(connection) == before
        connection.call("BGREWRITEAOF")
        until_written(connection)
    server.restart(crash=True)
    with server.connect() as connection:
        assert digest(connection) == before


@EVERY_MODE
def test_a_backup_waits_for_a_dump(start_server, appendonly):
    server = start_server(options={"appendonly": appendonly})
    with server.connect() as connection:
        slow_down(connection)
        connection.call("BGSAVE")
        assert connection.call("BACKUP", "START") == b"OK"
        assert status(connection)["state"] == "pending"
        assert listed(connection) == []
        assert error(connection, "BACKUP", "SEAL") == "ERR The backup can not be sealed yet: it is pending"
        assert connection.call("BACKUP", "ABORT") == b"OK"
        state = status(connection)
        assert (state["state"], state["error"], state["end_time"]) == ("failed", "it was aborted", "0")
        assert connection.call("BACKUP", "START") == b"OK"
        assert status(connection)["state"] == "pending"
        connection.call("CONFIG", "SET", "rdb-key-save-delay", 0)
        until_state(connection, "incrementing")
        assert connection.call("BACKUP", "SEAL") == b"OK"


def test_a_backup_takes_the_base_of_a_rewrite_that_runs(start_server, restore):
    server = start_server(options={"appendonly": "yes"})
    with server.connect() as connection:
        slow_down(connection)
        rewrites = int(persistence(connection)["aof_rewrites"])
        connection.call("BGREWRITEAOF")
        connection.call("SET", "since", "the rewrite")
        assert connection.call("BACKUP", "START") == b"OK"
        assert status(connection)["state"] == "snapshotting"
        until_state(connection, "incrementing")
        assert int(persistence(connection)["aof_rewrites"]) == rewrites + 1
        assert connection.call("BACKUP", "SEAL") == b"OK"
        assert restored_digest(restore, server) == digest(connection)


@EVERY_MODE
def test_a_base_that_is_being_written_is_aborted(start_server, restore, appendonly):
    server = start_server(options={"appendonly": appendonly})
    with server.connect() as connection:
        slow_down(connection)
        assert connection.call("BACKUP", "START") == b"OK"
        assert status(connection)["state"] == "snapshotting"
        assert error(connection, "BACKUP", "CLEANUP") == (
            "ERR A backup is in progress. Use BACKUP ABORT to cancel it"
        )
        assert connection.call("BACKUP", "ABORT") == b"OK"
        assert status(connection)["state"] == "failed" and backup_files(server) == []
        connection.call("CONFIG", "SET", "rdb-key-save-delay", 0)
        begin(connection)
        connection.call("SET", "more", "1")
        assert connection.call("BACKUP", "SEAL") == b"OK"
        assert restored_digest(restore, server) == digest(connection)


@EVERY_MODE
def test_increments_are_aborted(start_server, appendonly):
    server = start_server(options={"appendonly": appendonly})
    with server.connect() as connection:
        begin(connection)
        connection.call("SET", "a", "1")
        assert connection.call("BACKUP", "ABORT") == b"OK"
        assert status(connection)["state"] == "failed" and listed(connection) == []
        assert backup_files(server) == []
        assert error(connection, "BACKUP", "ABORT") == "ERR No backup is in progress"
        assert error(connection, "BACKUP", "SEAL") == "ERR No backup is in progress"
        assert connection.call("BACKUP", "CLEANUP") == b"OK"
        assert status(connection) == {"state": "idle", "error": "", "start_time": "0", "end_time": "0"}
        begin(connection)


def test_what_is_refused(start_server):
    server = start_server()
    with server.connect() as connection, server.connect(protocol=3) as other:
        assert error(connection, "BACKUP", "SEAL") == "ERR No backup is in progress"
        assert error(connection, "BACKUP", "ABORT") == "ERR No backup is in progress"
        assert error(connection, "BACKUP", "CLEANUP") == "ERR There is no backup to clean up"
        assert error(connection, "BACKUP", "NOSUCH").startswith("ERR unknown subcommand 'NOSUCH'")
        assert error(connection, "BACKUP", "START", "x") == (
            "ERR wrong number of arguments for 'backup|start' command"
        )
        connection.call("MULTI")
        for word in ("START", "SEAL", "ABORT", "CLEANUP"):
            connection.call("BACKUP", word)
        replies = connection("EXEC").value
        assert [reply.text() for reply in replies] == [
            f"ERR BACKUP {word} is not allowed in a transaction"
            for word in ("START", "SEAL", "ABORT", "CLEANUP")
        ]
        begin(connection)
        assert error(connection, "BACKUP", "START") == "ERR A backup is already in progress"
        assert connection.call("BACKUP", "SEAL") == b"OK"
        assert error(connection, "BACKUP", "START") == (
            "ERR A sealed backup is there. Use BACKUP CLEANUP to remove it"
        )
        assert error(connection, "BACKUP", "ABORT") == (
            "ERR The backup is sealed. Use BACKUP CLEANUP to remove it"
        )
        assert error(connection, "BACKUP", "SEAL") == "ERR The backup is sealed already"
        assert b"START" in connection.call("BACKUP", "HELP")
        reply = other("BACKUP", "STATUS")
        names = [name.value.decode() for name in reply.value[::2]]
        assert reply.kind == "%" and names == list(status(connection))
        assert error(connection, "CONFIG", "SET", "backupdirname", "x").endswith("can't set immutable config")


def test_the_append_only_file_is_switched_on_during_a_backup(start_server, restore):
    server = start_server()
    with server.connect() as connection:
        run_commands(connection)
        begin(connection)
        connection.call("CONFIG", "SET", "appendonly", "yes")
        eventually(lambda: (server.directory / FOLDER / f"{NAME}.manifest").exists(), "it is not on")
        until_written(connection)
        run_commands(connection)
        assert connection.call("BACKUP", "SEAL") == b"OK"
        at_seal = digest(connection)
        connection.call("SET", "after", "1")
        before = digest(connection)
        assert restored_digest(restore, server) == at_seal
    server.restart(crash=True, appendonly="yes")
    with server.connect() as connection:
        assert digest(connection) == before


def test_the_append_only_file_is_switched_off_during_a_backup(start_server):
    server = start_server(options={"appendonly": "yes"})
    with server.connect() as connection:
        run_commands(connection)
        begin(connection)
        connection.call("CONFIG", "SET", "appendonly", "no")
        until_state(connection, "failed")
        assert status(connection)["error"] == "the append-only file was switched off"
        eventually(lambda: backup_files(server) == [], "its files are still there")
        run_commands(connection)
        begin(connection)
        connection.call("CONFIG", "SET", "appendonly", "yes", "appendfsync", "always")
        until_written(connection)
        connection.call("CONFIG", "SET", "appendonly", "no")
        connection.call("SET", "x", "1")
        assert connection.call("BACKUP", "SEAL") == b"OK"


@EVERY_MODE
def test_everything_is_flushed_during_a_backup(start_server, restore, appendonly):
    server = start_server(options={"appendonly": appendonly, "save": "3600 1"})
    with server.connect() as connection:
        slow_down(connection, delay_us=5000)
        assert connection.call("BACKUP", "START") == b"OK"
        connection.call("FLUSHALL")
        connection.call("SET", "new", "1")
        until_state(connection, "incrementing")
        assert connection.call("BACKUP", "SEAL") == b"OK"
        assert restored_digest(restore, server) == digest(connection)


def test_a_folder_that_can_not_be_used(start_server):
    server = start_server()
    path = server.directory / BACKUPS
    with server.connect() as connection:
        path.mkdir()
        (path / "other").write_text("x")
        assert error(connection, "BACKUP", "START") == f"ERR The backup directory {path} is not empty"
        assert status(connection)["state"] == "idle"
        (path / "other").unlink()
        path.rmdir()
        path.write_text("x")
        text = error(connection, "BACKUP", "START")
        assert text.startswith(f"ERR Can't use the backup directory {path}: File exists")
        assert status(connection)["state"] == "failed"
        assert status(connection)["error"] == text.removeprefix("ERR ")
        path.unlink()
        begin(connection)


@EVERY_MODE
def test_a_folder_that_goes_away(start_server, appendonly):
    server = start_server(options={"appendonly": appendonly})
    with server.connect() as connection:
        begin(connection)
        shutil.rmtree(server.directory / BACKUPS)
        assert "No such file or directory" in error(connection, "BACKUP", "SEAL")
        state = status(connection)
        assert state["state"] == "failed" and "No such file or directory" in state["error"]
        connection.call("SET", "a", "1")
        begin(connection)
        assert connection.call("BACKUP", "SEAL") == b"OK"


def test_the_folder_of_the_append_only_file_is_no_folder_for_backups(start_server):
    server = start_server(options={"appendonly": "yes", "backupdirname": FOLDER})
    with server.connect() as connection:
        connection.call("SET", "a", "1")
        text = error(connection, "BACKUP", "START")
        assert text == "ERR backupdirname and appenddirname name the same folder"
        before = digest(connection)
    server.restart()
    with server.connect() as connection:
        assert digest(connection) == before and status(connection)["state"] == "idle"


def test_a_full_disk_fails_the_backup_and_no_write(start_server):
    server = start_server(options={"appendfsync": "always"})
    with server.connect() as connection:
        begin(connection)
        limit_file_bytes(server, 2000)
        connection.call("SET", "large", "x" * 5000)
        until_state(connection, "failed")
        assert status(connection)["error"] == "the increment can not be written: File too large"
        assert connection.call("SET", "more", "1") == b"OK"
        limit_file_bytes(server, None)
        eventually(lambda: backup_files(server) == [], "its files are still there")
        begin(connection)
        assert connection.call("BACKUP", "SEAL") == b"OK"


@EVERY_MODE
@pytest.mark.parametrize("state", ["snapshotting", "incrementing"])
def test_a_server_is_killed_during_a_backup(start_server, restore, appendonly, state):
    server = start_server(options={"appendonly": appendonly, "appendfsync": "always"})
    with server.connect() as connection:
        run_commands(connection)
        connection.call("SAVE")
        saved = digest(connection)
        slow_down(connection)
        assert connection.call("BACKUP", "START") == b"OK"
        until_state(connection, state)
        if (state, appendonly) != ("snapshotting", "yes"):
            # The state is told before the first file is there.
            eventually(lambda: backup_files(server) != [], "it has no files")
        connection.call("SET", "since", "1")
        before = digest(connection)
    server.kill()
    left = backup_files(server)
    server.start()
    with server.connect() as connection:
        # Without an append-only file there is what the dump has, and not what the backup's log has.
        assert digest(connection) == (before if appendonly == "yes" else saved)
        found = status(connection)
        if left:
            assert (found["state"], found["error"]) == ("failed", NOT_SEALED)
        else:
            assert found["state"] == "idle"
        eventually(lambda: backup_files(server) == [], "what is left is not removed")
        connection.call("CONFIG", "SET", "rdb-key-save-delay", 0)
        begin(connection)
        connection.call("SET", "more", "1")
        assert connection.call("BACKUP", "SEAL") == b"OK"
        assert len(backup_files(server)) == 3
        assert restored_digest(restore, server) == digest(connection)
    server.restart(appendonly="yes")
    if appendonly == "no":
        with server.connect() as connection:
            assert digest(connection) == saved


@EVERY_MODE
def test_a_sealed_backup_outlives_the_server(start_server, restore, appendonly):
    server = start_server(options={"appendonly": appendonly})
    with server.connect() as connection:
        begin(connection)
        run_commands(connection)
        connection.call("BACKUP", "SEAL")
        at_seal, sealed, files = digest(connection), status(connection), listed(connection)
    server.restart(crash=True)
    with server.connect() as connection:
        assert status(connection) == sealed and listed(connection) == files
        assert restored_digest(restore, server) == at_seal
        assert connection.call("BACKUP", "CLEANUP") == b"OK"
        assert backup_files(server) == []


@EVERY_MODE
@pytest.mark.parametrize("state", ["snapshotting", "incrementing"])
def test_a_server_ends_during_a_backup(start_server, appendonly, state):
    server = start_server(options={"appendonly": appendonly, "save": "3600 1"})
    with server.connect() as connection:
        slow_down(connection, keys=10)
        assert connection.call("BACKUP", "START") == b"OK"
        until_state(connection, state)
        connection.call("SET", "since", "1")
        before = digest(connection)
    server.terminate()
    assert "The backup failed: the server ended" in server.log_text()
    assert backup_files(server) == []
    server.start()
    with server.connect() as connection:
        assert digest(connection) == before and status(connection)["state"] == "idle"


def test_a_sealed_backup_is_removed_after_its_time(start_server):
    server = start_server()
    with server.connect() as connection:
        begin(connection)
        connection.call("BACKUP", "SEAL")
        assert connection.call("CONFIG", "GET", "backup-sealed-ttl")[1] == b"0"
        connection.call("CONFIG", "SET", "backup-sealed-ttl", 1000)
        assert status(connection)["state"] == "sealed"
        connection.call("CONFIG", "SET", "backup-sealed-ttl", 1)
        until_state(connection, "idle")
        assert backup_files(server) == []


@EVERY_MODE
def test_other_data_end_a_backup_of_a_replica(start_server, restore, appendonly):
    primary = start_server()
    server = start_server(options={"appendonly": appendonly})
    with primary.connect() as source, server.connect() as connection:
        source.call("SET", "of", "the primary")
        begin(connection)
        connection.call("REPLICAOF", "127.0.0.1", primary.port)
        until_state(connection, "failed")
        eventually(lambda: connection.call("GET", "of") == b"the primary", "it does not follow")
        until_written(connection)
        begin(connection)
        run_commands(source)
        source.call("WAIT", 1, 0)
        assert connection.call("BACKUP", "SEAL") == b"OK"
        assert restored_digest(restore, server) == digest(connection) == digest(source)


def test_writers_go_on_while_a_backup_is_sealed(start_server):
    """A reply of BACKUP SEAL comes when all is durable; commands that come meanwhile do not wait for it."""
    server = start_server(options={"appendonly": "no"})
    done = threading.Event()
    with server.connect() as connection, server.connect() as other:
        begin(connection)

        def seal():
            assert connection.call("BACKUP", "SEAL") == b"OK"
            done.set()

        thread = threading.Thread(target=seal)
        thread.start()
        while not done.is_set():
            other.call("INCR", "n")
        thread.join()
        increment = next(path for path in listed(other) if path.endswith(".incr.aof"))
        counted = [words for words in words_of(server.directory / BACKUPS / increment.rsplit("/", 1)[1])]
        assert len([words for words in counted if words[0].lower() == b"incr"]) <= int(other.call("GET", "n"))


def test_other_names_and_a_base_of_commands(start_server, tmp_path):
    options = {"appendonly": "yes", "aof-use-rdb-preamble": "no", "appendfilename": "my log.aof"}
    server = start_server(options=options | {"backupdirname": "my backups"})
    with server.connect() as connection:
        run_commands(connection)
        begin(connection)
        run_commands(connection)
        assert connection.call("BACKUP", "SEAL") == b"OK"
        at_seal = digest(connection)
        assert listed(connection)[0].endswith("/my backups/my log.aof.2.base.aof")
    for kind in ("subject", "oracle"):
        folder = tmp_path / kind
        shutil.copytree(server.directory / "my backups", folder / FOLDER)
        restored = start_server(kind, directory=folder, options=options)
        with restored.connect() as connection:
            assert digest(connection) == at_seal
        restored.kill()


def disturb(connection, random, stop):
    """A client that does whatever has to do with files, in any order, until it is told to stop."""
    actions = [
        "BACKUP START", "BACKUP START", "BACKUP START", "BACKUP ABORT", "BGREWRITEAOF", "BGSAVE", "BACKUP LIST",
        "CONFIG SET appendonly no", "CONFIG SET appendonly yes", "CONFIG SET appendfsync always",
        "CONFIG SET appendfsync everysec", "BACKUP STATUS",
    ]  # fmt: skip
    while not stop.is_set():
        connection(*random.choice(actions).split(" "))
        time.sleep(random.random() / 50)


def test_whatever_happens_a_sealed_backup_is_whole(start_server, restore):
    server = start_server(options={"appendonly": "yes"}, workers=2)
    progress = [{"sent": 0, "answered": 0} for _ in range(2)]
    crowd = Crowd(server)
    for number in range(2):
        crowd.start(write_units(number, progress), None)
    for number in range(2):
        crowd.start(disturb, generator("backup", number))
    with server.connect() as connection:
        sealed = 0
        while sealed < 12 and not crowd.failures:
            before = [client["answered"] for client in progress]
            reply = connection("BACKUP", "SEAL")
            if reply.is_error:
                assert reply.text().startswith("ERR "), reply
                continue
            sealed += 1
            check_units(restore(server), before, [client["sent"] for client in progress])
            assert connection.call("BACKUP", "CLEANUP") == b"OK"
        crowd.stop.set()
        crowd.join()
        connection("BACKUP", "ABORT")
        connection("BACKUP", "CLEANUP")
        connection.call("CONFIG", "SET", "appendonly", "yes")
        eventually(lambda: (server.directory / FOLDER / f"{NAME}.manifest").exists(), "it is not on")
        until_written(connection)
        begin(connection)
        assert connection.call("BACKUP", "SEAL") == b"OK"
        at_seal = digest(connection)
        assert restored_digest(restore, server) == at_seal
    server.restart(crash=True, appendonly="yes")
    with server.connect() as connection:
        assert digest(connection) == at_seal
