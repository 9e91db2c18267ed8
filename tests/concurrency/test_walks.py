"""Walks over all keys: exact counts and deletions while others write, rights, stopping, progress."""

import threading

import pytest

from support.seeds import generator
from support.waiting import eventually


def as_value(reply):
    """A reply of RESP3 with its maps as dictionaries."""
    if reply.kind == "%":
        values = [as_value(element) for element in reply.value]
        return {key.decode(): value for key, value in zip(values[::2], values[1::2])}
    if reply.is_aggregate:
        return [as_value(element) for element in reply.value]
    if reply.kind == ",":
        return float(reply.value)
    return reply.plain()


def ask(connection, *args):
    reply = connection(*args)
    assert not reply.is_error, reply.text()
    return as_value(reply)


def tree(connection, *args):
    return ask(connection, "MANTISSA.TREE", *args)


def counts(found):
    return [(child["name"].decode(), child["kind"].decode(), child["keys"]) for child in found["children"]]


@pytest.fixture
def server(start_server):
    return start_server("subject", workers=2)


def fill(connection, names):
    connection.pipeline([("SET", name, "v") for name in names])


def test_children_have_exact_counts(server):
    with server.connect(3) as client:
        fill(client, [f"user:{number}:name" for number in range(300)])
        fill(client, [f"user:{number}" for number in range(200)] + ["user", "lone", "user:"])
        client.call("RPUSH", "list:1", "a", "b")
        client.call("HSET", "list:2", "f", "v")
        client.call("EXPIRE", "list:1", "1000")
        found = tree(client, "")
        assert counts(found) == [
            ("user:", "prefix", 501), ("list:", "prefix", 2), ("lone", "key", 1), ("user", "key", 1),
        ]
        assert (found["keys"], found["expiring"], found["children-known"]) == (505, 1, 4)
        assert found["types"] == {"string": 503, "hash": 1, "list": 1}
        assert found["other"] == {"keys": 0, "bytes": 0, "expiring": 0, "types": {}}
        assert found["bytes"] == sum(child["bytes"] for child in found["children"])
        assert found["children"][2]["bytes"] == client.call("MEMORY", "USAGE", "lone")
        assert found["children"][1]["types"] == {"hash": 1, "list": 1}
        below = tree(client, "user:", "SORT", "NAME", "LIMIT", "2")
        assert counts(below) == [("user:", "key", 1), ("user:0", "key", 1)]
        assert (below["keys"], below["other"]["keys"]) == (501, 499)
        page = tree(client, "user:", "SORT", "NAME", "LIMIT", "2", "OFFSET", "2")
        assert counts(page) == [("user:0:", "prefix", 1), ("user:1", "key", 1)]
        deep = tree(client, "", "DEPTH", "2", "LIMIT", "1")
        assert deep["children"][0]["other"]["keys"] == 500
        assert deep["children"][0]["children"][0]["keys"] == 1


def test_filters_and_delimiters(server):
    with server.connect(3) as client:
        fill(client, ["a/b/c", "a/b/d", "a//x", "b"])
        client.call("RPUSH", "a/l", "1")
        assert counts(tree(client, "a/", "DELIMITER", "/")) == [
            ("a/b/", "prefix", 2), ("a/l", "key", 1), ("a//", "prefix", 1),
        ]
        assert counts(tree(client, "", "DELIMITER", "/", "MATCH", "*[cd]")) == [("a/", "prefix", 2)]
        assert counts(tree(client, "", "DELIMITER", "/", "TYPE", "list")) == [("a/", "prefix", 1)]
        assert counts(tree(client, "a/", "DELIMITER", "//", "SORT", "NAME"))[0][1] == "key"
        client.call("SELECT", "1")
        assert tree(client, "")["keys"] == 0
        for wrong in (["", "DEPTH", "17"], ["", "LIMIT", "0"], ["", "SORT", "x"], ["", "DELIMITER", ""],
                      ["", "OFFSET"], ["", "BELOW", "0"], ["", "OTHER", "x"]):
            assert client("MANTISSA.TREE", *wrong).is_error


def test_a_transaction_and_resp2(server):
    with server.connect() as client:
        fill(client, ["a:1"])
        assert client.call("MANTISSA.TREE", "")[:2] == [b"database", 0]
        client.call("MULTI")
        assert client("MANTISSA.TREE", "").is_error
        client.call("DISCARD")


def test_keys_that_may_not_be_read_are_not_shown(server):
    with server.connect(3) as admin, server.connect(3) as client:
        fill(admin, [f"{name}:{number}" for name in ("mine", "yours", "written") for number in range(50)])
        admin.call("ACL", "SETUSER", "u", "on", "nopass", "+@all", "~mine:*", "%W~written:*", "(%R~yours:1* +get)")
        client.call("AUTH", "u", "x")
        assert counts(tree(client, "")) == [("mine:", "prefix", 50)]
        admin.call("ACL", "SETUSER", "u", "(%R~yours:1* +mantissa.tree)")
        assert counts(tree(client, "")) == [("mine:", "prefix", 50), ("yours:", "prefix", 11)]
        admin.call("ACL", "SETUSER", "u", "-mantissa.tree", "clearselectors")
        assert client("MANTISSA.TREE", "").text().startswith("NOPERM")


