"""The settings of filters, beside a module that was loaded with the same ones. What comes of them is logged, so it
does not change with them. A line that loads a module which is built in gives its arguments."""

import pytest

from differential.test_modules import OPTIONS
from support.modules import BLOOM, SERIES, folder, need_modules
from support.servers import Server
from support.waiting import eventually

# Arguments of the module of before Redis 8, and what they are now.
ARGUMENTS = ["ERROR_RATE", "0.003", "initial_size", "50", "CF_MAX_EXPANSIONS", "3"]
SETTINGS = {"bf-error-rate": "0.003", "bf-initial-size": 50, "cf-max-expansions": 3}
# What the module of before Redis 8 can not be told.
LATER = {
    "bf-expansion-factor": 4, "cf-bucket-size": 4, "cf-expansion-factor": 2, "cf-initial-size": 64,
    "cf-max-iterations": 7,
}
COMMANDS = """
BF.ADD a 1
BF.ADD a 2
BF.MADD b 1 2 3
BF.INSERT c ITEMS 1 2
BF.INSERT d ERROR 0.2 ITEMS 1
BF.INSERT e CAPACITY 7 NONSCALING ITEMS 1 2 3 4 5 6 7 8 9
BF.INSERT f EXPANSION 3 ITEMS 1
BF.RESERVE g 0.1 10
BF.RESERVE h 0.1 10 NONSCALING
BF.RESERVE i 0.1 10 EXPANSION 5
CF.ADD k 1
CF.ADDNX l 1
CF.ADDNX l 1
CF.INSERT m ITEMS 1 2
CF.INSERT n CAPACITY 16 ITEMS 1 2
CF.INSERTNX o NOCREATE ITEMS 1
CF.RESERVE p 4
CF.RESERVE q 100 BUCKETSIZE 3 MAXITERATIONS 5 EXPANSION 1
CF.INSERT p ITEMS 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
CF.ADD p 1
""".strip().splitlines()


def play(connection):
    replies = [connection(*line.split()).raw for line in COMMANDS]
    return replies + [connection("BF.ADD", "a", f"item:{number}").raw for number in range(200)]


def picture(connection):
    return {key: connection.call("DUMP", key) for key in sorted(connection.call("KEYS", "*"))}


def options(*more):
    merged = dict(OPTIONS)
    for part in more:
        merged |= part
    return merged


def test_new_filters_are_made_as_is_set():
    need_modules()
    of_oracle = options({"loadmodule": [folder() / BLOOM, *ARGUMENTS]})
    of_subject = options({"loadmodule": [f"/usr/lib/{BLOOM}", *ARGUMENTS]})
    with Server("oracle", of_oracle) as oracle, oracle.connect() as other:
        with Server("subject", of_subject, workers=2) as server, server.connect() as connection:
            for name, value in SETTINGS.items():
                assert connection.call("CONFIG", "GET", name) == [name.encode(), str(value).encode()]
            assert play(connection) == play(other)
            assert picture(connection) == picture(other)


def info(connection, command, key):
    told = connection.call(command, key)
    return dict(zip(told[::2], told[1::2]))


def test_settings_change_while_the_server_runs():
    with Server("subject", OPTIONS, workers=2) as server, server.connect() as connection:
        connection.call("CONFIG", "SET", *[word for pair in LATER.items() for word in pair])
        connection.call("BF.ADD", "b", 1)
        connection.call("CF.ADD", "c", 1)
        assert info(connection, "BF.INFO", "b")[b"Expansion rate"] == 4
        told = info(connection, "CF.INFO", "c")
        assert (told[b"Bucket size"], told[b"Expansion rate"], told[b"Max iterations"]) == (4, 2, 7)
        assert told[b"Number of buckets"] == 16
        connection.call("CONFIG", "SET", "bf-expansion-factor", 0, "cf-initial-size", 1)
        connection.call("BF.ADD", "b2", 1)
        assert info(connection, "BF.INFO", "b2")[b"Expansion rate"] is None
        connection.call("BF.INSERT", "b3", "EXPANSION", 3, "ITEMS", 1)
        assert info(connection, "BF.INFO", "b3")[b"Expansion rate"] == 3
        connection.call("CF.ADD", "c2", 1)
        assert info(connection, "CF.INFO", "c2")[b"Number of buckets"] == 2
        for name, value in (
            ("bf-error-rate", 0), ("bf-error-rate", 1), ("bf-error-rate", "nan"), ("bf-initial-size", 0),
            ("bf-expansion-factor", -1), ("cf-bucket-size", 256), ("cf-max-expansions", 0),
            ("cf-max-iterations", 65536),
        ):
            assert connection("CONFIG", "SET", name, value).is_error, (name, value)


