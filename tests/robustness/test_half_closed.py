"""Clients that end their side behind their requests, as `nc -N` does. What is done while the client waits is what
redis-server does at once: replies and requests behind it are not lost. A client that waits for others is closed."""

import contextlib
import socket

import pytest

from support.resp import Closed, encode
from support.servers import subject_is_oracle
from support.waiting import eventually, until_written

ROUNDS = 10


@pytest.fixture(params=["oracle", "io_uring", "epoll"])
def server(start_server, request):
    if request.param == "oracle":
        return start_server("oracle")
    return start_server("subject", options={"io-driver": request.param}, workers=2)


def end_after(connection, *commands):
    """Sends commands and ends this side."""
    connection.send_raw(b"".join(encode(command) for command in commands))
    connection.socket.shutdown(socket.SHUT_WR)


def replies_of(connection, count):
    replies = [connection.read().raw for _ in range(count)]
    with pytest.raises(Closed):
        connection.read()
    return replies


def clients(connection):
    """The ids and commands of all clients."""
    lines = connection.call("CLIENT", "LIST").decode().splitlines()
    fields = [dict(field.split("=", 1) for field in line.split(" ")) for line in lines]
    return {int(line["id"]): line["cmd"] for line in fields}


def test_a_dump_is_begun_and_what_follows_runs(server):
    with server.connect() as other:
        for number in range(ROUNDS):
            until_written(other)
            with server.connect() as client:
                end_after(client, ("BGSAVE",), ("SET", f"k{number}", "v"), ("PING",))
                assert replies_of(client, 3) == [b"+Background saving started\r\n", b"+OK\r\n", b"+PONG\r\n"]
            assert other.call("EXISTS", f"k{number}") == 1
        until_written(other)


def test_keys_move_and_what_follows_runs(server, oracle):
    with server.connect() as other, oracle.connect() as there:
        for number in range(ROUNDS):
            other.call("SET", f"moved:{number}", "v")
            move = ("MIGRATE", "127.0.0.1", oracle.port, f"moved:{number}", 0, 100_000)
            with server.connect() as client:
                end_after(client, ("PING",), move, ("SET", f"k{number}", "v"), move, ("PING",))
                wanted = [b"+PONG\r\n", b"+OK\r\n", b"+OK\r\n", b"+NOKEY\r\n", b"+PONG\r\n"]
                assert replies_of(client, 5) == wanted
            assert other.call("EXISTS", f"k{number}", f"moved:{number}") == 1
            assert there.call("GET", f"moved:{number}") == b"v"


@pytest.mark.parametrize(
    "command",
    [("BLPOP", "none", "0"), ("XREAD", "BLOCK", "0", "STREAMS", "none", "0"), ("WAIT", "1", "0")],
    ids=lambda command: command[0],
)
def test_who_waits_for_others_is_closed(server, command):
    with server.connect() as client, server.connect() as other:
        end_after(client, ("PING",), command, ("SET", "k", "v"))
        assert replies_of(client, 1) == [b"+PONG\r\n"]
        assert other.call("EXISTS", "k") == 0
        eventually(lambda: len(clients(other)) == 1, "it is not forgotten")


def test_who_is_held_back_by_a_client_is_closed(server):
    with server.connect() as client, server.connect() as other:
        other.call("CLIENT", "PAUSE", 1_000_000, "WRITE")
        end_after(client, ("SET", "k", "v"))
        assert replies_of(client, 0) == []
        other.call("CLIENT", "UNPAUSE")
        assert other.call("EXISTS", "k") == 0


@contextlib.contextmanager
def silent_server():
    """A port where connections are accepted, and nothing is said."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, listener.getsockname()[1]


@pytest.mark.skipif(subject_is_oracle(), reason="redis-server does nothing else meanwhile")
@pytest.mark.parametrize("driver", ["io_uring", "epoll"])
def test_who_waits_for_work_can_be_killed_and_is_noticed_when_gone(start_server, driver):
    """It is closed at once by CLIENT KILL and by a reset, and once the work is done if it has ended its side."""
    server = start_server(options={"io-driver": driver}, workers=2)
    with silent_server() as (listener, port), contextlib.ExitStack() as stack:
        with server.connect() as other:
            for name in ("killed", "reset", "gone", "ended"):
                other.call("SET", name, "v")
        waiting = {}
        for name in ("killed", "reset", "gone", "ended"):
            client = stack.enter_context(server.connect())
            number = client.call("CLIENT", "ID")
            move = ("MIGRATE", "127.0.0.1", port, name, 0, 1_000_000)
            client.send_raw(encode(move) + encode(("SET", f"after:{name}", "v")))
            peer, _ = listener.accept()
            waiting[name] = (client, number, stack.enter_context(peer))
        with server.connect() as other:
            client, number, _ = waiting["killed"]
            client.socket.shutdown(socket.SHUT_WR)
            assert other.call("CLIENT", "KILL", "ID", number) == 1
            assert replies_of(client, 0) == []
            client, number, _ = waiting["reset"]
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            client.close()
            eventually(lambda: waiting["reset"][1] not in clients(other), "a reset is not noticed")
        waiting["gone"][0].close()
        waiting["ended"][0].socket.shutdown(socket.SHUT_WR)
        with server.connect() as other:
            assert {waiting[name][1] for name in ("gone", "ended")} <= clients(other).keys()
            for _, _, peer in waiting.values():
                peer.close()
            client = waiting["ended"][0]
            error, reply = replies_of(client, 2)
            assert error.startswith(b"-IOERR") and reply == b"+OK\r\n"
            eventually(lambda: len(clients(other)) == 1, "they are not forgotten")
            assert [other.call("EXISTS", f"after:{name}") for name in ("gone", "ended")] == [1, 1]
            assert [other.call("EXISTS", f"after:{name}") for name in ("killed", "reset")] == [0, 0]


@pytest.mark.skipif(subject_is_oracle(), reason="redis-server does nothing else meanwhile")
@pytest.mark.parametrize("driver", ["io_uring", "epoll"])
def test_who_sends_and_goes_over_a_unix_socket_is_served(start_server, driver, tmp_path):
    path = tmp_path / "socket"
    server = start_server(options={"io-driver": driver, "unixsocket": path}, workers=2)
    with server.connect() as other:
        for number in range(ROUNDS):
            until_written(other)
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                client.sendall(encode(("BGSAVE",)) + encode(("SET", f"k{number}", "v")))
            eventually(lambda: other.call("EXISTS", f"k{number}") == 1, "what follows is not run")
        until_written(other)
