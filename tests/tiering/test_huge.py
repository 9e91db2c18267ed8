"""Values that are longer than a segment of the file on disk: they go and come as a whole."""

import threading

import pytest

from support.memory import figure, used
from support.servers import subject_is_oracle
from support.waiting import eventually, until_loaded, until_written

from .test_large import told, wait_for_disk
from .test_tier import location

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no values on disk")
LIMIT_BYTES = 128 << 20
TEXT = b"".join(b"%015d\n" % number for number in range(2_500_000))
KEYS = ("huge:text", "huge:hash", "huge:zset", "huge:list", "huge:set", "huge:stream")


def fill_huge(connection):
    """Values of 20 to 40 MB each."""
    connection.call("SET", "huge:text", TEXT)
    for start in range(0, 40_000, 1_000):
        numbers = range(start, start + 1_000)
        texts = [TEXT[number * 16 : number * 16 + 600] for number in numbers]
        short = [text[:400] for text in texts]
        commands = [
            ("HSET", "huge:hash", *[word for number in numbers for word in (number, texts[number - start])]),
            ("ZADD", "huge:zset", *[word for number in numbers for word in (number / 7, short[number - start])]),
            ("RPUSH", "huge:list", *texts),
            ("SADD", "huge:set", *short),
            *[("XADD", "huge:stream", f"{number + 1}-1", "field", texts[number - start]) for number in numbers],
        ]
        connection.pipeline(commands)
    connection.call("XGROUP", "CREATE", "huge:stream", "group", "0")
    connection.call("XREADGROUP", "GROUP", "group", "reader", "COUNT", 40, "STREAMS", "huge:stream", ">")
    connection.call("EXPIRE", "huge:zset", 1_000_000)


def test_huge_values_go_and_come_back_as_they_were(tiered):
    server = tiered(**{"maxmemory": "1gb", "tier-pressure": "no"})
    with server.connect() as connection:
        fill_huge(connection)
        expected = told(connection, KEYS)
        connection.call("CONFIG", "SET", "tier-pressure", "yes")
        wait_for_disk(connection, KEYS)
        for _ in range(2):
            assert told(connection, KEYS) == expected
            wait_for_disk(connection, KEYS)
        # They are as before to commands that look at them and change them, too.
        assert connection.call("HSET", "huge:hash", "17", "changed", "new", "value") == 1
        assert connection.call("HMGET", "huge:hash", "17", "new", "39999") == [
            b"changed",
            b"value",
            TEXT[39_999 * 16 : 39_999 * 16 + 600],
        ]
        assert connection.call("ZRANK", "huge:zset", TEXT[16:416]) == 1
        assert connection.call("LPOP", "huge:list") == TEXT[:600]
        assert connection.call("LLEN", "huge:list") == 39_999
        assert connection.call("SISMEMBER", "huge:set", TEXT[1_600:2_000]) == 1
        assert connection.call("XPENDING", "huge:stream", "group")[0] == 40
        assert connection.call("XLEN", "huge:stream") == 40_000
        assert connection.call("DEL", *KEYS) == len(KEYS)
        eventually(lambda: int(figure(connection, "tier_file_bytes")) <= 16 << 20, "slots are not given back")
        assert int(figure(connection, "tier_read_errors")) == 0


