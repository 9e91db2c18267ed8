"""Everyday use of redis-py, on this server and on redis-server: both must do."""

import threading
import uuid

import pytest
import redis

from support.servers import Server
from support.waiting import PATIENCE_S, eventually


@pytest.fixture
def binary(client, server):
    """A client that decodes nothing."""
    binary = redis.Redis(port=server.port)
    yield binary
    binary.close()


def test_strings(client):
    assert client.set("k", "v") is True
    assert client.get("k") == "v"
    assert client.set("k", "w", nx=True) is None
    assert client.set("k", "w", xx=True, get=True) == "v"
    assert client.set("t", "v", ex=100) and 0 < client.ttl("t") <= 100
    assert client.set("t", "v", keepttl=True) and client.ttl("t") > 0
    assert client.getex("t", persist=True) == "v" and client.ttl("t") == -1
    assert client.getdel("t") == "v" and client.get("t") is None
    assert client.mset({"a": 1, "b": 2}) and client.mget("a", "b", "c") == ["1", "2", None]
    assert client.msetnx({"a": 1, "new": 2}) is False
    assert client.incr("n") == 1 and client.incrby("n", 41) == 42 and client.decr("n", 2) == 40
    assert client.incrbyfloat("f", 0.1) == 0.1 and client.incrbyfloat("f", "0.2") == 0.3
    assert client.append("k", "tail") == 5 and client.strlen("k") == 5
    assert client.setrange("k", 1, "X") == 5 and client.getrange("k", 0, 1) == "wX"
    assert client.lcs("a", "b") == ""


def test_binary_values(binary):
    value = bytes(range(256)) * 10
    assert binary.set(b"\x00key\xff", value) and binary.get(b"\x00key\xff") == value
    assert binary.hset("h", b"\x00", value) == 1 and binary.hgetall("h") == {b"\x00": value}


def test_bits(client):
    assert client.setbit("b", 7, 1) == 0 and client.getbit("b", 7) == 1
    assert client.bitcount("b") == 1 and client.bitpos("b", 1) == 7
    client.set("c", "\x0f")
    assert client.bitop("OR", "d", "b", "c") == 1 and client.bitcount("d") == 4
    assert client.bitfield("e").set("u8", 0, 200).incrby("u8", 0, 10).get("u8", 0).execute() == [0, 210, 210]


def test_lists(client):
    assert client.rpush("l", "a", "b", "c") == 3 and client.lpush("l", "z") == 4
    assert client.lrange("l", 0, -1) == ["z", "a", "b", "c"]
    assert client.lpop("l") == "z" and client.rpop("l", 2) == ["c", "b"]
    assert client.linsert("l", "AFTER", "a", "x") == 2 and client.lpos("l", "x") == 1
    assert client.lmove("l", "m", "LEFT", "RIGHT") == "a" and client.rpoplpush("l", "m") == "x"
    assert client.lmpop(2, "l", "m", direction="LEFT", count=5) == ["m", ["x", "a"]]
    client.rpush("nums", 3, 1, 2)
    assert client.sort("nums", desc=True) == ["3", "2", "1"]
    client.mset({"w_1": 3, "w_2": 2, "w_3": 1})
    assert client.sort("nums", by="w_*", get=["#", "w_*"], groups=True) == [
        ("3", "1"),
        ("2", "2"),
        ("1", "3"),
    ]


def test_hashes(client):
    assert client.hset("h", mapping={"a": 1, "b": "two"}) == 2
    assert client.hgetall("h") == {"a": "1", "b": "two"}
    assert client.hmget("h", "a", "zz") == ["1", None] and client.hincrby("h", "a", 5) == 6
    assert client.hincrbyfloat("h", "f", 1.5) == 1.5
    assert client.hexists("h", "a") and client.hdel("h", "a", "f") == 2 and client.hlen("h") == 1
    assert client.hrandfield("h") == "b" and client.hrandfield("h", 1, withvalues=True) in (
        ["b", "two"],
        [["b", "two"]],
    )


