"""MANTISSA.PACKED: its numbers are those of the same command's text."""

import math
import pathlib
import random
import subprocess

import pytest
from support.resp import Reply
from support.seeds import run_seed

from .wire import DELTA, F32, F64, VARINT, Packed, pack, unpack


@pytest.fixture(params=[2, 3])
def client(request, subject):
    return subject.connect(request.param)


def packed(client, form, *command):
    """What a command replies, packed: the type, the numbers, what is beside them."""
    reply = client("MANTISSA.PACKED", form, *command)
    assert reply.kind == "$", reply
    return unpack(reply.value)


def error(client, *command):
    reply = client(*command)
    assert reply.is_error, reply
    return reply.text()


def leaves(reply: Reply):
    """The elements of a reply, one after the other."""
    if reply.is_aggregate:
        return [leaf for element in reply.value for leaf in leaves(element)]
    return [reply.value]


def fill(client):
    random.seed(run_seed())
    for part in range(10):
        scores = [
            word
            for index in range(50)
            for word in (repr(random.uniform(-1e3, 1e3)), f"member:{part}:{index}")
        ]
        client("ZADD", "z", *scores)
    client("ZADD", "edges", "inf", "top", "-inf", "low", "5e-324", "tiny", "3", "three", "1e20", "large")
    client("ZADD", "other", 1, "three", 2, "top", 4, "new")
    client("ZADD", "steps", 1, "1", 2, "2", 2, "2b", 300, "300", 2**40, "far")
    client("RPUSH", "prices", *[f"{random.uniform(1, 100):.2f}" for _ in range(300)], 7, -12, 2**62)
    client("HSET", "h", "a", "1.5", "b", "-2", "7", "3e3", "long" * 40, "0.1")
    client("MSET", "i", "12", "f", "2.75", "n", "-1", "inf", "inf")
    client("GEOADD", "geo", "13.361389", "38.115556", "Palermo", "15.087269", "37.502669", "Catania")


PAIRS = [
    "ZRANGE z 0 -1 WITHSCORES",
    "ZRANGE z 10 20 REV WITHSCORES",
    "ZRANGE z (-100 100 BYSCORE LIMIT 3 7 WITHSCORES",
    "ZREVRANGE z 0 5 WITHSCORES",
    "ZRANGEBYSCORE z -inf +inf WITHSCORES",
    "ZREVRANGEBYSCORE z 200 100 WITHSCORES",
    "ZRANGE edges 0 -1 WITHSCORES",
    "ZRANGE none 0 -1 WITHSCORES",
    "ZINTER 2 edges other WITHSCORES",
    "ZUNION 2 edges other WEIGHTS 2 3 AGGREGATE MAX WITHSCORES",
    "ZDIFF 2 edges other WITHSCORES",
    "HGETALL h",
    "HGETALL none",
]

NUMBERS = [
    "ZSCORE edges top",
    "ZMSCORE edges low tiny large",
    "ZRANK z member:0:0",
    "ZREVRANK z member:0:0 WITHSCORE",
    "ZCARD z",
    "ZCOUNT z -10 10",
    "ZRANGE steps 0 1",
    "HVALS h",
    "HMGET h a b 7",
    "HGET h 7",
    "HLEN h",
    "MGET i f n inf",
    "GET f",
    "STRLEN f",
    "LRANGE prices 0 -1",
    "LRANGE prices 5 10",
    "LRANGE none 0 -1",
    "LINDEX prices -1",
    "LLEN prices",
    "GEOPOS geo Palermo Catania",
    "GEODIST geo Palermo Catania km",
    "TTL i",
]


@pytest.mark.parametrize("command", PAIRS)
def test_pairs_are_those_of_the_text(client, command):
    fill(client)
    words = command.split()
    texts = leaves(client(*words))
    kind, numbers, names = packed(client, "f64", *words)
    assert kind == F64
    assert names == texts[0::2]
    assert numbers == [float(text) for text in texts[1::2]]


