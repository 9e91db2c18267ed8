"""Arrays, a type of Redis 8.8. No server with them is at hand, so replies are those of Redis's documentation and
tests; a dictionary and a cursor are what a random stream is compared with."""

import fnmatch

import pytest

from support.seeds import generator
from support.servers import Server, subject_is_oracle
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has no arrays")

END = 2**64 - 1
WHOLE = (0, END - 1)


class Model:
    """An array, and what commands reply."""

    def __init__(self):
        self.elements, self.cursor = {}, None

    def set(self, index, values):
        before = len(self.elements)
        self.elements.update({index + at: value for at, value in enumerate(values)})
        return len(self.elements) - before

    def length(self):
        return max(self.elements, default=-1) + 1

    def indexes(self, start, end):
        low, high = min(start, end), max(start, end)
        return sorted((index for index in self.elements if low <= index <= high), reverse=start > end)

    def remove(self, indexes):
        return sum(self.elements.pop(index, None) is not None for index in list(indexes))

    def next(self):
        return 0 if self.cursor is None else self.cursor + 1

    def insert(self, values):
        for value in values:
            self.cursor = self.next()
            self.elements[self.cursor] = value
        return self.cursor

    def ring(self, size, values):
        span = self.length()
        if span and (size < span or (size > span and self.cursor is not None and self.next() < span)):
            kept, at = [], span - 1 if self.cursor is None else self.cursor % span
            while len(kept) < min(size, span) and at in self.elements:
                kept.append(self.elements[at])
                at = (at - 1) % span
            self.elements = dict(enumerate(reversed(kept)))
            self.cursor = len(kept) - 1 if kept else None
        for value in values:
            self.cursor = self.next() % size
            self.elements[self.cursor] = value
        return self.cursor

    def last_items(self, count, is_reversed):
        length = self.length()
        anchor = length - 1 if self.cursor is None or self.cursor >= length else self.cursor
        items = [self.elements.get((anchor - step) % length) for step in range(min(count, length))]
        return items if is_reversed else items[::-1]


def text(random):
    number = random.randrange(-1000, 1000)
    choices = (
        str(number), str(number / 8), str(number / 10), str(random.randrange(-(2**63), 2**63)), "", "short",
        f"a longer text {number}", "x" * random.randrange(300), "007", "1e5", "-0.0", f"{number}.50",
    )  # fmt: skip
    return random.choice(choices).encode()


def index(random):
    return random.choice((
        random.randrange(40), random.randrange(3000), random.randrange(10**7), 2**40 + random.randrange(600),
        END - 1 - random.randrange(2000), 2**63,
    ))  # fmt: skip


def step(random, model, connection, key):
    """Runs one command, and compares its reply."""
    one, other, values = index(random), index(random), [text(random) for _ in range(random.randrange(1, 5))]
    name = random.choice(
        "ARSET ARSET ARSET ARMSET ARDEL ARDELRANGE ARINSERT ARSEEK ARRING ARGET ARMGET ARGETRANGE ARSCAN ARLASTITEMS "
        "ARGREP AROP".split()
    )
    if not model.elements and name not in ("ARSET", "ARMSET", "ARINSERT", "ARRING", "ARGET", "ARMGET"):
        return
    if name == "ARSET":
        one = min(one, END - len(values))
        expected, words = model.set(one, values), (one, *values)
    elif name == "ARMSET":
        expected = model.set(one, values[:1]) + model.set(other, values[-1:])
        words = (one, values[0], other, values[-1])
    elif name == "ARDEL":
        one = random.choice(list(model.elements))
        expected, words = model.remove([one, other]), (one, other)
    elif name == "ARDELRANGE":
        other = min(one + random.randrange(3000), END - 1)
        expected, words = model.remove(model.indexes(one, other)), random.choice(((one, other), (other, one)))
    elif name == "ARINSERT":
        if model.next() + len(values) >= END:
            return
        expected, words = model.insert(values), values
    elif name == "ARSEEK":
        one = random.choice((0, random.randrange(100), one))
        model.cursor = None if one == 0 else one - 1
        expected, words = 1, (one,)
    elif name == "ARRING":
        size = random.choice((3, 10, 40, 500, 2**40))
        expected, words = model.ring(size, values), (size, *values)
    elif name == "ARGET":
        expected, words = model.elements.get(one), (one,)
    elif name == "ARMGET":
        expected, words = [model.elements.get(at) for at in (one, other)], (one, other)
    elif name == "ARGETRANGE":
        other = min(one + random.randrange(600), END - 1)
        words = random.choice(((one, other), (other, one)))
        places = range(one, other + 1) if words == (one, other) else range(other, one - 1, -1)
        expected = [model.elements.get(at) for at in places]
    elif name == "ARSCAN":
        limit = random.choice((None, 1, 7))
        expected = [[at, model.elements[at]] for at in model.indexes(one, other)][:limit]
        words = (one, other, *(("LIMIT", limit) if limit else ()))
    elif name == "ARLASTITEMS":
        count = random.choice((1, 5, 60))
        is_reversed = random.random() < 0.5
        expected, words = model.last_items(count, is_reversed), (count, *(("REV",) if is_reversed else ()))
    elif name == "ARGREP":
        expected = [at for at in model.indexes(*WHOLE) if b"longer" in model.elements[at]]
        words = ("-", "+", *random.choice((("MATCH", "longer"), ("GLOB", "*longer*"), ("RE", "^a longer .*[0-9]"))))
        assert all(fnmatch.fnmatch(model.elements[at], b"*longer*") for at in expected)
    else:
        expected, words = len(model.indexes(one, other)), (one, other, "USED")
    reply = connection(name, key, *words)
    assert reply.plain() == expected, (name, words, reply)
    if not model.elements:
        model.cursor = None


