#!/usr/bin/env python3
"""The processor time of packed replies and arguments beside that of the same commands as text.

    bench/packed.py [--mantissa PATH] [--count N] [--rounds N] [--requests N]

Each figure is the time of all threads of the server for one request, sockets included; medians of rounds in which
text (RESP3) and packed alternate. 10,000 numbers a request by default.
"""

import argparse
import glob
import os
import random
import statistics
import struct

from servers import ROOT, Server, encode

DEPTH = 8


def spent_ns(server):
    """The processor time of the server's threads so far."""
    total = 0
    for path in glob.glob(f"/proc/{server.process.pid}/task/*/schedstat"):
        with open(path) as file:
            total += int(file.read().split()[0])
    return total


class Client:
    """Sends the same request again and again, and counts the bytes that come back."""

    def __init__(self, server, protocol):
        self.server, self.connection = server, server.connection
        self.buffer = bytearray(1 << 20)
        self.connection.sendall(encode(("HELLO", protocol)) + encode(("PING",)))
        seen = b""
        while not seen.endswith(b"+PONG\r\n"):
            seen += self.connection.recv(1 << 16)

    def size(self, request):
        """The bytes of the reply: what comes before that of a PING."""
        self.connection.sendall(request + encode(("PING",)))
        seen = b""
        while not seen.endswith(b"+PONG\r\n"):
            seen += self.connection.recv(1 << 20)
        if seen[:1] == b"-":
            raise SystemExit(seen[:200].decode())
        return len(seen) - len(b"+PONG\r\n")

    def run(self, request, size, requests):
        """Processor time of the server for one request, in us."""
        before = spent_ns(self.server)
        for _ in range(requests // DEPTH):
            self.connection.sendall(request * DEPTH)
            left = size * DEPTH
            while left > 0:
                left -= self.connection.recv_into(self.buffer)
        return (spent_ns(self.server) - before) / 1000 / (requests // DEPTH * DEPTH)


def packed(numbers, names=None):
    count = len(numbers)
    out = struct.pack(">2sBBBBHII", b"MP", 1, 1, 4 if names else 0, 0, 1, count, 8 * count)
    out += struct.pack(f">{count}d", *numbers)
    return out + b"".join(struct.pack(">I", len(name)) for name in names or []) + b"".join(names or [])


def fill(server, count):
    random.seed(7)
    scores = [random.uniform(0, 1000) for _ in range(count)]
    members = [f"member:{index:06}" for index in range(count)]
    prices = [f"{random.uniform(1, 500):.2f}" for _ in range(count)]
    integers = [random.randrange(10**9) for _ in range(count)]
    pairs = lambda numbers, names: [word for pair in zip(numbers, names) for word in pair]
    server.call(
        ("ZADD", "scores", *pairs(map(repr, scores), members)),
        ("ZADD", "cents", *pairs(prices, members)),
        ("RPUSH", "prices", *prices),
        ("RPUSH", "integers", *integers),
        ("HSET", "hash", *pairs(members, integers)),
        ("MSET", *pairs(members, integers)),
        ("GEOADD", "geo", *[w for m in members for w in (random.uniform(-9, 9), random.uniform(-9, 9), m)]),
        *[("XADD", "ticks", "*", "price", price, "size", size) for price, size in zip(prices, integers)],
    )
    reads = [
        ("ZRANGE of random scores WITHSCORES", ("ZRANGE", "scores", 0, -1, "WITHSCORES"), "F64"),
        ("ZRANGE of prices WITHSCORES", ("ZRANGE", "cents", 0, -1, "WITHSCORES"), "F64"),
        ("ZMSCORE", ("ZMSCORE", "scores", *members), "F64"),
        ("GEOPOS", ("GEOPOS", "geo", *members), "F64"),
        ("LRANGE of integers", ("LRANGE", "integers", 0, -1), "F64"),
        ("LRANGE of integers, varints", ("LRANGE", "integers", 0, -1), "VARINT"),
        ("LRANGE of prices", ("LRANGE", "prices", 0, -1), "F64"),
        ("HVALS of integers", ("HVALS", "hash"), "F64"),
        ("HGETALL of integers", ("HGETALL", "hash"), "F64"),
        ("MGET of integers", ("MGET", *members), "F64"),
        ("XRANGE of a price and a size", ("XRANGE", "ticks", "-", "+"), "F64"),
    ]
    found = [(name, encode(words), encode(("MANTISSA.PACKED", form, *words))) for name, words, form in reads]
    names = [member.encode() for member in members]
    doubles = [float(price) for price in prices]
    for name, text, binary in [
        ("ZADD", ("ZADD", "to", *pairs(map(repr, scores), members)), ("ZADD", "to", packed(scores, names))),
        ("HSET of prices", ("HSET", "th", *pairs(members, prices)), ("HSET", "th", packed(doubles, names))),
        ("MSET of prices", ("MSET", *pairs(members, prices)), ("MSET", packed(doubles), *members)),
    ]:
        found.append((name, encode(text), encode(("MANTISSA.UNPACK", *binary))))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mantissa", default=os.path.join(ROOT, "target/dist/mantissa"))
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=160)
    options = parser.parse_args()
    server = Server("mantissa", [options.mantissa, "server"])
    requests, client = fill(server, options.count), Client(server, 3)
    print("| request | text, us | packed, us | ratio | bytes, text | bytes, packed |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, *both in requests:
        # The first reply to a write can have another size than those that follow.
        sizes = [[client.size(request) for _ in range(2)][1] for request in both]
        rounds = [[], []]
        for _ in range(options.rounds):
            for times, request, size in zip(rounds, both, sizes):
                times.append(client.run(request, size, options.requests))
        text, binary = map(statistics.median, rounds)
        figures = f"{text:,.1f} | {binary:,.1f} | {binary / text:.2f} | {sizes[0]:,} | {sizes[1]:,}"
        print(f"| {name} | {figures} |", flush=True)
    server.stop()


if __name__ == "__main__":
    main()
