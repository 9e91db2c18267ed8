"""Runs programs as people do: in pipes, or at a real pseudo-terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time

from .waiting import PATIENCE_S

ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]")


def kill(server):
    """End a server at once, and wait until its port refuses: the kernel takes its rings down a little later."""
    server.kill()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", server.port), 1).close()
        except ConnectionRefusedError:
            return
        except OSError:
            pass
        time.sleep(0.01)
    raise AssertionError(f"port {server.port} still answers")


class Result:
    """What a program printed and how it ended."""

    def __init__(self, completed):
        self.out, self.err, self.code = completed.stdout, completed.stderr, completed.returncode

    def __repr__(self):
        return f"{self.code} {self.out!r} {self.err!r}"

    def __eq__(self, other):
        return (self.out, self.err, self.code) == (other.out, other.err, other.code)


def run(command, stdin=b"", env=None):
    """Run a program to its end, with all in pipes."""
    environment = {name: value for name, value in os.environ.items() if name != "REDISCLI_AUTH"}
    completed = subprocess.run(
        [str(word) if not isinstance(word, bytes) else word for word in command],
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_S,
        env=environment | (env or {}),
    )
    return Result(completed)


class Terminal:
    """A program at a pseudo-terminal of 40 lines of 150 characters."""

    def __init__(self, command, env):
        self.output = b""
        self.status = None
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm-256color"} | env)
            os.execv(command[0], [str(word) for word in command])
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))

    def type(self, text):
        os.write(self.descriptor, text.encode() if isinstance(text, str) else text)

    def read(self):
        """More output; False at the end."""
        if not select.select([self.descriptor], [], [], 0.05)[0]:
            return True
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:
            return False
        self.output += data
        return bool(data)

    @property
    def text(self):
        """The output without escape sequences."""
        return ESCAPES.sub(b"", self.output).decode("utf-8", "replace")

    def wait_for(self, wanted, raw=False):
        """Wait until something is on the screen, and forget what came before its end."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            shown = self.output.decode("utf-8", "replace") if raw else self.text
            at = shown.find(wanted)
            if at >= 0:
                self.output = shown[at + len(wanted) :].encode()
                return shown[:at]
            assert time.monotonic() < deadline, f"no {wanted!r} in {shown[-3000:]!r}"
            assert self.read() or wanted in self.text, f"ended without {wanted!r}: {self.text[-3000:]!r}"

    def wait_end(self):
        """The exit code, once the program has ended by itself."""
        deadline = time.monotonic() + PATIENCE_S
        while self.read():
            assert time.monotonic() < deadline, f"still running: {self.text[-2000:]!r}"
        return self._reap()

    def _reap(self):
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self.descriptor)
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()
