"""Values on disk: what is there is found, told, saved and given back, and what the disk does wrong is an error."""

import threading

import pytest

from support.memory import figure, used
from support.seeds import generator
from support.servers import subject_is_oracle
from support.waiting import eventually, until_loaded, until_written

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no values on disk")
LIMIT_BYTES = 24 << 20
KEYS = 40_000


def value_of(number):
    return (f"value:{number}:" * 200)[: 1000 + number % 500].encode()


def fill(connection, numbers, check=True):
    """Sets keys in pipelines; the errors."""
    refused = []
    for start in range(0, len(numbers), 500):
        replies = connection.pipeline([("SET", f"key:{n}", value_of(n)) for n in numbers[start : start + 500]])
        refused += [reply for reply in replies if reply.is_error]
    assert not check or not refused, refused[0]
    return refused


def comes_down(connection, part):
    """Memory is back at its limit, or this part of it, once the disk has taken what waits for it."""
    eventually(lambda: used(connection) < LIMIT_BYTES * part, lambda: f"{used(connection)} bytes in use")


def location(connection, key):
    return connection.call("MANTISSA.LOCATION", key).decode()


def test_data_beyond_memory_are_all_there(tiered):
    server = tiered()
    with server.connect() as connection:
        fill(connection, range(KEYS))
        comes_down(connection, 1.1)
        assert int(figure(connection, "tier_values")) > KEYS // 4
        assert int(figure(connection, "evicted_keys")) == 0
        random = generator()
        for number in random.sample(range(KEYS), 2_000):
            assert connection.call("GET", f"key:{number}") == value_of(number)
        assert int(figure(connection, "tier_waited_requests")) > 0
        # The oldest went first.
        assert location(connection, "key:1") in ("disk", "both")
        comes_down(connection, 1.1)


def test_what_needs_no_value_reads_none(tiered):
    server = tiered(**{"tier-pressure": "yes"})
    with server.connect() as connection:
        connection.call("SET", "text", "x" * 500)
        connection.call("RPUSH", "list", *[f"element:{number}" for number in range(50)])
        connection.call("HSET", "hash", *[f"field:{number}" for number in range(50)])
        encodings = [connection.call("OBJECT", "ENCODING", key) for key in ("text", "list", "hash")]
        assert encodings == [b"raw", b"listpack", b"listpack"]
        before = figure(connection, "tier_reads")
        # Values are drawn by chance, and passed over while their shard is locked: with some command all are there.
        places = lambda: [location(connection, key) for key in ("text", "list", "hash")]
        eventually(lambda: places() == ["disk"] * 3, lambda: f"not all are on disk: {places()}")
        assert connection.call("STRLEN", "text") == 500
        assert connection.call("TYPE", "list") == b"list"
        assert connection.call("EXISTS", "text", "list", "hash", "none") == 3
        assert connection.call("EXPIRE", "list", "1000") == 1
        assert connection.call("TTL", "list") == 1000
        assert connection.call("PERSIST", "list") == 1
        assert connection.call("RENAME", "text", "renamed") == b"OK"
        assert connection.call("TOUCH", "renamed") == 1
        assert connection.call("MEMORY", "USAGE", "renamed") < 200
        assert len(connection.call("SCAN", "0", "COUNT", "100")[1]) == 3
        assert connection.call("SET", "hash", "t" * 61) == b"OK"
        assert connection.call("DEL", "list") == 1
        assert figure(connection, "tier_reads") == before
        assert connection.call("GET", "renamed") == b"x" * 500
        assert connection("STRLEN", "hash").plain() == 61
        assert figure(connection, "tier_reads") != before


