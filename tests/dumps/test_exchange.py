"""Dumps travel both ways: what redis-server wrote loads here with the same digest, and the other way
round."""

import pytest

from support.filling import fill
from support.rdbfile import crc64
from support.servers import Server
from support.state import differences, read_state
from support.waiting import eventually, persistence, until_written

SMALL = {
    "hash-max-listpack-entries": 3,
    "hash-max-listpack-value": 8,
    "list-max-listpack-size": 2,
    "set-max-intset-entries": 3,
    "set-max-listpack-entries": 4,
    "set-max-listpack-value": 8,
    "zset-max-listpack-entries": 3,
    "zset-max-listpack-value": 8,
}
WRITERS = {
    "default": {},
    "small": SMALL,
    "plain": {"rdbcompression": "no"},
    "unchecked": {"rdbchecksum": "no"},
    "deep": {"list-compress-depth": 1, "list-max-listpack-size": 4},
}


def picture(connection):
    """Digest and data of a server."""
    return connection.call("DEBUG", "DIGEST"), read_state(connection, encodings=False)


def assert_same(left, right):
    assert not differences(left[1], right[1])
    assert left[0] == right[0]


def move(writer_kind, reader_kind, start_server, options):
    """Fill one server, save, start the other on the file, compare."""
    writer = start_server(writer_kind, options=options)
    with writer.connect() as connection:
        fill(connection)
        before = picture(connection)
        assert connection.call("SAVE") == b"OK"
    writer.kill()
    reader = start_server(reader_kind, directory=writer.directory)
    with reader.connect() as connection:
        assert_same(before, picture(connection))
    return reader


@pytest.mark.parametrize("writer", WRITERS)
def test_what_redis_wrote_loads_here(writer, start_server):
    move("oracle", "subject", start_server, WRITERS[writer])


@pytest.mark.parametrize("writer", WRITERS)
def test_what_was_written_here_loads_in_redis(writer, start_server):
    move("subject", "oracle", start_server, WRITERS[writer])


def test_encodings_after_loading_are_those_of_redis(start_server, tmp_path):
    """Under the same thresholds OBJECT ENCODING agrees for every loaded key."""
    with Server("oracle", directory=tmp_path) as writer:
        with writer.connect() as connection:
            fill(connection)
            connection.call("SAVE")
    states = []
    for kind in ("oracle", "subject"):
        for options in ({}, SMALL):
            server = start_server(kind, directory=tmp_path, options=options)
            with server.connect() as connection:
                states.append(read_state(connection))
            server.kill()
    assert not differences(states[0], states[2])
    assert not differences(states[1], states[3])


def test_values_travel_by_dump_and_restore(start_server):
    """DUMP of either server is taken by the other's RESTORE."""
    servers = [start_server(kind) for kind in ("oracle", "subject")]
    connections = [server.connect() for server in servers]
    fill(connections[0])
    digests = {}
    keys = sorted(connections[0].call("KEYS", "*"))
    for key in keys:
        payload = connections[0].call("DUMP", key)
        assert connections[1].call("RESTORE", key, 0, payload) == b"OK", key
        digests[key] = [connection.call("DEBUG", "DIGEST-VALUE", key) for connection in connections]
    expiring = [key for key in keys if connections[0].call("TTL", key) >= 0]
    assert [key for key in keys if digests[key][0] != digests[key][1] and key not in expiring] == []
    connections[0].call("FLUSHALL")
    for key in keys:
        assert connections[0].call("RESTORE", key, 0, connections[1].call("DUMP", key)) == b"OK", key
        assert connections[0].call("DEBUG", "DIGEST-VALUE", key) == digests[key][1], key


def test_a_saved_file_ends_in_its_checksum(start_server):
    server = start_server("subject")
    with server.connect() as connection:
        fill(connection)
        connection.call("SAVE")
    data = (server.directory / "dump.rdb").read_bytes()
    assert data[:5] == b"REDIS" and int(data[5:9]) <= 12
    assert int.from_bytes(data[-8:], "little") == crc64(data[:-8])


