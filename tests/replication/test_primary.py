"""What a primary does for replicas, seen by a replica that speaks the protocol by hand."""

import socket
import time

import pytest

from support.waiting import PATIENCE_S, eventually

OPTIONS = {"repl-diskless-sync-delay": 0, "repl-ping-replica-period": 3600}


def encode(*words):
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Hand:
    """A replica by hand."""

    def __init__(self, server, *settings):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        self.buffer = b""
        if settings:
            self.send("REPLCONF", *settings)
            assert self.line() == b"+OK"

    def send(self, *words):
        self.socket.sendall(encode(*words))

    def need(self, count):
        while len(self.buffer) < count:
            received = self.socket.recv(1 << 16)
            assert received, "the connection was closed"
            self.buffer += received

    def line(self):
        while b"\r\n" not in self.buffer.lstrip(b"\n"):
            self.need(len(self.buffer) + 1)
        line, self.buffer = self.buffer.lstrip(b"\n").split(b"\r\n", 1)
        return line

    def take(self, count):
        self.need(count)
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def dump(self):
        kind = self.line()
        if not kind.startswith(b"$EOF:"):
            return self.take(int(kind[1:]))
        mark = kind[5:]
        while mark not in self.buffer:
            self.need(len(self.buffer) + 1)
        dump, self.buffer = self.buffer.split(mark, 1)
        return dump

    def is_closed(self):
        self.socket.settimeout(PATIENCE_S)
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        return True

    def command(self):
        return [self.take(int(self.line()[1:]) + 2)[:-2] for _ in range(int(self.line()[1:]))]


def field(server, name, section="replication"):
    with server.connect() as connection:
        lines = connection.call("INFO", section).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line).get(name)


@pytest.fixture
def primary(start_server):
    return start_server(options=OPTIONS)


@pytest.mark.parametrize("capabilities", [("capa", "eof", "capa", "psync2"), ("capa", "psync2")])
def test_a_dump_the_stream_and_the_rest_after_a_cut(primary, capabilities):
    replica = Hand(primary, "listening-port", 4711, *capabilities)
    replica.send("PSYNC", "?", -1)
    full, history, offset = replica.line().split()
    assert (full, offset) == (b"+FULLRESYNC", b"0")
    assert replica.dump().startswith(b"REDIS")
    with primary.connect() as connection:
        connection.call("SET", "a", 1)
        replica.send("REPLCONF", "ACK", 0)
        assert replica.command() == [b"SELECT", b"0"] and replica.command() == [b"SET", b"a", b"1"]
        assert b"flags=S" in connection.call("CLIENT", "LIST", "TYPE", "replica")
        connection.call("MULTI")
        connection.call("SET", "b", 2)
        connection.call("PUBLISH", "c", "m")
        connection.call("EXEC")
        assert [replica.command()[0] for _ in range(4)] == [b"MULTI", b"SET", b"PUBLISH", b"EXEC"]
        end = int(field(primary, "master_repl_offset"))
        connection.send("WAIT", 1, 10_000)
        assert replica.command() == [b"REPLCONF", b"GETACK", b"*"]
        replica.send("REPLCONF", "ACK", end)
        assert connection.read().plain() == 1
        replica.socket.close()
        eventually(lambda: field(primary, "connected_slaves") == "0", "the replica is still there")
        connection.call("SET", "d", 3)
    again = Hand(primary, "capa", "psync2")
    again.send("PSYNC", history, end + 1)
    assert again.line() == b"+CONTINUE " + history
    assert again.command()[1] == b"GETACK" and again.command() == [b"SET", b"d", b"3"]
    assert [field(primary, f"sync_{kind}", "stats") for kind in ("full", "partial_ok")] == ["1", "1"]
    with primary.connect() as connection:
        connection.call("CONFIG", "RESETSTAT")
        assert b"sync_full:0\r\nsync_partial_ok:0\r\nsync_partial_err:0" in connection.call("INFO", "stats")


