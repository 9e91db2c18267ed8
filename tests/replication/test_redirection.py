"""CLIENT CAPA REDIRECT, which Valkey has since 8.0: what a replica sends to its primary, beside a valkey-server."""

import shlex

import pytest

from support.replication import until, wait_in_sync
from support.resp import Closed
from support.servers import subject_is_oracle

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has no CLIENT CAPA")

LIBRARY = """#!lua name=l
server.register_function{function_name='ro', callback=function() return 1 end, flags={'no-writes'}}
server.register_function{function_name='rw', callback=function() return 1 end}"""
READS = "EVAL_RO \"return redis.call('get', KEYS[1])\" 1 k"
# Requests of a client that can follow, in a connection of its own, to a replica of which the primary has `k`.
LINES = f"""
GET k
SET k 1
PING
ECHO a
KEYS *
DBSIZE
FLUSHALL
SCAN 0
RANDOMKEY
TYPE k
EXISTS k
TTL k
OBJECT ENCODING k
MEMORY USAGE k
PUBLISH c m
SPUBLISH c m
PUBSUB CHANNELS
CONFIG GET maxclients
EVAL 'return 1' 0
EVAL '#!lua
return 1' 0
EVAL '#!lua flags=no-writes
return 1' 0
{READS}
EVAL_RO 'return 1' 0
EVALSHA_RO abc 0
FCALL rw 0
FCALL ro 0
FCALL_RO ro 0
FUNCTION FLUSH
DUMP k
SORT k
SORT_RO k
WATCH k
UNWATCH
MULTI
GET k
EXEC
MULTI
PING
EXEC
MULTI
PING
SET a 1
GET a
EXEC
MULTI
DISCARD
SUBSCRIBE c
UNSUBSCRIBE c
SWAPDB 0 1
SELECT 1
GET k
SELECT 0
BLPOP x 1
XREAD BLOCK 1 STREAMS s 0
GET
NOSUCH
SET k
CLIENT GETNAME
CLIENT TRACKING ON
CLIENT TRACKING OFF
ACL WHOAMI
PFCOUNT k
PFADD h a
XINFO STREAM k
MIGRATE h 1 k 0 1
RESTORE x 0 x
LCS a b
TOUCH k
EXPIRETIME k
GETEX k
BITFIELD k GET u8 0
BITFIELD_RO k GET u8 0
GEORADIUS k 1 1 1 m
RESET
GET k
READONLY
GET k
SET k 1
{READS}
EVAL "return redis.call('get', KEYS[1])" 1 k
EVAL "return string.sub(redis.pcall('set', KEYS[1], 1).err, 1, 8)" 1 k
FCALL ro 0
FCALL_RO ro 0
MULTI
GET k
EXEC
MULTI
GET k
SET k 1
EXEC
READWRITE
GET k
READONLY
GET k
RESET
GET k
CLIENT CAPA other
GET k
"""


def lines(text):
    """Requests; one may go on in a further line within quotes."""
    found, part = [], ""
    for line in text.strip().splitlines():
        part += line
        if part.count("'") % 2 == 0:
            found.append(shlex.split(part))
            part = ""
        else:
            part += "\n"
    return found


@pytest.fixture(params=["together", "apart"])
def pairs(start_node, request):
    """Two servers of each kind, of which the second is the first's replica, or not yet."""
    nodes = {kind: (start_node(kind), start_node(kind)) for kind in ("valkey", "mantissa")}
    if request.param == "together":
        for primary, replica in nodes.values():
            with primary.connect() as connection:
                connection.call("SET", "k", "v")
                connection.call("FUNCTION", "LOAD", LIBRARY)
            replica.follow(primary)
            wait_in_sync(primary, replica)
    return nodes


def follower(node, *requests):
    connection = node.connect()
    assert connection("CLIENT", "CAPA", "redirect").raw == b"+OK\r\n"
    for request in requests:
        connection.call(*request)
    return connection


def told(raw, primary):
    return raw.replace(b":%d" % primary.port, b":PORT")


@pytest.mark.parametrize("pairs", ["together"], indirect=True)
def test_requests_for_data_are_redirected(pairs):
    seen = {}
    for kind, (primary, replica) in pairs.items():
        with follower(replica) as connection:
            seen[kind] = [(words, told(connection(*words).raw, primary)) for words in lines(LINES)]
            errors = connection("INFO", "errorstats").text().splitlines()
            seen[kind].append([line for line in errors if "REDIRECT" in line or "EXECABORT" in line])
            numbers = connection("INFO", "commandstats").text().split()
            seen[kind].append([word.split(",")[3:] for word in numbers if word.startswith("cmdstat_get:")])
    for ours, theirs in zip(seen["mantissa"], seen["valkey"]):
        assert ours == theirs
    assert (["GET", "k"], b"-REDIRECT 127.0.0.1:PORT\r\n") in seen["mantissa"]


