"""Users against redis-server's: what each command needs, by every way on which it comes in; files of users."""

import pytest

from differential.runner import from_difference
from differential.test_matrix import CALLS
from support.resp import show
from support.waiting import eventually

# Rules of the user whose rights are tried, by name.
RULES = {
    "nothing": [],
    "all": ["+@all", "allkeys", "allchannels"],
    "commands": ["+@all"],
    "keys": ["+@all", "~K"],
    "other_keys": ["+@all", "~K2*", "~other"],
    "reading": ["+@all", "%R~*"],
    "writing": ["+@all", "%W~*"],
    "read_and_write": ["+@all", "%R~K", "%W~K2", "~K3"],
    "read_category": ["+@read", "allkeys"],
    "no_write": ["+@all", "-@write", "allkeys", "allchannels"],
    "dangerous": ["+@dangerous", "-@admin", "allkeys"],
    "slow": ["+@slow", "allkeys", "&a*"],
    "selectors": ["+@read", "%R~K", "(+@write ~K2)", "(+@all %W~* allchannels)", "(+@pubsub &a*)"],
    "subcommands": ["+config|get", "+client", "-client|list", "+select|0", "+xinfo|stream", "allkeys"],
}
# What replaces each argument in turn, so that keys are looked for in calls that make no sense.
ODD = [b"K2", b"2", b"-1", b"STORE", b"STREAMS", b"KEYS"]

# In these calls redis-server finds no key, or not all, and so asks for no permission; all but the first fail.
KEYS_MISSED = {
    b"PFMERGE K",
    b"XREAD COUNT 1 STREAMS K",
    b"XREADGROUP GROUP g c COUNT 1 NOACK STREAMS K",
    b"GEORADIUS K 15 37 200 STORE COUNT 2 ANY WITHDIST",
    b"GEORADIUS K -180 -85 200 STORE STORE K2",
}


def encode(words):
    return [word if isinstance(word, bytes) else str(word).encode() for word in words]