@pytest.mark.parametrize("command", NUMBERS)
def test_numbers_are_those_of_the_text(client, command):
    fill(client)
    words = command.split()
    texts = leaves(client(*words))
    kind, numbers, names = packed(client, "F64", *words)
    assert (kind, names) == (F64, None)
    # GEOPOS prints 17 digits or fewer.
    assert numbers == pytest.approx([float(text) for text in texts], rel=1e-15, abs=0)
    if not command.startswith("GEO"):
        assert numbers == [float(text) for text in texts]


def test_floats_round(client):
    client("ZADD", "z", "0.1", "a", "1e300", "b")
    kind, numbers, names = packed(client, "f32", "ZRANGE", "z", "0", "-1", "WITHSCORES")
    assert (kind, names) == (F32, [b"a", b"b"])
    assert numbers == [pytest.approx(0.1, rel=1e-7), math.inf]


def test_integers_are_exact(client):
    client("RPUSH", "l", -(2**63), -1, 0, "10", "1e3", 2**63 - 1)
    expected = [-(2**63), -1, 0, 10, 1000, 2**63 - 1]
    assert packed(client, "varint", "LRANGE", "l", 0, -1) == (VARINT, expected, None)
    assert packed(client, "delta", "LRANGE", "l", 0, -1) == (DELTA, expected, None)
    fill(client)
    names = [b"1", b"2", b"2b", b"300", b"far"]
    found = packed(client, "DELTA", "ZRANGE", "steps", 0, -1, "WITHSCORES")
    assert found == (DELTA, [1, 2, 2, 300, 2**40], names)


def test_bytes_are_those_of_the_format(client):
    client("ZADD", "z", 1.5, "a", -2, "bc")
    raw = client("MANTISSA.PACKED", "F64", "ZRANGE", "z", 0, -1, "WITHSCORES").value
    assert raw == pack(F64, [-2.0, 1.5], [b"bc", b"a"])
    assert client("MANTISSA.PACKED", "DELTA", "LRANGE", "none", 0, -1).value == pack(DELTA, [])


def test_what_is_no_number_is_an_error_that_names_it_or_nan(client):
    client("RPUSH", "l", 1, "two", 3)
    client("MSET", "a", 1, "empty", "", "spaces", " 1")
    client("SADD", "set", "x")
    packs = ("MANTISSA.PACKED", "F64")
    assert error(client, *packs, "LRANGE", "l", 0, -1) == "ERR element 1 of the reply is not a number"
    assert error(client, *packs, "MGET", "a", "none") == "ERR element 1 of the reply is missing"
    assert error(client, *packs, "MGET", "empty") == "ERR element 0 of the reply is not a number"
    assert error(client, *packs, "MGET", "a", "spaces") == "ERR element 1 of the reply is not a number"
    assert error(client, *packs, "ZSCORE", "none", "m") == "ERR element 0 of the reply is missing"
    integers = ("MANTISSA.PACKED", "VARINT", "LRANGE", "half", 0, -1)
    client("RPUSH", "half", 1, 2, "2.5")
    assert error(client, *integers) == "ERR element 2 of the reply is not an integer"
    client("RPUSH", "down", 1, 3, 2)
    falling = ("MANTISSA.PACKED", "DELTA", "LRANGE", "down", 0, -1)
    assert error(client, *falling) == "ERR element 2 of the reply is below the one before"
    for form, kind in [("F64NAN", F64), ("f32nan", F32)]:
        found, numbers, _ = packed(client, form, "MGET", "a", "none", "set", "empty")
        assert (found, numbers[0]) == (kind, 1.0) and all(map(math.isnan, numbers[1:]))
        _, numbers, _ = packed(client, form, "GEOPOS", "geo", "nowhere")
        assert len(numbers) == 2 and all(map(math.isnan, numbers))
        _, numbers, _ = packed(client, form, "ZREVRANK", "none", "m")
        assert math.isnan(numbers[0])


