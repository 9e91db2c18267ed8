"""Values of sketches travel both ways between this server and a redis-server with modules: in payloads, dumps,
logs and to replicas."""

import pytest

from support.modules import DIRECTIONS, start
from support.rdbfile import crc64
from support.state import read_key
from support.waiting import eventually, until_written

FILL = [
    "BF.RESERVE small 0.01 10",
    *(f"BF.MADD small {' '.join(f'i{n}-{m}' for m in range(7))}" for n in range(20)),
    "BF.RESERVE large 0.0001 200000 EXPANSION 4",
    *(f"BF.MADD large {' '.join(f'i{n}-{m}' for m in range(50))}" for n in range(20)),
    "BF.RESERVE fixed 0.001 5 NONSCALING",
    "BF.MADD fixed a b c d e",
    "BF.RESERVE empty 0.001 5",
    "CF.RESERVE cuckoo 8 BUCKETSIZE 1 EXPANSION 2",
    *(f"CF.INSERT cuckoo ITEMS {' '.join(f'i{n}-{m}' for m in range(7))}" for n in range(20)),
    *(f"CF.DEL cuckoo i{n}-3" for n in range(20)),
    "CF.RESERVE large-cuckoo 100000",
    *(f"CF.INSERT large-cuckoo ITEMS {' '.join(f'i{n}-{m}' for m in range(50))}" for n in range(20)),
    "CF.RESERVE full-cuckoo 4 EXPANSION 0",
    "CF.INSERT full-cuckoo ITEMS a b c d e f",
    "CF.RESERVE empty-cuckoo 10",
    "CMS.INITBYDIM counts 2000 5",
    *(f"CMS.INCRBY counts {' '.join(f'i{n}-{m} {n * m + 1}' for m in range(50))}" for n in range(20)),
    "CMS.INITBYDIM few 3 2",
    "CMS.INCRBY few a 1 b 2",
    "CMS.INITBYPROB zeros 0.00001 0.01",
    "CMS.INITBYDIM sum 2000 5",
    "CMS.MERGE sum 2 counts sum WEIGHTS 3 1",
    "TOPK.RESERVE top 10 50 4 0.9",
    *(f"TOPK.ADD top {' '.join(f'i{n * m % 37}' for m in range(50))}" for n in range(20)),
    "TOPK.RESERVE pair 2 3 2 0.9",
    "TOPK.INCRBY pair a 1 b 2",
    "TOPK.RESERVE places 5",
    "TDIGEST.CREATE digest",
    *(f"TDIGEST.ADD digest {' '.join(repr((n * 50 + m) ** 0.5 % 7) for m in range(50))}" for n in range(40)),
    "TDIGEST.QUANTILE digest 0.1 0.5",
    "TDIGEST.CREATE two COMPRESSION 1",
    "TDIGEST.ADD two 1 2.5",
    "TDIGEST.MERGE merged 2 digest two COMPRESSION 20",
    "TDIGEST.CREATE none COMPRESSION 7",
]

# After a replica has the rest.
MORE = [
    "CMS.INCRBY counts a 5 b 7",
    "CMS.INITBYPROB later 0.01 0.3",
    "CMS.MERGE sum 1 counts",
    "TOPK.RESERVE single 3 20 2 1",
    "TOPK.ADD single a b c d a",
    f"TDIGEST.ADD digest {' '.join(str(n) for n in range(700))}",
    "TDIGEST.RANK digest 5 7",
    f"TDIGEST.ADD digest {' '.join(str(n / 3) for n in range(700))}",
    "TDIGEST.CDF digest 5 7",
]


def fill(connection):
    for line in FILL:
        reply = connection(*line.split())
        assert not reply.is_error, (line, reply)


def picture(connection):
    """What every key holds."""
    keys = sorted(connection.call("KEYS", "*"))
    return {key: read_key(connection, key, connection("TYPE", key).value) for key in keys}


def payloads(connection):
    return {key: connection.call("DUMP", key) for key in connection.call("KEYS", "*")}


@pytest.mark.parametrize("writer, reader", DIRECTIONS)
@pytest.mark.parametrize("compression", ["yes", "no"])
def test_payloads(writer, reader, compression, start_server):
    writer = start(start_server, writer).connect()
    reader = start(start_server, reader).connect()
    fill(writer)
    expected = picture(writer)
    writer.call("CONFIG", "SET", "rdbcompression", compression)
    for key, payload in payloads(writer).items():
        assert reader.call("RESTORE", key, 0, payload) == b"OK"
    assert picture(reader) == expected


