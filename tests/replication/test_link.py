"""The link of a replica to its primary, a real redis-server or one that misbehaves."""

import socket
import threading

import pytest

from support.resp import Closed
from support.waiting import PATIENCE_S, eventually

ID = b"a" * 40


def info(server, section="replication"):
    with server.connect() as connection:
        lines = connection.call("INFO", section).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def follow(replica, primary):
    with replica.connect() as connection:
        assert connection.call("REPLICAOF", "127.0.0.1", primary.port) == b"OK"


def in_step(primary, replica):
    """Waits until the replica has what the primary has, at the same offset."""

    def same():
        ours, theirs = info(replica), info(primary)
        return ours.get("master_link_status") == "up" and ours["slave_repl_offset"] == theirs["master_repl_offset"]

    eventually(same, "the replica is not in step")
    with primary.connect() as one, replica.connect() as other:
        eventually(lambda: one.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST"), "the data differ")


def fill(server, prefix, count=200):
    with server.connect() as connection:
        for number in range(count):
            connection.call("SET", f"{prefix}{number}", "x" * number)
        connection.call("SELECT", 3)
        connection.call("RPUSH", f"{prefix}list", *range(50))


@pytest.fixture
def primary(start_server):
    options = {"repl-diskless-sync-delay": 0, "repl-ping-replica-period": 1}
    return start_server("oracle", options=options)


def test_a_full_sync_the_stream_and_a_partial_sync(primary, start_server):
    replica = start_server()
    fill(primary, "before")
    fill(replica, "own")
    follow(replica, primary)
    in_step(primary, replica)
    fill(primary, "after")
    in_step(primary, replica)
    assert info(replica)["master_replid"] == info(primary)["master_replid"]
    with replica.connect() as connection:
        assert connection("REPLICAOF", "127.0.0.1", primary.port).text() == "OK Already connected to specified master"
        state = connection.call("ROLE")
        assert state[:2] == [b"slave", b"127.0.0.1"] and state[3] == b"connected"
        assert b"flags=M" in connection.call("CLIENT", "LIST", "TYPE", "master")
        assert connection.call("CLIENT", "KILL", "TYPE", "master") == 1
    fill(primary, "cut")
    in_step(primary, replica)
    stats = info(primary, "stats")
    assert (stats["sync_full"], stats["sync_partial_ok"]) == ("1", "1")
    log = replica.log_text()
    for line in (
        "Connecting to MASTER 127.0.0.1",
        "MASTER <-> REPLICA sync started",
        "Non blocking connect for SYNC fired the event.",
        "Master replied to PING, replication can continue...",
        "Full resync from master: ",
        "MASTER <-> REPLICA sync: Finished with success",
        "Connection with master lost.",
        "Successful partial resynchronization with master.",
        "MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization.",
    ):
        assert line in log, line


def test_commands_of_the_primary_are_as_long_as_they_are(primary, start_server):
    replica = start_server(options={"client-query-buffer-limit": "1mb"})
    follow(replica, primary)
    in_step(primary, replica)
    with primary.connect() as connection:
        connection.call("SET", "large", "x" * 3_000_000)
        connection.call("MULTI")
        for number in range(4):
            connection.call("SET", f"part{number}", str(number) * 800_000)
        connection.call("EXEC")
    in_step(primary, replica)
    assert info(primary, "stats")["sync_full"] == "1"


@pytest.mark.parametrize("lazy, count", [("yes", "1000"), ("no", "0")])
def test_the_old_data_count_as_freed_lazily(lazy, count, primary, start_server):
    replica = start_server(options={"replica-lazy-flush": lazy})
    with replica.connect() as connection:
        connection.call("DEBUG", "POPULATE", 1000)
    follow(replica, primary)
    in_step(primary, replica)
    eventually(lambda: info(replica, "memory")["lazyfreed_objects"] == count, "they do not count")


def test_a_promoted_replica_takes_writes_and_its_primary_follows_without_a_full_sync(primary, start_server):
    replica = start_server()
    fill(primary, "before")
    follow(replica, primary)
    in_step(primary, replica)
    former = info(replica)
    with replica.connect() as connection:
        assert connection.call("REPLICAOF", "NO", "ONE") == b"OK"
        connection.call("SET", "own", "v")
        assert connection.call("ROLE")[0] == b"master"
    now = info(replica)
    assert now["role"] == "master" and now["master_replid2"] == former["master_replid"]
    assert int(now["second_repl_offset"]) == int(former["slave_repl_offset"]) + 1


def test_the_link_comes_from_the_address_that_is_configured(primary, start_server):
    replica = start_server(options={"bind-source-addr": "127.0.0.2"})

    def address_seen(wanted):
        def is_seen():
            return info(primary).get("slave0", "").startswith(f"ip={wanted},")

        follow(replica, primary)
        eventually(is_seen, f"the replica does not come from {wanted}")
        with replica.connect() as connection:
            assert connection.call("REPLICAOF", "NO", "ONE") == b"OK"
        eventually(lambda: "slave0" not in info(primary), "the replica is still there")

    address_seen("127.0.0.2")
    with replica.connect() as connection:
        # The last of these addresses this machine does not have.
        for source, seen in [("127.0.0.3", "127.0.0.3"), ("", "127.0.0.1"), ("192.0.2.1", "127.0.0.1")]:
            assert connection.call("CONFIG", "SET", "bind-source-addr", source) == b"OK"
            address_seen(seen)


def test_what_sentinel_sends(primary, start_server):
    replica = start_server(config_lines=["# a comment", "timeout 0"])
    follow(replica, primary)
    in_step(primary, replica)
    other = replica.connect()
    with replica.connect() as connection:
        connection.call("CONFIG", "REWRITE")
        assert f"replicaof 127.0.0.1 {primary.port}" in (replica.directory / "server.conf").read_text()
        connection.call("MULTI")
        for command in (
            "SLAVEOF NO ONE",
            "CONFIG REWRITE",
            "CLIENT KILL TYPE normal",
            "CLIENT KILL TYPE pubsub",
        ):
            connection.call(*command.split())
        replies = connection.call("EXEC")
        assert replies[:2] == [b"OK", b"OK"] and replies[2] >= 1
        assert connection.call("PING") == b"PONG"
    with pytest.raises(Closed):
        other.call("PING")
    text = (replica.directory / "server.conf").read_text()
    assert "replicaof" not in text and "# a comment" in text


def test_the_directive_is_followed_from_the_start(primary, start_server):
    fill(primary, "before")
    replica = start_server(config_lines=[f"replicaof 127.0.0.1 {primary.port}"])
    in_step(primary, replica)
    with replica.connect() as connection:
        assert connection.call("CONFIG", "GET", "replicaof")[1] == f"127.0.0.1 {primary.port}".encode()


class Liar:
    """A primary that plays its part up to some point, and then says what it should not."""

    def __init__(self, *, after):
        self.after = after
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.settimeout(PATIENCE_S)
                    connection.recv(1000)
                    connection.sendall(b"+PONG\r\n")
                    connection.recv(1000)
                    connection.sendall(b"+OK\r\n+OK\r\n+OK\r\n")
                    connection.recv(1000)
                    for part in self.after:
                        connection.sendall(part)
                except OSError:
                    pass

    def close(self):
        self.listener.close()


FULL = b"+FULLRESYNC " + ID + b" 1000\r\n"


@pytest.mark.parametrize(
    "after, line",
    [
        ([b"x" * 10_000], "The reply of MASTER is too long"),
        ([b"+FULLRESYNC bad\r\n"], "Master replied with wrong +FULLRESYNC syntax"),
        ([b"-LOADING x\r\n"], "Master is currently unable to PSYNC but should be in the future: -LOADING x"),
        ([FULL, b"hello\r\n"], "Bad protocol from MASTER, the first byte is not '$' (we received 'hello')"),
        ([FULL, b"-ERR no\r\n"], "MASTER aborted replication with an error: -ERR no"),
        ([FULL, b"$100\r\nREDIS0011"], "I/O error trying to sync with MASTER"),
        ([FULL, b"$99999999999\r\n", b"\xff" * 100_000], "I/O error trying to sync with MASTER"),
        ([FULL, b"$EOF:" + b"m" * 40 + b"\r\n", b"REDIS0011\xfa" + b"\xff" * 100_000], "I/O error trying to sync"),
    ],
)
def test_a_primary_that_makes_no_sense_costs_a_line_of_the_log(after, line, start_server):
    server, liar = start_server(), Liar(after=after)
    with server.connect() as connection:
        connection.call("SET", "k", "v")
        connection.call("REPLICAOF", "127.0.0.1", liar.port)
        eventually(lambda: line in server.log_text(), "the log does not say it")
        assert connection.call("GET", "k") == b"v"
        assert connection.call("REPLICAOF", "NO", "ONE") == b"OK"
        assert connection.call("SET", "k", "w") == b"OK"
    liar.close()


def test_the_role_changes_back_and_forth_and_the_server_ends(primary, start_server):
    replica = start_server()
    with replica.connect() as connection:
        for _ in range(20):
            assert connection.call("REPLICAOF", "127.0.0.1", primary.port) == b"OK"
            assert connection.call("REPLICAOF", "127.0.0.1", 1) == b"OK"
            assert connection.call("REPLICAOF", "NO", "ONE") == b"OK"
        connection.call("REPLICAOF", "127.0.0.1", primary.port)
        connection.send("SHUTDOWN", "NOSAVE")
    assert replica.wait_exit() == 0


def test_a_failover_hands_the_role_over(start_server):
    options = {"repl-diskless-sync-delay": 0}
    primary, replica = start_server(options=options), start_server(options=options)
    follow(replica, primary)
    fill(primary, "before")
    in_step(primary, replica)
    with primary.connect() as connection:
        assert connection("FAILOVER", "TO", "127.0.0.1", 1).text().startswith("ERR FAILOVER target HOST and PORT")
        assert connection.call("FAILOVER", "TO", "127.0.0.1", replica.port, "TIMEOUT", 60_000) == b"OK"
    eventually(lambda: info(replica)["role"] == "master", "it does not take over")
    eventually(lambda: info(primary)["role"] == "slave", "it does not hand over")
    eventually(lambda: info(primary)["master_failover_state"] == "no-failover", "the failover does not end")
    fill(replica, "after")
    in_step(replica, primary)
    assert info(replica, "stats")["sync_full"] == "0"


def test_a_failover_is_given_up(primary, start_server):
    ours = start_server(options={"repl-diskless-sync-delay": 0})
    follow(primary, ours)
    in_step(ours, primary)
    with ours.connect() as connection, primary.connect() as other, ours.connect() as writer:
        other.call("DEBUG", "SLEEP", "0")
        other.send("DEBUG", "SLEEP", "3")
        connection.call("SET", "not", "there")
        assert connection.call("FAILOVER", "TIMEOUT", 300) == b"OK"
        assert info(ours)["master_failover_state"] == "waiting-for-sync"
        writer.send("SET", "waits", "v")
        eventually(lambda: info(ours)["master_failover_state"] == "no-failover", "it does not time out")
        assert writer.read().text() == "OK"
        assert "Replica never caught up before timeout" in ours.log_text()
        assert connection("FAILOVER", "ABORT").text() == "ERR No failover in progress."
        other.read()
