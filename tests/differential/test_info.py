"""INFO compared with redis-server: every field is there, and those that count say what has happened."""

import pytest

from support.servers import Server
from support.steps import figures
from support.waiting import eventually

# POLICY.md says why.
ABSENT = {"allocator_active_lua", "allocator_resident_lua", "allocator_frag_bytes_lua"}
HASHES = [
    "HSET h f v g w",
    "HPEXPIRE h 100000 FIELDS 1 f",
    "HSET i f v",
    "HPEXPIRE i 100000 FIELDS 1 f",
    "RENAME h j",
    "COPY j k",
    "MOVE k 3",
    "HDEL j f",
    "HPEXPIRE j 100000 FIELDS 1 g",
    "HGETDEL j FIELDS 1 g",
    "HSET j g w",
    "SWAPDB 0 1",
    "SELECT 1",
    "HPEXPIRE j 100000 FIELDS 1 g",
    "DEL j",
    "SET i x",
    "FLUSHALL",
]


@pytest.fixture
def servers():
    with Server("oracle") as oracle, Server("subject", workers=2) as subject:
        yield oracle, subject


def test_every_field_is_there(servers):
    names = []
    for server in servers:
        with server.connect() as connection:
            connection("SET", "k", "v")
            connection("EVAL", "return redis.call('NOSUCH')", "0")
            names.append(set(figures(connection, "everything")) | set(figures(connection, "debug")))
    assert names[0] - names[1] == {name for name in ABSENT if name in names[0]}


def test_hashes_with_fields_that_expire_are_counted(servers):
    for step in range(len(HASHES)):
        shown = []
        for server in servers:
            with server.connect() as connection:
                connection("FLUSHALL")
                for command in HASHES[: step + 1]:
                    connection(*command.split())
                shown.append(figures(connection, "keyspace"))
        assert shown[0] == shown[1], HASHES[step]


LONG_ERRORS = ["NOTFOUND", "", " ", "A b", "A" * 30 + " x", "A" * 31 + " x", "B" * 32 + " x", "C" * 200_000]


def test_long_first_words_of_errors_are_no_codes(servers):
    shown = []
    for server in servers:
        with server.connect() as connection:
            connection("CONFIG", "RESETSTAT")
            for text in LONG_ERRORS:
                connection("EVAL", "return {err = ARGV[1]}", 0, text)
            shown.append(figures(connection, "errorstats"))
    assert shown[0] == shown[1]


def test_error_codes_past_the_limit_are_reported(servers):
    for server in servers:
        with server.connect() as connection:
            for number in range(200):
                assert connection("EVAL", "return redis.error_reply(ARGV[1])", 0, f"CODE{number} x").is_error
            assert figures(connection, "errorstats") == {"errorstat_ERRORSTATS_DISABLED": "count=1"}
            connection("CONFIG", "RESETSTAT")
            assert connection("NOSUCH").is_error
            assert figures(connection, "errorstats") == {"errorstat_ERR": "count=1"}
        for line in ("Errorstats stopped adding new errors", "Current errors code list: CODE0, "):
            assert server.log_text().count(line) == 1


def test_rates_of_replication(servers):
    for server in servers:
        with server.connect() as connection, server.connect() as replica:
            replica.send("PSYNC", "?", "-1")

            def has_rate():
                for _ in range(20):
                    connection("SET", "k", "v" * 2000)
                return float(figures(connection, "stats")["instantaneous_output_repl_kbps"]) > 0

            eventually(has_rate, "no rate is shown")


def test_protocol_errors_of_clients_are_expected(servers):
    for server in servers:
        with server.connect() as connection, server.connect() as bad:
            bad.send_raw(b"*1\r\n$-5\r\n")
            assert bad.read_until_closed().startswith(b"-ERR Protocol error")
            assert figures(connection, "stats")["unexpected_error_replies"] == "0"


def test_resetstat_begins_counts_anew(servers):
    names = ("sync_full", "total_net_repl_output_bytes", "rdb_saves", "evicted_scripts")
    for server in servers:
        with server.connect() as connection, server.connect() as replica:

            def counts():
                shown = figures(connection, "all")
                return [int(shown[name]) for name in names]

            connection("SAVE")
            for number in range(501):
                connection("EVAL", f"return {number}", 0)
            replica.send("PSYNC", "?", "-1")
            eventually(lambda: all(counts()), "they do not count")
            replica.close()
            eventually(lambda: figures(connection, "replication")["connected_slaves"] == "0", "the replica stays")
            connection("CONFIG", "RESETSTAT")
            assert not any(counts())