@pytest.mark.parametrize("writer, reader", DIRECTIONS)
@pytest.mark.parametrize("compression", ["yes", "no"])
def test_dumps(writer, reader, compression, start_server):
    writer = start(start_server, writer)
    with writer.connect() as connection:
        fill(connection)
        expected = picture(connection)
        connection.call("CONFIG", "SET", "rdbcompression", compression)
        connection.call("SAVE")
    writer.kill()
    with start(start_server, reader, directory=writer.directory).connect() as connection:
        assert picture(connection) == expected


@pytest.mark.parametrize("writer, reader", DIRECTIONS)
@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_logs(writer, reader, preamble, start_server):
    """Rewritten in the middle, as a dump or as commands."""
    options = {"appendonly": "yes", "aof-use-rdb-preamble": preamble}
    writer = start(start_server, writer, options=options)
    with writer.connect() as connection:
        fill(connection)
        connection.call("BGREWRITEAOF")
        until_written(connection)
        connection.call("BF.MADD", "small", "after", "the", "rewrite")
        connection.call("CMS.INCRBY", "counts", "after", 5, "rewrite", 7)
        expected = picture(connection)
    writer.terminate()
    with start(start_server, reader, options=options, directory=writer.directory).connect() as connection:
        assert picture(connection) == expected


@pytest.mark.parametrize("primary, replica", DIRECTIONS)
def test_replicas(primary, replica, start_server):
    source, replica = start(start_server, primary), start(start_server, replica)
    with source.connect() as connection, replica.connect() as other:
        fill(connection)
        other.call("REPLICAOF", "127.0.0.1", source.port)
        eventually(lambda: b"master_link_status:up" in other.call("INFO", "replication"), "no link")
        fill_more = [*FILL[1:5], "BF.ADD new item", "BF.INSERT other CAPACITY 3 ITEMS a b c d e f", *MORE]
        fill_more += ["CF.ADD new-cuckoo item", "CF.DEL cuckoo i1-1", "CF.INSERTNX cuckoo ITEMS a b c d e f g h"]
        fill_more += ["CF.COMPACT cuckoo"] if primary == "subject" else []
        if primary == "oracle":
            # It compresses a t-digest that is asked, and does not tell its replicas.
            fill_more = [line for line in fill_more if not line.startswith(("TDIGEST.RANK", "TDIGEST.CDF"))]
        for line in fill_more:
            connection(*line.split())
        expected = picture(connection)
        eventually(lambda: picture(other) == expected, "the replica has other data")


def test_copies_are_their_own(start_server):
    connection = start(start_server, "subject").connect()
    fill(connection)
    for key, add in ((b"small", "BF.MADD"), (b"large", "BF.MADD"), (b"cuckoo", "CF.ADD"), (b"large-cuckoo", "CF.ADD")):
        before = connection.call("DUMP", key)
        assert connection.call("COPY", key, "copy", "REPLACE") == 1
        assert connection.call("DUMP", "copy") == before
        connection.call(add, "copy", "more")
        assert connection.call("DUMP", key) == before != connection.call("DUMP", "copy")


TOUCHES = {
    "small": [["BF.MADD", "r", "a", "b"], ["BF.EXISTS", "r", "a"], ["BF.SCANDUMP", "r", 0]],
    "fixed": [["BF.MADD", "r", "a", "b"], ["BF.EXISTS", "r", "a"], ["BF.SCANDUMP", "r", 0]],
    "empty": [["BF.MADD", "r", "a", "b"], ["BF.EXISTS", "r", "a"], ["BF.SCANDUMP", "r", 0]],
    "cuckoo": [["CF.INSERT", "r", "ITEMS", "a", "b"], ["CF.DEL", "r", "c"], ["CF.SCANDUMP", "r", 0]],
    "full-cuckoo": [["CF.INSERTNX", "r", "ITEMS", "a", "b"], ["CF.DEL", "r", "c"], ["CF.COUNT", "r", "a"]],
    "empty-cuckoo": [["CF.INSERT", "r", "ITEMS", "a", "b"], ["CF.COMPACT", "r"], ["CF.SCANDUMP", "r", 1]],
    "few": [["CMS.INCRBY", "r", "a", 5], ["CMS.QUERY", "r", "b"], ["CMS.MERGE", "r", 2, "r", "r"]],
    "pair": [["TOPK.INCRBY", "r", "x", 9, "y", 9], ["TOPK.COUNT", "r", "x", "a"], ["TOPK.LIST", "r", "WITHCOUNT"]],
    "two": [["TDIGEST.ADD", "r", *range(30)], ["TDIGEST.QUANTILE", "r", 0.5], ["TDIGEST.RANK", "r", 2]],
}


