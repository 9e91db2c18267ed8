"""Full syncs and the stream after them, between servers of every kind: both ends hold the same at the same offset."""

import threading

import pytest

from differential.generator import Grammar
from support.filling import FAR, fill, fill_expiring_fields
from support.replication import PAIRS, PATIENCE_S, expect_same_data, link, until, wait_in_sync, wanted
from support.resp import to_bytes
from support.seeds import generator
from support.servers import subject_is_oracle

# Pairs whose two ends know fields of hashes that expire, and how the other writes them into a dump.
FIELDS_EXPIRE = [pair for pair in PAIRS if "redis7" not in pair and pair != ("mantissa", "valkey")]
FAMILIES = ["strings", "bits", "lists", "hashes", "sets", "zsets", "streams", "keys", "sketches", "geo"]
COMMANDS_PER_FAMILY = 300
# Words of commands that older replicas do not know: what is done is streamed as it was asked for.
SINCE_8 = set(b"DIFF DIFF1 ANDOR ONE KEEPREF DELREF ACKED XDELEX XACKDEL HSETEX HGETEX HGETDEL".split())
LIBRARY = """#!lua name=%s
redis.register_function('%s_put', function(keys, args)
  redis.call('SET', keys[1], args[1])
  redis.call('SADD', keys[2], 'a', 'b', 'c', 'd')
  return redis.call('SPOP', keys[2])
end)"""
SCRIPT = """
for number = 1, 20 do redis.call('RPUSH', KEYS[1], number) end
redis.call('SPOP', KEYS[2], 2)
redis.call('SET', KEYS[3], redis.call('TIME')[1], 'EX', 1000)
return redis.call('LRANGE', KEYS[1], 0, -1)
"""
# Their outcome depends on chance, on time, or on state.
WRITES = [
    "SET plain value", "SET relative v EX 1000", "SETEX another 1000 v", "PSETEX third 1000000 v", "SETNX once v",
    "SET kept v PX 1000000", "SET kept w KEEPTTL", "SET kept x GET", "INCRBYFLOAT number 1.1",
    "INCRBYFLOAT kept_float 3",
    "APPEND plain more", "INCR counter", "DECRBY counter 17", "GETEX plain EX 500", "GETEX relative PERSIST",
    "GETDEL another", "MSET a 1 b 2 c 3", "MSETNX m1 1 m2 2", "EXPIRE a 1000", "EXPIRE a 2000 GT",
    "EXPIREAT b 33177117420",
    "PEXPIRE c 999999", "PERSIST c", "EXPIRE m1 -1", "SETRANGE r 5 x", "GETSET r y", "SETBIT bits 77 1",
    "BITOP NOT inverted bits", "BITFIELD bf SET u8 0 255 INCRBY i5 100 1",
    "RPUSH list 1 2 3 4 5", "LMOVE list list2 LEFT RIGHT", "RPOPLPUSH list list2", "LPOP list 2", "LPUSHX list2 x",
    "LINSERT list2 BEFORE 1 0", "LSET list2 0 y", "LREM list2 0 nothing", "LTRIM list 0 1", "LMPOP 2 none list LEFT",
    "SADD set 1 2 3 4 5 6 7 8 9", "SPOP set", "SPOP set 3", "SADD text a b c d", "SPOP text 2", "SMOVE text text2 a",
    "SINTERSTORE si set text", "SUNIONSTORE su set text", "SDIFFSTORE sd set text", "SREM set 9 8 7", "SADD gone 1",
    "SPOP gone 5", "ZADD z 1 a 2 b 3 c 4 d", "ZADD z GT CH 7 a", "ZADD z INCR 0.1 b", "ZPOPMIN z", "ZPOPMAX z",
    "ZINCRBY z 1.5 b", "ZRANGESTORE zz z 0 -1", "ZMPOP 1 zz MIN", "ZUNIONSTORE zu 2 z zz WEIGHTS 2 3",
    "ZREMRANGEBYRANK z 0 0", "HSET h f 1 g 2 h 3", "HINCRBYFLOAT h f 0.5", "HINCRBY h g 4", "HDEL h h",
    "HSETNX h i 1",
    "XADD s * a 1", "XADD s 99999999999999-* b 2", "XADD s MAXLEN ~ 10 NOMKSTREAM 99999999999999-5 c 3",
    "XGROUP CREATE s g 0", "XGROUP CREATECONSUMER s g idle", "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
    "XREADGROUP GROUP g c NOACK COUNT 1 STREAMS s >", "XAUTOCLAIM s g d 0 0", "XCLAIM s g e 0 99999999999999-0",
    "XACK s g 99999999999999-0", "XSETID s 199999999999999-1", "XTRIM s MAXLEN 1", "XGROUP SETID s g $", "XDEL s 1-1",
    "XGROUP CREATE awaited first $ MKSTREAM",
    "PFADD hll a b c", "PFADD hll2 c d", "PFMERGE hll3 hll hll2", "PFCOUNT hll hll2", "GEOADD geo 13.4 52.5 berlin",
    "GEOADD geo 2.3 48.8 paris", "GEOSEARCHSTORE near geo FROMMEMBER paris BYRADIUS 1000 km ASC",
    "COPY plain copy", "RENAME c renamed", "RENAMENX renamed other", "MOVE b 1", "SORT set ALPHA STORE sorted",
    "SORT text STORE gone BY nosort ALPHA", "UNLINK sd", "DEL si nothing", "TOUCH plain", "PUBLISH channel message",
    "SELECT 1", "SET other 1", "LPUSH list x", "SWAPDB 1 2", "SELECT 5", "SET x y", "FLUSHDB", "SET z y", "SELECT 6",
    "SET x y", "FLUSHDB ASYNC", "SELECT 0", "MULTI", "SET in transaction", "SPOP set", "INCRBYFLOAT tf 0.1",
    "SELECT 2",
    "LPUSH from transaction", "EXEC", "MULTI", "GET plain", "EXEC", "SET back in2", "SELECT 0", "MULTI",
    "SET dropped 1",
    "DISCARD", "WATCH plain", "MULTI", "SET plain watched EX 100", "EXEC", "FUNCTION STATS",
]  # fmt: skip
FIELD_WRITES = [
    "HSET hx a 1 b 2 c 3 d 4", "HEXPIRE hx 1000 FIELDS 1 a", "HPEXPIREAT hx 33177117420000 FIELDS 1 b",
    "HPERSIST hx FIELDS 1 a", "HEXPIRE hx 1000 NX FIELDS 2 c d", "HINCRBYFLOAT hx b 0.5", "HINCRBY hx c 3",
    "HSET hx d new", "HEXPIRE hx 0 FIELDS 1 d", "HSETEX hy EX 1000 FIELDS 2 f v g w", "HGETEX hy PERSIST FIELDS 1 f",
    "HGETEX hy PX 500000 FIELDS 1 f", "HSETEX hy KEEPTTL FIELDS 1 g x",
]  # fmt: skip


