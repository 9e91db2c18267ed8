"""The append-only file: what is in it, when it is durable, rewriting, switching, and Redis's files here and
ours there."""

import os
import pathlib
import re
import resource
import shutil
import socket
import threading
import time

import pytest

from support.resp import Closed, encode
from support.servers import subject_is_oracle
from support.waiting import eventually, persistence, until_written

FOLDER = "appendonlydir"
NAME = "appendonly.aof"
OURS_ONLY = pytest.mark.skipif(subject_is_oracle(), reason="redis-server does this otherwise")

# Commands over all types, in two databases, whose outcome depends on chance, time or state.
COMMANDS = [
    "SET plain value", "SET relative v EX 1000", "SETEX another 1000 v", "INCRBYFLOAT number 1.1", "APPEND plain more",
    "INCR counter", "GETEX plain EX 500", "GETDEL another", "MSET a 1 b 2 c 3", "EXPIRE a 1000", "SETRANGE r 5 x",
    "RPUSH list 1 2 3 4 5", "LMOVE list list2 LEFT RIGHT", "LPOP list 2", "LINSERT list2 BEFORE 1 0",
    "SADD set 1 2 3 4 5 6 7 8 9", "SPOP set", "SPOP set 3", "SRANDMEMBER set 2", "SADD text a b c d", "SPOP text 2",
    "ZADD z 1 a 2 b 3 c 4 d", "ZPOPMIN z", "ZINCRBY z 1.5 b", "ZRANGESTORE zz z 0 -1",
    "HSET h f 1 g 2 h 3", "HINCRBYFLOAT h f 0.5", "HEXPIRE h 1000 FIELDS 1 g", "HGETDEL h FIELDS 1 h",
    "XADD s * a 1", "XADD s 99999999999999-* b 2", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
    "XAUTOCLAIM s g d 0 0", "XTRIM s MAXLEN ~ 1", "PFADD hll a b c", "GEOADD geo 13.4 52.5 berlin", "SETBIT bits 7 1",
    "COPY plain copy", "RENAME c renamed", "MOVE b 1", "SORT set ALPHA STORE sorted", "OBJECT FREQ none",
    "SELECT 1", "SET other 1", "LPUSH list x", "SWAPDB 1 2", "SELECT 0", "MULTI", "SET in transaction", "SPOP set",
    "EXEC", "EVAL return{redis.call('set','by','script'),redis.call('spop','text')} 0",
]  # fmt: skip


def logged_server(start_server, kind="subject", **options):
    given = {"appendonly": "yes", "appendfsync": "always"}
    given |= {name.replace("_", "-"): value for name, value in options.items()}
    return start_server(kind, options=given)


def run_commands(connection):
    for command in COMMANDS:
        connection(*command.split(" ", 1)[:1] if command in ("MULTI", "EXEC") else split(command))


def split(command):
    words = command.split(" ")
    return words if words[0] != "EVAL" else [words[0], " ".join(words[1:-1]), words[-1]]


def digest(connection):
    return connection.call("DEBUG", "DIGEST")


def files(server):
    folder = server.directory / FOLDER
    return sorted(path.name for path in folder.iterdir())


def manifest(server):
    return (server.directory / FOLDER / f"{NAME}.manifest").read_text()


def increment(server):
    """The file that is written to."""
    names = [line.split()[1] for line in manifest(server).splitlines() if " type i" in line]
    return server.directory / FOLDER / names[-1]


def words_of(path):
    """The commands of a file, as lists of words; notes as they are, but for positions and preallocated bytes."""
    data, at, found = path.read_bytes(), 0, []

    def line():
        nonlocal at
        end = data.index(b"\n", at)
        start, at = at, end + 1
        return data[start:end].removesuffix(b"\r")

    while at < len(data):
        head = line()
        if head.startswith(b"#"):
            if head != b"#" and not head.startswith((b"#RESERVED:", b"#SUM:", b"#END:", b"#REPL:")):
                found.append(head)
            continue
        words = []
        for _ in range(int(head[1:])):
            length = int(line()[1:])
            words.append(data[at : at + length])
            at += length + 2
        found.append(words)
    return found


def without_preallocation(data):
    return re.sub(rb"(#\n)+#END:[0-9a-f]{8}\n\Z", b"", data)


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_what_was_there_is_there_again(start_server, policy):
    server = logged_server(start_server, appendfsync=policy)
    with server.connect() as connection:
        run_commands(connection)
        before = digest(connection)
    server.restart()
    with server.connect() as connection:
        assert digest(connection) == before
        assert persistence(connection)["aof_enabled"] == "1"


def test_after_a_crash_nothing_acknowledged_is_missing(start_server):
    server = logged_server(start_server)
    with server.connect() as connection:
        run_commands(connection)
        before = digest(connection)
    server.restart(crash=True)
    with server.connect() as connection:
        assert digest(connection) == before