def test_refusals(client):
    assert error(client, "MANTISSA.PACKED") == "ERR wrong number of arguments for 'mantissa.packed' command"
    for command in [("MANTISSA.PACKED", "F64"), ("MANTISSA.PACKED", "F64", "ZRANGE", "z", "0")]:
        assert "wrong number of arguments for 'mantissa.packed" in error(client, *command)
    assert error(client, "MANTISSA.PACKED", "F16", "GET", "k").startswith("ERR unknown type of packed numbers")
    assert error(client, "MANTISSA.PACKED", "F64", "NONE", "k").startswith("ERR unknown command 'NONE'")
    for command in [("SET", "k", "1"), ("BLPOP", "k", "0"), ("EVAL", "return 1", "0"), ("CONFIG", "GET", "x")]:
        refusal = error(client, "MANTISSA.PACKED", "F64", *command)
        assert refusal == f"ERR the reply of '{command[0]}' cannot be packed"
    nested = error(client, "MANTISSA.PACKED", "F64", "MANTISSA.PACKED", "F64", "GET", "k")
    assert nested == "ERR the reply of 'MANTISSA.PACKED' cannot be packed"
    client("SET", "text", "x")
    assert error(client, "MANTISSA.PACKED", "F64", "ZRANGE", "text", 0, -1).startswith("WRONGTYPE")
    assert error(client, "MANTISSA.PACKED", "F64", "ZRANGE", "none", "a", -1) == error(
        client, "ZRANGE", "none", "a", -1
    )
    assert client("MANTISSA.PACKED", "HELP").is_aggregate


def test_writes_are_made_once_and_only_if_their_reply_can_be_written(client):
    client("ZADD", "z", 1.5, "a", 2, "b", 3.25, "c")
    refusal = "ERR this command replies fractions and changes data: use F64 or F32"
    for command in ["ZPOPMIN z", "ZINCRBY z 1 a", "INCRBYFLOAT k 1", "HINCRBYFLOAT h f 1"]:
        assert error(client, "MANTISSA.PACKED", "VARINT", *command.split()) == refusal
    assert error(client, "MANTISSA.PACKED", "F16", "ZPOPMIN", "z").startswith("ERR unknown type")
    assert client("ZCARD", "z").plain() == 3
    assert packed(client, "F64", "ZPOPMIN", "z", 2) == (F64, [1.5, 2.0], [b"a", b"b"])
    assert packed(client, "F32", "ZPOPMAX", "z") == (F32, [3.25], [b"c"])
    assert packed(client, "F64", "ZPOPMAX", "z") == (F64, [], [])
    assert packed(client, "VARINT", "INCRBY", "n", 2**53 + 1) == (VARINT, [2**53 + 1], None)
    assert packed(client, "F64", "DECR", "n") == (F64, [float(2**53)], None)
    assert packed(client, "F64", "INCRBYFLOAT", "f", "0.1") == (F64, [0.1], None)
    assert packed(client, "F64", "HINCRBYFLOAT", "h", "f", "0.5") == (F64, [0.5], None)
    assert packed(client, "DELTA", "HINCRBY", "h", "i", -7) == (DELTA, [-7], None)
    assert packed(client, "F64", "ZINCRBY", "z2", "2.5", "m") == (F64, [2.5], None)
    assert client("GET", "n").plain() == b"%d" % 2**53


@pytest.mark.parametrize("form", ["F64", "F32", "F64NAN", "F32NAN"])
def test_long_doubles_beyond_a_double_are_infinities(client, form):
    kind = F32 if "32" in form else F64
    client("DEL", "k", "h")
    for increment, expected in (("1e400", math.inf), ("-1e401", -math.inf)):
        assert packed(client, form, "INCRBYFLOAT", "k", increment) == (kind, [expected], None)
        assert packed(client, form, "HINCRBYFLOAT", "h", "f", increment) == (kind, [expected], None)
    client("SET", "k", "1")
    assert packed(client, form, "INCRBYFLOAT", "k", "1e4000") == (kind, [math.inf], None)
    assert len(client("GET", "k").plain()) == 4000


