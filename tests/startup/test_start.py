"""Starting as redis-server does: config file, directives on the command line, refusals, log, sockets."""

import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest
import redis

from support.resp import Connection
from support.servers import subject_path
from support.waiting import eventually, persistence


def value(connection, name):
    return connection.call("CONFIG", "GET", name)[1]


def test_the_log_ends_in_ready(start_server):
    server = start_server()
    assert "Ready to accept connections" in server.log_text().splitlines()[-1]


@pytest.mark.parametrize(
    "name, words, shown",
    [
        ("mantissa", ["server", "--help"], "mantissa server [CONFIG-FILE]"),
        ("mantissa", ["server", "-v"], "Redis server v=8.2.3 sha="),
        ("redis-server", ["--version"], "Redis server v=8.2.3 sha="),
        ("valkey-server", ["-h"], "mantissa server [CONFIG-FILE]"),
        ("redis-cli", ["--version"], "redis-cli 8.2.3 (mantissa "),
        ("redis-check-rdb", ["--version"], "redis-check-rdb 8.2.3 (mantissa "),
        ("redis-check-aof", ["-v"], "redis-check-aof 8.2.3 (mantissa "),
        ("valkey-cli", ["-p", "1", "-h"], "--latency-history"),
        ("redis-benchmark", ["--version"], "mantissa"),
    ],
)
def test_it_says_what_it_is_under_every_name(name, words, shown, tmp_path):
    program = tmp_path / name
    program.symlink_to(pathlib.Path(subject_path()).resolve())
    result = subprocess.run([program, *words], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and shown in result.stdout, result


@pytest.mark.parametrize(
    "words, guess",
    [
        (["servr", "--port", "7000"], "mantissa server --port 7000"),
        (["--port", "7000"], "mantissa server --port 7000"),
        (["-p", "7000", "ping"], "mantissa cli -p 7000 ping"),
        (["get", "k"], "mantissa cli get k"),
    ],
)
def test_a_wrong_call_is_one_line_with_a_guess(words, guess):
    result = subprocess.run([subject_path(), *words], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and result.stdout == "" and result.stderr.count("\n") == 1
    assert f"did you mean `{guess}`?" in result.stderr


@pytest.mark.parametrize("words", [["--nosuch"], ["-p"], ["-p", "1", "-n"]])
def test_under_the_name_of_redis_cli_it_refuses_as_that_does(words, tmp_path):
    program = tmp_path / "redis-cli"
    program.symlink_to(pathlib.Path(subject_path()).resolve())
    result = subprocess.run([program, *words], capture_output=True, text=True, timeout=60)
    expected = f"Unrecognized option or bad number of args for: '{words[-1]}'\n"
    assert (result.returncode, result.stdout, result.stderr) == (1, "", expected)
    for pair in (["-2", "-3"], ["-x", "-X", "tag"]):
        result = subprocess.run([program, *pair, "PING"], capture_output=True, text=True, timeout=60)
        assert result.returncode == 1
        assert result.stderr == f"Options {pair[0]} and {pair[1]} are mutually exclusive.\n"


def test_directives_from_file_and_command_line(start_server):
    server = start_server(
        options={
            "maxclients": 77,
            "hash-max-listpack-entries": 5,
            "client-output-buffer-limit": ["pubsub", "1mb", "1mb", "5"],
        },
        config_lines=[
            "# comment",
            "",
            "timeout 33",
            "maxclients 55",
            'notify-keyspace-events "KEA"',
            "databases 3",
        ],
    )
    with server.connect() as connection:
        assert value(connection, "timeout") == b"33"
        assert value(connection, "maxclients") == b"77", "the command line wins over the file"
        assert value(connection, "hash-max-listpack-entries") == b"5"
        assert b"pubsub 1048576 1048576 5" in value(connection, "client-output-buffer-limit")
        assert value(connection, "notify-keyspace-events") == b"AKE"
        assert connection("SELECT", 3).is_error and connection.call("SELECT", 2) == b"OK"


def test_included_files(start_server, tmp_path):
    (tmp_path / "more.conf").write_text("timeout 44\n")
    server = start_server(config_lines=[f"include {tmp_path}/more.conf", "tcp-keepalive 12"])
    with server.connect() as connection:
        assert (value(connection, "timeout"), value(connection, "tcp-keepalive")) == (b"44", b"12")


def test_a_renamed_command(start_server):
    server = start_server(config_lines=["rename-command GETDEL take", 'rename-command KEYS ""'])
    with server.connect() as connection:
        connection.call("SET", "k", "v")
        assert connection("GETDEL", "k").is_error and connection("KEYS", "*").is_error
        assert connection.call("TAKE", "k") == b"v"


def test_a_renamed_container_keeps_its_subcommands_apart(start_server):
    # The new name is as long as the names of two subcommands, `config|get` and `config|set`.
    server = start_server(config_lines=["rename-command CONFIG CONFIG-XYZ"])
    with server.connect() as connection:
        for maxclients in ("1000", "900"):
            connection.call("CONFIG-XYZ", "SET", "maxclients", maxclients)
            connection.call("PING")
            assert connection.call("CONFIG-XYZ", "GET", "maxclients") == [b"maxclients", maxclients.encode()]
            connection.call("PING")


@pytest.mark.parametrize(
    "line, words",
    [
        ("no-such-directive 1", ["no-such-directive"]),
        ("timeout abc", ["timeout"]),
        ("timeout", ["timeout"]),
        ("maxmemory-policy sometimes", ["maxmemory-policy"]),
        ('requirepass "unbalanced', []),
        ("save 1", ["save"]),
        ("appendonly maybe", ["appendonly"]),
    ],
)
def test_a_bad_line_stops_the_start_with_file_line_and_reason(line, words, start_server):
    server = start_server(wait=False, config_lines=["# first", "timeout 1", line, "hz 10"])
    assert server.wait_exit() != 0
    log = server.log_text()
    assert "server.conf" in log and "3" in log, log
    assert all(word in log for word in words), log


def test_a_missing_include_stops_the_start(start_server):
    server = start_server(wait=False, config_lines=["include /no/such/file"])
    assert server.wait_exit() != 0
    assert "/no/such/file" in server.log_text()


def test_a_bad_option_stops_the_start(start_server):
    server = start_server(wait=False, options={"no-such-option": "1"})
    assert server.wait_exit() != 0
    assert "no-such-option" in server.log_text()


def test_a_directive_that_is_not_done_yet_is_named(start_server):
    server = start_server(config_lines=["cluster-node-timeout 14000", "socket-mark-id 7"])
    log = server.log_text()
    assert "cluster-node-timeout" in log and "socket-mark-id" in log
    server = start_server(config_lines=["cluster-node-timeout 15000", "socket-mark-id 0"])
    assert "has no effect" not in server.log_text(), "they are what they would be without the lines"


def test_a_taken_port_stops_the_start(start_server):
    first = start_server()
    second = start_server(wait=False, options={"port": first.port})
    assert second.wait_exit() != 0
    assert str(first.port) in second.log_text()


def test_a_relative_log_file_lies_in_the_folder_of_the_data(start_server, tmp_path):
    server = start_server(options={"dir": str(tmp_path), "logfile": "own.log"})
    assert "Ready to accept connections" in (tmp_path / "own.log").read_text()
    assert not (server.directory / "own.log").exists()
    (tmp_path / "own.log").rename(tmp_path / "old.log")
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_exit() == 0 and "SIGTERM" in (tmp_path / "own.log").read_text()


def test_config_rewrite_keeps_comments_and_changes(start_server):
    server = start_server(config_lines=["# a comment that stays", "timeout 11", "hz 10"])
    with server.connect() as connection:
        connection.call("CONFIG", "SET", "timeout", 99)
        connection.call("CONFIG", "SET", "slowlog-max-len", 7)
        assert connection.call("CONFIG", "REWRITE") == b"OK"
    text = (server.directory / "server.conf").read_text()
    assert "# a comment that stays" in text and "timeout 99" in text and "slowlog-max-len 7" in text
    assert "timeout 11" not in text


@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_config_rewrite_writes_the_folder(kind, start_server, tmp_path):
    server = start_server(kind, config_lines=["timeout 11"], options={"dir": str(tmp_path)})
    with server.connect() as connection:
        assert connection.call("CONFIG", "REWRITE") == b"OK"
    paths = [path for path in server.directory.glob("*.conf")]
    assert any(f'dir "{tmp_path}"' in path.read_text() for path in paths), paths


def test_without_a_file_there_is_nothing_to_rewrite(start_server):
    with start_server().connect() as connection:
        assert connection("CONFIG", "REWRITE").is_error


def test_unix_socket_and_pid_file(start_server, tmp_path):
    path, pid_file = str(tmp_path / "socket"), tmp_path / "pid"
    server = start_server(options={"unixsocket": path, "unixsocketperm": "700", "pidfile": str(pid_file)})
    with Connection(path) as connection:
        assert connection.call("PING") == b"PONG"
    assert int(pid_file.read_text()) == server.process.pid
    assert server.terminate() == 0
    assert not pid_file.exists()


@pytest.mark.parametrize(
    "line, points, number, is_saved",
    [
        ("shutdown-on-sigterm save", "", signal.SIGTERM, True),
        ("shutdown-on-sigterm save", "", signal.SIGINT, False),
        ("shutdown-on-sigint save now", "", signal.SIGINT, True),
        ("shutdown-on-sigterm nosave now", "3600 1", signal.SIGTERM, False),
        ("shutdown-on-sigint nosave", "3600 1", signal.SIGTERM, True),
        ("shutdown-on-sigterm default", "3600 1", signal.SIGTERM, True),
    ],
)
def test_a_signal_does_what_the_configuration_says(line, points, number, is_saved, start_server):
    server = start_server(options={"save": points}, config_lines=[line])
    with server.connect() as connection:
        connection.call("SET", "key", "value")
    server.process.send_signal(number)
    assert server.wait_exit() == 0
    assert (server.directory / "dump.rdb").exists() == is_saved


@pytest.mark.parametrize("busy", [False, True])
def test_who_sees_its_connection_end_finds_nobody_listening(busy, start_server):
    server = start_server(options={"busy-reply-threshold": 10}, workers=3)
    clients = [server.connect() for _ in range(8)]
    for client in clients:
        client.call("PING")
    if busy:
        clients[0].send("EVAL", "while true do redis.call('PING') end", 0)
        eventually(lambda: clients[1]("PING").is_error, "the script makes nobody wait")
    clients[2].send("SHUTDOWN", "NOSAVE")
    for client in clients[2:]:
        assert client.read_until_closed() == b""
        with pytest.raises(ConnectionRefusedError):
            server.connect()
    assert server.wait_exit() == 0
    for client in clients:
        client.close()


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGINT, "SHUTDOWN"])
def test_a_save_that_fails_keeps_the_server_up_unless_forced(way, start_server):
    forced = ["shutdown-on-sigterm force", "shutdown-on-sigint force"]
    for lines, options in [([], []), (forced, ["SAVE", "FORCE", "FORCE"])]:
        server = start_server(options={"save": "3600 1"}, config_lines=lines)
        (server.directory / "dump.rdb").mkdir()
        with server.connect() as connection:
            connection.call("SET", "key", "value")
            if way == "SHUTDOWN":
                connection.send("SHUTDOWN", *options)
            else:
                server.process.send_signal(way)
            if lines:
                assert server.wait_exit() == 0 and "Exit anyway" in server.log_text()
                continue
            if way == "SHUTDOWN":
                assert connection.read().text() == "ERR Errors trying to SHUTDOWN. Check logs."
            eventually(lambda: "can't exit" in server.log_text(), "it says that it cannot end")
            assert connection.call("INCR", "count") == 1, "writes go on"


