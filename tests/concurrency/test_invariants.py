"""Transactions over random keys keep what they promise while others look on."""

import pytest

from support.crowd import Crowd
from support.seeds import generator

ACCOUNTS = 40
BALANCE = 1000
LISTS = 8
ELEMENTS = 200
WORKERS = 4
ROUNDS = 1500


@pytest.fixture
def server(start_server):
    return start_server("subject", workers=WORKERS)


def account(number):
    return f"account:{number}"


def total(connection):
    """The sum of all accounts, read in one transaction."""
    requests = [("MULTI",), *[("GET", account(number)) for number in range(ACCOUNTS)], ("EXEC",)]
    return sum(int(reply.value) for reply in connection.pipeline(requests)[-1].value)


def transfer(connection, random, stop):
    """Move money between random accounts, in one transaction each."""
    for _ in range(ROUNDS):
        if stop.is_set():
            return
        giver, taker = random.sample(range(ACCOUNTS), 2)
        amount = random.randint(1, 50)
        replies = connection.pipeline(
            [
                ("MULTI",),
                ("DECRBY", account(giver), amount),
                ("INCRBY", account(taker), amount),
                ("EXEC",),
            ]
        )
        assert len(replies[-1].value) == 2, replies[-1]


def transfer_watching(connection, random, stop):
    """Move money by reading, then writing what was computed, if nobody interfered."""
    done = 0
    while done < ROUNDS // 3 and not stop.is_set():
        giver, taker = (account(number) for number in random.sample(range(ACCOUNTS), 2))
        _, from_balance, to_balance = (
            reply.value
            for reply in connection.pipeline([("WATCH", giver, taker), ("GET", giver), ("GET", taker)])
        )
        amount = random.randint(1, 50)
        replies = connection.pipeline(
            [
                ("MULTI",),
                ("SET", giver, int(from_balance) - amount),
                ("SET", taker, int(to_balance) + amount),
                ("EXEC",),
            ]
        )
        done += not replies[-1].is_null


def look_on(connection, random, stop):
    """Every transaction of a reader sees all of the money."""
    while not stop.is_set():
        assert total(connection) == ACCOUNTS * BALANCE


def test_transfers_between_accounts(server):
    with server.connect() as connection:
        for number in range(ACCOUNTS):
            connection.call("SET", account(number), BALANCE)
        crowd = Crowd(server)
        writers = [crowd.start(transfer, generator("transfer", number)) for number in range(6)]
        writers += [crowd.start(transfer_watching, generator("watching", number)) for number in range(3)]
        readers = [crowd.start(look_on, generator("reader", number)) for number in range(2)]
        crowd.join(writers)
        crowd.stop.set()
        crowd.join(readers)
        assert total(connection) == ACCOUNTS * BALANCE


def list_name(number):
    return f"list:{number}"


def move(connection, random, stop):
    """Move elements between random lists, sometimes several in a transaction."""
    for _ in range(ROUNDS):
        if stop.is_set():
            return
        ends = [random.choice(["LEFT", "RIGHT"]) for _ in range(2)]
        source, target = (list_name(random.randrange(LISTS)) for _ in range(2))
        if random.random() < 0.5:
            connection.call("LMOVE", source, target, *ends)
        else:
            other = list_name(random.randrange(LISTS))
            connection.pipeline(
                [("MULTI",), ("LMOVE", source, target, *ends), ("RPOPLPUSH", target, other), ("EXEC",)]
            )


def move_blocking(connection, random, stop):
    """The same with the blocking command; nothing is lost when it times out."""
    for _ in range(ROUNDS // 3):
        if stop.is_set():
            return
        source, target = (list_name(random.randrange(LISTS)) for _ in range(2))
        connection("BLMOVE", source, target, "LEFT", "RIGHT", "0.05")


def count_all(connection):
    requests = [("MULTI",), *[("LRANGE", list_name(number), 0, -1) for number in range(LISTS)], ("EXEC",)]
    return [value for part in connection.pipeline(requests)[-1].plain() for value in part]


def look_at_lists(connection, random, stop):
    while not stop.is_set():
        found = count_all(connection)
        assert len(found) == ELEMENTS and len(set(found)) == ELEMENTS


def test_moves_between_lists(server):
    with server.connect() as connection:
        for number in range(ELEMENTS):
            connection.call("RPUSH", list_name(number % LISTS), f"element:{number}")
        crowd = Crowd(server)
        movers = [crowd.start(move, generator("move", number)) for number in range(5)]
        movers += [crowd.start(move_blocking, generator("move blocking", number)) for number in range(3)]
        readers = [crowd.start(look_at_lists, generator("list reader", number)) for number in range(2)]
        crowd.join(movers)
        crowd.stop.set()
        crowd.join(readers)
        assert sorted(count_all(connection)) == sorted(b"element:%d" % number for number in range(ELEMENTS))


def test_a_counter_behind_watch_loses_no_step(server):
    steps, clients = 200, 8

    def step(connection, random, stop):
        done = 0
        while done < steps and not stop.is_set():
            connection.call("WATCH", "counter")
            value = int(connection.call("GET", "counter") or 0)
            replies = connection.pipeline([("MULTI",), ("SET", "counter", value + 1), ("EXEC",)])
            done += not replies[-1].is_null

    crowd = Crowd(server)
    for number in range(clients):
        crowd.start(step, generator("step", number))
    crowd.join()
    with server.connect() as connection:
        assert int(connection.call("GET", "counter")) == steps * clients


def test_commands_of_many_keys_are_atomic(server):
    """MSET writes all keys or none as MGET sees them; RENAME never shows two or no key."""
    keys = [f"same:{number}" for number in range(30)]

    def write(connection, random, stop):
        for number in range(ROUNDS):
            value = f"{id(random)}:{number}"
            connection.call("MSET", *[word for key in keys for word in (key, value)])
            connection("RENAME", "ball:a", "ball:b") if number % 2 else connection(
                "RENAME", "ball:b", "ball:a"
            )

    def read(connection, random, stop):
        while not stop.is_set():
            assert len(set(connection.call("MGET", *keys))) == 1
            assert connection.call("EXISTS", "ball:a", "ball:b") == 1

    with server.connect() as connection:
        connection.call("SET", "ball:a", "x")
        connection.call("MSET", *[word for key in keys for word in (key, "0")])
    crowd = Crowd(server)
    writers = [crowd.start(write, generator("mset", number)) for number in range(3)]
    readers = [crowd.start(read, generator("mget", number)) for number in range(3)]
    crowd.join(writers)
    crowd.stop.set()
    crowd.join(readers)
