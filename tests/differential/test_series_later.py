"""What time series have from Redis 8.4 to 8.10, which the module here has not yet: several aggregators and series side
by side are compared with what it says to one at a time, the rest with what Redis's documentation says."""

import math

import pytest

from differential.test_modules import OPTIONS
from support.memory import used
from support.modules import need_modules
from support.seeds import generator
from support.servers import Server
from support.waiting import eventually

AGGREGATIONS = "min max sum avg count first last range std.p std.s var.p var.s twa".split()
MISCOUNTED = "ERR TSDB: the number of aggregators must be equal to numkeys"
TIME_SHAPES = [("-", "+"), (105, 350), (0, 90)]


@pytest.fixture(scope="module")
def connections():
    need_modules("series")
    with Server("oracle", OPTIONS, modules=True) as oracle:
        with Server("subject", OPTIONS, workers=2, modules=True) as subject:
            yield oracle.connect(3), subject.connect(3)


@pytest.fixture(scope="module")
def server():
    with Server("subject", OPTIONS, workers=2) as subject:
        yield subject


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(request, server):
    with server.connect(request.param) as connection:
        connection.call("FLUSHALL")
        yield connection


def add(connection, key, samples):
    for time, value in samples:
        assert connection.call("TS.ADD", key, time, value) == time


def rows(reply):
    """Rows of a reply as times and lists of floats."""
    return [(row[0], *(float(value) for value in row[1:])) for row in reply]


def same(one, other):
    if len(one) != len(other) or any(len(a) != len(b) for a, b in zip(one, other)):
        return False
    pairs = [pair for a, b in zip(one, other) for pair in zip(a, b)]
    return all(math.isnan(x) == math.isnan(y) and (math.isnan(x) or close(x, y)) for x, y in pairs)


def close(x, y):
    return math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9)


def joined(columns, is_reversed=False):
    """Rows of several series put side by side by their times: [(rows, width)]."""
    tables = [({row[0]: row[1:] for row in rows}, width) for rows, width in columns]
    times = sorted({time for table, _ in tables for time in table}, reverse=is_reversed)
    return [(time, *(v for table, width in tables for v in table.get(time, (math.nan,) * width))) for time in times]


def fill(connections, chance, keys):
    for connection in connections:
        connection.call("FLUSHALL")
    for key in keys:
        time = chance.randrange(200)
        for connection in connections:
            connection.call("TS.CREATE", key)
        for _ in range(chance.randrange(60)):
            time += chance.choice([1, 2, 5, 30, 100])
            value = chance.choice([1, 2.5, -3, 100])
            for connection in connections:
                add(connection, key, [(time, value)])


@pytest.mark.parametrize("is_reversed", [False, True], ids=["forward", "reversed"])
def test_several_aggregators_are_one_after_the_other(connections, is_reversed):
    oracle, subject = connections
    command = "TS.REVRANGE" if is_reversed else "TS.RANGE"
    for number in range(30):
        chance = generator("aggregators", is_reversed, number)
        fill(connections, chance, ["s"])
        names = [chance.choice(AGGREGATIONS[:-1]) for _ in range(chance.randrange(1, 6))]
        bounds, length = chance.choice(TIME_SHAPES), chance.choice([1, 7, 50, 1000])
        # The module has other buckets of variances where empty ones come in reverse.
        more = chance.choice([[], ["BUCKETTIMESTAMP", "mid"], ["COUNT", 3] if is_reversed else ["EMPTY"]])
        one_by_one = [rows(oracle.call(command, "s", *bounds, "AGGREGATION", name, length, *more)) for name in names]
        expected = [(parts[0][0], *(part[1] for part in parts)) for parts in zip(*one_by_one)]
        found = rows(subject.call(command, "s", *bounds, "AGGREGATION", ",".join(names), length, *more))
        assert same(found, expected), (names, bounds, length, more)


def test_averages_over_time_stand_beside_others(client):
    add(client, "s", [(10, 1), (20, 3), (45, 5)])
    single = rows(client.call("TS.RANGE", "s", 12, 40, "AGGREGATION", "twa", 10, "EMPTY"))
    found = rows(client.call("TS.RANGE", "s", 12, 40, "AGGREGATION", "count,twa,sum", 10, "EMPTY"))
    assert [(row[0], row[2]) for row in found] == single
    assert [(row[1], row[3]) for row in found] == [(0, 0), (1, 3), (0, 0), (0, 0)]
    back = rows(client.call("TS.REVRANGE", "s", "-", "+", "AGGREGATION", "twa,max", 10))
    assert [row[0] for row in back] == [40, 20, 10] and [row[2] for row in back] == [5, 3, 1]


