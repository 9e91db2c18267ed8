"""What INFO counts of a command, compared with redis-server: lookups, errors, changes, and what has expired.

Each good call of the matrix, and some more, are made on keys of the right type, of others, that are missing, or have
expired.
"""

import time

import pytest

from differential.test_matrix import CALLS, SETUPS, TYPICAL
from support.servers import Server
from support.steps import figures
from support.waiting import eventually

FIGURES = (
    *("keyspace_hits", "keyspace_misses", "expired_keys", "expired_subkeys", "total_error_replies"),
    *("unexpected_error_replies", "rdb_changes_since_last_save", "total_commands_processed"),
)
# More calls of commands that the matrix does not have, or has in one form.
MORE = """
stream XGROUP CREATE K g $
stream XGROUP CREATE K h 0
stream XGROUP DESTROY K nosuch
stream XGROUP CREATECONSUMER K g c
stream XGROUP CREATECONSUMER K nosuch c
stream XREADGROUP GROUP g c STREAMS K K2 0 >
stream XREADGROUP GROUP nosuch c STREAMS K >
stream XREADGROUP GROUP g c BLOCK 1 STREAMS K >
stream XREAD BLOCK 1 STREAMS K K2 $ $
stream XREAD STREAMS K +
stream XADD K NOMKSTREAM * a b
stream XADD K MAXLEN = 1 9-9 a b
stream XDELEX K KEEPREF IDS 1 7-7
stream XACKDEL K nosuch KEEPREF IDS 1 1-1
stream XACK K nosuch 1-1
stream XPENDING K nosuch
stream XCLAIM K nosuch c 0 1-1
stream XAUTOCLAIM K nosuch c 0 0
stream XAUTOCLAIM K g c x 0
stream XAUTOCLAIM K g c 0 0 COUNT x
stream XINFO CONSUMERS K nosuch
stream XINFO STREAM K
stream XSETID K 0-1
stream XTRIM K MAXLEN 0
stream OBJECT ENCODING K
set SMOVE K K a
set SMOVE K K2 nosuch
set SMOVE K2 K a
set SREM K nosuch
set SADD K a
set SPOP K
set SPOP K 1
set SRANDMEMBER K
set SINTERSTORE K2 K K
set SINTERSTORE K2 K K2
set SINTER K2 K
set SUNIONSTORE K2 K K3
set SDIFF K2 K
set SORT K ALPHA
set SORT K BY nosort GET K GET #
hash HGETEX K FIELDS 1 a
hash HGETEX K FIELDS 1 nosuch
hash HGETEX K PX 1 FIELDS 1 nosuch
hash HGETEX K EXAT 1 FIELDS 1 a
hash HGETEX K PXAT 1 FIELDS 2 a b
hash HGETEX K PXAT 1 FIELDS 3 a b nosuch
hash HSETEX K EXAT 1 FIELDS 1 a v
hash HSETEX K PXAT 1 FIELDS 2 a v b w
hash HSETEX K PXAT 1 FIELDS 1 new v
hash HSETEX K FXX PXAT 1 FIELDS 1 new v
hash HEXPIRE K 0 FIELDS 1 a
hash HEXPIRE K 0 FIELDS 2 a b
hash HEXPIRE K 0 FIELDS 2 a nosuch
hash HEXPIRE K 0 NX FIELDS 1 a
hash HEXPIRE K 0 XX FIELDS 1 a
hash HPEXPIRE K 0 FIELDS 3 a b nosuch
hash HPEXPIREAT K 1 FIELDS 1 a
hash HEXPIREAT K 1 FIELDS 2 a b
hash HGETDEL K FIELDS 1 nosuch
hash HGETDEL K FIELDS 2 a b
hash HDEL K nosuch
hash HDEL K a b
hash HRANDFIELD K
hash HMGET K nosuch
hash HSET K a 1
hash HPERSIST K FIELDS 1 nosuch
hash HINCRBY K b 1
hash HINCRBYFLOAT K b 1
string EXPIRE K 0
string EXPIRE K -1
string EXPIREAT K 1
string PEXPIRE K -1
string PEXPIREAT K 1
string PERSIST K
string SET K v
string SET K v EXAT 1
string SET K v PXAT 1
string SET K v XX
string SET K v NX
string SET K v GET
string SET K v NX GET
string SETEX K 0 v
string GETEX K
string GETEX K EXAT 1
string GETEX K PXAT 1
string GETEX K EX 0
string INCR K2
string APPEND K2 v
string SETRANGE K 0 ""
string GETSET K2 v
string MSETNX K2 a K3 b
string COPY K K2
string COPY K2 K
string COPY K K2 DB 1
string RENAME K K
string RENAME K2 K
string RENAMENX K K
string RENAMENX K2 K
string MOVE K 0
string MOVE K2 5
string DEL K K
string EXISTS K K
string TOUCH K K K2
string RANDOMKEY
string RESTORE K 0 x
string OBJECT ENCODING K2
string OBJECT NOSUCH K
string OBJECT IDLETIME K2
string MEMORY USAGE K2
string MEMORY NOSUCH
string DEBUG OBJECT K
string DEBUG OBJECT K2
string DUMP K2
string BITOP OR K2 K K
string BITOP AND K K2 K3
string BITFIELD K GET u8 0
string BITFIELD K SET u8 0 0
string BITFIELD_RO K2 GET u8 0
string SETBIT K 0 0
string PFADD K2 a
string PFADD K2
string PFCOUNT K2
string PFMERGE K2 K3
string PFDEBUG GETREG K
string PFSELFTEST
string LCS K K2
string SORT K
string SORT K2 STORE K3
string SINTERCARD 1 K
string WATCH K K2
string KEYS *
string SCAN 0 TYPE list
string DBSIZE
string FLUSHDB
string FLUSHALL
string EVAL "return 1" 1 K
string EVAL return(redis.call('GET',KEYS[1])) 1 K
string EVAL return(redis.call('SET',KEYS[1],'v')) 1 K
string EVAL return(redis.pcall('LPUSH',KEYS[1],'v')) 1 K
string EVAL_RO return(redis.call('GET',KEYS[1])) 1 K
string MIGRATE 127.0.0.1 1 K 0 10
list LPOP K
list LPOP K 0
list RPOP K
list LPUSH K2 a
list LPUSHX K2 a
list LMOVE K K LEFT RIGHT
list LMOVE K2 K LEFT RIGHT
list RPOPLPUSH K K
list RPOPLPUSH K2 K
list BLMOVE K2 K LEFT RIGHT 0.001
list BLPOP K2 0.001
list BLPOP K2 K 0.001
list BRPOP K2 0.001
list LMPOP 1 K LEFT
list LMPOP 1 K2 LEFT
list BLMPOP 0.001 1 K2 LEFT
list LINSERT K AFTER nosuch x
list LREM K 0 nosuch
list LTRIM K 0 -1
list LTRIM K 1 0
list LPOS K nosuch
list LSET K 99 x
list SORT K
list SORT K ALPHA STORE K
list SORT K BY nosort STORE K2
list SORT K ALPHA BY w_* GET K
zset ZADD K 1 a
zset ZADD K XX 1 nosuch
zset ZADD K2 XX 1 a
zset ZADD K NX 9 a
zset ZADD K NX INCR 9 a
zset ZINCRBY K 0 a
zset ZINCRBY K2 1 a
zset ZREM K nosuch
zset ZPOPMIN K
zset ZPOPMIN K 0
zset ZPOPMAX K2
zset ZMPOP 1 K MAX
zset ZMPOP 1 K2 MAX
zset BZPOPMIN K2 0.001
zset BZPOPMAX K2 K 0.001
zset BZMPOP 0.001 1 K2 MIN
zset ZRANGESTORE K2 K 5 6
zset ZRANGESTORE K K2 0 1
zset ZRANGESTORE K K 0 1
zset ZUNIONSTORE K2 2 K K
zset ZUNIONSTORE K2 1 K3
zset ZINTERSTORE K2 2 K K2
zset ZINTER 2 K2 K
zset ZDIFF 2 K2 K
zset ZDIFFSTORE K2 2 K3 K
zset ZREMRANGEBYRANK K 9 10
zset ZRANDMEMBER K
zset ZSCORE K nosuch
zset ZRANK K nosuch
zset ZRANK K2 a
zset GEOSEARCH K FROMMEMBER nosuch BYRADIUS 1 m
zset GEOSEARCHSTORE K2 K FROMLONLAT 1 1 BYRADIUS 1 m
zset GEOSEARCHSTORE K K2 FROMLONLAT 1 1 BYRADIUS 1 m
zset GEORADIUS K2 15 37 200 km STORE K
zset GEODIST K a nosuch
zset GEOADD K XX 1 1 nosuch
none AUTH x
none NOSUCH
none GET
none SELECT 99
none HELLO 9
none SETNAME
none ACL WHOAMI
none ACL NOSUCH
none SCRIPT LOAD return
none SCRIPT EXISTS x
none FUNCTION STATS
none FUNCTION DELETE x
none FCALL nosuch 0
none EVALSHA nosuch 0
none INFO nosuch
none LOLWUT
none LATENCY LATEST
none WAIT 0 1
none WAITAOF 0 0 1
none RESET
none ROLE
none COMMAND COUNT
none REPLICAOF no one
none UNSUBSCRIBE
none PUNSUBSCRIBE
none SUNSUBSCRIBE
none DISCARD
none EXEC
none ASKING
none BGREWRITEAOF x
none BGSAVE x
none CLIENT TRACKING OFF
none CLIENT CACHING YES
none CLIENT REPLY ON
"""
FIELDS = [["HSET", "K", "a", "1", "b", "2"]]
# What the key is. A pause comes after what expires.
KEYS = {
    "of the right type": SETUPS,
    "missing": [],
    "a string": SETUPS["string"],
    "a list": SETUPS["list"],
    "expired": [["SET", "K", "v"], ["PEXPIRE", "K", "1"]],
    "a hash": FIELDS,
    "a hash of other fields": [["HSET", "K", "x", "1"]],
    "an expired hash": [*FIELDS, ["PEXPIRE", "K", "1"]],
    "a hash of expiring fields": [*FIELDS, ["HEXPIRE", "K", "1000", "FIELDS", "2", "a", "b"]],
}
PAUSE_S = 0.003
# Calls that count differently on a key whose time is over and that nobody has removed yet: where it is overwritten,
# redis-server deletes it without a look at its time; here that is its expiry.
LEFT_OUT = {
    "expired": [
        *("BITOP AND K K2 K3", "BITOP NOT K K2", "GEORADIUS K2 15 37 200 km STORE K", "MEMORY USAGE K SAMPLES 5"),
        *("GEOSEARCHSTORE K K2 FROMLONLAT 1 1 BYRADIUS 1 m", "DEBUG DIGEST-VALUE K", "ZRANGESTORE K K2 0 1"),
        "RESTORE K 0 x REPLACE IDLETIME 5",
    ]
}
GOOD = CALLS + [line.split(" ") for line in MORE.strip().splitlines()]
INFO = ["INFO", "stats", "persistence"]


