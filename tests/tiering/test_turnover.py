"""A file that is full while keys may be evicted: its oldest values go, and no more of them than come anew."""

import pytest

from support.memory import figure
from support.servers import subject_is_oracle
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no values on disk")
LIMIT_BYTES = 16 << 20
FILE_BYTES = 96 << 20
VALUE_BYTES = 8_000
# Of values that the file and memory have room for.
FIT = (FILE_BYTES + LIMIT_BYTES) // VALUE_BYTES
BATCH = 200


def write(connection, first, last, *extra, kept=None, check=None):
    """Write `key:first` to `key:last`, and look at others between them."""
    for start in range(first, last, BATCH):
        value = "x" * VALUE_BYTES
        sets = [("SET", f"key:{number}", value, *extra) for number in range(start, min(start + BATCH, last))]
        assert not any(reply.is_error for reply in connection.pipeline(sets))
        if kept is not None:
            assert connection.pipeline([("GET", key) for key in kept])
        if check is not None:
            check(start)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru"])
def test_values_go_as_new_ones_come(policy, tiered):
    server = tiered(**{"tier-max-size": FILE_BYTES, "maxmemory-policy": policy})
    extra = ("EX", "100000") if policy.startswith("volatile") else ()
    with server.connect(timeout=120) as connection:
        write(connection, 0, FIT, *extra)
        least = []

        def check(_):
            least.append(connection.call("DBSIZE"))
            # Keys in memory are evicted where clients write faster than the disk, or than a thread gets to run.
            is_idle = lambda: int(figure(connection, "tier_waiting_bytes")) < BATCH * VALUE_BYTES
            eventually(is_idle, "what goes to disk does not get there")

        write(connection, FIT, 4 * FIT, *extra, check=check)
        # The file has room for six segments. Two may go at once where clients write as fast as memory takes it,
        # and cleaning and what is in both places take a part of the room.
        assert min(least) > FIT // 8
        newest = [("GET", f"key:{number}") for number in range(4 * FIT - FIT // 4, 4 * FIT)]
        assert sum(reply.plain() is not None for reply in connection.pipeline(newest)) > FIT // 8
        assert int(figure(connection, "used_memory")) < 1.3 * LIMIT_BYTES
        assert int(figure(connection, "used_memory_peak")) < 2 * LIMIT_BYTES


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu"])
def test_what_is_in_use_stays(policy, tiered):
    server = tiered(**{"tier-max-size": FILE_BYTES, "maxmemory-policy": policy})
    kept = [f"kept:{number}" for number in range(50)]
    with server.connect(timeout=120) as connection:
        for key in kept:
            connection.call("SET", key, key * 500)
        before = FIT * 3 // 4
        write(connection, 0, before, kept=kept if policy == "allkeys-lfu" else None)
        if policy == "allkeys-lru":
            # The clock of the last use counts seconds.
            newest = f"key:{before - 1}"
            eventually(lambda: connection.call("OBJECT", "IDLETIME", newest) >= 3, "no time passes")
        assert figure(connection, "evicted_keys") == "0"
        write(connection, before, FIT + FIT // 2, kept=kept)
        assert int(figure(connection, "evicted_keys")) > FIT // 4
        # Where segments are slow to become free, keys in memory are evicted: all of them have been used in the same
        # second or two.
        assert sum(connection.call("GET", key) == (key * 500).encode() for key in kept) > len(kept) // 8


def test_replicas_have_the_same_keys(tiered, start_server):
    server = tiered(**{"tier-max-size": FILE_BYTES, "maxmemory-policy": "allkeys-lru"})
    replica = start_server(options={"save": "", "replicaof": f"127.0.0.1 {server.port}"}, workers=2)
    with server.connect(timeout=120) as connection, replica.connect(timeout=120) as reader:
        eventually(lambda: figure(reader, "master_link_status") == "up", "the link does not come up")
        write(connection, 0, 2 * FIT)
        assert connection.call("WAIT", 1, 60_000) == 1
        # Keys may still be evicted in the background.
        digests = [("DEBUG", "DIGEST")]
        eventually(
            lambda: reader.pipeline(digests)[0].plain() == connection.pipeline(digests)[0].plain(),
            "they have not the same keys",
        )


def test_a_save_keeps_few_of_them_from_going(tiered):
    """What a snapshot still names takes its room until that has ended."""
    server = tiered(**{"tier-max-size": FILE_BYTES, "maxmemory-policy": "allkeys-lru", "save": ""})
    with server.connect(timeout=120) as connection:
        write(connection, 0, FIT)
        for part in range(4):
            connection.call("BGSAVE")
            write(connection, FIT + part * FIT // 4, FIT + (part + 1) * FIT // 4)
            eventually(lambda: figure(connection, "rdb_bgsave_in_progress") == "0", "the save does not end")
        assert figure(connection, "rdb_last_bgsave_status") == "ok"
        assert connection.call("DBSIZE") > FIT // 4
