#!/usr/bin/env python3
"""Side by side: this server and redis-server, by the server's CPU for an operation and memory for a key.

    bench/compare.py [--mantissa PATH] [--redis PATH] [--rounds N] [--requests N] [--threads N]
                     [--driver auto|epoll|io_uring] [--only TEXT] [--memory] [--appendfsync POLICY]

Both servers run at the same time, idle but for the one that is measured; every figure is the median of
rounds that alternate between them. Needs redis-benchmark. Figures are CPU microseconds for an operation
(user and system time of all threads of the server, from /proc), which a busy machine disturbs far less
than requests a second.
"""
import argparse
import random
import statistics
import subprocess
import sys

from servers import Server, add_programs, in_turn, programs
from shapes import SHAPES

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
            for server in in_turn(servers, round_number):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--driver", default="auto")
    parser.add_argument("--threads", default="0", help="worker-threads of this server")
    parser.add_argument("--only", help="only works whose name contains this")
    parser.add_argument("--appendfsync", help="both servers log to an append-only file, with this policy")
    parser.add_argument("--memory", action="store_true", help="bytes per key instead of CPU")
    options = parser.parse_args()
    commands = programs(options)
    commands["mantissa"] += ["--io-driver", options.driver, "--worker-threads", options.threads]
    logged = ["--appendonly", "yes", "--appendfsync", options.appendfsync] if options.appendfsync else []
    start = lambda: [Server(name, command, *logged) for name, command in commands.items()]
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
