"""Entries of streams that are added once although they are sent twice, as of Redis 8.6: IDMP and IDMPAUTO of XADD,
XCFGSET, XIDMPRECORD. No server with them is at hand, so the replies are those of Redis's documentation and tests."""

import pathlib
import time

import pytest

from support.rdbfile import version_of
from support.servers import Server, subject_is_oracle
from support.waiting import eventually, until_written

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has none of them")

FORM_USUAL, FORM_PRODUCERS = 21, 26
DAY_S = 86_400
FACTS = ("idmp-duration", "idmp-maxsize", "pids-tracked", "iids-tracked", "iids-added", "iids-duplicates")


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(request, subject):
    with subject.connect(request.param) as connection:
        connection.call("FLUSHALL")
        yield connection


def said(connection, *words):
    reply = connection(*" ".join(map(str, words)).split())
    return reply.text() if reply.is_error else reply.plain()


def add(connection, option, key="s", **fields):
    """The identifier that XADD with these words between key and * replies."""
    pairs = [word for pair in (fields or {"f": "v"}).items() for word in pair]
    return connection.call("XADD", key, *option.split(), "*", *pairs)


def facts(connection, key="s", full=()):
    reply = connection("XINFO", "STREAM", key, *full).plain()
    found = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))
    return tuple(found.get(name.encode()) for name in FACTS)


def test_what_is_sent_twice_is_added_once(client):
    first = add(client, "IDMP p1 a")
    assert add(client, "IDMP p1 a", f="other") == first
    other = add(client, "IDMP p2 a")
    assert other != first and add(client, "IDMP p1 b") != first
    assert client.call("XLEN", "s") == 3
    assert facts(client) == facts(client, full=["FULL"]) == (100, 100, 2, 3, 3, 1)
    client.call("XDEL", "s", first)
    assert add(client, "IDMP p1 a") == first and client.call("XLEN", "s") == 2
    client.call("XTRIM", "s", "MAXLEN", 0)
    assert add(client, "NOMKSTREAM MAXLEN 5 IDMP p2 a") == other and client.call("XLEN", "s") == 0
    assert add(client, "NOMKSTREAM IDMP p2 a", key="none") is None
    added = add(client, "IDMP p3 c KEEPREF MAXLEN = 1")
    assert [entry[0] for entry in client.call("XRANGE", "s", "-", "+")] == [added]


def test_content_is_a_name(client):
    first = add(client, "IDMPAUTO p", a="1", b="2")
    assert add(client, "IDMPAUTO p", b="2", a="1") == first
    assert add(client, "IDMPAUTO q", a="1", b="2") != first
    assert add(client, "IDMPAUTO p", a="1", b="3") != first
    assert add(client, "IDMPAUTO p", a="12", b="") != first
    name = bytes.fromhex("c5b282935f77a53123e1ff7a302a11f2")
    assert client.call("XADD", "s", "IDMP", "p", name, "*", "x", "y") == first
    assert facts(client)[2:] == (2, 4, 4, 2)


def test_a_plain_stream_shows_nothing_of_it(client):
    client.call("XADD", "s", "*", "f", "v")
    assert facts(client) == facts(client, full=["FULL"]) == (None,) * len(FACTS)
    assert client.call("XCFGSET", "s", "IDMP-DURATION", 100) == b"OK"
    assert facts(client) == (100, 100, 0, 0, 0, 0)


