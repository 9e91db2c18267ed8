"""Options and settings that Redis has added to commands of 8.2 since. No server with them is at hand, so the replies
are those of Redis's documentation and tests."""

import pytest

from support.memory import used
from support.seeds import generator
from support.servers import Server, subject_is_oracle
from support.state import differences, whole_state
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has none of them")


def fill(connection, random):
    """Sorted sets `z0` to `z3` and sets `s0` and `s1` with some members, as dictionaries."""
    inputs = {}
    for name in ("z0", "z1", "z2", "z3"):
        scores = {f"m{random.randrange(40)}": random.choice((1, -2.5, "inf")) for _ in range(random.randrange(1, 30))}
        connection.call("ZADD", name, *(word for member, score in scores.items() for word in (score, member)))
        inputs[name] = set(scores)
    for name in ("s0", "s1"):
        inputs[name] = {f"m{random.randrange(40)}" for _ in range(20)}
        connection.call("SADD", name, *inputs[name])
    return inputs


def counted(inputs, names, weights, is_union):
    chosen = [inputs[name] for name in names]
    members = set.union(*chosen) if is_union else set.intersection(*chosen)
    weigh = lambda member: sum(weight for name, weight in zip(names, weights) if member in inputs[name])  # noqa: E731
    return sorted((weigh(member), member) for member in members)


def pairs(reply):
    words = [word.decode() for word in reply]
    return [(float(score), member) for member, score in zip(words[::2], words[1::2])]


def test_members_are_counted_over_sets(subject):
    random = generator()
    with subject.connect() as connection:
        for _ in range(60):
            connection.call("FLUSHALL")
            inputs = fill(connection, random)
            names = random.sample(sorted(inputs), random.randrange(1, 5))
            weights, words = [1] * len(names), []
            if random.random() < 0.5:
                weights = [random.choice((1, 2, -1, 0.5)) for _ in names]
                words = ["WEIGHTS", *weights]
            words = [len(names), *names, *words, "AGGREGATE", random.choice(("COUNT", "count"))]
            for command in ("ZUNION", "ZINTER"):
                expected = counted(inputs, names, weights, command == "ZUNION")
                assert pairs(connection.call(command, *words, "WITHSCORES")) == expected
                assert connection.call(f"{command}STORE", "out", *words) == len(expected)
                assert pairs(connection.call("ZRANGE", "out", 0, -1, "WITHSCORES")) == expected
        assert connection("ZDIFF", 1, "z0", "AGGREGATE", "COUNT").text() == "ERR syntax error"
        assert connection("ZUNION", 1, "z0", "AGGREGATE", "COUNTS").text() == "ERR syntax error"


@pytest.mark.parametrize("kind", ["redis", "subject"])
def test_replicas_have_the_counts(kind):
    random = generator()
    with Server("subject") as server, server.connect() as primary:
        with Server(kind, options={"replicaof": ["127.0.0.1", server.port]}) as copy, copy.connect() as replica:
            eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
            fill(primary, random)
            primary.call("ZADD", "large", *(word for n in range(5_000) for word in (n, f"member{n}")))
            for line in (
                "ZUNIONSTORE out 3 z0 z1 z2 WEIGHTS 0.1 0.2 0.3 AGGREGATE COUNT",
                "ZINTERSTORE out 2 z0 no AGGREGATE COUNT",
                "ZINTERSTORE out 2 z0 no AGGREGATE COUNT", "SET out 1", "ZUNIONSTORE out 2 s0 large AGGREGATE COUNT",
                "EXPIRE out 1000", "ZUNIONSTORE out 2 z0 out WEIGHTS inf -inf AGGREGATE COUNT",
                "ZUNIONSTORE z1 1 z1 AGGREGATE COUNT",
            ):  # fmt: skip
                primary.call(*line.split())
                assert primary.call("WAIT", 1, 10_000) == 1
                found = differences(whole_state(primary), whole_state(replica), near=0)
                assert not found, (line, "\n".join(found[:20]))


def slow(connection, name):
    return next(entry[3] for entry in connection.call("SLOWLOG", "GET", -1) if entry[3][0] == name)


def test_the_slow_log_keeps_as_much_as_it_is_told(subject):
    with subject.connect() as connection:
        names = ["slowlog-entry-max-argc", "slowlog-entry-max-string-len"]
        found = [connection.call("CONFIG", "GET", name)[1] for name in names]
        assert found == [b"32", b"128"]
        try:
            for name, value in zip(names, ("1", "0")):
                assert "argument must be between" in connection("CONFIG", "SET", name, value).text()
            connection.call("CONFIG", "SET", "slowlog-log-slower-than", 0, names[0], 5)
            connection.call("SADD", "s", *"abcdefgh")
            assert slow(connection, b"SADD") == [b"SADD", b"s", b"a", b"b", b"... (6 more arguments)"]
            connection.call("SADD", "s", *"abc")
            assert slow(connection, b"SADD") == [b"SADD", b"s", b"a", b"b", b"c"]
            connection.call("CONFIG", "SET", names[0], 2, names[1], 4)
            connection.call("SADD", "s", *"abcd")
            assert slow(connection, b"SADD") == [b"SADD", b"... (5 more arguments)"]
            connection.call("CONFIG", "SET", names[0], 100_000)
            connection.call("SET", "k", "12345678")
            assert slow(connection, b"SET") == [b"SET", b"k", b"1234... (4 more bytes)"]
            connection.call("SADD", "s", *range(1_000))
            assert len(slow(connection, b"SADD")) == 1_002
            entry = connection.call("SLOWLOG", "GET", 1)[0]
            assert len(entry) == 6
        finally:
            connection.call("CONFIG", "SET", "slowlog-log-slower-than", 10_000, names[0], 32, names[1], 128)