@pytest.mark.parametrize("names", ["twa", "twa,avg", "avg", "last,twa,countall"])
@pytest.mark.parametrize("command", ["TS.RANGE", "TS.REVRANGE", "TS.MRANGE", "TS.MREVRANGE", "TS.NREVRANGE"])
def test_no_more_empty_buckets_are_made_than_are_wanted(server, command, names):
    year = 365 * 86_400_000
    with server.connect(3) as client:
        client.call("FLUSHALL")
        client.call("TS.CREATE", "s", "LABELS", "l", "v")
        for time, value in ((5, 1), (year, 2), (20 * year, 3)):
            client.call("TS.ADD", "s", time, value)
        first = {"TS.MRANGE": (), "TS.MREVRANGE": (), "TS.NREVRANGE": (1, "s")}.get(command, ("s",))
        after = ("FILTER", "l=v") if "M" in command.removeprefix("TS.") else ()
        words = (command, *first, "-", "+", "COUNT", 2, "AGGREGATION", names, 1, "EMPTY", *after)
        before = used(client)
        reply = client(*words)
        assert not reply.is_error, reply.text()
        assert used(client) - before < 10_000_000
        assert (b"%d" % (20 * year) if "REV" in command else b"5") in reply.raw


@pytest.mark.parametrize("is_reversed", [False, True], ids=["forward", "reversed"])
def test_averages_over_time_are_the_same_in_reverse(client, is_reversed):
    chance = generator("reverse", is_reversed)
    for _ in range(40):
        client.call("DEL", "s")
        add(client, "s", [(time, chance.randrange(-20, 20)) for time in sorted(chance.sample(range(200), 20))])
        bounds = chance.choice(TIME_SHAPES)
        more = (*chance.choice([(), ("EMPTY",)]), *(("ALIGN", 3) if is_reversed else ()))
        words = ("s", *bounds, "AGGREGATION", chance.choice(["twa", "twa,avg"]), chance.choice([1, 7, 50]), *more)
        assert client.call("TS.RANGE", *words) == client.call("TS.REVRANGE", *words)[::-1]


@pytest.mark.parametrize("is_reversed", [False, True], ids=["forward", "reversed"])
def test_series_stand_side_by_side(connections, is_reversed):
    oracle, subject = connections
    command = "REVRANGE" if is_reversed else "RANGE"
    for number in range(30):
        chance = generator("nrange", is_reversed, number)
        keys = ["a", "b", "c d"]
        fill(connections, chance, keys)
        keys = [chance.choice(keys) for _ in range(chance.randrange(1, 5))]
        bounds = chance.choice(TIME_SHAPES)
        more = chance.choice([[], ["FILTER_BY_VALUE", 0, 50], ["LATEST"]])
        columns = [(rows(oracle.call(f"TS.{command}", key, *bounds, *more)), 1) for key in keys]
        reply = subject.call(f"TS.N{command}", len(keys), *keys, *bounds, *more)
        found = [(row[0], *map(float, row[1])) for row in reply]
        assert same(found, joined(columns, is_reversed)), (keys, bounds, more)
        names = [chance.choice(AGGREGATIONS) for _ in keys]
        length = chance.choice([10, 100])
        columns = [
            (rows(oracle.call(f"TS.{command}", key, *bounds, "AGGREGATION", name, length)), 1)
            for key, name in zip(keys, names)
        ]
        words = [len(keys), *keys, *bounds, "COUNT", 5, "AGGREGATION", *names, length]
        reply = subject.call(f"TS.N{command}", *words)
        assert same([(row[0], *map(float, row[1])) for row in reply], joined(columns, is_reversed)[:5]), words


def test_lists_of_aggregators_side_by_side(client):
    add(client, "a", [(1000, 10), (1100, 20), (2000, 30)])
    add(client, "b", [(1000, 5), (1100, 15), (3000, 25)])
    reply = client.call("TS.NRANGE", 2, "a", "b", "-", "+", "AGGREGATION", "avg,max", "sum", 1000)
    reply = [(row[0], *map(float, row[1])) for row in reply]
    assert same(reply, [(1000, 15, 20, 20), (2000, 30, 30, math.nan), (3000, math.nan, math.nan, 25)])
    client.call("RENAME", "b", "count")
    reply = client.call("TS.NRANGE", 2, "a", "count", "-", "+", "AGGREGATION", "count", "count", 1000, "EMPTY")
    reply = [(row[0], *map(float, row[1])) for row in reply]
    assert same(reply, [(1000, 2, 2), (2000, 1, 0), (3000, math.nan, 1)])