def test_what_needs_no_value_reads_none(tiered):
    server = tiered(**{"maxmemory": "1gb", "tier-pressure": "no"})
    with server.connect() as connection:
        fill_huge(connection)
        connection.call("CONFIG", "SET", "tier-pressure", "yes")
        wait_for_disk(connection, KEYS)
        before = int(figure(connection, "tier_reads"))
        assert connection.call("STRLEN", "huge:text") == len(TEXT)
        for key in KEYS:
            assert connection.call("EXISTS", key) == connection.call("TOUCH", key) == 1
            assert connection.call("TYPE", key).decode() == {"text": "string"}.get(key[5:], key[5:])
            assert connection.call("OBJECT", "ENCODING", key) != b"listpack"
            assert connection.call("MEMORY", "USAGE", key) < 1_000
            assert connection.call("RENAME", key, f"{key}:other") == b"OK"
            assert connection.call("EXPIRE", f"{key}:other", 1_000_000) == 1
            assert connection.call("RENAME", f"{key}:other", key) == b"OK"
        for start in (0, 5, 16_744_440, 33_000_000, len(TEXT) - 16):
            assert connection.call("GETRANGE", "huge:text", start, start + 15) == TEXT[start : start + 16]
            bit = TEXT[start] >> 5 & 1
            assert connection.call("GETBIT", "huge:text", start * 8 + 2) == bit
        ones = sum(byte.bit_count() for byte in TEXT[16_700_000:16_800_000])
        assert connection.call("BITCOUNT", "huge:text", 16_700_000, 16_799_999) == ones
        assert all(location(connection, key) == "disk" for key in KEYS)
        assert int(figure(connection, "tier_reads")) == before
        assert int(figure(connection, "tier_part_reads")) == 11
        assert connection.call("APPEND", "huge:text", "the end") == len(TEXT) + 7
        wait_for_disk(connection, ["huge:text"])
        assert connection.call("GETRANGE", "huge:text", -10, -1) == TEXT[-3:] + b"the end"


def asked_of_elements():
    """Commands that need few elements of the values, two of them of the wrong type."""
    yield from (("HLEN", "huge:hash"), ("SCARD", "huge:set"), ("LLEN", "huge:list"), ("ZCARD", "huge:zset"))
    yield from (("XLEN", "huge:stream"), ("HGET", "huge:list", "field"), ("LLEN", "huge:set"))
    for number in (0, 1, 17, 20_000, 39_999, 40_000):
        text = TEXT[number * 16 : number * 16 + 400]
        yield from (("HGET", "huge:hash", number), ("HSTRLEN", "huge:hash", number), ("HEXISTS", "huge:hash", number))
        yield from (("SISMEMBER", "huge:set", text), ("LINDEX", "huge:list", number), ("LINDEX", "huge:list", -number))
        yield ("LRANGE", "huge:list", number, number + 9)
        yield ("LRANGE", "huge:list", -number - 9, -number)
        for name in ("ZRANGE", "ZREVRANGE"):
            yield (name, "huge:zset", number, number + 9, "WITHSCORES")
            yield (name, "huge:zset", -number - 9, -number)
        yield ("ZRANGE", "huge:zset", number, number + 9, "REV", "WITHSCORES")
        yield ("ZRANGE", "huge:zset", f"({number / 7}", "+inf", "BYSCORE", "LIMIT", 3, 5, "WITHSCORES")
        yield ("ZRANGEBYSCORE", "huge:zset", number / 7, number / 7 + 2, "WITHSCORES")
        yield ("ZREVRANGEBYSCORE", "huge:zset", f"({number / 7}", "-inf", "LIMIT", 2, 4)
        yield ("XRANGE", "huge:stream", number, number + 9)
        yield ("XRANGE", "huge:stream", number, "+", "COUNT", 3)
        yield ("XREVRANGE", "huge:stream", number, "-", "COUNT", 3)
    texts = [TEXT[number * 16 : number * 16 + 400] for number in (5, 50_000, 7, 5)]
    yield ("HMGET", "huge:hash", 7, 50_000, 39_000, 7, "other")
    yield ("SMISMEMBER", "huge:set", *texts)


def test_elements_of_huge_values_are_read_alone(tiered):
    server = tiered(**{"maxmemory": "1gb", "tier-pressure": "no"})
    with server.connect() as connection:
        fill_huge(connection)
        asked = list(asked_of_elements())
        expected = [connection(*words).plain() for words in asked]
        connection.call("CONFIG", "SET", "tier-pressure", "yes")
        wait_for_disk(connection, KEYS)
        # What is in memory too is looked at there.
        connection.call("CONFIG", "SET", "tier-pressure", "no")
        reads, parts = (int(figure(connection, name)) for name in ("tier_reads", "tier_part_reads"))
        for words, reply in zip(asked, expected):
            assert connection(*words).plain() == reply, words
        assert int(figure(connection, "tier_reads")) == reads
        assert int(figure(connection, "tier_part_reads")) == parts + len(asked)
        assert all(location(connection, key) == "disk" for key in KEYS)