def temporary_files(server):
    return [path for path in server.directory.rglob("temp-*") if path.suffix in (".rdb", ".aof")]


@pytest.mark.parametrize("writes", ["BGSAVE", "BGREWRITEAOF"])
@pytest.mark.parametrize("flag", ["SAVE", "NOSAVE"])
def test_a_shutdown_ends_what_is_written_in_the_background(flag, writes, start_server):
    server = start_server(options={"appendonly": "yes" if writes == "BGREWRITEAOF" else "no"})
    with server.connect() as connection:
        connection.call("SET", "key", "value")
        connection.call("CONFIG", "SET", "rdb-key-save-delay", "600000000")
        connection.call(writes)
        eventually(lambda: temporary_files(server), "nothing is written")
        connection.call("CONFIG", "SET", "rdb-key-save-delay", "0")
        connection.send("SHUTDOWN", flag)
        assert server.wait_exit() == 0 and not temporary_files(server)
    assert (server.directory / "dump.rdb").exists() == (flag == "SAVE")


def test_no_shutdown_before_the_log_has_what_it_begins_with(start_server):
    server = start_server()
    with server.connect() as connection:
        connection.call("SET", "key", "value")
        connection.call("CONFIG", "SET", "rdb-key-save-delay", "600000000", "appendonly", "yes")
        eventually(lambda: persistence(connection)["aof_rewrite_in_progress"] == "1", "it does not begin")
        for options in ["SAVE"], ["NOSAVE"], ["NOW"]:
            reply = connection("SHUTDOWN", *options).text()
            assert reply == "ERR Errors trying to SHUTDOWN. Check logs.", options
        assert server.log_text().count("Writing initial AOF, can't exit") == 3
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.log_text().count("can't exit") == 4, "it says that it cannot end")
        assert connection.call("GET", "key") == b"value"
        connection.send("SHUTDOWN", "NOSAVE", "FORCE")
        assert server.wait_exit() == 0 and "Writing initial AOF. Exit anyway" in server.log_text()