@pytest.mark.parametrize(
    "words, error",
    [
        ((0, "a", "-", "+"), "ERR TSDB: numkeys must be a positive integer"),
        (("x", "a", "-", "+"), "ERR TSDB: numkeys must be a positive integer"),
        ((3, "a", "-", "+"), "ERR wrong number of arguments for 'ts.nrange' command"),
        ((2**62, "a", "-", "+"), "ERR wrong number of arguments for 'ts.nrange' command"),
        ((1, "nokey", "-", "+"), "ERR TSDB: the key does not exist"),
        ((1, "string", "-", "+"), "ERR WRONGTYPE Operation against a key holding the wrong kind of value"),
        ((1, "a", "x", "+"), "ERR TSDB: wrong fromTimestamp"),
        ((2, "a", "a", "-", "+", "AGGREGATION", "avg", 10), "ERR TSDB: Couldn't parse AGGREGATION"),
        ((2, "a", "a", "-", "+", "AGGREGATION", "avg", 10, "EMPTY"), MISCOUNTED),
        ((2, "a", "a", "-", "+", "AGGREGATION", "avg", "min", "max", 10), MISCOUNTED),
        ((2, "a", "a", "-", "+", "AGGREGATION", "avg", "foo", 10), "ERR TSDB: Unknown aggregation type"),
        ((1, "a", "-", "+", "AGGREGATION", "avg,", 10), "ERR TSDB: Unknown aggregation type"),
        ((1, "a", "-", "+", "AGGREGATION", ",".join(["avg"] * 65), 10), "ERR TSDB: Unknown aggregation type"),
        ((1, "a", "-", "+", "AGGREGATION", "avg", 0), "ERR TSDB: bucketDuration must be greater than zero"),
    ],
)
def test_errors_of_nrange(client, words, error):
    add(client, "a", [(1, 1)])
    client.call("SET", "string", "x")
    reply = client("TS.NRANGE", *words)
    assert reply.is_error and reply.text() == error


def test_values_that_are_not_numbers(client):
    add(client, "s", [(1, 5), (2, "nan"), (3, "NaN"), (11, "NAN"), (21, 7)])
    assert same(rows(client.call("TS.RANGE", "s", 1, 3)), [(1, 5), (2, math.nan), (3, math.nan)])
    expected = {
        "avg": (5, math.nan, 7), "sum": (5, math.nan, 7), "min": (5, math.nan, 7), "max": (5, math.nan, 7),
        "first": (5, math.nan, 7), "last": (5, math.nan, 7), "range": (0, math.nan, 0), "std.p": (0, math.nan, 0),
        "count": (1, 0, 1), "countNaN": (2, 1, 0), "countAll": (3, 1, 1),
    }
    for name, values in expected.items():
        found = rows(client.call("TS.RANGE", "s", "-", "+", "AGGREGATION", name, 10))
        assert same(found, list(zip((0, 10, 20), values))), name
    assert [row[0] for row in rows(client.call("TS.RANGE", "s", "-", "+", "FILTER_BY_VALUE", 0, 9))] == [1, 21]
    assert client("TS.RANGE", "s", "-", "+", "FILTER_BY_VALUE", "nan", 9).is_error
    for policy in ("min", "max", "sum"):
        assert client("TS.ADD", "s", 1, "nan", "ON_DUPLICATE", policy).is_error
        assert client("TS.ADD", "s", 2, 1, "ON_DUPLICATE", policy).is_error
        assert client.call("TS.ADD", "s", 2, "nan", "ON_DUPLICATE", policy) == 2
    assert client.call("TS.ADD", "s", 2, 1, "ON_DUPLICATE", "last") == 2
    assert client("TS.INCRBY", "s", "nan").is_error
    client.call("TS.ADD", "s", 30, "nan")
    assert client("TS.INCRBY", "s", 1, "TIMESTAMP", 31).text() == "ERR TSDB: the latest value is NaN"
    payload = client.call("DUMP", "s")
    client.call("RESTORE", "copy", 0, payload)
    assert same(rows(client.call("TS.RANGE", "copy", "-", "+")), rows(client.call("TS.RANGE", "s", "-", "+")))


