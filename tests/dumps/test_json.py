"""JSON documents travel both ways between this server and a redis-server with RedisJSON: in payloads, dumps, logs and
to replicas."""

import json

import pytest

from support.modules import DIRECTIONS, need_modules, start
from support.rdbfile import crc64
from support.waiting import eventually, until_written

DOCUMENTS = {
    "scalar": 1,
    "text": "é\n\u0000😀",
    "numbers": [0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 0.1, 1e300, 5e-324, 100.0],
    "nested": {"a": {"b": [1, {"c": None}], "": True}},
    "long": [{"id": number, "name": f"name {number}", "tags": ["x"] * (number % 5)} for number in range(3000)],
    "empty": {},
}


def fill(connection):
    for key, document in DOCUMENTS.items():
        assert connection.call("JSON.SET", key, "$", json.dumps(document)) == b"OK"


def texts(connection):
    return {key: connection.call("JSON.GET", key) for key in sorted(connection.call("KEYS", "*"))}


@pytest.mark.parametrize("writer, reader", DIRECTIONS)
def test_payloads(writer, reader, start_server):
    writer = start(start_server, writer).connect()
    reader = start(start_server, reader).connect()
    fill(writer)
    for key in DOCUMENTS:
        assert reader.call("RESTORE", key, 0, writer.call("DUMP", key)) == b"OK"
    assert texts(reader) == texts(writer)


@pytest.mark.parametrize("writer, reader", DIRECTIONS)
@pytest.mark.parametrize("compression", ["yes", "no"])
def test_dumps(writer, reader, compression, start_server):
    writer = start(start_server, writer, options={"rdbcompression": compression})
    with writer.connect() as connection:
        fill(connection)
        expected = texts(connection)
        connection.call("SAVE")
    writer.kill()
    with start(start_server, reader, directory=writer.directory).connect() as connection:
        assert texts(connection) == expected


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
        assert connection.call("JSON.NUMINCRBY", "scalar", "$", 5) == b"[6]"
        assert connection.call("JSON.ARRTRIM", "long", "$", 5, 100) == [96]
        expected = texts(connection)
    writer.terminate()
    with start(start_server, reader, directory=writer.directory, options=options).connect() as connection:
        assert texts(connection) == expected


@pytest.mark.parametrize("primary, replica", DIRECTIONS)
def test_replicas(primary, replica, start_server):
    primary = start(start_server, primary)
    replica = start(start_server, replica)
    with primary.connect() as ours, replica.connect() as theirs:
        fill(ours)
        theirs.call("REPLICAOF", "127.0.0.1", primary.port)
        eventually(lambda: b"master_link_status:up" in theirs.call("INFO", "replication"), "no link")
        ours.call("JSON.MERGE", "nested", "$", '{"new":[1]}')
        ours.call("JSON.ARRPOP", "long", "$", 5)
        eventually(lambda: texts(theirs) == texts(ours), "the replica has other data")


@pytest.mark.parametrize("text", [b"", b"[1", b'"\xff"', b"{", b"[" * 600 + b"]" * 600])
def test_damaged_payloads(text, start_server):
    """A document that is no JSON is refused and changes nothing."""
    need_modules()
    with start(start_server, "subject").connect() as connection:
        connection.call("JSON.SET", "k", "$", "[]")
        head = connection.call("DUMP", "k")[:10]
        length = bytes([len(text)]) if len(text) < 64 else bytes([0x40 | len(text) >> 8, len(text) & 255])
        body = head + b"\x05" + length + text + b"\x00" + b"\x0c\x00"
        reply = connection("RESTORE", "new", 0, body + crc64(body).to_bytes(8, "little"))
        assert reply.is_error and reply.value == b"ERR Bad data format"
        assert connection.call("EXISTS", "new") == 0