def test_the_log_holds_what_redis_logs(start_server):
    """The same commands leave the same words in the log, but for times, chance, and letters' case."""
    logs = []
    for kind in ("subject", "oracle"):
        server = logged_server(start_server, kind, **{"appendfsync": "always"})
        with server.connect() as connection:
            commands = [
                "SET k v", "SET k w EX 100", "INCR n", "GETDEL k", "SADD s 1", "SPOP s", "RPUSH l a b",
                "LPOP l 1", "EXPIRE l 100", "PERSIST l", "SELECT 3", "SET k v", "MULTI", "SET only 1", "EXEC",
                "MULTI", "SET one 1", "SET two 2", "EXEC", "DEL nothing", "GET k", "FLUSHDB", "FLUSHALL",
                "ZADD z 1 a", "ZPOPMIN z", "PFADD p a", "PFCOUNT p", "SWAPDB 0 1", "XADD x 1-1 a b",
                "XGROUP CREATE x g 0", "XGROUP CREATECONSUMER x g c", "XDEL x 1-1",
            ]  # fmt: skip
            for command in commands:
                connection(*command.split())
            connection("EVAL", "redis.call('set','a',1) redis.call('set','b',1)", 0)
            connection("EVAL", "redis.call('set','a',1)", 0)
            connection("EVAL", "return redis.call('get','a')", 0)
        logs.append([[mask(word) for word in command] for command in words_of(increment(server))])
    assert select_first(logs[0]) == select_first(logs[1])


def mask(word):
    return b"<time>" if len(word) == 13 and word.isdigit() else word.lower()


def select_first(commands):
    """The commands with SELECT before MULTI, where redis-server has it behind."""
    commands = list(commands)
    for at in range(len(commands) - 1):
        if commands[at] == [b"multi"] and commands[at + 1][0] == b"select":
            commands[at], commands[at + 1] = commands[at + 1], commands[at]
    return commands


@pytest.mark.parametrize("writer, reader", [("oracle", "subject"), ("subject", "oracle")])
@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_files_are_exchanged(start_server, writer, reader, preamble):
    source = logged_server(start_server, writer, aof_use_rdb_preamble=preamble)
    target = start_server(reader)
    with source.connect() as connection:
        run_commands(connection)
        connection.call("BGREWRITEAOF")
        until_written(connection)
        run_commands(connection)
        connection.call("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 7 end)")
        before = digest(connection)
    source.terminate()
    target.terminate()
    shutil.copytree(source.directory / FOLDER, target.directory / FOLDER)
    target.options["appendonly"] = "yes"
    target.start()
    with target.connect() as connection:
        assert digest(connection) == before
        assert connection.call("FCALL", "f", 0) == 7


def test_a_file_with_preallocation_goes_from_server_to_server(start_server):
    """Whoever is killed leaves a file that the next one goes on with, whether that knows of the room or not."""
    subject = logged_server(start_server)
    oracle = logged_server(start_server, "oracle")
    oracle.terminate()
    server, other = subject, oracle
    for step in range(6):
        with server.connect() as connection:
            run_commands(connection)
            connection.call("SET", f"step {step}", "x" * 700 * step)
            before = digest(connection)
        server.kill()
        # Every second time the same one starts again first.
        if step % 2 == 0:
            server.start()
            with server.connect() as connection:
                assert digest(connection) == before
                connection.call("SET", "again", step)
                before = digest(connection)
            server.kill()
        shutil.rmtree(other.directory / FOLDER)
        shutil.copytree(server.directory / FOLDER, other.directory / FOLDER)
        server, other = other, server
        server.start()
        with server.connect() as connection:
            assert digest(connection) == before


@OURS_ONLY
def test_bytes_are_preallocated_with_always_and_truncated_at_the_end(start_server):
    server = logged_server(start_server, aof_reserve_size="64kb")
    with server.connect() as connection:
        connection.call("SET", "a", "1")
        assert increment(server).stat().st_size > 65536
        assert re.search(rb"#\n#\n#END:[0-9a-f]{8}\n\Z", increment(server).read_bytes())
        assert int(persistence(connection)["aof_current_size"]) < 1000
        # What comes next with another policy goes right behind what is there.
        connection.call("CONFIG", "SET", "appendfsync", "everysec")
        connection.call("SET", "b", "2")
        eventually(lambda: increment(server).stat().st_size < 1000, "what was preallocated is not truncated")
        connection.call("CONFIG", "SET", "appendfsync", "always", "aof-reserve-size", "0")
        connection.call("SET", "c", "3")
        assert increment(server).stat().st_size < 1000
        connection.call("CONFIG", "SET", "aof-reserve-size", "10kb")
        for step in range(30):
            connection.call("SET", f"key {step}", "x" * 5000)
        before = digest(connection)
    server.terminate()
    assert b"#\n#\n" not in increment(server).read_bytes()
    server.start()
    with server.connect() as connection:
        assert digest(connection) == before
        assert connection.call("MGET", "a", "b", "c") == [b"1", b"2", b"3"]


