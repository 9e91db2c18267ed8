"""HIMPORT of Redis 8.10: hashes whose fields their connection has named before. No server with it is at hand, so the
replies are those of Redis's documentation and tests."""

import pytest

from support.resp import Closed
from support.seeds import generator
from support.servers import Server, subject_is_oracle
from support.state import differences, whole_state
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has none of it")

NO_SET, WRONG_COUNT = "ERR no such fieldset", "ERR value count does not match fieldset field count"


def prepare(connection, name, *fields):
    return connection("HIMPORT", "PREPARE", name, *fields).text()


def put(connection, key, name, *values):
    return connection("HIMPORT", "SET", key, name, *values).text()


def fields_of(connection, key):
    words = [word.decode() for word in connection.call("HGETALL", key)]
    return dict(zip(words[::2], words[1::2]))


def total_memory(connection):
    line = connection.call("CLIENT", "INFO").decode()
    return int(next(word for word in line.split() if word.startswith("tot-mem=")).partition("=")[2])


def test_hashes_are_made_of_values(subject):
    with subject.connect() as connection, subject.connect() as other:
        assert prepare(connection, "user", "name", "email", "age") == "OK"
        assert put(connection, "u:1", "user", "alice", "a@example.com", "25") == "OK"
        assert fields_of(connection, "u:1") == {"name": "alice", "email": "a@example.com", "age": "25"}
        assert put(connection, "u:1", "user", "bob") == WRONG_COUNT
        assert put(connection, "u:1", "user", *"abcd") == WRONG_COUNT
        assert put(connection, "u:1", "other", "bob") == put(other, "u:1", "user", "a", "b", "c") == NO_SET
        assert prepare(connection, "user", "a", "b", "a") == "ERR duplicate field name in fieldset"
        assert put(connection, "u:1", "user", *"abc") == "OK", "the failed one changes nothing"
        assert prepare(connection, "user", "", "b") == "OK" and prepare(connection, "", "x") == "OK"
        assert put(connection, "u:1", "user", "1", "2") == "OK"
        assert fields_of(connection, "u:1") == {"": "1", "b": "2"}, "the hash is replaced"
        assert connection.call("OBJECT", "ENCODING", "u:1") == b"listpack"
        assert put(connection, "u:2", "", "y") == "OK" and fields_of(connection, "u:2") == {"x": "y"}
        connection.call("SET", "text", 1)
        assert put(connection, "text", "", "y").startswith("WRONGTYPE")
        assert put(connection, "text", "user", "y") == WRONG_COUNT
        connection.call("EXPIRE", "u:1", 1000)
        connection.call("HPEXPIRE", "u:2", 1_000_000, "FIELDS", 1, "x")
        assert put(connection, "u:1", "", "y") == put(connection, "u:2", "", "z") == "OK"
        assert connection.call("TTL", "u:1") == connection.call("HTTL", "u:2", "FIELDS", 1, "x")[0] == -1
        large = [f"field{number}" for number in range(10_000)]
        assert prepare(connection, "large", *large) == "OK"
        assert put(connection, "u:3", "large", *range(10_000)) == "OK" and connection.call("HLEN", "u:3") == 10_000
        assert connection.call("OBJECT", "ENCODING", "u:3") == b"hashtable"


def test_field_sets_are_forgotten(subject):
    with subject.connect() as connection:
        assert connection.call("HIMPORT", "DISCARDALL") == connection.call("HIMPORT", "DISCARD", "a") == 0
        for name in "abc":
            prepare(connection, name, "f")
        assert connection.call("HIMPORT", "DISCARD", "a") == 1 and connection.call("HIMPORT", "DISCARD", "a") == 0
        assert put(connection, "k", "a", "v") == NO_SET and put(connection, "k", "b", "v") == "OK"
        assert connection.call("HIMPORT", "DISCARDALL") == 2 and put(connection, "k", "b", "v") == NO_SET
        prepare(connection, "a", "f")
        connection.call("SELECT", 3)
        connection.call("RESET")
        assert put(connection, "k", "a", "v") == NO_SET
        errors = {
            "HIMPORT": "ERR wrong number of arguments for 'himport' command",
            "HIMPORT PREPARE a": "ERR wrong number of arguments for 'himport|prepare' command",
            "HIMPORT SET k a": "ERR wrong number of arguments for 'himport|set' command",
            "HIMPORT DISCARD": "ERR wrong number of arguments for 'himport|discard' command",
            "HIMPORT DISCARDALL x": "ERR wrong number of arguments for 'himport|discardall' command",
            "HIMPORT FOO": "ERR unknown subcommand 'FOO'. Try HIMPORT HELP.",
        }
        for line, expected in errors.items():
            assert connection(*line.split()).text() == expected
        assert connection.call("HIMPORT", "HELP")[0].startswith(b"HIMPORT")
        assert connection.call("COMMAND", "GETKEYS", "HIMPORT", "SET", "k", "a", "v") == [b"k"]


