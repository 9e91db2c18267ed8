"""Time series against RedisTimeSeries: bytes of a sample, and processor time of the server for adding and reading.

    bench/series.py BINARY "redis-server --loadmodule .../redistimeseries.so" [--samples 200000]

Both servers are started anew without files. Bytes are MEMORY USAGE by samples; times are those that the kernel has
counted for the whole process, so a client on the other core does not matter. Numbers come from a fixed seed.
"""

import argparse
import os
import pathlib
import random
import shlex
import socket
import subprocess
import tempfile
import time

BATCH = 1000
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A server that runs, and one connection to it."""

    def __init__(self, command, port):
        self.folder = tempfile.TemporaryDirectory()
        options = ["--port", str(port), "--save", "", "--appendonly", "no", "--dir", self.folder.name]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        self.file = self.socket.makefile("rb")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def skip_reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:]
        assert kind != b"-", line
        if kind == b"*":
            for _ in range(int(rest)):
                self.skip_reply()
        elif kind == b"$" and int(rest) >= 0:
            self.file.read(int(rest) + 2)
        return rest

    def call(self, *words):
        self.socket.sendall(packed(words))
        return self.skip_reply()

    def read_range(self, words):
        """Send a command whose reply is a list of samples, and read it without looking at each."""
        self.socket.sendall(packed(words))
        count = int(self.file.readline()[1:])
        left = 3 * count
        while left:
            data = self.file.read1(1 << 20)
            left -= data.count(b"\n")

    def play(self, requests):
        """Send requests in batches; each has a reply of one line or one list of lines."""
        for start in range(0, len(requests), BATCH):
            batch = requests[start : start + BATCH]
            self.socket.sendall(b"".join(batch))
            for _ in batch:
                self.skip_reply()


def packed(words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def values(kind, count):
    chance = random.Random(kind)
    value = {"price": 10000, "sensor": 215, "counter": 0, "random": 0}[kind]
    for _ in range(count):
        if kind == "price":
            value += chance.choice([-3, -2, -1, -1, 0, 0, 1, 1, 2, 3])
            yield value / 100
        elif kind == "sensor":
            value += chance.choice([-1, 0, 0, 0, 0, 1])
            yield value / 10
        elif kind == "counter":
            value += chance.randrange(20)
            yield value
        else:
            yield chance.random()


def stamps(is_jittered, count):
    chance, time_ms = random.Random(7), 1_700_000_000_000
    for _ in range(count):
        time_ms += 1000
        yield time_ms + (chance.randrange(-100, 100) if is_jittered else 0)


def timed(servers, work, per):
    """Microseconds of each server for `work`, by what it is divided by."""
    figures = []
    for server in servers:
        before = server.seconds()
        work(server)
        figures.append((server.seconds() - before) * 1e6 / per)
    return figures


def row(name, figures, digits=2):
    ours, theirs = figures
    print(f"| {name} | {ours:.{digits}f} | {theirs:.{digits}f} | {ours / theirs if theirs else 0:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("redis")
    parser.add_argument("--samples", type=int, default=200_000)
    options = parser.parse_args()
    count = options.samples
    servers = [Server([options.binary, "server"], 7481), Server(shlex.split(options.redis), 7482)]
    print("| work | mantissa | redis | ratio |\n| --- | --- | --- | --- |")
    try:
        for kind in ("price", "sensor", "counter", "random"):
            for is_jittered in (False, True):
                key = f"{kind}:{'jitter' if is_jittered else 'second'}"
                samples = list(zip(stamps(is_jittered, count), values(kind, count)))
                requests = [
                    packed(["TS.MADD", *[word for sample in samples[at : at + 100] for word in (key, *sample)]])
                    for at in range(0, count, 100)
                ]
                for server in servers:
                    server.call("TS.CREATE", key)
                figures = timed(servers, lambda server: server.play(requests), count)
                row(f"{key}: bytes a sample", [int(s.call("MEMORY", "USAGE", key)) / count for s in servers])
                row(f"{key}: TS.MADD of 100, us a sample", figures, 3)
        for server in servers:
            server.call("TS.CREATE", "one")
        adds = [packed(["TS.ADD", "one", *sample]) for sample in zip(stamps(True, count), values("sensor", count))]
        row("TS.ADD, us", timed(servers, lambda server: server.play(adds), count), 3)
        start = 1_700_000_000_000
        span = ["sensor:jitter", start, start + 100_000 * 1000]
        for name, more in [
            ("TS.RANGE of 100,000", []),
            ("with AGGREGATION avg of a minute", ["AGGREGATION", "avg", 60_000]),
            ("with AGGREGATION avg of an hour", ["AGGREGATION", "avg", 3_600_000]),
            ("with AGGREGATION max of a day", ["AGGREGATION", "max", 86_400_000]),
        ]:
            rounds = 20

            def read(server, words=("TS.RANGE", *span, *more)):
                for _ in range(rounds):
                    server.read_range(words)

            row(f"{name}, ms", [figure / 1000 for figure in timed(servers, read, rounds)], 3)
        many = 1000
        for server in servers:
            server.call("FLUSHALL")
            for number in range(many):
                server.call("TS.CREATE", f"m{number}", "LABELS", "all", 1, "group", number % 10)
            for at in range(100):
                server.call("TS.MADD", *(word for number in range(many) for word in (f"m{number}", 1000 * at, at / 10)))
        for name, more in [
            ("TS.MRANGE of 1,000 series of 100", []),
            ("with AGGREGATION avg of 10", ["AGGREGATION", "avg", 10_000]),
            ("in 10 groups", ["GROUPBY", "group", "REDUCE", "sum"]),
        ]:
            words = ["TS.MRANGE", "-", "+"]
            words += [*more, "FILTER", "all=1"] if more[:1] != ["GROUPBY"] else ["FILTER", "all=1", *more]

            def find(server, words=tuple(words)):
                for _ in range(10):
                    server.call(*words)

            row(f"{name}, ms", [figure / 1000 for figure in timed(servers, find, 10)], 3)
        small = 20_000
        for server in servers:
            server.call("FLUSHALL")
        made = [packed(["TS.ADD", f"s{at % small}", 1000 * (at // small + 1), at % 97]) for at in range(10 * small)]
        row("TS.ADD, 20,000 series, us", timed(servers, lambda server: server.play(made), len(made)), 3)
        row("bytes of a series of 10 samples", [int(s.call("MEMORY", "USAGE", "s7")) for s in servers], 0)
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
