#!/usr/bin/env python3
"""What SAVE, DEBUG RELOAD, DUMP and RESTORE cost for each type of value, beside redis-server, side by side.

    bench/dumps.py [--mantissa PATH] [--redis PATH] [--rounds N] [--elements N] [--only TEXT]

Medians of rounds by turns: processor time of the server in milliseconds, all threads together. DEBUG RELOAD saves
and loads; its column is what it takes beyond a SAVE. Each shape has about so many elements, in one key or in
many.
"""

import argparse
import random
import statistics

from servers import Server, add_programs, in_turn, programs

WORDS = "market order price limit filled partial quote venue trader exchange cancel".split()


def many(elements, command):
    """Commands for keys of 20 elements."""
    return (command(f"key:{number}", range(number, number + 20)) for number in range(0, elements, 20))


def one(elements, command):
    """Commands that fill one key."""
    return (command("key", range(number, number + 500)) for number in range(0, elements, 500))


def member(number):
    return "member:%010d" % (number * 2654435761 % 10**10)


def flat(pairs):
    return tuple(part for pair in pairs for part in pair)


def hashed(key, numbers):
    return ("HSET", key, *flat((f"field:{number}", WORDS[number % 11] * 2) for number in numbers))


def scored(key, numbers):
    return ("ZADD", key, *flat((repr(number * 0.37), member(number)) for number in numbers))


def expiring(elements):
    for number in range(0, elements, 20):
        fields = [f"field:{field}" for field in range(20)]
        yield ("HSET", f"key:{number}", *flat((field, "value") for field in fields))
        yield ("HEXPIRE", f"key:{number}", 10**6, "FIELDS", 10, *fields[:10])


def entries(elements, other_fields=False):
    picker = random.Random(7)
    for number in range(elements):
        names = ("sensor", "temp", WORDS[number % 11] if other_fields else "hum")
        values = (number % 1000, f"{picker.uniform(0, 40):.2f}", picker.randrange(100))
        yield ("XADD", "key", f"{1_700_000_000_000 + number * 3}-0", *flat(zip(names, values)))


def pending(elements):
    yield from entries(elements)
    yield ("XGROUP", "CREATE", "key", "group", "0")
    yield ("XREADGROUP", "GROUP", "group", "reader", "COUNT", elements, "STREAMS", "key", ">")


def text(number):
    return " ".join(WORDS[(number * step) % 11] for step in range(3, 20))


# name: from the number of elements to the commands that make it
SHAPES = {
    "integers": lambda count: (("SET", f"key:{n}", n * 7) for n in range(count)),
    "strings of 16 B": lambda count: (("SET", f"key:{n}", member(n)[:16]) for n in range(count)),
    "texts of 120 B": lambda count: (("SET", f"key:{n}", text(n)) for n in range(count)),
    "small lists of texts": lambda count: many(count, lambda key, ns: ("RPUSH", key, *map(member, ns))),
    "small lists of integers": lambda count: many(count, lambda key, ns: ("RPUSH", key, *(n * 77 for n in ns))),
    "one list of texts": lambda count: one(count, lambda key, ns: ("RPUSH", key, *map(member, ns))),
    "one list of integers": lambda count: one(count, lambda key, ns: ("RPUSH", key, *(n * 77 for n in ns))),
    "small sets": lambda count: many(count, lambda key, ns: ("SADD", key, *map(member, ns))),
    "small sets of integers": lambda count: many(count, lambda key, ns: ("SADD", key, *(n * 77 for n in ns))),
    "one set": lambda count: one(count, lambda key, ns: ("SADD", key, *map(member, ns))),
    "small hashes": lambda count: many(count, hashed),
    "one hash": lambda count: one(count, hashed),
    "small hashes, half with TTL": expiring,
    "small sorted sets": lambda count: many(count, scored),
    "one sorted set": lambda count: one(count, scored),
    "one stream": entries,
    "one stream of other fields": lambda count: entries(count, True),
    "one stream, all pending": pending,
}


def measure(server, commands):
    """Milliseconds of processor time of each command, in the order of COLUMNS."""
    server.call(("FLUSHALL", "SYNC"))
    server.call(*commands)

    def cost(*command):
        before = server.cpu_seconds()
        (reply,) = server.call(command)
        return reply, (server.cpu_seconds() - before) * 1e3

    save = cost("SAVE")[1]
    reload = max(cost("DEBUG", "RELOAD")[1] - save, 0.01)
    keys = server.call(("KEYS", "*"))[0][:20_000]
    before = server.cpu_seconds()
    dumps = server.call(*(("DUMP", key) for key in keys))
    dumped = server.cpu_seconds()
    server.call(*(("RESTORE", key, 0, dump, "REPLACE") for key, dump in zip(keys, dumps)))
    return [save, reload, (dumped - before) * 1e3, (server.cpu_seconds() - dumped) * 1e3]


COLUMNS = ("SAVE", "load", "DUMP", "RESTORE")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--elements", type=int, default=400_000)
    parser.add_argument("--only", default="", help="shapes with this in their name")
    options = parser.parse_args()
    servers = [
        Server(name, command, "--enable-debug-command", "yes") for name, command in programs(options).items()
    ]
    print("| shape | " + " | ".join(f"{column}, ms | redis | ratio" for column in COLUMNS) + " |")
    print("|" + " --- |" * (1 + 3 * len(COLUMNS)))
    for shape, commands in SHAPES.items():
        if options.only not in shape:
            continue
        commands = list(commands(options.elements))
        times = {server.name: [] for server in servers}
        for turn in range(options.rounds):
            for server in in_turn(servers, turn):
                times[server.name].append(measure(server, commands))
        ours, theirs = (
            [statistics.median(column) for column in zip(*times[server.name])] for server in servers
        )
        cells = (f"{a:.1f} | {b:.1f} | {a / b:.2f}" for a, b in zip(ours, theirs))
        print(f"| {shape} | " + " | ".join(cells) + " |", flush=True)
    for server in servers:
        server.stop()


main()
