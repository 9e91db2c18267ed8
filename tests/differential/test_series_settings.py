"""The settings of time series, beside a module that was loaded with the same ones: what new series are told, their
compactions, and what becomes of duplicates. What comes of them is logged, so it does not change with them."""

import pytest

from differential.test_modules import OPTIONS
from differential.test_series_later import rows
from support.modules import SERIES, folder, need_modules
from support.servers import Server
from support.waiting import eventually

POLICY = "max:1m:1h;MIN:10s:5d:10d;last:5M:10m;avg:2h:10d;twa:1d:0m:360M"
# The name in Redis 8, that of the module of before, and a value.
SETTINGS = [
    ("ts-compaction-policy", "COMPACTION_POLICY", POLICY),
    ("ts-retention-policy", "RETENTION_POLICY", 5000),
    ("ts-duplicate-policy", "DUPLICATE_POLICY", "last"),
    ("ts-chunk-size-bytes", "CHUNK_SIZE_BYTES", 128),
    ("ts-encoding", "ENCODING", "uncompressed"),
    ("ts-ignore-max-time-diff", "IGNORE_MAX_TIME_DIFF", 2),
    ("ts-ignore-max-val-diff", "IGNORE_MAX_VAL_DIFF", 0.5),
]
OURS = {name: value for name, _, value in SETTINGS}
# What depends on how chunks are kept.
LEFT_OUT = (b"memoryUsage", b"chunkCount")
# Beside that, what a server tells by its own settings.
OWN = (*LEFT_OUT, b"duplicatePolicy")
COMMANDS = """
TS.ADD a 1000 1 LABELS x y
TS.ADD a 2000 3
TS.ADD a 2001 3.2
TS.ADD a 1000 9
TS.ADD a 1000 4 ON_DUPLICATE max
TS.MADD a 2500 1 a 1000 7 a 2500 2 nokey 1 1
TS.ADD b 1000 1 RETENTION 77 ENCODING COMPRESSED CHUNK_SIZE 256
TS.ADD b 1000 2
TS.CREATE c
TS.CREATE c2 RETENTION 0 IGNORE 0 0 DUPLICATE_POLICY first LABELS x y
TS.ADD c2 5 1
TS.ADD c2 5 2
TS.ADD d 1000 1 DUPLICATE_POLICY first IGNORE 0 0
TS.ADD d 1000 2
TS.INCRBY e 1 TIMESTAMP 5
TS.INCRBY e 2 TIMESTAMP 30
TS.DECRBY f 2 TIMESTAMP 7 LABELS l 1
SET g_LAST_300000 x
TS.ADD g 5 1
TS.ADD h x 1
TS.ADD h 1 1 RETENTION x
DEL a_MAX_1
TS.ADD a 3000 1
TS.RANGE a_MIN_10000_864000000 - + LATEST
""".strip().splitlines()


def picture(connection, left_out=LEFT_OUT):
    """What every series holds, and what it was told."""
    seen = {}
    for key in sorted(connection.call("KEYS", "*")):
        if connection.call("TYPE", key) == b"TSDB-TYPE":
            told = connection.call("TS.INFO", key)
            told = {name: value for name, value in zip(told[::2], told[1::2]) if name not in left_out}
            # The module tells of none what Redis 8 tells: that of the settings.
            if b"duplicatePolicy" in told:
                told[b"duplicatePolicy"] = told[b"duplicatePolicy"] or OURS["ts-duplicate-policy"].encode()
            seen[key] = (told, rows(connection.call("TS.RANGE", key, "-", "+", "LATEST")))
    return seen


def play(connection, commands=COMMANDS):
    return [connection(*line.split()).raw for line in commands]


@pytest.fixture
def subject():
    with Server("subject", OPTIONS | OURS, workers=2) as server, server.connect() as connection:
        yield connection


def test_new_series_are_told_what_is_set(subject):
    need_modules("series")
    words = [str(word) for _, name, value in SETTINGS for word in (name, value)]
    with Server("oracle", OPTIONS | {"loadmodule": [folder() / SERIES, *words]}) as oracle, oracle.connect() as other:
        for line in COMMANDS:
            assert play(subject, [line]) == play(other, [line]), line
        assert picture(subject) == picture(other)