def idle(connection, key):
    return connection.call("OBJECT", "IDLETIME", key)


def test_only_changes_keep_a_key_under_lrm():
    """Reading a key does not touch its clock, changing it does, whatever the client asks for."""
    ways = [
        "SET k 1", "APPEND text x", "INCR k", "EXPIRE k 100", "HSET h f 2", "RPUSH l x", "LPOP l", "SADD s x",
        "ZADD z 2 m", "XADD x * f v", "SETRANGE text 0 y", "JSON.SET j $ 2", "PERSIST k", "LMOVE l l LEFT RIGHT",
    ]  # fmt: skip
    with Server("subject", {"maxmemory-policy": "allkeys-lrm"}) as server, server.connect() as connection:
        for line in (
            "SET k 1", "SET text x", "HSET h f 1", "RPUSH l a b c", "SADD s a", "ZADD z 1 m", "XADD x 1-1 f v",
            "JSON.SET j $ 1",
        ):  # fmt: skip
            connection.call(*line.split())
        keys = ["k", "text", "h", "l", "s", "z", "x", "j"]
        for key in keys:
            payload = connection.call("DUMP", key)
            connection.call("RESTORE", key, 0, payload, "REPLACE", "IDLETIME", 1000)
        for line in (
            "GET k", "TOUCH k text", "GETRANGE text 0 1", "HGETALL h", "LRANGE l 0 -1", "SMEMBERS s",
            "ZRANGE z 0 -1",
            "XRANGE x - +", "JSON.GET j", "EXISTS k", "TYPE k", "SETNX k 2", "SADD s a", "HSETNX h f 3",
            "ZADD z NX 3 m",
            "LPUSHX none 1", "LREM l 0 none", "GETEX k", "OBJECT ENCODING k",
        ):  # fmt: skip
            connection(*line.split())
            assert all(idle(connection, key) >= 1000 for key in keys), line
        assert connection("OBJECT", "FREQ", "k").text().startswith("ERR An LFU maxmemory policy is not selected")
        connection.call("CLIENT", "NO-TOUCH", "ON")
        for line in ways:
            key = line.split()[1]
            connection.call("RESTORE", key, 0, connection.call("DUMP", key), "REPLACE", "IDLETIME", 1000)
            if line.startswith("PERSIST"):
                connection.call("PEXPIRE", key, 1_000_000)
                connection.call("RESTORE", key, 10**6, connection.call("DUMP", key), "REPLACE", "IDLETIME", 1000)
            assert idle(connection, key) >= 1000
            connection.call(*line.split())
            assert idle(connection, key) <= 2, line
        connection.call("CONFIG", "SET", "maxmemory-policy", "volatile-lrm")
        assert connection.call("CONFIG", "GET", "maxmemory-policy")[1] == b"volatile-lrm"
        assert b"maxmemory_policy:volatile-lrm\r" in connection.call("INFO", "memory")
        error = connection("CONFIG", "SET", "maxmemory-policy", "lrm").text()
        assert "allkeys-random, noeviction" in error and "lrm," not in error.partition("following:")[2]


@pytest.mark.parametrize("policy", ["allkeys-lrm", "volatile-lrm"])
def test_what_was_changed_long_ago_is_evicted(policy):
    options = {"maxmemory-policy": policy, "maxmemory-samples": 64, "worker-threads": 1}
    with Server("subject", options) as server, server.connect() as connection:
        expiry = ["EX", 100_000] if policy == "volatile-lrm" else []
        payloads = {}
        for name, idle_s in (("old", 5_000), ("new", 0)):
            for number in range(500):
                key = f"{name}:{number}"
                connection.call("SET", key, "x" * 10_000, *expiry)
                payloads[name] = payloads.get(name) or connection.call("DUMP", key)
                ttl = 10**8 if expiry else 0
                connection.call("RESTORE", key, ttl, payloads[name], "REPLACE", "IDLETIME", idle_s)
        for number in range(500):
            connection.call("GET", f"old:{number}")
        connection.call("CONFIG", "SET", "maxmemory", used(connection))
        for number in range(250):
            connection.call("SET", f"more:{number}", "x" * 10_000, *expiry)
        left = {name: sum(connection.call("EXISTS", f"{name}:{number}") for number in range(500)) for name in payloads}
        assert left["old"] < 350 and left["new"] > 480, left


def test_a_dump_tells_when_keys_were_changed(tmp_path):
    options = {"maxmemory-policy": "allkeys-lrm"}
    with Server("subject", options, directory=tmp_path) as server, server.connect() as connection:
        connection.call("SET", "k", 1)
        connection.call("RESTORE", "k", 0, connection.call("DUMP", "k"), "REPLACE", "IDLETIME", 1000)
        connection.call("SAVE")
    with Server("subject", options, directory=tmp_path) as server, server.connect() as connection:
        assert idle(connection, "k") >= 1000