def test_hash_field_expiry(client):
    client.hset("h", mapping={"a": 1, "b": 2, "c": 3})
    assert client.hexpire("h", 100, "a", "zz") == [1, -2]
    assert 0 < client.httl("h", "a")[0] <= 100 and client.httl("h", "b") == [-1]
    assert client.hpersist("h", "a") == [1] and client.hpexpire("h", 100_000, "b", nx=True) == [1]
    assert client.hexpireat("h", 33_177_117_420, "a") == [1] and client.hexpiretime("h", "a") == [
        33_177_117_420
    ]
    assert client.hgetdel("h", "c") == ["3"] and client.hgetex("h", "a", persist=True) == ["1"]
    assert client.hsetex("h", mapping={"d": 4}, ex=100) == 1 and client.httl("h", "d")[0] > 0
    client.hpexpire("h", 1, "b")
    eventually(lambda: not client.hexists("h", "b"), "the field lives")
    assert client.hget("h", "b") is None


def test_sets(client):
    assert client.sadd("s", "a", "b", "c") == 3 and client.smembers("s") == {"a", "b", "c"}
    client.sadd("t", "b", "c", "d")
    assert client.sinter("s", "t") == {"b", "c"} and client.sunion("s", "t") == {"a", "b", "c", "d"}
    assert client.sdiff("s", "t") == {"a"} and client.sintercard(2, ["s", "t"]) == 2
    assert client.smismember("s", ["a", "zz"]) == [1, 0] and client.smove("s", "t", "a")
    assert client.spop("s") in {"b", "c"} and len(client.srandmember("t", 2)) == 2


def test_sorted_sets(client):
    assert client.zadd("z", {"a": 1, "b": 2.5, "c": float("inf")}) == 3
    assert client.zscore("z", "b") == 2.5 and client.zscore("z", "c") == float("inf")
    ranges = client.zrange("z", 0, -1, withscores=True)
    assert [tuple(pair) for pair in ranges] == [("a", 1.0), ("b", 2.5), ("c", float("inf"))]
    assert client.zrange("z", "(1", "+inf", byscore=True) == ["b", "c"]
    assert client.zrevrange("z", 0, 0) == ["c"] and client.zrank("z", "b") == 1
    assert client.zincrby("z", 0.5, "a") == 1.5 and client.zadd("z", {"a": 1}, incr=True) == 2.5
    assert client.zcount("z", 2, 3) == 2 and client.zmscore("z", ["a", "zz"]) == [2.5, None]
    client.zadd("y", {"a": 1, "d": 4})
    assert client.zunionstore("u", ["z", "y"], aggregate="MAX") == 4
    assert client.zinter(["z", "y"]) == ["a"] and client.zdiff(["y", "z"]) == ["d"]
    assert client.zpopmin("u") in ([("a", 2.5)], ["a", 2.5], [["a", 2.5]])
    assert client.zrangestore("r", "z", 0, 0) == 1 and client.zremrangebyrank("z", 0, 0) == 1
    assert client.zlexcount("r", "-", "+") == 1


def test_keys(client):
    client.set("a", 1)
    assert client.exists("a", "b") == 1 and client.type("a") == "string"
    assert client.expire("a", 100) and client.expire("a", 50, gt=True) is False
    assert client.rename("a", "b") and client.copy("b", "c") and client.touch("b", "c") == 2
    assert client.unlink("b", "c") == 2 and client.dbsize() == 0 and client.randomkey() is None
    client.set("k", "v", pxat=33_177_117_420_000)
    assert client.pexpiretime("k") == 33_177_117_420_000 and client.persist("k")
    assert client.object("encoding", "k") == "embstr"


def test_scan_iterators(client):
    client.mset({f"key:{number}": number for number in range(500)})
    assert len(set(client.scan_iter(match="key:*", count=50))) == 500
    assert set(client.scan_iter(match="key:7?")) == {f"key:7{digit}" for digit in range(10)}
    client.sadd("s", *range(1000))
    assert len(set(client.sscan_iter("s"))) == 1000
    client.hset("h", mapping={f"f{number}": number for number in range(1000)})
    assert (
        dict(client.hscan_iter("h"))["f77"] == "77"
        and len(set(client.hscan_iter("h", no_values=True))) == 1000
    )
    client.zadd("z", {f"m{number}": number for number in range(1000)})
    assert dict(client.zscan_iter("z"))["m500"] == 500.0
    assert set(client.scan_iter(_type="zset")) == {"z"}


