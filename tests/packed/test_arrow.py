"""MANTISSA.TS.ARROW and MANTISSA.TS.MARROW: tables that pyarrow, pandas and polars read, beside TS.RANGE."""

import math
import random

import pytest
from support.seeds import run_seed

START = 1_700_000_000_000


@pytest.fixture(params=[2, 3])
def client(request, subject):
    return subject.connect(request.param)


def table(client, *words):
    pyarrow = pytest.importorskip("pyarrow")
    found = pyarrow.ipc.open_stream(client.call(*words)).read_all()
    found.validate(full=True)
    return found


def rows_of(client, key, *words):
    """Times and values of TS.RANGE; None stands for NaN, which does not equal itself."""
    reply = client.call("TS.RANGE", key, *words)
    return {time: None if math.isnan(float(value)) else float(value) for time, value in reply}


def columns_of(found):
    times = found.column("time").cast("int64").to_pylist()
    values = {}
    for name in found.column_names[1:]:
        column = found.column(name).to_pylist()
        values[name] = {time: value for time, value in zip(times, column) if value is not None}
    return times, values


def fill(client):
    chance = random.Random(run_seed())
    for number, key in enumerate(["one", "two:of:three", "other"]):
        client.call("TS.CREATE", key, "LABELS", "kind", "test", "number", number, "naïve", "é")
        at = START
        words = []
        for _ in range(3000):
            at += 1000 if number < 2 else chance.randrange(1, 5000)
            words += [key, at, round(chance.uniform(-50, 50), number)]
        client.call("TS.MADD", *words)
    client.call("TS.CREATE", "bare", "LABELS", "kind", "none")


@pytest.mark.parametrize(
    "words",
    [
        ["-", "+"],
        [START + 50_000, START + 900_000],
        ["-", "+", "AGGREGATION", "avg", 60_000],
        ["-", "+", "FILTER_BY_VALUE", 0, 10],
        [START, "+", "ALIGN", "start", "AGGREGATION", "max", 7_777, "EMPTY"],
    ],
)
def test_columns_are_the_rows_of_each_series(client, words):
    fill(client)
    keys = ["one", "other", "bare", "two:of:three"]
    found = table(client, "MANTISSA.TS.ARROW", len(keys), *keys, *words)
    assert found.column_names == ["time", *keys]
    times, values = columns_of(found)
    wanted = {key: rows_of(client, key, *words) for key in keys}
    assert times == sorted({time for rows in wanted.values() for time in rows})
    for key in keys:
        # NaN is a value, and not one that is missing.
        ours = {time: None if math.isnan(value) else value for time, value in values[key].items()}
        assert ours == wanted[key], key


def test_a_filter_finds_the_series(client):
    fill(client)
    found = table(client, "MANTISSA.TS.MARROW", "-", "+", "AGGREGATION", "min,count", 60_000, "FILTER", "kind=test")
    assert found.column_names == [
        "time", "min(one)", "count(one)", "min(other)", "count(other)", "min(two:of:three)", "count(two:of:three)",
    ]
    metadata = {b"kind": b"test", b"number": b"2", "naïve".encode(): "é".encode()}
    assert found.schema.field("min(other)").metadata == metadata
    _, values = columns_of(found)
    for key in ["one", "other", "two:of:three"]:
        for name in ["min", "count"]:
            assert values[f"{name}({key})"] == rows_of(client, key, "-", "+", "AGGREGATION", name, 60_000)
    assert table(client, "MANTISSA.TS.MARROW", "-", "+", "FILTER", "kind=nothing").num_rows == 0


def test_small_and_odd_tables(client):
    client.call("TS.ADD", "x", 5, 1)
    for count in range(1, 20):
        client.call("TS.ADD", "x", 5 + count, count / 3)
        client.call("TS.ADD", f"y{count}", 7 * count, "nan")
        keys = ["x", *(f"y{number}" for number in range(1, count + 1))]
        found = table(client, "MANTISSA.TS.ARROW", len(keys), *keys, "-", "+")
        _, values = columns_of(found)
        assert len(values["x"]) == count + 1
        assert all(math.isnan(value) for key in keys[1:] for value in values[key].values())
    assert table(client, "MANTISSA.TS.ARROW", 1, "x", "-", "+", "COUNT", 3).num_rows == 3
    client.call("TS.ADD", b"\xff\x00k", 1, 2)
    assert table(client, "MANTISSA.TS.ARROW", 1, b"\xff\x00k", "-", "+").column_names == ["time", "\ufffd\x00k"]


def test_what_is_refused(client):
    client.call("TS.ADD", "x", 1, 1)
    client.call("SET", "text", "x")
    for words in [
        (0, "x", "-", "+"),
        ("x", "x", "-", "+"),
        (3, "x", "-", "+"),
        (2**62, "x", "-", "+"),
        (1, "none", "-", "+"),
        (1, "text", "-", "+"),
        (2, "x", "x", "-", "+"),
        (1, "x", "?", "+"),
        (1, "x", "-", "+", "AGGREGATION", "avg", 0),
    ]:
        assert client("MANTISSA.TS.ARROW", *words).is_error, words
    for words in [("-", "+", "FILTER"), ("-", "+", "FILTER", "a!=b"), ("-", "+", "COUNT", "5")]:
        assert client("MANTISSA.TS.MARROW", *words).is_error, words


def test_users_see_what_they_may_read(client, subject):
    client.call("TS.ADD", "mine", 1, 1, "LABELS", "all", 1)
    client.call("TS.ADD", "yours", 1, 1, "LABELS", "all", 1)
    client.call("ACL", "SETUSER", "u", "on", "nopass", "~mine", "+@all")
    user = subject.connect()
    user.call("AUTH", "u", "x")
    user.call("MANTISSA.TS.ARROW", 1, "mine", "-", "+")
    assert user("MANTISSA.TS.ARROW", 2, "mine", "yours", "-", "+").is_error
    assert user("MANTISSA.TS.MARROW", "-", "+", "FILTER", "all=1").is_error


def test_pandas_reads_it_in_one_line(client):
    pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    fill(client)
    frame = pyarrow.ipc.open_stream(client.call("MANTISSA.TS.ARROW", 2, "one", "other", "-", "+")).read_pandas()
    wanted = rows_of(client, "one", "-", "+")
    assert frame["one"].count() == len(wanted) and abs(frame["one"].sum() - sum(wanted.values())) < 1e-6
    assert frame["time"].iloc[0].timestamp() * 1000 == min(START + 1000, min(rows_of(client, "other", "-", "+")))


def test_polars_reads_it_in_one_line(client):
    polars = pytest.importorskip("polars")
    fill(client)
    frame = polars.read_ipc_stream(client.call("MANTISSA.TS.MARROW", "-", "+", "FILTER", "kind=test"))
    wanted = rows_of(client, "other", "-", "+")
    assert frame["other"].drop_nulls().to_list() == list(wanted.values())