def test_ping_and_scripts_tell_that_dumps_fail(start_server):
    outcomes = []
    for kind in ("subject", "oracle"):
        server = start_server(kind, options={"save": "1000000 1000000"})
        (server.directory / "dump.rdb").mkdir()
        with server.connect() as connection:
            connection.call("BGSAVE")
            failed = lambda: b"rdb_last_bgsave_status:err" in connection.call("INFO", "persistence")
            eventually(failed, "the save has not failed")
            commands = [
                *(["PING"], ["PING", "x"], ["ECHO", "x"], ["SET", "k", "v"], ["GET", "k"]),
                *(["MULTI"], ["PING"], ["EXEC"], ["EVAL", "return 1", 0], ["EVAL", "#!lua\nreturn 1", 0]),
                ["EVAL", "#!lua flags=no-writes\nreturn 1", 0],
                ["EVAL", "return redis.call('PING')", 0],
            ]
            outcomes.append([connection(*command).raw for command in commands])
    assert outcomes[0] == outcomes[1] and outcomes[0][0].startswith(b"-MISCONF")


def test_the_kernels_choice_when_memory_runs_out(start_server):
    server = start_server(options={"oom-score-adj": "yes", "oom-score-adj-values": ["10", "20", "30"]})
    file = pathlib.Path(f"/proc/{server.process.pid}/oom_score_adj")
    before = int(pathlib.Path("/proc/self/oom_score_adj").read_text())
    added = lambda: int(file.read_text()) - before
    with server.connect() as connection:
        assert added() == 10
        connection.call("REPLICAOF", "127.0.0.1", 1)
        assert added() == 20
        connection.call("REPLICAOF", "NO", "ONE")
        connection.call("CONFIG", "SET", "oom-score-adj-values", "15 20 30")
        assert added() == 15
        connection.call("CONFIG", "SET", "oom-score-adj", "absolute", "oom-score-adj-values", f"{before + 5} 20 30")
        assert added() == 5
        if os.geteuid() != 0 or not can_lower_oom_score():
            port = connection.call("CONFIG", "GET", "port")
            reply = connection("CONFIG", "SET", "port", 0, "oom-score-adj-values", "-1000 20 30")
            assert "Failed to set current oom_score_adj. Check server logs." in reply.text()
            assert connection.call("CONFIG", "GET", "port") == port and server.connect().call("PING") == b"PONG"
        connection.call("CONFIG", "SET", "oom-score-adj", "no")
        assert added() == 0


