"""DEBUG's subcommands, byte for byte where the reply does not depend on how a server is built."""

import re

import pytest

from support.resp import Connection
from support.servers import Server

SAME = """
SDSLEN h
SDSLEN none
REPLICATE replica set a b
REPLICATE
SET-SKIP-CHECKSUM-VALIDATION 0
SET-SKIP-CHECKSUM-VALIDATION
FAKE x
DIGEST-VALUE
SCRIPT LIST
SCRIPT none
SCRIPT
INTERNAL_SECRET
KEYSIZES-HIST-ASSERT 0
KEYSIZES-HIST-ASSERT
CLIENT-EVICTION
STRINGMATCH-TEST
STRINGMATCH-TEST x
STRINGMATCH-LEN 1 2
MARK-INTERNAL-CLIENT UNMARK
MARK-INTERNAL-CLIENT x
CLUSTERLINK KILL all x
CLUSTERLINK KILL all
SLEEP 0
SLEEP x
SLEEP
HELP x
POPULATE 5 p -1
POPULATE -5
POPULATE x
POPULATE 5 p 3
ERROR a b
SET-ACTIVE-EXPIRE 1
LOG x
LOG
CHANGE-REPL-ID x
REPL-PAUSE clear
REPL-PAUSE x
DICT-RESIZING 1
DICT-RESIZING
PAUSE-CRON 0
PAUSE-CRON
AOF-FLUSH-SLEEP 0
AOF-FLUSH-SLEEP
SET-DISABLE-DENY-SCRIPTS 0
SET-DISABLE-DENY-SCRIPTS
RELOAD x
LOADAOF x
LEAK x
PROTOCOL x
DROP-CLUSTER-PACKET-FILTER -1
DROP-CLUSTER-PACKET-FILTER x
DROP-CLUSTER-PACKET-FILTER
QUICKLIST ll
QUICKLIST ll 1
QUICKLIST l
QUICKLIST s
QUICKLIST none
OBJECT s fast
LISTPACK l
LISTPACK h
LISTPACK hh
LISTPACK none
HTSTATS 99
HTSTATS x
HTSTATS-KEY s
HTSTATS-KEY l
HTSTATS-KEY none
QUICKLIST-PACKED-THRESHOLD 1b
QUICKLIST-PACKED-THRESHOLD 1
QUICKLIST-PACKED-THRESHOLD 200b
QUICKLIST-PACKED-THRESHOLD 4gb
QUICKLIST-PACKED-THRESHOLD x
QUICKLIST-PACKED-THRESHOLD 0
"""
DATA = [
    ("SET", "s", "text"),
    ("HSET", "h", "field", "value"),
    ("HSET", "hh", "field", "x" * 100),
    ("RPUSH", "l", *range(10)),
    ("RPUSH", "ll", *["x" * 100] * 1000),
]


@pytest.fixture(scope="module")
def both():
    with Server("subject") as subject, Server("oracle") as oracle:
        with subject.connect() as ours, oracle.connect() as theirs:
            for connection in (ours, theirs):
                connection.pipeline(DATA)
            yield ours, theirs


@pytest.mark.parametrize("line", [line for line in SAME.split("\n") if line])
def test_replies_are_the_same(both, line):
    ours, theirs = both
    for connection in both:
        connection.pipeline(DATA[:1])
        if not connection.call("EXISTS", "ll"):
            # LOADAOF without a file has removed everything.
            connection.pipeline(DATA)
    assert ours("DEBUG", *line.split()).raw == theirs("DEBUG", *line.split()).raw


def test_help_names_the_same_subcommands(both):
    usages = [
        [line.text() for line in connection("DEBUG", "HELP").value if not line.text().startswith(" ")]
        for connection in both
    ]
    assert usages[0] == usages[1]


def test_objects_of_lists_tell_of_their_nodes(both):
    def fields(connection):
        text = connection("DEBUG", "OBJECT", "ll").text()
        assert int(re.search(r"ql_nodes:(\d+)", text)[1]) * 76.93 == pytest.approx(1000, rel=0.1)
        return [field.split(":")[0] for field in text.split(" ")[1:]]

    assert fields(both[0]) == fields(both[1])
    assert "ql_nodes" not in both[0]("DEBUG", "OBJECT", "l").text()


def test_sizes_of_tables(both):
    for connection in both:
        text = connection.call("DEBUG", "HTSTATS-KEY", "hh").decode()
        assert "[Dictionary HT]" not in text and " number of elements: 1\n" in text
        size = connection.call("DBSIZE")
        text = connection.call("DEBUG", "HTSTATS", "0").decode()
        assert sum(map(int, re.findall(r" number of elements: (\d+)\n", text.split("[Expires HT]")[0]))) == size


def test_scripts_may_debug_where_they_are_allowed_to(both):
    script = "return redis.call('DEBUG', 'SLEEP', '0')"
    for connection in both:
        assert connection("EVAL", script, 0).is_error
        connection.call("DEBUG", "SET-DISABLE-DENY-SCRIPTS", 1)
        assert connection.call("EVAL", script, 0) == b"OK"
        connection.call("DEBUG", "SET-DISABLE-DENY-SCRIPTS", 0)
        assert connection("EVAL", script, 0).is_error


def test_checksums_may_be_left_unchecked(both):
    for connection in both:
        payload = connection.call("DUMP", "s")
        payload = payload[:-1] + bytes([payload[-1] ^ 1])
        assert connection("RESTORE", "copy", 0, payload).is_error
        connection.call("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1)
        assert connection.call("RESTORE", "copy", 0, payload) == b"OK"
        connection.call("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 0)
        assert connection("RESTORE", "copy", 0, payload, "REPLACE").is_error
        connection.call("DEL", "copy")


def test_the_background_rests(both):
    for connection in both:
        connection.call("DEBUG", "PAUSE-CRON", 1)
        connection.call("SET", "gone", "soon", "PX", 1)
        connection.call("DEBUG", "SLEEP", "0.5")
        expired = lambda: int(re.search(rb"expired_keys:(\d+)", connection.call("INFO", "stats"))[1])
        before = expired()
        assert connection.call("DBSIZE") >= 1 and connection("GET", "gone").is_null
        assert expired() == before + 1
        connection.call("DEBUG", "PAUSE-CRON", 0)


def test_clients_by_what_they_take(both):
    """redis-server shows the client with a large argument one bucket higher, for it keeps a query buffer beside."""
    tables = []
    for connection in both:
        with Connection(connection.address) as large:
            large("MULTI")
            large("SET", "key", "x" * 1_500_000)
            connection("CLIENT", "NO-EVICT", "on")
            connection("CONFIG", "SET", "maxmemory-clients", "100mb")
            table = connection.call("DEBUG", "CLIENT-EVICTION").decode()
            connection("CONFIG", "SET", "maxmemory-clients", "0")
        assert table.count("clients: 0\n") == 18
        assert 1_500_000 < int(re.search(r"tot-mem: *(\d+), clients: 1\n", table)[1]) < 4_000_000
        tables.append(re.sub(r"tot-mem: *\d+, clients: \d", "", table))
    assert tables[0] == tables[1]
