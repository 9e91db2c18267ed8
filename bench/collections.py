#!/usr/bin/env python3
"""Commands on collections of each size, side by side with redis-server, by the server's CPU for a command.

    bench/collections.py [--mantissa PATH] [--redis PATH] [--rounds N] [--commands N] [--sizes 10,1000,...]
                         [--only TEXT]

One connection sends commands in pipelines of 500; members are chosen at random. A collection of 10 is one of
100 alike, so that the figures are those of many small ones. Every figure is the median of rounds that alternate
between the servers, in CPU microseconds of all threads of the server for a command.
"""
import argparse
import os
import random
import socket
import statistics
import sys

from compare import ROOT, Server, encode, find_redis

PIPELINE = 500
SMALL, SMALL_COPIES = 10, 100


def cpu_us(server):
    """CPU time of all threads of a server, in us."""
    tasks = f"/proc/{server.process.pid}/task"
    total = 0
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1000


class Connection:
    """Sends prepared pipelines and waits for the replies to each without looking at them."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port))

    def send(self, payloads):
        for payload in payloads:
            self.socket.sendall(payload)
            tail = b""
            while not tail.endswith(b"+PONG\r\n"):
                received = self.socket.recv(1 << 20)
                if not received:
                    sys.exit("the server has closed the connection")
                tail = (tail + received)[-7:]


def pipelines(commands, length=PIPELINE):
    payloads, batch = [], []
    for command in commands:
        batch.append(encode(command))
        if len(batch) == length:
            payloads.append(b"".join(batch) + b"PING\r\n")
            batch = []
    return payloads + ([b"".join(batch) + b"PING\r\n"] if batch else [])


def member(number):
    return b"member:%012d" % number


def integer(number):
    return b"%d" % (number * 97 + 1_000_000_000_000)


class Shape:
    """Keys of one collection each, and what to do with them."""

    def __init__(self, size, picker):
        self.size, self.picker = size, picker
        self.copies = SMALL_COPIES if size <= SMALL else 1

    def keys(self, prefix):
        return [b"%s:%d" % (prefix, copy) for copy in range(self.copies)]

    def key(self, prefix):
        return b"%s:%d" % (prefix, self.picker.randrange(self.copies))

    def number(self):
        return self.picker.randrange(self.size)

    def score(self):
        return b"%.6f" % (self.picker.random() * 1e6)

    def fill(self):
        """Commands that make the collections."""
        step = min(self.size, 100)
        for copy in range(self.copies):
            order = list(range(0, self.size, step))
            self.picker.shuffle(order)
            for start in order:
                numbers = range(start, min(start + step, self.size))
                yield ("SADD", b"s:%d" % copy, *map(member, numbers))
                yield ("SADD", b"i:%d" % copy, *map(integer, numbers))
                yield ("HSET", b"h:%d" % copy, *(part for n in numbers for part in (member(n), b"a value of 16 b.")))
                yield ("ZADD", b"z:%d" % copy, *(part for n in numbers for part in (self.score(), member(n))))
                yield ("RPUSH", b"l:%d" % copy, *(b"element:%08d" % n for n in numbers))

    def works(self):
        """Name, share of the commands, and a function that makes one run's commands (one or several lists, each
        measured under its own name)."""
        far = self.size
        one = lambda *parts: [tuple(part() if callable(part) else part for part in parts)]
        hit, other = (lambda: member(self.number())), (lambda: member(far + self.number()))
        number, missing_number = (lambda: integer(self.number())), (lambda: integer(far + self.number()))
        s, i, h, z, l = ((lambda prefix=prefix: self.key(prefix)) for prefix in (b"s", b"i", b"h", b"z", b"l"))
        rank = lambda: b"%d" % self.number()
        span = min(self.size, 10)

        def ranks():
            start = self.picker.randrange(self.size)
            return b"%d" % start, b"%d" % (start + span - 1)

        def scores():
            start = self.picker.random() * 1e6
            return b"%.3f" % start, b"%.3f" % (start + 1e7 / self.size)

        yield "SISMEMBER", 1, lambda: one("SISMEMBER", s, hit)
        yield "SISMEMBER missing", 1, lambda: one("SISMEMBER", s, other)
        yield "SISMEMBER integer", 1, lambda: one("SISMEMBER", i, number)
        yield "SMISMEMBER 10", 0.2, lambda: one("SMISMEMBER", s, *[hit] * 10)
        yield "SADD again", 1, lambda: one("SADD", s, hit)
        yield "SRANDMEMBER", 1, lambda: one("SRANDMEMBER", s)
        yield "SSCAN 100", 0.1, lambda: [("SSCAN", self.key(b"s"), b"%d" % self.picker.getrandbits(20), "COUNT", "100")]
        yield "HGET", 1, lambda: one("HGET", h, hit)
        yield "HGET missing", 1, lambda: one("HGET", h, other)
        yield "HSET again", 1, lambda: one("HSET", h, hit, b"b value of 16 b.")
        yield "HINCRBY", 1, lambda: one("HINCRBY", h, lambda: b"counter:%d" % (self.number() % 1000), b"1")
        yield "HMGET 10", 0.2, lambda: one("HMGET", h, *[hit] * 10)
        yield "ZSCORE", 1, lambda: one("ZSCORE", z, hit)
        yield "ZRANK", 1, lambda: one("ZRANK", z, hit)
        yield "ZADD update", 1, lambda: one("ZADD", z, self.score, hit)
        yield "ZINCRBY", 1, lambda: one("ZINCRBY", z, b"1.5", hit)
        yield "ZRANGE 10", 0.5, lambda: [("ZRANGE", self.key(b"z"), *ranks())]
        yield "ZRANGEBYSCORE 10", 0.5, lambda: [("ZRANGEBYSCORE", self.key(b"z"), *scores(), "LIMIT", "0", "10")]
        yield "ZCOUNT", 0.5, lambda: [("ZCOUNT", self.key(b"z"), *scores())]
        yield "LINDEX", 0.5, lambda: one("LINDEX", l, rank)
        yield "LSET", 0.5, lambda: one("LSET", l, rank, b"another 16 bytes")
        yield "LRANGE 10", 0.5, lambda: [("LRANGE", self.key(b"l"), *ranks())]

    def changes(self):
        """Pairs of works that undo each other: names, the commands of the first, those of the second."""
        for name, undo, key, text, extra in (
            ("SADD", "SREM", b"s", member, ()),
            ("SADD", "SREM", b"i", integer, ()),
            ("HSET", "HDEL", b"h", member, (b"a value of 16 b.",)),
            ("ZADD", "ZREM", b"z", member, None),
        ):
            suffix = " integer" if key == b"i" else ""
            yield name + suffix, undo + suffix, key, text, extra
        yield "LPUSH", "LPOP", b"l", None, ()
        yield "RPUSH", "RPOP", b"l", None, ()


def change_commands(shape, pair, count):
    """Adds `count` new members, then removes as many of the old and new ones at random."""
    name, undo, key, text, extra = pair
    undo, name = undo.split()[0], name.split()[0]
    each = max(1, min(count, shape.size) // 2) if shape.copies == 1 else 5
    keys = shape.keys(key)
    adds, removes = [], []
    rounds = max(1, count // (each * len(keys)))
    picker = shape.picker
    for _ in range(rounds):
        add, remove = [], []
        for key_name in keys:
            if text is None:
                add += [(name, key_name, b"an element of 16")] * each
                remove += [(undo, key_name)] * each
                continue
            for number in picker.sample(range(shape.size), each):
                new = text(shape.size + number)
                if extra is None:
                    add.append((name, key_name, shape.score(), new))
                else:
                    add.append((name, key_name, new, *extra))
                remove.append((undo, key_name, new))
        picker.shuffle(add)
        picker.shuffle(remove)
        adds.append(add)
        removes.append(remove)
    return adds, removes


def run(server, connection, payloads, count):
    before = cpu_us(server)
    connection.send(payloads)
    return (cpu_us(server) - before) / count


def compare(options, servers, size):
    picker = random.Random(size)
    shape = Shape(size, picker)
    connections = [Connection(server) for server in servers]
    batch = []
    for command in shape.fill():
        batch.append(command)
        if len(batch) == 5000:
            payloads = pipelines(batch, 50)
            [connection.send(payloads) for connection in connections]
            batch = []
    payloads = pipelines(batch, 50)
    [connection.send(payloads) for connection in connections]
    rows = []
    for name, share, work in shape.works():
        if options.only and options.only not in name:
            continue
        count = int(options.commands * share)
        figures = [[], []]
        for turn in range(options.rounds):
            payloads = pipelines(command for _ in range(count) for command in work())
            order = [0, 1] if turn % 2 == 0 else [1, 0]
            for at in order:
                figures[at].append(run(servers[at], connections[at], payloads, count))
        rows.append((name, *map(statistics.median, figures)))
    for pair in shape.changes():
        if options.only and options.only not in pair[0] and options.only not in pair[1]:
            continue
        figures = {name: [[], []] for name in pair[:2]}
        for turn in range(options.rounds):
            adds, removes = change_commands(shape, pair, options.commands)
            steps = [(pair[0], pipelines(add), len(add)) for add in adds]
            undo = [(pair[1], pipelines(remove), len(remove)) for remove in removes]
            done = [step for both in zip(steps, undo) for step in both]
            order = [0, 1] if turn % 2 == 0 else [1, 0]
            for at in order:
                sums = {name: [0, 0] for name in pair[:2]}
                for name, payloads, count in done:
                    sums[name][0] += run(servers[at], connections[at], payloads, count) * count
                    sums[name][1] += count
                for name, (spent, count) in sums.items():
                    figures[name][at].append(spent / count)
        rows += [(name, *map(statistics.median, figure)) for name, figure in figures.items()]
    for name, ours, theirs in rows:
        mark = " slower" if ours > theirs else ""
        print(f"| {name} | {size} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} |{mark}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mantissa", default=os.path.join(ROOT, "target/release/mantissa"))
    parser.add_argument("--redis")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--sizes", default="10,1000,100000,5000000")
    parser.add_argument("--only", help="only commands whose name contains this")
    options = parser.parse_args()
    print("| command | size | mantissa us | redis us | ratio |\n| --- | --- | --- | --- | --- |")
    for size in map(int, options.sizes.split(",")):
        servers = Server("mantissa", [options.mantissa, "server"]), Server("redis", [options.redis or find_redis()])
        try:
            compare(options, servers, size)
        finally:
            for server in servers:
                server.stop()


if __name__ == "__main__":
    main()