@pytest.fixture(scope="module")
def connections():
    options = {"hz": 500}
    with Server("oracle", options) as oracle, Server("subject", options, workers=2) as subject:
        yield oracle.connect(), subject.connect()


def figures_of(reply):
    lines = reply.text().splitlines()
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return {name: int(found[name]) for name in FIGURES}


def counts(connections, key, kind, args):
    """What a call adds to the figures of each server."""
    setup = SETUPS[TYPICAL.get(kind, kind)] if key == "of the right type" else KEYS[key]
    before = [["RESET"], ["DEBUG", "SET-ACTIVE-EXPIRE", "0"], ["FLUSHALL"], *setup]
    if "expired" in key:
        for connection in connections:
            connection.pipeline(before)
        before = []
        time.sleep(PAUSE_S)
    for connection in connections:
        *_, first, _, second = connection.pipeline([*before, INFO, args, INFO])
        first, second = figures_of(first), figures_of(second)
        yield {name: second[name] - first[name] for name in FIGURES}


def is_tried(key, kind, args):
    return (kind == "hash" or "hash" not in key) and " ".join(args) not in LEFT_OUT.get(key, ())


@pytest.mark.parametrize("key", KEYS)
def test_counts(key, connections):
    wrong = []
    for kind, *args in GOOD:
        if is_tried(key, kind, args):
            expected, found = counts(connections, key, kind, args)
            differing = [f"{name} {expected[name]} {found[name]}" for name in FIGURES if expected[name] != found[name]]
            wrong += [f"{' '.join(args)}: {', '.join(differing)}"] if differing else []
    assert not wrong, "\n".join(wrong)


def test_fields_whose_time_is_over_count(connections):
    for connection in connections:
        connection("RESET")
        connection("FLUSHALL")
        connection("CONFIG", "RESETSTAT")
        connection("DEBUG", "SET-ACTIVE-EXPIRE", "1")
        connection("HSET", "part", "a", "1", "b", "2", "c", "3")
        connection("HSET", "whole", *(word for number in range(1000) for word in (f"field {number}", "v")))
        connection("HPEXPIRE", "part", "1", "FIELDS", "2", "a", "b")
        connection("HPEXPIRE", "whole", "1", "FIELDS", "1000", *(f"field {number}" for number in range(1000)))
        names = ("expired_subkeys", "expired_keys")

        def counted(connection=connection, names=names):
            stats = figures(connection, "stats")
            return tuple(int(stats[name]) for name in names) == (1002, 0)

        eventually(counted, "they do not count")
        assert connection("EXISTS", "whole").plain() == 0
