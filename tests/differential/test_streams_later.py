"""What streams have from Redis 8.4 to 8.10: XREADGROUP with CLAIM, MAXCOUNT and MAXSIZE, XNACK. No server with them is
at hand, so the replies are those of Redis's documentation and tests."""

import contextlib
import pathlib
import select
import time

import pytest

from support.rdbfile import version_of
from support.servers import PATIENCE_S, Server, subject_is_oracle
from support.state import differences, whole_state
from support.waiting import eventually, until_written

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has none of them")

FATAL_COUNT = 2**63 - 1


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(request, subject):
    with subject.connect(request.param) as connection:
        connection.call("FLUSHALL")
        yield connection


def said(reply):
    return reply.text() if reply.is_error else reply.plain()


def read(connection, *words, group="g"):
    """What XREADGROUP delivers: for each key its entries."""
    command = ["XREADGROUP", "GROUP", group, *" ".join(map(str, words)).split()]
    return by_key(connection(*command))


def by_key(reply):
    assert not reply.is_error, reply.text()
    found = reply.plain()
    if found is None:
        return None
    pairs = found.items() if isinstance(found, dict) else found
    if pairs and not isinstance(found, dict) and isinstance(found[0], bytes):
        pairs = zip(found[::2], found[1::2])
    return {key.decode(): entries for key, entries in pairs}


def ids(entries):
    return [entry[0].decode() for entry in entries]


def fill(connection, count, key="s", group="g"):
    for number in range(1, count + 1):
        connection.call("XADD", key, f"{number}-0", "f", f"v{number}")
    connection.call("XGROUP", "CREATE", key, group, 0)


def pending(connection, key="s", group="g"):
    """Identifier, consumer and number of deliveries of each pending entry."""
    entries = connection.call("XPENDING", key, group, "-", "+", 100)
    return [(entry[0].decode(), entry[1].decode(), entry[3]) for entry in entries]


def make_idle(connection, *entries, idle_ms, consumer="other", key="s", group="g"):
    for entry in entries:
        connection.call("XCLAIM", key, group, consumer, 0, entry, "IDLE", idle_ms, "FORCE", "JUSTID")


def test_idle_entries_are_claimed_before_new_ones(client):
    fill(client, 5)
    client.call("XREADGROUP", "GROUP", "g", "a", "COUNT", 3, "STREAMS", "s", ">")
    make_idle(client, "3-0", idle_ms=90_000, consumer="a")
    make_idle(client, "1-0", idle_ms=70_000, consumer="a")
    entries = read(client, "b CLAIM 60000 STREAMS s >")["s"]
    assert ids(entries) == ["3-0", "1-0", "4-0", "5-0"]
    assert [len(entry) for entry in entries] == [4] * 4
    assert entries[0][1] == [b"f", b"v3"] and 90_000 <= entries[0][2] < 150_000 and entries[0][3] == 1
    assert entries[2][1:] == [[b"f", b"v4"], 0, 0]
    assert pending(client) == [("1-0", "b", 2), ("2-0", "a", 1), ("3-0", "b", 2), ("4-0", "b", 1), ("5-0", "b", 1)]
    assert read(client, "b CLAIM 60000 STREAMS s >") is None
    assert ids(read(client, "b STREAMS s 0")["s"]) == ["1-0", "3-0", "4-0", "5-0"]
    # Its own entries are claimed as well, and a count is that of both.
    make_idle(client, "4-0", "5-0", idle_ms=80_000, consumer="b")
    assert ids(read(client, "b COUNT 1 CLAIM 60000 STREAMS s >")["s"]) == ["4-0"]
    client.call("XADD", "s", "6-0", "f", "v")
    entries = read(client, "c COUNT 2 CLAIM 60000 STREAMS s >")["s"]
    assert ids(entries) == ["5-0", "6-0"]