def contents(connection, key):
    return connection.call("ARSCAN", key, *WHOLE), connection.call("ARNEXT", key)


def information(connection, key):
    words = connection.call("ARINFO", key)
    return dict(zip(words[::2], words[1::2]))


def expected_contents(model):
    following = model.next()
    return [[at, model.elements[at]] for at in model.indexes(*WHOLE)], None if following == END else following


def random_arrays(connection, count=8, steps=250, name="array"):
    random, models = generator(name), {}
    for number in range(count):
        key, model = f"{name}:{number}", Model()
        connection.call("DEL", key)
        for _ in range(steps):
            step(random, model, connection, key)
        if model.elements:
            models[key] = model
    return models


def test_commands_do_as_a_dictionary_does(subject):
    with subject.connect() as connection:
        for key, model in random_arrays(connection, 20, 400).items():
            assert contents(connection, key) == expected_contents(model)
            assert connection.call("ARCOUNT", key) == len(model.elements)
            assert connection.call("ARLEN", key) == model.length()
            assert information(connection, key)[b"count"] == len(model.elements)


def test_payloads_copies_and_digests(subject):
    with subject.connect() as connection:
        for key, model in random_arrays(connection).items():
            payload = connection.call("DUMP", key)
            assert payload[0] == 28 and payload[-10:-8] == b"\x0e\x00"
            assert connection.call("RESTORE", "restored", 0, payload, "REPLACE") == b"OK"
            connection.call("COPY", key, "copied", "REPLACE")
            digests = connection.call("DEBUG", "DIGEST-VALUE", key, "restored", "copied")
            assert len(set(digests)) == 1
            for other in ("restored", "copied"):
                assert contents(connection, other) == expected_contents(model)
                assert connection.call("DUMP", other) == payload
                assert connection.call("OBJECT", "ENCODING", other) == b"sliced-array"
                assert connection.call("TYPE", other) == b"array"
            # A copy is of its own.
            connection.call("ARSET", "copied", 0, "changed")
            assert contents(connection, key) == expected_contents(model)
        connection.call("ARSET", "lone", 2**63, "x")
        assert connection.call("MEMORY", "USAGE", "lone") < 200
        assert connection.call("SCAN", 0, "TYPE", "array", "COUNT", 10_000)[1]
        for bad in (b"\x1c\x00\x00", b"\x1c\x02\x00\x00\x03\x01a", b"\x1c\x01\x00\x00\x04\x01a"):
            reply = connection("RESTORE", "bad", 0, bad + bytes(10)).text()
            assert reply == "ERR DUMP payload version or checksum are wrong"


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_files_keep_arrays(start_server, preamble):
    options = {"appendonly": "yes", "enable-debug-command": "yes", "aof-use-rdb-preamble": preamble}
    server = start_server(options=options)
    with server.connect() as connection:
        models = random_arrays(connection)
        digest = connection.call("DEBUG", "DIGEST")
        assert connection.call("DEBUG", "RELOAD") == b"OK"
        assert connection.call("DEBUG", "DIGEST") == digest
    for rewrites in (False, True, False):
        with server.connect() as connection:
            if rewrites:
                connection.call("BGREWRITEAOF")
                eventually(lambda: b"aof_rewrite_in_progress:0" in connection.call("INFO", "persistence"), "it is done")
        server.restart()
        with server.connect() as connection:
            for key, model in models.items():
                assert contents(connection, key) == expected_contents(model)