def can_lower_oom_score():
    """Whether a process may ask for a lower score than it was given."""
    program = "open('/proc/self/oom_score_adj', 'w').write('-1000')"
    return subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL).returncode == 0


def test_a_password_from_the_start(start_server):
    server = start_server(options={"requirepass": "secret"}, wait=False)
    server.wait_ready()
    with server.connect() as connection:
        assert connection("GET", "k").text().startswith("NOAUTH")
        assert connection.call("AUTH", "secret") == b"OK" and connection.call("GET", "k") is None


@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_addresses_change_from_all_to_one_and_back(kind, start_server):
    server = start_server(kind, options={"bind": ["*"], "protected-mode": "no"})
    with server.connect() as connection:

        def bind(addresses, answering):
            assert connection.call("CONFIG", "SET", "bind", addresses) == b"OK"
            for address in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):

                def answers():
                    try:
                        with Connection((address, server.port)) as other:
                            return other.call("PING") == b"PONG"
                    except OSError:
                        return False

                eventually(lambda: answers() == (address in answering), f"{address} with {addresses}")
            assert not can_listen(server.port)

        everywhere = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
        bind("127.0.0.1", ("127.0.0.1",))
        bind("127.0.0.2 127.0.0.1", ("127.0.0.1", "127.0.0.2"))
        bind("*", everywhere)
        bind("127.0.0.3", ("127.0.0.3",))
        bind("* -::*", everywhere)
        assert connection("CONFIG", "SET", "bind", "192.0.2.1").is_error
        bind("*", everywhere)
    assert server.terminate() == 0