def test_parts_of_long_strings_are_read_alone(tiered):
    # Room for the value several times: as it was read, as it waits to be written, as it is sent.
    server = tiered(**{"tier-pressure": "yes", "maxmemory": "256mb"})
    text = bytes((at * 7 + (at >> 10)) & 0xFF for at in range(10 << 20))
    bits = len(text) * 8

    def bit(number):
        return text[number // 8] >> (7 - number % 8) & 1

    with server.connect() as connection:
        connection.call("SET", "long", text)
        eventually(lambda: location(connection, "long") == "disk", "it does not go to disk")
        read = int(figure(connection, "tier_read_bytes"))
        assert connection.call("GETRANGE", "long", 5_000_000, 5_000_099) == text[5_000_000:5_000_100]
        assert 0 < int(figure(connection, "tier_read_bytes")) - read <= 2 * 4096
        ranges = ((0, 0), (4087, 4088), (4088, 8175), (-5, -1), (-100, 20_000_000), (10_000, 1_050_000))
        for start, end in ranges:
            expected = text[start:] if end in (-1, 20_000_000) else text[start : end + 1]
            assert connection.call("GETRANGE", "long", start, end) == expected
            assert connection.call("SUBSTR", "long", start, end) == expected
        for number in (0, 7, 12_345_678, bits - 1):
            assert connection.call("GETBIT", "long", number) == bit(number)
        fields = connection.call("BITFIELD_RO", "long", "GET", "u8", "8000000", "GET", "i16", "#500100")
        assert fields == [text[1_000_000], int.from_bytes(text[1_000_200:1_000_202], "big", signed=True)]
        assert connection.call("BITFIELD", "long", "GET", "u8", "80") == [text[10]]
        assert connection.call("BITCOUNT", "long", 3, 5000) == sum(byte.bit_count() for byte in text[3:5001])
        assert connection.call("BITCOUNT", "long", 9, 70_001, "BIT") == sum(bit(number) for number in range(9, 70_002))
        # None of these needs a byte.
        read = figure(connection, "tier_read_bytes")
        assert connection.call("GETRANGE", "long", len(text), -1) == b""
        assert connection.call("GETRANGE", "long", 5, 4) == b""
        assert connection.call("GETBIT", "long", bits) == 0
        assert connection.call("BITFIELD_RO", "long", "GET", "u8", str(bits)) == [0]
        assert figure(connection, "tier_read_bytes") == read
        assert (location(connection, "long"), figure(connection, "tier_reads")) == ("disk", "0")
        assert int(figure(connection, "tier_part_reads")) > 10
        assert connection("GETRANGE", "long", "x", "y").is_error
        # A transaction and a script read the value whole.
        connection.call("MULTI")
        connection.call("GETRANGE", "long", 7, 9)
        connection.call("SETRANGE", "long", 8, "!")
        connection.call("GETRANGE", "long", 7, 9)
        assert connection.call("EXEC") == [text[7:10], len(text), text[7:8] + b"!" + text[9:10]]
        script = "return redis.call('GETRANGE', KEYS[1], 7, 9)"
        assert connection.call("EVAL", script, 1, "long") == text[7:8] + b"!" + text[9:10]
        assert connection.call("GETRANGE", "long", 7, 9) == text[7:8] + b"!" + text[9:10]
        connection.call("RENAME", "long", "renamed")
        assert connection.call("GETRANGE", "renamed", -3, -1) == text[-3:]
        assert connection.call("GETRANGE", "long", 0, 5) == b""
        connection.call("RPUSH", "list", *["x" * 100 for _ in range(50)])
        assert "WRONGTYPE" in connection("GETRANGE", "list", 0, 5).text()


def test_a_part_is_never_of_what_was_there_before(tiered):
    """Every value is one number again and again: a part tells which one it is of."""
    server = tiered(**{"tier-pressure": "yes"})
    written = [0] * 4
    failures = []
    is_over = threading.Event()

    def value(number):
        return b"%08d" % number * 40_000

    def write(client):
        with server.connect() as connection:
            for number in range(1, 150):
                # Another length, and another way of writing, each time. Two of the keys are deleted now and then.
                if number % 5 == 4 and client >= 2:
                    connection.call("DEL", f"key:{client}")
                elif number % 5 == 3:
                    connection.call("SETRANGE", f"key:{client}", 0, value(number))
                else:
                    connection.call("SET", f"key:{client}", value(number) + b"x" * (number % 7 * 1000))
                written[client] = number
                if number % 10 == 0:
                    eventually(lambda: location(connection, f"key:{client}") == "disk", "it does not go to disk")

    def read(client):
        random = generator("part", client)
        with server.connect() as connection:
            while not is_over.is_set():
                of, start = random.randrange(4), random.randrange(9_000) * 8
                least = written[of]
                part = connection.call("GETRANGE", f"key:{of}", start, start + 799)
                may_be_missing = of >= 2 or least == 0
                is_right = part == part[:8] * 100 and int(part[:8]) >= least if part else may_be_missing
                if not is_right:
                    failures.append((of, start, least, part[:24]))

    writers = [threading.Thread(target=write, args=(client,)) for client in range(4)]
    readers = [threading.Thread(target=read, args=(client,)) for client in range(4)]
    for thread in writers + readers:
        thread.start()
    for thread in writers:
        thread.join()
    is_over.set()
    for thread in readers:
        thread.join()
    assert not failures, failures[:5]
    with server.connect() as connection:
        assert int(figure(connection, "tier_part_reads")) > 0
        assert int(figure(connection, "tier_read_errors")) == 0


def test_transactions_and_scripts_wait_for_all_that_they_name(tiered):
    server = tiered(**{"tier-pressure": "yes"})
    with server.connect() as connection:
        for number in range(200):
            connection.call("SET", f"key:{number}", value_of(number))
        eventually(lambda: int(figure(connection, "tier_values")) > 100, "few values go to disk")
        waited = int(figure(connection, "tier_waited_requests"))
        connection.call("MULTI")
        for number in range(200):
            connection.call("APPEND", f"key:{number}", "!")
        assert connection.call("EXEC") == [len(value_of(number)) + 1 for number in range(200)]
        script = "local t = {} for i, k in ipairs(KEYS) do t[i] = redis.call('GET', k) end return t"
        keys = [f"key:{number}" for number in range(200)]
        assert connection.call("EVAL", script, "200", *keys) == [value_of(number) + b"!" for number in range(200)]
        assert int(figure(connection, "tier_waited_requests")) > waited


def test_transactions_wait_for_keys_of_databases_that_they_select(tiered):
    server = tiered(**{"tier-pressure": "yes"})
    with server.connect() as connection, server.connect() as other:
        other.call("SELECT", 1)
        other.call("SET", "key", value_of(1))
        eventually(lambda: location(other, "key") == "disk", "it does not go to disk")
        assert connection.pipeline([("MULTI",), ("SELECT", 1), ("GET", "key")])[-1].text() == "QUEUED"
        assert connection.call("EXEC") == [b"OK", value_of(1)]
        assert figure(connection, "tier_waited_requests") != "0"


def test_a_script_that_waits_for_values_writes_its_log_once(tiered):
    server = tiered(**{"tier-pressure": "yes"})
    code = "redis.log(redis.LOG_WARNING, 'before ' .. ARGV[2]) local value = redis.call('GET', ARGV[1]) "
    code += "redis.log(redis.LOG_WARNING, 'after ' .. ARGV[2]) return #value"
    with server.connect() as connection:
        library = f"#!lua name=logs\nredis.register_function('logs', function(KEYS, ARGV) {code} end)"
        connection.call("FUNCTION", "LOAD", library)
        for name, call in [("script", ("EVAL", code)), ("function", ("FCALL", "logs"))]:
            # The second time the script is known to use keys that it does not declare.
            for number in range(2):
                connection.call("SET", f"key:{number}", value_of(number))
                eventually(lambda: location(connection, f"key:{number}") == "disk", "it does not go to disk")
                waited = int(figure(connection, "tier_waited_requests"))
                size = connection.call(*call, 0, f"key:{number}", f"{name} {number}")
                assert size == len(value_of(number))
                assert int(figure(connection, "tier_waited_requests")) > waited
                for word in ("before", "after"):
                    assert server.log_text().count(f"{word} {name} {number}") == 1


def calls(connection, command):
    """How often a command has run, as INFO counts it."""
    return int(figure(connection, f"cmdstat_{command}").split("calls=")[1].split(",")[0])


def test_keys_that_are_found_by_running_are_waited_for(tiered):
    """What a script does not declare and what SORT's patterns name: the request begins anew, and counts once."""
    server = tiered(**{"tier-pressure": "yes"})
    with server.connect() as connection, server.connect() as monitor:
        for number in range(20):
            connection.call("SET", f"key:{number}", value_of(number))
            connection.call("HSET", f"weight:{number}", "n", str(-number), "filling", "x" * 200)
        connection.call("RPUSH", "order", *range(20))
        keys = [f"{kind}:{number}" for kind in ("key", "weight") for number in range(20)]
        connection.call("CONFIG", "RESETSTAT")

        def wait_for_disk():
            there = lambda: all(location(connection, key) == "disk" for key in keys)
            eventually(there, "not all are on disk")
            return int(figure(connection, "tier_waited_requests"))

        waited = wait_for_disk()
        monitor.call("MONITOR")
        script = "local t = {} for i = 0, 19 do t[i + 1] = redis.call('GET', 'key:' .. i) end return t"
        values = [value_of(number) for number in range(20)]
        assert connection.call("EVAL", script, "0") == values
        assert int(figure(connection, "tier_waited_requests")) > waited
        assert (calls(connection, "eval"), calls(connection, "get")) == (1, 20)
        connection.call("PUBLISH", "end", "")
        shown = []
        while not shown or b"PUBLISH" not in shown[-1]:
            shown.append(monitor.read().plain())
        assert sum(b'"EVAL"' in line for line in shown) == 1
        assert sum(b'"GET"' in line for line in shown) == 20
        # What it has written stays written: then it reads on.
        waited = wait_for_disk()
        script = "redis.call('INCR', 'count') return redis.call('GET', 'key:' .. ARGV[1])"
        assert connection.call("EVAL", script, "0", "7") == value_of(7)
        assert connection.call("GET", "count") == b"1"
        waited = wait_for_disk()
        sort = ("SORT", "order", "BY", "weight:*->n", "GET", "#", "GET", "key:*", "LIMIT", 0, 3)
        expected = [item for number in (19, 18, 17) for item in (str(number).encode(), value_of(number))]
        assert connection.call(*sort) == expected
        assert int(figure(connection, "tier_waited_requests")) > waited
        wait_for_disk()
        assert connection.call(*sort, "STORE", "sorted") == 6
        assert connection.call("LRANGE", "sorted", 0, -1) == expected
        assert calls(connection, "sort") == 2
        # All or nothing, as ever.
        connection.call("MULTI")
        connection.call("EVAL", script, "0", "8")
        connection.call(*sort)
        assert connection.call("EXEC") == [value_of(8), expected]


def transaction(connection, *commands):
    """The replies of EXEC."""
    replies = connection.pipeline([("MULTI",), *commands])
    assert [reply.text() for reply in replies[1:]] == ["QUEUED"] * len(commands)
    return connection.call("EXEC")


def test_transactions_begin_anew_for_what_they_find(tiered):
    """As long as they have changed nothing: then all that SORT's patterns and labels lead to is read at once."""
    server = tiered(**{"tier-pressure": "yes"})
    with server.connect() as connection, server.connect() as monitor:
        numbers = range(30)
        connection.call("RPUSH", "order", *numbers)
        for number in numbers:
            connection.call("SET", f"key:{number}", value_of(number))
            connection.call("TS.CREATE", f"series:{number}", "LABELS", "all", "yes")
            samples = [word for at in range(60) for word in (f"series:{number}", at, at * number % 17)]
            connection.call("TS.MADD", *samples)
        keys = [f"{kind}:{number}" for kind in ("key", "series") for number in numbers]

        def wait_for_disk():
            there = lambda: all(location(connection, key) == "disk" for key in keys)
            eventually(there, "not all are on disk")
            connection.call("CONFIG", "RESETSTAT")
            return int(figure(connection, "tier_waited_requests"))

        sort = ("SORT", "order", "GET", "key:*")
        query = ("TS.MRANGE", "-", "+", "FILTER", "all=yes")
        values = [value_of(number) for number in numbers]
        wait_for_disk()
        rows = connection.call(*query)
        assert len(rows) == 30
        waited = wait_for_disk()
        monitor.call("MONITOR")
        commands = [("SELECT", 1), ("SELECT", 0), ("EXISTS", "order"), sort, query, (*sort, "STORE", "sorted")]
        assert transaction(connection, *commands) == [b"OK", b"OK", 1, values, rows, 30]
        assert int(figure(connection, "tier_waited_requests")) - waited >= 2
        counted = [calls(connection, name) for name in ("exec", "select", "exists", "sort", "ts.mrange")]
        assert counted == [1, 2, 1, 2, 1]
        assert (connection.call("DBSIZE"), connection.call("LRANGE", "sorted", 0, -1)) == (62, values)
        connection.call("PUBLISH", "end", "")
        shown = []
        while not shown or b"PUBLISH" not in shown[-1]:
            shown.append(monitor.read().plain())
        counts = [sum(name in line for line in shown) for name in (b'"SORT"', b'"EXISTS"', b'"TS.MRANGE"', b'"EXEC"')]
        assert counts == [2, 1, 1, 1]
        # What has been changed is not changed again, nor do the calls of a script count less.
        wait_for_disk()
        script = ("EVAL", "return redis.call('EXISTS', 'order')", 0)
        replies = transaction(connection, sort, ("INCR", "count"), script, ("SELECT", 1), query, sort)
        assert replies == [values, 1, 1, b"OK", [], []]
        assert connection.call("SELECT", 0) == b"OK"
        assert connection.call("GET", "count") == b"1"
        assert [calls(connection, name) for name in ("incr", "eval", "exists", "sort")] == [1, 1, 1, 2]
        wait_for_disk()
        assert transaction(connection, ("INCR", "count"), query, sort) == [2, rows, values]
        # Watched keys are looked at anew.
        wait_for_disk()
        connection.call("WATCH", "count")
        assert transaction(connection, sort, ("INCR", "count")) == [values, 3]
        connection.call("WATCH", "count")
        monitor.reset()
        with server.connect() as other:
            other.call("INCR", "count")
        assert connection.pipeline([("MULTI",), sort])[-1].text() == "QUEUED"
        assert connection.call("EXEC") is None


def test_queries_of_one_transaction_get_rows_of_their_own(tiered):
    """Of many series on disk, which are read for each query alone; monitors see all commands once."""
    server = tiered(**{"tier-pressure": "yes"})
    with server.connect() as connection, server.connect() as monitor:
        names = [f"series:{number}" for number in range(100)]
        for number, name in enumerate(names):
            connection.call("TS.CREATE", name, "LABELS", "all", "yes")
            connection.call("TS.MADD", *[word for at in range(60) for word in (name, at, at * number % 17)])
        connection.call("SET", "key:1", value_of(1))
        connection.call("RPUSH", "list", 1)
        commands = [
            ("TS.MRANGE", 0, 9, "FILTER", "all=yes"), ("TS.MGET", "FILTER", "all=yes"),
            ("TS.MRANGE", 20, 49, "AGGREGATION", "max,min", 10, "FILTER", "all=yes"),
            ("TS.MRANGE", 0, 9, "FILTER", "all=no"), ("SORT", "list", "GET", "key:*"),
            ("EVAL", "return redis.call('DBSIZE')", 0), ("TS.MREVRANGE", 55, "+", "FILTER", "all=yes"),
        ]
        expected = [connection.call(*command) for command in commands]
        assert len(expected[0]) == 100
        there = lambda: all(location(connection, key) == "disk" for key in [*names, "key:1"])
        eventually(there, "not all are on disk")
        connection.call("CONFIG", "RESETSTAT")
        monitor.call("MONITOR")
        assert transaction(connection, *commands) == expected
        counted = [calls(connection, name) for name in ("ts.mrange", "ts.mget", "sort", "eval", "dbsize")]
        assert counted == [3, 1, 1, 1, 1]
        connection.call("PUBLISH", "end", "")
        shown = []
        while not shown or b"PUBLISH" not in shown[-1]:
            shown.append(monitor.read().plain())
        words = (b'"TS.MRANGE"', b'"TS.MGET"', b'"SORT"', b'"EVAL"', b'"DBSIZE"', b'"TS.MREVRANGE"')
        assert [sum(word in line for line in shown) for word in words] == [3, 1, 1, 1, 1, 1]


def test_a_script_that_begins_anew_often_leaves_the_next_alone(tiered):
    """One that needs more values, each found by running, than it may begin anew for."""
    server = tiered(**{"tier-pressure": "yes"})
    with server.connect() as connection:
        keys = [f"key:{number}" for number in range(80)]
        for key in keys:
            connection.call("SET", key, "x" * 200)
        script = "local t = 0 for i = 0, 79 do t = t + #redis.call('GET', 'key:' .. i) end return t"
        for _ in range(2):
            there = lambda: all(location(connection, key) == "disk" for key in keys)
            eventually(there, "not all are on disk")
            waited = int(figure(connection, "tier_waited_requests"))
            connection.call("CONFIG", "RESETSTAT")
            assert connection.call("EVAL", script, 0) == 16_000
            assert calls(connection, "get") == 80
            assert int(figure(connection, "tier_waited_requests")) > waited + 60


def test_reads_that_take_long_are_waited_for(tiered):
    """However many reads wait, each value is read once, and no request reads by itself."""
    count, text = 24, "x" * (6 << 20)
    server = tiered(**{"tier-pressure": "yes", "maxmemory": "1gb", "tier-threads": 1, "hz": 500})
    connections = [server.connect() for _ in range(count)]
    with server.connect() as connection:
        keys = [f"key:{number}" for number in range(count)]
        for key in keys:
            connection.call("SET", key, text)
        eventually(lambda: all(location(connection, key) == "disk" for key in keys), "not all are on disk")
        connection.call("CONFIG", "SET", "tier-pressure", "no")
        before = [int(figure(connection, name)) for name in ("tier_reads", "tier_waited_requests")]
        for client, key in zip(connections, keys):
            client.send("EVAL", "return #redis.call('GET', ARGV[1])", 0, key)
        assert [client.read().plain() for client in connections] == [len(text)] * count
        after = [int(figure(connection, name)) for name in ("tier_reads", "tier_waited_requests")]
        assert [late - early for late, early in zip(after, before)] == [count, count]
    for client in connections:
        client.close()


def test_watched_keys_do_not_change_by_moving(tiered):
    server = tiered(**{"tier-pressure": "yes"})
    with server.connect() as connection, server.connect() as other:
        connection.call("SET", "watched", "x" * 300)
        connection.call("WATCH", "watched")
        for number in range(10):
            other.call("SET", f"key:{number}", value_of(number))
            other.call("GET", "watched")
        connection.call("MULTI")
        connection.call("STRLEN", "watched")
        assert connection.call("EXEC") == [300]


@pytest.mark.parametrize("appendonly", ["yes", "no"])
def test_saves_and_restarts_keep_everything(tiered, appendonly):
    server = tiered(appendonly=appendonly)
    with server.connect(timeout=300) as connection:
        fill(connection, range(KEYS))
        for number in range(0, 3_000, 3):
            connection.call("HSET", f"hash:{number}", "field", "x" * 200, "other", str(number))
        memory = used(connection)
        digest = connection.call("DEBUG", "DIGEST")
        assert used(connection) < memory * 1.1 + (1 << 20)
        assert connection.call("BGREWRITEAOF" if appendonly == "yes" else "SAVE")
        until_written(connection)
        comes_down(connection, 1.2)
    server.restart(crash=True)
    with server.connect(timeout=300) as connection:
        until_loaded(connection)
        comes_down(connection, 1.2)
        assert connection.call("DEBUG", "DIGEST") == digest
        assert connection.call("DBSIZE") == KEYS + 1_000


def test_a_full_file_is_a_full_memory(tiered):
    server = tiered(**{"tier-max-size": str(16 << 20)})
    with server.connect() as connection:
        refused = fill(connection, range(KEYS), check=False)
        assert refused and all("OOM" in reply.text() for reply in refused)
        number = connection.call("DBSIZE") // 2
        assert connection.call("GET", f"key:{number}") == value_of(number)
        connection.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        fill(connection, range(KEYS, KEYS + 5_000))
        assert int(figure(connection, "evicted_keys")) > 0
        assert int(figure(connection, "tier_file_bytes")) <= 16 << 20


def test_space_comes_back(tiered):
    server = tiered()
    with server.connect() as connection:
        fill(connection, range(KEYS * 3))
        full = int(figure(connection, "tier_file_bytes"))
        # Every segment keeps some of its values.
        kept = range(0, KEYS * 3, 19)
        gone = [number for number in range(KEYS * 3) if number % 19]
        for start in range(0, len(gone), 1_000):
            connection.call("DEL", *[f"key:{number}" for number in gone[start : start + 1_000]])
        # Two segments more than what is named, and half of that, are not worth emptying.
        left = lambda: int(figure(connection, "tier_file_bytes"))
        eventually(lambda: left() <= full // 2, lambda: f"{left()} of {full} bytes are in use")
        for number in kept:
            assert connection.call("GET", f"key:{number}") == value_of(number)


def test_many_clients_at_once_see_their_own_writes_while_saves_go_on(tiered):
    server = tiered(**{"maxmemory": str(16 << 20)})
    failures = []
    is_over = threading.Event()

    def save():
        with server.connect() as connection:
            while not is_over.is_set():
                connection("BGSAVE")
                until_written(connection)
                assert figure(connection, "rdb_last_bgsave_status") == "ok"

    def work(client):
        random = generator(client)
        counts = {}
        with server.connect() as connection:
            for _ in range(3_000):
                number = random.randrange(4_000)
                key = f"client:{client}:{number}"
                if random.random() < 0.5:
                    counts[number] = counts.get(number, 0) + 1
                    connection.call("APPEND", key, f"{number:0>200}")
                elif connection.call("GET", key) != (f"{number:0>200}" * counts.get(number, 0)).encode():
                    if counts.get(number):
                        failures.append(key)

    threads = [threading.Thread(target=work, args=(client,)) for client in range(6)]
    saver = threading.Thread(target=save)
    saver.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    is_over.set()
    saver.join()
    assert not failures
    with server.connect() as connection:
        assert int(figure(connection, "tier_read_errors")) == 0
        assert figure(connection, "rdb_last_bgsave_status") == "ok"
        digest = connection.call("DEBUG", "DIGEST")
        assert connection.call("SAVE") == b"OK"
    server.restart(crash=True)
    with server.connect() as connection:
        until_loaded(connection)
        assert connection.call("DEBUG", "DIGEST") == digest


def test_replicas_get_what_is_on_disk_and_keep_it_there(tiered, start_server):
    primary = tiered()
    with primary.connect() as connection:
        fill(connection, range(KEYS))
        link = {"replicaof": f"127.0.0.1 {primary.port}"}
        replicas = [start_server(options=link, workers=2), tiered(**link)]
        for replica in replicas:
            with replica.connect() as other:
                eventually(lambda: figure(other, "master_link_status") == "up", "the link is not up")
        assert int(figure(replicas[1].connect(), "used_memory")) < LIMIT_BYTES * 1.2
        for number in range(0, KEYS, 50):
            connection.call("APPEND", f"key:{number}", "more")
        connection.call("WAIT", "2", "20000")
        digest = connection.call("DEBUG", "DIGEST")
        for replica in replicas:
            with replica.connect() as other:
                assert other.call("DEBUG", "DIGEST") == digest


def test_a_folder_that_is_not_there_is_told(start_server, tmp_path):
    server = start_server(options={"tier-dir": str(tmp_path / "none")}, wait=False)
    assert server.process.wait(20) != 0
    assert "Can't keep values in" in server.log_path.read_text()


def test_a_full_file_is_tidied_and_takes_values_again(tiered):
    """Also where its limit is lowered."""
    server = tiered(**{"maxmemory": "40mb", "tier-max-size": "96mb"})
    random = generator("a full file")
    with server.connect() as connection:
        size = lambda: int(figure(connection, "tier_file_bytes"))

        def filled(name):
            """The keys that there is room for."""
            for number in range(100_000):
                if connection("SET", f"{name}:{number}", f"{number:05d}" * 2_000).is_error:
                    return [f"{name}:{number}" for number in range(number)]

        keys = filled("first")
        assert size() == 96 << 20
        for limit_mb in (96, 64):
            connection.call("CONFIG", "SET", "tier-max-size", str(limit_mb << 20))
            gone = {key for key in keys if random.random() < 0.8}
            connection.call("UNLINK", *gone)
            keys = [key for key in keys if key not in gone]
            eventually(lambda: size() <= 64 << 20, lambda: f"{size()} bytes")
            more = filled(f"then:{limit_mb}")
            assert len(more) > 1_500 and size() <= limit_mb << 20
            keys += more
        for key in random.sample(keys, 100):
            assert connection.call("GET", key) == b"%05d" % int(key.rsplit(":", 1)[1]) * 2_000


def refusals(connection, name, count, length=40):
    """Sets so many times 50 values, which do not go to disk unless told; how many of the commands are refused."""
    keys = [[f"{name}:{number}:{at}" for at in range(50)] for number in range(count)]
    commands = [("MSET", *[part for key in some for part in (key, "v" * length)]) for some in keys]
    replies = [reply for start in range(0, count, 100) for reply in connection.pipeline(commands[start : start + 100])]
    assert all("OOM" in reply.text() for reply in replies if reply.is_error)
    return sum(reply.is_error for reply in replies)


def put_large(connection):
    """Some values that can go to disk."""
    for number in range(4):
        connection.call("SET", f"large:{number}", "x" * 500_000)


def test_memory_is_full_once_nothing_more_can_go_to_disk(tiered):
    """Where most values are too small for the disk, the few that are not go first."""
    server = tiered()
    with server.connect() as connection:
        put_large(connection)
        assert refusals(connection, "first", 12_000) > 1_000
        comes_down(connection, 1.05)
        places = lambda: [location(connection, f"large:{number}") for number in range(4)]
        eventually(lambda: places() == ["disk"] * 4, lambda: f"not all are on disk: {places()}")
        assert refusals(connection, "then", 1_000) == 1_000
        # What is read leaves memory again, and what is deleted makes room.
        for number in range(4):
            assert connection.call("GET", f"large:{number}") == b"x" * 500_000
        comes_down(connection, 1.02)
        connection.call("DEL", *[f"first:{number}:{at}" for number in range(1_000) for at in range(50)])
        assert refusals(connection, "last", 500) == 0
        put_large(connection)
        assert refusals(connection, "again", 12_000) > 1_000
        comes_down(connection, 1.05)


def test_memory_is_full_once_all_values_are_on_disk(tiered):
    server = tiered()
    with server.connect() as connection:
        assert refusals(connection, "key", 16_000, 100) > 1_000
        comes_down(connection, 1.1)
        eventually(lambda: refusals(connection, "key", 100, 100) == 100, lambda: f"{used(connection)} bytes in use")


def test_keys_are_evicted_once_nothing_more_can_go_to_disk(tiered):
    server = tiered(**{"maxmemory-policy": "allkeys-lru"})
    with server.connect() as connection:
        put_large(connection)
        assert refusals(connection, "first", 12_000) == 0
        comes_down(connection, 1.02)
        assert int(figure(connection, "evicted_keys")) > 100_000
        # Now many can go again.
        starts = iter(range(0, 1_000_000, 3_000))

        def evicted_for_more():
            before, start = int(figure(connection, "evicted_keys")), next(starts)
            fill(connection, range(start, start + 3_000))
            comes_down(connection, 1.02)
            return int(figure(connection, "evicted_keys")) - before

        # Each 3,000 of these take the room of 40,000 small ones.
        eventually(lambda: evicted_for_more() < 3_000, lambda: "keys are evicted for values that can go")
        assert int(figure(connection, "tier_values")) > 2_000


def test_what_is_read_leaves_memory_where_the_file_is_full(tiered):
    server = tiered(**{"tier-max-size": str(48 << 20)})
    with server.connect() as connection:
        numbers = []
        for start in range(0, KEYS * 2, 500):
            sets = [("SET", f"key:{number}", value_of(number)) for number in range(start, start + 500)]
            numbers += [start + at for at, reply in enumerate(connection.pipeline(sets)) if not reply.is_error]
        assert int(figure(connection, "tier_file_bytes")) == 48 << 20
        highest = 0
        for count, number in enumerate(numbers):
            assert connection.call("GET", f"key:{number}") == value_of(number)
            if count % 1_000 == 0:
                highest = max(highest, used(connection))
        assert highest < LIMIT_BYTES * 1.5 and int(figure(connection, "evicted_keys")) == 0
        comes_down(connection, 1.02)
