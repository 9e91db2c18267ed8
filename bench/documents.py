#!/usr/bin/env python3
"""What commands on JSON documents cost, beside redis-server with RedisJSON, side by side.

    bench/documents.py [--mantissa PATH] [--redis PATH] [--rounds N] [--megabytes N]

Medians of rounds by turns: processor time of the server in microseconds for a command, sent in batches over one
connection. Needs the modules that the tests use (tests/support/modules.py).
"""

import argparse
import json
import os
import random
import statistics
import sys

from servers import ROOT, Server, add_programs, in_turn, programs

sys.path.insert(0, os.path.join(ROOT, "tests"))
from support import modules  # noqa: E402

COMMANDS_MIN, COMMANDS_MAX = 20, 20_000
BATCH_BYTES = 1 << 20
WHOLE = ("JSON.SET", "JSON.GET")
PATH_BYTES = 4096
WORDS = "market order price limit filled partial São Paulo naïve 東京 quote venue trader exchange cancel".split()


def record(generator, number):
    """An object of about 350 bytes, as an order or a post is one."""
    return {
        "id": number + (1 << 40),
        "created_at": "2026-11-%02dT%02d:%02d:00Z" % (1 + number % 28, number % 24, number % 60),
        "text": " ".join(generator.choice(WORDS) for _ in range(14)) + ' "quoted"\n',
        "user": {"id": generator.randrange(10**6), "name": generator.choice(WORDS), "verified": number % 3 == 0},
        "price": round(generator.uniform(1, 1000), 2),
        "quantity": generator.randrange(1000),
        "location": None if number % 2 else [round(generator.uniform(-90, 90), 6), generator.uniform(-180, 180)],
        "tags": [generator.choice(WORDS) for _ in range(3)],
    }


def document(generator, size):
    """A document of about so many bytes of text."""
    records, total = [], 0
    while total < size - 200:
        records.append(record(generator, len(records)))
        total += len(json.dumps(records[-1], ensure_ascii=False).encode())
    return {"status": "ok", "count": len(records), "total": 1, "records": records}


def works(size):
    """Commands on a document of this size, by name."""
    path = "$.records[%d].user.name"
    return {
        "JSON.SET": lambda text, number: ("JSON.SET", "doc", "$", text),
        "JSON.GET": lambda text, number: ("JSON.GET", "doc"),
        "JSON.GET of a path": lambda text, number: ("JSON.GET", "doc", path % (number % max(1, size // 350))),
        "JSON.NUMINCRBY": lambda text, number: ("JSON.NUMINCRBY", "doc", "$.total", number % 7),
        "JSON.SET of a path": lambda text, number: ("JSON.SET", "doc", "$.records[0].price", number % 100 + 0.5),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=20, help="text of a round, at most")
    parser.add_argument("--sizes", default="400,1000,20000,1000000")
    options = parser.parse_args()
    if modules.why_missing():
        sys.exit(modules.why_missing())
    extra = {"mantissa": [], "redis": modules.options()}
    servers = [Server(name, command, *extra[name]) for name, command in programs(options).items()]
    print("| bytes | command | mantissa, us | RedisJSON, us | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for size in map(int, options.sizes.split(",")):
        texts = [json.dumps(document(random.Random(f"{size} {n}"), size), ensure_ascii=False) for n in range(16)]
        length = len(texts[0].encode())
        for name, make in works(size).items():
            # Text of a whole document goes over the connection, or next to nothing.
            sent = length if name in WHOLE else min(length, PATH_BYTES)
            count = max(COMMANDS_MIN, min(COMMANDS_MAX, (options.megabytes << 20) // sent))
            batch = max(1, min(500, BATCH_BYTES // sent))
            commands = [make(texts[number % len(texts)].encode(), number) for number in range(count)]
            figures = {server.name: [] for server in servers}
            for round_number in range(options.rounds):
                for server in in_turn(servers[::-1], round_number):
                    server.call(("JSON.SET", "doc", "$", texts[0]))
                    figures[server.name].append(server.microseconds_each(commands, batch))
            ours, theirs = (statistics.median(figures[server]) for server in ("mantissa", "redis"))
            print(f"| {length} | {name} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} |", flush=True)
    for server in servers:
        server.stop()


if __name__ == "__main__":
    main()