def test_entries_of_streams(client):
    client("XADD", "s", "1-1", "price", "10.25", "size", "3")
    client("XADD", "s", "1-2", "price", "-0.5", "size", "4")
    client("XADD", "s", "9-5", "price", "123456789012345678.5", "size", "0.00")
    numbers = [10.25, 3.0, -0.5, 4.0, 123456789012345678.5, 0.0]
    for command, order in [("XRANGE s - +", 1), ("XREVRANGE s + -", -1)]:
        reply = Packed(client("MANTISSA.PACKED", "F64", *command.split()).value)
        rows = list(zip(numbers[0::2], numbers[1::2]))[::order]
        assert reply.numbers == [number for row in rows for number in row]
        assert (reply.columns, reply.column_names) == (2, [b"price", b"size"])
        assert reply.names == [b"1-1", b"1-2", b"9-5"][::order]
    assert packed(client, "F64", "XRANGE", "s", "-", "+", "COUNT", 1) == (F64, numbers[:2], [b"1-1"])
    assert packed(client, "F64", "XRANGE", "s", "8", "8") == (F64, [], [])
    assert packed(client, "VARINT", "XLEN", "s") == (VARINT, [3], None)
    client("XADD", "s", "10-0", "price", "none", "size", "1")
    last = error(client, "MANTISSA.PACKED", "F64", "XRANGE", "s", "-", "+")
    assert last == "ERR element 6 of the reply is not a number"
    client("XADD", "s", "10-1", "price", "1")
    other = error(client, "MANTISSA.PACKED", "F64", "XREVRANGE", "s", "+", "-")
    assert other == "ERR entry 10-0 of the reply has other fields than the first"


def test_what_is_one_number_and_what_are_rows(client):
    fill(client)
    for command in ["ZSCORE edges top", "GET f", "HGET h 7", "ZCARD z", "INCR n"]:
        assert Packed(client("MANTISSA.PACKED", "F64", *command.split()).value).is_scalar
    for command in ["MGET f", "ZMSCORE edges top", "ZREVRANK z member:0:0 WITHSCORE"]:
        assert not Packed(client("MANTISSA.PACKED", "F64", *command.split()).value).is_scalar
    assert Packed(client("MANTISSA.PACKED", "F64", "GEOPOS", "geo", "Palermo").value).columns == 2


def test_in_transactions_and_scripts(client):
    fill(client)
    expected = client("MANTISSA.PACKED", "F64", "ZRANGE", "z", 0, -1, "WITHSCORES").value
    client("MULTI")
    assert client("MANTISSA.PACKED", "F64", "ZRANGE", "z", 0, -1, "WITHSCORES").value == b"QUEUED"
    client("MANTISSA.PACKED", "VARINT", "INCR", "n")
    client("MANTISSA.PACKED", "F64", "LRANGE", "none", "x", "y")
    replies = client("EXEC").value
    assert replies[0].value == expected
    assert unpack(replies[1].value) == (VARINT, [0], None)
    assert replies[2].is_error
    client("MULTI")
    assert error(client, "MANTISSA.PACKED", "F64", "NONE").startswith("ERR unknown command")
    assert client("EXEC").is_error
    script = "return redis.call('MANTISSA.PACKED', 'F64', 'ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')"
    assert client("EVAL", script, 1, "z").value == expected
    assert client("EVAL_RO", script, 1, "z").value == expected
    writes = "return redis.call('MANTISSA.PACKED', 'VARINT', 'INCR', KEYS[1])"
    assert unpack(client("EVAL", writes, 1, "n").value) == (VARINT, [1], None)
    assert "Write commands are not allowed" in error(client, "EVAL_RO", writes, 1, "n")
    unknown = "return redis.call('MANTISSA.PACKED', 'VARINT', 'SET', KEYS[1], 1)"
    assert "Unknown Redis command" in error(client, "EVAL", unknown, 1, "n")


