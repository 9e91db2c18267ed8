"""Hostile scripts: they end, or can be ended; they stay within their memory; they learn and leave nothing that
is not theirs; the others are served."""

import threading
import time

import pytest

from support.resp import Closed, Connection

THRESHOLD_MS = 100
WAIT_SECONDS_MAX = 30
MIB = 1 << 20


@pytest.fixture(params=[1, 3], ids=["one-worker", "three-workers"])
def server(request, start_server):
    server = start_server("subject", workers=request.param, options={"busy-reply-threshold": THRESHOLD_MS})
    yield server
    assert server.alive, server.log_tail()
    with server.connect() as connection:
        assert connection.call("PING") == b"PONG"
    assert "panic" not in server.log_text()


class Running:
    """A script that runs on a connection of its own."""

    def __init__(self, server, *request):
        self.connection = Connection(("127.0.0.1", server.port), timeout=WAIT_SECONDS_MAX)
        self.connection.send(*request)

    def reply(self):
        with self.connection:
            return self.connection.read()


def wait_until_busy(server, key="held"):
    """Ask until the server says that it is busy; anything else than the key's value and BUSY is wrong."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    with server.connect() as connection:
        while time.monotonic() < deadline:
            reply = connection("GET", key)
            if reply.is_error:
                assert reply.text().startswith("BUSY "), reply
                return
    raise AssertionError("the script never became slow")


ENDLESS = {
    "plain": "while true do end",
    "pcall": "while true do pcall(function() while true do end end) end",
    "xpcall": "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "coroutine": "coroutine.wrap(function() while true do pcall(function() while true do end end) end end)()",
    "resume": "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "call": "while true do pcall(redis.call, 'GET', 'held') end",
    "failing call": "while true do redis.pcall('INCR') end",
    "pattern": "return string.find(string.rep('a', 3000), string.rep('a-', 30) .. 'b')",
    "gsub": "while true do pcall(string.gsub, 'abc', '%w', function() while true do end end) end",
    "sort": "while true do pcall(table.sort, {3, 2, 1}, function() while true do end end) end",
    "load": "while true do pcall(load, function() while true do end end) end",
    "metamethod": "local t = setmetatable({}, {__index = function() while true do end end}) "
    "while true do pcall(function() return t.x end) end",
    "nested": "local function f() pcall(f) while true do end end f()",
    "iterator": "for w in string.gmatch(string.rep('a', 3000), string.rep('a-', 30) .. 'b') do end",
}


@pytest.mark.parametrize("script", ENDLESS.values(), ids=ENDLESS.keys())
def test_an_endless_script_is_killed(server, script):
    running = Running(server, "EVAL", script, 0)
    wait_until_busy(server)
    with server.connect() as connection:
        assert connection("PING").text().startswith("BUSY ")
        assert connection.call("SCRIPT", "KILL") == b"OK"
        assert "killed by user" in running.reply().text()
        assert connection.call("GET", "held") is None
        assert connection("SCRIPT", "KILL").text().startswith("NOTBUSY")


def test_no_dump_is_begun_or_put_off_while_a_script_is_slow(server):
    running = Running(server, "EVAL", "while true do end", 0)
    wait_until_busy(server)
    with server.connect() as connection:
        for request in [("BGSAVE",), ("BGSAVE", "SCHEDULE")]:
            assert connection(*request).text().startswith("BUSY "), request
        assert connection.call("SCRIPT", "KILL") == b"OK"
        assert "killed by user" in running.reply().text()
        assert connection.call("INFO", "persistence").count(b"rdb_saves:0\r\n") == 1


def test_pipelines_wait_for_no_slow_script(server):
    """Nor do those that look into a large collection, which is fetched ahead where its shard is free."""
    with server.connect() as connection:
        for first in range(0, 60_000, 1000):
            pairs = [word for number in range(first, first + 1000) for word in (f"field:{number}", "v" * 16)]
            connection.call("HSET", "held", *pairs)
        requests = [("HGET", "held", f"field:{number * 97}") for number in range(500)]
        assert [reply.value for reply in connection.pipeline(requests)] == [b"v" * 16] * 500
        running = Running(server, "EVAL", "redis.call('HLEN', KEYS[1]) while true do end", 1, "held")
        wait_until_busy(server, "other")
        for _ in range(3):
            assert all(reply.text().startswith("BUSY ") for reply in connection.pipeline(requests))
        assert connection.call("SCRIPT", "KILL") == b"OK"
        assert "killed by user" in running.reply().text()
        assert [reply.value for reply in connection.pipeline(requests)] == [b"v" * 16] * 500


def test_a_function_is_killed_by_its_own_command(server):
    code = "#!lua name=endless\nredis.register_function('endless', function() while true do end end)"
    with server.connect() as connection:
        connection.call("FUNCTION", "LOAD", code)
        running = Running(server, "FCALL", "endless", 0)
        wait_until_busy(server)
        assert connection("SCRIPT", "KILL").text().startswith("BUSY ")
        stats = connection("FUNCTION", "STATS").plain()
        assert b"endless" in stats[1] and stats[1][3] == [b"FCALL", b"endless", b"0"]
        assert connection.call("FUNCTION", "KILL") == b"OK"
        assert "killed by user" in running.reply().text()


def test_a_script_that_has_written_is_not_killed(server):
    script = "redis.call('SET', KEYS[1], 1) while redis.call('GET', KEYS[1]) do end"
    running = Running(server, "EVAL", script, 1, "held")
    wait_until_busy(server)
    with server.connect() as connection:
        assert connection("SCRIPT", "KILL").text().startswith("UNKILLABLE ")
        connection.send("SHUTDOWN", "NOSAVE")
    # The connection is closed; what the script was ended with may still come through.
    try:
        assert running.reply().is_error
    except (Closed, OSError):
        pass
    server.process.wait(WAIT_SECONDS_MAX)
    server.start()


def test_other_keys_are_served_beside_a_slow_script(server):
    """Once it is known that a script keeps to its keys, it holds no more than their shards."""
    script = "redis.call('GET', KEYS[1]) if ARGV[1] == 'loop' then while true do end end"
    with server.connect() as connection:
        connection.call("EVAL", script, 1, "held", "short")
        running = Running(server, "EVAL", script, 1, "held", "loop")
        wait_until_busy(server)
        replies = [connection("SET", f"other:{number}", number) for number in range(100)]
        served = sum(reply.value == b"OK" for reply in replies)
        assert served >= 90 and all(b"BUSY" in reply.raw for reply in replies if reply.is_error)
        assert connection.call("SCRIPT", "KILL") == b"OK"
        running.reply()


def test_the_client_of_a_script_may_leave(server):
    running = Running(server, "EVAL", "while true do end", 0)
    wait_until_busy(server)
    running.connection.reset()
    with server.connect() as connection:
        assert connection.call("SCRIPT", "KILL") == b"OK"


def test_a_pipeline_goes_on_after_a_slow_script(server):
    with server.connect() as connection:
        connection.send("EVAL", "while true do end", 0)
        connection.send("SET", "after", 1)
        connection.send("GET", "after")
        wait_until_busy(server)
        connection.send("ECHO", "later")
        with server.connect() as other:
            assert other.call("SCRIPT", "KILL") == b"OK"
        assert connection.read().is_error
        assert [connection.read().value for _ in range(3)] == [b"OK", b"1", b"later"]


def test_watching_and_leaving_while_a_script_is_slow(server):
    watcher, waiter = server.connect(), server.connect()
    watcher.call("WATCH", "held")
    waiter.send("BLPOP", "held", 0)
    running = Running(server, "EVAL", "while true do end", 0)
    wait_until_busy(server, key="another")
    with server.connect() as connection:
        assert connection("WATCH", "held").text().startswith("BUSY ")
    watcher.reset()
    waiter.reset()
    with server.connect() as connection:
        assert connection.call("SCRIPT", "KILL") == b"OK"
        running.reply()
        # At most one goes to the client that leaves, if its end has not been noticed yet.
        for _ in range(3):
            connection.call("RPUSH", "held", "a")
        assert connection.call("LLEN", "held") >= 2


FAILING = {
    "recursion": "local function f() return 1 + f() end return f()",
    "recursion through pcall": "local function f() return pcall(f) end return f()",
    "recursion through gsub": "local function f() return (string.gsub('a', 'a', f)) end return f()",
    "recursion through metamethods": "local t = {} setmetatable(t, {__index = function(_, k) return t[k] end}) "
    "return t.x",
    "coroutines in coroutines": "local function f() return coroutine.wrap(f)() end return f()",
    "doubling": "local s = 'x' while true do s = s .. s end",
    "table": "local t = {} for i = 1, 1e12 do t[i] = i end",
    "strings": "local t = {} for i = 1, 1e12 do t[i] = string.rep('x', 1e6) .. i end",
    "rep": "return string.rep('x', 1e10)",
    "rep of rep": "return string.rep(string.rep('x', 1e5), 1e5)",
    "concat": "local t = {} for i = 1, 1000 do t[i] = string.rep('x', 1e6) end return table.concat(t)",
    "gsub grows": "return (string.gsub(string.rep('x', 1e6), 'x', string.rep('y', 1e6)))",
    "format": "return string.format('%99999999d', 1)",
    "deep pattern": "return string.find(string.rep('a', 1e6), string.rep('a?', 1e6))",
    "deep captures": "return string.find('a', string.rep('(', 1e6))",
    "deep source": "return loadstring(string.rep('(', 1e6) .. '1' .. string.rep(')', 1e6))()",
    "deep tables": "return loadstring('return ' .. string.rep('{', 1e5) .. string.rep('}', 1e5))()",
    "long brackets": "return loadstring('return [' .. string.rep('=', 1e7) .. '[x')()",
    "deep json": "return cjson.decode(string.rep('[', 1e6))",
    "deep json out": "cjson.encode_max_depth(1e6) local t = {} for i = 1, 1e5 do t = {t} end "
    "return cjson.encode(t)",
    "deep messagepack": "return cmsgpack.unpack(string.rep('\\145', 1e6))",
    "huge messagepack": "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
    "unpack": "return unpack({}, 0, 2^31 - 1)",
    "unpack backwards": "return unpack({}, -2^31, 2^31 - 1)",
    "unpack far": "return unpack({}, 2^31 - 3, 2^31 + 2^31)",
    "struct": "return struct.pack('i2147483647', 1)",
    "struct position": "return struct.unpack('c0', 'abc', -2^53)",
    "bytecode": "return loadstring(string.dump(function() end))()",
    "edited bytecode": "return loadstring('\\27Lua' .. string.rep('\\255', 100))()",
    "bytecode by load": "local d = string.dump(function() end) local n = 0 "
    "return load(function() n = n + 1 return d:sub(n, n) end)()",
    "files": "return dofile('/etc/passwd')",
    "processes": "return os.execute('true')",
    "libraries": "return require('os')",
    "environment": "return getfenv(0)",
    "debug": "return debug.getregistry()",
    "globals": "secret = 1",
    "globals raw": "rawset(_G, 'secret', 1)",
    "globals by metatable": "setmetatable(_G, {})",
    "library": "string.format = nil",
    "strings' metatable": "getmetatable('').__index = nil",
    "global metatable": "getmetatable(_G).__index = nil",
    "keys": "redis.call = nil",
}


@pytest.mark.parametrize("script", FAILING.values(), ids=FAILING.keys())
def test_a_hostile_script_fails(server, script):
    with server.connect(timeout=WAIT_SECONDS_MAX) as connection:
        connection.call("CONFIG", "SET", "busy-reply-threshold", 0)
        reply = connection("EVAL", f"return {{pcall(function() {script} end)}}", 0)
        failed = reply.is_error or reply.value[0].is_null or "RECURSION" in script
        assert failed or "recursion" in script or "f()" in script, reply
        assert connection("EVAL", script, 0).raw
        assert connection.call("EVAL", "return 'well'", 0) == b"well"


def test_memory_comes_back(server):
    with server.connect(timeout=3 * WAIT_SECONDS_MAX) as connection:
        connection.call("CONFIG", "SET", "busy-reply-threshold", 0)
        connection("EVAL", "local t = {} for i = 1, 1e12 do t[i] = string.rep('x', 1e5) .. i end", 0)
        connection.call("EVAL", "return 1", 0)
        used = int(connection.call("EVAL", "return math.floor(collectgarbage('count'))", 0))
        assert used < 64 * 1024


LEAVINGS = [
    "getmetatable('').__index.secret = 1",
    "getmetatable('').__add = function() return 'leak' end",
    "table.insert(_G, 'leak')",
    "table.insert(redis, 'leak')",
    "table.sort(string, function() return true end)",
    "KEYS.secret = 1",
    "setmetatable(KEYS, {__index = function() return 'leak' end})",
    "cjson.secret = 1",
    "local m = getmetatable(_G) m.__index = function() return 'leak' end",
    "string.secret = 1",
    "table.remove(_G)",
]
TRACES = [
    "return tostring(rawget(_G, 'secret')) .. tostring(_G[1] ~= nil and 'leak')",
    "return tostring(redis[1]) .. tostring(string.secret) .. tostring(cjson.secret)",
    "return tostring(pcall(function() return 'a' + 'b' end))",
    "return tostring(KEYS.secret) .. tostring(next(KEYS))",
    "return tostring(rawget(_G, 1)) .. tostring(next({}))",
]


@pytest.mark.parametrize("script", LEAVINGS)
def test_a_script_leaves_nothing_for_the_next(server, script):
    with server.connect() as connection:
        for trace in TRACES:
            before = connection("EVAL", trace, 0).raw
            connection("EVAL", f"pcall(function() {script} end)", 0)
            connection("EVAL", script, 0)
            assert connection("EVAL", trace, 0).raw == before and b"leak" not in before


def test_collector_stays_on(server):
    script = "collectgarbage('stop') for i = 1, 2000 do local s = string.rep('x', 1e6) .. i end return 1"
    with server.connect(timeout=WAIT_SECONDS_MAX) as connection:
        connection.call("CONFIG", "SET", "busy-reply-threshold", 0)
        assert connection.call("EVAL", script, 0) == 1


def test_many_scripts_are_forgotten(server):
    with server.connect() as connection:
        kept = connection.call("SCRIPT", "LOAD", "return 'kept'")
        for number in range(1500):
            assert connection.call("EVAL", f"return {number}", 0) == number
        assert connection.call("EVALSHA", kept, 0) == b"kept"
        info = connection.call("INFO", "memory").decode()
        cached = next(line for line in info.splitlines() if line.startswith("number_of_cached_scripts:"))
        assert int(cached.split(":")[1]) <= 510


def test_scripts_on_all_workers_at_once(server):
    """Slow and short scripts on several connections; all are answered."""
    replies = []

    def work(number):
        with server.connect(timeout=WAIT_SECONDS_MAX) as connection:
            for step in range(20):
                body = "local n = 0 for i = 1, 2e5 do n = n + 1 end return redis.call('INCR', KEYS[1])"
                reply = connection("EVAL", body, 1, f"counter:{number}")
                replies.append(reply)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    [thread.start() for thread in threads]
    [thread.join(WAIT_SECONDS_MAX) for thread in threads]
    assert len(replies) == 120 and not any(reply.is_error and b"BUSY" not in reply.raw for reply in replies)
