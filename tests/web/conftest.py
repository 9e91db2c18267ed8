"""A server with HTTP, on each driver, and a client that speaks JSON to it."""

import json
import ssl

import pytest
from support.certificates import HAS_OPENSSL, make_authority, make_certificate
from support.http import HttpConnection
from support.servers import free_port


class Rest(HttpConnection):
    """A connection that sends commands."""

    def post(self, path, body, fields=None):
        """Send content and read the answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = {"Host": "localhost", "Content-Length": len(data)} | (fields or {})
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.send(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + data)
        return self.read()

    def call(self, *command, **fields):
        """The result or error of a command."""
        return json.loads(self.post("/", command, fields).content)


@pytest.fixture(params=["io_uring", "epoll"])
def server(request, start_server):
    options = {"io-driver": request.param, "http-port": free_port()}
    server = start_server(options=options, workers=2)
    server.http_port = options["http-port"]
    return server


@pytest.fixture
def rest(server):
    with Rest(server.http_port) as connection:
        yield connection


@pytest.fixture(params=["io_uring", "epoll"])
def tls_server(request, start_server, tmp_path):
    """A server with HTTP within TLS: its port, and what trusts its certificate."""
    if not HAS_OPENSSL:
        pytest.skip("needs the openssl command")
    make_authority(tmp_path, "ca")
    make_certificate(tmp_path, "server", "ca")
    options = {
        "io-driver": request.param,
        "http-tls-port": free_port(),
        "tls-cert-file": tmp_path / "server.crt",
        "tls-key-file": tmp_path / "server.key",
        "tls-ca-cert-file": tmp_path / "ca.crt",
        "tls-auth-clients": "no",
    }
    start_server(options=options, workers=2)
    return options["http-tls-port"], ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
