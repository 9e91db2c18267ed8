"""Client-side caching compared with redis-server: who is told of which key, in which form, and when.

A scenario is a list of steps `CONNECTION COMMAND`; a connection with a capital letter speaks RESP3. After each
step everything that redis-server has sent to any connection is collected; the server under test has to send
the same to each, in the same order. `|` sends several commands, between semicolons, in one piece.
"""

import re

import pytest

from support.resp import encode, show
from support.servers import Server
from support.waiting import eventually

SCENARIOS = {
    "default": """
        A CLIENT TRACKING ON; A GET k; b SET k 1; b SET k 2; A GET k; A GET k; A SET k 3; A GET k
        b DEL k; A MGET x y k; b MSET x 1 y 2 k 3; A GET x; b SWAPDB 0 1; b SWAPDB 0 1; b APPEND x 2
        A TTL q2; A EXISTS q3; b SET q2 1; b SET q3 1; A OBJECT ENCODING q2; b SET q2 2; A DBSIZE; b SET q2 3
        A PFCOUNT hh; b PFADD hh 1; A SELECT 1; A GET dbk; A SELECT 0; b SET dbk 1; A SORT l BY w_* GET o_*
        b SET w_1 1; b RPUSH l 1; A LRANGE l 0 -1; b LPOP l; A GET x; b RENAME x y; A GET y; b COPY y z
        b EXPIRE y 100; A GET y; b PERSIST y; A GET y; b PERSIST y; b SELECT 1; b SET y 1; A CLIENT TRACKING OFF
        A GET y; b SET y 2""",
    "own": """
        A CLIENT TRACKING ON; A GET k; A SET k 1; A |GET k/SET k 2/GET k; A MULTI; A GET k; A SET k 3; A GET k
        A EXEC; A SET k 4; A GET z; A RENAME k z; A MGET a b c; A MSET a 1 b 2 c 3; A |GET a/GET b/SET a 1/SET b 2""",
    "scripts": """
        A CLIENT TRACKING ON; A EVAL "redis.call('GET','z') redis.call('SET','z',1) return redis.call('GET','z')" 0
        b SET z 5; A GET z; A EVAL_RO "return redis.call('GET','y')" 1 y; b SET y 1; A EVAL "return 1" 1 y
        b SET y 2; A GET y; b EVAL "redis.call('SET','y',1) redis.call('SET','y',2)" 1 y; b SET y 3
        A EVAL_RO "return 1" 1 k; b SET k 1""",
    "no loop": """
        A CLIENT TRACKING ON NOLOOP; A GET k; A SET k 1; b SET k 2; A GET k; b SET k 2; A MULTI; A GET j
        A SET j 1; A EXEC; b SET j 2""",
    "expiry": """
        b DEBUG SET-ACTIVE-EXPIRE 0; A CLIENT TRACKING ON NOLOOP; b SET k 1 PX 100000; A GET j; b SET j 2 PX 1
        b PEXPIRE k 0; A GET k; b SET k 2; A CLIENT TRACKING OFF; A CLIENT TRACKING ON BCAST NOLOOP; b SET k 1 PX 1
        !wait expired; A GET k; A DEL k; b SETEX k 100 1; A PEXPIRE k 1; !wait expired; b EXISTS k""",
    "flush": """
        b SET k 1; A CLIENT TRACKING ON; A FLUSHALL; A FLUSHALL ASYNC; A FLUSHALL SYNC; A FLUSHDB; A FLUSHDB ASYNC
        A GET k; b FLUSHALL; b SET k 1; A MULTI; A FLUSHALL; A PING; A EXEC
        A EVAL "return redis.call('FLUSHALL')" 0; A CLIENT TRACKING OFF; A FLUSHALL
        A CLIENT TRACKING ON BCAST NOLOOP; A FLUSHALL; b SELECT 5; b FLUSHDB; A GET k
        A CONFIG SET lazyfree-lazy-user-flush yes; A FLUSHALL; A CONFIG SET lazyfree-lazy-user-flush no
        A |SET a 1/FLUSHALL/SET b 1; b SET b 1; A DEBUG RELOAD""",
    "opt in": """
        A CLIENT TRACKING ON OPTIN; A GET k; b SET k 2; A CLIENT CACHING YES; A GET k; b SET k 3; A GET k; b SET k 4
        A CLIENT CACHING YES; A MULTI; A GET k; A GET j; A EXEC; b MSET k 1 j 1; A CLIENT CACHING YES; A SET z 1
        A GET z; b SET z 2; A CLIENT CACHING YES; A LPUSH; A GET k; b SET k 1; A CLIENT CACHING YES; A FOO; A GET k
        b SET k 1; A CLIENT CACHING YES; A CLIENT GETNAME; A GET k; b SET k 2; b LPUSH l 1; A CLIENT CACHING YES
        A GET l; b LPUSH l 2; A CLIENT CACHING YES; A MULTI; A CLIENT GETNAME; A EXEC; A GET k; b SET k 1
        A CLIENT CACHING YES; A EVAL "redis.call('GET','k') redis.call('GET','j')" 0; b SET k 1; b SET j 1
        A CLIENT CACHING YES; A CLIENT TRACKINGINFO; A CLIENT TRACKINGINFO; A GET k; A CLIENT TRACKINGINFO""",
    "opt out": """
        A CLIENT TRACKING ON OPTOUT; A GET k; b SET k 2; A CLIENT CACHING NO; A GET k; b SET k 3; A GET k; b SET k 4
        A CLIENT CACHING NO; A CLIENT TRACKINGINFO""",
    "broadcast": """
        A CLIENT TRACKING ON BCAST; b SET k 2; b MSET z 1 a 2 z 3; A SET q 1; A MULTI; A SET b 1; A SET a 1; A EXEC
        b DEL nokey; b DEL a b; A EVAL "redis.call('SET','z',1) redis.call('SET','a',1)" 0; b FLUSHALL; A FLUSHALL
        A |SET c 1/SET a 1/GET a; b |SET c 1/SET a 1/SET b 1/SET c 2; b SELECT 3; b SET a 1; A RESET; A HELLO 3
        b SET a 2""",
    "prefixes": """
        A CLIENT TRACKING ON BCAST PREFIX a PREFIX b NOLOOP; B CLIENT TRACKING ON BCAST PREFIX ab; b SET k 2
        b MSET z 1 a 2 b1 2 a2 3 abc 4; A SET a 1; A SET abc 1; B SET abc 1; b |SET a1 1/SET b1 1/SET c1 1/SET abd 1
        A |SET a1 1/SET b1 1; A CLIENT TRACKING ON BCAST PREFIX c; A CLIENT TRACKINGINFO; b SET c 1; b SET b 1""",
    "redirect": """
        c SUBSCRIBE __redis__:invalidate; a CLIENT TRACKING ON REDIRECT $c; a GET k; b SET k 1; a GET k; a SET k 2
        b FLUSHALL; a FLUSHALL; a GET k; c UNSUBSCRIBE; b SET k 1; c SUBSCRIBE other; a GET k; b SET k 1
        e CLIENT TRACKING ON BCAST REDIRECT $c PREFIX a; b SET a 1; e SET ab 1; e RESET; e CLIENT TRACKINGINFO
        c close; a GET k; b SET k 3; a CLIENT TRACKING ON; a GET k; b SET k 4""",
    "redirect in RESP3": """
        C PING; A CLIENT TRACKING ON REDIRECT $C; A GET k; b SET k 1; b FLUSHALL; A FLUSHALL; C SUBSCRIBE x; A GET k
        b SET k 2; d SUBSCRIBE q; A CLIENT TRACKING ON REDIRECT $d; A GET k; b SET k 3; A CLIENT TRACKING ON
        A GET k; b SET k 3; a CLIENT TRACKING ON REDIRECT $A; a GET k; b SET k 3; a CLIENT TRACKING ON REDIRECT $a
        a GET k; b SET k 5""",
    "blocked": """
        A CLIENT TRACKING ON; A ~XREAD BLOCK 0 STREAMS s $; b XADD s 1-1 a b; b XADD s 1-2 a b; A ~BLPOP l 0
        b RPUSH l 1; A XREAD BLOCK 100 STREAMS s 0; b XADD s 1-3 a b; A CLIENT TRACKING OFF
        A CLIENT TRACKING ON BCAST; A ~BLPOP l 0; b RPUSH l 1
        A ~BLMOVE l m LEFT RIGHT 0; b RPUSH l 1""",
    "reply modes": """
        A CLIENT TRACKING ON; A GET k; A ~CLIENT REPLY OFF; b SET k 1; A ~GET k; A ~SET k 2; A CLIENT REPLY ON
        A GET k; A HELLO 2; b SET k 1; A GET k; A HELLO 3; b SET k 2""",
    "transactions": """
        A CLIENT TRACKING ON; A MULTI; A CLIENT TRACKING OFF; A CLIENT TRACKING ON BCAST; A SET k 1; A EXEC; b SET k 2
        A MULTI; A GET j; A CLIENT TRACKING OFF; A SET k 3; A EXEC; b SET k 4; A CLIENT TRACKING ON; A WATCH w
        b SET w 1; A GET v; A MULTI; A EXEC; b SET v 1; A GET w; b MULTI; b SET w 1; b SET w 2; b EXEC""",
    "overlaps": """
        a CLIENT TRACKING ON BCAST PREFIX a; a CLIENT TRACKING ON BCAST; a CLIENT TRACKING ON BCAST PREFIX b
        a CLIENT TRACKING ON BCAST PREFIX ab; a CLIENT TRACKING ON BCAST PREFIX c PREFIX d; a CLIENT TRACKINGINFO
        a CLIENT TRACKING ON BCAST PREFIX ""; a CLIENT TRACKING ON BCAST; a CLIENT TRACKING OFF
        a CLIENT TRACKING ON BCAST; a CLIENT TRACKING ON BCAST PREFIX b; a CLIENT TRACKING OFF
        a CLIENT TRACKING ON BCAST PREFIX b PREFIX a; a CLIENT TRACKING ON BCAST PREFIX ""; a CLIENT TRACKINGINFO""",
    "answers": """
        a CLIENT TRACKING ON PREFIX a; a CLIENT TRACKING ON BCAST PREFIX a PREFIX ab
        a CLIENT TRACKING ON BCAST PREFIX ac PREFIX q PREFIX a PREFIX ab; a CLIENT TRACKING ON BCAST OPTIN
        a CLIENT TRACKING ON OPTIN OPTOUT; a CLIENT TRACKING ON REDIRECT 99999; a CLIENT TRACKING ON REDIRECT x
        a CLIENT TRACKING ON REDIRECT -1; a CLIENT TRACKING ON REDIRECT $b REDIRECT $b; a CLIENT TRACKING
        a CLIENT TRACKING FOO; a CLIENT TRACKING ON FOO; a CLIENT TRACKING ON PREFIX; a CLIENT CACHING YES
        a CLIENT TRACKING ON; a CLIENT TRACKINGINFO; a CLIENT GETREDIR; a CLIENT CACHING YES
        a CLIENT TRACKING ON BCAST; a CLIENT TRACKING ON OPTIN; a CLIENT TRACKINGINFO; a CLIENT CACHING YES
        a CLIENT TRACKINGINFO; a CLIENT CACHING NO; a CLIENT CACHING FOO; a CLIENT TRACKING ON OPTOUT
        a CLIENT TRACKING OFF; a CLIENT TRACKING ON OPTOUT NOLOOP; a CLIENT CACHING NO; a CLIENT TRACKINGINFO
        a CLIENT CACHING YES; a CLIENT TRACKING ON OPTIN; a CLIENT TRACKING OFF
        a CLIENT TRACKING ON BCAST PREFIX foo PREFIX bar; a CLIENT TRACKING ON BCAST PREFIX foobar
        a CLIENT TRACKING ON BCAST PREFIX fo; a CLIENT TRACKING ON BCAST PREFIX baz; a CLIENT TRACKINGINFO
        a CLIENT TRACKING ON; a CLIENT GETREDIR; a CLIENT TRACKING ON BCAST; a CLIENT TRACKINGINFO
        a CLIENT TRACKING OFF; a CLIENT TRACKING ON BCAST PREFIX a PREFIX a; a CLIENT TRACKING ON BCAST
        a CLIENT TRACKINGINFO; a CLIENT TRACKING OFF; a CLIENT TRACKINGINFO
        a CLIENT TRACKING OFF PREFIX a BCAST OPTIN OPTOUT; a CLIENT TRACKING ON BCAST NOLOOP REDIRECT 0
        a CLIENT TRACKING OFF REDIRECT 7777; a CLIENT TRACKING ON REDIRECT $b; a CLIENT TRACKING ON NOLOOP
        A CLIENT TRACKINGINFO; A CLIENT TRACKING ON BCAST PREFIX x; A CLIENT TRACKINGINFO; A CLIENT GETREDIR""",
}


