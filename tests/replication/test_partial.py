"""Partial syncs: after a lost link, a promotion, a restart, in chains, and whatever byte the link is cut at."""

import pytest

from support.filling import fill
from support.replication import (
    PAIRS, RawReplica, expect_same_data, link, log_has, stand_in, until, wait_in_sync, wanted,
)  # fmt: skip
from support.resp import Closed, encode
from support.seeds import generator
from support.servers import subject_is_oracle
from support.waiting import until_written

SUBJECT = "redis" if subject_is_oracle() else "mantissa"
OURS_REPLICATE = [pair for pair in PAIRS if pair[1] == "mantissa"]
# The bytes of the handshake in each direction are fewer than these.
HANDSHAKE_UP, HANDSHAKE_DOWN = 300, 130
REPLICAS_AT_ONCE = 8


def syncs(node):
    """How many full and partial syncs a primary has given."""
    return node.stat("sync_full"), node.stat("sync_partial_ok")


def write(node, count=100, prefix="key"):
    with node.connect() as connection:
        connection.pipeline([("SET", f"{prefix}:{number}", number) for number in range(count)])


def lose_link(proxy, replica):
    proxy.refuse()
    until(lambda: replica.info()["master_link_status"] == "down", "the link does not break")


def test_a_lost_link_continues(pair, make_proxy):
    primary, replica = pair
    proxy = make_proxy(primary)
    with primary.connect() as connection:
        fill(connection, field_expiry=False)
    link(replica, primary, proxy.port)
    full, partial = syncs(primary)
    for round_number in range(1, 4):
        lose_link(proxy, replica)
        write(primary, prefix=f"round {round_number}")
        primary.call("SELECT", round_number)
        primary.call("SET", "in another database", round_number)
        primary.call("SELECT", 0)
        assert replica.call("EXISTS", f"round {round_number}:0") == 0
        proxy.refuse(False)
        wait_in_sync(primary, replica)
        assert syncs(primary) == (full, partial + round_number)
    expect_same_data(primary, replica)


def test_a_backlog_too_small_makes_a_full_sync(pair, make_proxy):
    primary, replica = pair
    primary.config(repl_backlog_size=16384)
    proxy = make_proxy(primary)
    link(replica, primary, proxy.port)
    full, partial = syncs(primary)
    lose_link(proxy, replica)
    write(primary, 5000)
    proxy.refuse(False)
    wait_in_sync(primary, replica)
    assert syncs(primary) == (full + 1, partial)
    expect_same_data(primary, replica)


def test_a_command_longer_than_what_may_wait_makes_a_full_sync(pair, make_proxy):
    primary, replica = pair
    primary.config(repl_backlog_size=16384, client_output_buffer_limit="replica 32768 32768 60")
    proxy = make_proxy(primary)
    link(replica, primary, proxy.port)
    full, partial = syncs(primary)
    lose_link(proxy, replica)
    primary.call("SET", "long", "x" * (256 << 10))
    proxy.refuse(False)
    wait_in_sync(primary, replica)
    assert syncs(primary) == (full + 1, partial)
    expect_same_data(primary, replica)


def test_cuts_at_random_bytes_of_the_stream(pair, make_proxy):
    primary, replica = pair
    primary.config(repl_backlog_size=1 << 28)
    proxy = make_proxy(primary)
    link(replica, primary, proxy.port)
    full, _ = syncs(primary)
    random = generator("cuts")
    for cut in range(12):
        proxy.cut_after(down=random.randint(200, 6000))
        seen = proxy.accepted
        proxy.cut()
        number = 0
        while proxy.accepted < seen + 2:
            words = [("MULTI",), ("INCR", "left"), ("RPUSH", f"list:{cut}", number), ("INCR", "right"), ("EXEC",)]
            with primary.connect() as connection:
                connection.pipeline(words)
            number += 1
            left, right = replica.call("MGET", "left", "right")
            assert left == right, "half of a transaction is seen"
    proxy.cut_after()
    proxy.cut()
    wait_in_sync(primary, replica)
    expect_same_data(primary, replica)
    assert syncs(primary)[0] == full


def chain_of(pair, start_node):
    """Three nodes of a pair's kinds by turns, each the replica of the one before."""
    first, second = pair
    third = start_node(first.kind)
    for node in (first, second, third):
        # A PING of the former primary would put it ahead of the new one.
        node.config(repl_ping_replica_period=3600)
    with first.connect() as connection:
        fill(connection, field_expiry=False)
    link(second, first)
    link(third, second)
    return first, second, third


