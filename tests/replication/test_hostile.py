"""Primaries and replicas that break the protocol, lie, flood, or say nothing: the server stays up and within bounds,
serves what it had, says what is wrong, and goes on with one that behaves."""

import time

import pytest

from support.replication import (
    RawPrimary, RawReplica, Wire, expect_same_data, is_online, link, small_rdb, stand_in, until, wait_in_sync,
)  # fmt: skip
from support.resp import Closed, encode
from support.seeds import generator
from support.servers import subject_is_oracle

SUBJECT = "redis" if subject_is_oracle() else "mantissa"
MIB = 1 << 20
GOOD = small_rdb({"of": "raw"})
MARK, OTHER_MARK = b"m" * 40, b"o" * 40
PATIENT_S = 1.0


def at_start(data):
    """Send bytes as soon as somebody connects."""

    def serve(wire):
        wire.command()
        wire.send(data)
        wire.hold()

    return serve


def to_psync(*parts, ends=True):
    """Answer the handshake well, and PSYNC with these bytes."""

    def serve(wire):
        wire.handshake()
        for part in parts:
            wire.send(part)
        if not ends:
            wire.hold()

    return serve


def full(dump, offset=0):
    return b"+FULLRESYNC %s %d\r\n" % (b"a" * 40, offset) + dump


def of_length(rdb, claimed=None):
    return b"$%d\r\n%s" % (len(rdb) if claimed is None else claimed, rdb)


def marked(rdb, mark=MARK):
    return b"$EOF:%s\r\n%s%s" % (MARK, rdb, mark)


def in_parts(*parts):
    """Parts as this server sends them: each a letter, and bytes or the length that is told for none."""
    lengths = [part if isinstance(part, int) else len(part) for _, part in parts]
    contents = [b"" if isinstance(part, int) else part for _, part in parts]
    headers = [letter + length.to_bytes(4, "little") for (letter, _), length in zip(parts, lengths)]
    return b"$PARTS\r\n" + b"".join(header + content for header, content in zip(headers, contents))


def damaged(rdb):
    """With another checksum."""
    return rdb[:-1] + bytes([rdb[-1] ^ 1])