def test_many_that_are_not_numbers_are_passed_over_in_chunks(client):
    client.call("TS.CREATE", "s", "CHUNK_SIZE", 128)
    for start in range(0, 3000, 100):
        values = [(time, "nan" if time % 7 == 3 else time) for time in range(start, start + 100)]
        words = [word for time, value in values for word in ("s", time, value)]
        client.call("TS.MADD", *words)
    numbers = [time for time in range(3000) if time % 7 != 3]
    names = "sum,count,countnan,countall,min,max,first"
    found = rows(client.call("TS.RANGE", "s", "-", "+", "AGGREGATION", names, 10_000))
    assert found == [(0, sum(numbers), len(numbers), 3000 - len(numbers), 3000, 0, max(numbers), 0)]


def test_rules_pass_over_what_is_not_a_number(client):
    client.call("TS.CREATE", "s")
    names = [*AGGREGATIONS, "countnan", "countall"]
    for name in names:
        client.call("TS.CREATE", f"by-{name}")
        client.call("TS.CREATERULE", "s", f"by-{name}", "AGGREGATION", name, 10)
    add(client, "s", [(1, 2), (2, "nan"), (5, 4), (12, "nan"), (21, 1), (35, 1)])
    for name in names:
        kept = rows(client.call("TS.RANGE", f"by-{name}", "-", "+"))
        if name != "twa":
            assert same(kept, rows(client.call("TS.RANGE", "s", 0, 29, "AGGREGATION", name, 10))), name
        assert [row[0] for row in kept] == [0, 10, 20]
    before = {name: rows(client.call("TS.RANGE", f"by-{name}", "-", "+", "LATEST")) for name in names}
    client.call("DEBUG", "RELOAD")
    assert all(same(rows(client.call("TS.RANGE", f"by-{name}", "-", "+", "LATEST")), before[name]) for name in names)


def test_series_without_samples_are_left_out(client):
    for key, label, time in (("a", "x", 1), ("b", "x", 100), ("c", "y", 100)):
        client.call("TS.CREATE", key, "LABELS", "l", label, "all", 1)
        add(client, key, [(time, 1)])

    def by_key(reply):
        """Elements by their keys, of a map or of a list."""
        is_map = reply and isinstance(reply[0], bytes)
        return dict(zip(reply[::2], reply[1::2])) if is_map else {key: rest for key, *rest in reply}

    def names(reply):
        return sorted(by_key(reply))

    for command in ("TS.MRANGE", "TS.MREVRANGE"):
        assert names(client.call(command, 0, 10, "FILTER", "all=1")) == [b"a", b"b", b"c"]
        assert names(client.call(command, 0, 10, "FILTER", "all=1", "EXCLUDEEMPTY")) == [b"a"]
        groups = ["FILTER", "all=1", "GROUPBY", "l", "REDUCE", "sum"]
        assert names(client.call(command, 0, 10, *groups)) == [b"l=x", b"l=y"]
        assert names(client.call(command, 0, 10, *groups, "EXCLUDEEMPTY")) == [b"l=x"]
        several = client.call(command, "-", "+", "AGGREGATION", "min,max", 10, "FILTER", "l=y")
        assert rows(by_key(several)[b"c"][-1]) == [(100, 1, 1)]
    grouped = client("TS.MRANGE", "-", "+", "AGGREGATION", "min,max", 10, *groups)
    assert grouped.is_error


def test_labels_are_listed(client):
    for key, labels in (("a", ("room", "study", "type", "heat")), ("b", ("room", "hall", "floor", 2)), ("c", ())):
        client.call("TS.CREATE", key, "LABELS", *labels)
    ask = lambda *words: sorted(client.call("TS.QUERYLABELS", *words))
    assert ask("LABELS") == [b"floor", b"room", b"type"]
    assert ask("labels", "FILTER", "room=hall") == [b"floor", b"room"]
    assert ask("VALUES", "room") == [b"hall", b"study"] and ask("VALUES", "nothing") == []
    assert ask("VALUES", "room", "filter", "room!=hall", "room=(hall,study)") == [b"study"]
    client.call("DEL", "b")
    assert ask("LABELS") == [b"room", b"type"]
    for words in (("FOO",), ("VALUES",), ("LABELS", "x"), ("LABELS", "FILTER"), ("LABELS", "FILTER", "room!=x")):
        assert client("TS.QUERYLABELS", *words).is_error


