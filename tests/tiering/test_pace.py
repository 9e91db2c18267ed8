"""Who writes faster than the disk takes it waits, however it writes; memory stays near its limit."""

import pytest

from support.memory import figure
from support.servers import subject_is_oracle
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no values on disk")
LIMIT_BYTES = 32 << 20
# Of the 400 MB that are written.
PEAK_MAX = 160 << 20
ROUNDS, VALUES = 80, 5
SCRIPT = "for at = 1, #KEYS do redis.call('SET', KEYS[at], ARGV[1]) end"
LIBRARY = f"#!lua name=lib\nredis.register_function('fill', function(KEYS, ARGV) {SCRIPT} end)"


def units(way):
    """What is sent at a time."""
    value = "x" * 1_000_000
    for first in range(0, ROUNDS * VALUES, VALUES):
        keys = [f"key:{number}" for number in range(first, first + VALUES)]
        if way in ("EXEC", "commands"):
            sets = [("SET", key, value) for key in keys]
            yield [("MULTI",), *sets, ("EXEC",)] if way == "EXEC" else sets
        else:
            yield [(way, {"EVAL": SCRIPT, "FCALL": "fill"}[way], VALUES, *keys, value)]


def peak(connection):
    return int(figure(connection, "used_memory_peak"))


@pytest.mark.parametrize("way", ["EXEC", "EVAL", "FCALL"])
def test_transactions_and_scripts_wait_for_the_disk(way, tiered):
    server = tiered()
    with server.connect(timeout=120) as connection:
        connection.call("FUNCTION", "LOAD", LIBRARY)
        for unit in units(way):
            assert not any(reply.is_error for reply in connection.pipeline(unit))
        assert connection.call("DBSIZE") == ROUNDS * VALUES
        assert peak(connection) < PEAK_MAX


def test_the_link_to_a_primary_waits_for_the_disk(tiered, start_server):
    primary = start_server(options={"save": "", "client-output-buffer-limit": "replica 0 0 0"}, workers=2)
    replica = tiered(replicaof=f"127.0.0.1 {primary.port}")
    with primary.connect(timeout=120) as writer, replica.connect(timeout=120) as reader:
        eventually(lambda: figure(reader, "master_link_status") == "up", "the link does not come up")
        for unit in units("commands"):
            writer.pipeline(unit)
        eventually(lambda: reader.call("DBSIZE") == ROUNDS * VALUES, "it does not follow")
        assert peak(reader) < PEAK_MAX
        assert figure(writer, "sync_full") == "1"


def test_watching_a_key_reads_nothing(tiered):
    with tiered(**{"tier-pressure": "yes"}).connect() as connection:
        connection.call("SET", "key", "x" * 100_000)
        eventually(lambda: connection.call("MANTISSA.LOCATION", "key") == b"disk", "it stays in memory")
        reads = figure(connection, "tier_reads")
        connection.call("WATCH", "key")
        assert figure(connection, "tier_reads") == reads
        connection.call("SET", "key", "other")
        connection.call("MULTI")
        connection.call("PING")
        assert connection.call("EXEC") is None
