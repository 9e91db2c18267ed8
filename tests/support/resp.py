"""RESP2 and RESP3 as a test sees them: requests as bytes, replies with their raw bytes kept.

A reply is a `Reply`: its type byte, its value (bytes, or a list of replies) and the exact bytes that the
server sent, so that two servers can be compared byte for byte first, and by shape only where a written policy
says so.
"""

import os
import socket
import time

from .waiting import PATIENCE_S

# What a reply may begin with, and how many elements an aggregate has for each that its head counts.
AGGREGATES = {ord(kind): times for kind, times in {"*": 1, "~": 1, ">": 1, "%": 2, "|": 2}.items()}
ATTRIBUTE, NULL, BULK_STRING = b"|_$"
BULKS = frozenset(b"$=!")
LINES = frozenset(b"+-:_,#(")
NAMES = [chr(byte) for byte in range(256)]


class ProtocolError(Exception):
    """The bytes received are not RESP."""


class Closed(Exception):
    """The server closed the connection; `pending` holds the bytes of an unfinished reply."""

    def __init__(self, pending=b""):
        super().__init__(f"connection closed with {len(pending)} unread bytes: {pending[:80]!r}")
        self.pending = pending


class Reply:
    """One reply, with its raw bytes."""

    __slots__ = ("kind", "value", "_raw")

    def __init__(self, kind, value, raw):
        self.kind = kind  # the type byte, as a one-character str
        self.value = value  # bytes, None for a null, or a list of Reply
        self._raw = raw  # of an aggregate with elements, its head

    @property
    def raw(self):
        if self.value.__class__ is not list or not self.value:
            return self._raw
        return b"".join([self._raw, *[element.raw for element in self.value]])

    def __repr__(self):
        return show(self.raw)

    @property
    def is_error(self):
        return self.kind in "-!"

    @property
    def is_null(self):
        return self.kind == "_" or (self.kind in "$*" and self.value is None)

    @property
    def is_aggregate(self):
        return isinstance(self.value, list)

    def text(self):
        """The value of a simple reply as text."""
        return self.value.decode("utf-8", "backslashreplace")

    def plain(self):
        """The reply as bytes, int, None and nested lists, types forgotten."""
        if self.is_aggregate:
            return [element.plain() for element in self.value]
        if self.kind == ":":
            return int(self.value)
        return self.value


def show(raw, limit=300):
    """Raw bytes for a person: escaped, and cut when long."""
    text = repr(bytes(raw))[2:-1]
    return text if len(text) <= limit else f"{text[:limit]}...({len(raw)} bytes)"