def steps_of(text):
    """The steps: the connection's name and the command."""
    return [step.strip().split(" ", 1) for line in text.strip().splitlines() for step in line.split("; ")]


def encoded(command, ids):
    """The bytes of a step's commands, and how many there are."""
    command = re.sub(r"\$(\w)", lambda found: ids[found[1]], command)
    requests = command[1:].split("/") if command.startswith("|") else [command.lstrip("~")]
    words = [[quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', one)] for one in requests]
    return b"".join(map(encode, words)), len(requests)


def wait(condition):
    eventually(condition, "what was waited for has not come")


class Party:
    """One server with the connections of a scenario."""

    def __init__(self, server):
        self.server, self.connections, self.ids = server, {}, {}
        self.control = server.connect()
        self.control.call("FLUSHALL")

    def open(self, name):
        if name not in self.connections:
            self.connections[name] = self.server.connect(3 if name.isupper() else 2)
            self.ids[name] = str(self.connections[name].call("CLIENT", "ID"))

    def send(self, name, command):
        """Sends a step; returns how many replies it has."""
        for other in [name, *re.findall(r"\$(\w)", command)]:
            self.open(other)
        if command == "close":
            self.connections.pop(name).close()
            wait(lambda: f"id={self.ids[name]} ".encode() not in self.control.call("CLIENT", "LIST"))
            return 0
        data, count = encoded(command, self.ids)
        self.connections[name].send_raw(data)
        return 0 if command.startswith("~") else count

    def is_blocked(self, name):
        flags = re.search(rb"flags=(\w+)", self.line(name))
        return flags is not None and b"b" in flags[1]

    def line(self, name):
        return self.control.call("CLIENT", "LIST", "ID", self.ids[name])

    def plain(self, reply):
        """The bytes of a reply, with the numbers of connections as names."""
        raw = reply.raw
        for name, number in self.ids.items():
            raw = raw.replace(f":{number}\r\n".encode(), f":<{name}>\r\n".encode())
        return raw

    def close(self):
        for connection in [self.control, *self.connections.values()]:
            connection.close()


def is_invalidation(reply):
    return reply.kind == ">" and reply.value[0].value == b"invalidate"


def hear_all(party, who, reply_count):
    """All that redis-server has sent to each connection by now, which it has when it has answered others
    twice. A client that flushes is told of it before it has its reply, which another thread may delay."""
    heard = {name: [] for name in party.connections}
    while reply_count > 0:
        heard[who].append(party.connections[who].read())
        reply_count -= not is_invalidation(heard[who][-1])
    for _ in range(2):
        party.control.call("PING")
    for name, connection in party.connections.items():
        connection.socket.setblocking(False)
        try:
            connection.decoder.feed(connection.socket.recv(1 << 20))
        except BlockingIOError:
            pass
        while (reply := connection.decoder.next()) is not None:
            heard[name].append(reply)
    return heard


@pytest.fixture(scope="module", params=[1, 3], ids=["one-worker", "workers"])
def servers(request):
    options = {"tracking-table-max-keys": 1000}
    with (
        Server("oracle", options=options) as oracle,
        Server("subject", options=options, workers=request.param) as subject,
    ):
        yield oracle, subject


def wait_expired(party):
    """Waits until keys that were to expire after 1 ms have."""
    before = now_ms(party)
    wait(lambda: now_ms(party) > before + 1)


def now_ms(party):
    seconds, microseconds = map(int, party.control.call("TIME"))
    return seconds * 1000 + microseconds // 1000


def compare(oracle, subject, step, heard):
    """Waits for the same messages from the server under test."""
    for name, expected in heard.items():
        for one in expected:
            try:
                other = subject.connections[name].read()
            except TimeoutError:
                raise AssertionError(f"{step}: {name} hears nothing, redis-server says {show(one.raw)}") from None
            if "HELLO" in step and one.is_aggregate:
                continue  # It tells which modules there are.
            same = one.raw == other.raw or oracle.plain(one) == subject.plain(other)
            assert same, f"{step}: {name} hears {show(other.raw)}, from redis-server {show(one.raw)}"


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(servers, name):
    oracle, subject = map(Party, servers)
    for who, command in steps_of(SCENARIOS[name]):
        step = f"{who} {command}"
        if who == "!wait":
            wait_expired(oracle)
            wait_expired(subject)
            continue
        heard = hear_all(oracle, who, oracle.send(who, command))
        subject.send(who, command)
        if "BL" in command and command.startswith("~"):
            wait(lambda: subject.is_blocked(who))
        compare(oracle, subject, step, heard)
    for name, connection in subject.connections.items():
        # What was sent before the second of these is there with it.
        connection.send_raw(encode(["PING", "first"]) + encode(["PING", "second"]))
        for word in (b"first", b"second"):
            reply = connection.read()
            assert word in reply.raw, f"{name} hears {show(reply.raw)}, which redis-server does not say"
    oracle.close()
    subject.close()


def pushed_keys(connection):
    """The keys of all invalidations that have come by the time the server answers."""
    keys = []
    connection.send_raw(encode(["PING", "first"]) + encode(["PING", "second"]))
    while (reply := connection.read()).kind == ">" or reply.value != b"second":
        if reply.kind == ">":
            keys += [key.value for key in reply.value[1].value]
    return keys


def totals(connection):
    text = connection.call("INFO", "stats").decode()
    return [int(re.search(rf"tracking_total_{name}:(\d+)", text)[1]) for name in ("keys", "items", "prefixes")]


@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_the_table_is_bounded(start_server, kind):
    """Keys beyond `tracking-table-max-keys` are told as if they had changed, and those who are gone go too."""
    server = start_server(kind, workers=2, options={"tracking-table-max-keys": 100})
    reader, other = server.connect(3), server.connect()
    reader.call("CLIENT", "TRACKING", "ON")
    told = []
    for number in range(3000):
        reader.send("GET", f"k{number}")
        while (reply := reader.read()).kind == ">":
            told += [key.value for key in reply.value[1].value]
    wait(lambda: totals(other)[0] <= 100)
    told += pushed_keys(reader)
    assert len(told) == len(set(told)) >= 2900
    # redis-server chooses among all keys.
    assert kind == "oracle" or b"k2999" not in told
    reader.call("GET", "k2999")
    other.call("CONFIG", "SET", "tracking-table-max-keys", 1)
    wait(lambda: reader.call("PING") is not None and totals(other)[0] <= 1 or told.extend(pushed_keys(reader)))
    assert totals(other)[1:] == [1, 0] or totals(other)[1:] == [0, 0]
    other.call("CONFIG", "SET", "tracking-table-max-keys", 0)
    reader.close()
    for _ in range(300):
        with server.connect(3) as passing:
            passing.call("CLIENT", "TRACKING", "ON")
            passing.call("GET", "popular")
    if kind == "subject":
        assert totals(other)[1] < 200


def test_eviction_is_told(start_server):
    server = start_server("subject", workers=2, options={"maxmemory-policy": "allkeys-random"})
    reader, other = server.connect(3), server.connect()
    keys = [f"k{number}" for number in range(500)]
    for key in keys:
        other.call("SET", key, "x" * 1000)
    reader.call("CLIENT", "TRACKING", "ON")
    for key in keys:
        reader.call("GET", key)
    used = int(re.search(rb"used_memory:(\d+)", other.call("INFO", "memory"))[1])
    other.call("CONFIG", "SET", "maxmemory", used - 200_000)
    wait(lambda: other.call("DBSIZE") < 450)
    other.call("CONFIG", "SET", "maxmemory", 0)
    told = set()

    def are_all_told():
        told.update(pushed_keys(reader))
        return told == {key.encode() for key in keys if not other.call("EXISTS", key)}

    # Another thread may still evict for a moment.
    wait(are_all_told)