def calls():
    """Every command of the matrix with good arguments, and with some that make no sense."""
    for _, *good in CALLS:
        good = encode(good)
        yield good
        yield [*good, b"extra"]
        for position in range(1, len(good)):
            yield good[:position]
            for odd in ODD:
                yield [*good[:position], odd, *good[position + 1 :]]
    for name in (b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE", b"UNSUBSCRIBE", b"PUBLISH", b"SPUBLISH"):
        for channel in (b"a", b"a*", b"b"):
            yield [name, channel, b"a"]
    yield from (
        encode(call.split(" "))
        for call in [
            "SORT K STORE K2 STORE K3",
            "SORT K BY STORE STORE K3",
            "GEORADIUS K 1 2 3 m STORE K2 STOREDIST K3",
            "GEORADIUS K 1 2 3 m COUNT STORE STORE K3",
            "GEORADIUSBYMEMBER K STORE 3 m STOREDIST K2",
            "SET K v GET",
            "SET K get",
            "SET K v ex get",
            "BITFIELD K GET u8 0 SET u8 0 1",
            "BITFIELD K GET u8 0 OVERFLOW SAT GET u8 9",
            "XREADGROUP GROUP STREAMS STREAMS STREAMS K K2 > >",
            "XREAD COUNT 2 STREAMS STREAMS K 0 0",
            "EVAL STREAMS 2 K K2 K3",
            "FCALL_RO f 1 K K2",
            "CONFIG SET maxmemory 0",
            "CLIENT LIST",
            "XINFO STREAM K",
            "XINFO GROUPS K",
            "FLUSHALL",
            "SHUTDOWN",
            "ACL SETUSER x",
            "SELECT 0",
            "SELECT 1",
        ]
    )


@pytest.fixture
def servers(start_server):
    return [start_server("oracle"), start_server("subject", workers=2)]


def both(servers, protocol=2):
    return [server.connect(protocol) for server in servers]


@pytest.mark.parametrize("name", RULES)
def test_what_commands_need(servers, name):
    connections = both(servers)
    tried = list(calls())
    answers = []
    for connection in connections:
        connection.call("ACL", "SETUSER", "u", *RULES[name])
        known = {row.value[0].value.upper() for row in connection("COMMAND").value}
        answers.append((known, connection.pipeline([[b"ACL", b"DRYRUN", b"u", *call] for call in tried])))
    found = []
    for call, left, right in zip(tried, answers[0][1], answers[1][1]):
        if b" ".join(call) in KEYS_MISSED:
            assert left.raw == right.raw or right.text().startswith("User u has no permissions")
        elif left.raw != right.raw and call[0].upper() in answers[1][0]:
            found.append((b" ".join(call), *from_difference(show(left.raw), show(right.raw))))
    assert not found, f"{len(found)} differ: {found[:10]}"


# Calls by every way, each with rules that allow it, and rules that allow everything but what it needs.
PATHS = {
    "command": (["GET", "k"], ["+@all", "~*"], ["-get"]),
    "subcommand": (["OBJECT", "ENCODING", "k"], ["+@all", "~*"], ["-object|encoding"]),
    "category": (["SET", "k", "v"], ["+@all", "~*"], ["-@write"]),
    "key": (["GET", "k"], ["+@all", "~k"], ["resetkeys", "~q"]),
    "read_only_key": (["SET", "k", "v"], ["+@all", "~k"], ["resetkeys", "%R~k"]),
    "write_only_key": (["GET", "k"], ["+@all", "~k"], ["resetkeys", "%W~k"]),
    "second_key": (["MGET", "k", "l"], ["+@all", "~k", "~l"], ["resetkeys", "~k"]),
    "destination": (["COPY", "k", "l", "REPLACE"], ["+@all", "%R~k", "%W~l"], ["resetkeys", "%R~k", "%R~l"]),
    "source": (["SINTERSTORE", "l", "s"], ["+@all", "%R~s", "%W~l"], ["resetkeys", "~l", "%W~s"]),
    "counted_key": (["ZUNION", "2", "z", "y"], ["+@all", "~z", "~y"], ["resetkeys", "~z"]),
    "sort_by": (["SORT", "list", "BY", "w*"], ["+@all", "%R~*"], ["resetkeys", "%R~list"]),
    "sort_get": (["SORT", "list", "GET", "#"], ["+@all", "~*"], ["resetkeys", "~list"]),
    "channel": (["PUBLISH", "c", "m"], ["+@all", "&c"], ["resetchannels", "&d"]),
    "selector": (["GET", "k"], ["(+get ~k)"], ["clearselectors", "(+get ~l)", "(+set ~k)"]),
    "first_word": (["GET", "k"], ["+get|k", "~*"], ["-get", "+get|l"]),
    "all": (["INCR", "n"], ["+@all", "~*", "&*"], ["-@all"]),
}
LUA = "return redis.{}({})"


def words_of(call):
    return ",".join(f"'{word}'" for word in call)


def by_every_way(admin, user, call, taken):
    """What a call gives on each way before and after rights are taken away."""
    replies = [user("AUTH", "u", "x")]

    def look():
        function = f"#!lua name=l\nredis.register_function('f', function() return redis.call({words_of(call)}) end)"
        admin.call("FUNCTION", "LOAD", "REPLACE", function)
        replies.extend(
            user.pipeline(
                [
                    call,
                    ["MULTI"],
                    call,
                    ["EXEC"],
                    ["EVAL", LUA.format("call", words_of(call)), "0"],
                    ["EVAL", LUA.format("pcall", words_of(call)), "1", call[-1]],
                    ["EVAL_RO", LUA.format("call", words_of(call)), "0"],
                    ["FCALL", "f", "0"],
                    ["EVAL", f"return tostring(redis.acl_check_cmd({words_of(call)}))", "0"],
                    ["MULTI"],
                    ["EVAL", LUA.format("call", words_of(call)), "0"],
                    ["EXEC"],
                ]
            )
        )

    admin.call("ACL", "SETUSER", "u", "+eval", "+eval_ro", "+fcall", "+multi", "+exec")
    look()
    replies.extend(user.pipeline([["MULTI"], call]))
    admin.call("ACL", "SETUSER", "u", *taken, "+eval", "+eval_ro", "+fcall", "+multi", "+exec")
    replies.append(user("EXEC"))
    look()
    refusals = admin.call("ACL", "LOG", "100")
    return [reply.raw for reply in replies], [fields_of(entry) for entry in refusals]


def fields_of(entry):
    """What is refused, where and how often."""
    fields = dict(zip(entry[::2], entry[1::2]))
    return {name: fields[name] for name in (b"count", b"reason", b"context", b"object", b"username")}


@pytest.mark.parametrize("name", PATHS)
def test_every_way_is_checked(servers, name):
    call, given, taken = PATHS[name]
    results = []
    for server in servers:
        with server.connect() as admin, server.connect() as user:
            for words in ["SET k 1", "SADD s a", "ZADD z 1 a", "RPUSH list 1 2", "SET n 1"]:
                admin.call(*words.split(" "))
            admin.call("ACL", "SETUSER", "u", "on", "nopass", *given)
            results.append(by_every_way(admin, user, call, taken))
    assert results[0] == results[1]
    assert any(b"NOPERM" in raw or b"denied" in raw for raw in results[1][0])


@pytest.mark.parametrize(
    "call, wake",
    [
        (["BLPOP", "l", "0"], ["RPUSH", "l", "x"]),
        (["BLMOVE", "l", "m", "LEFT", "LEFT", "0"], ["RPUSH", "l", "x"]),
        (["BZPOPMIN", "z", "0"], ["ZADD", "z", "1", "a"]),
        (["XREAD", "BLOCK", "0", "STREAMS", "x", "$"], ["XADD", "x", "1-1", "a", "b"]),
    ],
)
@pytest.mark.parametrize("taken", [["nocommands"], ["resetkeys"], ["resetkeys", "%R~*"], ["resetchannels"]])
def test_who_waits_is_looked_at_again(servers, call, wake, taken):
    results = []
    for server in servers:
        with server.connect() as admin, server.connect() as user:
            admin.call("ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*")
            user.call("AUTH", "u", "x")
            user.send(*call)
            eventually(lambda: b"blocked_clients:1" in admin.call("INFO", "clients"), f"{call} does not wait")
            admin.call("ACL", "SETUSER", "u", *taken)
            woken = admin(*wake).raw
            results.append((woken, user.read().raw, admin("EXISTS", wake[1]).raw))
    assert results[0] == results[1]


FILE = """user default on nopass sanitize-payload ~* &* +@all

user alice on >secret ~a* %R~b* resetchannels &c -@all +get +@hash -hdel
user bob off nopass (~x* +@all -config|set)  (%W~y*   +set)
user   carol
"""


def with_file(start_server, kind, content, **options):
    """A server with a file of users."""
    server = start_server(kind, wait=False, options={"aclfile": "users.acl"} | options)
    server.kill()
    (server.directory / "users.acl").write_text(content)
    server.start()
    return server


def test_a_file_of_users(start_server):
    seen = []
    for kind in ("oracle", "subject"):
        server = with_file(start_server, kind, FILE.replace("user   carol\n", ""), requirepass="ignored")
        with server.connect() as connection:
            replies = [connection("ACL", "LIST"), connection("ACL", "GETUSER", "alice")]
            connection.call("ACL", "SETUSER", "dave", "on", ">x", "+@all", "~k")
            connection.call("ACL", "DELUSER", "bob")
            replies.append(connection("ACL", "SAVE"))
            saved = (server.directory / "users.acl").read_text()
            connection.call("ACL", "SETUSER", "alice", "reset")
            connection.call("ACL", "SETUSER", "erin", "on", "nopass", "+@all")
            with server.connect() as lost, server.connect() as kept:
                lost.call("AUTH", "erin", "x")
                kept.call("AUTH", "dave", "x")
                replies.append(connection("ACL", "LOAD"))
                replies += [kept("ACL", "WHOAMI"), connection("ACL", "LIST")]
                assert lost.read_until_closed() == b""
        server.restart()
        with server.connect() as connection:
            replies.append(connection("ACL", "LIST"))
        seen.append((saved, [reply.raw for reply in replies]))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "content",
    [
        FILE,
        "user\n",
        "nosuch alice on\n",
        "User alice on\n",
        "user alice on\nuser alice off\n",
        "user alice +nosuch +@nosuch >p #x foo\n  user bob on +get\n",
        "user alice foo bar +nosuch\n\n\nuser bob ~* ~x\n",
        "user alice on\tnopass\n",
        "user al\tice on\n",
        "user alice on\r\nuser bob off\r\n",
        "# comment\nuser alice on\n",
        "",
        "user alice on nopass +@all ~* &*",
        "user default off\n",
        'user alice on >"a b"\n',
    ],
)
def test_what_is_wrong_with_a_file(start_server, content):
    seen = []
    for kind in ("oracle", "subject"):
        server = with_file(start_server, kind, "user old on nopass +@all ~* &*\n")
        (server.directory / "users.acl").write_text(content)
        with server.connect() as connection:
            seen.append([connection("ACL", "LOAD").raw, connection("ACL", "LIST").raw])
    assert seen[0] == seen[1]