def test_arguments_of_a_module_of_series():
    words = ["RETENTION_POLICY", "5000", "DUPLICATE_POLICY", "LAST", "COMPACTION_POLICY", "max:1m:1h"]
    with Server("subject", options({"loadmodule": [f"./{SERIES}", *words]})) as server, server.connect() as connection:
        found = [connection.call("CONFIG", "GET", name)[1] for name in (
            "ts-retention-policy", "ts-duplicate-policy", "ts-compaction-policy",
        )]
        assert found == [b"5000", b"last", b"max:1m:1h"]


@pytest.mark.parametrize("others", [SETTINGS | LATER, {}], ids=["the-same", "none"])
def test_logs_do_not_depend_on_settings(others, tmp_path):
    logged = {"appendonly": "yes", "aof-use-rdb-preamble": "no"}
    with Server("subject", options(SETTINGS, LATER, logged), directory=tmp_path, workers=2) as server:
        with server.connect() as connection:
            play(connection)
            expected = picture(connection)
    with Server("subject", options(others, logged), directory=tmp_path, workers=2) as server:
        with server.connect() as connection:
            assert picture(connection) == expected


def test_replicas_do_not_depend_on_settings():
    with Server("subject", options(SETTINGS, LATER), workers=2) as server, server.connect() as primary:
        with Server("subject", options({"replicaof": ["127.0.0.1", server.port]}), workers=2) as copy:
            with copy.connect() as replica:
                eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
                play(primary)
                assert primary.call("WAIT", 1, 10_000) == 1
                assert picture(replica) == picture(primary)


# Whose log needs care: what can be made is refused, is smaller than others may make it, or has the name of an option.
DELICATE = """
CF.ADD refused x
CF.INSERT refused ITEMS x
CONFIG SET cf-max-expansions 32
CF.INSERT small CAPACITY 2 ITEMS a b
CF.INSERT small CAPACITY 2 ITEMS c
CF.INSERTNX small CAPACITY 2 ITEMS a d
CF.ADD BUCKETSIZE x
CF.ADD MAXITERATIONS x
BF.ADD expansion x
BF.ADD nonscaling x
BF.MADD error x y
BF.RESERVE nonscaling2 0.1 10 NONSCALING
BF.INSERT fixed NONSCALING EXPANSION 3 ITEMS a b
""".strip().splitlines()


@pytest.mark.parametrize("others", [{"cf-bucket-size": 4, "bf-expansion-factor": 0}, {}], ids=["others", "none"])
def test_what_is_delicate_to_log(others, tmp_path):
    ours = {"cf-bucket-size": 1, "cf-max-expansions": 1, "bf-error-rate": 0.2}
    logged = {"appendonly": "yes", "aof-use-rdb-preamble": "no"}
    with Server("subject", options(ours, logged), directory=tmp_path, workers=2) as server, server.connect() as primary:
        link = {"replicaof": ["127.0.0.1", server.port]}
        with Server("subject", options(others, link), workers=2) as copy, copy.connect() as replica:
            eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
            replies = [primary(*line.split()) for line in DELICATE]
            assert [reply.text() for reply in replies[:2]] == ["Maximum expansions reached"] * 2
            assert not (failed := [reply for reply in replies[2:] if reply.is_error]), failed
            assert primary.call("EXISTS", "refused") == 0
            assert primary.call("WAIT", 1, 10_000) == 1
            assert picture(replica) == (expected := picture(primary))
    with Server("subject", options(others, logged), directory=tmp_path, workers=2) as server:
        with server.connect() as connection:
            assert picture(connection) == expected


def test_logs_of_redis_are_read_by_the_settings(tmp_path):
    """They do not say how filters were made."""
    lines = ["BF.ADD b 1", "BF.RESERVE r 0.1 7", "CF.ADD c 1"]
    commands = [line.split() for line in lines]
    bulk = lambda word: f"${len(word)}\r\n{word}\r\n"
    text = "".join(f"*{len(words)}\r\n" + "".join(map(bulk, words)) for words in commands)
    (tmp_path / "appendonly.aof").write_text(text)
    with Server("subject", options(SETTINGS, LATER, {"appendonly": "yes"}), directory=tmp_path) as server:
        with server.connect() as connection:
            expected = picture(connection)
            connection.call("FLUSHALL")
            for line in lines:
                connection.call(*line.split())
            assert picture(connection) == expected
            assert info(connection, "BF.INFO", "b")[b"Capacity"] == 50