RANDOM_BYTES = generator("hostile").randbytes(5000)
# What a primary sends, and what the replica must say in its log, in one of these words.
PRIMARIES = {
    "garbage at the start": (at_start(RANDOM_BYTES + b"\r\n"), ["ping", "reply", "error"]),
    "a line without end at the start": (at_start(b"x" * MIB), ["line", "ping", "reply", "error", "long"]),
    "an error at the start": (at_start(b"-ERR go away\r\n"), ["go away"]),
    "garbage to PSYNC": (to_psync(b"hello\r\n"), ["hello", "psync", "unexpected"]),
    "random bytes to PSYNC": (to_psync(RANDOM_BYTES), ["psync", "unexpected", "error", "lost", "reply"]),
    "loading": (to_psync(b"-LOADING in a moment\r\n"), ["loading"]),
    "no link of its own": (to_psync(b"-NOMASTERLINK not yet\r\n"), ["nomasterlink"]),
    "an error to PSYNC": (to_psync(b"-ERR not today\r\n"), ["not today", "sync"]),
    "no id": (to_psync(b"+FULLRESYNC\r\n"), ["fullresync", "replid", "syntax", "wrong", "sync"]),
    "a short id": (to_psync(b"+FULLRESYNC abc 1\r\n"), ["fullresync", "replid", "syntax", "wrong", "sync"]),
    "no offset": (to_psync(b"+FULLRESYNC %s\r\n" % (b"a" * 40)), ["fullresync", "syntax", "wrong", "sync"]),
    "a continuation of nothing": (to_psync(b"+CONTINUE %s\r\n" % (b"b" * 40)), ["continue", "partial", "sync"]),
    "a continuation of a short id": (to_psync(b"+CONTINUE xyz\r\n"), ["continue", "partial", "sync"]),
    "no dump": (to_psync(full(b"what?\r\n")), ["bad protocol", "sync", "dump", "what?"]),
    "a length that is none": (to_psync(full(b"$x\r\n")), ["sync", "length", "dump", "rdb"]),
    "a length below zero": (to_psync(full(b"$-7\r\n")), ["sync", "length", "dump", "rdb"]),
    "an endless length": (to_psync(full(b"$9223372036854775807\r\nREDIS0009")), ["sync", "dump", "rdb", "lost"]),
    "a short dump": (to_psync(full(of_length(GOOD, 5000))), ["sync", "dump", "rdb", "lost"]),
    "a dump that is garbage": (to_psync(full(of_length(RANDOM_BYTES))), ["signature", "format", "dump", "rdb"]),
    "a damaged dump": (to_psync(full(of_length(damaged(GOOD)))), ["checksum", "crc", "dump", "rdb"]),
    "a dump of the future": (
        to_psync(full(of_length(b"REDIS9999" + GOOD[9:]))), ["version", "format", "dump", "rdb"],
    ),
    "a dump cut in the middle": (to_psync(full(of_length(GOOD[:-12]))), ["dump", "rdb", "short", "end"]),
    "another mark": (to_psync(full(marked(GOOD, OTHER_MARK))), ["mark", "sync", "dump", "rdb", "lost"]),
    "no mark": (to_psync(full(b"$EOF:short\r\n")), ["mark", "sync", "bad protocol", "dump", "lost", "rdb"]),
    "a part of no kind": (to_psync(full(in_parts((b"X", b"abc")))), ["part", "bad protocol"]),
    "an end of parts that has bytes": (to_psync(full(in_parts((b"E", 7)))), ["part", "bad protocol"]),
    "parts without an end": (to_psync(full(in_parts((b"D", GOOD), (b"C", 100)))), ["sync", "bad protocol"]),
    "parts that end early": (to_psync(full(in_parts((b"D", GOOD[:30]), (b"E", b"")))), ["end of file", "bad protocol"]),
    "a damaged dump in parts": (
        to_psync(full(in_parts((b"D", damaged(GOOD)), (b"E", b"")))), ["crc error", "bad protocol"],
    ),
    "a dump between marks that is garbage": (to_psync(full(marked(RANDOM_BYTES))), ["dump", "rdb", "signature"]),
}  # fmt: skip
# What comes after a good dump. Those that make the replica end the link; the others may only be refused.
STREAMS = {
    "garbage": b"\x00\x01\x02garbage\r\n" * 10,
    "a bulk of a length below zero": b"*2\r\n$3\r\nGET\r\n$-5\r\nx\r\n",
    "an endless bulk": b"*2\r\n$3\r\nGET\r\n$1099511627776\r\nx\r\n",
    "an endless array": b"*1099511627776\r\n",
    "no end of a line": b"*" + b"1" * 100_000,
}
REFUSED = {
    "an unknown command": [["NOSUCH", "x"]],
    "too few words": [["SET", "k"]],
    "a key of another type": [["LPUSH", "of", "x"]],
    "no such database": [["SELECT", "99"]],
    "EXEC of nothing": [["EXEC"]],
    "MULTI in MULTI": [["MULTI"], ["MULTI"], ["SET", "k", "v"], ["EXEC"]],
    "a command for clients": [["BLPOP", "l", "0"], ["SUBSCRIBE", "c"], ["WAIT", "1", "0"], ["MONITOR"]],
}
ENDS_REDIS = {"a damaged dump", "a command for clients"}


@pytest.fixture
def replica(start_node):
    """A replica with data of its own that it must not lose."""
    node = start_node(SUBJECT, repl_timeout=2, repl_diskless_load="swapdb")
    node.call("DEBUG", "POPULATE", 1000, "old", 20)
    node.call("SET", "of", "before")
    return node


@pytest.fixture
def good(start_node):
    node = start_node(SUBJECT)
    node.call("SET", "of", "the good primary")
    return node


def serves(replica):
    """Whether it answers; redis-server does not while it loads the dump of another primary."""
    reply = replica("PING")
    return not reply.is_error or not (subject_is_oracle() and reply.text().startswith("LOADING"))


def goes_on(replica, good, raw):
    """It has what it had, serves, and takes another primary."""
    assert replica.alive, replica.log_tail()
    raw.close()
    until(lambda: serves(replica), "it does not answer")
    assert replica.call("PING") == b"PONG"
    assert replica.call("GET", "of") == b"before" and replica.call("DBSIZE") == 1001
    link(replica, good)
    expect_same_data(good, replica)
    assert "panick" not in replica.log_text()


