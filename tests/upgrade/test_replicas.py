"""Replicas stay connected through an upgrade, at their place in the stream; so do replicas that are upgraded."""

import pytest

from support.replication import Proxy, RawReplica
from support.resp import encode
from support.waiting import eventually
from upgrade.test_upgrade import Load

QUICK = {"repl-diskless-sync-delay": "0"}


def info(server, name, section="replication"):
    with server.connect() as connection:
        lines = connection.call("INFO", section).decode().splitlines()
    return next((line.split(":", 1)[1] for line in lines if line.startswith(f"{name}:")), None)


def follow(replica, primary):
    with replica.connect() as connection:
        connection.call("REPLICAOF", "127.0.0.1", primary.port)
    eventually(lambda: info(replica, "master_link_status") == "up", "the link does not come up")


def await_same(primary, replica):
    offset = lambda server: int(info(server, "master_repl_offset"))
    eventually(lambda: offset(primary) == offset(replica), "the replica does not get in step")
    with primary.connect() as one, replica.connect() as other:
        assert one.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST")


def links_begun(replica):
    return replica.log_text().count("MASTER <-> REPLICA sync started")


@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_a_replica_stays_connected_under_load(start_upgradable, start_server, kind):
    server = start_upgradable(options=QUICK, workers=2)
    replica = start_server(kind)
    follow(replica, server.server)
    await_line = lambda: eventually(lambda: "state=online" in (info(server.server, "slave0") or ""), "not online")
    await_line()
    begun, history = links_begun(replica), info(server.server, "master_replid")
    load = Load(server.server, 8)
    for _ in range(2):
        goal = sum(load.counts) + 1000
        eventually(lambda: sum(load.counts) >= goal or load.errors, "nobody is served")
        server.upgrade()
        await_line()
        assert f"port={replica.port}" in info(server.server, "slave0"), "what it has said of itself is known"
    load.stop()
    await_same(server.server, replica)
    assert links_begun(replica) == begun, "it has never begun again"
    assert info(server.server, "master_replid") == history
    with server.server.connect() as client:
        client.call("SET", "after", "1")
        assert client.call("WAIT", "1", "10000") == 1


@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_a_replica_that_was_away_goes_on(start_upgradable, start_server, kind):
    server, replica = start_upgradable(options=QUICK), start_server(kind)
    with server.server.connect() as client, Proxy(server.server.port) as proxy:
        client.call("SET", "before", "x" * 100_000)
        follow(replica, proxy)
        await_same(server.server, replica)
        proxy.refuse()
        for number in range(3):
            # It is away in the time of three processes, each of which begins with a new log.
            client.call("SET", f"away:{number}", "x" * 1000)
            client.call("INCR", "count")
            first = info(server.server, "repl_backlog_first_byte_offset")
            server.upgrade()
            assert info(server.server, "repl_backlog_first_byte_offset") == first
        client.call("INCR", "count")
        proxy.refuse(False)
        eventually(lambda: info(replica, "master_link_status") == "up", "the link does not come up again")
        await_same(server.server, replica)
        with replica.connect() as other:
            assert other.call("GET", "count") == b"4"
        # While the proxy stands: without it the replica begins again.
        assert info(server.server, "sync_full", "stats") == "0", "it has gone on by a partial resynchronization"
        assert info(server.server, "sync_partial_ok", "stats") == "1"


def test_what_goes_over_of_the_backlog_is_the_history_byte_for_byte(start_upgradable):
    server = start_upgradable(options=QUICK | {"repl-backlog-size": "1mb"})
    with server.server.connect() as client:
        with RawReplica(server.server) as raw:
            raw.handshake()
            assert raw.psync()[0] == "+FULLRESYNC"
            raw.payload()
            # An acknowledgement before the primary knows of the end of its dump does not count.
            eventually(lambda: "state=online" in (info(server.server, "slave0") or ""), "not online")
            raw.acknowledge()
            start, stream, words = raw.offset, b"", []
            client.call("SET", "key:0", "x" * 300_000)
            for number in range(1, 300):
                client.call("SET", f"key:{number}", "y" * (number * 3))
            while words[1:2] != [b"key:299"]:
                words = raw.next()
                stream += encode(words)
            end = raw.offset
            assert end - start == len(stream)
        server.upgrade()
        client.call("SET", "last", "1")
        history = info(server.server, "master_replid")
        for offset in (start, start + 40, start + 300_100, end - 1, end):
            with RawReplica(server.server) as raw:
                raw.handshake()
                assert raw.psync(history, offset + 1)[0] == "+CONTINUE"
                wanted = stream[offset - start :]
                assert raw.take(len(wanted)) == wanted
                raw.offset = end
                assert raw.until(b"SET")[-1] == [b"SET", b"last", b"1"]
        # What the log has by itself by then is not kept twice.
        client.call("SET", "much", "z" * 2_000_000)
        eventually(lambda: int(info(server.server, "repl_backlog_first_byte_offset")) > end, "it is kept on")
        with RawReplica(server.server) as raw:
            raw.handshake()
            assert raw.psync(history, start + 1)[0] == "+FULLRESYNC"