@OURS_ONLY
def test_a_group_that_was_being_written_is_dropped(start_server):
    server = logged_server(start_server)
    with server.connect() as connection:
        connection.call("SET", "whole", "1")
        before = increment(server).read_bytes()
        connection.call("SET", "torn", "x" * 3000)
    server.kill()
    path = increment(server)
    after = path.read_bytes()
    start = next(at for at in range(len(after)) if before[at] != after[at])
    # The power went when the second half was not written yet.
    path.write_bytes(after[: start + 1600] + before[start + 1600 :])
    server.options["aof-load-truncated"] = "no"
    server.start(wait=False)
    assert server.wait_exit() == 1
    assert "a frame that was being written" in server.log_tail(5)
    server.options["aof-load-truncated"] = "yes"
    server.start()
    with server.connect() as connection:
        assert connection.call("KEYS", "*") == [b"whole"]
        connection.call("SET", "next", "2")
    server.restart(crash=True)
    with server.connect() as connection:
        assert sorted(connection.call("KEYS", "*")) == [b"next", b"whole"]


def test_what_sorting_a_set_stores_is_stored_again(start_server):
    server = logged_server(start_server, appendfsync="always")
    with server.connect() as connection:
        connection.call("SADD", "set", *(f"m{number}" for number in range(600)))
        for number in range(0, 600, 3):
            connection.call("SREM", "set", f"m{number}")
        connection.call("SET", "weight_m1", "a")
        connection.call("SORT", "set", "BY", "weight_*", "ALPHA", "LIMIT", 0, 5, "STORE", "absent weights")
        connection.call("SORT", "set", "BY", "weight_*", "ALPHA", "DESC", "LIMIT", 0, 5, "STORE", "descending")
        script = "return redis.call('sort', KEYS[1], 'by', 'none_*', 'alpha', 'store', KEYS[2])"
        connection.call("EVAL", script, 2, "set", "all")
        before = digest(connection)
    server.restart(crash=True)
    with server.connect() as connection:
        assert digest(connection) == before