@pytest.mark.parametrize("key", TOUCHES)
def test_payloads_that_lie_are_refused(key, start_server):
    """Each byte changed, the checksum made right: refused, or a value that works."""
    connection = start(start_server, "subject").connect()
    fill(connection)
    payload = connection.call("DUMP", key)
    body = payload[:-8]
    requests = []
    for place in range(1, len(body) - 2):
        for change in (0x01, 0x80, 0xFF):
            lying = bytearray(body)
            lying[place] ^= change
            requests.append(["RESTORE", "r", 0, bytes(lying) + crc64(bytes(lying)).to_bytes(8, "little"), "REPLACE"])
            requests += TOUCHES[key]
    for reply in connection.pipeline(requests)[:: 1 + len(TOUCHES[key])]:
        assert reply.raw == b"+OK\r\n" or reply.text() == "ERR Bad data format", reply


def test_chance_is_the_same_everywhere(start_server):
    """What comes after a payload, a full synchronisation or a rewritten log leads to the same sketch."""
    options = {"appendonly": "yes", "aof-use-rdb-preamble": "no"}
    source, replica = start(start_server, "subject", options=options), start(start_server, "subject")
    with source.connect() as connection, replica.connect() as other:
        fill(connection)
        other.call("REPLICAOF", "127.0.0.1", source.port)
        eventually(lambda: b"master_link_status:up" in other.call("INFO", "replication"), "no link")
        connection.call("BGREWRITEAOF")
        until_written(connection)
        connection.call("RESTORE", "again", 0, connection.call("DUMP", "top"))
        for key in ("top", "again"):
            for number in range(50):
                connection.call("TOPK.INCRBY", key, *(word for n in range(20) for word in (f"n{n * number % 41}", n)))
        expected = payloads(connection)
        assert expected[b"top"] == expected[b"again"]
        eventually(lambda: payloads(other) == expected, "the replica has other data")
    source.terminate()
    with start(start_server, "subject", options=options, directory=source.directory).connect() as connection:
        assert payloads(connection) == expected


def test_unions(start_server):
    """MANTISSA.BF.MERGE: the bits of all, as if every item had been added to one filter."""
    connection = start(start_server, "subject").connect()
    items = [f"i{n}" for n in range(60)]
    for key, added in (("a", items[:25]), ("b", items[20:40]), ("c", items[40:]), ("all", items)):
        connection.call("BF.RESERVE", key, "0.01", 100)
        connection.call("BF.MADD", key, *added)
    expected = connection.call("BF.SCANDUMP", "all", 1)
    assert connection.call("MANTISSA.BF.MERGE", "union", 3, "a", "b", "c") == b"OK"
    assert connection.call("BF.SCANDUMP", "union", 1) == expected
    assert connection.call("MANTISSA.BF.MERGE", "a", 2, "b", "c") == b"OK"
    assert connection.call("BF.SCANDUMP", "a", 1) == expected
    assert connection.call("BF.CARD", "b") == 20
    connection.call("BF.RESERVE", "other", "0.01", 101)
    connection.call("SET", "text", "x")
    for words, error in (
        (["u", 2, "a", "other"], "ERR filters of different shapes have no union"),
        (["other", 1, "a"], "ERR filters of different shapes have no union"),
        (["u", 1, "missing"], "ERR not found"),
        (["u", 1, "text"], "WRONGTYPE Operation against a key holding the wrong kind of value"),
        (["text", 1, "a"], "WRONGTYPE Operation against a key holding the wrong kind of value"),
        (["u", 2, "a"], "ERR syntax error"),
        (["u", 0, "a"], "ERR numkeys should be greater than 0"),
    ):
        assert connection("MANTISSA.BF.MERGE", *words).text() == error
    assert connection.call("EXISTS", "u") == 0