def test_transactions_and_scripts(subject):
    with subject.connect() as connection:
        for line in ("MULTI", "HIMPORT PREPARE a x y", "HIMPORT SET k a 1 2", "GET none", "HIMPORT SET k a 1", "EXEC"):
            reply = connection(*line.split())
        replies = [part.text() if part.is_error else part.plain() for part in reply.value]
        assert replies == [b"OK", b"OK", None, WRONG_COUNT]
        assert fields_of(connection, "k") == {"x": "1", "y": "2"}
        script = "return redis.call('HIMPORT', 'SET', KEYS[1], 'a', '3', '4')"
        assert NO_SET in connection("EVAL", script, 1, "k").text()
        both = f"redis.call('HIMPORT', 'PREPARE', 'a', 'p', 'q') {script}"
        for keys in (["1", "k"], ["1", "other"]):
            assert connection("EVAL", both.replace("KEYS[1]", "'k'"), *keys).text() == "OK"
            assert fields_of(connection, "k") == {"p": "3", "q": "4"}
        assert put(connection, "k", "a", "5", "6") == "OK" and fields_of(connection, "k") == {"x": "5", "y": "6"}
        assert connection.call("HIMPORT", "DISCARDALL") == 1


def test_rights(subject):
    with subject.connect() as connection:
        rules = ["on", "nopass", "resetkeys", "~own:*", "+@all", "-himport", "+himport|prepare", "+himport|set"]
        connection.call("ACL", "SETUSER", "importer", *rules)
        with subject.connect() as user:
            user.call("AUTH", "importer", "any")
            assert prepare(user, "a", "x") == "OK" and put(user, "own:1", "a", "1") == "OK"
            assert put(user, "k", "a", "1").startswith("NOPERM")
            assert user("HIMPORT", "DISCARDALL").text().startswith("NOPERM")
        connection.call("ACL", "DELUSER", "importer")


def test_watchers_caches_and_events(subject):
    with subject.connect() as connection, subject.connect(protocol=3) as holder, subject.connect() as listener:
        connection.call("CONFIG", "SET", "notify-keyspace-events", "KEA")
        listener.call("SUBSCRIBE", "__keyspace@0__:k")
        prepare(connection, "a", "x")
        put(connection, "k", "a", "1")
        holder.call("CLIENT", "TRACKING", "ON")
        holder.call("HGETALL", "k")
        holder.call("WATCH", "k")
        holder.call("MULTI")
        put(connection, "k", "a", "2")
        assert holder.read().plain() == [b"invalidate", [b"k"]]
        assert holder.call("EXEC") is None
        assert listener.read().plain()[2] == b"hset" and listener.read().plain()[2] == b"hset"
        connection.call("CONFIG", "SET", "notify-keyspace-events", "")


def test_field_sets_are_memory_of_the_client():
    with Server("subject", {"maxmemory-clients": "4mb"}) as server:
        with server.connect() as connection, server.connect() as other:
            other.call("CLIENT", "NO-EVICT", "ON")
            before = total_memory(connection)
            fields = [f"field_{number}" for number in range(1_000)]
            for number in range(20):
                prepare(connection, f"set{number}", *fields)
            assert total_memory(connection) > before + 20 * 1_000 * 16
            assert connection.call("HIMPORT", "DISCARDALL") == 20
            assert abs(total_memory(connection) - before) < 200_000
            with pytest.raises((Closed, OSError)):
                for number in range(1_000):
                    prepare(connection, f"set{number}", *fields)
            assert b"evicted_clients:1\r" in other.call("INFO", "stats")


@pytest.mark.parametrize("kind", ["redis", "subject"])
def test_replicas_have_the_hashes(kind):
    random = generator()
    with Server("subject") as server, server.connect() as primary:
        with Server(kind, options={"replicaof": ["127.0.0.1", server.port]}) as copy, copy.connect() as replica:
            eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
            for size in (1, 3, 200):
                prepare(primary, f"set{size}", *(f"field{number}" for number in range(size)))
            for _ in range(60):
                key, size = f"k{random.randrange(5)}", random.choice((1, 3, 200))
                if random.random() < 0.3:
                    primary.call("EXPIRE", key, 1000)
                primary("HPEXPIRE", key, 1_000_000, "FIELDS", 1, "field0")
                assert put(primary, key, f"set{size}", *(random.randrange(1000) for _ in range(size))) == "OK"
                assert primary.call("WAIT", 1, 10_000) == 1
                found = differences(whole_state(primary), whole_state(replica), near=0)
                assert not found, "\n".join(found[:20])
            if kind == "subject":
                assert replica("HIMPORT", "PREPARE", "a", "x").text() == "OK"
                assert put(replica, "k", "a", "1").startswith("READONLY")


def test_a_restart_has_the_hashes(tmp_path):
    options = {"appendonly": "yes"}
    with Server("subject", options, directory=tmp_path) as server, server.connect() as connection:
        prepare(connection, "a", "x", "y")
        connection.call("HSET", "old", "z", 1)
        for key in ("old", "new"):
            assert put(connection, key, "a", "1", "2") == "OK"
        connection.call("EVAL", "redis.call('HIMPORT','PREPARE','a','f') redis.call('HIMPORT','SET','new','a','v')", 0)
        expected = [fields_of(connection, key) for key in ("old", "new")]
        assert expected == [{"x": "1", "y": "2"}, {"f": "v"}]
    with Server("subject", options, directory=tmp_path) as server, server.connect() as connection:
        assert [fields_of(connection, key) for key in ("old", "new")] == expected