def test_an_old_file_is_taken_over(start_server):
    server = start_server()
    server.terminate()
    old = server.directory / NAME
    old.write_bytes(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n")
    server.options["appendonly"] = "yes"
    server.start()
    with server.connect() as connection:
        assert connection.call("GET", "k") == b"v"
        connection.call("SET", "more", "1")
    assert not old.exists()
    assert manifest(server).splitlines()[0] == f"file {NAME} seq 1 type b"
    server.restart()
    with server.connect() as connection:
        assert connection.call("MGET", "k", "more") == [b"v", b"1"]


@pytest.mark.parametrize("keeps", [False, True])
def test_files_that_a_rewrite_has_left_go_at_the_start(start_server, keeps):
    server = logged_server(start_server, **({"aof-disable-auto-gc": "yes"} if keeps else {}))
    with server.connect() as connection:
        connection.call("SET", "k", "v")
    server.terminate()
    left = [f"{NAME}.7.base.rdb", f"{NAME}.7.incr.aof"]
    listed = manifest(server)
    for name in left:
        (server.directory / FOLDER / name).write_bytes(b"left")
    former = "".join(f"file {name} seq 7 type h\n" for name in left)
    (server.directory / FOLDER / f"{NAME}.manifest").write_text(former + listed)
    server.start()
    with server.connect() as connection:
        assert connection.call("GET", "k") == b"v"
    assert [name for name in left if name in files(server)] == (left if keeps else [])
    assert (" type h" in manifest(server)) == keeps


def test_rewriting_replaces_the_files(start_server):
    server = logged_server(start_server)
    with server.connect() as connection:
        assert files(server) == [f"{NAME}.1.base.rdb", f"{NAME}.1.incr.aof", f"{NAME}.manifest"]
        for number in range(200):
            connection.call("SET", "k", number)
        size = int(persistence(connection)["aof_current_size"])
        assert connection.call("BGREWRITEAOF") == b"Background append only file rewriting started"
        state = until_written(connection)
        assert state["aof_last_bgrewrite_status"] == "ok" and state["aof_rewrites"] == "1"
        assert int(state["aof_current_size"]) < size
        assert int(state["aof_base_size"]) == int(state["aof_current_size"])
        eventually(
            lambda: files(server) == [f"{NAME}.2.base.rdb", f"{NAME}.2.incr.aof", f"{NAME}.manifest"],
            "the former files stay",
        )
        connection.call("SET", "after", "1")
        before = digest(connection)
    server.restart(crash=True)
    with server.connect() as connection:
        assert digest(connection) == before


def test_a_base_of_commands(start_server):
    """What has no short form in commands included: expiries of fields, empty streams, groups, libraries."""
    server = logged_server(start_server, aof_use_rdb_preamble="no")
    with server.connect() as connection:
        run_commands(connection)
        for command in ["XADD empty 5-5 a b", "XDEL empty 5-5", "XGROUP CREATE empty g 0-0", "SET t v PX 1000000",
                        "XADD many * a b", "XGROUP CREATE many g 0", "XREADGROUP GROUP g c STREAMS many >",
                        "XGROUP CREATECONSUMER many g idle"]:  # fmt: skip
            connection.call(*command.split())
        for kind, name in (("RPUSH", "biglist"), ("SADD", "bigset")):
            connection.call(kind, name, *range(1000))
        connection.call("ZADD", "bigz", *[word for number in range(1000) for word in (number / 7, f"m{number}")])
        connection.call("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 7 end)")
        connection.call("BGREWRITEAOF")
        assert until_written(connection)["aof_last_bgrewrite_status"] == "ok"
        before = digest(connection)
    base = server.directory / FOLDER / f"{NAME}.2.base.aof"
    assert base.read_bytes().startswith(b"*3\r\n$8\r\nFUNCTION\r\n")
    server.restart()
    with server.connect() as connection:
        assert digest(connection) == before
        assert connection.call("FCALL", "f", 0) == 7


@OURS_ONLY
def test_the_first_base_has_the_form_that_is_configured(start_server):
    server = start_server(options={"aof-use-rdb-preamble": "no"})
    with server.connect() as connection:
        run_commands(connection)
        connection.call("SAVE")
        before = digest(connection)
    server.restart(appendonly="yes")
    base = server.directory / FOLDER / f"{NAME}.1.base.aof"
    assert base.read_bytes().startswith(b"*")
    (server.directory / "dump.rdb").unlink()
    server.restart()
    with server.connect() as connection:
        assert digest(connection) == before


def test_renamed_commands_do_not_prevent_the_load(start_server):
    if subject_is_oracle():
        pytest.skip("redis-server does not start then")
    lines = ['rename-command DEL ""', "rename-command SREM take-out"]
    server = start_server(options={"appendonly": "yes", "appendfsync": "always"}, config_lines=lines)
    with server.connect() as connection:
        connection.call("SADD", "s", "a", "b")
        connection.call("SPOP", "s")
        connection.call("GETSET", "k", "v")
        connection.call("GETDEL", "k")
        before = digest(connection)
    server.kill()
    server.start(config_lines=lines)
    with server.connect() as connection:
        assert digest(connection) == before


def test_rewriting_under_load_loses_nothing(start_server):
    server = logged_server(start_server, appendfsync="everysec")
    stop = threading.Event()

    def write(number):
        with server.connect() as connection:
            turn = 0
            while not stop.is_set():
                turn += 1
                counter, list_key = f"c{number}:{turn % 50}", f"l{number}"
                commands = [["INCR", counter], ["RPUSH", list_key, turn], ["SADD", "s", turn, -turn]]
                connection.pipeline([*commands, ["SPOP", "s"], ["LPOP", f"l{number}"]])

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    with server.connect() as connection:
        connection.call("DEBUG", "POPULATE", 20000)
        [writer.start() for writer in writers]
        try:
            for _ in range(4):
                connection.call("BGREWRITEAOF")
                until_written(connection)
        finally:
            stop.set()
            [writer.join() for writer in writers]
        assert persistence(connection)["aof_last_bgrewrite_status"] == "ok"
        before = digest(connection)
    server.restart()
    with server.connect() as connection:
        assert digest(connection) == before


def test_switching_on_and_off(start_server):
    server = start_server()
    with server.connect() as connection:
        run_commands(connection)
        connection.call("CONFIG", "SET", "appendonly", "yes")
        assert until_written(connection)["aof_enabled"] == "1"
        connection.call("SET", "while", "on")
        before = digest(connection)
    server.options["appendonly"] = "yes"
    server.restart()
    with server.connect() as connection:
        assert digest(connection) == before
        connection.call("CONFIG", "SET", "appendonly", "no")
        assert persistence(connection)["aof_enabled"] == "0"
        connection.call("SET", "while", "off")
        connection.call("CONFIG", "SET", "appendonly", "yes")
        until_written(connection)
        connection.call("SET", "and", "on")
        before = digest(connection)
    server.restart()
    with server.connect() as connection:
        assert digest(connection) == before


def test_switching_within_a_transaction(start_server):
    server = logged_server(start_server)
    with server.connect() as connection:
        replies = connection.pipeline([["MULTI"], ["SET", "k", "1"], ["CONFIG", "SET", "appendonly", "no"], ["EXEC"]])
        assert not replies[-1].is_error
        eventually(lambda: "aof_current_size" not in persistence(connection), "it stays on")
        connection.pipeline([["MULTI"], ["SET", "k", "2"], ["CONFIG", "SET", "appendonly", "yes"], ["EXEC"]])
        until_written(connection)
        assert "aof_current_size" in persistence(connection)


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_switching_it_off_ends_the_rewrite_under_way(preamble, start_server):
    server = logged_server(start_server, aof_use_rdb_preamble=preamble)
    with server.connect() as connection:
        connection.call("SET", "key", "value")
        connection.call("CONFIG", "SET", "rdb-key-save-delay", "600000000")
        connection.call("BGREWRITEAOF")
        connection.call("CONFIG", "SET", "rdb-key-save-delay", "0", "appendonly", "no")
        assert connection.call("BGREWRITEAOF") == b"Background append only file rewriting started"
        assert until_written(connection)["aof_last_bgrewrite_status"] == "ok"
        assert "Killing running AOF rewrite child" in server.log_text()
        assert not [*server.directory.rglob("temp-rewriteaof*")]
        connection.call("CONFIG", "SET", "appendonly", "yes")
        assert until_written(connection)["aof_last_bgrewrite_status"] == "ok"
        before = digest(connection)
    server.restart()
    with server.connect() as connection:
        assert digest(connection) == before


def test_it_is_rewritten_when_it_has_grown(start_server):
    options = {"auto-aof-rewrite-percentage": 100, "auto-aof-rewrite-min-size": 4096}
    server = logged_server(start_server, appendfsync="everysec", **options)
    with server.connect() as connection:
        for _ in range(20):
            connection.pipeline([["SET", "k", "x" * 200]] * 50)
        eventually(lambda: int(persistence(connection)["aof_rewrites"]) >= 1, "it is not rewritten")
        assert until_written(connection)["aof_last_bgrewrite_status"] == "ok"
        assert f"{NAME}.1.base.rdb" not in files(server)


def test_rewriting_and_saving_wait_for_each_other(start_server):
    server = logged_server(start_server)
    with server.connect() as connection:
        assert connection.call("BGREWRITEAOF").startswith(b"Background append only")
        until_written(connection)
        replies = connection.pipeline([["MULTI"], ["BGREWRITEAOF"], ["EXEC"]])
        assert "scheduled" in str(replies[-1])
        until_written(connection)


def test_expired_and_evicted_keys_go_from_the_log_too(start_server):
    server = logged_server(start_server)
    with server.connect() as connection:
        connection.call("SET", "lazy", "1", "PX", 1)
        connection.call("HSET", "h", "f", "1", "g", "2")
        connection.call("HPEXPIRE", "h", 1, "FIELDS", 1, "f")
        eventually(lambda: connection.call("EXISTS", "lazy") == 0, "it does not expire")
        eventually(lambda: b"expired_subkeys:1" in connection.call("INFO", "stats"), "the field does not expire")
        connection.call("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        connection.pipeline([["SET", f"k{number}", "x" * 1000] for number in range(1000)])
        connection.call("CONFIG", "SET", "maxmemory", 1)
        connection("SET", "more", "1")
        eventually(lambda: connection.call("DBSIZE") == 0, "nothing is evicted")
    logged = words_of(increment(server))
    assert [b"DEL", b"lazy"] in logged and [b"HDEL", b"h", b"f"] in logged
    assert sum(words[0] in (b"DEL", b"UNLINK") for words in logged) > 1000
    server.restart(**{"maxmemory": 0})
    with server.connect() as connection:
        assert connection.call("DBSIZE") == 0


def test_what_has_expired_when_it_is_loaded(start_server):
    """A key that had an expiry when it was changed keeps it, however late the log is loaded."""
    server = logged_server(start_server)
    with server.connect() as connection:
        connection.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        connection.pipeline(
            [
                ["SET", "n", 5, "PX", 500],
                ["INCR", "n"],
                ["HSET", "h", "f", 1],
                ["HPEXPIRE", "h", 500, "FIELDS", 1, "f"],
                ["HINCRBY", "h", "f", 1],
                ["SET", "kept", 1],
            ]
        )
    server.kill()
    time.sleep(0.52)
    server.start()
    with server.connect() as connection:
        assert connection.call("EXISTS", "n") == 0 and connection.call("EXISTS", "h") == 0
        assert connection.call("GET", "kept") == b"1"


def test_served_clients_are_logged_where_they_are_served(start_server):
    server = logged_server(start_server)
    with server.connect() as waiting, server.connect() as connection:
        waiting.send("BLPOP", "q", 0)
        eventually(lambda: b"blocked_clients:1" in connection.call("INFO", "clients"), "nobody waits")
        connection.call("RPUSH", "q", "a", "b")
        waiting.read()
        assert connection.call("LRANGE", "q", 0, -1) == [b"b"]
    logged = [words for words in words_of(increment(server)) if words[0] != b"SELECT"]
    assert [[word.lower() for word in words] for words in logged[-4:]] == [
        [b"multi"], [b"rpush", b"q", b"a", b"b"], [b"lpop", b"q"], [b"exec"],
    ]  # fmt: skip


@pytest.mark.parametrize("lazy", ["no", "yes"])
def test_keys_freed_in_the_background_are_logged_as_such(lazy, start_server):
    logged = []
    for kind in ("oracle", "subject"):
        settings = {f"lazyfree_lazy_{name}": lazy for name in ("expire", "eviction", "server_del")}
        server = logged_server(start_server, kind, **settings)
        with server.connect() as connection:
            for command in [
                "RPUSH list 1", "EXPIRE list -1", "SADD set 1 2", "SPOP set 5", "SET a v", "GETEX a PXAT 1",
                "SET b v", "GETDEL b", "SET c v PX 10",
            ]:  # fmt: skip
                connection.call(*command.split())
            eventually(lambda: connection.call("EXISTS", "c") == 0, "it does not expire")
            connection.call("SET", "d", "v")
            connection.call("RESTORE", "d", 1, connection.call("DUMP", "d"), "REPLACE", "ABSTTL")
            connection.call("SET", "e", "v")
            connection.call("CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", "1")
            eventually(lambda: connection.call("DBSIZE") == 0, "it is not evicted")
        removals = [words for words in words_of(increment(server)) if words[0].upper() in (b"DEL", b"UNLINK")]
        logged.append(removals)
    assert logged[0] == logged[1] and len(logged[0]) == 7


def test_half_a_command_or_transaction_at_the_end(start_server):
    server = logged_server(start_server)
    with server.connect() as connection:
        connection.call("SET", "whole", "1")
    server.kill()
    path, whole = increment(server), without_preallocation(increment(server).read_bytes())
    logged = words_of(path)
    half_command = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1"
    for tail in (half_command, b"*1\r\n$5\r\nMULTI\r\n" + half_command + b"\r\nv\r\n"):
        path.write_bytes(whole + tail)
        server.start()
        with server.connect() as connection:
            assert connection.call("KEYS", "*") == [b"whole"]
        server.kill()
        assert words_of(path) == logged
    path.write_bytes(whole + tail)
    server.options["aof-load-truncated"] = "no"
    server.start(wait=False)
    assert server.wait_exit() == 1
    assert path.read_bytes() == whole + tail


@OURS_ONLY
def test_damage_stops_the_start_and_names_the_repair(start_server):
    server = logged_server(start_server)
    with server.connect() as connection:
        connection.call("SET", "k", "1")
    server.kill()
    path = increment(server)
    whole = path.read_bytes()
    for damaged in (b"garbage" + whole, whole + b"*1\r\n$7\r\nunknown\r\n", whole + b"*2\r\n$3\r\nSET\r\n$1\r\nk\r\n"):
        path.write_bytes(damaged)
        server.start(wait=False)
        assert server.wait_exit() == 1
        assert "mantissa check aof" in server.log_tail(5)
        assert path.read_bytes() == damaged
    base = server.directory / FOLDER / f"{NAME}.1.base.rdb"
    path.write_bytes(whole)
    base.rename(base.with_suffix(".away"))
    server.start(wait=False)
    assert server.wait_exit() == 1
    assert "does not exist" in server.log_tail(5)


@OURS_ONLY
def test_a_dump_is_loaded_where_there_is_no_log_yet(start_server):
    server = start_server()
    with server.connect() as connection:
        connection.call("SET", "k", "1")
        connection.call("SAVE")
    server.options["appendonly"] = "yes"
    server.restart()
    with server.connect() as connection:
        assert connection.call("GET", "k") == b"1"
    server.restart()
    with server.connect() as connection:
        assert connection.call("GET", "k") == b"1"


def test_the_time_is_noted(start_server):
    server = logged_server(start_server, aof_timestamp_enabled="yes")
    began = int(time.time())
    with server.connect() as connection:
        connection.call("SET", "k", "1")
        connection.call("SET", "k", "2")
    lines = [int(line[4:]) for line in words_of(increment(server)) if isinstance(line, bytes)]
    assert lines and began <= lines[0] <= time.time()
    server.restart()
    with server.connect() as connection:
        assert connection.call("GET", "k") == b"2"


def test_functions_are_logged(start_server):
    server = logged_server(start_server)
    code = "#!lua name=%s\nredis.register_function('%s', function() return 1 end)"
    with server.connect() as connection:
        connection.call("FUNCTION", "LOAD", code % ("a", "a"))
        payload = connection.call("FUNCTION", "DUMP")
        connection.call("FUNCTION", "FLUSH")
        connection.call("FUNCTION", "RESTORE", payload)
        connection.call("FUNCTION", "LOAD", code % ("b", "b"))
        connection.call("FUNCTION", "LOAD", "REPLACE", code % ("b", "c"))
        connection.call("FUNCTION", "DELETE", "a")
        before = connection.call("FUNCTION", "DUMP")
    server.restart()
    with server.connect() as connection:
        assert connection.call("FUNCTION", "DUMP") == before


def test_replies_keep_their_order_while_they_wait(start_server):
    """Pipelines of reads and writes on many connections, with everything made durable before it is told."""
    server = logged_server(start_server)

    def run(number, failures):
        with server.connect() as connection:
            for turn in range(30):
                key = f"k{number}"
                other = f"k{number + 1}"
                commands = [["SET", key, turn], ["GET", key], ["PING"], ["GET", other], ["INCR", key], ["GET", key]]
                replies = connection.pipeline(commands)
                seen = [replies[at].value for at in (0, 1, 2, 4, 5)]
                if seen != [b"OK", b"%d" % turn, b"PONG", b"%d" % (turn + 1), b"%d" % (turn + 1)]:
                    failures.append((number, turn, seen))

    failures = []
    threads = [threading.Thread(target=run, args=(number, failures)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures
    with server.connect() as connection:
        connection.send("SET", "last", "1")
        connection.send("QUIT")
        assert connection.read().value == b"OK" and connection.read().value == b"OK"


@pytest.fixture
def fillable(start_server):
    """A server that logs, whose disk may fill up: see `limit_file_bytes`."""
    return logged_server(start_server, appendfsync="everysec")


def limit_file_bytes(server, limit):
    """A limit on the length of files, `None` for none, stands for the end of the disk's room."""
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard if limit is None else limit, hard))


@OURS_ONLY
def test_a_full_disk_refuses_writes_until_there_is_room(fillable):
    """Who waits for a write that is in no file is disconnected and told nothing."""
    server = fillable
    with server.connect() as connection, server.connect() as writer:
        connection.call("SET", "k", "before")
        connection.call("SET", "brief", "x", "PX", 1)
        eventually(lambda: persistence(connection)["aof_buffer_length"] == "0", "it is not written")
        size = os.path.getsize(increment(server))
        limit_file_bytes(server, size + 10)
        with pytest.raises(Closed):
            writer("SET", "k", "x" * 100)
        assert persistence(connection)["aof_last_write_status"] == "err"
        # The removal of an expired key is in no file either, and keeps no reader waiting.
        assert connection.call("GET", "brief") is None and connection.call("DBSIZE") == 1
        refusal = connection("SET", "k", "y")
        assert refusal.is_error and refusal.text().startswith("MISCONF Errors writing to the AOF file: ")
        assert connection.call("GET", "k") == b"x" * 100
        assert os.path.getsize(increment(server)) == size
        limit_file_bytes(server, None)
        eventually(lambda: persistence(connection)["aof_last_write_status"] == "ok", "it stays refused")
        connection.call("SET", "k2", "after")
        before = digest(connection)
    server.restart()
    with server.connect() as connection:
        assert digest(connection) == before


@OURS_ONLY
@pytest.mark.parametrize("policy", ["everysec", "no"])
def test_what_was_acknowledged_before_the_disk_was_full_survives_a_kill(start_server, policy):
    server = logged_server(start_server, appendfsync=policy)
    told = [0, 0, 0]

    def write(number):
        with server.connect() as connection:
            for first in range(0, 1_000_000, 100):
                for key in range(first, first + 100):
                    connection.send("SET", f"{number}:{key}", "x" * 200)
                for _ in range(100):
                    try:
                        if connection.read().is_error:
                            return
                    except Closed:
                        return
                    told[number] += 1

    limit_file_bytes(server, 2_000_000)
    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(told))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sum(told) > 1000
    server.restart(crash=True)
    with server.connect() as connection:
        for number, count in enumerate(told):
            keys = [f"{number}:{key}" for key in range(count)]
            assert connection.call("EXISTS", *keys) == count


@OURS_ONLY
def test_an_element_that_is_in_no_file_is_told_to_nobody(fillable):
    server = fillable
    with server.connect() as admin, server.connect() as waiting, server.connect() as writer:
        admin.call("RPUSH", "other", "x")
        waiting.send("BLPOP", "list", 0)
        eventually(lambda: b"blocked_clients:1" in admin.call("INFO", "clients"), "it does not wait")
        limit_file_bytes(server, os.path.getsize(increment(server)))
        with pytest.raises(Closed):
            writer("RPUSH", "list", "x" * 100)
        with pytest.raises(Closed):
            waiting.read()
    server.restart(crash=True)
    with server.connect() as connection:
        assert connection.call("KEYS", "*") == [b"other"]


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_waitaof(start_server, policy):
    server = logged_server(start_server, appendfsync=policy)
    with server.connect() as connection:
        connection.call("SET", "k", "1")
        assert connection.call("WAITAOF", 1, 0, 0) == [1, 0]
        connection.call("SET", "k", "2")
        assert connection("WAITAOF", 0, 1, 20).value[1].value in (0, b"0")
        replies = connection.pipeline([["MULTI"], ["SET", "k", "3"], ["WAITAOF", 1, 0, 0], ["EXEC"]])
        assert not replies[-1].is_error
        connection.call("CONFIG", "SET", "appendonly", "no")
        assert "appendonly is disabled" in connection("WAITAOF", 1, 0, 0).text()


def test_waitaof_ends_with_an_error_when_the_log_is_switched_off(start_server):
    server = logged_server(start_server, appendfsync="no")
    with server.connect() as connection, server.connect() as other:
        connection.call("SET", "k", "1")
        connection.send("WAITAOF", 1, 5, 0)
        waits = lambda: b"blocked_clients:1" in other.call("INFO", "clients")
        eventually(waits, "nobody waits")
        other.call("CONFIG", "SET", "appendonly", "no")
        assert "appendonly is disabled" in connection.read().text()


def test_waitaof_waits_for_a_log_that_has_yet_to_begin(start_server):
    server = start_server("subject", options={"rdb-key-save-delay": 1_000_000, "save": ""})
    with server.connect() as connection:
        connection.call("SET", "k", "1")
        connection.call("BGSAVE")
        connection.call("CONFIG", "SET", "appendonly", "yes", "rdb-key-save-delay", 0)
        connection.call("SET", "k", "2")
        assert persistence(connection)["aof_rewrite_scheduled"] == "1"
        assert connection.call("WAITAOF", 1, 0, 0) == [1, 0]
        assert persistence(connection)["aof_rewrite_scheduled"] == "0"


def test_the_log_is_loaded_while_running(start_server):
    server = logged_server(start_server, appendfsync="everysec")
    with server.connect() as connection:
        run_commands(connection)
        before = digest(connection)
        assert connection.call("DEBUG", "LOADAOF") == b"OK"
        assert digest(connection) == before
        connection.call("SET", "more", "1")
        before = digest(connection)
    server.restart()
    with server.connect() as connection:
        assert digest(connection) == before


@OURS_ONLY
def test_closing_on_a_full_disk_does_not_hang(fillable):
    server = fillable
    with server.connect() as connection, server.connect() as writer:
        connection.call("SET", "k", "before")
        limit_file_bytes(server, os.path.getsize(increment(server)))
        with pytest.raises(Closed):
            writer("SET", "k", "x" * 100)
        assert connection.call("CONFIG", "SET", "appendonly", "no") == b"OK"
        assert connection.call("SET", "k", "y") == b"OK"


def test_paths_of_other_names(start_server):
    server = logged_server(start_server, appendfilename="my log.aof", appenddirname="logs")
    with server.connect() as connection:
        connection.call("SET", "k", "1")
    folder = pathlib.Path(server.directory) / "logs"
    assert (folder / "my log.aof.manifest").read_text().startswith('file "my log.aof.1.base.rdb" seq 1 type b')
    server.restart()
    with server.connect() as connection:
        assert connection.call("GET", "k") == b"1"


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_a_rewrite_after_dir_has_changed_begins_there(start_server, tmp_path, policy):
    server = logged_server(start_server, appendfsync=policy, enable_protected_configs="yes")
    with server.connect() as connection:
        connection.call("SET", "a", 1)
        connection.call("CONFIG", "SET", "dir", str(tmp_path))
        connection.call("SET", "b", 2)
        assert not (tmp_path / FOLDER).exists()
        for value in (3, 4):
            connection.call("BGREWRITEAOF")
            connection.call("SET", "c", value)
            until_written(connection)
            assert persistence(connection)["aof_last_bgrewrite_status"] == "ok"
        connection.call("SET", "d", 5)
        before = digest(connection)
    listed = (tmp_path / FOLDER / f"{NAME}.manifest").read_text().splitlines()
    there = sorted(path.name for path in (tmp_path / FOLDER).iterdir())
    assert there == sorted([f"{NAME}.manifest", *(line.split()[1] for line in listed)])
    server.terminate()
    moved = logged_server(lambda kind, **given: start_server(kind, directory=tmp_path, **given))
    with moved.connect() as connection:
        assert digest(connection) == before
        assert connection.call("MGET", "a", "b", "c", "d") == [b"1", b"2", b"4", b"5"]


@OURS_ONLY
def test_a_rewrite_that_fails_in_a_new_folder_leaves_the_log_where_it_was(start_server, tmp_path):
    server = logged_server(start_server, enable_protected_configs="yes")
    (tmp_path / FOLDER).write_bytes(b"")
    with server.connect() as connection:
        connection.call("SET", "a", 1)
        connection.call("CONFIG", "SET", "dir", str(tmp_path))
        connection.call("BGREWRITEAOF")
        eventually(lambda: persistence(connection)["aof_last_bgrewrite_status"] == "err", "it does not fail")
        connection.call("SET", "b", 2)
        before = digest(connection)
    server.restart(crash=True)
    with server.connect() as connection:
        assert digest(connection) == before


@pytest.mark.parametrize("driver", ["io_uring", "epoll"])
@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_who_has_ended_its_side_gets_its_replies(start_server, driver, policy):
    options = {} if subject_is_oracle() else {"io-driver": driver}
    server = start_server(options={"appendonly": "yes", "appendfsync": policy, **options})
    count = 0
    for commands in [1] * 20 + [1000] * 3:
        with server.connect() as connection:
            connection.send_raw(encode(("INCR", "n")) * commands)
            connection.socket.shutdown(socket.SHUT_WR)
            for _ in range(commands):
                count += 1
                assert connection.read().plain() == count
            with pytest.raises(Closed):
                connection.read()
    with server.connect() as connection:
        connection.send_raw(encode(("INCR", "n")) + encode(("BLPOP", "none", "0")))
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.read().plain() == count + 1
        with pytest.raises(Closed):
            connection.read()
