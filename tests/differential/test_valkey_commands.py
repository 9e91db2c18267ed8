"""What Valkey 9.1 has and redis-server 8.2 has not, beside a valkey-server: COMMANDLOG, databases in the rules of ACL,
HSETEX with NX and XX, ZSCAN with NOSCORES, BGSAVE CANCEL."""

import pytest

from support.servers import Server, subject_is_oracle
from support.state import differences, whole_state
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has none of them")

DATA = """
HSETEX h XX FIELDS 1 a 1
EXISTS h
HSETEX h NX FIELDS 1 a 1
HSETEX h NX FIELDS 1 b 1
HSETEX h XX FIELDS 1 c 1
HSETEX h XX EX 100 FIELDS 1 d 1
HTTL h FIELDS 2 c d
HSETEX h XX KEEPTTL FIELDS 1 d 2
HTTL h FIELDS 2 c d
HSETEX h XX PXAT 1 FIELDS 1 c 1
HSETEX new NX PXAT 1 FIELDS 1 c 1
EXISTS new
HSETEX new NX EX 100 FIELDS 2 a 1 b 2
HMGET new a b
HTTL new FIELDS 2 a b
HSETEX h nx xx FIELDS 1 c 1
HSETEX h NX NX FIELDS 1 c 1
HSETEX h NX FNX FIELDS 1 c 1
HSETEX h XX FNX FIELDS 1 e 1
HSETEX h XX FNX FIELDS 1 e 1
HSETEX h XX FXX FIELDS 1 e 2
HSETEX h FNX XX FIELDS 1 f 1
HSETEX none FXX NX FIELDS 1 c 2
HSETEX none KEEPTTL NX FIELDS 1 c 2
HMGET h a b c d e f
SET s x
HSETEX s NX FIELDS 1 a 1
HSETEX s XX FIELDS 1 a 1
ZADD z 1 a 2.5 b
ZSCAN z 0 NOSCORES
ZSCAN z 0 noscores COUNT 5 MATCH a
ZSCAN z 0 MATCH b NOSCORES
ZSCAN z 0 NOSCORES NOSCORES
ZSCAN z 0 NOVALUES
ZSCAN nothing 0 NOSCORES
""".strip().splitlines()
RULES = """
ACL SETUSER u on nopass +@all ~* &* db=0,2
ACL GETUSER u
ACL SETUSER u db=
ACL SETUSER u db=a
ACL SETUSER u db=1,
ACL SETUSER u db=,1
ACL SETUSER u db=1,,2
ACL SETUSER u db=-1
ACL SETUSER u db=99999999999
ACL SETUSER u db=99
ACL SETUSER u DB=1,1,03
ACL GETUSER u
ACL SETUSER u resetdbs
ACL GETUSER u
ACL SETUSER u db=1 (+get ~a resetdbs) (+get ~b db=7)
ACL GETUSER u
""".strip().splitlines()
# Asked for as ACL DRYRUN of a user who may have databases 1 and 2, in databases 0 and 1.
TRIED = """
GET a
SET a 1
MGET a b
KEYS *
SCAN 0
DBSIZE
RANDOMKEY
FLUSHDB
FLUSHALL
EVAL return 0
EVAL_RO return 0
FCALL f 0
FUNCTION LIST
FUNCTION FLUSH
FUNCTION DELETE f
FUNCTION STATS
SCRIPT EXISTS a
SORT a
OBJECT ENCODING a
MEMORY USAGE a
XREAD STREAMS a 0
BLPOP a 0
WATCH a
UNWATCH
MULTI
EXEC
PUBLISH a b
SUBSCRIBE a
PING
INFO
CLIENT LIST
CONFIG GET a
DEBUG OBJECT a
WAIT 0 0
SAVE
SELECT 0
SELECT 1
SELECT 2
SELECT -1
SELECT x
MOVE a 2
MOVE a 3
MOVE a x
SWAPDB 1 2
SWAPDB 1 3
SWAPDB 3 1
SWAPDB 1 x
COPY a b
COPY a b DB 2
COPY a b DB 3
COPY a b REPLACE db 3
COPY a b DB 2 DB 3
COPY a b DB x
COPY a b DB
MIGRATE 127.0.0.1 7 a 0 100
DUMP a
RESTORE a 0 x
PFCOUNT a
LOLWUT
TIME
""".strip().splitlines()