def test_a_chain_and_a_promotion(pair, start_node):
    first, second, third = chain_of(pair, start_node)
    write(first)
    wait_in_sync(first, second)
    wait_in_sync(second, third)
    infos = [node.info() for node in (first, second, third)]
    for name in ("master_replid", "master_repl_offset"):
        assert len({info[name] for info in infos}) == 1, name
    expect_same_data(first, second)
    expect_same_data(second, third)
    syncs_before = syncs(second)
    # A PING may have come meanwhile.
    before = int(infos[0]["master_repl_offset"])
    second.promote()
    promoted = second.info()
    assert promoted["role"] == "master" and promoted["master_replid"] != infos[0]["master_replid"]
    assert promoted["master_replid2"] == infos[0]["master_replid"]
    assert int(promoted["second_repl_offset"]) in (before + 1, before + 1 + len(encode(["PING"])))
    write(second, prefix="after the promotion")
    wait_in_sync(second, third)
    assert syncs(second)[0] == syncs_before[0]
    # The first, made a replica, knows the second's former id.
    first.follow(second)
    wait_in_sync(second, first, third)
    full, partial = syncs(second)
    assert full == syncs_before[0] and partial > syncs_before[1]
    expect_same_data(second, first, third)


def test_what_a_chain_hands_on_is_the_same_bytes(pair):
    first, second = pair
    link(second, first)
    at = first.info()
    offset = int(at["master_repl_offset"]) + 1
    first.call("SELECT", 7)
    first.call("SADD", "set", *range(50))
    first.call("SPOP", "set", 7)
    first("EVAL", "redis.call('INCRBYFLOAT', 'f', '0.1') redis.call('SET', 'k', 'v', 'EX', 1000)", 0)
    first.call("SELECT", 0)
    first.call("XADD", "stream", "*", "field", "value")
    first.call("SET", "last", "x" * 100_000)
    first.call("DEL", "last")
    wait_in_sync(first, second)
    streams = []
    for node in (first, second):
        with RawReplica(node).handshake() as raw:
            assert raw.psync(at["master_replid"], offset)[0] == "+CONTINUE"
            streams.append((raw.until(b"DEL"), raw.offset))
    assert streams[0] == streams[1]


def test_the_stream_names_its_database_once(pair):
    primary = pair[0]
    primary.call("SET", "k", 1)
    with RawReplica(primary) as raw:
        raw.full_sync()
        primary.call("SET", "k", 2)
        assert raw.until(b"SET") == [[b"SELECT", b"0"], [b"SET", b"k", b"2"]]
        replid, offset = raw.replid, raw.offset
    primary.call("SET", "k", 3)
    with RawReplica(primary).handshake() as raw:
        assert raw.psync(replid, offset + 1)[0] == "+CONTINUE"
        assert raw.until(b"SET") == [[b"SET", b"k", b"3"]]
        primary.call("SET", "k", 4)
        assert raw.until(b"SET") == [[b"SET", b"k", b"4"]]
        until(lambda: primary.call("WAIT", 0, 0) == 0, "no WAIT")
        raw.acknowledge()
        primary.admin().send("WAIT", 1, 10_000)
        assert primary.admin().read().plain() == 1


def grants(kind, start_node):
    """What a primary answers to PSYNC at the edges of what it has, by what the edge is."""
    node = start_node(kind, repl_backlog_size=16384, repl_ping_replica_period=3600)
    with RawReplica(node) as raw:
        raw.full_sync()
        old = raw.replid
        node.call("SET", "k", "v")
        raw.until(b"SET")
    middle = int(node.info()["master_repl_offset"])
    other = start_node(kind)
    with RawReplica(other) as raw:
        raw.full_sync()
        link(node, other)
    # The node has taken over the other's id; its promotion makes that the second one.
    node.promote()
    node.call("SET", "after", "x" * 50)
    info = node.info()
    first, end = int(info["repl_backlog_first_byte_offset"]), int(info["master_repl_offset"])
    switch = int(info["second_repl_offset"])
    cases = {
        "first": (info["master_replid"], first), "before the first": (info["master_replid"], first - 1),
        "last": (info["master_replid"], end), "next": (info["master_replid"], end + 1),
        "after the next": (info["master_replid"], end + 2), "far": (info["master_replid"], 2**62),
        "negative": (info["master_replid"], -5), "zero": (info["master_replid"], 0),
        "second at the switch": (info["master_replid2"], switch),
        "second after the switch": (info["master_replid2"], switch + 1),
        "second before the switch": (info["master_replid2"], switch - 1),
        "an id of the past": (old, middle), "unknown": ("f" * 40, end), "short": ("f", end), "any": ("?", -1),
        "no id": ("0" * 40, 1),
    }  # fmt: skip
    found = {}
    for name, (replid, offset) in cases.items():
        with RawReplica(node).handshake() as raw:
            words = raw.psync(replid, offset)
            found[name] = words[0], len(words), (words[1:] or [""])[0] == info["master_replid"]
    return found