def encode(args):
    """A request as an array of bulk strings."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        arg = to_bytes(arg)
        parts.append(b"$%d\r\n%s\r\n" % (len(arg), arg))
    return b"".join(parts)


def to_bytes(arg):
    """An argument as bytes: numbers and text by their usual text."""
    if isinstance(arg, (bytes, bytearray, memoryview)):
        return bytes(arg)
    return (arg if isinstance(arg, str) else repr(arg)).encode()


class Decoder:
    """Takes bytes in pieces of any size, gives whole replies. What was read of an unfinished reply is not
    read again."""

    def __init__(self):
        self.buffer = b""
        self.position = 0  # up to where it has been read
        self.fed = []  # what has come since
        self.missing = 0  # at least so many bytes must come before there can be more to read
        self.open = []  # unfinished aggregates: [kind, head, elements still to come, elements]

    def feed(self, data):
        self.fed.append(data)
        self.missing -= len(data)

    def pending(self):
        """The bytes that no reply has used yet."""
        used = [part for _, head, _, elements in self.open for part in (head, *(one.raw for one in elements))]
        return b"".join([*used, self.buffer[self.position :], *self.fed])

    def next(self):
        """The next whole reply, or None until more bytes come."""
        if self.fed:
            if self.missing > 0:
                return None
            self.buffer = b"".join([self.buffer[self.position :], *self.fed])
            self.position = 0
            self.fed.clear()
        while True:
            if self.open:
                self._bulk_strings()
            reply = self._element()
            if reply is None:
                return None
            while reply and self.open:
                reply = self._into_aggregate(reply)
            if reply:  # False: an aggregate that is not whole yet
                return reply

    def _into_aggregate(self, element):
        """Add an element to the innermost aggregate: the aggregate if that made it whole, else False."""
        kind, head, missing, elements = aggregate = self.open[-1]
        elements.append(element)
        aggregate[2] = missing - 1
        if missing > 1:
            return False
        self.open.pop()
        return Reply(kind, elements, head)

    def _bulk_strings(self):
        """Takes bulk strings into the innermost aggregate, fast: those that are whole, but not its last element."""
        _, _, missing, elements = aggregate = self.open[-1]
        buffer, position, size = self.buffer, self.position, len(self.buffer)
        while missing > 1 and position < size and buffer[position] == BULK_STRING:
            start = buffer.find(b"\r\n", position) + 2
            if start == 1 or (length := int(buffer[position + 1 : start - 2])) < 0:
                break
            end = start + length
            if buffer[end : end + 2] != b"\r\n":
                break
            elements.append(Reply("$", buffer[start:end], buffer[position : end + 2]))
            position = end + 2
            missing -= 1
        aggregate[2], self.position = missing, position

    def _element(self):
        """A whole reply that is no filled aggregate; False after the head of one; None without enough
        bytes."""
        buffer, start = self.buffer, self.position
        end = buffer.find(b"\r\n", start)
        if end < 0:
            self.missing = 1
            return None
        if end == start:
            raise ProtocolError(f"empty line at {show(self.pending())}")
        kind, after = buffer[start], end + 2
        if kind in BULKS:
            return self._bulk(kind, start, after, int(buffer[start + 1 : end]))
        if kind in AGGREGATES:
            return self._head(kind, start, after, int(buffer[start + 1 : end]))
        if kind not in LINES:
            raise ProtocolError(f"unknown type {NAMES[kind]!r} at {show(self.pending())}")
        self.position = after
        value = None if kind == NULL else buffer[start + 1 : end]
        return Reply(NAMES[kind], value, buffer[start:after])

    def _head(self, kind, start, after, count):
        self.position = after
        head = self.buffer[start:after]
        if count < 0:
            return Reply(NAMES[kind], None, head)
        # Attributes come before the reply that they describe, and are shown as one with it.
        elements = count * AGGREGATES[kind] + (kind == ATTRIBUTE)
        if elements == 0:
            return Reply(NAMES[kind], [], head)
        self.open.append([NAMES[kind], head, elements, []])
        return False

    def _bulk(self, kind, start, after, size):
        if size < 0:
            self.position = after
            return Reply(NAMES[kind], None, self.buffer[start:after])
        buffer, end = self.buffer, after + size
        if len(buffer) < end + 2:
            self.missing = end + 2 - len(buffer)
            return None
        if buffer[end : end + 2] != b"\r\n":
            raise ProtocolError(f"bulk without its end at {show(buffer[start : start + 300])}")
        self.position = end + 2
        return Reply(NAMES[kind], buffer[after:end], buffer[start : end + 2])


class Connection:
    """A client connection that hides nothing: it sends bytes and hands out replies in the order they come."""

    def __init__(self, address, timeout=PATIENCE_S):
        self.address = address
        self.timeout = timeout
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(timeout)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.decoder = Decoder()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send_raw(self, data):
        self.socket.sendall(data)

    def send(self, *args):
        """Send one request without waiting."""
        self.send_raw(encode(args))

    def read(self, timeout=None):
        """The next reply; `TimeoutError` when none comes, `Closed` when the server hung up."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            reply = self.decoder.next()
            if reply is not None:
                return reply
            self._fill(deadline)

    def _fill(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no whole reply in time; pending {show(self.decoder.pending())}")
        self.socket.settimeout(left)
        try:
            data = self.socket.recv(1 << 18)
        except (ConnectionResetError, BrokenPipeError) as error:
            raise Closed(self.decoder.pending()) from error
        if not data:
            raise Closed(self.decoder.pending())
        self.decoder.feed(data)

    def read_until_closed(self, timeout=None):
        """Every byte until the server closes."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        try:
            while True:
                self._fill(deadline)
        except Closed as closed:
            return closed.pending

    def __call__(self, *args):
        """Send one request and wait for its reply."""
        self.send(*args)
        return self.read()

    def call(self, *args):
        """Like calling, as plain values, and an error reply raises."""
        reply = self(*args)
        if reply.is_error:
            raise AssertionError(f"{args!r} gave {reply.text()}")
        return reply.plain()

    def pipeline(self, requests, batch=200):
        """Send requests in batches and return all replies."""
        replies = []
        for start in range(0, len(requests), batch):
            part = requests[start : start + batch]
            self.send_raw(b"".join(encode(args) for args in part))
            replies += [self.read() for _ in part]
        return replies

    def reset(self):
        """Close abruptly: the server sees a reset, not an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.close()

    def close(self):
        self.socket.close()


def fresh_name(prefix="m"):
    """A name no other run uses."""
    return f"{prefix}-{os.getpid()}-{time.monotonic_ns():x}"
