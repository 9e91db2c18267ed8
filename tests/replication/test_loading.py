"""What a replica does while it loads its primary's data from a file, and where they do not load."""

import pytest

from support.rdbfile import STRING, File, string
from support.replication import RawPrimary, log_has, small_rdb, until
from support.servers import subject_is_oracle

SUBJECT = "redis" if subject_is_oracle() else "mantissa"


def test_signs_of_life_while_a_file_is_loaded(start_node):
    """The primary hears of a replica that only loads, or it would give it up after repl-timeout."""
    heard = []

    def serve(wire):
        wire.handshake()
        wire.full_resync()
        wire.dump(small_rdb({f"key:{number}": "v" for number in range(1500)}))
        until(lambda: replica.info("persistence")["loading"] == "1", "nothing is loaded")
        heard.append(wire.take(1))
        wire.hold()

    replica = start_node(SUBJECT, key_load_delay=1000, loading_process_events_interval_bytes=1024)
    replica.call("SET", "old", "v")
    with RawPrimary(serve) as raw:
        replica.follow(raw)
        until(lambda: heard, "the replica says nothing")
    assert heard == [b"\n"]


@pytest.mark.skipif(subject_is_oracle(), reason="redis-server ends")
def test_a_file_that_does_not_load(start_node):
    """Its checksum is right, and so the old data are gone when it is found to be wrong: the log says so."""
    file = File(9)
    file.select(0)
    for _ in range(2):
        file.record(STRING, "key", string("v"))

    def serve(wire):
        wire.handshake()
        wire.full_resync()
        wire.dump(file.bytes())
        wire.hold()

    replica = start_node("mantissa")
    replica.call("SET", "old", "v")
    with RawPrimary(serve) as raw:
        replica.follow(raw)
        until(lambda: log_has(replica, "The old data had been removed."), "the log does not say so")
        until(lambda: replica.info("persistence")["loading"] == "0", "it loads for ever")
        assert replica.call("DBSIZE") == 0
    assert not log_has(replica, "The old data stay")
