"""Keys and prefixes as they were at a point in time, beside the whole state of that time."""

import shutil

from support.seeds import generator

from .test_schedule import archived, archiving, next_second, stored, until_logged  # noqa: F401

KEYS = [f"{group}:{number}" for group in "abc" for number in range(6)]


def change(random):
    """A command on some of the keys, many of which make one of another."""
    one, other, third = (random.choice(KEYS) for _ in range(3))
    word = str(random.randrange(100))
    return random.choice(
        [
            ("SET", one, word),
            ("SET", one, word, "EX", "1000"),
            ("APPEND", one, word),
            ("INCR", one),
            ("MSET", one, word, other, "together"),
            ("MSETNX", one, word, other, "new"),
            ("RENAME", one, other),
            ("RENAMENX", one, other),
            ("COPY", one, other, "REPLACE"),
            ("COPY", one, other, "DB", "3"),
            ("MOVE", one, "3"),
            ("DEL", one, other, third),
            ("RPUSH", one, word, "y", "z"),
            ("LMOVE", one, other, "LEFT", "RIGHT"),
            ("SORT", one, "BY", "nosort", "STORE", other),
            ("SADD", one, word, "m"),
            ("SPOP", one),
            ("SMOVE", one, other, "m"),
            ("SUNIONSTORE", one, other, third),
            ("ZADD", one, word, "m", "3", "n"),
            ("ZRANGESTORE", one, other, "0", "-1"),
            ("HSET", one, "field", word),
            ("XADD", one, "*", "field", word),
            ("BITOP", "OR", one, other, third),
            ("PFADD", one, word),
            ("PFMERGE", one, other, third),
            ("EVAL", "redis.call('COPY', KEYS[1], KEYS[2]) redis.call('DEL', KEYS[1])", "2", one, other),
            ("PEXPIRE", one, "100000"),
            ("PERSIST", one),
        ]
    )


def payloads(connection, keys):
    """The digests of what some keys hold, and when they expire. Encodings do not count: they have a history."""
    there = [key for key in keys if connection.call("EXISTS", key)]
    return {
        key: (connection.call("DEBUG", "DIGEST-VALUE", key), connection.call("PEXPIRETIME", key)) for key in there
    }


def test_keys_are_what_they_were_in_any_second(archiving, archive, start_server, tmp_path):  # noqa: F811
    random = generator("keys in time")
    server = archiving(log="yes", log_interval=1)
    known = []
    with server.connect() as connection:
        until_logged(connection)
        for round_ in range(5):
            for step in range(150):
                if step % 40 == 0:
                    connection.call("SELECT", random.choice((0, 0, 3)))
                if step % 50 == 49:
                    connection.pipeline([("MULTI",), change(random), change(random), ("EXEC",)])
                connection(*change(random))
            library = f"#!lua name=l{round_}\nredis.register_function('f{round_}', function() end)"
            connection.call("FUNCTION", "LOAD", library)
            if round_ == 2:
                connection.call("SWAPDB", 0, 3)
            connection.call("SELECT", 0)
            known.append((payloads(connection, KEYS), next_second()))
            if round_ == 1:
                archived(connection)
                next_second()
        stored(connection)
        connection.call("FLUSHALL")
        connection.call("SET", "a:0", "after")
        stored(connection)
    names = {"a:1": ["--only-key", "a:1"], "b:": ["--only-prefix", "b:"], "c:2": ["--only-key", "c:2"]}
    target = start_server("subject")
    with target.connect() as connection:
        for number, (before, time_s) in enumerate(known):
            for name, words in names.items():
                wanted = {key: value for key, value in before.items() if key.startswith(name)}
                words = [*words, "-n", "0", "-p", target.port, "--replace"]
                text = archive.do("restore", "--at", time_s, *words)
                assert f"restored {len(wanted)} keys" in text and "is not known" not in text
                assert payloads(connection, KEYS) == wanted, (number, name)
                connection.call("FLUSHALL")
        before, time_s = known[-1]
        # Without a database come the keys of all.
        archive.do("restore", "--at", time_s, "--only-prefix", "a:", "-p", target.port)
        assert payloads(connection, KEYS) == {key: value for key, value in before.items() if key[0] == "a"}
        one = min(before)
        connection.call("SET", one, "kept")
        kept = archive.call("restore", "--at", time_s, "--only-key", one, "-n", "0", "-p", target.port)
        assert kept.code == 1 and b"--replace" in kept.out
        assert connection.call("GET", one) == b"kept"
    # Into a file, and a whole database.
    folder = tmp_path / "dump"
    folder.mkdir()
    before, time_s = known[3]
    text = archive.do("restore", "--at", time_s, folder / "dump.rdb", "-n", "0")
    assert f"wrote {len(before)} keys" in text and "the last change is of" in text
    for kind in ("subject", "oracle"):
        with start_server(kind, directory=folder).connect() as connection:
            assert payloads(connection, KEYS).keys() == before.keys()
            assert connection.call("INFO", "keyspace").count(b"keys=") == 1
        shutil.rmtree(folder / "appendonlydir", ignore_errors=True)
    assert not list(tmp_path.glob("mantissa-archive.*"))


def test_series_come_with_what_is_linked_to_them(archiving, archive, start_server):  # noqa: F811
    server = archiving(log="yes", log_interval=1)
    with server.connect() as connection:
        connection.call("TS.CREATE", "raw")
        connection.call("TS.CREATE", "sum")
        connection.call("TS.CREATERULE", "raw", "sum", "AGGREGATION", "sum", "10")
        until_logged(connection)
        archived(connection)
        for time_ms in range(0, 100, 5):
            connection.call("TS.ADD", "raw", time_ms, 1)
        connection.call("SET", "text", "x")
        expected = connection.call("TS.RANGE", "sum", "-", "+")
        time_s = next_second()
        stored(connection)
    target = start_server("subject")
    with target.connect() as connection:
        archive.do("restore", "--at", time_s, "--only-key", "sum", "--only-key", "text", "-p", target.port)
        assert connection.call("TS.RANGE", "sum", "-", "+") == expected
        assert connection.call("GET", "text") == b"x"


def test_times_without_a_state_and_words_that_do_not_fit(archive, subject, tmp_path):
    with subject.connect() as connection:
        connection.call("SET", "key", "value")
    archive.create(subject)
    early = archive.call("restore", "--at", 1000, "--only-key", "key", tmp_path / "early.rdb")
    assert early.code == 1 and b"no snapshot is as old" in early.err
    assert not list(tmp_path.glob("early*"))
    # A snapshot without a log is the state of its time, as far as is known.
    text = archive.do("restore", "--at", "2100-01-01T00:00:00Z", "--only-key", "key", tmp_path / "late.rdb")
    assert "wrote 1 keys" in text and "is not known" in text
    written = archive.call("restore", "--at", "2100-01-01T00:00:00Z", "--only-key", "key", "-")
    assert written.code == 0 and written.out.startswith(b"REDIS")
    assert archive.call("restore", "--at", "2100-01-01T00:00:00Z").code == 1
