"""Connections move from worker to worker while they are used: nothing is lost, doubled or out of order."""

import re
import time

import pytest

from support.crowd import Crowd
from support.resp import Closed
from support.seeds import generator
from support.waiting import PATIENCE_S, eventually

WORKERS = 4
CLIENTS = 12
SECONDS_MAX = PATIENCE_S


@pytest.fixture
def server(start_server):
    return start_server("subject", workers=WORKERS)


def places(connection):
    """The worker of each client, by the client's number."""
    lines = connection.call("CLIENT", "LIST").decode().splitlines()
    return {int(re.match(r"id=(\d+)", line)[1]): int(re.search(r"io-thread=(\d+)", line)[1]) for line in lines}


def packed(places):
    return all(worker == 0 for worker in places.values())


def new_ones_spread(server):
    with server.connect() as probe:
        return places(probe)[probe.call("CLIENT", "ID")] != 0


def count_in_order(connection, random, stop):
    """Pipelines of every size, sent in pieces that end anywhere, with state that belongs to the connection."""
    own = connection.call("CLIENT", "ID")
    key, count = f"count:{own}", 0
    connection.call("SELECT", own % 16)
    connection.call("CLIENT", "SETNAME", f"client-{own}")
    while not stop.is_set():
        depth = random.choice([1, 1, 2, 20, 300])
        request, expected = b"", []
        for _ in range(depth):
            if random.random() < 0.1:
                text = bytes([random.randrange(256)]) * random.choice([10, 5000, 100_000])
                request += b"*2\r\n$4\r\nECHO\r\n$%d\r\n%b\r\n" % (len(text), text)
                expected.append(text)
            else:
                count += 1
                request += b"*2\r\n$4\r\nINCR\r\n$%d\r\n%b\r\n" % (len(key), key.encode())
                expected.append(count)
        middle = random.randrange(len(request))
        connection.send_raw(request[:middle])
        if random.random() < 0.3:
            time.sleep(random.random() * 0.01)
        connection.send_raw(request[middle:])
        for value in expected:
            assert connection.read().plain() == value
    assert connection.call("CLIENT", "GETNAME") == f"client-{own}".encode()
    # One that came just before the end has counted nothing.
    assert int(connection.call("GET", key) or 0) == count


def transactions(connection, random, stop):
    """A transaction that is queued slowly, so that the client moves in the middle of it."""
    own = connection.call("CLIENT", "ID")
    number = 0
    while not stop.is_set():
        number += 1
        connection.call("WATCH", f"watched:{own}")
        connection.call("MULTI")
        for _ in range(random.randrange(1, 20)):
            assert connection.call("SET", f"own:{own}", number) == b"QUEUED"
        assert connection.call("EXEC")[-1] == b"OK"
        assert int(connection.call("GET", f"own:{own}")) == number


def blocked(connection, random, stop):
    """Pushes to itself through another key, and waits for it."""
    own, number = connection.call("CLIENT", "ID"), 0
    while not stop.is_set():
        number += 1
        connection.send("BLPOP", f"queue:{own}", "0.005")
        if random.random() < 0.5:
            connection.send("RPUSH", f"queue:{own}", number)
            first, second = connection.read(), connection.read()
            assert first.plain() is None and second.plain() == 1
            assert connection.call("BLPOP", f"queue:{own}", 1) == [f"queue:{own}".encode(), str(number).encode()]
        else:
            assert connection.read().plain() is None


def test_busy_connections_move_and_keep_their_order(server):
    crowd = Crowd(server)
    with server.connect() as connection:
        for number in range(CLIENTS):
            crowd.start(count_in_order, generator("counter", number))
            crowd.start(transactions, generator("transactions", number))
        crowd.start(blocked, generator("blocked"))
        deadline = time.monotonic() + SECONDS_MAX
        for packing in ["yes", "no", "yes"]:
            connection.call("CONFIG", "SET", "worker-packing", packing)
            if packing == "no":
                # Once the workers know of it new connections go everywhere, and some find their way back when it
                # is over.
                while not new_ones_spread(server):
                    assert time.monotonic() < deadline and not crowd.stop.is_set()
                more = [crowd.start(count_in_order, generator("more", number)) for number in range(CLIENTS)]
                assert len(more) == CLIENTS
                while packed(places(connection)):
                    assert time.monotonic() < deadline and not crowd.stop.is_set(), places(connection)
            else:
                while not packed(places(connection)):
                    assert time.monotonic() < deadline and not crowd.stop.is_set(), places(connection)
        crowd.stop.set()
        crowd.join()


def test_a_client_that_moves_can_be_killed(server):
    random = generator("killer")
    crowd = Crowd(server)

    def victim(connection, random, stop):
        try:
            while not stop.is_set():
                connection.call("INCR", "n")
        except (Closed, ConnectionError):
            pass

    with server.connect() as connection:
        own = connection.call("CLIENT", "ID")
        for number in range(CLIENTS * 2):
            crowd.start(victim, generator("victim", number))
        eventually(lambda: len(places(connection)) > CLIENTS * 2, "clients are missing")
        connection.call("CONFIG", "SET", "worker-packing", "yes")
        others = [client for client in places(connection) if client != own]
        random.shuffle(others)
        for client in others:
            # Spread over the time in which they move.
            time.sleep(0.1)
            connection.call("CLIENT", "KILL", "ID", client)
        for thread in crowd.threads:
            thread.join(SECONDS_MAX)
            assert not thread.is_alive(), "a killed client was not closed"
        assert list(places(connection)) == [own]


def test_a_client_with_long_requests_is_set_aside_and_comes_back(server):
    with server.connect() as slow, server.connect() as quick:
        own, other = slow.call("CLIENT", "ID"), quick.call("CLIENT", "ID")
        slow.call("CONFIG", "SET", "worker-packing", "yes")

        def is_aside():
            slow.call("EVAL", "local sum = 0; for i = 1, 1000000 do sum = sum + i end", 1, "key")
            found = places(quick)
            return found[own] != 0 and found[other] == 0

        def is_back():
            slow.call("PING")
            return packed(places(quick))

        eventually(is_aside, lambda: f"it stays with the others: {places(quick)}")
        eventually(is_back, lambda: f"it stays aside: {places(quick)}")
