"""What is around the connections at an upgrade: TLS, which ends, and the init system, which follows."""

import shutil
import socket
import subprocess

import pytest

from robustness.test_tls import certificates, context_of, options_of
from startup.test_supervision import Systemd
from support.resp import Decoder, encode
from support.servers import subject_path
from support.waiting import eventually

# A fixture, which pytest finds here by its name.
assert certificates


class Secure:
    """A client with TLS that reads when it is told to."""

    def __init__(self, server, certificates):
        plain = socket.create_connection(("127.0.0.1", server.options["tls-port"]), 60)
        self.socket = context_of(certificates).wrap_socket(plain, server_hostname="localhost")
        self.decoder = Decoder()

    def read(self):
        """The next reply; none at the end of the connection."""
        while (reply := self.decoder.next()) is None:
            received = self.socket.recv(1 << 16)
            if not received:
                return None
            self.decoder.feed(received)
        return reply


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs the openssl command")
def test_connections_with_tls_end_after_their_replies(start_upgradable, certificates):
    server = start_upgradable(options=options_of(certificates))
    idle, busy = Secure(server.server, certificates), Secure(server.server, certificates)
    with server.server.connect() as client:
        client.call("SET", "large", b"z" * 1_000_000)
        idle.socket.sendall(encode(("PING",)))
        assert idle.read().text() == "PONG"
        busy.socket.sendall(encode(("GET", "large")) * 20)
        done = lambda: b"cmd=get" in client.call("CLIENT", "LIST")
        eventually(done, "its requests do not arrive")
        server.upgrade()
        assert idle.read() is None, "it is closed, and properly: a cut would be an error"
        for _ in range(20):
            assert len(busy.read().value) == 1_000_000
        assert busy.read() is None
        again = Secure(server.server, certificates)
        again.socket.sendall(encode(("STRLEN", "large")))
        assert again.read().plain() == 1_000_000
        for connection in (idle, busy, again):
            connection.socket.close()


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs the openssl command")
def test_who_asks_over_tls_is_told(start_upgradable, certificates):
    server = start_upgradable(options=options_of(certificates))
    words = [subject_path(), "upgrade", "--tls", "--cacert", certificates / "ca.crt", "-h", "localhost"]
    words += ["-p", server.server.options["tls-port"]]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120)
    server.processes.append(server.process())
    assert done.returncode == 0 and f"process {server.processes[-1]} serves" in done.stdout, done


def test_systemd_follows_the_new_process(start_upgradable, tmp_path):
    systemd = Systemd(str(tmp_path / "notify"))
    server = start_upgradable(options={"supervised": "systemd"}, environment=systemd.environment())
    first = systemd.until("STATUS=Ready")
    assert f"MAINPID={server.process()}" in first
    for _ in range(2):
        process = server.upgrade()
        lines = systemd.until("STATUS=Ready")
        assert "READY=1" in lines
        # Both tell it: with NotifyAccess=main nobody listens to the new one before.
        while lines.count(f"MAINPID={process}") < 2:
            lines += systemd.until("MAINPID=")
        server.await_end_of_former()
    assert not any(line.startswith("STOPPING") for line in systemd.lines), "the service does not end"
    systemd.socket.close()