def test_wrong_arguments(client):
    client.call("SET", "text", "x")
    client.call("XADD", "s", "1-1", "f", "v")
    twice = "ERR syntax error, IDMP/IDMPAUTO specified multiple times"
    invalid = "ERR Invalid stream ID specified as stream command argument"
    only_auto = "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"
    for words, expected in (
        ("XADD s IDMP p a IDMP p b * f v", twice),
        ("XADD s IDMPAUTO p IDMP p b * f v", twice),
        ("XADD s IDMP p a 5-5 f v", only_auto),
        ("XADD s IDMP p a 5-* f v", only_auto),
        ("XADD s IDMP p a x f v", invalid),
        ("XADD s IDMP p a *", "ERR wrong number of arguments for 'xadd' command"),
        ("XADD s IDMP p a * f", "ERR wrong number of arguments for 'xadd' command"),
        ("XADD s f v IDMP p", invalid),
        ("XADD text IDMP p a * f v", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XTRIM s IDMP p a MAXLEN 5", "ERR syntax error"),
        ("XCFGSET none IDMP-DURATION 0", "ERR no such key"),
        ("XCFGSET text IDMP-DURATION 0", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XCFGSET s", "ERR At least one parameter must be specified"),
        ("XCFGSET s IDMP-DURATION", "ERR syntax error"),
        ("XCFGSET s IDMP-OTHER 5", "ERR syntax error"),
        ("XCFGSET s IDMP-DURATION x", "ERR value is not an integer or out of range"),
        ("XCFGSET s IDMP-DURATION 0", "ERR IDMP-DURATION must be between 1 and 86400 seconds"),
        ("XCFGSET s IDMP-DURATION 86401", "ERR IDMP-DURATION must be between 1 and 86400 seconds"),
        ("XCFGSET s IDMP-MAXSIZE 0", "ERR IDMP-MAXSIZE must be between 1 and 10000 entries"),
        ("XCFGSET s IDMP-MAXSIZE 10001", "ERR IDMP-MAXSIZE must be between 1 and 10000 entries"),
        ("XCFGSET s IDMP-DURATION 5 IDMP-DURATION 6", "ERR IDMP-DURATION specified multiple times"),
        ("XCFGSET s IDMP-MAXSIZE 5 IDMP-MAXSIZE 6", "ERR IDMP-MAXSIZE specified multiple times"),
        ("XIDMPRECORD s p a x", invalid),
        ("XIDMPRECORD none p a 1-1", "ERR no such key"),
        ("XIDMPRECORD text p a 1-1", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XIDMPRECORD s p a 1-2", "ERR No such message in stream"),
        ("XIDMPRECORD s p a", "ERR wrong number of arguments for 'xidmprecord' command"),
    ):
        assert said(client, words) == expected, words
    for words, expected in (
        (["XADD", "s", "IDMP", "", "a", "*", "f", "v"], "IDMP requires a non-empty producer ID"),
        (["XADD", "s", "IDMPAUTO", "", "*", "f", "v"], "IDMPAUTO requires a non-empty producer ID"),
        (["XADD", "s", "IDMP", "p", "", "*", "f", "v"], "IDMP requires a non-empty idempotent ID"),
    ):
        assert client(*words).text() == f"ERR syntax error, {expected}"
    assert client("XIDMPRECORD", "s", "", "a", "1-1").text() == "ERR producer ID must be non-empty"
    assert client("XIDMPRECORD", "s", "p", "", "1-1").text() == "ERR idempotent ID must be non-empty"
    assert facts(client) == (None,) * len(FACTS) and client.call("EXISTS", "none") == 0


def test_names_are_recorded(client):
    now = int(time.time() * 1000)
    for number in range(2):
        client.call("XADD", "s", f"{now}-{number}", "f", "v")
    assert client.call("XIDMPRECORD", "s", "p", "a", f"{now}-0") == b"OK"
    assert client.call("XIDMPRECORD", "s", "p", "a", f"{now}-0") == b"OK"
    error = "ERR IID already exists for this producer with a different stream ID"
    assert client("XIDMPRECORD", "s", "p", "a", f"{now}-1").text() == error
    assert add(client, "IDMP p a") == f"{now}-0".encode()
    assert facts(client) == (100, 100, 1, 1, 1, 1)


def test_limits_of_a_stream(client):
    first = add(client, "IDMP p a")
    assert client.call("XCFGSET", "s", "IDMP-MAXSIZE", 100, "IDMP-DURATION", 100) == b"OK"
    assert add(client, "IDMP p a") == first
    assert client.call("XCFGSET", "s", "IDMP-MAXSIZE", 3) == b"OK"
    assert facts(client) == (100, 3, 0, 0, 1, 1)
    assert add(client, "IDMP p a") != first
    last = [add(client, f"IDMP p n{number}") for number in range(50)][-3:]
    assert [add(client, f"IDMP p n{number}") for number in (47, 48, 49)] == last
    assert add(client, "IDMP p n46") not in last
    assert facts(client) == (100, 3, 1, 3, 53, 4)
    client.call("XCFGSET", "s", "IDMP-DURATION", 1, "IDMP-MAXSIZE", 1000)
    last = [add(client, f"IDMP p{number % 50} n{number}") for number in range(500)]
    assert facts(client)[2:4] == (50, 500)
    eventually(lambda: facts(client)[2:4] == (0, 0), "all names are forgotten")
    assert add(client, "IDMP p0 n0") not in last


def test_limits_of_the_server():
    with Server("subject") as server, server.connect() as connection:
        for name, most in (("stream-idmp-duration", DAY_S), ("stream-idmp-maxsize", 10_000)):
            assert connection.call("CONFIG", "GET", name)[1] == b"100"
            for number in (0, -1, most + 1):
                assert "must be between" in connection("CONFIG", "SET", name, number).text()
            connection.call("CONFIG", "SET", name, most)
        connection.call("CONFIG", "SET", "stream-idmp-duration", 500, "stream-idmp-maxsize", 2)
        add(connection, "IDMP p a")
        connection.call("CONFIG", "SET", "stream-idmp-duration", 7)
        assert facts(connection) == (500, 2, 1, 1, 1, 0)


def test_names_are_forgotten_in_the_background_and_their_memory_is_free():
    count = 100_000
    with Server("subject") as server, server.connect() as connection:
        empty = server.memory_bytes
        connection.call("XADD", "s", "*", "f", "v")
        connection.call("XCFGSET", "s", "IDMP-DURATION", DAY_S, "IDMP-MAXSIZE", 10_000)
        began = time.monotonic()
        for part in range(0, count, 1000):
            commands = [("XADD", "s", "MAXLEN", 1, "IDMP", f"p{number % 5000}", f"name {number}", "*", "f", "v")
                        for number in range(part, part + 1000)]
            connection.pipeline(commands)
        assert facts(connection)[2:4] == (5000, count), time.monotonic() - began
        used = connection.call("MEMORY", "USAGE", "s")
        assert used > count * 40
        connection.call("XCFGSET", "s", "IDMP-DURATION", 1)
        assert connection.call("MEMORY", "USAGE", "s") < used / 100
        assert empty


def make_history(connection):
    add(connection, "IDMP gone x", key="plain")
    connection.call("DEL", "plain")
    connection.call("XADD", "plain", "*", "f", "v")
    for number in range(40):
        add(connection, f"IDMP p{number % 3} n{number}")
        add(connection, f"IDMPAUTO p{number % 3}", f=str(number))
    for number in range(20):
        add(connection, f"IDMP p{number % 3} n{number}")
    connection.call("MULTI")
    connection.call("XADD", "s", "MAXLEN", "~", 50, "IDMP", "multi", "a", "*", "f", "v")
    connection.call("XADD", "s", "IDMP", "multi", "a", "*", "f", "v")
    connection.call("EXEC")
    script = "return {redis.call('XADD', KEYS[1], 'IDMP', 'lua', 'a', '*', 'f', 'v')}"
    assert connection.call("EVAL", script, 1, "s") == connection.call("EVAL", script, 1, "s")
    connection.call("XTRIM", "s", "MAXLEN", 5)
    add(connection, "IDMP p limited", key="limited")
    connection.call("XCFGSET", "limited", "IDMP-DURATION", 5000, "IDMP-MAXSIZE", 2)
    for number in range(5):
        add(connection, f"IDMP p n{number}", key="limited")
    connection.call("CONFIG", "SET", "stream-idmp-maxsize", 7)
    for number in range(9):
        add(connection, f"IDMP p n{number}", key="own")
    connection.call("CONFIG", "SET", "stream-idmp-maxsize", 100)
    add(connection, "IDMP p n8", key="own")


def state(connection, with_counters=True):
    """All keys with what is known of their producers, and what these get who send again."""
    found = {}
    for key in sorted(connection.call("KEYS", "*")):
        known = facts(connection, key)
        found[key] = (known if with_counters else known[:4], connection.call("XRANGE", key, "-", "+"))
        found[key] += tuple(connection.call("XINFO", "STREAM", key)[6:14])
    return found


def sent_again(connection):
    """What producers of [`make_history`] get."""
    found = [add(connection, f"IDMP p{number % 3} n{number}") for number in range(40)]
    found += [add(connection, f"IDMPAUTO p{number % 3}", f=str(number)) for number in range(40)]
    found += [add(connection, f"IDMP p n{number}", key="limited") for number in (3, 4)]
    return found + [add(connection, f"IDMP p n{number}", key="own") for number in range(2, 9)]


def test_history_is_in_the_append_only_file(tmp_path):
    for preamble in ("yes", "no"):
        options = {"appendonly": "yes", "aof-use-rdb-preamble": preamble, "dir": str(tmp_path / preamble)}
        (tmp_path / preamble).mkdir()
        with Server("subject", options=options) as server:
            with server.connect() as connection:
                make_history(connection)
                before, answers = state(connection), sent_again(connection)
                assert state(connection, False) == {key: (all_[0][:4], *all_[1:]) for key, all_ in before.items()}
                before = state(connection)
            server.restart()
            with server.connect() as connection:
                assert state(connection) == before
                connection.call("BGREWRITEAOF")
                until_written(connection)
            server.restart()
            with server.connect() as connection:
                # Commands have no place for the counters.
                counted = preamble == "yes"
                expected = before if counted else {key: (all_[0][:4], *all_[1:]) for key, all_ in before.items()}
                assert state(connection, counted) == expected
                assert sent_again(connection) == answers


def test_history_is_in_dumps():
    with Server("subject") as server:
        with server.connect() as connection:
            make_history(connection)
            before = state(connection)
            connection.call("DEBUG", "RELOAD")
            assert state(connection) == before
            payload, plain = connection.call("DUMP", "s"), connection.call("DUMP", "plain")
            assert (payload[0], payload[-10], plain[0], plain[-10]) == (FORM_PRODUCERS, 13, FORM_USUAL, 12)
            connection.call("DEL", "s")
            connection.call("RESTORE", "s", 0, payload)
            connection.call("COPY", "s", "t")
            connection.call("DEL", "s")
            connection.call("RENAME", "t", "s")
            assert state(connection) == before
            answers = sent_again(connection)
            connection.call("SAVE")
        server.restart()
        with server.connect() as connection:
            assert sent_again(connection) == answers


def test_copies_go_their_own_ways(client):
    first = add(client, "IDMP p a{s}", key="{s}")
    client.call("COPY", "{s}", "t{s}")
    assert add(client, "IDMP p a{s}", key="t{s}") == first
    add(client, "IDMP p b", key="t{s}")
    assert (facts(client, "{s}")[3:], facts(client, "t{s}")[3:]) == ((1, 1, 0), (2, 2, 1))
    for key in ("{s}", "t{s}"):
        client.call("XCFGSET", key, "IDMP-DURATION", 1)
        add(client, "IDMP p c", key=key)
    client.call("RENAME", "t{s}", "u{s}")
    eventually(lambda: facts(client, "{s}")[3] == facts(client, "u{s}")[3] == 0, "both have forgotten")


def test_files_have_the_version_that_they_need(tmp_path):
    version = lambda: version_of(tmp_path / "dump.rdb")
    with Server("subject", options={"dir": str(tmp_path)}) as server, server.connect() as connection:
        connection.call("XADD", "s", "*", "f", "v")
        connection.call("SAVE")
        assert version() == b"0012"
        add(connection, "IDMP p a")
        connection.call("SAVE")
        assert version() == b"0013"
    assert pathlib.Path(tmp_path / "dump.rdb").exists()


def test_replicas_know_what_was_sent():
    with Server("subject") as server, server.connect() as primary:
        primary.call("XADD", "plain", "1-0", "f", "v")
        options = {"replicaof": ["127.0.0.1", server.port], "stream-idmp-duration": 1000}
        with Server("subject", options=options) as copy, copy.connect() as replica:
            eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
            primary.call("CONFIG", "SET", "stream-idmp-duration", 200)
            make_history(primary)
            assert primary.call("WAIT", 1, 10_000) == 1
            assert state(replica) == state(primary)
            with Server("subject", options=options) as third, third.connect() as late:
                eventually(lambda: primary.call("WAIT", 2, 1000) == 2, "the second replica has come")
                assert state(late) == state(primary)
            answers = sent_again(primary)
            primary.call("XCFGSET", "own", "IDMP-DURATION", 1)
            add(primary, "IDMP p n1", key="own")
            assert primary.call("WAIT", 1, 10_000) == 1
            eventually(lambda: facts(replica, "own")[3] == 0, "the replica forgets by itself")
            # What is forgotten is added again, wherever it is still known.
            add(primary, "IDMP p n1", key="own")
            assert primary.call("WAIT", 1, 10_000) == 1
            assert state(replica) == state(primary)
            replica.call("REPLICAOF", "NO", "ONE")
            assert sent_again(replica)[:-7] == answers[:-7]


def test_snapshots_are_of_one_instant():
    with Server("subject") as server, server.connect() as connection:
        for number in range(3000):
            add(connection, f"IDMP p{number % 7} n{number}")
        connection.call("XCFGSET", "s", "IDMP-MAXSIZE", 5000)
        for number in range(3000):
            add(connection, f"IDMP p{number % 7} n{number}")
        before = facts(connection)
        connection.call("BGSAVE")
        for number in range(3000):
            add(connection, f"IDMP p{number % 9} m{number}")
        eventually(lambda: b"rdb_bgsave_in_progress:0" in connection.call("INFO", "persistence"), "it is written")
        connection.call("CONFIG", "SET", "save", "")
        server.kill()
        server.start()
        with server.connect() as again:
            assert facts(again)[1] == before[1] and facts(again)[3] >= before[3]


def test_events_rights_and_watchers(client, subject):
    with subject.connect() as other, subject.connect() as listener:
        client.call("CONFIG", "SET", "notify-keyspace-events", "KEA")
        add(client, "IDMP p a")
        client.call("WATCH", "s")
        add(other, "IDMP p a")
        other.call("XCFGSET", "s", "IDMP-DURATION", 50)
        client.call("MULTI")
        client.call("PING")
        assert client.call("EXEC") is not None
        client.call("CONFIG", "SET", "notify-keyspace-events", "")
        client.call("ACL", "SETUSER", "reader", "on", "nopass", "%R~*", "+@all")
        listener.call("AUTH", "reader", "x")
        for words in ("XADD s IDMP p a * f v", "XCFGSET s IDMP-DURATION 5", "XIDMPRECORD s p a 1-1"):
            assert said(listener, words).startswith("NOPERM"), words
        client.call("ACL", "DELUSER", "reader")
    for name in ("XCFGSET", "XIDMPRECORD"):
        assert client.call("COMMAND", "GETKEYS", name, "s", "a", "b", "1-1") == [b"s"]