def fill_groups(connection, idle=True):
    """What `fill` leaves out: streams with groups, sketches, functions. `idle`: also a consumer that has polled in
    vain, which Redis 7.0 can not read."""
    for number in range(1, 300):
        connection.call("XADD", "stream", f"{number}-{number % 3}", "field", number, "other", "x" * (number % 50))
    connection.call("XDEL", "stream", "7-1")
    connection.call("XGROUP", "CREATE", "stream", "first", "0")
    connection.call("XGROUP", "CREATE", "stream", "second", "100-1")
    if idle:
        connection.call("XGROUP", "CREATECONSUMER", "stream", "second", "idle")
    connection.call("XREADGROUP", "GROUP", "first", "alice", "COUNT", 20, "STREAMS", "stream", ">")
    connection.call("XREADGROUP", "GROUP", "first", "bob", "COUNT", 20, "STREAMS", "stream", ">")
    connection.call("XACK", "stream", "first", "1-1", "2-2", "25-1")
    connection.call("XGROUP", "CREATE", "empty stream", "g", "$", "MKSTREAM")
    connection.call("PFADD", "sparse", *range(100))
    connection.call("PFADD", "dense", *range(20_000))
    connection.call("GEOADD", "places", 13.4, 52.5, "berlin", 2.3, 48.8, "paris")
    connection.call("FUNCTION", "LOAD", LIBRARY % ("before", "before"))
    connection.call("SELECT", 15)
    connection.call("SET", "in the last database", "v", "PXAT", FAR + 7)
    connection.call("SELECT", 0)