@pytest.fixture(scope="module")
def valkey():
    with Server("valkey") as server:
        yield server


def same(ours, theirs, line):
    found, expected = ours(*line.split()).raw, theirs(*line.split()).raw
    assert found == expected, line


def test_commands_on_data(valkey, subject):
    with valkey.connect() as theirs, subject.connect() as ours:
        theirs.call("FLUSHALL")
        ours.call("FLUSHALL")
        for line in DATA:
            same(ours, theirs, line)


@pytest.mark.parametrize("kinds", [("subject", "redis"), ("valkey", "subject"), ("subject", "subject")], ids="-".join)
def test_replicas_have_what_came_of_them(kinds):
    """A redis-server of 8.2 does not know HSETEX with NX and XX: it gets what was set."""
    with Server(kinds[0]) as server, server.connect() as primary:
        with Server(kinds[1], options={"replicaof": ["127.0.0.1", server.port]}) as copy, copy.connect() as replica:
            eventually(lambda: primary.call("WAIT", 1, 1000) == 1, "the replica has come")
            for line in DATA:
                primary(*line.split())
            assert primary.call("WAIT", 1, 10_000) == 1
            assert not (found := differences(whole_state(primary), whole_state(replica), near=0)), "\n".join(found[:20])


def test_rules_for_databases(valkey, subject):
    with valkey.connect() as theirs, subject.connect() as ours:
        for line in RULES:
            words = line.replace("(+get ", "(+get_").replace(" resetdbs)", "_resetdbs)").replace(" db=7)", "_db=7)")
            words = [word.replace("_", " ") for word in words.replace("~a_", "~a ").replace("~b_", "~b ").split()]
            found, expected = ours(*words).value, theirs(*words).value
            if not line.startswith("ACL GETUSER"):
                assert ours(*words).raw == theirs(*words).raw, line
                continue
            assert databases(found) == databases(expected), line
        assert "db=1 +@all (~a resetchannels resetdbs -@all +get) (~b resetchannels db=7 -@all +get)" in rule(ours)
        ours.call("ACL", "SETUSER", "u", "alldbs", "clearselectors")
        assert "db" not in rule(ours) and databases(ours("ACL", "GETUSER", "u").value) == ([b"alldbs"], [])
        ours.call("ACL", "DELUSER", "u")


def rule(connection):
    return next(line.text() for line in connection("ACL", "LIST").value if line.text().startswith("user u "))


def databases(reply):
    """The databases of a user and of its selectors in a reply of ACL GETUSER: Valkey says it where they are all."""
    fields = {name.value: value.value for name, value in zip(reply[::2], reply[1::2])}
    own = [fields.get(b"databases", b"alldbs")]
    of = lambda selector: {name.value: value.value for name, value in zip(selector.value[::2], selector.value[1::2])}
    return own, [of(selector).get(b"databases", b"alldbs") for selector in fields[b"selectors"]]


@pytest.mark.parametrize("database", [0, 1])
def test_what_a_user_of_some_databases_may_run(valkey, subject, database):
    with valkey.connect() as theirs, subject.connect() as ours:
        for connection in (ours, theirs):
            connection.call("ACL", "SETUSER", "u", "reset", "on", "nopass", "+@all", "~*", "&*", "db=1,2")
            connection.call("SELECT", database)
        for line in TRIED:
            same(ours, theirs, f"ACL DRYRUN u {line}")
        ours.call("ACL", "DELUSER", "u")