def test_labels_of_series_that_may_not_be_read(server, client):
    client.call("TS.CREATE", "open:a", "LABELS", "x", 1)
    client.call("TS.CREATE", "secret:b", "LABELS", "x", 2)
    client.call("ACL", "SETUSER", "eve", "on", ">pw", "+@all", "~open:*")
    with server.connect() as other:
        other.call("AUTH", "eve", "pw")
        assert other.call("TS.QUERYLABELS", "VALUES", "x", "FILTER", "x=1") == [b"1"]
        assert other("TS.QUERYLABELS", "LABELS").text().startswith("NOPERM")


def test_reading_from_a_time_on(client):
    add(client, "s", [(100, 1), (200, 2), (300, 3)])
    read = lambda *words: rows(client.call("TS.READ", *words))
    assert read("s", "-") == read("s", 0) == [(100, 1), (200, 2), (300, 3)]
    assert read("s", "-", "MAX_COUNT", 2) == [(100, 1), (200, 2)]
    assert read("s", 201, "max_count", 2) == read("s", "+") == [(300, 3)]
    assert read("s", "$") == read("nokey", "-") == []
    assert read("s", 101, "BLOCK", 0, 2) == read("s", 101, "MAX_COUNT", 5, "BLOCK", 0, 2) == [(200, 2), (300, 3)]
    assert read("s", 101, "BLOCK", 10, 10) == [(200, 2), (300, 3)]
    assert read("s", 301, "BLOCK", 10, 1) == read("nokey", "$", "BLOCK", 10, 1) == []
    client.call("SET", "string", 1)
    for words in (
        ("s", "x"), ("s", -1), ("s", 1, "BLOCK", 1), ("s", 1, "BLOCK", -1, 1), ("s", 1, "BLOCK", 1, 0),
        ("s", 1, "MAX_COUNT", 0), ("s", 1, "MAX_COUNT"), ("s", 1, "foo"), ("string", 1),
        ("s", 1, "BLOCK", 1, 3, "MAX_COUNT", 2), ("s", 1, "BLOCK", 1, 1, "BLOCK", 1, 1),
    ):
        assert client("TS.READ", *words).is_error, words
    client.call("MULTI")
    client.call("TS.READ", "s", "+")
    client("TS.READ", "s", "+", "BLOCK", 0, 1)
    replies = client("EXEC").value
    assert not replies[0].is_error and replies[1].is_error


def blocked(client):
    return int(client("INFO", "clients").text().split("blocked_clients:")[1].split()[0])


@pytest.mark.parametrize(
    "write, expected",
    [
        ([("TS.ADD", "s", 400, 4)], [(400, 4)]),
        ([("TS.MADD", "s", 400, 4, "s", 401, 5)], [(400, 4), (401, 5)]),
        ([("TS.INCRBY", "s", 1, "TIMESTAMP", 500)], [(500, 4)]),
        ([("DEL", "s")], []),
        ([("FLUSHALL",)], []),
        ([("RENAME", "s", "t")], []),
    ],
)
def test_waiting_for_new_samples(server, client, write, expected):
    add(client, "s", [(100, 1), (300, 3)])
    with server.connect() as other, server.connect() as third:
        other.send("TS.READ", "s", "$", "BLOCK", 0, len(expected) or 1)
        third.send("TS.READ", "s", "+", "BLOCK", 0, 9)
        eventually(lambda: blocked(client) == 2, "clients wait")
        client.call("TS.ADD", "s", 50, 7)
        for words in write:
            client.call(*words)
        assert rows(other.read().plain()) == expected
        if expected:
            eventually(lambda: blocked(client) == 1, "clients wait")
            words = [word for time in range(600, 609) for word in ("s", time, 1)]
            client.call("TS.MADD", *words)
        third.read()


def test_waiting_for_what_a_rule_leads_to(server, client):
    client.call("TS.CREATE", "s")
    client.call("TS.CREATE", "d")
    client.call("TS.CREATERULE", "s", "d", "AGGREGATION", "sum", 10)
    with server.connect() as other:
        other.send("TS.READ", "d", "-", "BLOCK", 0, 1)
        eventually(lambda: blocked(client) == 1, "clients wait")
        add(client, "s", [(1, 2), (5, 3), (12, 1)])
        assert rows(other.read().plain()) == [(0, 5)]
