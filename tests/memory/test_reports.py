"""What is told of keys and of memory: the hottest, the biggest, sizes, pages."""

from support.memory import figure, used
from support.waiting import eventually


def as_maps(reply):
    """An array of maps in RESP3 as dictionaries."""
    return [dict(zip([e.plain() for e in m.value[::2]], [e.plain() for e in m.value[1::2]])) for m in reply.value]


def sizes(connection):
    return connection("INFO", "keysizes").value.decode()


def test_sizes_of_keys_are_told_as_redis_tells_them(subject, oracle):
    with subject.connect() as ours, oracle.connect() as theirs:
        for connection in (ours, theirs):
            for size in (0, 1, 2, 3, 4, 5, 7, 8, 9, 1023, 1024, 1025, 5_000, 2_000_000):
                connection("SET", f"string:{size}", b"x" * size)
            connection("SET", "integer", "12345")
            for size in (1, 2, 3, 100, 5_000):
                numbers = list(map(str, range(size)))
                connection("RPUSH", f"list:{size}", *numbers)
                connection("SADD", f"set:{size}", *numbers)
                pairs = [word for number in numbers for word in (number, number)]
                connection("ZADD", f"zset:{size}", *pairs)
                connection("HSET", f"hash:{size}", *pairs)
            connection("XADD", "stream", "*", "field", "value")
            connection("PFADD", "sketch", "a")
            connection("SELECT", "3")
            connection("SET", "other", "value")
        assert sizes(ours) == sizes(theirs)
        for connection in (ours, theirs):
            connection("APPEND", "other", "x" * 1_000)
            connection("SELECT", "0")
            connection("DEL", "list:1", "set:2", "string:0")
            connection("SREM", "set:3", "1")
        assert sizes(ours) == sizes(theirs)


def test_sizes_of_many_keys_come_with_the_walk(subject):
    with subject.connect() as connection:
        for start in range(0, 20_000, 1_000):
            connection.pipeline([("SET", f"key:{number}", "v" * 100) for number in range(start, start + 1_000)])
        connection("RPUSH", "list", "a", "b")
        while sizes(connection) != (
            "# Keysizes\r\ndb0_distrib_strings_sizes:64=20000\r\ndb0_distrib_lists_items:2=1\r\n"
        ):
            pass
        connection("FLUSHALL")
        assert sizes(connection) == "# Keysizes\r\n"


def test_the_hottest_keys(start_server):
    server = start_server(workers=2)
    with server.connect(3) as connection, server.connect(3) as other:
        for client in (connection, other):
            client("SET", "hot", "v")
            client("SADD", "warm", "a")
            for start in range(0, 20_000, 100):
                requests = []
                for number in range(start, start + 100):
                    requests += [("GET", "hot"), ("GET", f"cold:{number}")]
                    if number % 4 == 0:
                        requests.append(("SINTER", "warm", "warm"))
                client.pipeline(requests)
        found = as_maps(connection("MANTISSA.KEYS", "HOT", "COUNT", "2"))
        assert [key[b"key"] for key in found] == [b"hot", b"warm"]
        rates = [float(key[b"accesses-per-second"]) for key in found]
        assert rates[0] > 1.3 * rates[1] > 0
        assert found[0][b"database"] == 0
        assert connection.call("MANTISSA.KEYS", "RESET") == b"OK"
        assert connection("MANTISSA.KEYS", "HOT").plain() == []


def test_the_hottest_keys_in_transactions_and_scripts(subject):
    with subject.connect(3) as connection:
        connection("SELECT", "5")
        for _ in range(20):
            commands = [("INCR", "counter")] * 100
            connection.pipeline([("MULTI",), *commands, ("EXEC",)])
            connection("EVAL", "for i = 1, 200 do redis.call('get', KEYS[1]) end", "1", "scripted")
        found = as_maps(connection("MANTISSA.KEYS", "HOT"))
        assert {(key[b"database"], key[b"key"]) for key in found} == {(5, b"counter"), (5, b"scripted")}


def test_the_biggest_keys(subject):
    with subject.connect(3) as connection:
        members = list(map(str, range(20_000)))
        connection("SADD", "set", *[f"member:{number}" for number in members])
        connection("SET", "string", "v" * 3_000_000)
        connection("SELECT", "2")
        connection("RPUSH", "list", *[f"element:{number}" for number in members[:5_000]])
        connection.pipeline([("SET", f"small:{number}", "v") for number in range(1_000)])
        found = as_maps(connection("MANTISSA.KEYS", "BIG", "COUNT", "3"))
        assert [key[b"key"] for key in found] == [b"string", b"set", b"list"]
        assert [key[b"database"] for key in found] == [0, 0, 2]
        assert [key[b"elements"] for key in found] == [3_000_000, 20_000, 5_000]
        assert [key[b"type"] for key in found] == [b"string", b"set", b"list"]
        assert found[2][b"bytes"] == connection.call("MEMORY", "USAGE", "list")
        # With more keys they come from the walk in the background.
        for start in range(0, 20_000, 1_000):
            connection.pipeline([("SET", f"key:{number}", "v") for number in range(start, start + 1_000)])
        while [key[b"key"] for key in as_maps(connection("MANTISSA.KEYS", "BIG", "COUNT", "3"))] != [
            b"string",
            b"set",
            b"list",
        ]:
            pass


def test_errors_of_the_report(subject):
    with subject.connect() as connection:
        for words in (["HOT", "COUNT"], ["HOT", "COUNT", "x"], ["BIG", "NUMBER", "3"], ["HOT", "COUNT", "0"]):
            assert connection("MANTISSA.KEYS", *words).is_error
        assert connection("MANTISSA.KEYS", "BIG", "COUNT", "101").text() == "ERR COUNT must be from 1 to 100"
        assert not connection("MANTISSA.KEYS", "HELP").is_error


def test_memory_of_deleted_keys_goes_back_to_the_system(subject):
    with subject.connect() as connection:
        for start in range(0, 100_000, 1_000):
            connection.pipeline([("SET", f"key:{number}", "v" * 500) for number in range(start, start + 1_000)])
        peak = subject.memory_bytes()
        connection("FLUSHALL")
        # Large tables are freed in the background.
        eventually(lambda: figure(connection, "lazyfree_pending_objects") == "0", "it is not freed")
        assert connection.call("MEMORY", "PURGE") == b"OK"
        assert subject.memory_bytes() < peak * 0.5


def test_figures_of_memory_agree(subject):
    with subject.connect() as connection:
        for start in range(0, 50_000, 1_000):
            connection.pipeline([("SET", f"key:{number}", "v" * 100) for number in range(start, start + 1_000)])
        stats = dict(zip(*[iter(connection("MEMORY", "STATS").plain())] * 2))
        assert stats[b"keys.count"] == 50_000
        assert stats[b"dataset.bytes"] + stats[b"overhead.total"] == stats[b"total.allocated"]
        assert 110 < stats[b"keys.bytes-per-key"] < 300
        assert stats[b"allocator.allocated"] <= stats[b"allocator.active"] <= stats[b"allocator.resident"]
        assert 1.0 <= float(figure(connection, "allocator_frag_ratio")) < 1.5
        key = connection.call("MEMORY", "USAGE", "key:1")
        assert connection.call("MEMORY", "USAGE", "key:1", "SAMPLES", "0") == key
        before = used(connection)
        connection("SET", "big", "v" * 5_000_000)
        assert abs(used(connection) - before - connection.call("MEMORY", "USAGE", "big")) < 300_000
        text = connection("MEMORY", "MALLOC-STATS").value.decode()
        assert "jemalloc" in text and "bytes resident" in text
