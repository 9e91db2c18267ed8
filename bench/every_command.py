#!/usr/bin/env python3
"""Every command on lists, sets, hashes and sorted sets at several sizes: this server and redis-server.

    bench/every_command.py [--mantissa PATH] [--redis PATH] [--sizes N ...] [--families NAME ...] [--only TEXT]
                           [--rounds N] [--slower-only]

One key of the size is loaded into both servers, then each command runs on it, pipelined by up to 500 on one
connection, with random members. Shown are microseconds of the server's processor time for one command (all threads,
from /proc), as medians of many short slices in which the same calls go to one server and then to the other, by
turns, and the median of their ratios within a slice: what else the machine does comes and goes more slowly.
Commands that add run with the one that removes the same again, so that the size stays as it is: "SADD, SREM" is
the time of both.
"""
import argparse
import random
import statistics
import sys
from operator import truediv

from servers import Server, add_programs, encode, in_turn, programs

PIPELINE = 500
# Elements that the commands of a pipeline touch at most, so that replies stay small.
PIPELINE_TOUCHED = 5_000
# Calls of a slice.
SLICE = 1_000
# Elements that a round touches at most: what walks a whole key runs a few times only.
TOUCHED_MAX = 2_000_000
CALLS_MAX = 20_000
VALUE = b"value-of-16-byte"
END = b"$14\r\nend-of-replies\r\n"


def member(number):
    return b"member:%012d" % number


