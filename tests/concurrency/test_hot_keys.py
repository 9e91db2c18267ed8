"""Pipelines of many clients on the same keys, where a worker keeps a lock from one command to the next."""

import pytest

from support.crowd import Crowd
from support.seeds import generator

WORKERS = 4
CLIENTS = 8
ROUNDS = 120
DEPTH = 64


@pytest.fixture
def server(start_server):
    server = start_server("subject", workers=WORKERS)
    with server.connect() as connection:
        connection.call("CONFIG", "SET", "worker-packing", "no")
    return server


def integer(reply):
    assert not reply.is_error, reply
    return int(reply.value)


def work(connection, random, stop):
    """Mostly increments of one key, and between them what locks others, all or none, waits, or is refused. Every
    increment adds one, so those of one client grow."""
    between = [
        ("MGET", "hot", "one", "two"),
        ("GET", "two"),
        ("LPUSH", "queue", "job"),
        ("BLPOP", "queue", "0.001"),
        ("EVAL", "return redis.call('INCR', KEYS[1])", 1, "hot-too"),
        ("EVAL", "return redis.call('INCR', 'hot-' .. ARGV[1])", 0, "too"),
        ("DBSIZE",),
        ("SCAN", "hot"),
        ("CONFIG", "GET", "hot"),
        ("CLIENT", "KILL", "hot"),
        ("LRANGE", "queue", 0, -1),
        ("HSET", "hot", "field", "value"),
        ("RENAME", "hot", "hot"),
    ]
    for _ in range(ROUNDS):
        if stop.is_set():
            return
        requests = []
        for _ in range(DEPTH):
            requests.append(("INCR", "hot") if random.random() < 0.8 else random.choice(between))
        replies = connection.pipeline(requests)
        counts = [integer(reply) for reply, words in zip(replies, requests) if words[0] == "INCR"]
        assert counts == sorted(set(counts))
        connection.call("INCRBY", "expected", len(counts))


def test_each_increment_counts_once(server):
    crowd = Crowd(server)
    crowd.join([crowd.start(work, generator("hot keys", number)) for number in range(CLIENTS)])
    with server.connect() as connection:
        assert connection.call("GET", "hot") == connection.call("GET", "expected")


def test_a_pipeline_waits_for_no_lock_that_it_keeps(server):
    """Each command that may follow one on a contended key, whatever it locks."""
    crowd = Crowd(server)

    def contend(connection, random, stop):
        while not stop.is_set():
            connection.pipeline([("INCR", "hot")] * DEPTH)

    def follow(connection, random, stop):
        followers = [
            ("SORT", "hot"), ("OBJECT", "ENCODING", "hot"), ("DUMP", "hot"), ("COPY", "hot", "copy", "REPLACE"),
            ("TOUCH", "hot", "copy"), ("DEBUG", "OBJECT", "hot"), ("RANDOMKEY",), ("KEYS", "hot"), ("DEL", "copy"),
            ("WATCH", "hot"), ("MULTI",), ("INCR", "hot"), ("EXEC",), ("MEMORY", "USAGE", "hot"), ("FLUSHDB",),
            ("EXPIRE", "hot", 1000), ("GETEX", "hot", "PERSIST"), ("MOVE", "hot", 0), ("SWAPDB", 1, 2), ("SAVE",),
            ("DEBUG", "DIGEST"), ("SUBSCRIBE", "hot"), ("UNSUBSCRIBE", "hot"), ("DBSIZE",),
            ("CONFIG", "SET", "maxmemory", "100mb"),
        ]
        for _ in range(10):
            for follower in followers:
                connection.pipeline([("INCR", "hot"), ("INCR", "hot"), follower, ("INCR", "hot")])
        stop.set()

    crowd.start(follow, generator("followers"))
    for number in range(3):
        crowd.start(contend, generator("contenders", number))
    crowd.join()


def test_a_request_that_is_refused_keeps_no_lock_for_ever(server):
    crowd = Crowd(server)

    def refused_between(connection, random, stop):
        requests = [("INCR", "hot"), ("INCR", "hot", "wrong"), ("INCR", "warm"), ("INCR", "warm")]
        for _ in range(ROUNDS):
            connection.pipeline(requests * (DEPTH // len(requests)))

    crowd.join([crowd.start(refused_between, generator("refused", number)) for number in range(CLIENTS)])
    with server.connect() as connection:
        count = CLIENTS * ROUNDS * DEPTH // 4
        assert connection.call("MGET", "hot", "warm") == [b"%d" % count, b"%d" % (2 * count)]