def play(connection, commands):
    for command in commands:
        connection(*command.split())


def play_all(primary, field_expiry=False):
    """Writes of every family, by single commands, transactions, scripts, functions and served clients."""
    with primary.connect(timeout=PATIENCE_S) as connection, primary.connect(timeout=PATIENCE_S) as waiting:
        play(connection, WRITES + (FIELD_WRITES if field_expiry else []))
        connection.call("FUNCTION", "LOAD", "REPLACE", LIBRARY % ("during", "during"))
        connection.call("FCALL", "during_put", 2, "put", "putset", "v")
        connection.call("FCALL", "before_put", 2, "put2", "putset2", "v")
        connection.call("SADD", "picked", *range(10))
        connection.call("EVAL", SCRIPT, 3, "pushed", "picked", "timed")
        sha = connection.call("SCRIPT", "LOAD", SCRIPT)
        connection.call("EVALSHA", sha, 3, "pushed", "picked", "timed")
        connection.call("FUNCTION", "DELETE", "before")
        for blocked, served in BLOCKED:
            before = int(primary.info("clients")["blocked_clients"])
            waiting.send(*blocked.split())
            until(
                lambda before=before: int(primary.info("clients")["blocked_clients"]) > before,
                f"{blocked} does not wait",
            )
            play(connection, served)
            assert not waiting.read().is_null


BLOCKED = [
    ("BLPOP queue queue2 0", ["RPUSH queue 1 2"]),
    ("BRPOP none none2 0", ["MULTI", "RPUSH none2 1 2 3", "LPUSH none 5", "EXEC"]),
    ("BLMOVE from to LEFT RIGHT 0", ["LPUSH from x"]),
    ("BRPOPLPUSH from to 0", ["LPUSH from x y"]),
    ("BLMPOP 0 2 p q LEFT COUNT 2", ["LPUSH q x y z"]),
    ("BZPOPMIN bz 0", ["ZADD bz 1 a 2 b"]),
    ("BZMPOP 0 1 bzm MAX COUNT 1", ["ZADD bzm 1 a 2 b"]),
    ("XREADGROUP GROUP first carol BLOCK 0 STREAMS awaited >", ["XADD awaited * a b"]),
]


@pytest.mark.parametrize("load", ["disk", "swap"])
def test_full_sync_and_stream(pair, load):
    primary, replica = pair
    if load == "swap":
        replica.config(repl_diskless_load="swapdb")
        primary.config(repl_diskless_sync="yes")
    else:
        primary.config(repl_diskless_sync="no")
    with primary.connect(timeout=PATIENCE_S) as connection:
        fill(connection, field_expiry=False)
        fill_groups(connection, idle=replica.kind != "redis7" or primary.kind == "redis7")
    replica.call("SET", "of the replica", "goes")
    link(replica, primary)
    assert replica.call("EXISTS", "of the replica") == 0
    expect_same_data(primary, replica)
    play_all(primary)
    expect_same_data(primary, replica)
    assert primary.stat("sync_full") == 1


