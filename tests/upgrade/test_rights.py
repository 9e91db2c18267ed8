"""Who may have which program go on; and what others are told of an upgrade."""

import os
import subprocess
import sys
import threading
import time

import pytest

from support.waiting import eventually

NOBODY = 65534
# Sends a request as another user, and prints the reply.
AS_NOBODY = """
import encodings.idna, os, socket, sys
os.setgroups([]), os.setgid({nobody}), os.setuid({nobody})
connection = socket.create_connection(("127.0.0.1", {port}), 20)
words = sys.argv[1:]
connection.sendall(b"".join([b"*%d\\r\\n" % len(words)] + [b"$%d\\r\\n%s\\r\\n" % (len(w), w.encode()) for w in words]))
connection.settimeout(60)
print(connection.recv(4096).decode().strip())
"""


def ask_as_nobody(server, *words):
    program = AS_NOBODY.format(nobody=NOBODY, port=server.port)
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_other_users_of_the_machine_choose_no_program(start_upgradable):
    upgraded = start_upgradable()
    server = upgraded.server
    refused = "ERR BINARY and OPTION of MANTISSA.UPGRADE are for programs of the server's own user"
    for words in (("BINARY", "/bin/true"), ("OPTION", "--enable-debug-command", "yes")):
        assert refused in ask_as_nobody(server, "MANTISSA.UPGRADE", *words)
    # The server's own user may.
    upgraded.upgrade("OPTION", "--enable-protected-configs", "yes")
    # Then others may, too.
    before = upgraded.process()
    assert "serves" in ask_as_nobody(server, "MANTISSA.UPGRADE", "OPTION", "--hz", "20")
    upgraded.processes.append(upgraded.process())
    assert upgraded.processes[-1] != before


def test_users_that_are_gone_stay_gone(start_upgradable, tmp_path):
    path = tmp_path / "users.acl"
    users = ("default on nopass ~* &* +@all", "bob on nopass ~* +@all", "eve on nopass ~k -@all +get")
    path.write_text("".join(f"user {user}\n" for user in users))
    upgraded = start_upgradable(options={"aclfile": str(path)})
    with upgraded.server.connect() as connection:
        assert connection.call("ACL", "DELUSER", "bob") == 1
        connection.call("ACL", "SETUSER", "new", "on", "nopass", "~x", "+set")
        users = connection.call("ACL", "LIST")
    upgraded.upgrade()
    with upgraded.server.connect() as connection:
        assert connection.call("ACL", "LIST") == users


def test_the_successor_is_no_replica(start_upgradable):
    upgraded = start_upgradable()
    with upgraded.server.connect() as connection, upgraded.server.connect() as other:
        filling = [("SET", f"key:{number}", "x" * 1_000) for number in range(100_000)]
        connection.pipeline(filling, batch=2_000)
        other.send("WAIT", 1, 0)
        upgraded.upgrade()
        assert connection("WAIT", 1, 100).plain() == 0
        assert "connected_slaves:0" in connection.call("INFO", "replication").decode()
        with pytest.raises(TimeoutError):
            other.read(timeout=0.5)


def test_clients_that_come_late_know_that_they_missed_something(start_upgradable):
    upgraded = start_upgradable()
    big = "x" * 5_000_000
    with upgraded.server.connect() as connection:
        connection.call("SET", "big", big)
        with upgraded.server.connect() as watching, upgraded.server.connect() as tracking:
            watching.call("WATCH", "k")
            tracking.call("HELLO", 3)
            tracking.call("CLIENT", "TRACKING", "ON")
            assert tracking.call("GET", "k") is None
            for client in (watching, tracking):
                client.send_raw(b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n" * 12)
            time.sleep(0.2)
            upgraded.upgrade()
            with upgraded.server.connect() as other:
                other.call("SET", "k", 1)
            for client in (watching, tracking):
                for _ in range(12):
                    assert client.read().plain() == big.encode()
            assert tracking.read(timeout=20).plain() == [b"invalidate", None]
            for words in (("MULTI",), ("SET", "k", 2)):
                watching.call(*words)
            assert watching.call("EXEC") is None


def test_connections_are_accepted_after_an_upgrade_that_a_worker_kept_waiting(start_upgradable):
    upgraded = start_upgradable(workers=1, options={"enable-debug-command": "yes"})
    server = upgraded.server
    with server.connect() as connection, server.connect() as sleeping:
        connection.send("MANTISSA.UPGRADE")
        eventually(lambda: "begins to take over" in server.log_text(), "no process is started")
        sleeper = threading.Thread(target=lambda: sleeping.call("DEBUG", "SLEEP", 13))
        sleeper.start()
        reply = connection.read(timeout=60)
        sleeper.join()
        if reply.is_error:
            assert "takes too long" in reply.text()
        else:
            upgraded.processes.append(upgraded.process())
        with server.connect() as other:
            assert other.call("PING") == b"PONG"
