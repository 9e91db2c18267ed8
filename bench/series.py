#!/usr/bin/env python3
"""Time series beside redis-server with RedisTimeSeries: bytes of a sample, and what adding and reading costs.

    bench/series.py [--mantissa PATH] [--redis PATH] [--rounds N] [--samples N]

Medians of rounds by turns: processor time of all threads of the server. Bytes are MEMORY USAGE by samples. Numbers come
from fixed seeds. Needs the modules that the tests use (tests/support/modules.py).
"""

import argparse
import itertools
import os
import random
import statistics
import sys

from servers import ROOT, Server, add_programs, encode, in_turn, programs

sys.path.insert(0, os.path.join(ROOT, "tests"))
from support import modules  # noqa: E402

BATCH = 1000
START_MS = 1_700_000_000_000
KEYS = [f"{kind}:{spacing}" for kind in ("price", "sensor", "counter", "random") for spacing in ("second", "jitter")]
READ_SAMPLES = 100_000
READS = 20
MANY, SMALL = 1000, 20_000
MIDDLE = (300, 600, 1000, 2000)
LATE = 2000


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
    chance, time_ms = random.Random(7), START_MS
    for _ in range(count):
        time_ms += 1000
        yield time_ms + (chance.randrange(-100, 100) if is_jittered else 0)


def samples(key, count):
    kind, spacing = key.split(":")
    return zip(stamps(spacing == "jitter", count), values(kind, count))


def added_at_once(key, count):
    """Commands that add the samples of a series, a hundred each."""
    rows = [(key, *sample) for sample in samples(key, count)]
    return [("TS.MADD", *(word for row in rows[at : at + 100] for word in row)) for at in range(0, count, 100)]


def read(server, command):
    """Sends a command whose reply is a list of samples, and reads it without looking at each."""
    server.connection.sendall(encode(command))
    left = 3 * int(server.stream.readline()[1:])
    while left:
        left -= server.stream.read1(1 << 20).count(b"\n")


def microseconds_of_reads(server, command):
    before = server.cpu_seconds()
    for _ in range(READS):
        read(server, command)
    return (server.cpu_seconds() - before) / READS * 1e6


def works(count):
    """What is measured: name, commands before it, and what gives microseconds for one."""
    for key in KEYS:
        made = added_at_once(key, count)
        yield (
            f"{key}: TS.MADD of 100, us a sample",
            [("DEL", key), ("TS.CREATE", key)],
            lambda server, made=made: server.microseconds_each(made, 10) / 100,
        )
    adds = [("TS.ADD", "one", *sample) for sample in samples("sensor:jitter", count)]
    yield "TS.ADD, us", [("DEL", "one"), ("TS.CREATE", "one")], lambda server: server.microseconds_each(adds, BATCH)
    chance = random.Random(9)
    late = lambda at: ("TS.ADD", "late", START_MS + at * 1000 + chance.randrange(1, 1000), at % 97)
    late_anywhere = [late(chance.randrange(count)) for _ in range(LATE)]
    before_all = [late(at - LATE) for at in range(LATE)]
    made_late = added_at_once("price:second", count)
    made_late = [tuple("late" if word == "price:second" else word for word in words) for words in made_late]
    for name, adds_late in [("anywhere", late_anywhere), ("before all, in order", before_all)]:
        yield (
            f"TS.ADD of late samples, {name}, us",
            [("DEL", "late"), ("TS.CREATE", "late", "DUPLICATE_POLICY", "LAST"), *made_late],
            lambda server, adds_late=adds_late: server.microseconds_each(adds_late, BATCH),
        )
    made = [("TS.ADD", f"s{at % SMALL}", 1000 * (at // SMALL + 1), at % 97) for at in range(10 * SMALL)]
    yield (
        f"TS.ADD, {SMALL:,} series, us",
        [("DEL", *(f"s{number}" for number in range(SMALL)))],
        lambda server: server.microseconds_each(made, BATCH),
    )
    for key in [key for key in KEYS if key.endswith("jitter")] + ["sensor:second"]:
        span = ("TS.RANGE", key, START_MS, START_MS + READ_SAMPLES * 1000)
        yield (
            f"{key}: TS.RANGE of {READ_SAMPLES:,}, us",
            [],
            lambda server, span=span: microseconds_of_reads(server, span),
        )
    for key, name, duration_ms in [
        ("sensor:jitter", "avg", 60_000),
        ("sensor:second", "avg", 60_000),
        ("price:jitter", "avg", 60_000),
        ("sensor:jitter", "max", 60_000),
        ("sensor:jitter", "std.p", 60_000),
        ("sensor:jitter", "avg", 3_600_000),
    ]:
        command = ("TS.RANGE", key, START_MS, START_MS + READ_SAMPLES * 1000, "AGGREGATION", name, duration_ms)
        yield (
            f"{key}: AGGREGATION {name} of {duration_ms // 1000} s, us",
            [],
            lambda server, command=command: microseconds_of_reads(server, command),
        )
    for name, words in [
        ("", ("FILTER", "all=1")),
        (", AGGREGATION avg of 10 s", ("AGGREGATION", "avg", 10_000, "FILTER", "all=1")),
        (", in 10 groups", ("FILTER", "all=1", "GROUPBY", "group", "REDUCE", "sum")),
    ]:
        commands = [("TS.MRANGE", "-", "+", *words)] * 5
        yield (
            f"TS.MRANGE of {MANY:,} series of 100{name}, us",
            [],
            lambda server, commands=commands: server.microseconds_each(commands, 1),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=200_000)
    options = parser.parse_args()
    if modules.why_missing():
        sys.exit(modules.why_missing())
    extra = {"mantissa": [], "redis": modules.options()}
    servers = [Server(name, command, *extra[name]) for name, command in programs(options).items()]
    for server in servers:
        server.call(*(("TS.CREATE", f"m{at}", "LABELS", "all", 1, "group", at % 10) for at in range(MANY)))
        for at in range(100):
            server.call(("TS.MADD", *(word for number in range(MANY) for word in (f"m{number}", 1000 * at, at / 10))))
    figures, count = {}, max(options.samples, READ_SAMPLES)
    measured_works = list(works(count))
    for round_number in range(options.rounds):
        for work, before, measure in measured_works:
            for server in in_turn(servers[::-1], round_number):
                server.call(*before)
                figures.setdefault(work, {}).setdefault(server.name, []).append(measure(server))
    print("| work | mantissa | RedisTimeSeries | ratio |\n| --- | --- | --- | --- |")
    for work, measured in figures.items():
        row(work, *(statistics.median(measured[name]) for name in ("mantissa", "redis")))
    bytes_of = lambda key: [int(server.call(("MEMORY", "USAGE", key))[0]) for server in servers]
    for key in KEYS:
        row(f"{key}: bytes a sample", *(size / count for size in bytes_of(key)))
    row("bytes of a series of 10 samples", *bytes_of("s7"))
    for samples_of_series, key in itertools.product(MIDDLE, KEYS):
        for server in servers:
            server.call(("DEL", key), ("TS.CREATE", key), *added_at_once(key, samples_of_series))
        row(f"{key}: bytes of a series of {samples_of_series} samples", *bytes_of(key))
    for server in servers:
        server.stop()


def row(name, ours, theirs):
    digits = 3 if theirs < 1 else 2 if theirs < 100 else 0
    print(f"| {name} | {ours:.{digits}f} | {theirs:.{digits}f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
