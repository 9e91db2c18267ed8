"""A dump that is written while clients write holds the state of one instant: what transactions keep true
is true in it."""

import shutil
import signal

import pytest

from support.crowd import Crowd
from support.resp import Closed
from support.seeds import generator
from support.waiting import eventually, persistence, until_written

ACCOUNTS = 3000
BALANCE = 1000
FIELDS = 2000
MEMBERS = 2000
ROUNDS = 6
LONG_BYTES = 3_000_000


def transfer(connection, random, stop):
    """Move money between accounts, fields, members and databases, in one transaction each."""
    while not stop.is_set():
        requests = []
        for _ in range(20):
            giver, taker = random.sample(range(ACCOUNTS), 2)
            one, other = random.sample(range(FIELDS), 2)
            low, high = random.sample(range(MEMBERS), 2)
            amount = random.randint(1, 50)
            requests += [
                ("MULTI",),
                ("DECRBY", f"account:{giver}", amount),
                ("INCRBY", f"account:{taker}", amount),
                ("HINCRBY", "ledger", one, -amount),
                ("HINCRBY", "ledger", other, amount),
                ("ZINCRBY", "ranks", amount, low),
                ("ZINCRBY", "ranks", -amount, high),
                ("LMOVE", "left", "right", "LEFT", "RIGHT"),
                ("LMOVE", "right", "left", "LEFT", "RIGHT"),
                ("LMOVE", "right", "left", "LEFT", "RIGHT"),
                ("EXEC",),
            ]
        connection.pipeline(requests)


def rename(connection, random, stop):
    """Give keys other names, one after another: there are always as many."""
    names = [f"name:{number}:0" for number in range(500)]
    while not stop.is_set():
        requests = []
        for _ in range(50):
            at = random.randrange(len(names))
            _, number, turn = names[at].split(":")
            target = f"name:{number}:{int(turn) + 1}"
            requests.append(("RENAME", names[at], target))
            names[at] = target
        connection.pipeline(requests)


def turn_over(connection, random, stop):
    """Swap databases, and fill one anew after a flush: 1 and 2 together hold one generation."""
    generation = 0
    while not stop.is_set():
        generation += 1
        requests = [("SELECT", 1), ("MULTI",), ("SELECT", 1), ("FLUSHDB",), ("SELECT", 2), ("FLUSHDB",)]
        requests += [("SET", f"key:{number}", generation) for number in range(300)]
        requests += [("SELECT", 1), ("SADD", "members", *range(generation, generation + 700)), ("EXEC",)]
        requests += [("SWAPDB", 1, 2)] * random.randint(0, 3)
        connection.pipeline(requests)


def check(connection):
    """What the clients above keep true."""
    call = connection.call
    accounts = [int(value) for value in call("MGET", *(f"account:{n}" for n in range(ACCOUNTS)))]
    assert sum(accounts) == ACCOUNTS * BALANCE
    values = [int(value) for value in call("HVALS", "ledger")]
    assert (len(values), sum(values)) == (FIELDS, FIELDS * BALANCE)
    ranks = [float(value) for value in call("ZRANGE", "ranks", 0, -1, "WITHSCORES")[1::2]]
    assert (len(ranks), sum(ranks)) == (MEMBERS, 0)
    assert call("LLEN", "left") + call("LLEN", "right") == 5000
    assert len(call("KEYS", "name:*")) == 500
    found = []
    for database in (1, 2):
        connection.call("SELECT", database)
        if call("TYPE", "members") == b"set":
            found.append(min(int(member) for member in call("SMEMBERS", "members")))
        else:
            generations = {int(call("GET", key)) for key in call("KEYS", "*")}
            assert len(generations) <= 1 and call("DBSIZE") in (0, 300)
            found += generations
    connection.call("SELECT", 0)
    assert len(set(found)) <= 1, found


def fill(connection):
    connection.pipeline([("SET", f"account:{number}", BALANCE) for number in range(ACCOUNTS)])
    connection.pipeline([("HSET", "ledger", number, BALANCE) for number in range(FIELDS)])
    connection.pipeline([("ZADD", "ranks", 0, number) for number in range(MEMBERS)])
    connection.pipeline([("RPUSH", "left", f"element {number}") for number in range(5000)])
    connection.pipeline([("SET", f"name:{number}:0", "x" * 100) for number in range(500)])
    connection.call("SET", "long", "y" * 2_000_000)