def test_counts_are_exact_while_others_write(server):
    stays = [f"stays:{number % 7}:{number}" for number in range(20_000)]
    with server.connect(3) as client:
        fill(client, stays)
        stop = threading.Event()

        def write(seed):
            random = generator(seed)
            with server.connect() as writer:
                while not stop.is_set():
                    name = random.choice("SET DEL DEL".split())
                    keys = [f"comes:{random.randrange(40_000)}" for _ in range(400)]
                    writer.pipeline([(name, key) if name == "DEL" else (name, key, "v") for key in keys])

        writers = [threading.Thread(target=write, args=(f"writer {number}",)) for number in range(2)]
        [writer.start() for writer in writers]
        try:
            for _ in range(12):
                found = tree(client, "stays:")
                assert [child["keys"] for child in found["children"]] == [2858, 2857, 2857, 2857, 2857, 2857, 2857]
        finally:
            stop.set()
            [writer.join() for writer in writers]


def test_millions_of_prefixes_take_bounded_memory(server):
    with server.connect(3) as client:
        fill(client, [f"{number}:{'x' * 300}:" for number in range(120_000)])
        fill(client, [f"big:{number}" for number in range(5_000)])
        found = tree(client, "", "LIMIT", "3")
        assert counts(found)[0] == ("big:", "prefix", 5_000)
        assert found["keys"] == 125_000 and found["other"]["keys"] == 125_000 - 5_002
        assert found["children-known"] < 125_000


def test_levels_below_the_first_take_nothing_from_it(server):
    with server.connect(3) as client:
        fill(client, [f"many:{number}:{'x' * 300}:y" for number in range(25_000)])
        fill(client, ["few:1:a", "few:1:b", "few:2:a", "few:c", "last"])
        found = tree(client, "", "DEPTH", "2", "BELOW", "2")
        levels = [("many:", "prefix", 25_000), ("few:", "prefix", 4), ("last", "key", 1)]
        assert counts(found) == levels
        few = found["children"][1]
        assert counts(few) == [("few:1:", "prefix", 2), ("few:2:", "prefix", 1)]
        assert few["children-known"] == 3 and few["other"]["keys"] == 1
        assert len(found["children"][0]["children"]) == 2
        # With names of a level below that do not all find a place, it is shown without children.
        found = tree(client, "", "DEPTH", "3", "BELOW", "2")
        assert counts(found) == levels
        assert "children" not in found["children"][0]


def test_walks_are_listed_and_stopped(server):
    with server.connect(3) as client, server.connect(3) as other:
        fill(client, [f"key:{number}" for number in range(1_000)])
        assert ask(other, "MANTISSA.JOBS", "LIST") == []
        assert ask(other, "MANTISSA.JOBS", "STOP", "7") == 0
        # Many walks at once, so that some are under way whenever one looks.
        many = [server.connect(3) for _ in range(16)]
        fill(client, [f"key:{number}" for number in range(1_000, 150_000)])
        for one in many:
            one.send("MANTISSA.TREE", "ke")
        jobs = ask(other, "MANTISSA.JOBS", "LIST")
        assert jobs and all(job["command"] == b"mantissa.tree" and job["argument"] == b"ke" for job in jobs)
        stopped = sum(ask(other, "MANTISSA.JOBS", "STOP", job["id"]) for job in jobs)
        replies = [one.read() for one in many]
        assert stopped > 0 and sum(reply.is_error for reply in replies) > 0
        eventually(lambda: ask(other, "MANTISSA.JOBS", "LIST") == [], "a walk goes on without its client")
        many[0].send("MANTISSA.TREE", "ke")
        many[0].close()
        eventually(lambda: ask(other, "MANTISSA.JOBS", "LIST") == [], "a walk goes on without its client")
        for one in many[1:]:
            one.close()


def delete(connection, *args):
    return ask(connection, "MANTISSA.DELETE", *args)


def test_a_prefix_is_deleted(server):
    with server.connect(3) as client:
        fill(client, [f"go:{number}" for number in range(3_000)] + ["stay:1", "go"])
        client.call("RPUSH", "go:list", "a")
        client.call("EXPIRE", "go:1", "1000")
        dry = delete(client, "go:", "DRYRUN")
        assert (dry["state"], dry["dryrun"], dry["keys"], dry["expiring"]) == (b"done", 1, 3_001, 1)
        assert client.call("DBSIZE") == 3_003
        assert delete(client, "go:", "TYPE", "list", "MATCH", "*l?st")["keys"] == 1
        done = delete(client, "go:")
        assert (done["state"], done["dryrun"], done["keys"]) == (b"done", 0, 3_000)
        assert done["types"] == {"string": 3_000} and done["bytes"] > 0
        assert sorted(client.call("KEYS", "*")) == [b"go", b"stay:1"]
        assert delete(client, "", "MATCH", "nothing*")["keys"] == 0
        for wrong in ([""], ["", "DRYRUN"], ["a", "MATCH"], ["a", "OTHER"], ["a", "TYPE"]):
            assert client("MANTISSA.DELETE", *wrong).is_error


