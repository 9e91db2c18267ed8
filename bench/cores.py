#!/usr/bin/env python3
"""How the rate grows with the cores that a server has: this server beside redis-server and valkey-server.

    bench/cores.py [--mantissa PATH] [--redis PATH] [--valkey PATH] [--cores 1,2,4,8] [--seconds N]
                   [--rounds N] [--only TEXT] [--packing yes|no]

A server gets the first processors of the machine, as many as --cores says, and starts so many `worker-threads`, or
`io-threads` for the other two. The load is `mantissa benchmark` on the processors behind them, half of those that there
are. Rates are medians of rounds that alternate between the servers; beside them is the processor time of the server
for a request. VSIM searches one vector set, TS.MRANGE is of 1,000 series.
"""
import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys

from servers import Server, add_programs, encode, in_turn, programs

KEYS = 1_000_000
KEY, ELEMENT = "key:__rand_int__", "element:__rand_int__"
SCRIPT = "redis.call('INCR', KEYS[1]); return redis.call('INCR', KEYS[2])"
VECTORS, DIMENSION = 4000, 100
SERIES = 1000

# name, pipeline, connections, range of random numbers, arguments, servers
ALL, OWN = ("mantissa", "redis", "valkey"), ("mantissa",)
WORKS = [
    ("GET", 1, 400, KEYS, ["GET", KEY], ALL),
    ("SET", 1, 400, KEYS, ["SET", KEY, "v" * 64], ALL),
    ("GET -P 16", 16, 400, KEYS, ["GET", KEY], ALL),
    ("SET -P 16", 16, 400, KEYS, ["SET", KEY, "v" * 64], ALL),
    ("INCR one key -P 16", 16, 400, KEYS, ["INCR", "counter"], ALL),
    ("ZADD one of 1,000 -P 16", 16, 400, 1000, ["ZADD", "zset:__rand_int__", "0.__rand_int__", "m:__rand_int__"], ALL),
    ("MSET 10 -P 16", 16, 400, KEYS, ["MSET"] + [KEY, "v" * 64] * 10, ALL),
    ("EVAL of two keys -P 16", 16, 400, KEYS, ["EVAL", SCRIPT, "2", "one:__rand_int__", "other:__rand_int__"], ALL),
    ("VSIM of one set", 1, 64, VECTORS, ["VSIM", "vectors", "ELE", ELEMENT, "COUNT", "10"], ("mantissa", "redis")),
    ("TS.MRANGE", 1, 16, KEYS, ["TS.MRANGE", "-", "+", "AGGREGATION", "avg", "60000", "FILTER", "kind=price"], OWN),
]


def affine(command, processors):
    return ["taskset", "-c", ",".join(map(str, processors))] + command


def vectors():
    picker = random.Random(3)
    numbers = lambda: [repr(round(picker.gauss(0, 1), 4)) for _ in range(DIMENSION)]
    return [("VADD", "vectors", "VALUES", DIMENSION, *numbers(), "element:%012d" % at) for at in range(VECTORS)]


def strings():
    return [("SET", "key:%012d" % number, "v" * 64) for number in range(KEYS)]


def series():
    yield from (("TS.CREATE", f"series:{at}", "LABELS", "kind", "price") for at in range(SERIES))
    for start, at in itertools.product(range(0, 1000, 100), range(SERIES)):
        stamps = range(start, start + 100)
        samples = ((f"series:{at}", stamp * 1000, stamp % 7 + 0.25) for stamp in stamps)
        yield "TS.MADD", *(part for sample in samples for part in sample)


def prepared():
    """What the keys are made of, as bytes to send and the number of replies, and the servers that know it."""
    found = []
    for commands, servers in ((vectors(), ("mantissa", "redis")), (strings(), ALL), (series(), OWN)):
        encoded = map(encode, commands)
        while batch := list(itertools.islice(encoded, 1000)):
            found.append((b"".join(batch), len(batch), servers))
    return found


def prepare(server, batches):
    for sent, count, servers in batches:
        if server.name in servers:
            server.connection.sendall(sent)
            for _ in range(count):
                server.reply()


def measure(program, server, processors, work, seconds):
    _, pipeline, connections, size, words, _ = work
    options = ["-p", str(server.port), "--threads", str(len(processors)), "-c", str(connections)]
    options += ["-P", str(pipeline), "-r", str(size), "--duration", str(seconds), "--json"]
    before = server.cpu_seconds()
    done = subprocess.run(
        affine([program, "benchmark", *options, *words], processors), capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"the benchmark failed against {server.name}: {done.stderr}")
    test = json.loads(done.stdout)["tests"][0]
    if test["errors"]:
        sys.exit(f"errors of {server.name}: {words}")
    return test["rps"], (server.cpu_seconds() - before) / test["requests"] * 1e6, test["latency_ms"]["p99"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--valkey", type=os.path.abspath, help="a valkey-server to measure as well")
    parser.add_argument("--cores", default="1,2,4,8", help="how many cores the server has")
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="only works whose name contains this")
    parser.add_argument("--packing", default="yes", help="worker-packing of this server")
    options = parser.parse_args()
    commands = programs(options)
    if options.valkey:
        commands["valkey"] = [options.valkey]
    batches, count = prepared(), os.cpu_count()
    load = range(count // 2, count) if count > 2 else range(count)
    works = [work for work in WORKS if not options.only or options.only in work[0]]
    print("| work | server | cores | requests/s | us of processor each | p99, ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    for cores in map(int, options.cores.split(",")):
        servers = []
        for name, command in commands.items():
            threads = ["--worker-threads", str(cores), "--worker-packing", options.packing]
            threads = threads if name == "mantissa" else ["--io-threads", str(cores)]
            servers.append(Server(name, affine(command, range(cores)), *threads))
        try:
            for server in servers:
                prepare(server, batches)
            for work in works:
                found = {}
                for round_number in range(options.rounds):
                    for server in in_turn(servers, round_number):
                        if server.name not in work[-1]:
                            continue
                        figures = measure(options.mantissa, server, load, work, options.seconds)
                        found.setdefault(server.name, []).append(figures)
                for name, rows in found.items():
                    rate, cost, slowest = (statistics.median(column) for column in zip(*rows))
                    print(f"| {work[0]} | {name} | {cores} | {rate:,.0f} | {cost:.3f} | {slowest:.3f} |", flush=True)
        finally:
            for server in servers:
                server.stop()


if __name__ == "__main__":
    main()
