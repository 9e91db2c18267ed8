#!/usr/bin/env python3
"""Measures queries by label of time series on disk, beside a server that has all of them in memory, and how long the
GETs of another client take meanwhile.

    cargo build --profile dist && bench/tiered_series.py [--mantissa PROGRAM] [--series 40000] [--rounds 3]

The figures are medians of rounds by turns. Each series has 200 samples, and `--limit` is the `maxmemory` of the server
whose series go to disk.
"""

import argparse
import os
import socket
import statistics
import threading
import time

from servers import ROOT, Server, encode, in_turn

SAMPLES = 200
GROUPS = 50
FILTER = ("FILTER", "all=yes")
QUERIES = {
    "TS.MRANGE - + AGGREGATION avg of all samples": ("TS.MRANGE", "-", "+", "AGGREGATION", "avg", 10**9, *FILTER),
    "TS.MGET": ("TS.MGET", *FILTER),
    "TS.MRANGE - + of a fiftieth": ("TS.MRANGE", "-", "+", *FILTER, "group=7"),
}


def fill(server, count):
    for number in range(count):
        key = f"series:{number}"
        samples = [word for at in range(SAMPLES) for word in (key, at * 1000 + number % 7, number * at % 1000 / 10)]
        server.call(("TS.CREATE", key, "LABELS", "all", "yes", "group", number % GROUPS), ("TS.MADD", *samples))
    server.call(("SET", "hot", "x"))


class Pinger:
    """Another client that sends a GET about each millisecond."""

    def __init__(self, server):
        self.connection = socket.create_connection(("127.0.0.1", server.port), 600)
        self.latencies, self.is_over = [], False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over:
            began = time.monotonic()
            self.connection.sendall(encode(("GET", "hot")))
            self.connection.recv(100)
            self.latencies.append(time.monotonic() - began)
            time.sleep(0.001)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()
        self.connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mantissa", default=os.path.join(ROOT, "target/dist/mantissa"))
    parser.add_argument("--series", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", default="30mb")
    options = parser.parse_args()
    command = [os.path.abspath(options.mantissa), "server"]
    in_memory = Server("in memory", command)
    tiered = Server("on disk", command, "--maxmemory", options.limit, "--tier-dir", ".")
    seconds, worst = {}, {}
    try:
        for server in (in_memory, tiered):
            fill(server, options.series)
        print(f"series on disk: {tiered.info('tier_values')} of {options.series}")
        for number in range(options.rounds):
            for name, query in QUERIES.items():
                for server in in_turn([in_memory, tiered], number):
                    with Pinger(server) as pinger:
                        began = time.monotonic()
                        server.call(query)
                        seconds.setdefault((name, server), []).append(time.monotonic() - began)
                    worst.setdefault((name, server), []).append(max(pinger.latencies))
        print("| query | in memory, s | on disk, s | slowest GET meanwhile, in memory, ms | on disk, ms |")
        print("| --- | --- | --- | --- | --- |")
        for name in QUERIES:
            figures = [f"{statistics.median(seconds[name, server]):.2f}" for server in (in_memory, tiered)]
            figures += [f"{statistics.median(worst[name, server]) * 1000:.0f}" for server in (in_memory, tiered)]
            print("|", " | ".join([name, *figures]), "|")
        print(f"evicted keys: {tiered.info('evicted_keys')}, most memory: {tiered.info('used_memory_peak')} bytes")
    finally:
        in_memory.stop()
        tiered.stop()


if __name__ == "__main__":
    main()
