"""What other clients are told while a script is slow, compared with redis-server: the order of the errors of SCRIPT
KILL and FUNCTION KILL, and what becomes of transactions."""

import pytest

from support.servers import Server
from support.waiting import eventually

LIBRARY = """#!lua name=slow
redis.register_function('loop', function() while true do end end)
redis.register_function('write', function() redis.call('SET', 'written', 1) while true do end end)
"""
KILLS = [("SCRIPT", "KILL"), ("FUNCTION", "KILL")]
SLOW = {
    "script": (("EVAL", "while true do end", 0), "SCRIPT"),
    "function": (("FCALL", "loop", 0), "FUNCTION"),
    "script that has written": (("EVAL", "redis.call('SET', 'written', 1) while true do end", 0), None),
    "function that has written": (("FCALL", "write", 0), None),
}


def replies(kind, name):
    call, killed_by = SLOW[name]
    with Server(kind, {"busy-reply-threshold": "20"}) as server:
        runs, other, waits, watches = (server.connect() for _ in range(4))
        runs("FUNCTION", "LOAD", LIBRARY)
        seen = [other(*kill).raw for kill in KILLS]
        seen.append(waits("MULTI").raw)
        runs.send(*call)
        eventually(lambda: other("PING").raw.startswith(b"-BUSY"), "nothing is slow")
        # What is queued meanwhile is refused, and the transaction with it.
        seen += [waits("SET", "queued", "v").raw, waits("DISCARD").raw, waits("MULTI").raw, waits("GET", "k").raw]
        seen += [watches("MULTI").raw, watches("EXEC").raw, watches("MULTI").raw, watches("GET").raw]
        if killed_by:
            others = [kill for kill in KILLS if kill[0] != killed_by]
            seen += [other(*kill).raw for kill in [*others, (killed_by, "KILL")]]
            runs.read()
            seen += [waits("EXEC").raw, waits("EXEC").raw, watches("EXEC").raw, other("EXISTS", "queued").raw]
        else:
            seen += [other(*kill).raw for kill in KILLS]
            server.kill()
        return seen


@pytest.mark.parametrize("name", SLOW)
def test_while_a_script_is_slow(name):
    assert replies("subject", name) == replies("oracle", name)