def test_a_selector_without_an_end(start_server):
    # redis-server ends when it reads this.
    server = with_file(start_server, "subject", "user old on\n")
    (server.directory / "users.acl").write_text("user alice on\nuser bob on (+get ~x\n")
    with server.connect() as connection:
        reply = connection("ACL", "LOAD")
        assert reply.is_error and "users.acl:2: Unmatched parenthesis in selector definition." in reply.text()
        assert b"user old on sanitize-payload resetchannels -@all" in connection.call("ACL", "LIST")


@pytest.mark.parametrize(
    "content, lines",
    [
        (None, ["aclfile nosuch.acl"]),
        ("user alice foo\n", ["aclfile users.acl"]),
        ("user alice on\n", ["aclfile users.acl", "user bob on"]),
        (None, ["user alice foo"]),
        (None, ["user alice on", "user alice on"]),
        (None, ["user alice (+get"]),
        (None, ["user alice +nosuch"]),
        (None, ["user"]),
    ],
)
def test_no_start_with_wrong_users(start_server, content, lines):
    for kind in ("oracle", "subject"):
        server = start_server(kind, wait=False)
        server.kill()
        if content:
            (server.directory / "users.acl").write_text(content)
        server.start(wait=False, config_lines=lines)
        assert server.wait_exit() != 0, kind


