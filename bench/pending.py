#!/usr/bin/env python3
"""Consumer groups with many pending entries, side by side: this server and redis-server.

    bench/pending.py [--mantissa PATH] [--redis PATH] [--entries N] [--rounds N]

One group of ten consumers gets all entries of a stream. Prints what a pending entry takes of used_memory,
the longest of 200 XACKs while BGSAVE runs (which copies what a save shares), and how long the commands take
that have to do with many of them. Medians of rounds that alternate; an XACK's is the longest of each round.
"""
import argparse
import statistics
import time

from servers import add_programs, programs
from snapshot import is_saving, started

STEP, CONSUMERS, ACKNOWLEDGED = 20_000, 10, 100_000


def identifier(n):
    return f"{1_700_000_000_000 + n}-0"


def timed(server, *commands):
    began = time.perf_counter()
    server.call(*commands)
    return time.perf_counter() - began


def measure(server, entries):
    for first in range(0, entries, STEP):
        server.call(*(("XADD", "s", identifier(n), "f", "v") for n in range(first, min(first + STEP, entries))))
    server.call(("XGROUP", "CREATE", "s", "g", "0"))
    before = int(server.info("used_memory"))
    read = lambda n: ("XREADGROUP", "GROUP", "g", f"c{n % CONSUMERS}", "COUNT", STEP, "STREAMS", "s", ">")
    for n in range(-(-entries // STEP)):
        server.call(read(n))
    found = {"bytes for each": (int(server.info("used_memory")) - before) / entries}
    server.call(("BGSAVE",))
    scattered = lambda n: ("XACK", "s", "g", identifier(n * 7919 % entries))
    found["longest XACK during BGSAVE, ms"] = 1000 * max(timed(server, scattered(n)) for n in range(200))
    while is_saving(server):
        time.sleep(0.02)
    acknowledge = [scattered(n) for n in range(ACKNOWLEDGED)]
    found[f"{ACKNOWLEDGED:,} XACK, ms"] = 1000 * timed(server, *acknowledge)
    found["XGROUP DELCONSUMER, ms"] = 1000 * timed(server, ("XGROUP", "DELCONSUMER", "s", "g", "c3"))
    found["XGROUP DESTROY, ms"] = 1000 * timed(server, ("XGROUP", "DESTROY", "s", "g"))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    starters, rounds = programs(options), {}
    for _ in range(options.rounds):
        for name, start in starters.items():
            server = started(name, start)
            rounds.setdefault(name, []).append(measure(server, options.entries))
            server.stop()
    print(f"| {options.entries:,} pending entries | {' | '.join(starters)} |\n| --- | --- | --- |")
    for what in rounds["mantissa"][0]:
        medians = (statistics.median(one[what] for one in rounds[name]) for name in starters)
        print(f"| {what} | {' | '.join(f'{value:,.1f}' for value in medians)} |")


if __name__ == "__main__":
    main()
