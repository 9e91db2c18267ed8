"""What one client does to others that watch, wait or are held, compared with redis-server, step by step."""

import pytest

from support.servers import Server
from support.steps import Player, in_time

WATCHED = {
    "deleted": "DEL k",
    "unlinked": "UNLINK k",
    "taken": "GETDEL k",
    "read": "GET k",
    "persisted": "PERSIST k",
    "overwritten": "SET k x",
    "flushed": "FLUSHALL",
    "flushed later": "FLUSHDB ASYNC",
    "swapped away": "SWAPDB 0 1",
    "swapped for another": "SELECT 1; b SET k 1; b SWAPDB 0 1",
    "swapped for an expired one": "SELECT 1; b SET k 1 PX 1; b sleep 0.01; b SWAPDB 0 1",
    "swapped and back": "SWAPDB 0 1; b SWAPDB 0 1",
    "set and deleted": "SET k x; b DEL k",
}
BEFORE = {
    "expired": "b SET k v PX 1; b sleep 0.01; a WATCH k",
    "expiring": "b SET k v PX @20; a WATCH k; b expired",
    "live": "b SET k v; a WATCH k",
    "missing": "a WATCH k",
}
IN_ONE_GO = "b PEXPIRE {key} 1; b DEBUG SLEEP 0.01; b EXEC"
AGE = """a EVAL "redis.call('RESTORE', 'k', 0, redis.call('DUMP', 'k'), 'REPLACE', 'IDLETIME', 1000)" 0"""
IS_OLD = """a EVAL "return redis.call('OBJECT', 'IDLETIME', 'k') > 500" 0"""
SCENARIOS = {
    "the time of a watched hash's only field": """
        b HSET h f v; b HPEXPIRE h @20 FIELDS 1 f; a WATCH h; b expired; a MULTI; a PING; a EXEC""",
    "BLPOP": f"a ~BLPOP l 0; b MULTI; b RPUSH l 1; {IN_ONE_GO.format(key='l')}; b RPUSH l 2; a <",
    "BLMPOP": f"a ~BLMPOP 0 1 l LEFT; b MULTI; b RPUSH l 1; {IN_ONE_GO.format(key='l')}; b RPUSH l 2; a <",
    "BLMOVE": f"a ~BLMOVE l m LEFT LEFT 0; b MULTI; b RPUSH l 1; {IN_ONE_GO.format(key='l')}; b RPUSH l 2; a <",
    "BZPOPMIN": f"a ~BZPOPMIN z 0; b MULTI; b ZADD z 1 a; {IN_ONE_GO.format(key='z')}; b ZADD z 2 b; a <",
    "BZMPOP": f"a ~BZMPOP 0 1 z MIN; b MULTI; b ZADD z 1 a; {IN_ONE_GO.format(key='z')}; b ZADD z 2 b; a <",
    "XREAD": f"""
        a ~XREAD BLOCK 0 STREAMS x $; b MULTI; b XADD x 1-1 a b; {IN_ONE_GO.format(key='x')}; b XADD x 2-2 a b
        a <""",
    "XREADGROUP of what has expired": """
        b XGROUP CREATE x g $ MKSTREAM; b PEXPIRE x @20; a ~XREADGROUP GROUP g c BLOCK 0 STREAMS x >; b expired
        b XADD x 1-1 a b; a <""",
    "BLMOVE to what has expired": """
        b RPUSH m x; b PEXPIRE m 20; a ~BLMOVE l m LEFT LEFT 0; b sleep 0.03; b RPUSH l 1; a <; b LRANGE m 0 -1
        b PTTL m""",
    "renamed when it had expired": """
        b RPUSH q 1; b PEXPIRE q 10; a ~BLPOP l 0; b sleep 0.02; b RENAME q l; b RPUSH l 2; a <""",
    "swapped when it had expired": """
        a ~BLPOP l 0; b SELECT 1; b RPUSH l 1; b PEXPIRE l 10; b sleep 0.02; b SWAPDB 0 1; b SELECT 0; b RPUSH l 2
        a <""",
    "what expires while writes are paused": """
        a CONFIG RESETSTAT; a MULTI; a SET k v PX 5; a CLIENT PAUSE 100000 WRITE; a EXEC; a sleep 0.02; a GET k
        a DBSIZE; a RANDOMKEY; a DEBUG SET-ACTIVE-EXPIRE 1; a sleep 0.3; a DBSIZE; a DEBUG SET-ACTIVE-EXPIRE 0
        a CLIENT UNPAUSE; a GET k; a DBSIZE; a RANDOMKEY""",
    "expired keys count": """
        a SET k v PX 1; a SET j v; a sleep 0.01; a DBSIZE; a KEYS *; a DBSIZE; a MULTI; a DBSIZE; a EXEC; a GET k
        a DBSIZE""",
    "subcommands that are called like commands": """
        a MULTI; a SLOWLOG RESET; a LATENCY RESET; a EXEC; a SUBSCRIBE c; a SLOWLOG RESET; a RESET
        a MULTI; a SELECT 1; a SET k v; a EXEC; a GET k; a SELECT 0; a GET k; a MULTI; a QUIT""",
    "TOUCH touches": f"""
        a SET k v; a CLIENT NO-TOUCH ON; {AGE}; {IS_OLD}; a GET k; {IS_OLD}; a TOUCH k; {IS_OLD}
        {AGE}; a EVAL "return redis.call('TOUCH', 'k')" 0; {IS_OLD}; {AGE}; a MULTI; a TOUCH k; a EXEC; {IS_OLD}""",
    "XGROUP SETID": """
        a XGROUP CREATE s g $ MKSTREAM; a XGROUP SETID s g -; a XINFO GROUPS s; a XGROUP SETID s g +; a XINFO GROUPS s
        a XGROUP CREATE s h -; a XGROUP SETID s g (1-1; a XGROUP SETID s g *; a XREADGROUP GROUP g c STREAMS s -""",
    "errors that end in a newline": """
        a EVAL "return {err='FOO x\\\\n'}" 0; a EVAL "return redis.error_reply('x\\\\r\\\\n')" 0
        a EVAL "return redis.pcall('EXPIRE','k','1','y\\\\n')" 0; a EXPIRE k 1 "y\\n"; a HSETEX h "\\n" FIELDS 1 a b
        a CONFIG SET "x\\n" 1; a NOSUCH "x\\n"; a "x\\n"; a ACL SETUSER u "x\\n"; a CLIENT KILL "x\\n"
        a DEBUG ERROR "x\\n"
        a OBJECT "x\\n"; a XGROUP "x\\n"; a FCALL "x\\n" 0; a SCRIPT "x\\n"; a ACL "DRYRUN" "y\\n" "x\\n"
        a AUTH "x\\n" y""",
}
HELD = {
    "SET": "SET k v",
    "PUBLISH": "PUBLISH c x",
    "SPUBLISH": "SPUBLISH c x",
    "PFCOUNT": "PFCOUNT k",
    "EVAL": 'EVAL "return 1" 0',
    "EVALSHA": "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
    "FCALL": "FCALL f 0",
    "FUNCTION FLUSH": "FUNCTION FLUSH",
    "EVAL that declares itself": 'EVAL "#!lua\\nreturn 1" 0',
    "EVAL_RO without the flag": 'EVAL_RO "#!lua\\nreturn 1" 0',
}
READ_ONLY_SCRIPTS = r"""
    a SCRIPT FLUSH; a EVAL "#!lua flags=no-writes\nreturn 1" 0; a EVAL "#!lua flags=no-writes\nreturn 1" 0
    a EVAL "#!lua flags=no-writes\nsyntax error" 0; a EVAL_RO "return 2" 0
    a SCRIPT LOAD "#!lua flags=no-writes\nreturn 3"; a EVALSHA 50ad2340de91fe7294d5c746ad721ff185c16fc5 0
    a FCALL reads 0; a FCALL_RO reads 0; a MULTI; a EVAL "#!lua flags=no-writes\nreturn 4" 0; a FCALL reads 0; a EXEC"""
