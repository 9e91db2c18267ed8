"""Values on disk that indexes, clocks or other values refer to: beside a server that has all in memory, commands at
random see no difference, on hashes with fields that expire, series, t-digests and vector sets."""

import math
import time

import pytest

from support.memory import figure, used
from support.seeds import generator
from support.servers import subject_is_oracle
from support.waiting import eventually

from .test_large import wait_for_disk
from .test_tier import comes_down, location

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no values on disk")
LIMIT_BYTES = 24 << 20
# Times when fields expire, after any run of this test.
LATER_MS = 4_000_000_000_000
STEPS = 4_000
# A smaller value may stay in memory, because the times or labels that are kept of it take as much.
SMALL_BYTES = 400


@pytest.fixture
def both(tiered, start_server):
    """Connections to a server that moves all it can to disk, and to one that keeps all in memory."""
    servers = [tiered(**{"tier-pressure": "yes", "maxmemory": "1gb"}), start_server(options={"save": ""}, workers=2)]
    connections = [server.connect(timeout=120) for server in servers]
    yield connections
    for connection in connections:
        connection.close()


def compare(both, commands, ask):
    """Runs commands on both servers, and what `ask` says on each of the keys in the end."""
    for start in range(0, len(commands), 20):
        part = commands[start : start + 20]
        replies = [[reply.raw for reply in connection.pipeline(part)] for connection in both]
        for command, on_disk, in_memory in zip(part, *replies):
            assert on_disk == in_memory, command
    keys = sorted(both[0].call("KEYS", "*"))
    assert keys == sorted(both[1].call("KEYS", "*"))
    for _ in range(2):
        wait_for_disk(both[0], [key for key in keys if int(both[0].call("MEMORY", "USAGE", key)) > SMALL_BYTES])
        asked = [(*words[:1], key, *words[1:]) for key in keys for words in ask]
        replies = [[reply.raw for reply in connection.pipeline(asked)] for connection in both]
        for command, on_disk, in_memory in zip(asked, *replies):
            assert on_disk == in_memory, command
    dumped = [[connection.call("DUMP", key) for key in keys] for connection in both]
    assert dumped[0] == dumped[1]
    assert int(figure(both[0], "tier_reads")) > 100
    assert int(figure(both[0], "tier_read_errors")) == 0


def test_hashes_with_fields_that_expire(both):
    random = generator("hash")
    commands = [("CONFIG", "SET", "hash-max-listpack-entries", "40")]
    for _ in range(STEPS):
        key, fields = f"hash:{random.randrange(12)}", [f"field:{random.randrange(60)}" for _ in range(3)]
        # Few times, so that fields share one.
        when = str(LATER_MS + random.randrange(4) * 1_000)
        named = ("FIELDS", 3, *fields)
        commands.append(
            random.choice(
                [
                    ("HSET", key, fields[0], random.randrange(1_000), fields[1], "x" * random.randrange(70)),
                    ("HPEXPIREAT", key, when, *named),
                    ("HPEXPIREAT", key, when, "GT", *named),
                    ("HSETEX", key, "PXAT", when, "FIELDS", 1, fields[0], "value"),
                    ("HPERSIST", key, *named),
                    ("HGETEX", key, "PERSIST", *named),
                    ("HPEXPIRETIME", key, *named),
                    ("HDEL", key, *fields),
                    ("HPEXPIREAT", key, "1", "FIELDS", 1, fields[0]),
                    ("HLEN", key),
                    ("HINCRBY", key, fields[2], 3),
                    ("OBJECT", "ENCODING", key),
                    ("EXISTS", key),
                    ("RENAME", key, f"hash:{random.randrange(12)}"),
                    ("COPY", key, f"hash:{random.randrange(12)}", "REPLACE"),
                    ("DEL", key) if random.random() < 0.1 else ("HGET", key, fields[1]),
                ]
            )
        )
    compare(both, commands, [("HLEN",), ("TYPE",)])
    for connection in both:
        assert "subexpiry=" in figure(connection, "db0")
    assert figure(both[0], "db0").split(",")[-1] == figure(both[1], "db0").split(",")[-1]
    for key in sorted(both[0].call("KEYS", "*")):
        packed = both[0].call("OBJECT", "ENCODING", key) != b"hashtable"
        values = [connection.call("HGETALL", key) for connection in both]
        assert values[0] == values[1] if packed else sorted(values[0]) == sorted(values[1])
    assert both[0].call("DEBUG", "DIGEST") == both[1].call("DEBUG", "DIGEST")