def can_listen(port):
    """Whether another process gets a port on all addresses."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("0.0.0.0", port))
            other.listen()
        except OSError:
            return False
        return True


def test_idle_clients_are_closed(start_server):
    server = start_server(options={"timeout": 1})
    with server.connect() as idle, server.connect() as subscriber:
        subscriber.call("SUBSCRIBE", "channel")
        assert idle.read_until_closed() == b""
        with server.connect() as other:
            assert other.call("PUBLISH", "channel", "still here") == 1


def test_every_command_is_documented(subject):
    with subject.connect() as connection:
        names = [name for name in connection.call("COMMAND", "LIST") if b"|" not in name]
        flat = connection.call("COMMAND", "DOCS")
        documents = {name: dict(zip(facts[::2], facts[1::2])) for name, facts in zip(flat[::2], flat[1::2])}
        without = [name for name in names if not documents.get(name, {}).get(b"summary")]
        assert len(names) > 150 and not without, without


def test_info_has_what_tools_read(subject):
    fields = {
        "server": [
            "redis_version",
            "server_name",
            "mantissa_version",
            "os",
            "process_id",
            "run_id",
            "tcp_port",
        ],
        "clients": ["connected_clients", "blocked_clients", "maxclients"],
        "memory": ["used_memory", "used_memory_rss", "used_memory_peak", "maxmemory", "maxmemory_policy"],
        "persistence": [
            "loading",
            "rdb_changes_since_last_save",
            "rdb_bgsave_in_progress",
            "rdb_last_save_time",
        ],
        "stats": ["total_connections_received", "total_commands_processed", "keyspace_hits", "expired_keys"],
        "replication": ["role", "connected_slaves", "master_replid", "master_repl_offset"],
        "cpu": ["used_cpu_sys", "used_cpu_user"],
        "commandstats": ["cmdstat_ping"],
        "keyspace": ["db0"],
    }
    with redis.Redis(port=subject.port, decode_responses=True) as client:
        client.ping()
        client.set("k", "v")
        for section, names in fields.items():
            missing = set(names) - set(client.info(section))
            assert not missing, f"{section}: {missing}"
        assert client.info("server")["server_name"] == "mantissa"
        assert set(client.info("everything")) >= set(client.info())