def test_a_request_with_a_reply_ends_a_replica(primary):
    replica = Hand(primary, "capa", "eof")
    replica.send("SYNC")
    replica.dump()
    replica.send("PING")
    assert replica.is_closed()
    eventually(lambda: "Replica generated a reply" in primary.log_text(), "the log does not tell")


def test_a_replica_that_does_not_read_is_dropped(start_server):
    options = {**OPTIONS, "client-output-buffer-limit": "replica 2mb 0 0"}
    primary = start_server(options=options)
    replica = Hand(primary, "capa", "eof")
    replica.send("SYNC")
    replica.dump()
    replica.send("REPLCONF", "ACK", 0)
    with primary.connect() as connection:

        def is_dropped():
            connection.call("SET", "large", b"x" * (1 << 20))
            return field(primary, "connected_slaves") == "0"

        eventually(is_dropped, "the replica is still there")
    assert "client-output-buffer-limit replica" in primary.log_text()


def test_a_replica_of_old_is_not_timed_out(start_server):
    """One that attached by SYNC acknowledges nothing."""
    primary = start_server(options={**OPTIONS, "repl-timeout": 1})
    old, silent = Hand(primary, "capa", "eof"), Hand(primary, "capa", "eof", "capa", "psync2")
    old.send("SYNC")
    old.dump()
    old.send("REPLCONF", "ACK", 0)
    silent.send("PSYNC", "?", -1)
    silent.line()
    silent.dump()
    assert silent.is_closed()
    eventually(lambda: field(primary, "connected_slaves") == "1", "the silent replica is still there")
    with primary.connect() as connection:
        connection.call("SET", "a", 1)
    while old.command() != [b"SET", b"a", b"1"]:
        pass


def test_writes_wait_for_good_replicas(primary):
    with primary.connect() as connection:
        connection.call("CONFIG", "SET", "min-replicas-to-write", 1)
        assert connection("SET", "a", 1).text() == "NOREPLICAS Not enough good replicas to write."
        replica = Hand(primary, "capa", "eof")
        replica.send("SYNC")
        replica.dump()
        eventually(lambda: connection("SET", "a", 1).text() == "OK", "the replica does not count")
        assert field(primary, "min_slaves_good_slaves") == "1"
        connection.call("CONFIG", "SET", "min-replicas-max-lag", 1)
        eventually(lambda: connection("SET", "a", 1).text().startswith("NOREPLICAS"), "the replica counts")
        connection.call("CONFIG", "SET", "min-replicas-max-lag", 3600)
        assert connection("SET", "a", 1).text() == "OK", "counted at once"


def test_scripts_that_declare_themselves_are_writes(primary):
    with primary.connect() as connection:
        connection.call("CONFIG", "SET", "min-replicas-to-write", 1)
        for script, is_refused in [("", False), ("#!lua\n", True), ("#!lua flags=no-writes\n", False)]:
            reply = connection("EVAL", f"{script}return 1", 0)
            assert reply.text().startswith("NOREPLICAS") == is_refused, script


def test_the_first_ping_comes_after_a_period(primary):
    replica = Hand(primary, "capa", "eof")
    replica.send("SYNC")
    replica.dump()
    with primary.connect() as connection:
        eventually(lambda: b"state=online" in connection.call("INFO", "replication"), "never online")
        time.sleep(1.5)
        assert field(primary, "master_repl_offset") == "0"


def test_debug_replicate_sends_what_it_is_given(primary):
    replica = Hand(primary, "capa", "eof")
    replica.send("SYNC")
    replica.dump()
    with primary.connect() as connection:
        eventually(lambda: b"state=online" in connection.call("INFO", "replication"), "never online")
        replica.send("REPLCONF", "ACK", 0)
        assert connection("DEBUG", "REPLICATE", "fake", "x").text() == "OK"
        assert replica.command() == [b"fake", b"x"]
        assert connection("DEBUG", "REPLICATE", "select", "3").is_error
        connection.call("CONFIG", "SET", "appendonly", "yes")
        assert connection("DEBUG", "REPLICATE", "fake").is_error
