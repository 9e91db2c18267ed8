"""A raw WebSocket client: it sends the frames that it is told, and reads those of the server strictly."""

import base64
import hashlib
import json
import os
import struct
import time

from .http import Stream
from .resp import Closed, Decoder, encode
from .waiting import PATIENCE_S

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA


class Refused(Exception):
    """The opening request was answered by something else than 101."""

    def __init__(self, status, fields):
        super().__init__(f"{status} {fields}")
        self.status = status
        self.fields = fields


def frame(opcode, payload=b"", fin=True, reserved=0, mask=None, key=b"\x37\xfa\x21\x3d"):
    """A frame of a client; `mask=False` leaves out the mask."""
    head = bytes([(0x80 if fin else 0) | reserved << 4 | opcode])
    bit = 0 if mask is False else 0x80
    if len(payload) < 126:
        head += bytes([bit | len(payload)])
    elif len(payload) < 1 << 16:
        head += bytes([bit | 126]) + struct.pack(">H", len(payload))
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", len(payload))
    if mask is False:
        return head + payload
    repeated = (key * (len(payload) // 4 + 1))[: len(payload)]
    hidden = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
    return head + key + hidden.to_bytes(len(payload), "big")


class WebSocket(Stream):
    """A connection to `/ws` at a port of this machine."""

    def __init__(self, port, path="/ws", fields=None, without=(), timeout=PATIENCE_S, rest=b"", tls=None):
        super().__init__(port, timeout, tls)
        self.decoder = Decoder()
        key = base64.b64encode(os.urandom(16)).decode()
        all_fields = {
            "Host": f"127.0.0.1:{port}",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": key,
            "Sec-WebSocket-Version": "13",
        } | (fields or {})
        lines = [f"GET {path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in all_fields.items() if name not in without]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + rest)
        self._read_answer(key)

    def _read_answer(self, key):
        while b"\r\n\r\n" not in self.pending:
            self._fill()
        head, self.pending = self.pending.split(b"\r\n\r\n", 1)
        first, *lines = head.decode().split("\r\n")
        self.fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        status = int(first.split()[1])
        if status != 101:
            raise Refused(status, self.fields)
        wanted = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
        assert self.fields["sec-websocket-accept"] == wanted
        assert self.fields["upgrade"].lower() == "websocket" and self.fields["connection"].lower() == "upgrade"

    def _take(self, count):
        while len(self.pending) < count:
            self._fill()
        taken, self.pending = self.pending[:count], self.pending[count:]
        return taken

    def send_raw(self, data):
        self.socket.sendall(data)

    def send(self, opcode, payload=b"", **options):
        self.send_raw(frame(opcode, payload, **options))

    def read_frame(self):
        """The opcode and payload of the next frame, which is whole, without a mask, and as short as can be."""
        first, second = self._take(2)
        assert first & 0x80 and not first & 0x70 and not second & 0x80, (first, second)
        size = second
        if size == 126:
            (size,) = struct.unpack(">H", self._take(2))
            assert size > 125
        elif size == 127:
            (size,) = struct.unpack(">Q", self._take(8))
            assert size > 0xFFFF
        return first & 0xF, self._take(size)

    def read_close(self):
        """The code of the server's last frame, behind which nothing follows; `None` if it has none."""
        opcode, payload = self.read_frame()
        assert opcode == CLOSE, (opcode, payload)
        self.expect_end()
        return struct.unpack(">H", payload[:2])[0] if payload else None

    def expect_end(self):
        try:
            self._take(1)
        except Closed:
            return
        raise AssertionError("the server goes on after its last frame")

    # ---- RESP in binary messages ----

    def send_command(self, *words):
        self.send(BINARY, encode(words))

    def read_reply(self):
        while (reply := self.decoder.next()) is None:
            opcode, payload = self.read_frame()
            if opcode == PING:
                self.send(PONG, payload)
                continue
            assert opcode == BINARY, (opcode, payload)
            self.decoder.feed(payload)
        return reply.plain()

    def call(self, *words):
        self.send_command(*words)
        return self.read_reply()

    # ---- JSON in text messages ----

    def send_json(self, value):
        self.send(TEXT, json.dumps(value).encode())

    def read_json(self):
        opcode, payload = self.read_frame()
        assert opcode == TEXT, (opcode, payload)
        return json.loads(payload)

    def ask(self, *words):
        self.send_json(list(words))
        return self.read_json()


def eventually_closed(connection, seconds=PATIENCE_S):
    """Whether the server ends the connection in time, whatever it sends before."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            connection.pending = b""
            connection._fill()
        except Closed:
            return True
    return False