def test_databases_are_kept_from_users(subject):
    with subject.connect() as admin, subject.connect() as limited:
        admin.call("FLUSHALL")
        admin.call("SET", "k", "v")
        admin.call("ACL", "LOG", "RESET")
        admin.call("ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*", "&*", "db=1,2")
        refused = "NOPERM No permissions to access database"
        assert limited.call("AUTH", "u", "x") == b"OK"
        lines = "GET k, MANTISSA.TREE a, MANTISSA.JSON.QUERY 0 $ PREFIX a, MANTISSA.KEYS HOT, MANTISSA.DELETE a"
        for line in f"{lines}, SELECT 3, FLUSHALL, TS.MGET FILTER a=b".split(", "):
            assert limited(*line.split()).text() == refused, line
        assert limited("EVAL", "return redis.call('select', 1)", 0).text() == refused
        assert limited.call("SELECT", 1) == b"OK"
        script = limited("EVAL", "return redis.call('select', 3)", 0).text()
        assert script.startswith("ERR ACL failure in script: No permissions to access database"), script
        assert limited.call("MULTI") == b"OK"
        assert limited.call("SELECT", 2) == b"QUEUED"
        assert limited.call("SET", "k", 1) == b"QUEUED"
        admin.call("ACL", "SETUSER", "u", "db=1")
        replies = [reply.text() for reply in limited("EXEC").value]
        assert all("no permission to access the database" in reply for reply in replies[:1]), replies
        assert replies[1] == "OK" and limited.call("GET", "k") == b"1"
        log = [dict(zip(entry.value[::2], entry.value[1::2])) for entry in admin("ACL", "LOG", 100).value]
        entries = [{name.text(): value.text() for name, value in entry.items()} for entry in log]
        assert {entry["reason"] for entry in entries} == {"database"}
        assert {"3", "GET", "FLUSHALL", "EVAL"} <= {entry["object"] for entry in entries}
        assert "acl_access_denied_db:" in admin.call("INFO", "stats").decode()
        # A client that waits is served only while it may have its database.
        limited.send("BLPOP", "list", 0)
        eventually(lambda: b"blocked_clients:1" in admin.call("INFO", "clients"), "it does not wait")
        admin.call("ACL", "SETUSER", "u", "db=2")
        admin.call("SELECT", 1)
        admin.call("RPUSH", "list", 1)
        assert limited.read().text() == refused
        admin.call("ACL", "DELUSER", "u")
        admin.call("FLUSHALL")


def test_rules_come_from_files(start_server, tmp_path):
    (tmp_path / "users.acl").write_text("user u on nopass ~* &* db=3,1 +@all\nuser default on nopass ~* &* +@all\n")
    server = start_server(options={"aclfile": str(tmp_path / "users.acl")})
    with server.connect() as connection:
        assert connection.call("ACL", "SAVE") == b"OK"
        assert "user u on nopass sanitize-payload ~* &* db=1,3 +@all" in (tmp_path / "users.acl").read_text()


def entry_of(reply):
    """Type and arguments of an entry."""
    _, _, figure, arguments, _, name = reply.value
    return int(figure.value), [argument.value for argument in arguments.value], name.value


