"""Blocked clients get every element exactly once, whatever times out or hangs up meanwhile."""

import collections
import threading

import pytest

from support.crowd import Crowd
from support.resp import Closed
from support.seeds import generator
from support.waiting import eventually

WORKERS = 4
PRODUCERS = 4
PER_PRODUCER = 1500
TOTAL = PRODUCERS * PER_PRODUCER
KEYS = ["queue:a", "queue:b", "queue:c"]


@pytest.fixture
def server(start_server):
    return start_server("subject", workers=WORKERS)


class Ledger:
    """Which elements came out, counted under a lock."""

    def __init__(self):
        self.lock = threading.Lock()
        self.seen = collections.Counter()

    def add(self, element):
        with self.lock:
            self.seen[element] += 1

    def full(self):
        with self.lock:
            return len(self.seen) >= TOTAL


def produce_lists(name):
    def produce(connection, random, stop):
        sent = 0
        while sent < PER_PRODUCER:
            count = min(random.randint(1, 4), PER_PRODUCER - sent)
            elements = [f"{name}:{sent + number}" for number in range(count)]
            push = random.choice(["RPUSH", "LPUSH"])
            if random.random() < 0.3:
                connection.pipeline([("MULTI",), (push, random.choice(KEYS), *elements), ("EXEC",)])
            else:
                connection.call(push, random.choice(KEYS), *elements)
            sent += count

    return produce


def consume_lists(ledger):
    def consume(connection, random, stop):
        while not ledger.full() and not stop.is_set():
            timeout = random.choice(["0.01", "0.05", "0.2"])
            keys = random.sample(KEYS, random.randint(1, 3))
            match random.randrange(3):
                case 0:
                    reply = connection.call(random.choice(["BLPOP", "BRPOP"]), *keys, timeout)
                    elements = reply[1:] if reply else []
                case 1:
                    side = random.choice(["LEFT", "RIGHT"])
                    reply = connection.call("BLMPOP", timeout, len(keys), *keys, side, "COUNT", 3)
                    elements = reply[1] if reply else []
                case 2:
                    # Through a private list, as a worker with a processing queue does.
                    own = f"own:{id(connection)}"
                    moved = connection.call("BLMOVE", keys[0], own, "LEFT", "RIGHT", timeout)
                    elements = [connection.call("LPOP", own)] if moved else []
            for element in elements:
                ledger.add(element)

    return consume


def disturb(server, ledger):
    """Clients that block and are gone before anything comes: by hanging up, resetting, being unblocked or
    killed."""

    def work(connection, random, stop):
        while not ledger.full() and not stop.is_set():
            with server.connect() as other:
                own = other.call("CLIENT", "ID")
                other.send("BLPOP", "never:filled", "0.5")
                match random.randrange(4):
                    case 0:
                        pass  # hangs up
                    case 1:
                        other.reset()
                    case 2:
                        connection.call("CLIENT", "UNBLOCK", own)
                    case 3:
                        connection("CLIENT", "KILL", "ID", own)

    return work


def assert_each_once(ledger, expected):
    twice = [element for element, count in ledger.seen.items() if count > 1]
    missing = set(expected) - set(ledger.seen)
    assert not twice and not missing and len(ledger.seen) == len(expected), (twice[:5], list(missing)[:5])


def test_queues_lose_and_double_nothing(server):
    ledger, crowd = Ledger(), Crowd(server)
    consumers = [crowd.start(consume_lists(ledger), generator("consumer", number)) for number in range(8)]
    crowd.start(disturb(server, ledger), generator("disturber"))
    for number in range(PRODUCERS):
        crowd.start(produce_lists(f"p{number}"), generator("producer", number))
    crowd.join(consumers)
    crowd.join()
    expected = [f"p{number}:{index}".encode() for number in range(PRODUCERS) for index in range(PER_PRODUCER)]
    assert_each_once(ledger, expected)
    with server.connect() as connection:
        assert connection.call("EXISTS", *KEYS) == 0


def test_sorted_set_queues_lose_and_double_nothing(server):
    ledger, crowd = Ledger(), Crowd(server)

    def produce(name):
        def work(connection, random, stop):
            for index in range(PER_PRODUCER):
                connection.call("ZADD", random.choice(KEYS), random.randint(0, 9), f"{name}:{index}")

        return work

    def consume(connection, random, stop):
        while not ledger.full() and not stop.is_set():
            keys = random.sample(KEYS, random.randint(1, 3))
            if random.random() < 0.5:
                reply = connection.call(random.choice(["BZPOPMIN", "BZPOPMAX"]), *keys, "0.05")
                elements = reply[1:2] if reply else []
            else:
                reply = connection.call(
                    "BZMPOP", "0.05", len(keys), *keys, random.choice(["MIN", "MAX"]), "COUNT", 2
                )
                elements = [pair[0] for pair in reply[1]] if reply else []
            for element in elements:
                ledger.add(element)

    consumers = [crowd.start(consume, generator("zconsumer", number)) for number in range(6)]
    for number in range(PRODUCERS):
        crowd.start(produce(f"z{number}"), generator("zproducer", number))
    crowd.join(consumers)
    crowd.join()
    expected = [f"z{number}:{index}".encode() for number in range(PRODUCERS) for index in range(PER_PRODUCER)]
    assert_each_once(ledger, expected)


def test_an_element_served_to_a_dying_client_is_served_once(server):
    """A client may die at the moment it is served. Its element is then gone, but never given twice."""
    ledger, crowd = Ledger(), Crowd(server)
    lost_at_most = 200

    def dying(connection, random, stop):
        for _ in range(lost_at_most):
            if stop.is_set():
                return
            with server.connect() as other:
                other.send("BLPOP", "dying", "5")
                if random.random() < 0.5:
                    try:
                        reply = other.read(timeout=0.001)
                        if not reply.is_null:
                            ledger.add(reply.plain()[1])
                    except (TimeoutError, Closed):
                        pass
                other.reset()

    def living(connection, random, stop):
        while not stop.is_set():
            reply = connection.call("BLPOP", "dying", "0.1")
            if reply:
                ledger.add(reply[1])

    def produce(connection, random, stop):
        for index in range(2000):
            connection.call("RPUSH", "dying", index)

    killers = [crowd.start(dying, generator("dying", number)) for number in range(2)]
    readers = [crowd.start(living, generator("living", number)) for number in range(2)]
    crowd.join([crowd.start(produce, generator("feeder"))])
    crowd.join(killers)
    with server.connect() as connection:
        while connection.call("EXISTS", "dying"):
            pass  # the living still read
    crowd.stop.set()
    crowd.join(readers)
    assert max(ledger.seen.values()) == 1
    assert len(ledger.seen) >= 2000 - 2 * lost_at_most


def test_first_come_first_served_over_many_waiters(server):
    """A hundred waiters are served in the order in which they came."""
    waiters = [server.connect() for _ in range(100)]
    with server.connect() as control:
        for waiter in waiters:
            own = waiter.call("CLIENT", "ID")
            waiter.send("BLPOP", "line", 0)
            is_blocked = lambda: b" flags=b " in control("CLIENT", "LIST", "ID", own).value
            eventually(is_blocked, "it does not wait")
        for index in range(100):
            control.call("RPUSH", "line", index)
        assert [int(waiter.read().plain()[1]) for waiter in waiters] == list(range(100))
    for waiter in waiters:
        waiter.close()
