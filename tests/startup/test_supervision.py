"""Under an init system: systemd's notifications, Upstart's SIGSTOP, directives that would start something else."""

import os
import signal
import socket
import time

import pytest

from support.waiting import PATIENCE_S, eventually


class Systemd:
    """The end of systemd: a socket that notifications arrive at."""

    def __init__(self, address):
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(PATIENCE_S)
        self.lines = []

    def until(self, wanted):
        """The lines up to one that begins with `wanted`; an answer that never comes fails."""
        seen = []
        while not any(line.startswith(wanted) for line in seen):
            seen += self.socket.recv(4096).decode().splitlines()
        self.lines += seen
        return seen

    def environment(self, **more):
        return {"NOTIFY_SOCKET": self.address} | more


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path):
    end = Systemd(f"@mantissa-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "notify"))
    yield end
    end.socket.close()


def supervised(connection):
    lines = connection.call("INFO", "server").decode().splitlines()
    return next(line.split(":")[1] for line in lines if line.startswith("process_supervised"))


@pytest.mark.parametrize("mode", ["systemd", "auto"])
def test_systemd_hears_of_start_reload_and_end(mode, systemd, start_server):
    options = {"supervised": mode, "daemonize": "yes"}
    server = start_server(options=options, environment=systemd.environment())
    ready = systemd.until("READY=1")
    assert ready[0].startswith("STATUS="), "it tells that it starts before it is ready"
    assert f"MAINPID={server.process.pid}" in ready, "who is supervised stays in the foreground"
    assert "STATUS=Ready to accept connections" in ready
    with server.connect() as connection:
        assert supervised(connection) == "systemd"
    server.process.send_signal(signal.SIGHUP)
    reload = systemd.until("RELOADING=1") + systemd.until("READY=1")
    assert any(line.startswith("MONOTONIC_USEC=") for line in reload)
    assert server.terminate() == 0
    systemd.until("STOPPING=1")
    assert not any(line.startswith("WATCHDOG=1") for line in systemd.lines), "nobody asked for it"


def test_an_end_by_command_is_told_and_one_that_fails_as_well(systemd, start_server):
    options = {"supervised": "systemd", "save": "3600 1"}
    server = start_server(options=options, environment=systemd.environment())
    systemd.until("READY=1")
    (server.directory / "dump.rdb").mkdir()
    server.process.send_signal(signal.SIGTERM)
    systemd.until("STATUS=Error trying to save the DB, can't exit.")
    assert str(server.directory / "dump.rdb") in server.log_text()
    with server.connect() as connection:
        connection.send("SHUTDOWN", "NOSAVE")
        systemd.until("STOPPING=1")
    assert server.wait_exit() == 0


def test_the_watchdog_hears_of_a_server_that_works(systemd, start_server):
    environment = systemd.environment(WATCHDOG_USEC="300000")
    server = start_server(options={"supervised": "systemd"}, environment=environment)
    systemd.until("READY=1")
    for _ in range(3):
        began = time.monotonic()
        systemd.until("WATCHDOG=1")
        assert time.monotonic() - began < 30
    other = systemd.environment(WATCHDOG_USEC="300000", WATCHDOG_PID="1")
    assert server.terminate() == 0
    systemd.until("STOPPING=1")
    systemd.lines.clear()
    server = start_server(options={"supervised": "systemd"}, environment=other)
    systemd.until("READY=1")
    assert server.terminate() == 0
    systemd.until("STOPPING=1")
    assert "WATCHDOG=1" not in systemd.lines, "it is meant for another process"


@pytest.mark.parametrize("mode", ["no", "systemd", "auto", "upstart"])
def test_without_an_init_system_it_just_runs(mode, start_server):
    server = start_server(options={"supervised": mode})
    with server.connect() as connection:
        assert supervised(connection) == "no"
    expected = {"systemd": "NOTIFY_SOCKET not found", "upstart": "UPSTART_JOB not found"}
    assert expected.get(mode, "") in server.log_text()
    assert "has no effect" not in server.log_text()


@pytest.mark.parametrize("mode", ["upstart", "auto"])
def test_upstart_is_told_by_a_stop(mode, start_server):
    environment = {"UPSTART_JOB": "mantissa"}
    server = start_server(options={"supervised": mode}, environment=environment, wait=False)

    def state():
        with open(f"/proc/{server.process.pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]

    eventually(lambda: state() == "T", "it does not stop")
    assert "Ready to accept connections" in server.log_text()
    server.process.send_signal(signal.SIGCONT)
    server.wait_ready()
    with server.connect() as connection:
        assert supervised(connection) == "upstart"


ELSE = [("cluster-enabled", ["yes"]), ("loadmodule", ["/m.so", "a"])]


@pytest.mark.parametrize("name, words", ELSE)
@pytest.mark.parametrize("way", ["file", "command line"])
def test_what_would_start_something_else_stops_the_start(way, name, words, start_server):
    line, override = " ".join([name, *words]), "ignore-unsupported-directives"
    lines = [line] if way == "file" else None
    options = {} if way == "file" else {name: words}
    server = start_server(wait=False, options=options, config_lines=lines)
    assert server.wait_exit() != 0
    log = server.log_text()
    assert line in log and f"'{override} yes' starts it anyway" in log, log
    server = start_server(options=options | {override: "yes"}, config_lines=lines)
    assert "accepted but has no effect" in server.log_text()
    with server.connect() as connection:
        assert connection.call("SET", "k", "v") == b"OK"


def test_nothing_of_it_can_be_set_while_the_server_runs(subject):
    with subject.connect() as connection:
        for name, words in ELSE:
            assert connection("CONFIG", "SET", name, " ".join(words)).is_error
        assert connection("MODULE", "LOAD", "/m.so").is_error
        assert connection.call("REPLICAOF", "NO", "ONE") == b"OK"


def test_the_log_names_port_file_and_folder(start_server):
    server = start_server(config_lines=["timeout 1"])
    log = server.log_text()
    assert f"port={server.port}" in log and str(server.directory / "server.conf") in log
    assert f"Folder of the data: {server.directory}" in log
    assert "No configuration file" in start_server().log_text()


def test_a_failed_background_save_names_the_path(start_server):
    server = start_server()
    (server.directory / "dump.rdb").mkdir()
    with server.connect() as connection:
        connection.call("BGSAVE")
        path = server.directory / "dump.rdb"
        expected = f"Background saving error: {path}"
        eventually(lambda: expected in server.log_text(), "the log does not name the path")
