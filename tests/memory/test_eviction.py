"""Memory that is bounded: what stays, what goes, and how much of it."""

import threading

import pytest

from support.crowd import Crowd
from support.memory import figure, used
from support.seeds import generator
from support.waiting import eventually

VALUE = b"v" * 400
ALL_KEYS = ["allkeys-lru", "allkeys-lfu", "allkeys-random"]
VOLATILE = ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"]


def set_limit(connection, policy, room):
    """Bound memory to what is used now and some bytes more."""
    assert connection.call("CONFIG", "SET", "maxmemory-policy", policy) == b"OK"
    limit = used(connection) + room
    assert connection.call("CONFIG", "SET", "maxmemory", str(limit)) == b"OK"
    return limit


def fill(connection, count, prefix="key", *options):
    """Write keys in pipelines; the replies."""
    replies = []
    for start in range(0, count, 500):
        numbers = range(start, min(count, start + 500))
        replies += connection.pipeline([("SET", f"{prefix}:{number}", VALUE, *options) for number in numbers])
    return replies


def existing(connection, prefix, numbers):
    replies = connection.pipeline([("EXISTS", f"{prefix}:{number}") for number in numbers])
    return {number for number, reply in zip(numbers, replies) if reply.plain() == 1}


@pytest.mark.parametrize("policy", ALL_KEYS + VOLATILE)
def test_memory_stays_at_the_limit_and_is_used(subject, policy):
    with subject.connect() as connection:
        options = ("EX", "10000") if policy in VOLATILE else ()
        limit = set_limit(connection, policy, 4 << 20)
        replies = fill(connection, 20_000, "key", *options)
        assert not any(reply.is_error for reply in replies)
        # One more key, or the buffers of a connection, may be beyond it at a time.
        assert limit - (512 << 10) < used(connection) <= limit + (128 << 10)
        connection("CONFIG", "SET", "maxmemory", "0")
        keys = connection.call("DBSIZE")
        assert 0 < keys < 20_000
        assert int(figure(connection, "evicted_keys")) == 20_000 - keys


def test_keys_without_expiry_stay_under_volatile_policies(subject):
    with subject.connect() as connection:
        fill(connection, 5_000, "eternal")
        fill(connection, 50, "volatile", "EX", "10000")
        set_limit(connection, "volatile-lru", 64 << 10)
        replies = fill(connection, 2_000, "more")
        refused = [reply for reply in replies if reply.is_error]
        assert refused and all(reply.text().startswith("OOM ") for reply in refused)
        assert len(existing(connection, "eternal", range(5_000))) == 5_000
        assert existing(connection, "volatile", range(50)) == set()
        assert int(figure(connection, "evicted_keys")) == 50


def test_rare_keys_with_an_expiry_are_found(subject):
    """One key in ten thousand can be evicted: it is, and no write is refused until the last has gone."""
    with subject.connect() as connection:
        for start in range(0, 100_000, 1_000):
            connection.pipeline([("SET", f"eternal:{number}", "v") for number in range(start, start + 1_000)])
        connection.pipeline([("SET", f"volatile:{n}", "v" * 100_000, "EX", "10000") for n in range(10)])
        set_limit(connection, "volatile-random", 100 << 10)
        replies = [connection("SET", f"big:{number}", "v" * 50_000) for number in range(20)]
        assert not any(reply.is_error for reply in replies)
        assert connection.call("DBSIZE") < 100_030
        assert len(existing(connection, "eternal", range(0, 100_000, 100))) == 1_000


