"""The title of the process (`set-proc-title`, `proc-title-template`), on this server and on redis-server."""

import os
import pathlib
import socket

import pytest

from support.servers import command_line

KINDS = ["oracle", "subject"]


def words(server):
    return pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_bytes().decode().split("\0")


def title(server):
    return words(server)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_title_follows_the_configuration(kind, start_server):
    server = start_server(kind, options={"bind": "127.0.0.1"})
    name = " ".join(command_line(kind))
    assert title(server) == f"{name} 127.0.0.1:{server.port}"
    with server.connect() as connection:
        for template, shown in [
            (" {title}|{port}|{tls-port}|{unixsocket}|{server-mode} ", f"{name}|{server.port}|0||"),
            ("short", "short"),
            ("x" * 2000, "x" * 255),
            ("{listen-addr}", f"127.0.0.1:{server.port}"),
        ]:
            assert connection.call("CONFIG", "SET", "proc-title-template", template) == b"OK"
            assert title(server) == shown
        assert connection.call("CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2", "port", server.port) == b"OK"
        for template in ("", "{no-such}", "{open"):
            assert connection("CONFIG", "SET", "proc-title-template", template).is_error
        assert title(server) == f"127.0.0.1:{server.port}"


def test_the_environment_is_still_to_be_seen(start_server):
    server = start_server(environment={"SEEN": "s" * 300})
    with server.connect() as connection:
        assert connection.call("CONFIG", "SET", "proc-title-template", "short") == b"OK"
    assert title(server) == "short"
    shown = pathlib.Path(f"/proc/{server.process.pid}/environ").read_bytes().split(b"\0")
    assert b"SEEN=" + b"s" * 300 in shown and len(shown) > len(os.environ)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_title_the_command_line_stays(kind, start_server):
    server = start_server(kind, options={"set-proc-title": "no"})
    assert words(server)[:-1] == server.process.args


def test_arguments_and_environment_are_passed_on(start_server):
    """The title overwrites the memory that they were in."""
    text, name = "y" * 255, f"mantissa title {os.getpid()}"
    environment = {"NOTIFY_SOCKET": f"@{name}", "LONG": "v" * 5000}
    options = {"proc-title-template": text, "supervised": "systemd", "timeout": 77}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(f"\0{name}")
        server = start_server(options=options, environment=environment)
        for _ in range(2):
            assert title(server) == text
            with server.connect() as connection:
                assert connection.call("CONFIG", "GET", "timeout") == [b"timeout", b"77"]
                assert b"process_supervised:systemd" in connection.call("INFO", "server")
                # The server starts anew, in the same process.
                connection.send("DEBUG", "RESTART")
                connection.read_until_closed()
            server.wait_ready()