def test_replicas_have_the_same_arrays():
    with Server("subject") as server, server.connect() as primary:
        models = random_arrays(primary, name="before")
        with Server("subject", options={"replicaof": ["127.0.0.1", server.port]}) as copy, copy.connect() as replica:
            eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
            models.update(random_arrays(primary, name="after"))
            assert primary.call("WAIT", 1, 10_000) == 1
            for key, model in models.items():
                assert contents(replica, key) == expected_contents(model)


def test_keys_tell_of_it(subject):
    with subject.connect() as connection, subject.connect() as listener:
        connection.call("CONFIG", "SET", "notify-keyspace-events", "Kag")
        assert connection.call("CONFIG", "GET", "notify-keyspace-events")[1] == b"gaK"
        listener.call("SUBSCRIBE", "__keyspace@0__:events")
        for line in (
            "ARSET events 0 a b c", "ARMSET events 5 a", "ARINSERT events a", "ARRING events 2 a", "ARSEEK events 7",
            "ARDEL events 90", "ARDEL events 0", "ARDELRANGE events 0 100", "ARSET events 1 a", "ARDEL events 1",
        ):  # fmt: skip
            connection.call(*line.split())
        connection.call("CONFIG", "SET", "notify-keyspace-events", "")
        expected = ["arset", "armset", "arinsert", "arring", "arseek", "ardel", "ardelrange", "del", "arset", "ardel"]
        assert [listener.read().plain()[2].decode() for _ in [*expected, "del"]] == [*expected, "del"]


def test_users_may_be_kept_from_arrays(subject):
    with subject.connect() as connection:
        assert len(connection.call("ACL", "CAT", "array")) == 18
        connection.call("ACL", "SETUSER", "reader", "on", "nopass", "~*", "+@array", "-@write")
        connection.call("ARSET", "k", 0, "a")
        assert connection.call("ACL", "DRYRUN", "reader", "ARGET", "k", "0") == b"OK"
        assert b"no permissions" in connection.call("ACL", "DRYRUN", "reader", "ARSET", "k", "0", "b")
        connection.call("ACL", "DELUSER", "reader")
        documented = connection.call("COMMAND", "DOCS", "ARSCAN")
        assert documented[0] == b"arscan" and b"array" in documented[1]


def test_long_ranges_are_read_whole(subject):
    with subject.connect(protocol=3) as connection:
        count = 200_000
        for start in range(0, count, 10_000):
            connection.call("ARSET", "long", start, *range(start, start + 10_000))
        expected = [str(at).encode() for at in reversed(range(count))]
        assert connection.call("ARGETRANGE", "long", count - 1, 0) == expected
        assert connection.call("ARSCAN", "long", *WHOLE) == [[at, str(at).encode()] for at in range(count)]
        assert connection.call("ARLASTITEMS", "long", 300, "REV")[-1] == str(count - 300).encode()
        assert connection.call("AROP", "long", *WHOLE, "SUM") == str(count * (count - 1) // 2).encode()
        assert connection.call("AROP", "long", *WHOLE, "MAX") == str(count - 1).encode()
        assert connection.call("ARGREP", "long", "-", "+", "RE", "^1?99999$") == [99_999, 199_999]
        assert connection.call("MEMORY", "USAGE", "long") < 10 * count
        assert connection.call("ARDELRANGE", "long", 10, count) == count - 10
        assert information(connection, "long")[b"len"] == 10
        assert connection("ARGETRANGE", "long", 0, 10**6).text() == "ERR range exceeds maximum of 1000000 items"
        connection.call("DEL", "long")
