"""The filters of CLIENT LIST and CLIENT KILL that Valkey has since 9.0, beside a valkey-server. Where redis-server 8.2
has an answer of its own, that is kept: streams/client.txt."""

import contextlib

import pytest

from support.servers import Server, subject_is_oracle
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has none of them")

# `{name}` is the number of the client of that name, `{port}` the server's port; the client `me` asks.
LISTS = """
NAME me
NAME ME
NAME other
NAME nobody
NAME
NAME "
NAME me NAME other
NOT-NAME me
NOT-NAME nobody
name other
LIB-NAME lib
LIB-NAME LIB
LIB-NAME none
NOT-LIB-NAME lib
LIB-VER 1.2
NOT-LIB-VER 1.2
FLAGS N
FLAGS x
FLAGS xx
FLAGS Nx
FLAGS P
FLAGS b
FLAGS U
FLAGS e
FLAGS Z
FLAGS ZN
FLAGS OSMPxbtRBdcurAUTIiEeN
NOT-FLAGS OSMPxbtRBdcurAUTIiEeN
NOT-FLAGS N
NOT-FLAGS x
NOT-FLAGS xN
NOT-FLAGS P
NOT-FLAGS Z
FLAGS g
DB 0
DB 3
DB 15
DB 16
DB -1
DB x
DB 01
DB 99999999999999999999
NOT-DB 3
NOT-DB 0
NOT-DB 16
NOT-DB -1
NOT-DB x
DB 0 NOT-DB 0
IP 127.0.0.1
IP 127.0.0.2
IP 127.0.0
IP x
NOT-IP 127.0.0.1
NOT-IP 127.0.0.2
IDLE 1000
IDLE 0
IDLE -1
IDLE x
IDLE 99999999999999999999
NOT-IDLE 1
MAXAGE 1000
MAXAGE 0
MAXAGE x
NOT-MAXAGE 1
USER default
USER nobody
NOT-USER default
NOT-USER nobody
SKIPME yes
SKIPME YES
SKIPME no
SKIPME x
SKIPME yes SKIPME no
NOT-SKIPME yes
TYPE primary
TYPE normal NAME me
TYPE normal TYPE pubsub
TYPE normal NOT-TYPE normal
TYPE x NAME me
NOT-TYPE normal
NOT-TYPE pubsub
NOT-TYPE x
NOT-TYPE primary
ADDR 1.2.3.4:5
NOT-ADDR 1.2.3.4:5
LADDR 127.0.0.1:{port}
LADDR 127.0.0.1:1
NOT-LADDR 127.0.0.1:{port}
ID {me} NAME me
ID {me} {other} NAME me
ID {me} {other} NOT-NAME me
ID {me} {other} {me} SKIPME yes
ID {other} {me} DB 0
ID {other} TYPE normal
ID 0 NAME me
ID -1 NAME me
NOT-ID {me}
NOT-ID {me} {other}
NOT-ID {me} NOT-ID {other}
NOT-ID {me} NAME me
NOT-ID NAME me
NOT-ID 0
NOT-ID x
NOT-ID
NOT-NAME
NOT-
NOT- x
NOT-FOO x
FOO x
NAME me FOO x
NAME me FOO
NAME me NOT-FLAGS
ADDR x NOT-NAME me LIB-NAME lib USER default
""".strip().splitlines()
# What CLIENT KILL is asked. None of it closes a client.
KILLS = """
NAME nobody
NAME me
NAME me SKIPME x
NOT-NAME me NAME me
FLAGS Z
NOT-FLAGS Z
DB 99
NOT-DB x
IDLE 0
IDLE x
IDLE 1000
IP x
NOT-TYPE x
NOT-USER nobody
NOT-USER default
LIB-NAME none
LIB-VER none LIB-NAME none
ID {me}
ID {me} 999999
ID 999999 888888 777777
ID 999999 0
ID 999999 -1
ID 999999 x
ID 999999 NOT-ID
ID 999999 NOT-ID {me}
NOT-ID 0 NAME me
NOT-ID x
TYPE primary
TYPE primary NAME me
MAXAGE 1000 IDLE 1000
""".strip().splitlines()


class Clients:
    """Clients of one server, of different kinds."""

    def __init__(self, server, stack):
        self.port = server.port
        connect = lambda: stack.enter_context(server.connect())
        self.me, self.other, self.queues, self.subscribed, self.blocked = [connect() for _ in range(5)]
        for name in ("me", "other", "queues", "subscribed", "blocked"):
            getattr(self, name)("CLIENT", "SETNAME", name)
        self.me("CLIENT", "SETINFO", "LIB-NAME", "lib")
        self.other("CLIENT", "SETINFO", "LIB-VER", "1.2")
        self.other("SELECT", 3)
        self.queues("MULTI")
        self.subscribed("SUBSCRIBE", "channel")
        self.blocked.send("BLPOP", "nothing", 0)
        settled = lambda: len(self.listed()) == 5 and any("flags=b" in line for line in self.listed())
        eventually(settled, lambda: self.listed())
        lines = [dict(word.split("=", 1) for word in line.split()) for line in self.listed()]
        self.numbers = {line["name"]: line["id"] for line in lines if line["name"]}
        self.names = {line["id"]: line["name"] for line in lines}

    def listed(self, *words):
        reply = self.me("CLIENT", "LIST", *words)
        return reply.text() if reply.is_error else reply.text().splitlines()

    def words(self, line):
        words = line.format(port=self.port, **self.numbers).split(" ")
        return ["" if word == '"' else word for word in words]

    def found(self, line):
        """The names of those that CLIENT LIST shows, or the error."""
        found = self.listed(*self.words(line))
        if isinstance(found, str):
            return found
        return [self.names[one.split()[0].partition("=")[2]] for one in found]

    def killed(self, line):
        return self.me("CLIENT", "KILL", *self.words(line)).raw