def test_claims_leave_out_what_is_gone_and_other_ids(client):
    fill(client, 4)
    client.call("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
    make_idle(client, *(f"{number}-0" for number in range(1, 5)), idle_ms=1000, consumer="a")
    client.call("XDEL", "s", "1-0", "2-0")
    assert read(client, "a CLAIM 500 COUNT 1 STREAMS s 0")["s"][0][0] == b"1-0"
    make_idle(client, "3-0", "4-0", idle_ms=1000, consumer="a")
    assert ids(read(client, "b COUNT 1 CLAIM 500 STREAMS s >")["s"]) == ["3-0"]
    assert ids(read(client, "b CLAIM 500 STREAMS s >")["s"]) == ["4-0"]
    # What is gone stays pending until somebody looks for it by name.
    assert [entry[:2] for entry in pending(client)] == [("1-0", "a"), ("2-0", "a"), ("3-0", "b"), ("4-0", "b")]
    assert read(client, "b CLAIM 0 STREAMS s >")["s"][0][0] == b"3-0"


def test_claims_and_noack(client):
    fill(client, 2)
    client.call("XREADGROUP", "GROUP", "g", "a", "COUNT", 1, "STREAMS", "s", ">")
    make_idle(client, "1-0", idle_ms=1000, consumer="a")
    assert ids(read(client, "b NOACK CLAIM 500 STREAMS s >")["s"]) == ["1-0", "2-0"]
    assert pending(client) == [("1-0", "b", 2)]


def test_errors_of_reading(client):
    fill(client, 1)
    for words, error in [
        ("CLAIM x", "ERR min-idle-time is not an integer or out of range"),
        ("CLAIM -1", "ERR min-idle-time must be a positive integer"),
        ("MAXCOUNT 0", "ERR MAXCOUNT must be a positive integer"),
        ("MAXCOUNT x", "ERR value is not an integer or out of range"),
        ("MAXSIZE -5", "ERR MAXSIZE must be a positive integer"),
        ("COUNT 5 MAXCOUNT 4", "ERR MAXCOUNT must be greater than or equal to COUNT"),
        ("MAXCOUNT 1 COUNT 2", "ERR MAXCOUNT must be greater than or equal to COUNT"),
    ]:
        reply = client("XREADGROUP", "GROUP", "g", "a", *words.split(), "STREAMS", "s", ">")
        assert said(reply) == error, words
        if "CLAIM" not in words:
            assert said(client("XREAD", *words.split(), "STREAMS", "s", "0")) == error, words
    error = "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead."
    assert said(client("XREAD", "CLAIM", 5, "STREAMS", "s", 0)) == error
    assert said(client("XREAD", "COUNT", 0, "MAXCOUNT", 1, "STREAMS", "s", 0)) is not None


def test_waiting_until_entries_are_idle(subject):
    with subject.connect() as client, subject.connect() as reader:
        client.call("FLUSHALL")
        fill(client, 2)
        client.call("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
        began = time.monotonic()
        entries = read(reader, "b BLOCK 30000 COUNT 1 CLAIM 300 STREAMS s >")["s"]
        assert ids(entries) == ["1-0"] and entries[0][2] >= 300 and time.monotonic() - began < 10
        # Somebody is later than the first one to wait for; another acknowledges what was waited for.
        reader.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", "30000", "CLAIM", "400", "STREAMS", "s", ">")
        eventually(lambda: b"blocked_clients:1" in client.call("INFO", "clients"), "the reader waits")
        client.call("XACK", "s", "g", "2-0")
        [(key, entries)] = by_key(reader.read()).items()
        assert key == "s" and ids(entries) == ["1-0"] and entries[0][2] >= 400
        # A new entry comes first, a time-out without any.
        reader.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", "30000", "CLAIM", "20000", "STREAMS", "s", ">")
        eventually(lambda: b"blocked_clients:1" in client.call("INFO", "clients"), "the reader waits")
        client.call("XADD", "s", "9-0", "f", "v")
        assert [len(entry) for entry in by_key(reader.read())["s"]] == [4]
        assert read(reader, "c BLOCK 50 CLAIM 20000 STREAMS s >") is None
        assert read(reader, f"c BLOCK 20 CLAIM {FATAL_COUNT} STREAMS s >") is None
        # Somebody else makes an entry idle.
        reader.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "CLAIM", "600000", "STREAMS", "s", ">")
        eventually(lambda: b"blocked_clients:1" in client.call("INFO", "clients"), "the reader waits")
        client.call("XCLAIM", "s", "g", "a", 0, "1-0", "IDLE", 3_600_000, "JUSTID")
        assert ids(by_key(reader.read())["s"]) == ["1-0"]


def test_many_readers_wait_for_entries_to_be_idle(subject):
    """Each has a time of its own at which all of them look again."""
    with subject.connect() as client, contextlib.ExitStack() as stack:
        client.call("FLUSHALL")
        fill(client, 1)
        client.call("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
        readers = [stack.enter_context(subject.connect()) for _ in range(200)]
        for number, reader in enumerate(readers):
            claim = ["CLAIM", "200", "STREAMS", "s", ">"]
            reader.send("XREADGROUP", "GROUP", "g", f"c{number}", "BLOCK", "0", *claim)
        took = []
        # One has it, then another 200 ms later.
        while len(took) < 3:
            ready, _, _ = select.select([reader.socket for reader in readers], [], [], PATIENCE_S)
            assert ready
            took += [reader for reader in readers if reader.socket in ready]
            readers = [reader for reader in readers if reader not in took]
        assert all(ids(by_key(reader.read())["s"]) == ["1-0"] for reader in took)

def test_waiting_in_several_streams(subject):
    with subject.connect() as client, subject.connect() as reader:
        client.call("FLUSHALL")
        keys = [f"s{number}" for number in range(8)]
        for key in keys:
            fill(client, 1, key)
            client.call("XREADGROUP", "GROUP", "g", "a", "STREAMS", key, ">")
        make_idle(client, "1-0", idle_ms=500, consumer="a", key="s5")
        began = time.monotonic()
        found = read(reader, "b BLOCK 0 CLAIM 1000 STREAMS", *keys, *(">" for _ in keys))
        assert list(found) == ["s5"] and time.monotonic() - began < 10
        found = read(reader, "b BLOCK 0 CLAIM 1000 STREAMS", *keys, *(">" for _ in keys))
        assert "s5" not in found and found


def test_total_count_and_size(client):
    for key in ("a", "b", "c"):
        fill(client, 4, key)
    every = "STREAMS a b c 0 0 0".split()
    counts = lambda *words: {key: len(found) for key, found in by_key(client("XREAD", *words, *every)).items()}
    assert counts("MAXCOUNT", 6) == {"a": 4, "b": 2}
    assert counts("MAXCOUNT", 5, "COUNT", 2) == {"a": 2, "b": 2, "c": 1}
    assert counts("COUNT", 2, "MAXCOUNT", 100) == {"a": 2, "b": 2, "c": 2}
    assert counts("MAXSIZE", 1) == {"a": 1}
    assert counts("MAXSIZE", 10**9) == {"a": 4, "b": 4, "c": 4}
    whole = len(client("XREAD", "STREAMS", "a", 0).raw)
    assert whole - 30 < len(client("XREAD", "MAXSIZE", whole - 30, *every).raw) < whole + 60
    entry = len(client("XRANGE", "a", "-", "+", "COUNT", 1).raw) - len("*1\r\n")
    assert counts("MAXSIZE", 4 * entry + 20) in ({"a": 4}, {"a": 4, "b": 1})
    group = lambda *words: read(client, "x", *words, "STREAMS a b c > > >")
    assert {key: ids(found) for key, found in group("MAXCOUNT 3 COUNT 2").items()} == {
        "a": ["1-0", "2-0"], "b": ["1-0"],
    }  # fmt: skip
    assert {key: ids(found) for key, found in group("MAXSIZE 1").items()} == {"a": ["3-0"]}
    assert len(client.call("XPENDING", "b", "g", "-", "+", 10)) == 1
    make_idle(client, "1-0", "2-0", idle_ms=1000, key="a")
    found = group("CLAIM 500 MAXCOUNT 3")
    assert {key: ids(entries) for key, entries in found.items()} == {"a": ["1-0", "2-0", "4-0"]}
    found = read(client, "x MAXCOUNT 3 STREAMS a b 0 0")
    assert {key: ids(entries) for key, entries in found.items()} == {"a": ["1-0", "2-0", "3-0"]}
    found = read(client, "x MAXSIZE 1 STREAMS a b 0 0")
    assert {key: ids(entries) for key, entries in found.items()} == {"a": ["1-0"]}


def test_entries_are_given_back(client):
    fill(client, 4)
    read(client, "a COUNT 3 STREAMS s >")
    nack = lambda *words: said(client("XNACK", "s", "g", *" ".join(map(str, words)).split()))
    assert nack("FAIL IDS 2 2-0 4-0") == 1
    assert nack("SILENT IDS 1 1-0") == 1
    assert nack("fatal ids 1 3-0") == 1
    assert pending(client) == [("1-0", "", 0), ("2-0", "", 1), ("3-0", "", FATAL_COUNT)]
    assert client.call("XPENDING", "s", "g", "IDLE", 10**9, "-", "+", 9)[0] == [b"1-0", b"", -1, 0]
    assert client.call("XPENDING", "s", "g") == [3, b"1-0", b"3-0", []]
    assert client.call("XPENDING", "s", "g", "-", "+", 9, "a") == []
    full = client("XINFO", "STREAM", "s", "FULL").plain()
    full = full if isinstance(full, dict) else dict(zip(full[::2], full[1::2]))
    [group] = full[b"groups"]
    group = group if isinstance(group, dict) else dict(zip(group[::2], group[1::2]))
    assert list(group)[4:7] == [b"pel-count", b"nacked-count", b"pending"] and group[b"nacked-count"] == 3
    assert group[b"pending"][0] == [b"1-0", b"", 0, 0]
    # Those come first that were given back first, then what is idle; whatever the idle time asked for.
    entries = read(client, "b COUNT 3 CLAIM 1000000 STREAMS s >")["s"]
    assert ids(entries) == ["2-0", "1-0", "3-0"] and [entry[3] for entry in entries] == [1, 0, FATAL_COUNT]
    assert min(entry[2] for entry in entries) > 10**12
    assert pending(client) == [("1-0", "b", 1), ("2-0", "b", 2), ("3-0", "b", FATAL_COUNT)]
    assert nack("FATAL IDS 1 1-0 RETRYCOUNT 7") == 1 and nack("RETRYCOUNT 5 IDS 1 2-0 FAIL FORCE").startswith("ERR")
    assert nack("FAIL RETRYCOUNT 5 IDS 2 4-0 9-0 FORCE") == 1
    assert pending(client) == [("1-0", "", 7), ("2-0", "b", 2), ("3-0", "b", FATAL_COUNT), ("4-0", "", 5)]
    # XCLAIM, XAUTOCLAIM and XACK take them as they are.
    assert ids(client.call("XCLAIM", "s", "g", "c", 10**9, "1-0", "2-0")) == ["1-0"]
    assert ids(client.call("XAUTOCLAIM", "s", "g", "c", 10**9, 0)[1]) == ["4-0"]
    assert nack("SILENT IDS 2 1-0 4-0") == 2 and client.call("XACK", "s", "g", "1-0", "4-0") == 2
    assert [entry[:2] for entry in pending(client)] == [("2-0", "b"), ("3-0", "b")]
    assert nack("FAIL IDS 1 2-0") == 1 and client.call("XGROUP", "DELCONSUMER", "s", "g", "b") == 1
    assert pending(client) == [("2-0", "", 2)]
    client.call("XGROUP", "SETID", "s", "g", 0)
    assert ids(read(client, "d COUNT 2 STREAMS s >")["s"]) == ["1-0", "2-0"]
    assert pending(client) == [("1-0", "d", 1), ("2-0", "d", 1)]
    assert nack("FAIL IDS 2 1-0 2-0") == 2
    client.call("XDEL", "s", "1-0")
    assert client.call("XAUTOCLAIM", "s", "g", "d", 0, 0, "JUSTID") == [b"0-0", [b"2-0"], [b"1-0"]]


def test_errors_of_giving_back(client):
    fill(client, 1)
    nack = lambda *words: said(client("XNACK", *" ".join(map(str, words)).split()))
    for words, error in [
        ("none g FAIL IDS 1 1-0", "NOGROUP No such key 'none' or consumer group 'g'"),
        ("s h BAD IDS x 1-0", "NOGROUP No such key 's' or consumer group 'h'"),
        ("s g BAD IDS 1 1-0", "ERR mode must be SILENT, FAIL, or FATAL"),
        ("s g FAIL IDS 0 1-0", "ERR numids must be a positive integer"),
        ("s g FAIL IDS x 1-0", "ERR numids must be a positive integer"),
        ("s g FAIL IDS 2 1-0", "ERR number of IDs doesn't match numids"),
        ("s g FAIL IDS 1 1-0 2-0", "ERR Unrecognized XNACK option '2-0'"),
        ("s g FAIL IDS 1 1-0 RETRYCOUNT -1", "ERR Invalid RETRYCOUNT value, must be >= 0"),
        ("s g FAIL IDS 1 1-0 RETRYCOUNT x", "ERR value is not an integer or out of range"),
        ("s g FAIL IDS 1 1-0 RETRYCOUNT", "ERR Unrecognized XNACK option 'RETRYCOUNT'"),
        ("s g FAIL FORCE RETRYCOUNT 1", "ERR syntax error, expected IDS keyword"),
        ("s g FAIL IDS 1 x", "ERR Invalid stream ID specified as stream command argument"),
        ("s g FAIL IDS 1", "ERR wrong number of arguments for 'xnack' command"),
    ]:
        assert nack(words) == error, words
    client.call("SET", "text", 1)
    assert nack("text g FAIL IDS 1 1-0").startswith("WRONGTYPE")


def test_who_waits_gets_what_is_given_back(subject):
    with subject.connect() as client, subject.connect() as reader:
        client.call("FLUSHALL")
        fill(client, 1)
        read(client, "a STREAMS s >")
        reader.send("XREADGROUP", "GROUP", "g", "b", "BLOCK", "30000", "CLAIM", "1000000", "STREAMS", "s", ">")
        eventually(lambda: b"blocked_clients:1" in client.call("INFO", "clients"), "the reader waits")
        assert client.call("XNACK", "s", "g", "FAIL", "IDS", 1, "1-0") == 1
        assert ids(by_key(reader.read())["s"]) == ["1-0"]


def make_history(connection):
    """A stream of which entries were claimed and given back, and one like those of Redis 8.2."""
    for key in ("s", "old"):
        fill(connection, 9, key)
        read(connection, f"a COUNT 6 STREAMS {key} >")
        make_idle(connection, "1-0", "2-0", idle_ms=1000, key=key)
        read(connection, f"b CLAIM 500 COUNT 2 STREAMS {key} >")
        read(connection, f"d MAXCOUNT 1 CLAIM 100000 STREAMS {key} >")
    for words in ("FAIL IDS 2 5-0 3-0", "FATAL IDS 1 2-0", "SILENT IDS 1 9-0 FORCE", "FAIL IDS 1 5-0 RETRYCOUNT 3"):
        connection.call("XNACK", "s", "g", *words.split())


GIVEN_BACK = ["3-0", "2-0", "9-0", "5-0"]


def expect_history(before, connection):
    found = differences(before, whole_state(connection), near=0)
    assert not found, "\n".join(found[:20])
    assert connection.call("DEBUG", "DIGEST-VALUE", "s") is not None
    connection.call("MULTI")
    connection.call("XREADGROUP", "GROUP", "g", "x", "COUNT", 4, "CLAIM", 10**9, "STREAMS", "s", ">")
    [reply] = connection("EXEC").value
    assert ids(by_key(reply)["s"]) == GIVEN_BACK


def test_histories_outlast_everything(tmp_path):
    options = {"appendonly": "yes", "appendfsync": "no", "aof-use-rdb-preamble": "no"}
    with Server("subject", options=options) as server:
        with server.connect() as connection:
            make_history(connection)
            before = whole_state(connection)
        server.restart()
        with server.connect() as connection:
            assert not differences(before, whole_state(connection), near=0)
            connection.call("BGREWRITEAOF")
            until_written(connection)
        server.restart()
        with server.connect() as connection:
            assert not differences(before, whole_state(connection), near=0)
            connection.call("DEBUG", "RELOAD")
            payload = connection.call("DUMP", "s")
            old = connection.call("DUMP", "old")
            assert (payload[0], payload[-10]) == (27, 14) and (old[0], old[-10]) == (21, 12)
            connection.call("DEL", "s")
            connection.call("RESTORE", "s", 0, payload)
            connection.call("COPY", "s", "t")
            connection.call("DEL", "s")
            connection.call("RENAME", "t", "s")
            expect_history(before, connection)


def test_files_have_the_version_that_they_need(tmp_path):
    version = lambda: version_of(tmp_path / "dump.rdb")
    with Server("subject", options={"dir": str(tmp_path)}) as server, server.connect() as connection:
        fill(connection, 3, "old")
        connection.call("SAVE")
        assert version() == b"0012"
        make_history_of = lambda: connection.call("XNACK", "old", "g", "FAIL", "IDS", 1, "1-0", "FORCE")
        assert make_history_of() == 1
        connection.call("SAVE")
        assert version() == b"0014"
    assert pathlib.Path(tmp_path / "dump.rdb").exists()


def test_replicas_have_the_history():
    with Server("subject") as server, server.connect() as primary:
        primary.call("XADD", "s0", "1-0", "f", "v")
        with Server("subject", options={"replicaof": ["127.0.0.1", server.port]}) as copy, copy.connect() as replica:
            eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
            make_history(primary)
            assert primary.call("WAIT", 1, 10_000) == 1
            found = differences(whole_state(primary), whole_state(replica), near=0)
            assert not found, "\n".join(found[:20])
            with Server("subject", options={"replicaof": ["127.0.0.1", server.port]}) as third:
                with third.connect() as late:
                    eventually(lambda: primary.call("WAIT", 2, 1000) == 2, "the second replica has come")
                    found = differences(whole_state(primary), whole_state(late), near=0)
                    assert not found, "\n".join(found[:20])
            before = whole_state(primary)
            replica.call("REPLICAOF", "NO", "ONE")
            expect_history(before, replica)
