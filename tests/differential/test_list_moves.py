"""LMOVEM and BLMOVEM of Redis 8.10: what they reply, whom they wait for, and what comes of it. No server with them is
at hand, so the replies are those of Redis's documentation and tests."""

import pytest

from support.seeds import generator
from support.servers import Server, subject_is_oracle
from support.state import differences, whole_state
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has none of them")

ENDS = ("LEFT", "RIGHT")
SYNTAX = [
    "a b LEFT UP", "a b UP LEFT", "a b LEFT LEFT COUNT", "a b LEFT LEFT COUNT 2", "a b LEFT LEFT COUNT 2 OBO BULK",
    "a b LEFT LEFT BAD 2 OBO", "a b LEFT LEFT COUNT 2 BAD", "a b LEFT LEFT OBO", "a b LEFT LEFT BULK COUNT 2",
]  # fmt: skip
FEW = ["a b LEFT LEFT COUNT 0 OBO", "a b LEFT LEFT EXACTLY -1 BULK", "a b LEFT LEFT COUNT x BAD"]


def texts(reply):
    return None if reply is None else [element.decode() for element in reply]


def moved(lists, words):
    """What a move replies and leaves, told by lists of Python."""
    source, destination, start, end, *options = words
    kind, count, order = options or ("COUNT", 1, "BULK")
    have = lists.get(source, [])
    if not have or (kind == "EXACTLY" and len(have) < count):
        return None
    taken = have[:count] if start == "LEFT" else have[-count:]
    lists[source] = have[count:] if start == "LEFT" else have[:-count]
    if order == "OBO" and start == end:
        taken = taken[::-1]
    there = lists.get(destination, [])
    lists[destination] = taken + there if end == "LEFT" else there + taken
    return taken


def some_move(random, names):
    words = [random.choice(names), random.choice(names), random.choice(ENDS), random.choice(ENDS)]
    if random.random() < 0.9:
        count = random.choice((1, 2, 3, 5, 9, 1000))
        words += [random.choice(("COUNT", "EXACTLY")), count, random.choice(("OBO", "BULK"))]
    return words


def contents(connection, names):
    return {name: texts(connection.call("LRANGE", name, 0, -1)) for name in names}


def blocked(connection, count):
    line = f"blocked_clients:{count}\r".encode()
    eventually(lambda: line in connection.call("INFO", "clients"), f"{count} clients are blocked")


def test_elements_move_like_those_of_lists(subject):
    random, names = generator(), ["a", "b", "c"]
    with subject.connect() as connection:
        for round in range(30):
            connection.call("DEL", *names)
            lists = {}
            for name in names[: random.randrange(1, 4)]:
                long = "x" * 3_000 if round % 3 == 0 else ""
                lists[name] = [f"{name}{n}{long}" if n % 2 else str(n) for n in range(random.choice((1, 3, 8, 200)))]
                connection.call("RPUSH", name, *lists[name])
            for _ in range(30):
                words = some_move(random, names)
                before = {name: list(elements) for name, elements in lists.items()}
                expected = moved(lists, words)
                if random.random() < 0.5:
                    reply = connection.call("LMOVEM", *words)
                else:
                    connection.call("MULTI")
                    connection.call("BLMOVEM", *words[:4], 0, *words[4:])
                    reply = connection.call("EXEC")[0]
                assert texts(reply) == expected, (before, words)
                assert contents(connection, names) == {name: lists.get(name, []) for name in names}, words
            assert connection.call("EXISTS", *names) == sum(bool(elements) for elements in lists.values())