def test_users_need_both_rights_and_the_keys(subject):
    admin, client = subject.connect(), subject.connect()
    admin("ZADD", "mine", 1, "a")
    admin("ZADD", "yours", 1, "a")

    def rights(*rules):
        admin("ACL", "SETUSER", "u", "reset", "on", "nopass", *rules)
        assert client("AUTH", "u", "x").value == b"OK"

    call = ("MANTISSA.PACKED", "F64", "ZRANGE", "mine", 0, -1, "WITHSCORES")
    rights("~mine", "+zrange", "+mantissa.packed")
    assert unpack(client(*call).value)[1] == [1.0]
    refusal = "NOPERM No permissions to access a key"
    assert error(client, *call[:3], "yours", 0, -1, "WITHSCORES") == refusal
    assert error(client, "MANTISSA.PACKED", "F64", "ZPOPMIN", "mine").startswith("NOPERM User u has no perm")
    rights("~*", "+@all", "-zrange")
    assert "'mantissa.packed|zrange'" in error(client, *call)
    assert unpack(client("MANTISSA.PACKED", "F64", "ZSCORE", "mine", "a").value)[1] == [1.0]
    rights("~*", "+@all", "-mantissa.packed")
    assert error(client, *call).startswith("NOPERM")
    rights("%R~mine", "+@all")
    assert unpack(client(*call).value)[1] == [1.0]
    assert error(client, "MANTISSA.PACKED", "F64", "ZPOPMIN", "mine") == refusal
    rights("~*", "+@all", "-zadd")
    data = pack(F64, [1.0], [b"m"])
    assert error(client, "MANTISSA.UNPACK", "ZADD", "mine", data).startswith("NOPERM")
    assert client("MANTISSA.UNPACK", "HSET", "hash", data).plain() == 1
    rights("~mine", "+@all")
    assert error(client, "MANTISSA.UNPACK", "ZADD", "yours", data) == refusal
    assert error(client, "MANTISSA.UNPACK", "MSET", pack(F64, [1.0, 2.0]), "mine", "yours") == refusal
    assert admin("ACL", "DRYRUN", "u", *call).value == b"OK"
    assert b"no permissions" in admin("ACL", "DRYRUN", "u", *call[:3], "yours", 0, -1).value


def test_commands_say_their_keys(client):
    keys = ("COMMAND", "GETKEYS", "MANTISSA.PACKED", "F64")
    assert client(*keys, "ZRANGE", "z", 0, -1).plain() == [b"z"]
    assert client(*keys, "MGET", "a", "b").plain() == [b"a", b"b"]
    assert client(*keys, "ZUNION", 2, "a", "b", "WITHSCORES").plain() == [b"a", b"b"]
    assert client("COMMAND", "GETKEYS", "MANTISSA.UNPACK", "MSET", "packed", "a", "b").plain() == [b"a", b"b"]
    assert client("COMMAND", "GETKEYS", "MANTISSA.UNPACK", "ZADD", "z", "packed").plain() == [b"z"]
    flags = client("COMMAND", "GETKEYSANDFLAGS", "MANTISSA.PACKED", "F64", "ZPOPMIN", "z").plain()
    assert flags == client("COMMAND", "GETKEYSANDFLAGS", "ZPOPMIN", "z").plain()


def test_renamed_commands_are_carried_by_their_new_names(start_server):
    subject = start_server("subject", options={"rename-command": ["zscore", "secret"]})
    client = subject.connect()
    client("ZADD", "z", 2, "m")
    assert error(client, "MANTISSA.PACKED", "F64", "ZSCORE", "z", "m").startswith("ERR unknown command")
    assert packed(client, "F64", "SECRET", "z", "m") == (F64, [2.0], None)
    subject = start_server("subject", options={"rename-command": ["zadd", '""']})
    client = subject.connect()
    unknown = error(client, "MANTISSA.UNPACK", "ZADD", "z", pack(F64, [1.0], [b"m"]))
    assert unknown.startswith("ERR unknown subcommand 'ZADD'")