def test_t_digests(both):
    random = generator("digest")
    commands = [("TDIGEST.CREATE", f"digest:{number}", "COMPRESSION", 20 + number * 30) for number in range(6)]
    for _ in range(STEPS):
        key = f"digest:{random.randrange(6)}"
        numbers = [f"{random.gauss(0, 10):.4f}" for _ in range(random.randrange(1, 30))]
        commands.append(
            random.choice(
                [
                    ("TDIGEST.ADD", key, *numbers),
                    ("TDIGEST.ADD", key, *numbers),
                    ("TDIGEST.QUANTILE", key, "0", "0.1", "0.5", "0.99", "1"),
                    ("TDIGEST.CDF", key, *numbers[:3]),
                    ("TDIGEST.RANK", key, *numbers[:3]),
                    ("TDIGEST.INFO", key),
                    ("TDIGEST.MIN", key),
                    ("TDIGEST.MERGE", key, 1, f"digest:{random.randrange(6)}"),
                    ("TDIGEST.RESET", key) if random.random() < 0.1 else ("TDIGEST.MAX", key),
                    ("RENAME", key, key),
                ]
            )
        )
    compare(both, commands, [("TDIGEST.INFO",), ("TDIGEST.BYRANK", "0", "5", "50")])


def test_vector_sets(both):
    random = generator("vectors")

    def vector():
        return ("VALUES", 5, *[f"{random.gauss(0, 1):.3f}" for _ in range(5)])

    # Elements with the same vector: which one is nearer is a matter of their numbers.
    same = [vector() for _ in range(6)]
    commands = []
    for _ in range(STEPS // 2):
        number = random.randrange(5)
        key, element = f"set:{number}", f"element:{random.randrange(80)}"
        options = ("NOQUANT", "Q8", "BIN", "Q8", "NOQUANT")[number], "EF", 20, "M", 4
        reduced = ("REDUCE", 3) if number == 3 else ()
        values = random.choice(same) if random.random() < 0.3 else vector()
        commands.append(
            random.choice(
                [
                    ("VADD", key, *reduced, *values, element, *options),
                    ("VADD", key, *reduced, *values, element, *options),
                    ("VADD", key, *reduced, *values, element, *options, "SETATTR", '{"n":%d}' % random.randrange(9)),
                    ("VREM", key, element),
                    ("VSETATTR", key, element, '{"n":3}'),
                    ("VSIM", key, "ELE", element, "COUNT", 8, "EF", 10, "WITHSCORES"),
                    ("VSIM", key, *values, "COUNT", 8, "EF", 10, "WITHSCORES"),
                    ("VSIM", key, *values, "COUNT", 4, "FILTER", ".n > 2"),
                    ("VLINKS", key, element, "WITHSCORES"),
                    ("VEMB", key, element),
                    ("VCARD", key),
                    ("VGETATTR", key, element),
                    ("VINFO", key),
                ]
            )
        )
    ask = [("VSIM", *values, "COUNT", 30, "WITHSCORES") for values in same] + [("VINFO",), ("VCARD",)]
    compare(both, commands, ask)
    keys = sorted(both[0].call("KEYS", "*"))
    assert both[0].call("DEBUG", "DIGEST-VALUE", *keys) == both[1].call("DEBUG", "DIGEST-VALUE", *keys)


def series_command(random):
    number = random.randrange(20)
    key, other = f"series:{number}", f"series:{random.randrange(20)}"
    start = random.randrange(0, 20_000)
    latest = random.choice([(), ("LATEST",)])
    matching = ("FILTER", random.choice(["kind=1", "kind=(1,2)", "place=x", "kind=2 place!=x", "kind!= place=y"]))
    matching = (matching[0], *matching[1].split(" "))
    labels = ("LABELS", "kind", number % 3, "place", random.choice("xy"))
    time_ms = random.randrange(30_000)
    return random.choice(
        [
            ("TS.CREATE", key, "CHUNK_SIZE", 64, *labels),
            ("TS.CREATE", key, "RETENTION", 8_000, "UNCOMPRESSED", *labels),
            ("TS.ADD", key, time_ms, f"{random.gauss(10, 3):.2f}", "ON_DUPLICATE", "LAST"),
            ("TS.ADD", key, time_ms, "nan", "ON_DUPLICATE", "LAST"),
            ("TS.MADD", *[word for at in range(12) for word in (key, time_ms + at * 70, at)], other, time_ms, 7),
            ("TS.MADD", *[word for at in range(12) for word in (key, time_ms + at * 70, at)], other, time_ms, 7),
            ("TS.INCRBY", key, "2.5", "TIMESTAMP", time_ms),
            ("TS.DEL", key, start, start + 700),
            ("TS.ALTER", key, *labels),
            ("TS.CREATERULE", key, other, "AGGREGATION", random.choice(["avg", "sum", "twa", "last"]), 500),
            ("TS.DELETERULE", key, other),
            ("TS.RANGE", key, start, start + 9_000, *latest),
            ("TS.REVRANGE", key, "-", "+", *latest, "AGGREGATION", "max", 1_000),
            ("TS.GET", key, *latest),
            ("TS.MGET", *latest, "WITHLABELS", *matching),
            ("TS.MRANGE", start, start + 5_000, *latest, "WITHLABELS", *matching),
            ("TS.MRANGE", "-", "+", *matching, "GROUPBY", "kind", "REDUCE", "sum"),
            ("TS.QUERYINDEX", *matching[1:]),
            ("TS.QUERYLABELS", "VALUES", "place"),
            ("MANTISSA.TS.ARROW", 1, key, "-", "+", *latest),
            ("RENAME", key, f"series:{random.randrange(20)}") if random.random() < 0.2 else ("EXISTS", key),
            ("COPY", key, other, "REPLACE") if random.random() < 0.2 else ("TYPE", key),
            ("MOVE", key, 1) if random.random() < 0.2 else ("TS.GET", other),
            ("DEL", key) if random.random() < 0.2 else ("TS.GET", key),
        ]
    )


def without_memory(info):
    return [item for name, item in zip(info[::2], info[1::2]) if name != b"memoryUsage"]


def test_series_and_what_they_are_linked_to(both):
    random = generator("series")
    ask = [("TS.GET",), ("TS.RANGE", "-", "+"), ("TS.GET", "LATEST")]
    compare(both, [series_command(random) for _ in range(STEPS)], ask)
    for key in sorted(both[0].call("KEYS", "*")):
        infos = [without_memory(connection.call("TS.INFO", key)) for connection in both]
        assert infos[0] == infos[1]
    queries = [("TS.QUERYINDEX", "kind=(0,1,2)"), ("TS.QUERYLABELS", "LABELS"), ("TS.MGET", "FILTER", "kind=(0,1,2)")]
    for query in queries:
        assert both[0](*query).raw == both[1](*query).raw
    assert both[0].call("SELECT", 1) == both[1].call("SELECT", 1)
    assert both[0]("TS.QUERYINDEX", "kind=(0,1,2)").raw == both[1]("TS.QUERYINDEX", "kind=(0,1,2)").raw


def test_labels_are_told_without_the_samples(tiered):
    server = tiered(**{"tier-pressure": "yes", "maxmemory": "1gb"})
    with server.connect() as connection:
        keys = [f"series:{number}" for number in range(100)]
        for number, key in enumerate(keys):
            words = ["LABELS", "all", "yes", "number", number % 10]
            connection.call("TS.CREATE", key, *words)
            connection.call("TS.MADD", *[word for at in range(50) for word in (key, at, number)])
        wait_for_disk(connection, keys)
        reads = figure(connection, "tier_reads")
        assert len(connection.call("TS.QUERYINDEX", "all=yes", "number!=3")) == 90
        assert len(connection.call("TS.QUERYLABELS", "VALUES", "number")) == 10
        connection.call("RENAME", keys[0], "renamed")
        connection.call("DEL", keys[1])
        connection.call("MOVE", keys[2], 1)
        expected = [b"renamed", *[key.encode() for key in keys[10::10]]]
        assert connection.call("TS.QUERYINDEX", "all=yes", "number=0") == expected
        assert len(connection.call("TS.QUERYINDEX", "all=yes")) == 98
        assert figure(connection, "tier_reads") == reads
        # A few are read as any value is, many for the request alone.
        found = connection.call("TS.MGET", "FILTER", "all=yes", "number=5")
        assert sorted(one[2][1] for one in found) == sorted(str(number).encode() for number in range(5, 100, 10))
        wait_for_disk(connection, keys[3:])
        waited = int(figure(connection, "tier_waited_requests"))
        found = connection.call("TS.MRANGE", "-", "+", "FILTER", "all=yes")
        assert len(found) == 98 and all(len(one[2]) == 50 for one in found)
        assert int(figure(connection, "tier_waited_requests")) > waited
        connection.call("MULTI")
        connection.call("TS.MGET", "FILTER", "all=yes")
        assert len(connection.call("EXEC")[0]) == 98
        script = "return #redis.call('TS.MRANGE', '-', '+', 'FILTER', 'all=yes')"
        assert connection.call("EVAL", script, 0) == 98


def test_queries_of_many_series_take_their_rows_alone(tiered):
    count, samples = 10_000, 450
    server = tiered(**{"tier-pressure": "yes"})
    with server.connect(timeout=300) as connection:
        for first in range(0, count, 200):
            commands = []
            for key in [f"series:{number}" for number in range(first, first + 200)]:
                commands.append(("TS.CREATE", key, "LABELS", "all", "yes", "tenth", first // (count // 10)))
                commands.append(("TS.MADD", *[word for at in range(samples) for word in (key, at * 1_000, at % 7)]))
            assert not any(reply.is_error for reply in connection.pipeline(commands))
        eventually(lambda: int(figure(connection, "tier_values")) > count * 9 // 10, "too few go to disk")
        connection.call("CONFIG", "SET", "tier-pressure", "no")
        ranges = ("TS.MRANGE", "-", "+")
        averages = connection.call(*ranges, "AGGREGATION", "max", 1_000_000, "FILTER", "all=yes")
        assert len(averages) == count and all(one[2] == [[0, b"6"]] for one in averages)
        latest = connection.call("TS.MGET", "FILTER", "all=yes")
        assert len(latest) == count and all(one[2][0] == (samples - 1) * 1_000 for one in latest)
        groups = connection.call(*ranges, "FILTER", "all=yes", "tenth=(1,2)", "GROUPBY", "tenth", "REDUCE", "sum")
        assert [len(group[2]) for group in groups] == [samples] * 2
        assert groups[0][2][6] == [6_000, str(6 * count // 10).encode()]
        # Rows of all samples would take more than a quarter of maxmemory and more than 64 MB.
        for tail in [(), ("GROUPBY", "tenth", "REDUCE", "sum")]:
            reply = connection(*ranges, "FILTER", "all=yes", *tail)
            assert reply.is_error and b"too many samples to be read from disk at once" in reply.raw
        assert int(figure(connection, "evicted_keys")) == 0
        assert int(figure(connection, "mem_not_counted_for_evict")) < 1 << 20


def test_tables_wait_once_for_the_sources_of_all_series(tiered):
    server = tiered(**{"tier-pressure": "yes", "maxmemory": "1gb"})
    with server.connect(timeout=120) as connection:
        destinations = [f"sums:{number}" for number in range(80)]
        for destination in destinations:
            connection.call("TS.CREATE", f"of:{destination}")
            connection.call("TS.CREATE", destination)
            connection.call("TS.CREATERULE", f"of:{destination}", destination, "AGGREGATION", "sum", 100)
            samples = [word for at in range(60) for word in (f"of:{destination}", at * 7, 2)]
            connection.call("TS.MADD", *samples)
        for command in ("MANTISSA.TS.ARROW", "TS.NRANGE"):
            connection.call("CONFIG", "SET", "tier-pressure", "yes")
            wait_for_disk(connection, [f"of:{destination}" for destination in destinations])
            connection.call("CONFIG", "SET", "tier-pressure", "no")
            waited = int(figure(connection, "tier_waited_requests"))
            reply = connection.call(command, 80, *destinations, "-", "+", "LATEST")
            assert int(figure(connection, "tier_waited_requests")) <= waited + 4
        # Samples at 406 and 413 are of the bucket under way.
        assert reply[-1] == [400, [b"4"] * 80]


def test_fields_expire_in_time_on_disk(tiered):
    count = 200
    server = tiered(**{"tier-pressure": "yes", "maxmemory": "1gb", "notify-keyspace-events": "KEA", "hz": "100"})
    with server.connect() as connection, server.connect() as listener:
        connection.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        soon = int(time.time() * 1000) + 2_000
        keys = [f"{kind}:{number}" for kind in ("some", "all") for number in range(count)]
        commands = []
        for key in keys:
            commands.append(("HSET", key, "stays", "x" * 100, "goes", 1, "goes too", 2))
            goes = ["goes", "goes too"] + ["stays"] * key.startswith("all")
            commands.append(("HPEXPIREAT", key, soon, "FIELDS", len(goes), *goes))
        assert not any(reply.is_error for reply in connection.pipeline(commands))
        listener.call("SUBSCRIBE", "__keyevent@0__:hexpired")
        wait_for_disk(connection, keys)
        eventually(lambda: int(time.time() * 1000) > soon, "time passes")
        # Nobody sees what has expired, whether it has been removed or not.
        assert connection.call("EXISTS", *keys) == count
        assert connection.call("HLEN", "some:0") == 1
        assert connection.call("HGETALL", "all:0") == []
        connection.call("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        eventually(lambda: figure(connection, "expired_subkeys") == str(5 * count), "not all fields are removed")
        assert connection.call("DBSIZE") == count
        hashes = {listener.read().plain()[2].decode() for _ in keys}
        assert hashes == set(keys)
        assert "subexpiry=0" in figure(connection, "db0")
        assert connection.call("HGETALL", "some:7") == [b"stays", b"x" * 100]
        wait_for_disk(connection, [key for key in keys if key.startswith("some")])


def fill_all_types(connection, count):
    """Hashes, series with a rule, digests and vector sets, in pipelines."""
    for first in range(0, count, 100):
        commands = []
        for number in range(first, first + 100):
            commands.append(("HSET", f"hash:{number}", "a", "x" * 150, "b", number, "c", "y" * 100))
            commands.append(("HPEXPIREAT", f"hash:{number}", LATER_MS + number, "FIELDS", 2, "a", "b"))
            key = f"series:{number}"
            commands.append(("TS.CREATE", key, "LABELS", "all", "yes", "group", number % 50))
            if number % 10 == 0:
                commands.append(("TS.CREATE", f"sums:{number}", "LABELS", "sums", "yes"))
                commands.append(("TS.CREATERULE", key, f"sums:{number}", "AGGREGATION", "sum", 10))
            samples = [word for at in range(40) for word in (key, at * 3, math.sin(number + at))]
            commands.append(("TS.MADD", *samples))
            if number % 4 == 0:
                commands.append(("TDIGEST.CREATE", f"digest:{number}"))
                commands.append(("TDIGEST.ADD", f"digest:{number}", *[at * number % 97 for at in range(80)]))
                commands.append(("VADD", f"vectors:{number}", "VALUES", 3, 1, number, 3, "one"))
                commands.append(("VADD", f"vectors:{number}", "VALUES", 3, -1, number, 5, "other"))
        assert not any(reply.is_error for reply in connection.pipeline(commands))


def test_files_and_replicas_have_everything(tiered, start_server):
    count = 10_000
    server = tiered(appendonly="yes")
    with server.connect(timeout=300) as connection:
        fill_all_types(connection, count)
        comes_down(connection, 1.2)
        assert int(figure(connection, "evicted_keys")) == 0
        digest = connection.call("DEBUG", "DIGEST")
        groups = connection.call("TS.MRANGE", "-", "+", "FILTER", "all=yes", "group=7")
        sums = connection.call("TS.MRANGE", "-", "+", "LATEST", "FILTER", "sums=yes")
        assert len(groups) == count // 50 and len(sums) == count // 10
        key = "series:0"
        assert connection.call("TS.ADD", key, 1_000, 1) == 1_000
        assert connection.call("TS.RANGE", "sums:0", "-", "+")[-1][0] == 110
        replica = start_server(options={"replicaof": f"127.0.0.1 {server.port}"}, workers=2)
        with replica.connect(timeout=300) as other:
            eventually(lambda: figure(other, "master_link_status") == "up", "the link does not come up")
            connection.call("WAIT", 1, 20_000)
            assert other.call("DEBUG", "DIGEST") == digest
            assert other.call("TS.MRANGE", "-", "+", "FILTER", "all=yes", "group=7") == groups
        connection.call("BGREWRITEAOF")
        eventually(lambda: figure(connection, "aof_rewrite_in_progress") == "0", "the rewrite does not end")
        assert connection.call("DEBUG", "DIGEST") == digest
    server.restart(crash=True)
    with server.connect(timeout=300) as connection:
        eventually(lambda: figure(connection, "loading") == "0", "it does not load")
        assert connection.call("DEBUG", "DIGEST") == digest
        assert connection.call("TS.MRANGE", "-", "+", "FILTER", "all=yes", "group=7") == groups
        assert connection.call("TS.MRANGE", "-", "+", "LATEST", "FILTER", "sums=yes")[1:] == sums[1:]
        comes_down(connection, 1.3)
        assert used(connection) > 0 and location(connection, "hash:1") in ("disk", "both", "memory")