def test_pipelines_and_transactions(client):
    with client.pipeline(transaction=False) as pipe:
        for number in range(2000):
            pipe.set(f"k{number}", number)
        assert all(pipe.execute())
    with client.pipeline() as pipe:
        pipe.incr("n").incr("n").get("n")
        assert pipe.execute() == [1, 2, "2"]
    with client.pipeline() as pipe:
        pipe.set("s", "text").incr("s").get("s")
        results = pipe.execute(raise_on_error=False)
    assert results[0] is True and isinstance(results[1], redis.ResponseError) and results[2] == "text"
    assert client.transaction(lambda pipe: (pipe.multi(), pipe.incr("n")), "n") == [3]


def test_watch_fails_when_another_writes(client, server):
    with client.pipeline() as pipe, redis.Redis(port=server.port) as other:
        pipe.watch("k")
        other.set("k", "theirs")
        pipe.multi()
        pipe.set("k", "mine")
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert client.get("k") == "theirs"


def test_publish_and_subscribe_with_a_thread(client):
    got, done = [], threading.Event()

    def handle(message):
        got.append((message["channel"], message["data"]))
        if len(got) == 3:
            done.set()

    pubsub = client.pubsub(ignore_subscribe_messages=True)
    pubsub.subscribe(news=handle)
    pubsub.psubscribe(**{"n?ws.*": handle})
    thread = pubsub.run_in_thread(sleep_time=0.01)
    eventually(lambda: client.pubsub_numsub("news")[0][1] and client.pubsub_numpat(), "nobody subscribes")
    client.publish("news", "one")
    client.publish("news.sport", "two")
    client.publish("other", "nobody")
    client.publish("news", "three")
    assert done.wait(20)
    thread.stop()
    thread.join()
    assert got == [("news", "one"), ("news.sport", "two"), ("news", "three")]


def test_blocking_pops(client, server):
    results = []

    def wait():
        with redis.Redis(port=server.port, decode_responses=True) as other:
            results.append(other.blpop(["q1", "q2"], timeout=PATIENCE_S))
            results.append(other.blmove("q3", "q4", PATIENCE_S))
            results.append(other.bzpopmin("q5", timeout=PATIENCE_S))

    thread = threading.Thread(target=wait)
    thread.start()
    client.rpush("q2", "a")
    client.rpush("q3", "b")
    client.zadd("q5", {"c": 1})
    thread.join(20)
    assert [tuple(result) if not isinstance(result, str) else result for result in results] == [
        ("q2", "a"),
        "b",
        ("q5", "c", 1.0),
    ]
    assert client.blpop("empty", timeout=0.05) is None


def test_locks(client):
    lock = client.lock("lock", timeout=20, blocking_timeout=5)
    # redis-py releases by script; without scripts the same by hand: SET NX with a token, then a guarded
    # delete.
    token = str(uuid.uuid4())
    assert client.set(lock.name, token, nx=True, px=20_000)
    assert client.set(lock.name, "other", nx=True, px=20_000) is None
    with client.pipeline() as pipe:
        pipe.watch(lock.name)
        assert pipe.get(lock.name) == token
        pipe.multi()
        pipe.delete(lock.name)
        assert pipe.execute() == [1]
    assert client.set(lock.name, "other", nx=True, px=20_000)


def test_connection_pools_and_names(client, server):
    pool = redis.ConnectionPool(
        port=server.port, max_connections=4, client_name="pooled", decode_responses=True
    )
    clients = [redis.Redis(connection_pool=pool) for _ in range(4)]
    for number, pooled in enumerate(clients):
        assert pooled.set(f"p{number}", number)
    assert clients[0].client_getname() == "pooled"
    assert any(entry["name"] == "pooled" for entry in client.client_list())
    pool.disconnect()
    info = client.client_info()
    assert info["lib-name"].startswith("redis-py") and info["lib-ver"]
    assert client.client_setname("me") and client.client_getname() == "me"
    assert client.client_id() == int(info["id"])


def test_databases_and_select(client, server):
    with redis.Redis(port=server.port, db=5, decode_responses=True) as other:
        other.set("k", "five")
        assert client.get("k") is None
        assert client.swapdb(0, 5) and client.get("k") == "five"
        assert other.dbsize() == 0


