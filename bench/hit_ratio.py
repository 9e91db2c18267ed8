#!/usr/bin/env python3
"""The share of lookups that find their key, in a cache of bounded memory: this server and redis-server.

    bench/hit_ratio.py [--mantissa PATH] [--redis PATH] [--memory MB] [--keys N] [--requests N] [--policies ...]

A client reads keys whose popularity follows Zipf's law, and writes each key that is missing (as a cache does),
to a server with `maxmemory`. Both servers get the same requests in the same order. With `--shift 0.1` the order of
popularity is shifted by a tenth after half of the requests, so that what was popular has to go. Shown are hits
among the requests after the first tenth, and keys held at the end: with the same limit one that needs fewer bytes
a key holds more. `--same-keys` instead sets each limit so that both hold about as many, which compares the
choices alone.
"""
import argparse
import bisect
import random
import time

from servers import Server, add_programs, programs

PIPELINE = 50


def zipfian(key_count, exponent, seed):
    """An endless sequence of ranks from 0, with probability proportional to 1 / (rank + 1) ** exponent."""
    picker, total, sums = random.Random(seed), 0.0, []
    for rank in range(key_count):
        total += 1 / (rank + 1) ** exponent
        sums.append(total)
    while True:
        yield bisect.bisect_left(sums, picker.random() * total)


def trace(options):
    """Keys in the order of their requests: the same for every server."""
    names = list(range(options.keys))
    random.Random(options.seed).shuffle(names)
    ranks = zipfian(options.keys, options.exponent, options.seed + 1)
    shift = int(options.keys * options.shift)
    for number in range(options.requests):
        rank = next(ranks)
        if number >= options.requests // 2:
            rank = (rank + shift) % options.keys
        yield b"key:%012d" % names[rank]


def run(server, policy, options):
    """Hits among the requests after the first tenth, and figures of the server."""
    value, volatile = b"v" * options.value, policy.startswith("volatile")
    write = (lambda key: ("SET", key, value, "EX", "86400")) if volatile else (lambda key: ("SET", key, value))
    hits = counted = done = 0
    batch = []
    began = time.monotonic()
    for key in trace(options):
        batch.append(key)
        if len(batch) < PIPELINE:
            continue
        replies = server.call(*[("GET", key) for key in batch])
        missed = [key for key, reply in zip(batch, replies) if reply is None]
        if missed:
            server.call(*[write(key) for key in missed])
        done += len(batch)
        if done > options.requests // 10:
            hits += len(batch) - len(missed)
            counted += len(batch)
        batch = []
    seconds = time.monotonic() - began
    used, limit = int(server.info("used_memory")), int(server.info("maxmemory"))
    keys = int(server.call(("DBSIZE",))[0])
    return hits / counted, keys, used / limit, seconds


def keys_bytes(name, command, policy, options):
    """Bytes that a server takes at first, and for each key more."""
    server = Server(name, command, "--maxmemory-policy", policy)
    base = int(server.info("used_memory"))
    count = 50_000
    for start in range(0, count, 1000):
        extra = ("EX", "86400") if policy.startswith("volatile") else ()
        server.call(*[("SET", b"key:%012d" % n, b"v" * options.value, *extra) for n in range(start, start + 1000)])
    each = (int(server.info("used_memory")) - base) / count
    server.stop()
    return base, each


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--memory", type=float, default=32, help="maxmemory in MB")
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--value", type=int, default=200, help="bytes of a value")
    parser.add_argument("--exponent", type=float, default=0.9)
    parser.add_argument("--shift", type=float, default=0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--same-keys", action="store_true")
    parser.add_argument("--policies", nargs="+", default=["allkeys-lru", "allkeys-lfu", "allkeys-random"])
    options = parser.parse_args()
    commands = programs(options)
    print("| policy | server | hits | keys held | used / maxmemory | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for policy in options.policies:
        limits = {name: int(options.memory * 1e6) for name in commands}
        if options.same_keys:
            costs = {name: keys_bytes(name, command, policy, options) for name, command in commands.items()}
            count = (options.memory * 1e6 - costs["redis"][0]) / costs["redis"][1]
            limits = {name: int(base + each * count) for name, (base, each) in costs.items()}
        for name, command in commands.items():
            server = Server(name, command, "--maxmemory-policy", policy)
            server.call(("CONFIG", "SET", "maxmemory", limits[name]))
            hits, keys, used, seconds = run(server, policy, options)
            server.stop()
            print(f"| {policy} | {name} | {hits * 100:.2f} % | {keys} | {used:.3f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