@pytest.mark.parametrize("pair", wanted(FIELDS_EXPIRE), indirect=True)
def test_fields_that_expire(pair):
    primary, replica = pair
    with primary.connect(timeout=PATIENCE_S) as connection:
        fill_expiring_fields(connection)
    link(replica, primary)
    expect_same_data(primary, replica)
    with primary.connect(timeout=PATIENCE_S) as connection:
        play(connection, FIELD_WRITES)
        connection.call("HSET", "soon", "a", 1, "b", 2)
        connection.call("HPEXPIRE", "soon", 50, "FIELDS", 1, "a")
        connection.call("HSET", "all soon", "a", 1)
        connection.call("HPEXPIRE", "all soon", 50, "FIELDS", 1, "a")
    # The replica hides what has expired until the primary removes it.
    for node in (replica, primary):
        until(lambda node=node: not node.call("EXISTS", "all soon"), "the hash whose field expired is still there")
        until(lambda node=node: node.call("HLEN", "soon") == 1, "the field that expired is still there")
    expect_same_data(primary, replica)


def test_a_replica_that_offers_a_second_channel(start_node):
    """redis-server's replica takes the dump over the connection that it has, where the primary has no other."""
    primary, replica = start_node("redis" if subject_is_oracle() else "mantissa"), start_node("redis")
    replica.config(repl_rdb_channel="yes")
    primary.call("DEBUG", "POPULATE", 5000, "filled", 100)
    link(replica, primary)
    primary.call("SET", "k", "v")
    expect_same_data(primary, replica)


def test_random_writes(pair):
    """Commands of every family, alone, in scripts and in transactions."""
    primary, replica = pair
    link(replica, primary)
    for family in FAMILIES:
        random = generator("replication", family)
        grammar = Grammar([family], random)
        with primary.connect(timeout=PATIENCE_S) as connection:
            commands = [grammar.command() for _ in range(COMMANDS_PER_FAMILY)]
            commands = [command for command in commands if is_known(replica, command)]
            connection.pipeline([wrapped(command, random) for command in commands])
            connection.pipeline([["EXEC"], ["SELECT", 0]])
        expect_same_data(primary, replica)


def is_known(replica, command):
    return replica.kind not in ("redis7", "valkey") or not SINCE_8 & set(command)


def wrapped(command, random):
    """A command as it is, or called by a script that goes on after its errors."""
    names = {b"MULTI", b"EXEC", b"DISCARD", b"WATCH", b"RESET", b"DEBUG", b"SELECT"}
    if random.random() < 0.2 and to_bytes(command[0]).upper() not in names:
        return ["EVAL", "redis.pcall(unpack(ARGV)) return redis.pcall('INCR', 'calls')", 0, *command]
    return command


def test_a_sync_under_load(pair):
    """Several clients write while the replica is made."""
    primary, replica = pair
    primary.call("DEBUG", "POPULATE", 4_000, "filled", 500)
    stop, failures = threading.Event(), []

    def work(number):
        random = generator("load", number)
        grammar = Grammar(["strings", "lists", "sets", "hashes"], random)
        try:
            with primary.connect(timeout=PATIENCE_S) as connection:
                while not stop.is_set():
                    commands = [grammar.command() for _ in range(50)]
                    connection.pipeline([command for command in commands if is_known(replica, command)])
                    connection.pipeline([["MULTI"], ["INCR", "left"], ["INCR", "right"], ["EXEC"]])
                    connection.pipeline([["EXEC"], ["SELECT", 0]])
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        replica.follow(primary)
        until(lambda: replica.info()["master_link_status"] == "up", "no link")
        start = int(replica.info()["slave_repl_offset"])
        until(lambda: int(replica.info()["slave_repl_offset"]) > start + 200_000, "the stream does not move")
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert not failures, failures
    wait_in_sync(primary, replica)
    assert replica.call("GET", "left") == replica.call("GET", "right") != b"0"
    expect_same_data(primary, replica)


def test_two_replicas_of_two_kinds(start_node):
    """Replicas of different versions under one primary, each with a dump that it can read."""
    primary = start_node("redis7" if subject_is_oracle() else "mantissa")
    replicas = [start_node(kind) for kind in ("redis", "redis7", "valkey")]
    with primary.connect(timeout=PATIENCE_S) as connection:
        fill(connection, field_expiry=False)
        fill_groups(connection, idle=False)
    for replica in replicas:
        replica.follow(primary)
    wait_in_sync(primary, *replicas)
    play_all(primary)
    expect_same_data(primary, *replicas)