def said_since(node, start):
    return node.log_text()[start:].lower()


@pytest.mark.skipif(subject_is_oracle(), reason="redis-server knows no parts")
def test_more_commands_than_a_replica_keeps(start_node):
    """Commands between the parts of a dump are bounded by what the replica has said; what is within is applied."""
    replica = start_node(SUBJECT, repl_timeout=2, replica_full_sync_buffer_limit="1mb")
    command = encode(["SET", "ahead", "x" * 1000])
    for count, is_kept in ((2000, False), (900, True)):
        parts = [(b"C", command)] * count + [(b"D", GOOD), (b"E", b"")]
        rest = encode(["SET", "behind", "y"])
        with RawPrimary(to_psync(full(in_parts(*parts)) + rest, ends=False)) as raw:
            replica.call("REPLICAOF", "127.0.0.1", raw.port)
            if is_kept:
                until(lambda: replica.call("GET", "behind") == b"y", "what follows is not applied")
                assert replica.call("GET", "ahead") == b"x" * 1000
                size = len(command) * count
                assert int(replica.info()["replica_full_sync_buffer_peak"]) >= size
                assert int(replica.info()["slave_repl_offset"]) == size + len(rest)
                assert int(replica.info()["replica_full_sync_buffer_size"]) == 0
            else:
                text = "bytes of commands come before the dump ends"
                until(lambda: text in replica.log_tail(), "the log does not say so")
                assert replica.call("DBSIZE") == 0


@pytest.mark.parametrize("name", PRIMARIES)
def test_a_primary_breaks_the_protocol(name, replica, good):
    if subject_is_oracle() and name in ENDS_REDIS:
        pytest.skip("redis-server ends")
    serve, words = PRIMARIES[name]
    start = len(replica.log_text())
    with RawPrimary(serve) as raw:
        replica.follow(good, raw.port)
        until(lambda: len(raw.wires) >= 2, "it does not try again")
        # The line of the request itself names the primary: what counts is in a line of another kind.
        until(
            lambda: any(word in said_since(replica, start) for word in words),
            lambda: f"none of {words} in:\n{said_since(replica, start)}",
        )
        goes_on(replica, good, raw)


def test_a_silent_primary(replica, good):
    start = len(replica.log_text())
    with RawPrimary(lambda wire: wire.hold()) as raw:
        replica.follow(good, raw.port)
        until(lambda: len(raw.wires) >= 2, "it does not try again")
        assert "timeout" in said_since(replica, start) or "timed out" in said_since(replica, start)
        goes_on(replica, good, raw)


@pytest.mark.parametrize(
    "head", [full(b""), full(b"$100000\r\nREDIS0009"), full(b"$EOF:" + MARK + b"\r\nREDIS0009")],
    ids=["before the dump", "in a dump", "in a dump between marks"],
)  # fmt: skip
def test_a_primary_falls_silent(head, replica, good):
    start = len(replica.log_text())
    with RawPrimary(to_psync(head, ends=False)) as raw:
        replica.follow(good, raw.port)
        until(lambda: len(raw.wires) >= 2, "it does not try again")
        if not subject_is_oracle():  # which says it at times only
            assert "time" in said_since(replica, start)
        goes_on(replica, good, raw)


def test_signs_of_life_keep_a_link(replica, good):
    """Newlines before the answer to PSYNC and before the dump are no data, and count as life."""

    def serve(wire):
        wire.handshake()
        for _ in range(12):
            wire.send(b"\n")
            time.sleep(PATIENT_S / 3)
        wire.full_resync(0)
        for _ in range(12):
            wire.send(b"\n")
            time.sleep(PATIENT_S / 3)
        wire.dump(GOOD)
        wire.hold()

    with RawPrimary(serve) as raw:
        replica.follow(good, raw.port)
        until(lambda: replica.call("GET", "of") == b"raw", "the dump does not arrive")
        assert len(raw.wires) == 1


def endless(piece, count, mark=True):
    def serve(wire):
        wire.handshake()
        wire.full_resync()
        wire.send(b"$EOF:%s\r\n" % MARK if mark else b"$%d\r\n" % (1 << 50))
        wire.send(piece[0])
        for _ in range(count):
            wire.send(piece[1])
        wire.hold()

    return serve