def test_refusals(subject):
    with subject.connect() as connection:
        connection.call("RPUSH", "a", 1, 2, 3)
        connection.call("SET", "text", 1)
        for line in SYNTAX:
            assert connection("LMOVEM", *line.split()).text() == "ERR syntax error", line
            words = line.split()
            assert connection("BLMOVEM", *words[:4], 0, *words[4:]).text() == "ERR syntax error", line
        for line in FEW:
            assert connection("LMOVEM", *line.split()).text() == "ERR count should be greater than 0", line
        assert connection("BLMOVEM", *"a b UP LEFT x".split()).text() == "ERR syntax error"
        line = "a b LEFT LEFT x COUNT 0 BULK"
        assert connection("BLMOVEM", *line.split()).text() == "ERR timeout is not a float or out of range"
        for name, words in (("lmovem", "a b LEFT"), ("blmovem", "a b LEFT LEFT")):
            error = f"ERR wrong number of arguments for '{name}' command"
            assert connection(name, *words.split()).text() == error
        for words in ("text a LEFT LEFT", "a text LEFT LEFT COUNT 2 BULK"):
            assert connection("LMOVEM", *words.split()).text().startswith("WRONGTYPE"), words
        for words in ("no text LEFT LEFT", "a text LEFT LEFT EXACTLY 4 OBO"):
            assert connection("LMOVEM", *words.split()).raw == b"*-1\r\n", words
        assert connection("BLMOVEM", *"no text LEFT LEFT 0.01".split()).raw == b"*-1\r\n"
        connection.call("HELLO", 3)
        assert connection("LMOVEM", "no", "a", "LEFT", "LEFT").raw == b"_\r\n"
        assert texts(connection.call("LRANGE", "a", 0, -1)) == ["1", "2", "3"]


def test_who_waits_for_one_element(subject):
    with subject.connect() as connection, subject.connect() as waiter:
        waiter.send("BLMOVEM", "s", "d", "LEFT", "RIGHT", 0, "COUNT", 5, "BULK")
        blocked(connection, 1)
        connection.call("RPUSH", "s", "a", "b")
        assert texts(waiter.read().plain()) == ["a", "b"]
        assert contents(connection, ["s", "d"]) == {"s": [], "d": ["a", "b"]}
        waiter.send("BLMOVEM", "s", "d", "RIGHT", "LEFT", 0)
        blocked(connection, 1)
        connection.call("RPUSH", "s", "c", "e")
        assert texts(waiter.read().plain()) == ["e"]


@pytest.mark.parametrize(
    "way",
    ["RPUSH s 3", "LPUSHX s 3", "LINSERT s BEFORE 1 3", "LMOVE feed s LEFT LEFT", "LMOVEM feed s LEFT LEFT",
     "SORT more STORE s", "RENAME more s", "COPY more s REPLACE", "EVAL grow", "MULTI"],
)  # fmt: skip
def test_who_waits_until_there_are_enough(subject, way):
    with subject.connect() as connection, subject.connect() as waiter:
        connection.call("RPUSH", "s", 1, 2)
        connection.call("RPUSH", "feed", 3)
        connection.call("RPUSH", "more", 1, 2, 3)
        waiter.send("BLMOVEM", "s", "d", "LEFT", "LEFT", 0, "EXACTLY", 3, "OBO")
        blocked(connection, 1)
        connection.call("LSET", "s", 0, 1)
        connection.call("RPUSH", "other", 1, 2, 3, 4)
        assert connection.call("LLEN", "s") == 2 and not connection.call("EXISTS", "d")
        if way == "EVAL grow":
            connection.call("EVAL", "redis.call('RPUSH', KEYS[1], 3)", 1, "s")
        elif way == "MULTI":
            for line in ("MULTI", "RPUSH s 9", "RPOP s", "RPUSH s 3", "EXEC"):
                connection.call(*line.split())
        else:
            connection.call(*way.split())
        assert sorted(texts(waiter.read().plain())) == ["1", "2", "3"]
        assert contents(connection, ["s"])["s"] == [] and connection.call("LLEN", "d") == 3
        blocked(connection, 0)


def test_who_came_first_is_served_first(subject):
    with subject.connect() as connection:
        waiters = [subject.connect() for _ in range(4)]
        lines = ["BLMOVEM s d LEFT RIGHT 0 EXACTLY 2 BULK", "BLPOP s 0", "BLPOP s 0"]
        lines.append("BLMOVEM s s LEFT LEFT 0 EXACTLY 2 OBO")
        for count, (waiter, line) in enumerate(zip(waiters, lines), 1):
            waiter.send(*line.split())
            blocked(connection, count)
        connection.call("RPUSH", "s", "a")
        assert texts(waiters[1].read().plain()) == ["s", "a"]
        connection.call("RPUSH", "s", "b", "c")
        assert texts(waiters[0].read().plain()) == ["b", "c"]
        connection.call("RPUSH", "s", "d", "e", "f")
        assert texts(waiters[2].read().plain()) == ["s", "d"]
        assert texts(waiters[3].read().plain()) == ["f", "e"]
        assert contents(connection, ["s", "d"]) == {"s": ["f", "e"], "d": ["b", "c"]}
        for waiter in waiters:
            waiter.close()


