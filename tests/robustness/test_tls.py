"""TLS: clients of every kind, records cut anywhere, peers that misbehave, and certificates that change.

The certificates are made by the openssl command for each run.
"""

import contextlib
import hashlib
import random
import shutil
import socket
import ssl
import subprocess
import time

import pytest
import redis

from concurrency.test_moving import count_in_order, packed, places
from support.certificates import HAS_OPENSSL, make_authority, make_certificate, openssl
from support.crowd import Crowd
from support.resp import Decoder, encode
from support.seeds import generator, run_seed
from support.servers import Server, free_port, subject_is_oracle
from support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.skipif(
    subject_is_oracle() or not HAS_OPENSSL, reason="needs a server with TLS and the openssl command"
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A folder with two authorities, two certificates of the server, one of a client and one of a stranger."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("ca", "other"):
        make_authority(folder, name)
    for name, authority in [("server", "ca"), ("second", "ca"), ("client", "ca"), ("stranger", "other")]:
        make_certificate(folder, name, authority)
    openssl(folder, "pkcs8", "-topk8", "-in", "server.key", "-out", "locked.key", "-passout", "pass:secret")
    return folder


def options_of(certificates, **changes):
    options = {
        "tls-port": free_port(),
        "tls-cert-file": certificates / "server.crt",
        "tls-key-file": certificates / "server.key",
        "tls-ca-cert-file": certificates / "ca.crt",
        "tls-auth-clients": "no",
        "loglevel": "verbose",
    }
    return options | {name.replace("_", "-"): value for name, value in changes.items()}


@pytest.fixture(scope="module", params=["epoll", "io_uring"])
def server(request, certificates):
    with Server("subject", options=options_of(certificates, io_driver=request.param), workers=2) as server:
        yield server


def context_of(certificates, name=None):
    context = ssl.create_default_context(cafile=certificates / "ca.crt")
    if name:
        context.load_cert_chain(certificates / f"{name}.crt", certificates / f"{name}.key")
    return context


class Secure:
    """A client with TLS in memory: the records are bytes that the test cuts as it likes."""

    def __init__(self, server, context, port=None):
        self.socket = socket.create_connection(("127.0.0.1", port or server.options["tls-port"]), 20)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.decoder = Decoder()
        self.do(self.tls.do_handshake)

    def flush(self, pieces=lambda data: [data]):
        data = self.outgoing.read()
        for piece in pieces(data) if data else []:
            self.socket.sendall(piece)

    def do(self, work, *args):
        """Does something that may need bytes from the server."""
        while True:
            try:
                result = work(*args)
                self.flush()
                return result
            except ssl.SSLWantReadError:
                self.flush()
                data = self.socket.recv(1 << 18)
                if data:
                    self.incoming.write(data)
                else:
                    self.incoming.write_eof()

    def send(self, data, pieces=lambda data: [data]):
        self.tls.write(data)
        self.flush(pieces)

    def read(self):
        while (reply := self.decoder.next()) is None:
            data = self.do(self.tls.read, 1 << 18)
            assert data, "the server has ended the connection"
            self.decoder.feed(data)
        return reply

    def __call__(self, *args):
        self.send(encode(args))
        return self.read()

    def close(self):
        self.socket.close()


def wait_closed(connection, timeout=PATIENCE_S):
    """Reads until the server has closed a socket; returns what came."""
    connection.settimeout(timeout)
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(1 << 16):
            received += data
    return received


def test_redis_cli(server, certificates):
    if not shutil.which("redis-cli"):
        pytest.skip("needs redis-cli")
    words = ["redis-cli", "--tls", "--cacert", certificates / "ca.crt", "-p", server.options["tls-port"]]
    options = {"capture_output": True, "text": True, "timeout": PATIENCE_S}
    run = subprocess.run([*map(str, words), "SET", "cli", "over tls"], **options)
    assert run.stdout.strip() == "OK", run
    run = subprocess.run([*map(str, words), "-3", "GET", "cli"], **options)
    assert run.stdout.strip() in ("over tls", '"over tls"'), run


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py(server, certificates, protocol):
    client = redis.Redis(
        port=server.options["tls-port"], ssl=True, ssl_ca_certs=certificates / "ca.crt", protocol=protocol
    )
    client.flushall()
    with client.pipeline(transaction=False) as pipeline:
        for number in range(5000):
            pipeline.set(f"k{number}", number)
        assert pipeline.execute() == [True] * 5000
    assert client.mget([f"k{number}" for number in range(5000)]) == [b"%d" % n for n in range(5000)]
    watcher = client.pubsub(ignore_subscribe_messages=True)
    watcher.subscribe("news")
    while watcher.get_message(timeout=1):
        pass
    with server.connect() as plain:
        assert plain.call("PUBLISH", "news", "x" * 100_000) == 1
    assert watcher.get_message(timeout=PATIENCE_S)["data"] == b"x" * 100_000
    assert client.blpop("list", timeout=0.1) is None
    watcher.close()
    client.close()


def test_records_cut_anywhere(server, certificates):
    """A pipeline is answered in order however its records are cut and however many commands one holds."""
    choose = random.Random(run_seed())
    client = Secure(server, context_of(certificates))
    client("FLUSHALL")

    def pieces(data):
        while data:
            size = choose.choice([1, 2, 5, 100, 3000, 17_000])
            yield data[:size]
            data = data[size:]

    for _ in range(30):
        values = [bytes([choose.randrange(256)]) * choose.choice([0, 1, 50, 5000, 40_000]) for _ in range(20)]
        requests = b"".join(encode(["SET", "k", value]) + encode(["GET", "k"]) for value in values)
        client.send(requests, pieces)
        for value in values:
            assert client.read().raw == b"+OK\r\n"
            assert client.read().value == value
    client.close()


def test_a_large_value(server, certificates):
    value = random.Random(1).randbytes(1 << 20) * 100
    client = redis.Redis(port=server.options["tls-port"], ssl=True, ssl_ca_certs=certificates / "ca.crt")
    client.set("large", value)
    digest = hashlib.sha256(value).digest()
    assert hashlib.sha256(client.get("large")).digest() == digest
    with server.connect() as plain:
        assert hashlib.sha256(plain.call("GET", "large")).digest() == digest
        plain.call("DEL", "large")
    client.close()


def test_a_slow_reader_gets_everything(server, certificates):
    client = Secure(server, context_of(certificates))
    client("SET", "k", "v" * 1_000_000)
    client.send(encode(["GET", "k"]) * 60)
    with server.connect() as plain:
        assert plain.call("PING") == b"PONG"
    for _ in range(60):
        assert len(client.read().value) == 1_000_000
    client.close()


def test_an_end_comes_after_the_replies(server, certificates):
    """A client that says at once that nothing follows gets its replies, and the server's farewell."""
    client = Secure(server, context_of(certificates))
    client.tls.write(encode(["PING", "first"]) + encode(["PING", "last"]))
    with contextlib.suppress(ssl.SSLWantReadError):
        client.tls.unwrap()
    client.flush()
    client.incoming.write(wait_closed(client.socket))
    received = b""
    with contextlib.suppress(ssl.SSLZeroReturnError, ssl.SSLWantReadError):
        while data := client.tls.read(1 << 16):
            received += data
    assert received == b"$5\r\nfirst\r\n$4\r\nlast\r\n"
    blocked = Secure(server, context_of(certificates))
    number = blocked("CLIENT", "ID").plain()
    blocked.send(encode(["BLPOP", "nolist", "0"]))
    blocked.socket.shutdown(socket.SHUT_WR)
    assert wait_closed(blocked.socket) == b""
    with server.connect() as plain:
        # The peer may see the end before other workers do.
        eventually(lambda: not plain.call("CLIENT", "LIST", "ID", number), "the client is still listed")


def test_quit_and_reset(server, certificates):
    client = Secure(server, context_of(certificates))
    assert client("QUIT").raw == b"+OK\r\n"
    assert client.do(client.tls.read, 100) == b"", "the server says farewell"
    client = Secure(server, context_of(certificates))
    client("PING")
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    client.close()
    with server.connect() as plain:
        assert plain.call("PING") == b"PONG"


@pytest.mark.parametrize("garbage", [b"PING\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\0" * 100, b"\x16"])
def test_garbage_ends_the_connection(server, garbage):
    before = server.connect()
    with socket.create_connection(("127.0.0.1", server.options["tls-port"]), 20) as bad:
        # The server may have closed the connection before the client shuts it.
        with contextlib.suppress(OSError):
            bad.sendall(garbage)
            bad.shutdown(socket.SHUT_WR)
        received = wait_closed(bad)
    assert b"PONG" not in received
    assert before.call("PING") == b"PONG"
    before.close()


def test_garbage_after_the_handshake(server, certificates):
    client = Secure(server, context_of(certificates))
    client("PING")
    client.socket.sendall(b"\x17\x03\x03\x00\x20" + b"y" * 32)
    wait_closed(client.socket)
    with server.connect() as plain:
        assert plain.call("PING") == b"PONG"


def test_tls_on_the_plain_port(server, certificates):
    with pytest.raises((ssl.SSLError, ConnectionError, TimeoutError)):
        Secure(server, context_of(certificates), port=server.port)


def test_silent_peers_are_closed_like_idle_ones(start_server, certificates):
    server = start_server("subject", options=options_of(certificates, timeout=1))
    with socket.create_connection(("127.0.0.1", server.options["tls-port"]), 20) as silent:
        assert wait_closed(silent) == b""


def accepted(server, context):
    try:
        client = Secure(server, context)
        answer = client("PING").raw
        client.close()
        return answer == b"+PONG\r\n"
    except (ssl.SSLError, ConnectionError, AssertionError):
        return False


@pytest.mark.parametrize(
    ("wanted", "without", "own", "stranger"),
    [("no", True, True, True), ("optional", True, True, False), ("yes", False, True, False)],
)
def test_client_certificates(start_server, certificates, wanted, without, own, stranger):
    server = start_server("subject", options=options_of(certificates, tls_auth_clients=wanted))
    assert accepted(server, context_of(certificates)) is without
    assert accepted(server, context_of(certificates, "client")) is own
    assert accepted(server, context_of(certificates, "stranger")) is stranger


def shown_certificate(server, certificates):
    client = Secure(server, context_of(certificates))
    shown = client.tls.getpeercert()["subject"][0][0][1]
    return client, shown


def test_certificates_are_reloaded(server, certificates):
    plain = server.connect()
    old, shown = shown_certificate(server, certificates)
    assert shown == "server"
    reply = plain("CONFIG", "SET", "tls-cert-file", f"{certificates}/second.crt")
    assert reply.is_error and b"Unable to update TLS configuration" in reply.raw, "the key is another's"
    assert plain("CONFIG", "SET", "tls-key-file", f"{certificates}/nowhere").is_error
    assert plain("CONFIG", "SET", "tls-key-file", f"{certificates}/locked.key").is_error
    assert "it is encrypted" in server.log_text()
    assert plain.call("CONFIG", "GET", "tls-cert-file")[1].decode() == str(certificates / "server.crt")
    files = ["tls-cert-file", certificates / "second.crt", "tls-key-file", certificates / "second.key"]
    plain.call("CONFIG", "SET", *map(str, files))
    new, shown = shown_certificate(server, certificates)
    assert shown == "second" and old("PING").raw == new("PING").raw == b"+PONG\r\n"
    files = ["tls-cert-file", certificates / "server.crt", "tls-key-file", certificates / "server.key"]
    plain.call("CONFIG", "SET", *map(str, files))
    for client in (plain, old, new):
        client.close()


def test_files_with_the_same_name_are_read_again(start_server, certificates, tmp_path):
    for end in ("crt", "key"):
        shutil.copy(certificates / f"server.{end}", tmp_path / f"now.{end}")
    files = {"tls_cert_file": tmp_path / "now.crt", "tls_key_file": tmp_path / "now.key"}
    server = start_server("subject", options=options_of(certificates, **files))
    for end in ("crt", "key"):
        shutil.copy(certificates / f"second.{end}", tmp_path / f"now.{end}")
    assert shown_certificate(server, certificates)[1] == "server"
    with server.connect() as plain:
        plain.call("CONFIG", "SET", "tls-cert-file", str(tmp_path / "now.crt"))
    assert shown_certificate(server, certificates)[1] == "second"


def test_encrypted_keys(start_server, certificates):
    locked = {"tls_key_file": certificates / "locked.key", "tls_key_file_pass": "secret"}
    server = start_server("subject", options=options_of(certificates, **locked))
    assert shown_certificate(server, certificates)[1] == "server"
    with server.connect() as plain:
        assert plain("CONFIG", "SET", "tls-key-file-pass", "wrong").is_error
        assert "it is encrypted and cannot be decrypted" in server.log_text()
        old = ["-traditional", "-aes128", "-passout", "pass:secret", "-out", "old.key"]
        openssl(certificates, "pkey", "-in", "server.key", *old)
        assert plain("CONFIG", "SET", "tls-key-file", str(certificates / "old.key")).is_error
        assert "it is encrypted in an old form" in server.log_text()
        client_key = ["tls-key-file", certificates / "server.key", "tls-key-file-pass", ""]
        plain.call("CONFIG", "SET", *map(str, client_key))
    assert shown_certificate(server, certificates)[1] == "server"


@pytest.mark.parametrize("form", ["sec1", "pkcs8"])
def test_a_key_without_its_public_part(start_server, certificates, form):
    """As Java's keytool leaves it."""
    openssl(certificates, "ec", "-in", "server.key", "-no_public", "-out", "sec1.key")
    openssl(certificates, "pkcs8", "-topk8", "-nocrypt", "-in", "sec1.key", "-out", "pkcs8.key")
    bare = {"tls_key_file": certificates / f"{form}.key"}
    server = start_server("subject", options=options_of(certificates, **bare))
    assert shown_certificate(server, certificates)[1] == "server"
    with server.connect() as plain:
        assert plain("CONFIG", "SET", "tls-cert-file", str(certificates / "second.crt")).is_error
        assert "Failed to load private key" in server.log_text()


def test_the_port_changes(start_server, certificates):
    server = start_server("subject", options=options_of(certificates, tls_port=0))
    plain, port = server.connect(), free_port()
    plain.call("CONFIG", "SET", "tls-port", port)
    server.options["tls-port"] = port
    eventually(lambda: reachable(port), "nobody listens")
    kept, _ = shown_certificate(server, certificates)
    assert f"name=tls,bind=127.0.0.1,port={port}" in plain.call("INFO", "server").decode()
    plain.call("CONFIG", "SET", "tls-port", 0)
    eventually(lambda: not reachable(port), "the port stays")
    assert kept("PING").raw == b"+PONG\r\n" and plain.call("PING") == b"PONG"


def reachable(port):
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), 20):
        return True
    return False


