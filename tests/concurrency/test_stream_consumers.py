"""Consumers that wait in XREADGROUP share a stream: every entry goes to exactly one of them, whatever times
out, hangs up or is claimed meanwhile, and every reader with XREAD sees all of them in order."""

import pytest

from support.crowd import Crowd
from support.seeds import generator

WORKERS = 4
PRODUCERS = 4
PER_PRODUCER = 1000
TOTAL = PRODUCERS * PER_PRODUCER
KEYS = ["stream:a", "stream:b", "stream:c"]


@pytest.fixture
def server(start_server):
    started = start_server("subject", workers=WORKERS)
    with started.connect() as connection:
        for key in KEYS:
            connection.call("XGROUP", "CREATE", key, "group", "$", "MKSTREAM")
    return started


def produce(name, added):
    def work(connection, random, stop):
        for index in range(PER_PRODUCER):
            key, value = random.choice(KEYS), f"{name}:{index}"
            if random.random() < 0.3:
                replies = connection.pipeline([("MULTI",), ("XADD", key, "*", "v", value), ("EXEC",)])
                entry = replies[2].plain()[0]
            else:
                entry = connection.call("XADD", key, "*", "v", value)
            added.append((key.encode(), entry))

    return work


def read_group(connection, random, consumer, name="group"):
    keys = random.sample(KEYS, random.randint(1, 3))
    words = ["XREADGROUP", "GROUP", name, consumer, "COUNT", random.randint(1, 5), "BLOCK", 30]
    reply = connection.call(*words, "STREAMS", *keys, *([">"] * len(keys)))
    return [(key, entry) for key, entries in reply or [] for entry, _ in entries]


def consume(number, got):
    def work(connection, random, stop):
        while len(got) < TOTAL and not stop.is_set():
            for key, entry in read_group(connection, random, f"consumer{number}"):
                got.append((key, entry))
                if random.random() < 0.9:
                    assert connection.call("XACK", key, "group", entry) == 1

    return work


def disturb(server, got):
    """Readers that hang up while they wait: on a group of their own, so that they take nothing away."""

    def work(connection, random, stop):
        for key in KEYS:
            connection.call("XGROUP", "CREATE", key, "others", "$")
        while len(got) < TOTAL and not stop.is_set():
            with server.connect() as other:
                words = ["XREADGROUP", "GROUP", "others", "x", "BLOCK", 200]
                other.send(*words, "STREAMS", KEYS[0], KEYS[1], ">", ">")
                if random.random() < 0.5:
                    other.reset()
            connection.call("XGROUP", "DESTROY", KEYS[1], "others")
            connection.call("XGROUP", "CREATE", KEYS[1], "others", "0")

    return work


def follow(seen):
    """Reads all three streams from the start, waiting for more."""

    def work(connection, random, stop):
        last = {key.encode(): b"0-0" for key in KEYS}
        while sum(map(len, seen.values())) < TOTAL and not stop.is_set():
            reply = connection.call("XREAD", "BLOCK", 50, "STREAMS", *last, *last.values())
            for key, entries in reply or []:
                seen.setdefault(key, []).extend(entry for entry, _ in entries)
                last[key] = entries[-1][0]

    return work


def in_order(entries):
    return sorted(entries, key=lambda entry: tuple(map(int, entry.split(b"-"))))


def test_consumers_lose_and_double_nothing(server):
    added, got, seen, crowd = [], [], {}, Crowd(server)
    consumers = [crowd.start(consume(number, got), generator("consumer", number)) for number in range(8)]
    crowd.start(follow(seen), generator("follower"))
    crowd.start(disturb(server, got), generator("disturber"))
    for number in range(PRODUCERS):
        crowd.start(produce(f"p{number}", added), generator("producer", number))
    crowd.join(consumers)
    crowd.join()
    assert len(got) == len(set(got)) == TOTAL
    assert set(got) == set(added)
    for key in KEYS:
        assert seen[key.encode()] == in_order(entry for other, entry in added if other == key.encode())
    with server.connect() as connection:
        for key in KEYS:
            listed = [dict(zip(item[::2], item[1::2])) for item in connection.call("XINFO", "GROUPS", key)]
            [group] = [item for item in listed if item[b"name"] == b"group"]
            assert group[b"lag"] == 0
            pending = connection.call("XPENDING", key, "group")
            assert pending[0] == group[b"pending"] == sum(int(count) for _, count in pending[3] or [])