@pytest.mark.parametrize("pairs", ["together"], indirect=True)
def test_clients_that_say_nothing_are_served(pairs):
    for primary, replica in pairs.values():
        with replica.connect() as connection, primary.connect() as leader:
            assert connection("GET", "k").value == b"v"
            assert connection("SET", "k", 1).text().startswith("READONLY ")
            assert leader("CLIENT", "CAPA", "redirect").raw == b"+OK\r\n"
            assert leader("GET", "k").value == b"v"
            assert leader("SET", "other", 1).raw == b"+OK\r\n"


def test_readonly_without_the_capability_is_as_in_redis(start_node):
    with start_node("mantissa").connect() as connection:
        for name in ("READONLY", "READWRITE"):
            assert connection(name).text() == "ERR This instance has cluster support disabled"


@pytest.mark.parametrize("pairs", ["apart"], indirect=True)
def test_a_primary_becomes_a_replica(pairs):
    """Who waits and who has queued commands, when the server begins to follow another."""
    readonly, blpop, xread = ["READONLY"], ["BLPOP", "l", 0], ["XREAD", "BLOCK", 0, "STREAMS", "s", 0]
    seen = {}
    for kind, (primary, replica) in pairs.items():
        waiting = [
            (follower(replica), blpop), (replica.connect(), blpop), (follower(replica), xread),
            (replica.connect(), xread), (follower(replica, readonly), blpop), (follower(replica), ["WAIT", 5, 0]),
        ]
        patient = follower(replica, readonly)
        for connection, words in [*waiting, (patient, xread)]:
            connection.send(*words)
        queues = [
            follower(replica, ["MULTI"], ["SET", "z", 1]), follower(replica, ["MULTI"], ["GET", "z"]),
            follower(replica, ["MULTI"], ["PING"]), follower(replica, readonly, ["MULTI"], ["GET", "z"]),
            follower(replica, readonly, ["MULTI"], ["GET", "z"], ["SET", "z", 1]),
        ]
        with replica.connect() as connection:
            until(lambda: b"blocked_clients:7" in connection("INFO", "clients").value, "not all wait")
        replica.follow(primary)
        wait_in_sync(primary, replica)
        found = [told(connection.read().raw, primary) for connection, _ in waiting]
        for connection, _ in waiting:
            try:
                found.append(connection("PING").raw)
            except (OSError, Closed):
                found.append("closed")
        for connection in queues:
            found.append(told(connection("EXEC").raw, primary))
            found.append(connection("PING").raw)
        # It goes on waiting, and gets what the primary writes.
        with primary.connect() as leader:
            leader.call("XADD", "s", "1-1", "f", "v")
        found.append(patient.read().raw)
        seen[kind] = found
    assert seen["mantissa"] == seen["valkey"]


@pytest.mark.parametrize("pairs", ["together"], indirect=True)
def test_a_failover_redirects(pairs):
    """Requests that come while the roles change end at the primary that is one afterwards."""
    for primary, replica in pairs.values():
        with primary.connect() as connection, follower(primary) as client:
            redirection = b"-REDIRECT 127.0.0.1:%d\r\n" % replica.port
            connection.call("FAILOVER")
            assert client("SET", "n", 0).raw in (b"+OK\r\n", redirection)
            until(lambda: client("GET", "k").raw == redirection, "no redirection")
            assert client("SET", "n", 1).raw == redirection
            with follower(replica) as other:
                assert other("SET", "n", 1).raw == b"+OK\r\n"


@pytest.mark.parametrize("pairs", ["together"], indirect=True)
def test_what_client_list_shows(pairs):
    for _, replica in pairs.values():
        with follower(replica, ["READONLY"], ["CLIENT", "SETNAME", "f"]) as client, replica.connect() as other:
            names = lambda *words: client("CLIENT", "LIST", *words).text().count("name=f ")
            assert [names("CAPA", "r"), names("NOT-CAPA", "r"), names("FLAGS", "r"), names("CAPA", "")] == [1, 0, 1, 1]
            assert names("NOT-CAPA", "") == 0
            assert client("CLIENT", "LIST", "CAPA", "x").text() == "ERR Unknown capa found in the provided filter: x"
            assert other("CLIENT", "KILL", "NOT-CAPA", "x").text() == "ERR Unknown capa found in the NOT-CAPA filter: x"
            fields = dict(field.split("=", 1) for field in client("CLIENT", "INFO").text().split())
            assert (fields["flags"], fields["capa"]) == ("r", "r")
    with pairs["mantissa"][1].connect() as connection:
        assert "capa=" not in connection("CLIENT", "INFO").text()