@pytest.mark.parametrize("mark", [True, False], ids=["marked", "of a length"])
def test_a_string_of_endless_length_in_a_dump(mark, replica, good):
    """A claim costs no memory; what has come for it is given back."""
    head = b"REDIS0009\xfe\x00\x00\x03key" + b"\x81" + (1 << 45).to_bytes(8, "big")
    before = replica.memory_bytes()
    start = len(replica.log_text())
    with RawPrimary(endless((head, b"x" * MIB), 32, mark)) as raw:
        replica.follow(good, raw.port)
        until(lambda: len(raw.wires) >= 2, "it does not try again")
        assert replica.memory_peak_bytes() < before + 400 * MIB
        assert said_since(replica, start).strip()
        goes_on(replica, good, raw)


def test_an_endless_dump(replica, good):
    """While key after key comes, what was there is served; once the link is lost, all that came is given back."""
    def serve(wire):
        wire.handshake()
        wire.full_resync()
        wire.send(b"$EOF:%s\r\nREDIS0009\xfe\x00" % MARK)
        number = 0
        while len(raw.wires) == 1 and not stop:
            wire.send(b"".join(b"\x00\x0akey%07d\x01v" % (number + at) for at in range(2000)))
            number += 2000
        wire.close()

    stop = []
    with RawPrimary(serve) as raw:
        replica.follow(good, raw.port)
        until(lambda: replica.info().get("master_sync_in_progress") == "1", "no sync begins")
        if not subject_is_oracle():
            for _ in range(20):
                assert replica.call("GET", "of") == b"before"
        stop.append(True)
        until(lambda: len(raw.wires) >= 2, "it does not try again")
        goes_on(replica, good, raw)


@pytest.mark.parametrize("offset", [0, 2**31, 2**62, 2**63 - 1, 2**63, 2**64, -1])
def test_offsets_that_lie(offset, replica, good):
    def serve(wire):
        wire.handshake()
        wire.send(full(b"", offset))
        wire.dump(GOOD)
        wire.stream(["SELECT", "0"], ["SET", "k", "v"], ["REPLCONF", "GETACK", "*"])
        wire.hold()

    with RawPrimary(serve) as raw:
        replica.follow(good, raw.port)
        until(lambda: len(raw.wires) >= 2 or replica.call("GET", "k") == b"v", "nothing happens")
        assert replica.alive and replica.call("INFO", "replication")
        link(replica, good)
        expect_same_data(good, replica)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_is_none(name, replica, good):
    start = len(replica.log_text())

    def serve(wire):
        wire.handshake()
        wire.full_resync()
        wire.dump(GOOD)
        wire.send(STREAMS[name])
        wire.hold()

    with RawPrimary(serve) as raw:
        replica.follow(good, raw.port)
        until(lambda: len(raw.wires) >= 2, "it keeps the link")
        words = ["protocol", "invalid", "lost", "error", "unexpected"]
        assert any(word in said_since(replica, start) for word in words)
        assert replica.alive and replica.call("PING") == b"PONG"
        link(replica, good)
        expect_same_data(good, replica)


@pytest.mark.parametrize("name", REFUSED)
def test_a_stream_that_can_not_be_applied(name, replica, good):
    """Whether it goes on or ends the link: it stays up, and says so."""
    if subject_is_oracle() and name in ENDS_REDIS:
        pytest.skip("redis-server ends")
    start = len(replica.log_text())

    def serve(wire):
        wire.handshake()
        wire.full_resync()
        wire.dump(GOOD)
        wire.stream(["SELECT", "0"], *REFUSED[name], ["SET", "after", "v"])
        wire.hold()

    with RawPrimary(serve) as raw:
        replica.follow(good, raw.port)
        until(lambda: replica.call("EXISTS", "after") or len(raw.wires) >= 2, "neither goes on nor ends the link")
        assert replica.alive and replica.call("PING") == b"PONG"
        assert said_since(replica, start).strip()
        link(replica, good)
        expect_same_data(good, replica)