@pytest.fixture
def valkey():
    with Server("valkey") as server:
        yield server


@contextlib.contextmanager
def clients_of(valkey, subject):
    with contextlib.ExitStack() as stack:
        both = Clients(valkey, stack), Clients(subject, stack)
        ours = both[1].found("NOT-ID 999999")
        assert sorted(ours) == ["blocked", "me", "other", "queues", "subscribed"]
        yield both


def test_filters_of_lists(valkey, subject):
    with clients_of(valkey, subject) as (theirs, ours):
        for line in LISTS:
            assert ours.found(line) == theirs.found(line), line


def test_filters_of_kills(valkey, subject):
    with clients_of(valkey, subject) as (theirs, ours):
        for line in KILLS:
            assert ours.killed(line) == theirs.killed(line), line
        everybody = ours.found("SKIPME no")
        assert everybody == theirs.found("SKIPME no")


@pytest.mark.parametrize(
    "line, count",
    [
        ("NAME other", 1),
        ("FLAGS P", 1),
        ("DB 3", 1),
        ("LIB-VER 1.2", 1),
        ("ID {other} {queues} {me}", 2),
        ("ID {other} {queues} NOT-NAME other", 1),
        ("NOT-FLAGS N NOT-FLAGS x", 3),
        ("IP 127.0.0.1", 4),
        ("NOT-ID {other} SKIPME no", 4),
        ("NAME me SKIPME no", 1),
    ],
)
def test_closed_clients(valkey, subject, line, count):
    with clients_of(valkey, subject) as (theirs, ours):
        for clients in (theirs, ours):
            assert clients.killed(line) == b":%d\r\n" % count, line
        left = []
        for server in (valkey, subject):
            with server.connect() as connection:
                names = lambda: sorted(line.split()[3] for line in connection("CLIENT", "LIST").text().splitlines())
                eventually(lambda: len(names()) == 5 - count + 1, names)
                left.append([name for name in names() if name.startswith("name=")])
        assert left[0] == left[1]


def test_idle_clients(valkey, subject):
    """A client that has been idle for a second passes IDLE 1, and the one that asks does not."""
    with clients_of(valkey, subject) as (theirs, ours):
        for clients in (theirs, ours):
            idle = ["other", "queues", "subscribed", "blocked"]
            eventually(lambda: clients.found("IDLE 1") == idle, lambda: clients.found("IDLE 1"))
            assert clients.killed("IDLE 1 NOT-NAME other NOT-FLAGS b") == b":2\r\n"


def test_what_redis_says_stays(subject):
    with subject.connect() as connection:
        for line, expected in [
            ("LIST ID x", b"-ERR Invalid client ID\r\n"),
            ("LIST ID NAME me", b"-ERR Invalid client ID\r\n"),
            ("LIST ID 1 FOO x", b"-ERR Invalid client ID\r\n"),
            ("LIST TYPE x NAME", b"-ERR syntax error\r\n"),
            ("LIST ID 0", b"$0\r\n\r\n"),
            ("KILL ID x", b"-ERR client-id should be greater than 0\r\n"),
        ]:
            assert connection("CLIENT", *line.split()).raw == expected, line


def test_addresses_of_other_kinds():
    """IPv6: the address without brackets and port."""
    options = {"bind": ["127.0.0.1", "::1"]}
    found = []
    for kind in ("valkey", "subject"):
        with Server(kind, options) as server, contextlib.ExitStack() as stack:
            connections = [stack.enter_context(server.connect()) for _ in range(2)]
            six = stack.enter_context(type(connections[0])(("::1", server.port)))
            connections.append(six)
            for name, connection in zip("abc", connections):
                connection("CLIENT", "SETNAME", name)
            shown = []
            for line in ("IP ::1", "NOT-IP ::1", "IP [::1]", "IP 127.0.0.1 NOT-NAME a"):
                lines = connections[0]("CLIENT", "LIST", *line.split()).text().splitlines()
                words = [word for line in lines for word in line.split() if word.startswith("name=")]
                shown.append([word for word in words if word != "name="])
            found.append(shown)
    assert found[0] == found[1]
    assert found[0][0] == ["name=c"]
