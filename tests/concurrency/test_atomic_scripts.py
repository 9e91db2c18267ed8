"""Scripts over random keys, declared or not, keep what they promise while others look on."""

import pytest

from support.crowd import Crowd
from support.seeds import generator

ACCOUNTS = 30
BALANCE = 1000
WORKERS = 4
ROUNDS = 600

DECLARED = """
redis.call('DECRBY', KEYS[1], ARGV[1])
redis.call('INCRBY', KEYS[2], ARGV[1])
return 1
"""
UNDECLARED = """
redis.call('DECRBY', 'account:' .. ARGV[1], ARGV[3])
redis.call('INCRBY', 'account:' .. ARGV[2], ARGV[3])
return 1
"""
HALF_DECLARED = """
redis.call('DECRBY', KEYS[1], ARGV[2])
redis.call('INCRBY', 'account:' .. ARGV[1], ARGV[2])
return 1
"""
# Keeps to its keys for long enough to be trusted, then does not.
SURPRISING = """
redis.call('DECRBY', KEYS[1], ARGV[2])
redis.call('INCRBY', ARGV[3] == 'surprise' and 'account:' .. ARGV[1] or KEYS[2], ARGV[2])
return 1
"""
READ_FIRST = """
local from, to = redis.call('GET', KEYS[1]), redis.call('GET', 'account:' .. ARGV[1])
redis.call('SET', KEYS[1], from - ARGV[2])
redis.call('SET', 'account:' .. ARGV[1], to + ARGV[2])
return 1
"""


def account(number):
    return f"account:{number}"


def transfer(connection, random, stop):
    for _ in range(ROUNDS):
        if stop.is_set():
            return
        giver, taker = random.sample(range(ACCOUNTS), 2)
        amount = random.randint(1, 50)
        kind = random.randrange(7)
        if kind == 0:
            reply = connection("EVAL", DECLARED, 2, account(giver), account(taker), amount)
        elif kind == 1:
            reply = connection("EVAL", UNDECLARED, 0, giver, taker, amount)
        elif kind == 2:
            reply = connection("EVAL", HALF_DECLARED, 1, account(giver), taker, amount)
        elif kind == 3:
            reply = connection("EVAL", READ_FIRST, 1, account(giver), taker, amount)
        elif kind == 4:
            reply = connection("FCALL", "transfer", 2, account(giver), account(taker), amount)
        elif kind == 5:
            requests = [("MULTI",), ("EVAL", DECLARED, 2, account(giver), account(taker), amount), ("EXEC",)]
            reply = connection.pipeline(requests)[-1].value[0]
        else:
            requests = [("DECRBY", account(giver), amount), ("INCRBY", account(taker), amount)]
            reply = connection.pipeline([("MULTI",), *requests, ("EXEC",)])[-1]
        assert not reply.is_error, reply


def total(connection, random):
    names = [account(number) for number in range(ACCOUNTS)]
    if random.random() < 0.5:
        return sum(int(value) for value in connection.call("MGET", *names))
    script = "local sum = 0 for i = 0, ARGV[1] - 1 do sum = sum + redis.call('GET', 'account:' .. i) end return sum"
    return connection.call("EVAL", script, 0, ACCOUNTS)


def look_on(connection, random, stop):
    while not stop.is_set():
        assert total(connection, random) == ACCOUNTS * BALANCE


@pytest.fixture
def server(start_server):
    server = start_server("subject", workers=WORKERS)
    with server.connect() as connection:
        for number in range(ACCOUNTS):
            connection.call("SET", account(number), BALANCE)
        code = (
            "#!lua name=bank\nredis.register_function('transfer', function(keys, args) "
            "redis.call('DECRBY', keys[1], args[1]) redis.call('INCRBY', keys[2], args[1]) return 1 end)"
        )
        connection.call("FUNCTION", "LOAD", code)
    yield server
    with server.connect() as connection:
        assert total(connection, generator("last look")) == ACCOUNTS * BALANCE