def test_keys_whose_loss_ends_waiting_are_counted(servers):
    for server in servers:
        connections = [server.connect() for _ in range(4)]
        try:
            for key in ("s", "t"):
                connections[0]("XGROUP", "CREATE", key, "g", "$", "MKSTREAM")
            connections[1].send("XREADGROUP", "GROUP", "g", "a", "BLOCK", 0, "STREAMS", "s", "t", ">", ">")
            connections[2].send("XREADGROUP", "GROUP", "g", "b", "BLOCK", 0, "STREAMS", "t", ">")
            connections[3].send("XREAD", "BLOCK", 0, "STREAMS", "u", "$")
            eventually(lambda: figures(connections[0], "clients")["blocked_clients"] == "3", "they do not wait")
            counts = figures(connections[0], "clients")
            assert (counts["total_blocking_keys"], counts["total_blocking_keys_on_nokey"]) == ("3", "2")
        finally:
            for connection in connections:
                connection.close()


def test_the_time_of_event_loops(servers):
    _, server = servers
    with server.connect() as connection:
        connection.pipeline([("SET", f"key:{number}", "v") for number in range(1000)])
        connection("DEBUG", "SLEEP", "0.05")
        stats, debug = figures(connection, "stats"), figures(connection, "debug")
        assert int(stats["eventloop_duration_sum"]) >= int(debug["eventloop_duration_max"])
        assert int(debug["eventloop_cmd_per_cycle_max"]) > 1

        def has_counted():
            # A turn counts when it has ended.
            longest = int(figures(connection, "debug")["eventloop_duration_max"])
            return 50_000 <= longest <= int(figures(connection, "stats")["eventloop_duration_sum"])

        eventually(has_counted, "a turn of 50 ms is not counted")
        assert int(figures(connection, "stats")["eventloop_duration_cmd_sum"]) >= 50_000

        def has_rates():
            stats = figures(connection, "stats")
            return int(stats["instantaneous_eventloop_cycles_per_sec"]) > 0

        eventually(has_rates, "turns have no rate")

        def has_begun_anew():
            connection("CONFIG", "RESETSTAT")
            return int(figures(connection, "debug")["eventloop_duration_max"]) < 50_000

        eventually(has_begun_anew, "CONFIG RESETSTAT keeps the longest turn")


def test_commands_of_scripts_do_not_count_twice(servers):
    _, server = servers
    with server.connect() as connection:
        connection("CONFIG", "RESETSTAT")
        connection("EVAL", "for n = 1, 100000 do redis.call('SET', 'k', n) end", "0")
        stats = figures(connection, "everything")
        script = int(stats["cmdstat_eval"].split("usec=")[1].split(",")[0])
        called = int(stats["cmdstat_set"].split("usec=")[1].split(",")[0])
        assert script + called / 2 > int(stats["eventloop_duration_cmd_sum"]) >= script


def test_expiry_in_the_background_is_watched(servers):
    for server in servers:
        with server.connect() as connection:
            connection("CONFIG", "SET", "latency-monitor-threshold", "1")
            connection("DEBUG", "SET-ACTIVE-EXPIRE", "0")
            for start in range(0, 100_000, 1000):
                connection.pipeline([("SET", f"k:{n}", "v", "PX", "1") for n in range(start, start + 1000)])
            connection("DEBUG", "SET-ACTIVE-EXPIRE", "1")
            eventually(lambda: connection("LATENCY", "HISTORY", "expire-cycle").plain(), "no event")


@pytest.mark.parametrize("policy", ["everysec", "always"])
def test_slow_writes_to_the_log_are_watched(policy):
    """What DEBUG AOF-FLUSH-SLEEP adds counts as the write's time here; redis-server leaves it out."""
    options = {"appendonly": "yes", "appendfsync": policy, "latency-monitor-threshold": "20"}
    with Server("subject", options) as server, server.connect() as connection:
        connection("DEBUG", "AOF-FLUSH-SLEEP", 30_000)
        connection("SET", "key", "value")
        connection("DEBUG", "AOF-FLUSH-SLEEP", 0)
        for event in ("aof-write", "aof-write-alone"):
            eventually(lambda event=event: connection("LATENCY", "HISTORY", event).plain(), f"no {event}")
            assert connection("LATENCY", "HISTORY", event).plain()[0][1] >= 30


def test_eviction_is_watched():
    for kind in ("oracle", "subject"):
        options = {"latency-monitor-threshold": "1", "maxmemory-policy": "allkeys-random"}
        with Server(kind, options) as server, server.connect() as connection:
            connection("CONFIG", "SET", "maxmemory-eviction-tenacity", "100")
            connection("DEBUG", "POPULATE", 100_000)
            connection("CONFIG", "SET", "maxmemory", 1)
            connection("GET", "key")
            eventually(lambda: connection("LATENCY", "HISTORY", "eviction-cycle").plain(), "no event")
