"""Payloads and files of Redis 8.10, and of Valkey 9, where others than their readers get them."""

import pytest

from support.servers import subject_is_oracle
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 does not read them")
FIELDS = b"\x01\x02\x01a\x01b"
HASH = b"\x1f" + FIELDS + b"\x011\x012"
NO_CHECKSUM = bytes(8)


def payload(value, version=16):
    return value + version.to_bytes(2, "little") + NO_CHECKSUM


def test_a_later_payload_reaches_a_redis_replica_and_the_log(start_server):
    server = start_server(options={"appendonly": "yes", "aof-use-rdb-preamble": "no"})
    replica = start_server("oracle", options={"replicaof": f"127.0.0.1 {server.port}"})
    with server.connect() as connection, replica.connect() as other:
        eventually(lambda: b"master_link_status:up" in other.call("INFO", "replication"), "there is no link")
        assert connection.call("RESTORE", "h", "0", payload(HASH)) == b"OK"
        assert connection.call("RESTORE", "later", "1000000", payload(HASH), "REPLACE") == b"OK"
        assert connection.call("WAIT", "1", "5000") == 1
        for name in ("h", "later"):
            assert other.call("HGETALL", name) == [b"a", b"1", b"b", b"2"]
            assert other.call("PEXPIRETIME", name) == connection.call("PEXPIRETIME", name)
    log = b"".join(path.read_bytes() for path in (server.directory / "appendonlydir").glob("*.incr.aof"))
    assert b"RESTORE" in log and payload(HASH) not in log


def test_a_zero_checksum_is_one_of_redis_only(start_server):
    server = start_server()
    with server.connect() as connection:
        refused = connection("RESTORE", "k", "0", payload(b"\x00\x01v", 80))
        assert refused.is_error and b"checksum are wrong" in refused.plain()
        assert connection.call("RESTORE", "k", "0", payload(b"\x00\x01v")) == b"OK"


def test_a_count_below_zero_is_shown_and_survives_a_rewritten_log(start_server):
    """A consumer group gives entries back with a count of deliveries of -1."""
    server = start_server(options={"appendonly": "yes", "aof-use-rdb-preamble": "no"})
    with server.connect() as connection:
        connection.call("XADD", "s", "1-1", "f", "v")
        connection.call("XGROUP", "CREATE", "s", "g", "0")
        connection.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
        dumped = connection.call("DUMP", "s")
        # The count, behind the identifier and the time of the delivery.
        at = dumped.index(bytes(7) + b"\x01" + bytes(7) + b"\x01", 40) + 16 + 8
        assert dumped[at] == 1
        value = dumped[:at] + b"\x81" + b"\xff" * 8 + dumped[at + 1 : -10]
        connection.call("RESTORE", "s", "0", payload(value), "REPLACE")
        assert connection.call("XPENDING", "s", "g", "-", "+", "9")[0][3] == -1
        connection.call("BGREWRITEAOF")
        eventually(lambda: b"aof_rewrites:1" in connection.call("INFO", "persistence"), "nothing is rewritten")
        eventually(lambda: b"aof_rewrite_in_progress:0" in connection.call("INFO", "persistence"), "it does not end")
    server.restart(crash=True)
    with server.connect() as connection:
        assert connection.call("XPENDING", "s", "g", "-", "+", "9")[0][3] == 0