def test_scripts_keep_the_sum(server):
    crowd = Crowd(server)
    writers = [crowd.start(transfer, generator("scripted transfer", number)) for number in range(6)]
    readers = [crowd.start(look_on, generator("scripted reader", number)) for number in range(2)]
    crowd.join(writers)
    crowd.stop.set()
    crowd.join(readers)


def test_scripts_that_surprise_after_writing(server):
    """Such a script takes the shards that it lacks, or fails with what it wrote in place, and is never trusted
    again: so each script here is new. The sum holds for those that succeed."""
    lost = []

    def surprise(connection, random, stop):
        for number in range(150):
            giver, taker = random.sample(range(ACCOUNTS), 2)
            script = SURPRISING + f"-- {id(random)} {number}"
            keys = [account(giver), account(taker)]
            assert connection.call("EVAL", script, 2, *keys, 0, 1, "no") == 1
            reply = connection("EVAL", script, 2, *keys, taker if number % 2 else giver, 1, "surprise")
            other = random.randrange(ACCOUNTS)
            reply = connection("EVAL", script, 2, *keys, other, 5, "surprise")
            if reply.is_error:
                assert "did not declare" in reply.text(), reply
                lost.append(5)

    crowd = Crowd(server)
    for number in range(6):
        crowd.start(surprise, generator("surprise", number))
    crowd.join()
    with server.connect() as connection:
        assert total(connection, generator("sum")) == ACCOUNTS * BALANCE - sum(lost)
        for amount in lost:
            connection.call("INCRBY", account(0), amount)


def test_a_script_that_begins_again_is_seen_once(server):
    """The first run selects another database and is monitored; neither may show."""
    script = """
        local value = redis.call('GET', KEYS[1])
        if ARGV[1] == 'elsewhere' then
            redis.call('SELECT', 3)
            for n = 1, 20 do redis.call('GET', 'other' .. n) end
        end
        return value"""
    with server.connect() as connection, server.connect() as monitor:
        connection.call("SET", "key", "in 0")
        connection.call("SELECT", 3)
        connection.call("SET", "key", "in 3")
        connection.call("SELECT", 0)
        for _ in range(3):
            assert connection.call("EVAL", script, 1, "key", "here") == b"in 0"
        monitor.call("MONITOR")
        assert connection.call("EVAL", script, 1, "key", "elsewhere") == b"in 0"
        assert connection.call("GET", "key") == b"in 0"
        shown = [monitor.read().text() for _ in range(24)]
        assert sum('"SELECT" "3"' in line for line in shown) == 1
        assert sum('lua] "GET" "key"' in line for line in shown) == 1
        assert shown[-1].endswith('"GET" "key"') and "lua" not in shown[-1]


def test_blocked_clients_are_served_by_scripts(server):
    moved = 300

    def wait(connection, random, stop):
        for _ in range(moved):
            assert connection("BLPOP", "queue", 20).value is not None

    def push(connection, random, stop):
        for number in range(moved):
            connection.call("EVAL", "return redis.call('RPUSH', KEYS[1], ARGV[1])", 1, "queue", number)

    crowd = Crowd(server)
    for number in range(3):
        crowd.start(wait, generator("waits", number))
        crowd.start(push, generator("pushes", number))
    crowd.join()
    with server.connect() as connection:
        assert connection.call("EXISTS", "queue") == 0


def test_watch_sees_what_scripts_write(server):
    steps = 100

    def step(connection, random, stop):
        done = 0
        while done < steps:
            if random.random() < 0.5:
                connection.call("EVAL", "return redis.call('INCR', KEYS[1])", 1, "counter")
                done += 1
                continue
            connection.call("WATCH", "counter")
            value = int(connection.call("GET", "counter") or 0)
            script = "return redis.call('SET', KEYS[1], ARGV[1])"
            replies = connection.pipeline([("MULTI",), ("EVAL", script, 1, "counter", value + 1), ("EXEC",)])
            done += not replies[-1].is_null

    crowd = Crowd(server)
    for number in range(6):
        crowd.start(step, generator("scripted step", number))
    crowd.join()
    with server.connect() as connection:
        assert int(connection.call("GET", "counter")) == steps * 6