def test_replicas_and_the_log_get_ordinary_commands(start_server):
    subject = start_server("subject", options={"appendonly": "yes", "appendfsync": "always"})
    client = subject.connect()
    client("ZADD", "z", 1.5, "a", 2, "b")
    client("MANTISSA.PACKED", "F64", "ZPOPMIN", "z")
    client("MANTISSA.PACKED", "F64", "INCRBYFLOAT", "f", "0.1")
    client("MANTISSA.PACKED", "VARINT", "INCR", "n")
    client("MANTISSA.UNPACK", "ZADD", "z", pack(F64, [0.1], [b"m"]))
    client("MANTISSA.UNPACK", "RPUSH", "l", pack(VARINT, [1, -2]))
    client("MANTISSA.UNPACK", "HSET", "h", pack(F32, [0.5], [b"field"]))
    client("MANTISSA.UNPACK", "MSET", pack(F64, [7.0, 1e-7]), "a", "b")
    client("MULTI")
    client("MANTISSA.UNPACK", "MSET", pack(F64, [8.0]), "a")
    client("MANTISSA.PACKED", "VARINT", "INCR", "a")
    client("EXEC")
    digest = client("DEBUG", "DIGEST").value
    log = b"".join(path.read_bytes() for path in pathlib.Path(subject.directory).glob("**/*.aof"))
    assert b"MANTISSA" not in log.upper()
    for word in [b"ZPOPMIN", b"RPUSH", b"HSET", b"MSET", b"1e-7"]:
        assert word in log
    subject.restart(crash=True)
    client = subject.connect()
    assert client("DEBUG", "DIGEST").value == digest
    assert client("GET", "a").value == b"9"


def test_replies_to_a_replica_that_is_read_only(start_server):
    primary = start_server("subject")
    replica = start_server("subject", options={"replicaof": ["127.0.0.1", primary.port]})
    client = replica.connect()
    assert error(client, "MANTISSA.PACKED", "VARINT", "INCR", "n").startswith("READONLY")
    assert packed(client, "F64", "ZRANGE", "none", 0, -1) == (F64, [], None)


def test_numpy_reads_a_reply_in_one_line(subject):
    numpy = pytest.importorskip("numpy")
    client = subject.connect()
    fill(client)
    reply = client("MANTISSA.PACKED", "F64", "LRANGE", "prices", 0, -1).value
    prices = numpy.frombuffer(reply, ">f8", offset=16)
    assert prices.tolist() == [float(text) for text in client("LRANGE", "prices", 0, -1).plain()]
    reply = client("MANTISSA.PACKED", "F64", "ZRANGE", "z", 0, -1, "WITHSCORES").value
    scores = numpy.frombuffer(reply, ">f8", int.from_bytes(reply[8:12], "big"), 16)
    assert scores.tolist() == unpack(reply)[1]


def test_the_command_line_client_shows_numbers(subject):
    client = subject.connect()
    client("ZADD", "z", 1.5, "a", 2, "b")
    client("XADD", "s", "5-1", "price", "10.25", "size", "3")
    client("RPUSH", "l", 1, 2, 3)

    def show(*command):
        words = [subject.process.args[0], "cli", "--no-raw", "-p", str(subject.port), *command]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert show("MANTISSA.PACKED", "F64", "ZRANGE", "z", "0", "-1", "WITHSCORES") == (
        '1) 1) "a"\n   2) (double) 1.5\n2) 1) "b"\n   2) (double) 2\n'
    )
    assert show("MANTISSA.PACKED", "DELTA", "LRANGE", "l", "0", "-1") == (
        "1) (integer) 1\n2) (integer) 2\n3) (integer) 3\n"
    )
    assert show("MANTISSA.PACKED", "F64", "XRANGE", "s", "-", "+") == (
        '1) 1) "5-1"\n   2) 1) "price"\n      2) (double) 10.25\n      3) "size"\n      4) (double) 3\n'
    )
