#!/usr/bin/env python3
"""What clients notice of an upgrade: connections that count, at half of the full load, and much data.

    bench/upgrade.py [--mantissa PATH] [--connections N] [--megabytes N] [--rounds N] [--rate N] [option...]

Each connection of counting.c counts a key of its own up and checks every reply. After a while the server is
upgraded (MANTISSA.UPGRADE). Printed are lost connections, wrong replies, counts that do not agree, and the
longest time that any request waited: before the upgrade, while the new process gets the data, at the hand-over
and in the two seconds after it. Further words are directives of the server, such as `--appendonly yes`.
"""
import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time

from servers import ROOT, Server

VALUE_BYTES = 1000
BEFORE_S, SETTLE_S, AFTER_S, FULL_S, LOAD_S_MAX = 3, 1, 3, 3, 500
# The hand-over's part of the time around the instant at which the new process serves.
AROUND_S = 0.3


def compile_load(folder):
    load = os.path.join(folder, "counting")
    subprocess.run(["cc", "-O2", "-o", load, os.path.join(ROOT, "bench/counting.c")], check=True)
    return load


def run_load(load, server, connections, rate, seconds):
    words = [load, str(server.port), str(connections), str(rate), str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def outcome_of(process):
    """What was answered, lost, wrong and unanswered, and the longest waits in ms with their times."""
    lines = process.communicate()[0].splitlines()
    return [int(number) for number in lines[0].split()[::2]], [tuple(map(float, line.split())) for line in lines[1:]]


def fill(server, megabytes):
    count = megabytes * 1_000_000 // VALUE_BYTES
    for start in range(0, count, 50_000):
        numbers = range(start, min(start + 50_000, count))
        server.call(*(("SET", "key:%012d" % number, "v" * VALUE_BYTES) for number in numbers))


def measure(load, options, words):
    """One upgrade: a figure by its name."""
    server = Server("mantissa", [options.mantissa, "server"], "--loglevel", "verbose", *words)
    try:
        fill(server, options.megabytes)
        rate = options.rate
        if not rate:
            (answered, *_), _ = outcome_of(run_load(load, server, options.connections, 0, FULL_S))
            rate = answered / FULL_S / 2
            names = ["count:%05d" % number for number in range(options.connections)]
            server.call(*(("DEL", name) for name in names))
        process = run_load(load, server, options.connections, rate, LOAD_S_MAX)
        time.sleep(BEFORE_S)
        began = time.monotonic()
        reply = server.call(("MANTISSA.UPGRADE",))[0].decode()
        ended = time.monotonic()
        time.sleep(AFTER_S)
        process.terminate()
        (answered, lost, wrong, unanswered), waits = outcome_of(process)
        counts = server.call(*(("GET", "count:%05d" % number) for number in range(options.connections)))
        longest = lambda since, until: max([wait for at, wait in waits if since <= at < until], default=0)
        log = open(os.path.join(server.folder, "log"), errors="replace").read()
        for line in log.splitlines():
            if "Upgrade:" in line:
                print("   ", line.split(" ", 5)[-1])
        frozen = re.search(r"clients waited for ([\d.]+)(ms|s)", log)
        os.kill(int(re.search(r"process (\d+)", reply)[1]), 9)
        return {
            "requests a second": rate,
            "requests": answered,
            "connections lost": lost,
            "wrong replies": wrong,
            "unanswered": unanswered,
            "counted more or less": sum(map(int, counts)) - answered,
            "upgrade, s": ended - began,
            "nobody was served for, ms": float(frozen[1]) * (1 if frozen[2] == "ms" else 1000),
            "longest wait before, ms": longest(began - BEFORE_S + SETTLE_S, began),
            "longest wait while data are copied, ms": longest(began, ended - AROUND_S),
            "longest wait at the hand-over, ms": longest(ended - AROUND_S, ended + AROUND_S),
            "longest wait afterwards, ms": longest(ended + AROUND_S, ended + AFTER_S),
        }
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.path.join(ROOT, "target/dist/mantissa")
    parser.add_argument("--mantissa", type=os.path.abspath, default=default)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=0, help="requests a second; half of the full load by default")
    options, words = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        load = compile_load(folder)
        rounds = [measure(load, options, words) for _ in range(options.rounds)]
    print("\n| figure | median | least | most |\n| --- | --- | --- | --- |")
    for name in rounds[0]:
        column = [figures[name] for figures in rounds]
        print(f"| {name} | {statistics.median(column):.1f} | {min(column):.1f} | {max(column):.1f} |")


if __name__ == "__main__":
    main()