def test_protocols_and_ciphers(start_server, certificates):
    names = {"tls_protocols": "TLSv1.2", "tls_ciphers": "ECDHE-ECDSA-CHACHA20-POLY1305"}
    server = start_server("subject", options=options_of(certificates, **names))
    context = context_of(certificates)
    client = Secure(server, context)
    assert client.tls.version() == "TLSv1.2" and client.tls.cipher()[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    assert not accepted(server, context)
    with server.connect() as plain:
        assert plain("CONFIG", "SET", "tls-protocols", "TLSv1.1").is_error
        assert plain("CONFIG", "SET", "tls-ciphers", "RC4-MD5").is_error
        plain.call("CONFIG", "SET", "tls-protocols", "TLSv1.2 TLSv1.3")
    assert accepted(server, context)


@pytest.mark.parametrize("caching", ["yes", "no"])
def test_sessions_are_taken_up_again(start_server, certificates, caching):
    options = options_of(certificates, tls_session_caching=caching, tls_protocols="TLSv1.2")
    server, context = start_server("subject", options=options), context_of(certificates)

    def connect(session):
        plain = socket.create_connection(("127.0.0.1", server.options["tls-port"]), 20)
        tls = context.wrap_socket(plain, server_hostname="localhost", session=session)
        tls.sendall(b"PING\r\n")
        assert tls.recv(100) == b"+PONG\r\n"
        return tls

    with connect(None) as first, connect(first.session) as second:
        assert second.session_reused is (caching == "yes")


class SecureConnection(Secure):
    """As the raw connections of other suites."""

    def send_raw(self, data):
        self.send(data)

    def call(self, *args):
        reply = self(*args)
        assert not reply.is_error, reply
        return reply.plain()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class SecureServer:
    """A server to whom all connections speak TLS."""

    def __init__(self, server, context):
        self.server, self.context = server, context

    def connect(self, *_, **__):
        return SecureConnection(self.server, self.context)


@pytest.mark.parametrize("driver", ["epoll", "io_uring"])
def test_busy_connections_move(start_server, certificates, driver):
    """Connections go to another worker with their TLS in the middle of it."""
    options = options_of(certificates, io_driver=driver)
    server = start_server("subject", options=options, workers=4)
    crowd = Crowd(SecureServer(server, context_of(certificates)))
    with server.connect() as plain:
        for number in range(8):
            crowd.start(count_in_order, generator("counter", number))
        deadline = time.monotonic() + 60
        for _ in range(2):
            plain.call("CONFIG", "SET", "worker-packing", "no")
            while True:
                # From some moment on new connections go everywhere.
                with server.connect() as probe:
                    number = probe.call("CLIENT", "ID")
                    if places(plain)[number] != 0:
                        break
                assert time.monotonic() < deadline
            for number in range(4):
                crowd.start(count_in_order, generator("more", number))
            plain.call("CONFIG", "SET", "worker-packing", "yes")
            while not packed(places(plain)):
                assert time.monotonic() < deadline and not crowd.stop.is_set(), places(plain)
        crowd.stop.set()
        crowd.join()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tls_cert_file": ""}, "No tls-cert-file configured!"),
        ({"tls_key_file": ""}, "No tls-key-file configured!"),
        ({"tls_ca_cert_file": "", "tls_auth_clients": "yes"}, "Either tls-ca-cert-file or tls-ca-cert-dir"),
        ({"tls_cert_file": "/nowhere.crt"}, "Failed to load certificate: /nowhere.crt"),
        ({"tls_protocols": "SSLv3"}, "SSLv3 is not supported"),
    ],
)
def test_a_bad_configuration_stops_the_start(certificates, changes, reason):
    options = options_of(certificates, **changes)
    server = Server("subject", options={name: value for name, value in options.items() if value != ""}, wait=False)
    try:
        assert server.wait_exit() == 1 and reason in server.log_text()
    finally:
        server.stop()


def test_who_speaks_no_tls_gets_no_bytes(server):
    for first in (b"*1\r\n$4\r\nPING\r\n", b"PING\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.options["tls-port"]), timeout=10) as plain:
            plain.sendall(first)
            with contextlib.suppress(ConnectionResetError):
                assert plain.recv(100) == b""