@pytest.mark.parametrize("kind", ["subject", "valkey"])
def test_commandlog(kind):
    options = {"commandlog-request-larger-than": 1000, "commandlog-reply-larger-than": 2000}
    with Server(kind, options=options) as server, server.connect() as connection:
        connection.call("CLIENT", "SETNAME", "me")
        connection.call("SET", "k", "x" * 5000)
        connection.call("SET", "other", "x" * 900)
        connection.call("GET", "k")
        connection.call("APPEND", "other", "y" * 1000)
        connection.call("MGET", "other", "k", "other")
        requests = [entry_of(entry) for entry in connection("COMMANDLOG", "GET", -1, "large-request").value]
        assert [arguments[0] for _, arguments, _ in requests] == [b"APPEND", b"SET"]
        assert 1000 <= requests[0][0] < 1100 and 5000 <= requests[1][0] < 5100
        assert requests[1][1] == [b"SET", b"k", b"x" * 128 + b"... (4872 more bytes)"]
        replies = [entry_of(entry) for entry in connection("COMMANDLOG", "GET", -1, "LARGE-REPLY").value]
        assert [(arguments[0], name) for _, arguments, name in replies] == [(b"MGET", b"me"), (b"GET", b"me")]
        assert 8800 <= replies[0][0] < 8900 and 5000 <= replies[1][0] < 5100
        assert len(connection("COMMANDLOG", "GET", 1, "large-reply").value) == 1
        assert connection.call("COMMANDLOG", "LEN", "large-reply") == 2
        assert connection.call("CONFIG", "SET", "commandlog-large-reply-max-len", 1) == b"OK"
        connection.call("GET", "k")
        assert connection.call("COMMANDLOG", "LEN", "large-reply") == 1
        assert connection.call("COMMANDLOG", "RESET", "large-reply") == b"OK"
        assert connection.call("COMMANDLOG", "LEN", "large-reply") == 0
        assert connection.call("COMMANDLOG", "LEN", "large-request") == 2
        assert connection.call("CONFIG", "SET", "commandlog-request-larger-than", -1) == b"OK"
        assert connection.call("CONFIG", "SET", "commandlog-reply-larger-than", -1) == b"OK"
        connection.call("SET", "k", "x" * 100_000)
        connection.call("GET", "k")
        assert connection.call("COMMANDLOG", "LEN", "large-request") == 2
        assert connection.call("COMMANDLOG", "LEN", "large-reply") == 0
        # The slow ones are those of SLOWLOG.
        connection.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        connection.call("PING")
        slow = [entry_of(entry)[1] for entry in connection("COMMANDLOG", "GET", -1, "slow").value]
        assert [b"PING"] in slow and connection.call("SLOWLOG", "LEN") == len(slow) + 1
        assert connection.call("CONFIG", "GET", "commandlog-execution-slower-than")[1] == b"0"
        assert connection.call("COMMANDLOG", "RESET", "slow") == b"OK"
        errors = {
            "COMMANDLOG GET 1 x": "ERR type should be one of the following: slow, large-request, large-reply",
            "COMMANDLOG LEN x": "ERR type should be one of the following: slow, large-request, large-reply",
            "COMMANDLOG GET -2 slow": "ERR count should be greater than or equal to -1",
            "COMMANDLOG GET": "ERR wrong number of arguments for 'commandlog|get' command",
            "COMMANDLOG LEN": "ERR wrong number of arguments for 'commandlog|len' command",
        }
        for line, expected in errors.items():
            assert connection(*line.split()).text() == expected, line


def test_replies_that_leave_in_pieces_are_counted_whole(start_server):
    server = start_server()
    with server.connect() as connection:
        for first in range(0, 200_000, 10_000):
            pairs = [word for number in range(first, first + 10_000) for word in (f"field:{number}", number)]
            connection.call("HSET", "h", *pairs)
        assert connection.call("COMMANDLOG", "LEN", "large-reply") == 0
        size = len(connection("HGETALL", "h").raw)
        [entry] = connection("COMMANDLOG", "GET", -1, "large-reply").value
        assert entry_of(entry)[:2] == (size, [b"HGETALL", b"h"])


@pytest.mark.parametrize("kind", ["subject", "valkey"])
def test_saves_are_cancelled(kind):
    nothing = "ERR Background saving is currently not in progress or scheduled"
    options = {"rdb-key-save-delay": 1000, "save": ["3600 1"]}
    with Server(kind, options=options) as server, server.connect() as connection:
        assert connection("BGSAVE", "CANCEL").text() == nothing
        for number in range(5000):
            connection.send("SET", f"key:{number}", "x" * 100)
        for _ in range(5000):
            connection.read()
        saved = connection.call("LASTSAVE")
        assert connection.call("BGSAVE").startswith(b"Background saving started")
        assert connection.call("BGSAVE", "cancel") == b"Background saving cancelled"
        info = lambda: connection.call("INFO", "persistence").decode()
        eventually(lambda: "rdb_bgsave_in_progress:0" in info(), info)
        assert "rdb_last_bgsave_status:ok" in info() and "rdb_changes_since_last_save:5000" in info()
        assert connection("BGSAVE", "CANCEL").text() == nothing
        assert connection.call("LASTSAVE") == saved and not list(server.directory.glob("*.rdb"))
        connection.call("CONFIG", "SET", "rdb-key-save-delay", 0)
        connection.call("BGSAVE")
        eventually(lambda: "rdb_changes_since_last_save:0" in info(), info)
        for line in ("BGSAVE SCHEDULE CANCEL", "BGSAVE x"):
            assert connection(*line.split()).text() == "ERR syntax error", line
