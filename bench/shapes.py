"""The shapes of data by which memory for a key or element is measured, and the figures on record.

`bytes_per_key.tsv` beside this file has a line for each shape: name, bytes of used_memory for each key or element.
tests/memory holds the server to it. `bench/compare.py --memory` measures a rival beside it.
"""
import pathlib
import random

COUNT = 300_000
RECORD = pathlib.Path(__file__).with_name("bytes_per_key.tsv")


def values():
    picker = random.Random(7)
    return [bytes(picker.choices(b"abcdefghijklmnopqrstuvwxyz0123456789", k=128)) for _ in range(1000)]


def integers(count):
    return (("SET", "key:%012d" % n, n) for n in range(count))


def strings(count, *options):
    texts = values()
    return (("SET", "key:%012d" % n, texts[n % 1000], *options) for n in range(count))


def hashes(count):
    texts = values()
    for n in range(count):
        pairs = ((f"field{f}", texts[(n + f) % 1000][:16]) for f in range(10))
        yield ("HSET", "user:%012d" % n, *(part for pair in pairs for part in pair))


def scores(count):
    picker = random.Random(7)
    return (("ZADD", "z", repr(picker.random() * 1e6), "member:%012d" % n) for n in range(count))


def wide_integers(count):
    picker = random.Random(7)
    return (("SADD", "s", picker.getrandbits(40)) for _ in range(count))


def fields(count):
    texts = values()
    return (("HSET", "h", "field:%010d" % n, texts[n % 1000][:16]) for n in range(count))


def elements(count):
    texts = values()
    return (("RPUSH", "l", texts[n % 1000][:16]) for n in range(count))


# name: (keys or elements, a function from their number to the commands)
SHAPES = {
    "16 B key, integer": (COUNT, integers),
    "16 B key, 128 B value": (COUNT, strings),
    "the same with a TTL": (COUNT, lambda count: strings(count, "EX", 86400)),
    "hash of 10 fields of 6 B with 16 B values": (COUNT // 10, hashes),
    "sorted set, 19 B members, float scores": (COUNT, scores),
    "set of 19 B members": (COUNT, lambda count: (("SADD", "s", "member:%012d" % n) for n in range(count))),
    "set of 40-bit integers": (COUNT, wide_integers),
    "hash, 16 B fields and values": (COUNT, fields),
    "list, 16 B elements": (COUNT, elements),
}


def recorded():
    """The figures on record by the name of their shape."""
    lines = RECORD.read_text().splitlines()
    return {name: float(figure) for name, figure in (line.split("\t") for line in lines if line)}
