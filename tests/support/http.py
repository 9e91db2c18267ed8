"""A raw HTTP/1.1 client: it sends what it is told, and reads answers strictly."""

import re
import socket

from .resp import Closed
from .waiting import PATIENCE_S

HEAD_END = b"\r\n\r\n"


class Response:
    """An answer: its status, its fields by lower-case name, its content."""

    def __init__(self, status, fields, content):
        self.status = status
        self.fields = fields
        self.content = content

    def __repr__(self):
        return f"{self.status} {self.fields} {self.content[:200]!r}"


class Stream:
    """A connection to a port of this machine, and what has come over it."""

    def __init__(self, port, timeout=PATIENCE_S, tls=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def _fill(self):
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Closed(self.pending)
        self.pending += data


class HttpConnection(Stream):
    """A connection that speaks HTTP."""

    def send(self, data):
        self.socket.sendall(data)

    def request(self, path, method="GET", version="1.1", fields=None):
        """Send a request."""
        lines = [f"{method} {path} HTTP/{version}"]
        lines += [f"{name}: {value}" for name, value in ({"Host": "localhost"} | (fields or {})).items()]
        self.send("\r\n".join(lines).encode() + HEAD_END)

    def ask(self, path, **request):
        """Send a request and read the answer."""
        self.request(path, **request)
        return self.read(with_content=request.get("method") != "HEAD")

    def read(self, with_content=True):
        """Read an answer."""
        while HEAD_END not in self.pending:
            self._fill()
        head, self.pending = self.pending.split(HEAD_END, 1)
        status_line, *lines = head.decode("ascii").split("\r\n")
        found = re.fullmatch(r"HTTP/1\.1 (\d{3}) [A-Za-z ]+", status_line)
        assert found, status_line
        fields = {}
        for line in lines:
            name, value = re.fullmatch(r"([A-Za-z-]+): (.*\S)", line).groups()
            assert name.lower() not in fields, line
            fields[name.lower()] = value
        length = int(fields["content-length"]) if with_content else 0
        while len(self.pending) < length:
            self._fill()
        content, self.pending = self.pending[:length], self.pending[length:]
        return Response(int(found[1]), fields, content)

    def is_closed(self, timeout=PATIENCE_S):
        """Whether the server ends the connection, without sending anything more."""
        self.socket.settimeout(timeout)
        try:
            self._fill()
        except Closed as closed:
            return closed.pending == b""
        except TimeoutError:
            return False
        return False


def ask(port, path, **request):
    """The answer to one request on a connection of its own."""
    with HttpConnection(port) as connection:
        return connection.ask(path, **request)