def test_only_keys_that_may_be_read_and_written_are_deleted(server):
    with server.connect(3) as admin, server.connect(3) as client:
        fill(admin, ["all:1", "read:1", "written:1", "other:1"])
        admin.call("ACL", "SETUSER", "u", "on", "nopass", "+@all", "~all:*", "%R~read:*", "%W~written:*")
        client.call("AUTH", "u", "x")
        assert delete(client, "", "MATCH", "*", "DRYRUN")["keys"] == 1
        assert delete(client, "", "MATCH", "*")["keys"] == 1
        assert sorted(admin.call("KEYS", "*")) == [b"other:1", b"read:1", b"written:1"]


def test_a_deletion_has_the_effects_of_other_deletions(server):
    with server.connect(3) as client, server.connect(3) as other, server.connect(3) as blocked:
        client.call("CONFIG", "SET", "notify-keyspace-events", "EKg")
        fill(client, ["go:watched", "go:cached"])
        client.call("XGROUP", "CREATE", "go:stream", "group", "$", "MKSTREAM")
        other.call("WATCH", "go:watched")
        other.call("CLIENT", "TRACKING", "ON")
        other.call("GET", "go:cached")
        blocked.send("XREADGROUP", "GROUP", "group", "me", "BLOCK", "0", "STREAMS", "go:stream", ">")
        eventually(lambda: b"blocked_clients:1" in client.call("INFO", "clients"), "nobody waits")
        with server.connect() as listener:
            listener.call("PSUBSCRIBE", "__keyevent@0__:del")
            assert delete(client, "go:")["keys"] == 3
            names = {listener.read().plain()[3] for _ in range(3)}
        assert names == {b"go:watched", b"go:cached", b"go:stream"}
        assert blocked.read().text().startswith(("UNBLOCKED", "NOGROUP"))
        pushed = other.read()
        assert pushed.kind == ">" and pushed.plain() == [b"invalidate", [b"go:cached"]]
        other.call("MULTI")
        other.call("PING")
        assert other("EXEC").is_null


def test_a_deletion_is_logged_and_refused_on_a_replica(start_server):
    primary = start_server("subject", workers=2)
    replica = start_server("subject", workers=2)
    with primary.connect(3) as client, replica.connect(3) as reader:
        reader.call("REPLICAOF", "127.0.0.1", str(primary.port))
        fill(client, [f"go:{number}" for number in range(2_000)] + ["stay"])
        eventually(lambda: reader.call("DBSIZE") == 2_001, "the replica has not all keys")
        assert reader("MANTISSA.DELETE", "go:").text().startswith("READONLY")
        assert tree(reader, "")["keys"] == 2_001
        assert delete(client, "go:")["keys"] == 2_000
        eventually(lambda: reader.call("DBSIZE") == 1, "the replica has not deleted")


def test_a_deletion_is_stopped_and_waits_while_writes_are_paused(server):
    with server.connect(3) as client, server.connect(3) as other:
        fill(client, [f"go:{number}" for number in range(5_000)])
        other.call("CLIENT", "PAUSE", "100000", "WRITE")
        client.send("MANTISSA.DELETE", "go:")
        assert ask(other, "MANTISSA.JOBS", "LIST") == [] and other.call("DBSIZE") == 5_000
        other.call("CLIENT", "UNPAUSE")
        assert as_value(client.read())["keys"] == 5_000
        fill(client, [f"go:{number}" for number in range(100_000)])
        client.send("MANTISSA.DELETE", "go:")
        jobs = []
        while not jobs:
            jobs = ask(other, "MANTISSA.JOBS", "LIST")
        assert jobs[0]["command"] == b"mantissa.delete" and 0 <= jobs[0]["percent"] <= 100
        ask(other, "MANTISSA.JOBS", "STOP", jobs[0]["id"])
        result = as_value(client.read())
        assert result["state"] == b"stopped"
        assert other.call("DBSIZE") == 100_000 - result["keys"] > 0


def test_big_keys_by_type(server):
    with server.connect(3) as client:
        for number in range(50):
            client.call("SET", f"s:{number}", "v" * (100 + 50 * number))
            client.call("RPUSH", f"l:{number}", *["v" * 50] * (number + 1))
        found = tree(client, "", "DEPTH", "0", "SORT", "BYTES", "TYPE", "list", "LIMIT", "3")
        sizes = [child["bytes"] for child in found["children"]]
        usage = [client.call("MEMORY", "USAGE", f"l:{number}") for number in range(50)]
        assert sizes == sorted(usage, reverse=True)[:3]
        assert all(child["types"] == {"list": 1} for child in found["children"])
        assert found["other"]["keys"] == 47