# What asks for a sync wrongly, each on a connection of its own.
REQUESTS = [
    [["PSYNC"]], [["PSYNC", "a"]], [["PSYNC", "?", "x"]], [["PSYNC", "x" * 40, "9" * 30]], [["PSYNC", "?", "-2"]],
    [["PSYNC", "?", "-1", "FAILOVER"]], [["PSYNC", "?", "-1", "x"]], [["REPLCONF"]], [["REPLCONF", "capa"]],
    [["REPLCONF", "listening-port", "x"]], [["REPLCONF", "listening-port", "99999999"]],
    [["REPLCONF", "ip-address", "x" * 2000]], [["REPLCONF", "capa", "nonsense"]], [["REPLCONF", "nonsense", "1"]],
    [["REPLCONF", "rdb-only", "x"]], [["REPLCONF", "rdb-filter-only", "nonsense"]],
    [["REPLCONF", "rdb-filter-only", "functions"]], [["REPLCONF", "rdb-only", "1"]], [["MULTI"], ["PSYNC", "?",
        "-1"]],
    [["MULTI"], ["SYNC"]], [["SUBSCRIBE", "c"], ["PSYNC", "?", "-1"]], [["HELLO", "3"], ["REPLCONF", "capa", "eof"]],
    [["REPLCONF", "ack", "1", "x"]],
]  # fmt: skip
# What only replicas of Valkey say of themselves.
REQUESTS_OF_VALKEY = [[["REPLCONF", "version", version]] for version in ("8.0.0", "9.1.2", "x", "9", "1.2.3.4", "")]


def answers(node, requests=REQUESTS):
    """The first bytes of the answers, without ids."""
    found = []
    for commands in requests:
        with node.connect() as connection:
            wire = Wire(connection.socket)
            for words in commands:
                wire.send(encode(words))
                try:
                    raw = wire.reply().raw
                except Closed:
                    raw = b"closed"
            found.append((commands, raw if not raw.startswith(b"+FULLRESYNC") else b"+FULLRESYNC"))
    return found


@pytest.mark.parametrize("kind, requests", [("redis", REQUESTS), ("valkey", REQUESTS_OF_VALKEY)])
def test_odd_requests_of_replicas(kind, requests, start_node):
    expected = answers(start_node(kind), requests)
    node = start_node(stand_in((kind, "mantissa"))[1])
    found = answers(node, requests)
    assert [pair for pair in zip(expected, found) if pair[0] != pair[1]] == []
    until(lambda: node.info()["connected_slaves"] == "0", "those that have left are counted")


def test_wild_acknowledgements(start_node):
    primary = start_node(SUBJECT)
    with RawReplica(primary) as raw:
        raw.full_sync()
        for offset in (0, -1, 2**63 - 1, 2**63, 2**64, -(2**63), "x", "", "1.5", "9" * 100):
            raw.acknowledge(offset)
            raw.acknowledge(offset, offset)
        raw.send(encode(["REPLCONF", "ACK"]) + encode(["REPLCONF", "ACK", "1", "FACK"]) + encode(["REPLCONF", "ACK",
            "1"] * 9))
        raw.send(encode(["GET", "k"]) + encode(["SET", "k", "from a replica"]) + encode(["PSYNC", "?", "-1"]))
        primary.call("SET", "k", "v")
        assert primary.call("WAIT", 0, 1) in (0, 1)
        assert b"role:master" in primary.call("INFO", "replication")
        assert primary.call("GET", "k") in (b"v", b"from a replica")
    replica = start_node(SUBJECT)
    link(replica, primary)
    expect_same_data(primary, replica)


def test_acknowledgements_of_no_replica(start_node):
    """They have no answer, and count for nothing."""
    primary = start_node(SUBJECT)
    with primary.connect() as connection:
        connection.send("REPLCONF", "ACK", "1000")
        connection.send("REPLCONF", "GETACK", "*")
        assert connection.call("PING") == b"PONG"
        assert connection.call("WAIT", 1, 10) == 0


def test_a_replica_that_never_reads_the_stream(start_node):
    """It is dropped at its limit, the log says so, and others do not notice."""
    primary = start_node(SUBJECT, client_output_buffer_limit="replica 8mb 0 0", repl_backlog_size=MIB)
    replica = start_node(SUBJECT)
    link(replica, primary)
    before = primary.memory_bytes()
    start = len(primary.log_text())
    with RawReplica(primary) as raw:
        raw.full_sync()
        assert is_online(primary, raw)
        value = "x" * 100_000
        with primary.connect() as writer:
            for number in range(600):
                writer.call("SET", f"k:{number % 10}", value)
                if number % 20 == 19:
                    assert writer.call("WAIT", 1, 50_000) == 1, "the other replica stays within its limit"
        until(lambda: not is_online(primary, raw), "a replica that does not read is kept")
    text = said_since(primary, start)
    assert any(word in text for word in ("output buffer", "overcoming", "limit")), text
    wait_in_sync(primary, replica)
    expect_same_data(primary, replica)
    assert primary.memory_bytes() < before + 150 * MIB
    assert primary.stat("sync_full") == 2