def test_long_ranges_of_huge_values_are_read_alone(tiered):
    """Commands that may read much do so without a lock, from an image: also of what was read of a value on disk."""
    server = tiered(**{"maxmemory": "1gb", "tier-pressure": "no"})
    keys = ("many:zset", "many:list", "many:stream")
    with server.connect() as connection:
        for start in range(0, 600_000, 2_000):
            numbers = range(start, start + 2_000)
            commands = [
                ("ZADD", keys[0], *[word for number in numbers for word in (number, f"member:{number:07}")]),
                ("RPUSH", keys[1], *[f"element:{number:08}" for number in numbers]),
            ]
            commands += [("XADD", keys[2], f"{number + 1}-1", "f", f"entry:{number:08}") for number in numbers]
            connection.pipeline(commands, batch=3_000)
        asked = [
            ("ZRANGEBYSCORE", keys[0], 1_000, 1_005), ("ZRANGEBYSCORE", keys[0], 1_000, 3_000, "WITHSCORES"),
            ("ZREVRANGEBYSCORE", keys[0], 599_999, 598_000), ("ZRANGE", keys[0], 0, 300),
            ("ZRANGE", keys[0], -3_000, -1), ("ZREVRANGE", keys[0], 5_000, 9_000),
            ("LRANGE", keys[1], 1_000, 1_300), ("LRANGE", keys[1], 300_000, 305_000),
            ("LRANGE", keys[1], 599_000, -1), ("XRANGE", keys[2], 1_000, 1_300), ("XRANGE", keys[2], 1_000, 5_000),
            ("XREVRANGE", keys[2], "+", 597_000),
        ]  # fmt: skip
        expected = [connection(*words).raw for words in asked]
        connection.call("CONFIG", "SET", "tier-pressure", "yes")
        wait_for_disk(connection, keys)
        connection.call("CONFIG", "SET", "tier-pressure", "no")
        reads = int(figure(connection, "tier_reads"))
        for words, reply in zip(asked, expected):
            assert connection(*words).raw == reply, words
        assert int(figure(connection, "tier_reads")) == reads
        assert all(location(connection, key) == "disk" for key in keys)


def test_a_huge_value_of_which_much_is_asked_comes_to_memory(tiered):
    server = tiered(**{"maxmemory": "1gb", "tier-pressure": "no"})
    with server.connect() as connection:
        fill_huge(connection)
        connection.call("CONFIG", "SET", "tier-pressure", "yes")
        wait_for_disk(connection, KEYS)
        connection.call("CONFIG", "SET", "tier-pressure", "no")
        text = TEXT[17 * 16 : 17 * 16 + 600]
        reads = 0
        while location(connection, "huge:hash") == "disk":
            assert connection.pipeline([("HGET", "huge:hash", 17)] * 20)[-1].plain() == text
            reads += 20
            assert reads < 2_000
        assert reads > 60, "less than the whole has been read"
        # Transactions and scripts have whole values.
        for words in (("MULTI",), ("HGET", "huge:hash", 17), ("LINDEX", "huge:list", 17)):
            connection.call(*words)
        assert connection.call("EXEC") == [text, text]
        assert location(connection, "huge:list") == "both"
        script = "return redis.call('SISMEMBER', KEYS[1], ARGV[1])"
        assert connection.call("EVAL", script, 1, "huge:set", TEXT[160:560]) == 1