class Key:
    """What a command is made from: the key's size, and numbers of members that are there or new."""

    def __init__(self, size, picker):
        self.size, self.picker, self.added = size, picker, size

    def old(self):
        return member(self.picker.randrange(self.size))

    def between(self):
        """A new one, right after one that is there."""
        return self.old() + b"+"

    def some(self, count):
        return [self.old() for _ in range(count)]

    def new(self):
        self.added += 1
        return member(self.added)

    def score(self):
        return repr(self.picker.random() * 1e6)

    def index(self):
        return self.picker.randrange(self.size)

    def ranks(self, count):
        return span(self.index() // 2, count)

    def number(self):
        return self.picker.randrange(self.size) * 7

    def new_number(self):
        self.added += 1
        return self.added * 7


def both(key, make, first, second):
    """Two calls about the same member, or the like."""
    what = make()
    return [first(what), second(what)]


def families():
    """By name: how to load the key, and the steps. A step has the elements that it touches (0: all, -1: as a long
    walk in Redis) and a function to its call, or to its calls."""
    texts = {
        "SADD, SREM": (1, lambda k: both(k, k.new, lambda m: ("SADD", "s", m), lambda m: ("SREM", "s", m))),
        "SADD old": (1, lambda k: ("SADD", "s", k.old())),
        "SISMEMBER": (1, lambda k: ("SISMEMBER", "s", k.old())),
        "SISMEMBER missing": (1, lambda k: ("SISMEMBER", "s", k.new())),
        "SMISMEMBER 10": (10, lambda k: ("SMISMEMBER", "s", *k.some(10))),
        "SCARD": (1, lambda k: ("SCARD", "s")),
        "SRANDMEMBER": (1, lambda k: ("SRANDMEMBER", "s")),
        "SRANDMEMBER 10": (10, lambda k: ("SRANDMEMBER", "s", 10)),
        "SRANDMEMBER -10": (10, lambda k: ("SRANDMEMBER", "s", -10)),
        "SSCAN": (10, lambda k: ("SSCAN", "s", 0)),
        "SMOVE and back": (
            1,
            lambda k: both(k, k.old, lambda m: ("SMOVE", "s", "s2", m), lambda m: ("SMOVE", "s2", "s", m)),
        ),
        "SINTER small": (10, lambda k: ("SINTER", "s", "s-small")),
        "SINTERCARD small": (10, lambda k: ("SINTERCARD", 2, "s", "s-small")),
        "SDIFF small": (10, lambda k: ("SDIFF", "s-small", "s")),
        "SINTER half": (0, lambda k: ("SINTER", "s", "s-half")),
        "SINTERCARD half": (0, lambda k: ("SINTERCARD", 2, "s", "s-half")),
        "SDIFF half": (0, lambda k: ("SDIFF", "s", "s-half")),
        "SINTERSTORE half": (0, lambda k: ("SINTERSTORE", "s3", "s", "s-half")),
        "SMEMBERS": (0, lambda k: ("SMEMBERS", "s")),
        "SUNION": (0, lambda k: ("SUNION", "s", "s-small")),
        "SINTERSTORE": (0, lambda k: ("SINTERSTORE", "s3", "s", "s")),
        "SUNIONSTORE": (0, lambda k: ("SUNIONSTORE", "s3", "s", "s-small")),
        "SDIFFSTORE": (0, lambda k: ("SDIFFSTORE", "s3", "s", "s-small")),
        "SADD, SPOP": (1, lambda k: [("SADD", "s3", k.new()), ("SPOP", "s3")]),
        "SADD 10, SPOP 10": (10, lambda k: [("SADD", "s3", *(k.new() for _ in range(10))), ("SPOP", "s3", 10)]),
    }
    numbers = {
        "SADD, SREM number": (
            1,
            lambda k: both(k, k.new_number, lambda m: ("SADD", "i", m), lambda m: ("SREM", "i", m)),
        ),
        "SISMEMBER number": (1, lambda k: ("SISMEMBER", "i", k.number())),
        "SRANDMEMBER numbers": (1, lambda k: ("SRANDMEMBER", "i")),
        "SMEMBERS numbers": (0, lambda k: ("SMEMBERS", "i")),
    }
    hashes = {
        "HSET, HDEL": (1, lambda k: both(k, k.new, lambda f: ("HSET", "h", f, "value"), lambda f: ("HDEL", "h", f))),
        "HSET old": (1, lambda k: ("HSET", "h", k.old(), VALUE)),
        "HSETNX old": (1, lambda k: ("HSETNX", "h", k.old(), "other")),
        "HGET": (1, lambda k: ("HGET", "h", k.old())),
        "HGET missing": (1, lambda k: ("HGET", "h", k.new())),
        "HMGET 10": (10, lambda k: ("HMGET", "h", *k.some(10))),
        "HEXISTS": (1, lambda k: ("HEXISTS", "h", k.old())),
        "HSTRLEN": (1, lambda k: ("HSTRLEN", "h", k.old())),
        "HLEN": (1, lambda k: ("HLEN", "h")),
        "HINCRBY": (1, lambda k: ("HINCRBY", "h", "integer", 3)),
        "HINCRBYFLOAT": (1, lambda k: ("HINCRBYFLOAT", "h", "float", "0.25")),
        "HRANDFIELD": (1, lambda k: ("HRANDFIELD", "h")),
        "HRANDFIELD 10": (10, lambda k: ("HRANDFIELD", "h", 10)),
        "HRANDFIELD -10 WITHVALUES": (10, lambda k: ("HRANDFIELD", "h", -10, "WITHVALUES")),
        "HSCAN": (10, lambda k: ("HSCAN", "h", 0)),
        "HSETEX, HGETDEL": (
            1,
            lambda k: both(
                k,
                k.new,
                lambda f: ("HSETEX", "h", "EX", 1000, "FIELDS", 1, f, "value"),
                lambda f: ("HGETDEL", "h", "FIELDS", 1, f),
            ),
        ),
        "HGETEX PERSIST": (1, lambda k: ("HGETEX", "h", "PERSIST", "FIELDS", 1, k.old())),
        "HEXPIRE, HPERSIST": (
            1,
            lambda k: both(
                k,
                k.old,
                lambda f: ("HEXPIRE", "h", 1000, "FIELDS", 1, f),
                lambda f: ("HPERSIST", "h", "FIELDS", 1, f),
            ),
        ),
        "HTTL": (1, lambda k: ("HTTL", "h", "FIELDS", 1, k.old())),
        "HGETALL": (0, lambda k: ("HGETALL", "h")),
        "HKEYS": (0, lambda k: ("HKEYS", "h")),
        "HVALS": (0, lambda k: ("HVALS", "h")),
    }
    sorted_sets = {
        "ZADD, ZREM": (1, lambda k: both(k, k.new, lambda m: ("ZADD", "z", k.score(), m), lambda m: ("ZREM", "z", m))),
        "ZADD old": (1, lambda k: ("ZADD", "z", k.score(), k.old())),
        "ZINCRBY": (1, lambda k: ("ZINCRBY", "z", "0.5", k.old())),
        "ZSCORE": (1, lambda k: ("ZSCORE", "z", k.old())),
        "ZMSCORE 10": (10, lambda k: ("ZMSCORE", "z", *k.some(10))),
        "ZRANK": (1, lambda k: ("ZRANK", "z", k.old())),
        "ZREVRANK": (1, lambda k: ("ZREVRANK", "z", k.old())),
        "ZCARD": (1, lambda k: ("ZCARD", "z")),
        "ZCOUNT": (1, lambda k: ("ZCOUNT", "z", k.score(), "inf")),
        "ZLEXCOUNT": (1, lambda k: ("ZLEXCOUNT", "lex", b"[" + k.old(), "+")),
        "ZRANGE 10": (10, lambda k: ("ZRANGE", "z", *span(k.index(), 10))),
        "ZRANGE 100 WITHSCORES": (100, lambda k: ("ZRANGE", "z", *span(k.index(), 100), "WITHSCORES")),
        "ZREVRANGE 10": (10, lambda k: ("ZREVRANGE", "z", *span(k.index(), 10))),
        "ZRANGEBYSCORE 10": (10, lambda k: ("ZRANGEBYSCORE", "z", k.score(), "inf", "LIMIT", 0, 10)),
        "ZREVRANGEBYSCORE 10": (10, lambda k: ("ZREVRANGEBYSCORE", "z", k.score(), "-inf", "LIMIT", 0, 10)),
        "ZRANGEBYLEX 10": (10, lambda k: ("ZRANGEBYLEX", "lex", b"[" + k.old(), "+", "LIMIT", 0, 10)),
        "ZREVRANGEBYLEX 10": (10, lambda k: ("ZREVRANGEBYLEX", "lex", b"[" + k.old(), "-", "LIMIT", 0, 10)),
        "ZRANGESTORE 100": (100, lambda k: ("ZRANGESTORE", "z2", "z", *span(k.index(), 100))),
        "ZRANDMEMBER": (1, lambda k: ("ZRANDMEMBER", "z")),
        "ZRANDMEMBER 10": (10, lambda k: ("ZRANDMEMBER", "z", 10)),
        "ZRANDMEMBER -10": (10, lambda k: ("ZRANDMEMBER", "z", -10)),
        "ZSCAN": (10, lambda k: ("ZSCAN", "z", 0)),
        "ZINTER small": (10, lambda k: ("ZINTER", 2, "z", "z-small")),
        "ZINTERCARD small": (10, lambda k: ("ZINTERCARD", 2, "z", "z-small")),
        "ZDIFF small": (10, lambda k: ("ZDIFF", 2, "z-small", "z")),
        "ZUNION": (0, lambda k: ("ZUNION", 2, "z", "z-small")),
        "ZUNIONSTORE": (0, lambda k: ("ZUNIONSTORE", "z3", 2, "z", "z-small")),
        "ZINTERSTORE": (0, lambda k: ("ZINTERSTORE", "z3", 2, "z", "z")),
        "ZDIFFSTORE": (0, lambda k: ("ZDIFFSTORE", "z3", 2, "z", "z-small")),
        "ZADD, ZPOPMIN": (1, lambda k: [("ZADD", "z3", k.score(), k.new()), ("ZPOPMIN", "z3")]),
        "ZADD, ZPOPMAX": (1, lambda k: [("ZADD", "z3", k.score(), k.new()), ("ZPOPMAX", "z3")]),
        "ZADD, BZPOPMIN": (1, lambda k: [("ZADD", "z3", k.score(), k.new()), ("BZPOPMIN", "z3", 0)]),
        "ZADD 10, ZMPOP 10": (10, lambda k: [ten_scores(k, "z3"), ("ZMPOP", 1, "z3", "MAX", "COUNT", 10)]),
        "ZADD 10, ZREMRANGEBYRANK 10": (10, lambda k: [ten_scores(k, "z3"), ("ZREMRANGEBYRANK", "z3", *k.ranks(10))]),
        "ZADD, ZREMRANGEBYSCORE": (
            1,
            lambda k: both(
                k,
                k.score,
                lambda score: ("ZADD", "z3", score, k.new()),
                lambda score: ("ZREMRANGEBYSCORE", "z3", score, score),
            ),
        ),
        "ZADD, ZREMRANGEBYLEX": (
            1,
            lambda k: both(
                k,
                k.new,
                lambda m: ("ZADD", "lex", 0, m),
                lambda m: ("ZREMRANGEBYLEX", "lex", b"[" + m, b"[" + m),
            ),
        ),
        "ZADD, ZREMRANGEBYLEX between": (
            1,
            lambda k: both(
                k,
                k.between,
                lambda m: ("ZADD", "lex", 0, m),
                lambda m: ("ZREMRANGEBYLEX", "lex", b"[" + m, b"[" + m),
            ),
        ),
    }
    lists = {
        "LPUSH, LPOP": (1, lambda k: [("LPUSH", "l", VALUE), ("LPOP", "l")]),
        "RPUSH, RPOP": (1, lambda k: [("RPUSH", "l", VALUE), ("RPOP", "l")]),
        "RPUSH, LPOP": (1, lambda k: [("RPUSH", "l", VALUE), ("LPOP", "l")]),
        "RPUSH 10, LPOP 10": (10, lambda k: [("RPUSH", "l", *[VALUE] * 10), ("LPOP", "l", 10)]),
        "RPUSHX, LMPOP": (1, lambda k: [("RPUSHX", "l", VALUE), ("LMPOP", 1, "l", "LEFT")]),
        "LPUSHX, BRPOP": (1, lambda k: [("LPUSHX", "l", VALUE), ("BRPOP", "l", 0)]),
        "LLEN": (1, lambda k: ("LLEN", "l")),
        "LMOVE": (1, lambda k: ("LMOVE", "l", "l", "LEFT", "RIGHT")),
        "RPOPLPUSH": (1, lambda k: ("RPOPLPUSH", "l", "l")),
        "LINDEX end": (1, lambda k: ("LINDEX", "l", -1)),
        "LINDEX": (-1, lambda k: ("LINDEX", "l", k.index())),
        "LSET": (-1, lambda k: ("LSET", "l", k.index(), VALUE)),
        "LRANGE 0 99": (100, lambda k: ("LRANGE", "l", 0, 99)),
        "LRANGE 100": (-1, lambda k: ("LRANGE", "l", *span(k.index(), 100))),
        "LPOS near": (1, lambda k: ("LPOS", "l", VALUE)),
        "LINSERT, LREM": (0, lambda k: [("LINSERT", "l", "BEFORE", "middle", "other"), ("LREM", "l", 1, "other")]),
        "RPUSH, LTRIM": (1, lambda k: [("RPUSH", "l", VALUE), ("LTRIM", "l", 1, -1)]),
        "LRANGE all": (0, lambda k: ("LRANGE", "l", 0, -1)),
    }
    return {
        "set": (load_texts, texts),
        "set of numbers": (load_numbers, numbers),
        "hash": (load_fields, hashes),
        "sorted set": (load_scores, sorted_sets),
        "list": (load_elements, lists),
    }


def ten_scores(key, name):
    return ("ZADD", name, *(word for _ in range(10) for word in (key.score(), key.new())))


def span(start, count):
    return start, start + count - 1


def in_parts(head, size, part):
    """Calls of 500 elements each; `part` makes the arguments of one element."""
    for start in range(0, size, 500):
        arguments = [word for number in range(start, min(start + 500, size)) for word in part(number)]
        yield (*head, *arguments)


def load_texts(size, picker):
    yield from in_parts(("SADD", "s"), size, lambda n: (member(n),))
    yield from in_parts(("SADD", "s-half"), size, lambda n: (member(2 * n),))
    yield ("SADD", "s-small", *(member(picker.randrange(size * 2)) for _ in range(10)))


def load_numbers(size, _picker):
    yield from in_parts(("SADD", "i"), size, lambda n: (n * 7,))


def load_fields(size, _picker):
    yield from in_parts(("HSET", "h"), size, lambda n: (member(n), VALUE))


def load_scores(size, picker):
    yield from in_parts(("ZADD", "z"), size, lambda n: (repr(picker.random() * 1e6), member(n)))
    yield from in_parts(("ZADD", "lex"), size, lambda n: (0, member(n)))
    yield ("ZADD", "z-small", *(word for n in range(10) for word in (n, member(picker.randrange(size * 2)))))


def load_elements(size, _picker):
    yield from in_parts(("RPUSH", "l"), size // 2, lambda n: (VALUE,))
    yield ("RPUSH", "l", "middle")
    yield from in_parts(("RPUSH", "l"), size - size // 2, lambda n: (VALUE,))


def plan(touched, size):
    """How often a command runs in a round, and how many of these are pipelined."""
    each = max({0: size, -1: size // 500}.get(touched, touched), 1)
    return max(2, min(CALLS_MAX, TOUCHED_MAX // each)), max(1, min(PIPELINE, PIPELINE_TOUCHED // each))


def exchange(server, batches):
    """Sends batches of requests, each followed by an ECHO, and reads until its reply comes."""
    buffer = bytearray(1 << 20)
    end = encode(("ECHO", "end-of-replies"))
    for batch in batches:
        server.connection.sendall(batch + end)
        tail = b""
        while not tail.endswith(END):
            count = server.connection.recv_into(buffer)
            if count == 0:
                sys.exit(f"{server.name} closed the connection")
            tail = (tail + bytes(buffer[max(0, count - len(END)) : count]))[-len(END) :]


def measure(server, batches):
    """Microseconds of processor time for all batches."""
    before = server.cpu_seconds()
    exchange(server, batches)
    return (server.cpu_seconds() - before) * 1e6


def compare(servers, load, steps, size, options):
    for server in servers:
        batch = []
        for command in load(size, random.Random(7)):
            batch.append(command)
            if len(batch) == 20:
                server.call(*batch)
                batch.clear()
        server.call(*batch)
    key = Key(size, random.Random(7))
    for name, (touched, call) in steps.items():
        count, pipelined = plan(touched, size)
        figures = {server.name: [] for server in servers}
        slices = options.rounds * max(1, count // SLICE)
        for number in range(slices):
            calls = [call(key) for _ in range(min(count, SLICE))]
            encoded = [b"".join(map(encode, call if isinstance(call, list) else [call])) for call in calls]
            batches = [b"".join(encoded[start : start + pipelined]) for start in range(0, len(encoded), pipelined)]
            for server in in_turn(servers, number):
                figures[server.name].append(measure(server, batches) / len(calls))
        mine, theirs = (figures[server.name] for server in servers)
        yield name, statistics.median(mine), statistics.median(theirs), statistics.median(map(truediv, mine, theirs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 1_000, 100_000, 5_000_000])
    parser.add_argument("--families", nargs="+", default=list(families()), choices=list(families()))
    parser.add_argument("--only", default="", help="only commands whose line contains this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slower-only", action="store_true", help="show only what takes longer than there")
    options = parser.parse_args()
    print("| command | elements | mantissa us | redis us | ratio |\n| --- | --- | --- | --- | --- |")
    for family in options.families:
        load, steps = families()[family]
        steps = {name: step for name, step in steps.items() if options.only in name}
        for size in options.sizes:
            servers = [Server(name, command) for name, command in programs(options).items()]
            try:
                for name, ours, theirs, ratio in compare(servers, load, steps, size, options):
                    if ratio > 1 or not options.slower_only:
                        print(f"| {name} | {size:,} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} |", flush=True)
            finally:
                for server in servers:
                    server.stop()


if __name__ == "__main__":
    main()