def test_the_least_recently_used_go_first(subject):
    with subject.connect() as connection:
        connection("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        fill(connection, 3_000, "old")
        # Idle times come with RESTORE: no test waits for clocks.
        payload = connection.call("DUMP", "old:0")
        for start in range(0, 3_000, 500):
            numbers = range(start, start + 500)
            connection.pipeline(
                [("RESTORE", f"old:{n}", "0", payload, "REPLACE", "IDLETIME", str(1_000 + n)) for n in numbers]
            )
        fill(connection, 3_000, "new")
        set_limit(connection, "allkeys-lru", 0)
        fill(connection, 1_000, "more")
        kept = existing(connection, "old", range(3_000))
        assert len(existing(connection, "new", range(3_000))) > 2_950
        assert len(existing(connection, "more", range(1_000))) > 950
        assert len([n for n in kept if n < 1_000]) > 900, "those idle for less stay"
        assert len([n for n in kept if n >= 2_000]) < 450, "those idle for longest go"


def test_the_least_frequently_used_go_first(subject):
    with subject.connect() as connection:
        connection("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        connection("CONFIG", "SET", "lfu-log-factor", "0")
        connection("CONFIG", "SET", "lfu-decay-time", "0")  # a minute may begin meanwhile
        fill(connection, 2_000, "rare")
        fill(connection, 1_000, "popular")
        for _ in range(20):
            connection.pipeline([("GET", f"popular:{number}") for number in range(1_000)])
        assert connection.call("OBJECT", "FREQ", "popular:1") == 25
        assert connection.call("OBJECT", "FREQ", "rare:1") == 5
        set_limit(connection, "allkeys-lfu", 0)
        fill(connection, 1_500, "more")
        assert len(existing(connection, "popular", range(1_000))) == 1_000


def test_those_that_expire_soonest_go_first(start_server):
    # Each worker draws candidates of its own, and takes memory once it serves.
    with start_server(workers=1).connect() as connection:
        connection.pipeline(
            [("SET", f"key:{number}", VALUE, "EX", str(1_000 + number)) for number in range(3_000)]
        )
        set_limit(connection, "volatile-ttl", 0)
        fill(connection, 1_000, "more")
        kept = existing(connection, "key", range(3_000))
        assert len([n for n in kept if n >= 2_000]) == 1_000
        assert len([n for n in kept if n < 1_000]) < 250


def test_one_large_value_that_is_freed_in_the_background_is_enough(start_server):
    # With one shard nothing else can go while somebody holds the shard of the large one, and it is drawn
    # soon, whatever the random numbers are.
    with start_server(options={"shards": 1}, workers=1).connect() as connection:
        connection("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        for start in range(0, 200_000, 10_000):
            members = [f"member:{number}" for number in range(start, start + 10_000)]
            connection("SADD", "large", *members)
        payload = connection.call("DUMP", "large")
        connection("DEL", "large")
        connection("RESTORE", "large", "0", payload, "IDLETIME", "100000")
        fill(connection, 200, "small")
        connection("CONFIG", "SET", "maxmemory-samples", "64")
        eventually(lambda: figure(connection, "lazyfree_pending_objects") == "0", "it is not freed")
        set_limit(connection, "allkeys-lru", 0)
        fill(connection, 100, "more")
        assert connection.call("EXISTS", "large") == 0
        # A few may be drawn before it is; none goes while it is being freed.
        assert len(existing(connection, "small", range(200))) >= 150


def test_lowering_the_limit_evicts_without_any_command(subject):
    with subject.connect() as connection, subject.connect() as other:
        fill(connection, 10_000)
        before = used(connection)
        connection("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        connection("CONFIG", "SET", "maxmemory", str(before - (2 << 20)))
        eventually(lambda: used(other) <= before - (2 << 20), "it stays above the limit")
        assert connection.call("DBSIZE") < 10_000
        assert int(figure(connection, "current_eviction_exceeded_time")) == 0


def test_many_clients_evict_no_more_than_needed(start_server):
    server = start_server(workers=4)
    with server.connect() as connection:
        limit = set_limit(connection, "allkeys-lru", 4 << 20)
        low, stop = [], threading.Event()

        def watch():
            with server.connect() as observer:
                while not stop.is_set():
                    low.append(used(observer))

        def write(client, random, stop):
            for _ in range(40):
                keys = [f"key:{random.randrange(1 << 40)}" for _ in range(200)]
                assert not any(reply.is_error for reply in client.pipeline([("SET", key, VALUE) for key in keys]))

        crowd = Crowd(server)
        for number in range(8):
            crowd.start(write, generator("first", number))
        crowd.join()
        low.clear()
        watcher = threading.Thread(target=watch)
        watcher.start()
        for number in range(8):
            crowd.start(write, generator("second", number))
        crowd.join()
        stop.set()
        watcher.join()
        assert min(low) > limit - (512 << 10), "memory is used to the limit"
        assert max(low) < limit + (2 << 20)


def test_transactions_are_not_torn(subject):
    """Keys are evicted before a transaction, never between its commands."""
    with subject.connect() as connection:
        set_limit(connection, "allkeys-random", 1 << 20)
        for number in range(300):
            commands = [("SET", f"pair:{number}:{half}", VALUE * 4) for half in range(20)]
            replies = connection.pipeline([("MULTI",), *commands, ("EXISTS", *[c[1] for c in commands]), ("EXEC",)])
            assert replies[-1].plain()[-1] == 20


def test_evicted_keys_are_told_to_those_who_watch(subject):
    with subject.connect() as connection, subject.connect() as writer:
        connection("SET", "watched", VALUE)
        connection("WATCH", "watched")
        writer("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        writer("CONFIG", "SET", "maxmemory", "1")
        assert writer.call("DBSIZE") == 0
        writer("CONFIG", "SET", "maxmemory", "0")
        connection("MULTI")
        connection("SET", "watched", "x")
        assert connection("EXEC").is_null