def test_users_in_the_configuration_file(start_server):
    lines = [
        "user alice on >secret ~a* +@all -flushall",
        'user "bob" off (~x* +get) "(%R~y" +mget)',
        "requirepass pass",
    ]
    seen = []
    for kind in ("oracle", "subject"):
        server = start_server(kind, config_lines=lines)
        replies = []
        with server.connect() as connection:
            replies.append(connection("PING"))
            connection.call("AUTH", "pass")
            replies.append(connection("ACL", "LIST"))
            connection.call("ACL", "SETUSER", "carol", "on", ">x", "%R~k", "&c", "+get|x", "(+@all ~l)")
            connection.call("ACL", "DELUSER", "bob")
            connection.call("ACL", "SETUSER", "alice", "nopass")
            replies.append(connection("CONFIG", "REWRITE"))
            listed = connection("ACL", "LIST").raw
        server.terminate()
        # Each reads what the other has written, too.
        for reader in ("oracle", "subject"):
            text = (server.directory / "server.conf").read_text().splitlines()
            kept = [line for line in text if line.split(" ")[0] in ("user", "requirepass")]
            with start_server(reader, config_lines=kept).connect() as connection:
                connection.call("AUTH", "pass")
                assert connection("ACL", "LIST").raw == listed, (kind, reader, kept)
        seen.append((listed, [reply.raw for reply in replies]))
    assert seen[0] == seen[1]


def test_a_changed_default_user_is_rewritten(start_server):
    for kind in ("oracle", "subject"):
        server = start_server(kind, config_lines=["# nothing"])
        with server.connect() as connection:
            connection.call("ACL", "SETUSER", "default", "-flushall", ">x")
            connection.call("CONFIG", "REWRITE")
            listed = connection.call("ACL", "LIST")
        text = (server.directory / "server.conf").read_text()
        assert listed[0].decode() in text
        server.terminate()
        server = start_server(kind, config_lines=text.splitlines())
        with server.connect() as connection:
            assert connection("PING").is_error
            connection.call("AUTH", "x")
            assert connection.call("ACL", "LIST") == listed


def test_renamed_commands_keep_their_names_in_rules(start_server):
    seen = []
    for kind in ("oracle", "subject"):
        lines = ["rename-command GET take", 'rename-command FLUSHALL ""', "rename-command CONFIG conf"]
        with start_server(kind, config_lines=lines).connect() as connection:
            tried = [
                ["ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all", "-get", "-flushall", "-config|set"],
                ["ACL", "SETUSER", "u", "+take"],
                ["ACL", "LIST"],
                ["AUTH", "u", "x"],
                ["TAKE", "k"],
                ["CONF", "SET", "maxmemory", "0"],
                ["CONF", "GET", "maxmemory"],
            ]
            seen.append([connection(*words).raw for words in tried])
    assert seen[0] == seen[1]


SECRETS = """
AUTH x
AUTH u x
HELLO 2
HELLO 3 AUTH default x
HELLO 2 SETNAME AUTH
HELLO 3 SETNAME a SETNAME b SETNAME c AUTH default x
ACL SETUSER u on >x
ACL GETUSER u
ACL DELUSER u
ACL DRYRUN default get x
ACL GENPASS 8
CONFIG SET masterauth x
CONFIG SET maxmemory 0 masteruser x appendonly no
CONFIG GET masterauth
MIGRATE 127.0.0.1 1 key 0 100
MIGRATE 127.0.0.1 1 key 0 100 COPY AUTH x REPLACE
MIGRATE 127.0.0.1 1 '' 0 100 AUTH x KEYS AUTH key
MIGRATE 127.0.0.1 1 '' 0 100 AUTH2 u x KEYS AUTH2 b c
MIGRATE 127.0.0.1 1 key 0 100 AUTH x AUTH2 y z
"""


def test_secrets_are_not_shown(start_server):
    shown = []
    for kind in ("oracle", "subject"):
        with start_server(kind) as server, server.connect() as connection, server.connect() as monitor:
            connection.call("CONFIG", "SET", "slowlog-log-slower-than", "0")
            monitor.call("MONITOR")
            for line in SECRETS.strip().split("\n"):
                connection(*(word.strip("'") for word in line.split(" ")))
            connection.call("PING")
            lines = [monitor.read().text().split("] ", 1)[1]]
            while lines[-1] != '"PING"':
                lines.append(monitor.read().text().split("] ", 1)[1])
            shown.append((lines, [entry[3] for entry in connection("SLOWLOG", "GET", "100").plain()]))
    assert shown[0] == shown[1]
    assert not any(b"MIGRATE" in words and b"x" in words for words in shown[0][1])