def test_a_dump_under_writes_is_of_one_instant(start_server):
    server = start_server("subject", workers=2)
    readers = [start_server("oracle"), start_server("subject")]
    with server.connect() as connection:
        fill(connection)
        crowd = Crowd(server)
        for number, work in enumerate((transfer, rename, turn_over)):
            crowd.start(work, generator(f"snapshot {number}"))
        for turn in range(ROUNDS):
            assert connection.call("BGSAVE") == b"Background saving started"
            until_written(connection)
            assert b"rdb_last_bgsave_status:ok" in connection.call("INFO", "persistence")
            reader = readers[turn % 2]
            shutil.copy(server.directory / "dump.rdb", reader.directory / "dump.rdb")
            with reader.connect() as other:
                other.call("DEBUG", "RELOAD", "NOSAVE")
                check(other)
            assert not crowd.failures
        crowd.stop.set()
        crowd.join()
        check(connection)


@pytest.mark.parametrize("way", [signal.SIGTERM, "SHUTDOWN"])
def test_what_was_acknowledged_before_the_end_is_in_the_dump(way, start_server):
    server = start_server("subject", workers=4, options={"save": "3600 1"})
    crowd, told = Crowd(server), {}

    def count(connection, random, stop):
        name = f"count:{connection.call('CLIENT', 'ID')}"
        try:
            while True:
                told[name] = connection.call("INCR", name)
        except (Closed, OSError):
            pass

    for number in range(4):
        crowd.start(count, generator(f"end {number}"))
    with server.connect() as connection:
        eventually(lambda: len(told) == 4 and min(told.values()) > 100, "all of them count")
        if way == "SHUTDOWN":
            connection.send("SHUTDOWN")
        else:
            server.process.send_signal(way)
        assert server.wait_exit() == 0
    crowd.join()
    server.start()
    with server.connect() as connection:
        kept = {name: int(connection.call("GET", name)) for name in told}
    # A change whose reply was under way may be there or not.
    assert all(told[name] <= kept[name] <= told[name] + 1 for name in told), (told, kept)


def texts(dice):
    """A string that compresses, and one that does not."""
    noise = dice.randbytes(LONG_BYTES)
    return {"plain": b"".join(b"%d," % number for number in range(LONG_BYTES // 6)), "noise": noise}


def change_texts(connection, dice):
    """One random change of each long string, by each way there is."""
    for key in ("plain", "noise"):
        length = connection.call("STRLEN", key)
        place = dice.randrange(length + 1000)
        match dice.randrange(7):
            case 0:
                connection.call("SETBIT", key, place * 8, dice.randrange(2))
            case 1:
                connection.call("SETRANGE", key, place, dice.randbytes(dice.randrange(1, 400_000)))
            case 2:
                connection.call("APPEND", key, dice.randbytes(dice.randrange(10_000)))
            case 3:
                connection.call("BITFIELD", key, "SET", "i64", place * 8, dice.randrange(1 << 60))
            case 4:
                connection.call("EXPIRE", key, 10_000)
            case 5:
                connection.call("RENAME", key, f"{key}:renamed")
                connection.call("COPY", f"{key}:renamed", key)
            case _ if dice.randrange(8) == 0:
                connection.call("SET", key, dice.randbytes(LONG_BYTES))
            case _:
                connection.call("GETRANGE", key, place, place + 100)


@pytest.mark.parametrize("compress", ["yes", "no"])
@pytest.mark.parametrize("seed", [1, 2])
def test_long_strings_change_while_they_are_saved(start_server, tmp_path, seed, compress):
    options = {"rdb-key-save-delay": "200", "rdbcompression": compress}
    server = start_server("subject", options=options)
    dice = generator("long strings", seed)
    with server.connect() as connection:
        for key, text in texts(dice).items():
            connection.call("SET", key, text)
        connection.call("DEBUG", "POPULATE", 3_000, "key", 100)
        for _ in range(2):
            expected = connection.call("DEBUG", "DIGEST")
            connection.call("BGSAVE")
            while persistence(connection)["rdb_bgsave_in_progress"] == "1":
                change_texts(connection, dice)
                connection.call("SET", f"key:{dice.randrange(3_000)}", "changed")
            assert until_written(connection)["rdb_last_bgsave_status"] == "ok"
            shutil.copy(server.directory / "dump.rdb", tmp_path)
            other = start_server("subject", directory=tmp_path)
            with other.connect() as loaded:
                assert loaded.call("DEBUG", "DIGEST") == expected, f"seed {seed}"
            other.stop()


def test_what_is_sent_after_the_reply_of_bgsave_is_not_saved(start_server):
    server = start_server("subject")
    with server.connect() as connection:
        connection.call("DEBUG", "POPULATE", 10_000, "key", 10)
        for turn in range(10):
            connection.call("SET", "turn", turn)
            connection.call("BGSAVE")
            connection.call("SET", "turn", "late")
            until_written(connection)
            connection.call("DEBUG", "RELOAD", "NOSAVE")
            assert connection.call("GET", "turn") == str(turn).encode()