def test_huge_values_beyond_memory(tiered, start_server):
    """Other keys stay served meanwhile; dumps and replicas have everything."""
    server = tiered()
    link = {"replicaof": f"127.0.0.1 {server.port}"}
    is_over = threading.Event()
    counted, refused = [], []

    def count():
        with server.connect() as other:
            while not is_over.is_set():
                reply = other("INCR", "counter")
                (refused if reply.is_error else counted).append(reply.plain())

    counter = threading.Thread(target=count)
    with server.connect() as connection:
        counter.start()
        fill_huge(connection)
        for key in KEYS[1:]:
            connection.call("COPY", key, f"{key}:again")
        eventually(lambda: used(connection) < LIMIT_BYTES * 1.2, lambda: f"{used(connection)} bytes")
        assert int(figure(connection, "evicted_keys")) == 0
        for number in range(0, 40_000, 4_000):
            text = TEXT[number * 16 : number * 16 + 600]
            assert connection.call("HGET", "huge:hash", number) == text
            assert connection.call("LINDEX", "huge:list:again", number) == text
        is_over.set()
        counter.join()
        assert not refused
        assert counted == list(range(1, len(counted) + 1))
        digest = connection.call("DEBUG", "DIGEST")
        replica = start_server(options=link, workers=2)
        with replica.connect() as other:
            eventually(lambda: figure(other, "master_link_status") == "up", "the replica does not come")
            eventually(lambda: other.call("DEBUG", "DIGEST") == digest, "the replica has other data")
        assert connection.call("BGSAVE") == b"Background saving started"
        assert until_written(connection)["rdb_last_bgsave_status"] == "ok"
    server.restart(crash=True)
    with server.connect() as connection:
        until_loaded(connection)
        assert used(connection) < LIMIT_BYTES * 1.2
        assert connection.call("DEBUG", "DIGEST") == digest


def test_what_has_no_room_stays(tiered):
    server = tiered(**{"tier-pressure": "yes", "maxmemory": "512mb", "tier-max-size": str(32 << 20)})
    with server.connect() as connection:
        connection.call("SET", "huge:text", TEXT)
        connection.call("RPUSH", "list", *[TEXT[:600]] * 1_000)
        wait_for_disk(connection, ["list"])
        assert location(connection, "huge:text") == "memory"
        assert int(figure(connection, "tier_write_errors")) == 0
        assert connection.call("CONFIG", "SET", "tier-max-size", str(256 << 20)) == b"OK"
        wait_for_disk(connection, ["huge:text"])
        assert connection.call("GETRANGE", "huge:text", -16, -1) == TEXT[-16:]


def test_what_has_been_written_waits_for_its_shard(tiered):
    """Whether the script holds it before, while or after the value is written: it is written once."""
    server = tiered(**{"maxmemory": "1gb", "tier-pressure": "no"})
    with server.connect() as connection:
        for _ in range(60):
            connection.call("RPUSH", "huge:list", *[TEXT[:600]] * 1_000)
        connection.call("CONFIG", "SET", "tier-pressure", "yes")
        connection.call("PING")
        connection.call("EVAL", "for number = 1, 30000000 do end", 1, "huge:list")
        wait_for_disk(connection, ["huge:list"])
        assert int(figure(connection, "tier_written_values")) == 1
        assert connection.call("LLEN", "huge:list") == 60_000


def test_small_values_go_though_a_huge_one_can_not(tiered):
    """One of more than a quarter of memory, and one for which the file has no room."""
    options = {"maxmemory": "160mb", "tier-max-size": str(48 << 20), "maxmemory-policy": "allkeys-lru"}
    server = tiered(**options)
    with server.connect() as connection:
        for start in range(0, 75_000, 1_000):
            texts = [TEXT[number * 16 : number * 16 + 600] for number in range(start, start + 1_000)]
            connection.call("RPUSH", "huge:list", *texts)
        connection.call("SET", "huge:text", TEXT[: 38 << 20])
        small = [(f"small:{number}", TEXT[number * 16 : number * 16 + 4_000]) for number in range(24_000)]
        for start in range(0, len(small), 500):
            connection.pipeline([("SET", *pair) for pair in small[start : start + 500]])
        assert int(figure(connection, "tier_values")) > 1_000
        assert int(figure(connection, "evicted_keys")) == 0
        assert location(connection, "huge:list") == "memory"
        assert connection.call("DBSIZE") == len(small) + 2
        assert connection.call("GET", "small:17") == small[17][1]


def test_more_than_a_quarter_of_memory_stays(tiered):
    server = tiered(**{"tier-pressure": "yes", "maxmemory": "96mb"})
    with server.connect() as connection:
        for name, count in (("more", 50_000), ("less", 30_000)):
            for _ in range(count // 1_000):
                connection.call("RPUSH", name, *[TEXT[:600]] * 1_000)
        wait_for_disk(connection, ["less"])
        assert location(connection, "more") == "memory"
        assert connection.call("CONFIG", "SET", "maxmemory", "192mb") == b"OK"
        wait_for_disk(connection, ["more"])
