"""Upgrades that can not be, which leave the server as it was; and commands that wait meanwhile."""

import socket
import threading

import pytest

from support.waiting import eventually


def refused(server, *words):
    """The error of an upgrade that fails."""
    with server.connect() as connection:
        reply = connection("MANTISSA.UPGRADE", *words)
    assert reply.is_error, reply
    assert "the upgrade failed, this server goes on: " in reply.text()
    return reply.text().split("goes on: ")[1]


def test_sockets_stay_as_they_are(start_upgradable):
    server = start_upgradable().server
    for name, value in (("port", "7"), ("bind", "127.0.0.2"), ("metrics-port", "8"), ("unixsocket", "/nowhere")):
        assert refused(server, "OPTION", f"--{name}", value).startswith(f"{name}: the sockets that are listened on")


def test_what_goes_over_as_it_is_is_not_set(start_upgradable):
    server = start_upgradable().server
    options = {
        "requirepass": ["secret"],
        "replicaof": ["127.0.0.1", "1"],
        "aclfile": ["/nowhere/users.acl"],
        "user": ["ada", "on", "nopass", "~*", "+@all"],
    }
    for name, words in options.items():
        assert refused(server, "OPTION", f"--{name}", *words).startswith(f"{name}: "), name
    with server.connect() as connection:
        assert connection.call("CONFIG", "GET", "requirepass")[1] == b""


def test_who_is_wrong_is_told(start_upgradable):
    upgraded = start_upgradable()
    assert "maxmemory" in refused(upgraded.server, "OPTION", "--maxmemory", "much")
    assert "nonsense" in refused(upgraded.server, "OPTION", "--nonsense", "1")
    # The same values are no change.
    upgraded.upgrade("OPTION", "--port", str(upgraded.server.port))


def test_databases_that_are_used_stay(start_upgradable):
    upgraded = start_upgradable()
    server = upgraded.server
    with server.connect() as client:
        client.call("SELECT", 9)
        client.call("SET", "key", "value")
        assert refused(server, "OPTION", "--databases", "2")
        client.call("FLUSHALL")
        number = client.call("CLIENT", "ID")
        expected = f"client {number} uses database 9, and there would be 2"
        assert refused(server, "OPTION", "--databases", "2") == expected
        client.call("SELECT", 1)
        upgraded.upgrade("OPTION", "--databases", "2")
        client.call("SET", "key", "value")
        assert client("SELECT", 2).is_error


def test_a_replica_that_takes_writes_is_not_upgraded(start_upgradable, start_server):
    primary = start_server()
    upgraded = start_upgradable(options={"replica-read-only": "no"})
    server = upgraded.server
    with server.connect() as client:
        client.call("REPLICAOF", "127.0.0.1", primary.port)
        eventually(lambda: client.call("ROLE")[3] == b"connected", "it does not follow")
        client.call("SET", "own", "1")
        assert "replica-read-only no" in refused(server)
        assert client.call("GET", "own") == b"1"
        client.call("CONFIG", "SET", "replica-read-only", "yes")
        upgraded.upgrade()
        assert client.call("GET", "own") == b"1"


def test_who_waits_for_a_key_of_another_type_is_told(start_upgradable):
    upgraded = start_upgradable()
    with upgraded.server.connect() as client, upgraded.server.connect() as other:
        client.send("BLPOP", "list", "0")
        eventually(lambda: b"blocked_clients:1" in other.call("INFO", "clients"), "nobody waits")
        other.call("SET", "list", "string")
        upgraded.upgrade()
        assert client.read().text().startswith("WRONGTYPE")
        assert client.call("PING") == b"PONG"


class SlowTarget:
    """Takes what MIGRATE sends, and answers when it is told to."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections, self.received = 0, b""
        self.may_answer, self.asked = threading.Event(), threading.Event()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            while b"RESTORE" not in self.received:
                self.received += connection.recv(65536)
            self.asked.set()
            self.may_answer.wait(60)
            connection.sendall(b"+OK\r\n+OK\r\n")
            connection.recv(1)


@pytest.mark.parametrize("succeeds", [True, False])
def test_keys_under_way_to_another_server_go_once(start_upgradable, succeeds):
    target = SlowTarget()
    upgraded = start_upgradable()
    server = upgraded.server
    before = server.log_text().count("begins to take over")
    with server.connect() as client, server.connect() as asks, server.connect() as other:
        client.call("SET", "key", "value")
        client.send("MIGRATE", "127.0.0.1", target.port, "key", 0, 60000)
        assert target.asked.wait(20)
        process = upgraded.process()
        asks.send("MANTISSA.UPGRADE", *(() if succeeds else ("OPTION", "--databases", "1")))
        other.call("SELECT", 5)
        eventually(lambda: server.log_text().count("begins to take over") > before, "no process is started")
        # The others go on while the upgrade waits.
        assert other.call("PING") == b"PONG"
        target.may_answer.set()
        assert client.read().plain() == b"OK"
        reply = asks.read()
        assert reply.is_error != succeeds, reply
        assert client.call("EXISTS", "key") == 0
        now = upgraded.process()
        assert (now != process) == succeeds
        if succeeds:
            upgraded.processes.append(now)
    assert target.connections == 1