LIBRARY = (
    r'b FUNCTION LOAD REPLACE "#!lua name=l\nredis.register_function'
    r"""{function_name='reads', flags={'no-writes'}, callback=function() return 'read' end}" """
)


@pytest.fixture(scope="module")
def servers():
    with Server("oracle") as oracle, Server("subject", workers=2) as subject:
        yield oracle, subject


def compare(servers, steps):
    steps = steps.strip().replace("\n", ";")
    oracle, subject = (in_time(lambda slowness, server=server: play(server, steps, slowness)) for server in servers)
    assert subject == oracle


def play(server, steps, slowness):
    player = Player(server, slowness)
    player.admin("FLUSHALL")
    player.admin("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    try:
        return player.play(steps)
    finally:
        player.admin("CLIENT", "UNPAUSE")
        player.close()


@pytest.mark.parametrize("what", WATCHED)
@pytest.mark.parametrize("before", BEFORE)
def test_watched_keys_that_expire(before, what, servers):
    compare(servers, f"{BEFORE[before]}; b {WATCHED[what]}; a MULTI; a PING; a EXEC")


@pytest.mark.parametrize("name", SCENARIOS)
def test_steps(name, servers):
    compare(servers, SCENARIOS[name])


@pytest.mark.parametrize("name", HELD)
def test_a_pause_of_writes_holds(name, servers):
    command = HELD[name]
    compare(servers, f"b CLIENT PAUSE 100000 WRITE; a ~{command}; b CLIENT UNPAUSE; a <")
    compare(servers, f"b CLIENT PAUSE 100000 WRITE; a MULTI; a ~{command}; b CLIENT UNPAUSE; a <; a EXEC")
    compare(servers, f"a MULTI; a {command}; b CLIENT PAUSE 100000 WRITE; a ~EXEC; b CLIENT UNPAUSE; a <")


def test_a_pause_of_writes_leaves_scripts_alone_that_declare_that_they_only_read(servers):
    compare(servers, f"{LIBRARY}; b CLIENT PAUSE 100000 WRITE; {READ_ONLY_SCRIPTS.strip()}; b CLIENT UNPAUSE")