def test_settings_change_while_the_server_runs(subject):
    for name, value in OURS.items():
        assert subject.call("CONFIG", "GET", name) == [name.encode(), str(value).encode()]
    subject.call("CONFIG", "SET", "ts-compaction-policy", "", "ts-retention-policy", 7)
    subject.call("CONFIG", "SET", "ts-duplicate-policy", "SUM", "ts-chunk-size-bytes", 48)
    subject.call("TS.ADD", "s", 1, 1)
    assert subject.call("KEYS", "*") == [b"s"]
    told = subject.call("TS.INFO", "s")
    told = dict(zip(told[::2], told[1::2]))
    assert (told[b"retentionTime"], told[b"chunkSize"], told[b"duplicatePolicy"]) == (7, 48, b"sum")
    subject.call("TS.ADD", "s", 1, 5)
    assert rows(subject.call("TS.RANGE", "s", "-", "+")) == [(1, 6)]
    for name, value in (
        ("ts-compaction-policy", "max:1m"), ("ts-compaction-policy", "foo:1m:1h"), ("ts-chunk-size-bytes", 50),
        ("ts-chunk-size-bytes", 40), ("ts-duplicate-policy", "none"), ("ts-ignore-max-val-diff", -1),
        ("ts-ignore-max-val-diff", "nan"), ("ts-ignore-max-time-diff", -1), ("ts-retention-policy", -1),
        ("ts-encoding", "x"), ("ts-num-threads", 4),
    ):
        assert subject("CONFIG", "SET", name, value).is_error, (name, value)


def test_compactions_in_transactions_and_scripts(subject):
    subject.call("CONFIG", "SET", "ts-compaction-policy", "sum:10m:0s")
    subject.call("MULTI")
    subject("TS.ADD", "a", 1, 1)
    subject("TS.ADD", "a", 12, 1)
    assert subject.call("EXEC") == [1, 12]
    script = "redis.call('TS.ADD', KEYS[1], 1, 5) return redis.call('TS.ADD', KEYS[1], 12, 1)"
    assert subject.call("EVAL", script, 1, "b") == 12
    undeclared = "redis.call('TS.ADD', 'c', 1, 7) return redis.call('TS.ADD', 'c', 12, 1)"
    assert subject.call("EVAL", undeclared, 0) == 12
    found = [rows(subject.call("TS.RANGE", f"{key}_SUM_10", "-", "+")) for key in "abc"]
    assert found == [[(0, 1)], [(0, 5)], [(0, 7)]]


def test_many_keys_on_all_shards(subject):
    for number in range(300):
        subject.call("TS.ADD", f"k{number}", 1, 1)
    assert subject.call("DBSIZE") == 300 * 6
    assert len(subject.call("TS.QUERYINDEX", "aggregation=AVG")) == 300


@pytest.mark.parametrize("others", [OURS, {}], ids=["the-same", "none"])
def test_logs_do_not_depend_on_settings(others, tmp_path):
    with Server("subject", OPTIONS | OURS | {"appendonly": "yes"}, directory=tmp_path, workers=2) as server:
        with server.connect() as connection:
            play(connection)
            expected = picture(connection, OWN)
    with Server("subject", OPTIONS | others | {"appendonly": "yes"}, directory=tmp_path, workers=2) as server:
        with server.connect() as connection:
            assert picture(connection, OWN) == expected


@pytest.mark.parametrize("others", [OURS, {}], ids=["the-same", "none"])
def test_replicas_do_not_depend_on_settings(others):
    with Server("subject", OPTIONS | OURS, workers=2) as server, server.connect() as primary:
        with Server("subject", OPTIONS | others | {"replicaof": ["127.0.0.1", server.port]}, workers=2) as copy:
            with copy.connect() as replica:
                eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
                play(primary)
                assert primary.call("WAIT", 1, 10_000) == 1
                assert picture(replica, OWN) == picture(primary, OWN)
