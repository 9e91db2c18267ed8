#!/usr/bin/env python3
"""What commands on Bloom and Cuckoo filters and on sketches cost, beside redis-server with RedisBloom, side by side.

    bench/filters.py [--mantissa PATH] [--redis PATH] [--rounds N] [--requests N]

Medians of rounds by turns: processor time of the server in microseconds for a command, sent in batches of 500 over one
connection. Needs the modules that the tests use (tests/support/modules.py).
"""
import argparse
import os
import random
import statistics
import sys

from servers import ROOT, Server, add_programs, in_turn, programs

sys.path.insert(0, os.path.join(ROOT, "tests"))
from support import modules  # noqa: E402

BATCH = 500
ITEMS = 1_000_000
# A few of the items are far more frequent than the others.
SKEWED = (20, 1000, ITEMS)
# Name: commands of a round, made by a random generator, and how many commands one stands for.
WORKS = {
    "BF.ADD, 1,000,000 items": lambda item: ("BF.ADD", "bloom", item()),
    "BF.EXISTS, 1,000,000 items": lambda item: ("BF.EXISTS", "bloom", item()),
    "BF.MADD of 100, 1,000,000 items": lambda item: ("BF.MADD", "bloom", *(item() for _ in range(100))),
    "BF.ADD, 1,000 items": lambda item: ("BF.ADD", "small", item(1000)),
    "BF.EXISTS, 1,000 items": lambda item: ("BF.EXISTS", "small", item(1000)),
    "CF.ADD, 1,000,000 items": lambda item: ("CF.ADD", "cuckoo", item()),
    "CF.EXISTS, 1,000,000 items": lambda item: ("CF.EXISTS", "cuckoo", item()),
    "CMS.INCRBY": lambda item: ("CMS.INCRBY", "counts", item(), 1),
    "CMS.QUERY": lambda item: ("CMS.QUERY", "counts", item()),
    "TOPK.ADD": lambda item: ("TOPK.ADD", "top", item(SKEWED[ord(item()[-1]) % 3])),
    "TDIGEST.ADD of 100": lambda item: ("TDIGEST.ADD", "digest", *(int(item()[5:]) / 7 for _ in range(100))),
    "TDIGEST.QUANTILE": lambda item: ("TDIGEST.QUANTILE", "digest", int(item()[5:]) / ITEMS),
}
SETUP = [
    ("DEL", "bloom", "small", "cuckoo", "counts", "top", "digest"),
    ("BF.RESERVE", "bloom", "0.01", ITEMS),
    ("BF.RESERVE", "small", "0.01", 1000),
    ("CF.RESERVE", "cuckoo", 4 * ITEMS),
    ("CMS.INITBYPROB", "counts", "0.0001", "0.001"),
    ("TOPK.RESERVE", "top", 50, 2000, 7, "0.925"),
    ("TDIGEST.CREATE", "digest"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=50_000)
    options = parser.parse_args()
    if modules.why_missing():
        sys.exit(modules.why_missing())
    commands = programs(options)
    extra = {"mantissa": [], "redis": modules.options()}
    servers = [Server(name, command, *extra[name]) for name, command in commands.items()]
    figures = {work: {server.name: [] for server in servers} for work in WORKS}
    for server in servers:
        server.call(*SETUP)
    for round_number in range(options.rounds):
        for work, make in WORKS.items():
            generator = random.Random(f"{work} {round_number}")
            count = options.requests // 40 if "of 100" in work else options.requests
            made = [make(lambda most=ITEMS: "item:%012d" % generator.randrange(most)) for _ in range(count)]
            for server in in_turn(servers[::-1], round_number):
                figures[work][server.name].append(server.microseconds_each(made, BATCH))
    print("| command | mantissa, us | RedisBloom, us | ratio |")
    print("| --- | --- | --- | --- |")
    for work, measured in figures.items():
        ours, theirs = (statistics.median(measured[name]) for name in ("mantissa", "redis"))
        print(f"| {work} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} |")
    for server in servers:
        server.stop()


if __name__ == "__main__":
    main()
