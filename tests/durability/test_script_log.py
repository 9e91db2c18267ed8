"""What of a script's effects is logged, where the script chooses it (`redis.set_repl`): the same commands as from
redis-server, whose logs are read for that."""

from durability.test_aof import increment, logged_server, words_of
from support.waiting import eventually

SCRIPTS = [
    "redis.call('SET','a',1) redis.set_repl(redis.REPL_NONE) redis.call('SET','b',1) "
    "redis.set_repl(redis.REPL_ALL) redis.call('SET','c',1)",
    "redis.set_repl(redis.REPL_AOF) redis.call('SET','d',1)",
    "redis.set_repl(redis.REPL_REPLICA) redis.call('SET','e',1)",
    "redis.set_repl(redis.REPL_SLAVE) redis.call('SET','f',1)",
    "redis.set_repl(redis.REPL_NONE) redis.call('SET','g',1)",
    # The choice ends with the script.
    "redis.call('SET','h',1)",
    "redis.set_repl(redis.REPL_NONE) redis.call('SPOP','set') redis.call('INCRBYFLOAT','number',1)",
    # A choice that is refused changes nothing.
    "redis.set_repl(redis.REPL_NONE) pcall(redis.set_repl,9) redis.call('SET','i',1)",
    "redis.set_repl(redis.REPL_NONE) redis.call('RPUSH','l',1) return redis.error_reply('no')",
    # What had expired is logged whoever notices.
    "redis.set_repl(redis.REPL_NONE) return redis.call('GET','expired')",
    "redis.set_repl(redis.REPL_NONE) return redis.call('SET','expired too',1)",
]
LIBRARY = (
    "#!lua name=library\nredis.register_function('f',function() redis.set_repl(redis.REPL_NONE) "
    "redis.call('SET','j',1) redis.set_repl(redis.REPL_ALL) redis.call('SET','k',1) end)"
)


def play(server):
    with server.connect() as connection, server.connect() as waiting:
        connection.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        for key in ("expired", "expired too"):
            connection.call("SET", key, 1)
            connection.call("PEXPIRE", key, 1)
        connection.call("SADD", "set", 1)
        began = now_ms(connection)
        eventually(lambda: now_ms(connection) > began + 2, "time stands still")
        for number, script in enumerate(SCRIPTS):
            connection("EVAL", script, 0)
            connection.call("SET", "script", number)
        connection.call("FUNCTION", "LOAD", LIBRARY)
        connection.call("FCALL", "f", 0)
        connection.call("MULTI")
        for command in (["SET", "m", 1], ["EVAL", SCRIPTS[4], 0], ["SET", "n", 1]):
            connection.call(*command)
        connection.call("EXEC")
        # Who is served by a script is logged.
        waiting.send("BLPOP", "waited", 0)
        eventually(lambda: b"blocked_clients:1" in connection.call("INFO", "clients"), "nobody waits")
        connection.call("EVAL", "redis.set_repl(redis.REPL_NONE) redis.call('RPUSH','waited',1)", 0)
        waiting.read()
        connection.call("SET", "last", 1)


def now_ms(connection):
    seconds, microseconds = map(int, connection.call("TIME"))
    return seconds * 1000 + microseconds // 1000


def logged(server):
    """The commands of the log, without the times in them."""
    commands = [[word.upper() for word in words] for words in words_of(increment(server))]
    return [words[:2] if words[0] == b"PEXPIREAT" else words for words in commands]


def test_a_script_chooses_what_is_logged(start_server):
    logs = []
    for kind in ("oracle", "subject"):
        server = logged_server(start_server, kind)
        play(server)
        logs.append(logged(server))
    assert logs[1] == logs[0]