def test_passwords(server):
    with redis.Redis(port=server.port) as admin:
        admin.config_set("requirepass", "secret")
        try:
            with redis.Redis(port=server.port, password="secret", protocol=3) as good:
                assert good.ping()
            with redis.Redis(port=server.port, username="default", password="secret") as good:
                assert good.ping()
            with (
                redis.Redis(port=server.port, password="wrong", retry=None) as bad,
                pytest.raises(redis.AuthenticationError),
            ):
                bad.ping()
            with redis.Redis(port=server.port, retry=None) as none, pytest.raises(redis.AuthenticationError):
                none.ping()
        finally:
            admin.config_set("requirepass", "")


def test_administration(client):
    info = client.info()
    assert info["redis_version"].startswith("8.2.") and info["connected_clients"] >= 1
    assert {"uptime_in_seconds", "used_memory", "role", "db0"} - set(info) <= {"db0"}
    assert client.config_get("maxmemory") == {"maxmemory": "0"} and client.config_set("timeout", 0)
    assert client.time()[0] > 0 and client.lastsave() is not None
    assert client.command_count() > 200 and "get" in client.command()
    assert client.slowlog_get() is not None and client.slowlog_reset()
    assert client.memory_usage("missing") is None and client.echo("x") == "x"
    client.set("k", "v")
    assert client.memory_usage("k") > 0 and client.info("keyspace")["db0"]["keys"] == 1
    assert client.wait(0, 10) == 0


def test_errors_are_their_classes(client):
    client.set("s", "text")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.lpush("s", "x")
    with pytest.raises(redis.ResponseError, match="not an integer"):
        client.incr("s")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("NOSUCHCOMMAND")


def test_monitor(client):
    with client.monitor() as monitor:
        client.set("watched", "by monitor")
        while True:
            event = monitor.next_command()
            if event["command"].startswith("SET watched"):
                break
    assert event["command"] == "SET watched by monitor" and event["db"] == 0


def test_keyspace_notifications(client):
    client.config_set("notify-keyspace-events", "KEA")
    pubsub = client.pubsub(ignore_subscribe_messages=True)
    pubsub.psubscribe("__keyevent@0__:*")
    eventually(client.pubsub_numpat, "nobody subscribes")
    client.set("k", "v")
    message = None
    while message is None:
        message = pubsub.get_message(timeout=5)
    assert (message["channel"], message["data"]) == ("__keyevent@0__:set", "k")
    pubsub.close()
    client.config_set("notify-keyspace-events", "")


def test_a_unix_socket(tmp_path):
    for kind in ("subject", "oracle"):
        path = str(tmp_path / f"{kind}.sock")
        with Server(kind, {"unixsocket": path}), redis.Redis(unix_socket_path=path) as client:
            assert client.ping() and client.set("k", "v") and client.get("k") == b"v"


def test_large_values_and_deep_pipelines(binary):
    value = b"x" * 20_000_000
    assert binary.set("large", value) and binary.get("large") == value
    with binary.pipeline(transaction=False) as pipe:
        for _ in range(50):
            pipe.strlen("large")
        for number in range(20_000):
            pipe.rpush("l", number)
        results = pipe.execute()
    assert results[:50] == [len(value)] * 50 and results[-1] == 20_000


def test_client_side_cache(server):
    """redis-py's own cache forgets what another client changes, deletes or flushes."""
    cached = redis.Redis(
        port=server.port,
        protocol=3,
        decode_responses=True,
        single_connection_client=True,
        cache_config=redis.cache.CacheConfig(max_size=100),
    )
    other = redis.Redis(port=server.port)
    cached.flushall()

    def wait_for(value):
        eventually(lambda: cached.get("k") == value, "the cache still holds what has changed")

    other.set("k", "first")
    wait_for("first")
    calls = cached.info("commandstats")["cmdstat_get"]["calls"]
    assert [cached.get("k") for _ in range(10)] == ["first"] * 10
    assert cached.info("commandstats")["cmdstat_get"]["calls"] <= calls + 1
    for change, value in [
        (lambda: other.set("k", "second"), "second"),
        (lambda: other.append("k", "!"), "second!"),
        (lambda: other.delete("k"), None),
        (lambda: other.set("k", "third"), "third"),
        (lambda: other.flushall(), None),
    ]:
        change()
        wait_for(value)
    cached.set("k", "own")
    wait_for("own")
    cached.close()
    other.close()