def test_what_has_expired_under_a_pause_is_removed_before_what_is_written(start_node):
    """Reads leave it until the pause ends, but replicas must not see it when they apply the first write."""
    primary = start_node(SUBJECT, hz=1)
    replica = start_node(SUBJECT)
    link(replica, primary)
    for number in range(5):
        primary.call("DEL", "source", "copy")
        primary.call("SADD", "source", "x")
        primary.call("SADD", "other", "y")
        primary.call("PEXPIRE", "source", 20)
        primary.call("CLIENT", "PAUSE", 60 + 11 * number, "WRITE")
        with primary.connect() as reader, primary.connect() as writer:
            until(lambda: reader("EXISTS", "source").raw == b":0\r\n", "it does not expire")
            writer.send("SUNIONSTORE", "copy", "source", "other")
            assert writer.read().raw == b":1\r\n"
        wait_in_sync(primary, replica)
        expect_same_data(primary, replica)


def test_what_waits_for_a_replica_evicts_no_keys(start_node):
    """It is not counted against maxmemory, as in Redis: evictions would make it grow."""
    primary = start_node(SUBJECT, client_output_buffer_limit="replica 0 0 0", repl_backlog_size=MIB)
    memory = lambda name: int(primary.info("memory")[name])
    for number in range(100):
        primary.call("SET", f"k:{number}", "x" * 50_000)
    with RawReplica(primary) as raw:
        raw.full_sync()
        assert is_online(primary, raw)
        before = memory("used_memory")
        primary.call("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        primary.call("CONFIG", "SET", "maxmemory", before + 4 * MIB)
        with primary.connect() as writer:
            for number in range(1_000):
                reply = writer("SET", f"k:{number % 100}", "y" * 50_000)
                assert reply.raw == b"+OK\r\n", number
        assert primary.call("DBSIZE") == 100 and primary.stat("evicted_keys") == 0
        assert memory("mem_not_counted_for_evict") > 35 * MIB and memory("mem_clients_slaves") > 35 * MIB
        assert memory("mem_replication_backlog") == MIB
        # What waits takes little more than its bytes.
        assert memory("maxmemory") < memory("used_memory") < before + 64 * MIB


@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_a_replica_that_never_reads_its_dump(diskless, start_node):
    """Others get theirs, clients are served, memory stays within bounds."""
    primary = start_node(SUBJECT, repl_diskless_sync=diskless, repl_timeout=3)
    value = "".join(chr(32 + byte % 90) for byte in generator("dump").randbytes(50_000))
    for number in range(400):
        primary.call("SET", f"k:{number}", f"{number}{value}")
    before = primary.memory_bytes()
    with RawReplica(primary) as raw:
        raw.handshake()
        assert raw.psync()[0] == "+FULLRESYNC"
        for number in range(100):
            primary.call("SET", f"k:{number}", f"again {number}{value}")
        replica = start_node(SUBJECT)
        replica.follow(primary)
        wait_in_sync(primary, replica)
        expect_same_data(primary, replica)
        assert primary.memory_peak_bytes() < before + 150 * MIB


def test_many_ask_and_leave(start_node):
    primary = start_node(SUBJECT)
    primary.call("DEBUG", "POPULATE", 1000, "k", 100)
    before = primary.memory_bytes()
    for turn in range(10):
        raws = [RawReplica(primary) for _ in range(20)]
        for number, raw in enumerate(raws):
            raw.handshake()
            raw.send(encode(["PSYNC", "?", "-1"]))
            if number % 3 == turn % 3:
                raw.line()
            raw.close()
    until(lambda: primary.info()["connected_slaves"] == "0", "those that have left are counted")
    assert primary.memory_bytes() < before + 100 * MIB
    replica = start_node(SUBJECT)
    link(replica, primary)
    expect_same_data(primary, replica)
