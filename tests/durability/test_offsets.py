"""The files say where replication stands, so that a restart needs no full synchronisation."""

import re
import shutil
import socket
import subprocess
import threading

import pytest

from durability.test_aof import FOLDER, OURS_ONLY, digest, increment, logged_server, run_commands, words_of
from support.servers import oracle_path
from support.waiting import eventually, until_written

pytestmark = OURS_ONLY
WAYS = pytest.mark.parametrize("crash", [False, True], ids=["terminated", "killed"])


def info(server):
    with server.connect() as connection:
        lines = connection.call("INFO", "replication").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def request(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def restart_and_compare(server, crash):
    """Restarts a primary: it goes on at the same offset of another history. Returns that offset."""
    before = info(server)
    # A history begins at the start, and is noted by the thread that writes.
    files = (server.directory / FOLDER).iterdir
    eventually(lambda: any(before["master_replid"].encode() in file.read_bytes() for file in files()), "no history")
    server.restart(crash=crash)
    after = info(server)
    offset = int(before["master_repl_offset"])
    assert (after["master_replid2"], int(after["second_repl_offset"])) == (before["master_replid"], offset + 1)
    assert after["master_replid"] != before["master_replid"]
    assert int(after["master_repl_offset"]) == offset
    return offset


@WAYS
@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_a_primary_goes_on_at_its_offset(start_server, policy, crash):
    server = logged_server(start_server, appendfsync=policy, aof_timestamp_enabled="yes")
    with server.connect() as connection:
        run_commands(connection)
    first = restart_and_compare(server, crash)
    with server.connect() as connection:
        run_commands(connection)
        connection.call("SELECT", 3)
        connection.call("SET", "k", "v")
        connection.call("BGREWRITEAOF")
        until_written(connection)
        connection.call("SET", "k", "w")
    second = restart_and_compare(server, crash)
    assert first > 1000 and second > first + 1000
    assert restart_and_compare(server, crash) == second


def test_what_is_cut_off_does_not_count(start_server):
    server = logged_server(start_server, appendfsync="everysec")
    with server.connect() as connection:
        run_commands(connection)
        whole = int(info(server)["master_repl_offset"])
        connection.call("MSET", "a", "1", "b", "2")
    server.kill()
    path = increment(server)
    path.write_bytes(path.read_bytes()[:-1])
    server.start()
    assert int(info(server)["second_repl_offset"]) == whole + 1


def test_a_dump_has_the_offset_of_its_cut(start_server):
    server = logged_server(start_server)
    with server.connect() as connection:
        run_commands(connection)
        connection.call("SET", "short", "v", "PX", 1)
        connection.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        connection.call("SET", "short", "v", "PX", 20)
        connection.call("SAVE")
        saved = info(server)
        connection.call("SET", "after", "v")
    server.kill()
    server.options["appendonly"] = "no"
    server.options["repl-backlog-ttl"] = 1
    server.start()
    state = info(server)
    assert state["master_replid2"] == saved["master_replid"]
    assert int(state["second_repl_offset"]) == int(saved["master_repl_offset"]) + 1
    assert state["repl_backlog_active"] == "1"
    with server.connect() as connection:
        # Its expiry is told to replicas.
        eventually(lambda: connection.call("EXISTS", "short") == 0, "it does not expire")
        eventually(
            lambda: int(info(server)["master_repl_offset"]) > int(saved["master_repl_offset"]), "nothing is logged"
        )
        eventually(lambda: info(server)["repl_backlog_active"] == "0", "the backlog is kept")


def test_redis_and_its_tool_skip_the_lines(start_server, tmp_path):
    server = logged_server(start_server, appendfsync="everysec")
    with server.connect() as connection:
        run_commands(connection)
    server.restart()
    with server.connect() as connection:
        connection.call("SELECT", 3)
        connection.call("SET", "k", "v")
        connection.call("BGREWRITEAOF")
        until_written(connection)
        connection.call("APPEND", "k", "w")
    server.restart(crash=True)
    with server.connect() as connection:
        connection.call("SELECT", 3)
        connection.call("APPEND", "k", "x")
        before = digest(connection)
    text = increment(server).read_bytes()
    assert len(re.findall(rb"(?m)^#REPL:[0-9a-f]{40} \d+ (?:-1|\d+)\r$", text)) == 2
    server.kill()
    manifest = increment(server).parent / "appendonly.aof.manifest"
    checked = subprocess.run(["redis-check-aof", manifest], executable=oracle_path(), capture_output=True)
    assert checked.returncode == 0, checked.stdout
    oracle = start_server("oracle")
    oracle.terminate()
    shutil.copytree(server.directory / FOLDER, oracle.directory / FOLDER)
    oracle.options["appendonly"] = "yes"
    oracle.start()
    with oracle.connect() as connection:
        assert digest(connection) == before


def until_in_file(server, text):
    """What a primary sends is applied before it is written."""
    eventually(lambda: text in increment(server).read_bytes(), "the log is not written")


class Primary:
    """Grants every partial synchronisation, and sends what it is told to."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.asked, self.connection = [], None
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as lines:
            while head := lines.readline():
                words = []
                for _ in range(int(head[1:])):
                    length = int(lines.readline()[1:])
                    words.append(lines.read(length + 2)[:-2])
                if words[0] == b"PSYNC":
                    self.connection = connection
                    connection.sendall(b"+CONTINUE\r\n")
                    self.asked.append((words[1].decode(), int(words[2])))
                elif words[:2] != [b"REPLCONF", b"ACK"]:
                    connection.sendall(b"+PONG\r\n" if words == [b"PING"] else b"+OK\r\n")

    def send(self, *requests):
        text = b"".join(request(*words) for words in requests)
        self.connection.sendall(text)
        return len(text)

    def close(self):
        self.listener.close()


@WAYS
@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_a_replica_asks_for_what_follows(start_server, policy, crash):
    server = logged_server(start_server, appendfsync=policy)
    with server.connect() as connection:
        run_commands(connection)
        before = info(server)
        primary = Primary()
        connection.call("REPLICAOF", "127.0.0.1", primary.port)
    identity, offset = before["master_replid"], int(before["master_repl_offset"])
    streams = [
        [[b"SELECT", b"3"], [b"SET", b"k", b"1"], [b"PING"], [b"REPLCONF", b"GETACK", b"*"]],
        [[b"INCR", b"k"], [b"MULTI"], [b"INCR", b"k"], [b"SELECT", b"5"], [b"SET", b"k", b"v"], [b"EXEC"]],
        [[b"APPEND", b"k", b"w"], [b"PING"]],
    ]
    for number, stream in enumerate(streams):
        eventually(lambda: len(primary.asked) > number, "it does not ask")
        assert primary.asked[number] == (identity, offset + 1)
        mark = b"mark%d" % number
        offset += primary.send(*stream, [b"SET", mark, b"v"])
        eventually(lambda: int(info(server)["slave_repl_offset"]) == offset, "the stream is not applied")
        until_in_file(server, mark)
        if number == 1:
            with server.connect() as connection:
                connection.call("BGREWRITEAOF")
                until_written(connection)
        server.restart(crash=crash, replicaof=f"127.0.0.1 {primary.port}")
    eventually(lambda: len(primary.asked) > len(streams), "it does not ask")
    assert primary.asked[-1] == (identity, offset + 1)
    with server.connect() as connection:
        connection.call("SELECT", 3)
        assert connection.call("GET", "k") == b"3"
        connection.call("SELECT", 5)
        assert connection.call("GET", "k") == b"vw"
    primary.close()


def commands_of(server):
    return [words for words in words_of(increment(server)) if isinstance(words, list)]


def test_what_a_primary_says_beside_changes(start_server):
    """A replica's file has all bytes of the stream, redis-server's the changes alone. Both load what it has."""
    options = {"repl-diskless-sync-delay": 0, "repl-ping-replica-period": 1}
    primary = start_server("oracle", options=options)
    follows = {"replicaof": f"127.0.0.1 {primary.port}", "appendfsync": "everysec"}
    ours, theirs = (logged_server(start_server, kind, **follows) for kind in ("subject", "oracle"))

    def is_in_step():
        states = [info(server) for server in (primary, ours, theirs)]
        is_up = all(state.get("master_link_status", "up") == "up" for state in states)
        return is_up and len({state["master_repl_offset"] for state in states}) == 1

    said = {b"PING", b"REPLCONF", b"PUBLISH", b"SPUBLISH"}
    with primary.connect() as connection, ours.connect() as replica, ours.connect() as listener:
        eventually(is_in_step, "they are not in step")
        for server in (ours, theirs):
            with server.connect() as other:
                until_written(other)
        listener.call("SUBSCRIBE", "news")
        run_commands(connection)
        assert connection.call("PUBLISH", "news", "once") == 0
        connection.call("SPUBLISH", "shard", "message")
        connection.call("EVAL", "redis.call('SET', KEYS[1], 1) redis.call('PUBLISH', 'news', 'script')", 1, "scripted")
        assert connection.call("WAIT", 2, 0) == 2
        # redis-server writes PING in small letters.
        has = lambda word: b"\r\n%s\r\n" % word in increment(ours).read_bytes().upper()
        eventually(lambda: all(map(has, said)), "what is said does not come")
        connection.call("SET", "last", "marked")
        for server in (ours, theirs):
            until_in_file(server, b"marked")
        replica.call("REPLICAOF", "NO", "ONE")
        until_in_file(ours, info(ours)["master_replid"].encode())
        found, rival = commands_of(ours), commands_of(theirs)
        assert said <= {words[0].upper() for words in found}
        assert not said & {words[0].upper() for words in rival}
        aside = said | {b"MULTI", b"EXEC", b"SELECT"}
        changes = lambda commands: [words for words in commands if words[0].upper() not in aside]
        assert changes(found) == changes(rival)
        # Where the file says that the stream stands, and what follows, is the offset. A SELECT may precede it that is
        # only in the file.
        text = increment(ours).read_bytes()
        (first, database), *_, (last, _) = re.findall(rb"#REPL:[0-9a-f]{40} (\d+) (-?\d+)\r\n", text)
        stream = re.sub(rb"#REPL:[^\n]*\n", b"", text).removeprefix(request(b"SELECT", database))
        assert int(first) + len(stream) == int(last) == int(info(ours)["master_repl_offset"])
        before = digest(replica)
        messages = [listener.read().plain() for _ in range(2)]
        assert [message[2] for message in messages] == [b"once", b"script"]
        replica.call("DEBUG", "LOADAOF")
        assert digest(replica) == before
        replica.call("PUBLISH", "news", "new")
        assert listener.read().plain()[2] == b"new", "what was said is not said again"
    ours.kill()
    checked = subprocess.run(
        ["redis-check-aof", increment(ours).parent / "appendonly.aof.manifest"],
        executable=oracle_path(),
        capture_output=True,
    )
    assert checked.returncode == 0, checked.stdout
    loader = start_server("oracle")
    loader.terminate()
    shutil.copytree(ours.directory / FOLDER, loader.directory / FOLDER)
    loader.options["appendonly"] = "yes"
    loader.start()
    with loader.connect() as connection:
        assert digest(connection) == before


@WAYS
def test_restarts_of_either_side_need_no_full_sync(start_server, crash):
    """A chain: redis-server, a replica of it, and a replica of that one."""
    primary = start_server("oracle", options={"repl-diskless-sync-delay": 0})
    options = {"replicaof": f"127.0.0.1 {primary.port}", "repl-diskless-sync-delay": 0}
    middle = logged_server(start_server, appendfsync="everysec", **options)
    options["replicaof"] = f"127.0.0.1 {middle.port}"
    last = logged_server(start_server, appendfsync="everysec", **options)

    def is_in_step():
        states = [info(server) for server in (primary, middle, last)]
        return len({state["master_repl_offset"] for state in states}) == 1 and all(
            state.get("master_link_status", "up") == "up" for state in states
        )

    with primary.connect() as connection:
        run_commands(connection)
        eventually(is_in_step, "they are not in step")
        for server in (middle, last):
            with server.connect() as other:
                until_written(other)
        for server in (middle, last):
            server.kill() if crash else server.terminate()
            run_commands(connection)
            mark = f"mark{server.port}"
            connection.call("SET", mark, "v")
            server.start()
            eventually(is_in_step, "they are not in step")
            until_in_file(middle, mark.encode())
        expected = digest(connection)
        stats = connection.call("INFO", "stats")
        assert b"sync_full:1\r\n" in stats
    for server in (middle, last):
        with server.connect() as connection:
            assert digest(connection) == expected
    # The middle one was restarted: what it has sent since is no full synchronisation.
    with middle.connect() as connection:
        assert b"sync_full:0\r\n" in connection.call("INFO", "stats")