def test_a_destination_of_another_type_ends_the_wait(subject):
    with subject.connect() as connection, subject.connect() as waiter:
        connection.call("RPUSH", "s", "a")
        waiter.send("BLMOVEM", "s", "d", "LEFT", "RIGHT", 0, "EXACTLY", 2, "BULK")
        blocked(connection, 1)
        connection.call("SET", "d", 1)
        connection.call("RPUSH", "s", "b")
        assert waiter.read().text().startswith("WRONGTYPE")
        assert contents(connection, ["s"])["s"] == ["a", "b"]
        waiter.send("BLMOVEM", "s", "e", "LEFT", "RIGHT", 0.05, "EXACTLY", 3, "BULK")
        assert waiter.read().raw == b"*-1\r\n"


def test_events(subject):
    with subject.connect() as connection, subject.connect() as listener:
        connection.call("CONFIG", "SET", "notify-keyspace-events", "KEA")
        listener.call("PSUBSCRIBE", "__keyevent@0__:*")
        connection.call("RPUSH", "k", "a", "b", "c")
        connection.call("LMOVEM", "k", "k", "LEFT", "LEFT", "COUNT", 9, "OBO")
        connection.call("LMOVEM", "k", "l", "LEFT", "RIGHT", "COUNT", 2, "BULK")
        connection.call("LMOVEM", "k", "l", "RIGHT", "LEFT", "EXACTLY", 2, "BULK")
        connection.call("LMOVEM", "k", "l", "RIGHT", "LEFT", "EXACTLY", 1, "BULK")
        connection.call("CONFIG", "SET", "notify-keyspace-events", "")
        expected = ["rpush k", "lpush k", "lpop k", "rpush l", "lpop k", "lpush l", "rpop k", "del k"]
        seen = [listener.read().plain() for _ in expected]
        assert [f"{event.decode().partition(':')[2]} {key.decode()}" for _, _, event, key in seen] == expected


@pytest.mark.parametrize("kind", ["redis", "subject"])
def test_replicas_have_what_came_of_it(kind):
    random, names = generator(), ["a", "b", "c"]
    with Server("subject") as server, server.connect() as primary:
        with Server(kind, options={"replicaof": ["127.0.0.1", server.port]}) as copy, copy.connect() as replica:
            eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
            for _ in range(40):
                primary.call("DEL", *names)
                for name in names[:2]:
                    primary.call("RPUSH", name, *range(random.choice((1, 2, 3, 6))))
                    primary.call("EXPIRE", name, 1000)
                for _ in range(4):
                    words = some_move(random, names)
                    primary.call("LMOVEM", *words)
                    assert primary.call("WAIT", 1, 10_000) == 1
                    found = differences(whole_state(primary), whole_state(replica), near=0)
                    assert not found, (words, "\n".join(found[:20]))


def test_a_restart_has_what_came_of_it(tmp_path):
    random, names = generator(), ["a", "b", "c"]
    with Server("subject", {"appendonly": "yes"}, directory=tmp_path) as server, server.connect() as connection:
        for name in names:
            connection.call("RPUSH", name, *range(50))
        for _ in range(100):
            connection.call("LMOVEM", *some_move(random, names))
        with server.connect() as waiter:
            waiter.send("BLMOVEM", "s", "a", "LEFT", "RIGHT", 0, "EXACTLY", 2, "BULK")
            blocked(connection, 1)
            connection.call("RPUSH", "s", 1, 2, 3)
            assert texts(waiter.read().plain()) == ["1", "2"]
        before = contents(connection, [*names, "s"])
    with Server("subject", {"appendonly": "yes"}, directory=tmp_path) as server, server.connect() as connection:
        assert contents(connection, [*names, "s"]) == before