def test_what_is_granted(start_node):
    assert grants(SUBJECT, start_node) == grants("redis", start_node)


def test_a_replica_restarts_from_its_dump(pair):
    primary, replica = pair
    with primary.connect() as connection:
        fill(connection, field_expiry=False)
    link(replica, primary)
    replica.call("CONFIG", "REWRITE")
    before = syncs(primary)
    assert replica.shut_down("SAVE") == 0
    write(primary)
    replica.start()
    wait_in_sync(primary, replica)
    assert syncs(primary) == (before[0], before[1] + 1)
    expect_same_data(primary, replica)


def test_a_primary_restarts_from_its_dump(pair):
    primary, replica = pair
    with primary.connect() as connection:
        fill(connection, field_expiry=False)
        connection.call("SET", "expires meanwhile", "v", "PX", 1)
    link(replica, primary)
    before = primary.info()["master_replid"]
    assert primary.shut_down("SAVE") == 0
    primary.start()
    wait_in_sync(primary, replica)
    assert syncs(primary) == (0, 1)
    assert primary.info()["master_replid2"] == before
    write(primary)
    expect_same_data(primary, replica)


@pytest.mark.skipif(subject_is_oracle(), reason="redis-server makes a full sync after it has loaded a log")
@pytest.mark.parametrize("pair", wanted(OURS_REPLICATE), indirect=True)
@pytest.mark.parametrize("end", ["shutdown", "crash"])
def test_a_replica_restarts_from_its_log(pair, end):
    primary, replica = pair
    replica.options |= {"appendonly": "yes", "appendfsync": "always"}
    replica.config_path.unlink()
    replica.restart()
    with primary.connect() as connection:
        fill(connection, field_expiry=False)
    link(replica, primary)
    write(primary, prefix="in the log")
    wait_in_sync(primary, replica)
    with replica.connect() as connection:
        # The log begins anew with the primary's data.
        until_written(connection)
    replica.call("CONFIG", "REWRITE")
    before = syncs(primary)
    if end == "crash":
        replica.kill()
    else:
        assert replica.shut_down() == 0
    write(primary, prefix="meanwhile")
    replica.start()
    wait_in_sync(primary, replica)
    assert syncs(primary) == (before[0], before[1] + 1)
    expect_same_data(primary, replica)


def cut_points(step):
    """Plans for several replicas that have, together, a connection for every cut."""
    points = [{"up": count} for count in range(1, HANDSHAKE_UP, step)]
    points += [{"down": count} for count in range(1, HANDSHAKE_DOWN, step)]
    return [points[start::REPLICAS_AT_ONCE] for start in range(REPLICAS_AT_ONCE)]


@pytest.mark.parametrize(
    "kinds, step",
    [(("mantissa", "mantissa"), 4), (("redis", "mantissa"), 9), (("mantissa", "redis"), 13)],
    ids=["mantissa-mantissa", "redis-mantissa", "mantissa-redis"],
)
def test_cuts_in_the_handshake(kinds, step, start_node, make_proxy):
    kinds = stand_in(kinds)
    primary = start_node(kinds[0])
    write(primary)
    proxies = []
    for plan in cut_points(step):
        proxy = make_proxy(primary)
        proxy.cut_each(plan)
        replica = start_node(kinds[1])
        replica.follow(primary, proxy.port)
        proxies.append((proxy, replica))
    for proxy, _ in proxies:
        until(lambda proxy=proxy: not proxy.plan, "the replica no longer tries to connect", patience=120)
    replicas = [replica for _, replica in proxies]
    wait_in_sync(primary, *replicas)
    write(primary, prefix="after")
    wait_in_sync(primary, *replicas)
    assert {replica.call("DEBUG", "DIGEST") for replica in replicas} == {primary.call("DEBUG", "DIGEST")}
    for replica in replicas:
        assert not log_has(replica, "panick")


def test_a_replica_that_leaves_at_any_byte(pair):
    """A primary forgets who asks for a sync and is gone."""
    primary = pair[0]
    write(primary)
    asked = b"".join(
        encode(words)
        for words in (
            ["PING"], ["REPLCONF", "listening-port", 1], ["REPLCONF", "capa", "eof", "capa", "psync2"],
            ["PSYNC", "?", -1],
        )
    )  # fmt: skip
    for size in range(1, len(asked) + 1):
        with RawReplica(primary) as raw:
            raw.send(asked[:size])
            if size % 5 == 0:
                try:
                    raw.fill(0.1)
                except (Closed, TimeoutError):
                    pass
    until(lambda: primary.info()["connected_slaves"] == "0", "a replica that has left is still counted")
    with RawReplica(primary) as raw:
        assert raw.full_sync().startswith((b"REDIS", b"VALKEY"))