def test_bgsave_and_shutdown_save(start_server):
    server = start_server("subject")
    with server.connect() as connection:
        fill(connection)
        before = picture(connection)
        stamp = connection.call("LASTSAVE")
        assert connection.call("BGSAVE") == b"Background saving started"
        until_written(connection)
        assert b"rdb_last_bgsave_status:ok" in connection.call("INFO", "persistence")
        assert connection.call("LASTSAVE") >= stamp
        connection.call("SET", "after the first", "v")
        after = picture(connection)
        assert after[0] != before[0]
        connection.send("SHUTDOWN", "SAVE")
        assert connection.read_until_closed() == b""
    assert server.wait_exit() == 0
    server.start()
    with server.connect() as connection:
        assert_same(after, picture(connection))


def test_save_points_save(start_server):
    server = start_server("subject", options={"save": "1 5"})
    with server.connect() as connection:
        for number in range(20):
            connection.call("SET", number, "v")
        eventually(lambda: persistence(connection)["rdb_changes_since_last_save"] == "0", "no dump is written")
        before = picture(connection)
    server.restart(crash=True)
    with server.connect() as connection:
        assert_same(before, picture(connection))


def test_shutdown_nosave_keeps_the_old_file(start_server):
    server = start_server("subject", options={"save": "3600 1"})
    with server.connect() as connection:
        connection.call("SET", "saved", "v")
        connection.call("SAVE")
        connection.call("SET", "lost", "v")
        connection.send("SHUTDOWN", "NOSAVE")
        connection.read_until_closed()
    assert server.wait_exit() == 0
    server.start()
    with server.connect() as connection:
        assert connection.call("KEYS", "*") == [b"saved"]


def test_sigterm_saves_when_save_points_are_set(start_server):
    server = start_server("subject", options={"save": "3600 1"})
    with server.connect() as connection:
        connection.call("SET", "k", "v")
    assert server.terminate() == 0
    server.start()
    with server.connect() as connection:
        assert connection.call("GET", "k") == b"v"


def test_expired_keys_are_not_loaded(start_server):
    server = start_server("subject")
    with server.connect() as connection:
        connection.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        connection.call("SET", "stays", "v")
        connection.call("SET", "goes", "v", "PX", 1)
        eventually(lambda: connection.call("PTTL", "goes") == -2, "the key lives")
        connection.call("SAVE")
    server.restart(crash=True)
    with server.connect() as connection:
        assert connection.call("DBSIZE") == 1


def test_a_large_key_travels(start_server):
    """A hundred thousand members of each kind, there and back."""
    writer = start_server("oracle")
    with writer.connect() as connection:
        for start in range(0, 100_000, 5000):
            numbers = range(start, start + 5000)
            connection.call("ZADD", "z", *[word for number in numbers for word in (number / 7, f"m{number}")])
            connection.call("SADD", "s", *[f"m{number}" for number in numbers])
            connection.call("HSET", "h", *[word for number in numbers for word in (f"f{number}", number)])
            connection.call("RPUSH", "l", *numbers)
        digest = connection.call("DEBUG", "DIGEST")
        connection.call("SAVE")
    writer.kill()
    reader = start_server("subject", directory=writer.directory)
    with reader.connect() as connection:
        assert connection.call("DEBUG", "DIGEST") == digest
        connection.call("SAVE")
    reader.kill()
    again = start_server("oracle", directory=writer.directory)
    with again.connect() as connection:
        assert connection.call("DEBUG", "DIGEST") == digest


def test_fields_that_expire_keep_their_order(start_server):
    """Those of a packed hash, also where several have the same expiry, and its encoding once none has one."""
    seen = []
    for kind in ("oracle", "subject"):
        with start_server(kind).connect() as connection:
            fields = ("FIELDS", 4, "field:3", "field:1", "field:2", "field:0")
            connection.call("HSET", "hash", *[word for at in range(6) for word in (f"field:{at}", at)])
            connection.call("HPEXPIREAT", "hash", 4_000_000_000_000, *fields)
            connection.call("RESTORE", "copy", 0, connection.call("DUMP", "hash"))
            connection.call("DEBUG", "RELOAD")
            told = [connection.call("HGETALL", key) for key in ("hash", "copy")]
            connection.call("HPERSIST", "hash", *fields)
            connection.call("DEBUG", "RELOAD")
            told += [connection.call("HGETALL", "hash"), connection.call("OBJECT", "ENCODING", "hash")]
            seen.append(told)
    assert seen[0] == seen[1]