def test_a_replica_in_a_chain_is_upgraded(start_upgradable, start_server):
    primary, last = start_server(options=QUICK), start_server()
    middle = start_upgradable(options=QUICK)
    follow(middle.server, primary)
    follow(last, middle.server)
    begun = links_begun(last)
    load = Load(primary, 4)
    eventually(lambda: sum(load.counts) >= 500 or load.errors, "nobody is served")
    middle.upgrade()
    eventually(lambda: info(middle.server, "master_link_status") == "up", "the link does not come up again")
    load.stop()
    await_same(primary, middle.server)
    await_same(primary, last)
    assert links_begun(last) == begun
    assert info(primary, "sync_full", "stats") == "1", "it has gone on by a partial resynchronization"


@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_the_first_write_after_a_quiet_upgrade_names_its_database(start_upgradable, start_server, kind):
    server = start_upgradable(options=QUICK)
    replica = start_server(kind)
    follow(replica, server.server)
    for number in range(3):
        with server.server.connect() as client:
            client.call("SELECT", "1")
            client.call("SET", "key", f"one {number}")
        await_same(server.server, replica)
        server.upgrade()
        with server.server.connect() as client:
            client.call("SET", "key", f"zero {number}")
        await_same(server.server, replica)
        with replica.connect() as client:
            assert client.call("GET", "key") == f"zero {number}".encode()


def test_a_replica_whose_primary_is_gone_is_upgraded(start_upgradable, start_server):
    primary = start_server(options=QUICK)
    server = start_upgradable(options=QUICK)
    with primary.connect() as client:
        client.call("SET", "key", "before")
    follow(server.server, primary)
    await_same(primary, server.server)
    history = info(primary, "master_replid")
    primary.kill()
    eventually(lambda: info(server.server, "master_link_status") == "down", "the link does not go down")
    server.upgrade()
    assert info(server.server, "role") == "slave" and info(server.server, "master_replid") == history
    assert info(server.server, "master_port") == str(primary.port)
    with server.server.connect() as client:
        assert client.call("GET", "key") == b"before"
        assert client.call("REPLICAOF", "NO", "ONE") == b"OK"
        client.call("SET", "key", "after")


def test_who_waits_for_replicas_waits_on(start_upgradable, start_server):
    server = start_upgradable(options=QUICK | {"appendonly": "yes"})
    replica = start_server()
    with server.server.connect() as writer, server.server.connect() as never, server.server.connect() as disk:
        writer.call("SET", "a", "1")
        never.call("SET", "b", "1")
        never.send("WAIT", "2", "0")
        disk.call("SET", "c", "1")
        disk.send("WAITAOF", "1", "1", "0")
        server.upgrade()
        follow(replica, server.server)
        assert writer.call("WAIT", "1", "10000") == 1, "its writes were before the upgrade"
        with replica.connect() as client:
            client.call("CONFIG", "SET", "appendonly", "yes")
        assert disk.read().plain() == [1, 1]
        second = start_server()
        follow(second, server.server)
        assert never.read().plain() == 2


def test_a_backlog_for_the_upgrade_alone_goes(start_upgradable):
    server = start_upgradable()
    server.upgrade()
    assert info(server.server, "repl_backlog_active") == "0"


@pytest.mark.parametrize("capabilities, magic", [(("eof", "mantissa"), b"REDIS"), (("eof",), b"VALKEY")])
def test_what_a_replica_has_said_of_itself_goes_over(start_upgradable, capabilities, magic):
    server = start_upgradable(options=QUICK)
    with server.server.connect() as connection:
        connection.call("HSET", "hash", "field", "value")
        connection.call("HPEXPIRE", "hash", "1000000", "FIELDS", "1", "field")
    with RawReplica(server.server, capabilities) as raw:
        raw.handshake()
        assert raw.ask("REPLCONF", "version", "9.0.0") == b"+OK"
        server.upgrade()
        assert raw.psync()[0] == "+FULLRESYNC"
        assert raw.payload().startswith(magic)
