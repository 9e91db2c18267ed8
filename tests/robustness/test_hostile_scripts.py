"""Hostile scripts: they end, or can be ended; they stay within their memory; they learn and leave nothing that
is not theirs; the others are served."""

import threading
import time

import pytest

from support.resp import Closed, Connection
from support.servers import Server
from support.waiting import PATIENCE_S

THRESHOLD_MS = 100
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
        self.connection = Connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        self.connection.send(*request)

    def reply(self):
        with self.connection:
            return self.connection.read()


def wait_until_busy(server, key="held"):
    """Ask until the server says that it is busy; anything else than the key's value and BUSY is wrong."""
    deadline = time.monotonic() + PATIENCE_S
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


# Scripts of few instructions, each of which takes long. None ends by itself.
LONG_CALLS = {
    "balanced": "return string.find(string.rep('(', 2e6), '%b()')",
    "back reference": "return string.find(string.rep('a', 5e6), '(.*)%1b')",
    "long set": "return string.find(string.rep('b', 1e6), '[' .. string.rep('a', 1e6) .. ']')",
    "long set repeated": "return string.find(string.rep('b', 1e6), '[^' .. string.rep('a', 1e6) .. ']*c')",
    "frontier": "return string.find(string.rep('b', 1e6), '%f[' .. string.rep('a', 1e6) .. ']x')",
    "plain find": "return string.find(string.rep('a', 5e6), string.rep('a', 2e6) .. 'b', 1, true)",
    "fewest": "return string.find(string.rep('a', 1e6), '.-.-b')",
    "most": "return string.find(string.rep('a', 3e6), '.*b')",
    "gsub": "local s = string.rep('a', 1e6) while true do string.gsub(s, 'a', 'b') end",
    "gsub by upper": "local s = string.rep('a', 1e7) while true do string.gsub(s, '.+', string.upper) end",
    "gmatch": "local s = string.rep('a', 1e6) while true do for w in string.gmatch(s, 'b') do end end",
    "rep": "while true do local s = string.rep('ab', 1e7) end",
    "upper": "local s = string.rep('a', 1e7) while true do string.upper(s) end",
    "lower": "local s = string.rep('a', 5e7) while true do string.lower(s) collectgarbage() end",
    "reverse": "local s = string.rep('a', 1e6) while true do string.reverse(s) end",
    "sub": "local s, i = string.rep('a', 4e7), 1 while true do i = i + 1 local x = s:sub(i) end",
    "format": "local s = string.rep('a', 1e7) while true do string.format('%q', s) end",
    "byte": "local s = string.rep('a', 7000) while true do s:byte(1, -1) end",
    "tonumber": "local s = string.rep('1', 1e7) while true do tonumber(s) end",
    "number of text": "local s = string.rep(' ', 1e7) .. '1' while true do local x = s + 1 end",
    "concatenation": "local s, i = string.rep('a', 1e7), 0 while true do i = i + 1 local x = s .. i end",
    "comparison": "local s = string.rep('a', 5e7) local t, u = s .. 'b', s .. 'c' while true do local x = t < u end",
    "comparison of zeros": "local s = string.rep('\\0', 1e7) local t, u = s .. 'b', s .. 'c' "
    "while true do local x = t < u end",
    "comparison after doubling": "local s, t = '\\0\\0\\0\\0a', '\\0\\0\\0\\0b' "
    "while #s < 2e7 do s, t = s .. s, s .. t end while true do local x = s < t end",
    "comparison in a coroutine": "local s, t = '\\0\\0\\0\\0a', '\\0\\0\\0\\0b' "
    "while #s < 2e7 do s, t = s .. s, s .. t end coroutine.wrap(function() while true do local x = s < t end end)()",
    "doubling in a coroutine": "local s, t = '\\0\\0\\0\\0a', '\\0\\0\\0\\0b' coroutine.wrap(function() "
    "while #s < 2e7 do s, t = s .. s, s .. t end end)() while true do local x = s < t end",
    "coroutines": "local f = coroutine.wrap(function() while true do coroutine.yield() end end) while true do f() end",
    "remove": "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.remove(t, 1) table.insert(t, 1) end",
    "insert": "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t) end",
    "insert far away": "table.insert({}, -2 ^ 31, 1)",
    "insert with a false length": "local t = {} for i = 0, 30 do t[2 ^ i] = 1 end while true do "
    "table.insert(t, 1, 1) end",
    "concat": "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.concat(t) end",
    "sort": "local t = {} for i = 1, 1e6 do t[i] = i * 7919 % 1000003 end while true do table.sort(t) end",
    "sort of long texts": "local s, t = string.rep('a', 1e7), {} local a, b = s .. 'a', s .. 'b' "
    "for i = 1, 1e5 do t[i] = i % 2 == 0 and a or b end table.sort(t)",
    "sort by upper": "local s, t = string.rep('a', 1e6), {} for i = 1, 1e6 do t[i] = s end table.sort(t, string.upper)",
    "sort by a wrong order": "local t = {} for i = 1, 1e5 do t[i] = i end "
    "while true do pcall(table.sort, t, function() return true end) end",
    "maxn": "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.maxn(t) end",
    "next": "local t = {} for i = 1, 1e6 do t[i] = i end for i = 1, 1e6 do t[i] = nil end while true do next(t) end",
    "foreachi": "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.foreachi(t, rawequal) end",
    "full table": "local t, n, i = {}, 2 ^ 19, 1 for i = 1, n do t[i + 0.5] = 1 end "
    "while true do t[i + 0.5] = nil t[i + n + 0.5] = 1 i = i + 1 end",
    "unpack": "local t = {} for i = 1, 7000 do t[i] = i end while true do select('#', unpack(t)) end",
    "collectgarbage": "local t = {} for i = 1, 3e5 do t[i] = {} end while true do collectgarbage() end",
    "loadstring": "local s = string.rep('a=1 ', 1e7) while true do loadstring(s) end",
    "loadstring of branches": "local s = 'if a then ' .. string.rep('elseif a then ', 2e4) .. 'end ' "
    "s = string.rep(s, 50) while true do loadstring(s) end",
    "load": "while true do load(function() return 'a = 1 ' end) end",
    "sparse json": "cjson.encode_sparse_array(true, 0) local t = {} t[2e7] = 1 while true do cjson.encode(t) end",
    "shared json": "local t = {1} for i = 1, 60 do t = {t, t} end return cjson.encode(t)",
    "json object": "local t = {} for i = 1, 1e5 do t['k' .. i] = i end while true do cjson.encode(t) end",
    "json array read": "local s = '[' .. string.rep('1,', 1e6) .. '1]' while true do cjson.decode(s) end",
    "json text read": "local s = '\"' .. string.rep('a', 3e7) .. '\"' while true do cjson.decode(s) end",
    "json number read": "local s = string.rep('1', 1e7) while true do cjson.decode(s) end",
    "shared messagepack": "local t = {1} for i = 1, 15 do local u = {} for j = 1, 100 do u[j] = t end t = u end "
    "return cmsgpack.pack(t)",
    "messagepack": "local s = string.rep('x', 1e7) while true do cmsgpack.unpack(cmsgpack.pack(s)) end",
    "struct.pack": "local f = string.rep(' ', 1e7) while true do struct.pack(f) end",
    "struct.size": "local f = string.rep('b', 1e7) while true do struct.size(f) end",
    "struct.unpack": "local f, d = string.rep('x', 1e7), string.rep('a', 1e7) while true do struct.unpack(f, d) end",
    "bit": "local s = string.rep('1', 1e7) while true do pcall(bit.band, s, s) end",
    "sha1hex": "local s = string.rep('a', 1e8) while true do redis.sha1hex(s) end",
    "log": "local s = string.rep('x', 1e7) while true do redis.log(redis.LOG_DEBUG, s) end",
    "error_reply": "local s = string.rep('x', 1e7) while true do redis.error_reply(s) end",
    "call": "local s = string.rep('x', 1e7) while true do redis.pcall('ECHO', s) end",
    "call with many arguments": "local s, t = string.rep('x', 1e6), {} for i = 1, 7000 do t[i] = s end "
    "while true do redis.pcall('DEL', unpack(t)) end",
    "shared reply": "local t = {1} for i = 1, 60 do t = {t, t} end return t",
    "shared map": "local t = {map = {a = 1}} for i = 1, 60 do t = {map = {a = t, b = t}} end return t",
}
RESIDENT_BYTES_MAX = 1536 * MIB


@pytest.fixture(scope="module")
def lasting_server():
    server = Server("subject", workers=1, options={"busy-reply-threshold": THRESHOLD_MS})
    yield server
    server.stop()


def resident_bytes_max(server):
    """The most memory that a server has had at a time."""
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


@pytest.mark.parametrize("script", LONG_CALLS.values(), ids=LONG_CALLS.keys())
def test_long_calls_are_killed(lasting_server, script):
    running = Running(lasting_server, "EVAL", script, 0)
    with lasting_server.connect(timeout=PATIENCE_S) as connection:
        deadline = time.monotonic() + PATIENCE_S
        while not connection("PING").is_error:
            assert time.monotonic() < deadline
        for _ in range(3):
            assert connection("PING").text().startswith("BUSY ")
        began = time.monotonic()
        assert connection.call("SCRIPT", "KILL") == b"OK"
        assert "killed by user" in running.reply().text()
        assert time.monotonic() - began < PATIENCE_S
    assert resident_bytes_max(lasting_server) < RESIDENT_BYTES_MAX


OVERSIZED = {
    "reply": "local s, t = string.rep('x', 1e6), {} for i = 1, 1e6 do t[i] = s end return t",
    "map": "local s, t = string.rep('x', 1e6), {} for i = 1, 1e6 do t[i] = s end return {map = t}",
    "json": "local s, t = string.rep('x', 1e6), {} for i = 1, 1e6 do t[i] = s end return cjson.encode(t)",
    "sparse json": "cjson.encode_sparse_array(true, 0) return cjson.encode({[2 ^ 30] = 1})",
    "messagepack": "local s, t = string.rep('x', 1e6), {} for i = 1, 1e6 do t[i] = s end return cmsgpack.pack(t)",
    "gsub": "return #string.gsub(string.rep('x', 1e6), 'x', string.rep('y', 1e6))",
    "struct": "local s, t = string.rep('x', 1e7), {} for i = 1, 100 do t[i] = s end "
    "return struct.pack(string.rep('s', 100), unpack(t))",
    "arguments": "local s, t = string.rep('x', 1e7), {} for i = 1, 5000 do t[i] = s end "
    "return redis.call('ECHO', unpack(t))",
}


@pytest.mark.parametrize("script", OVERSIZED.values(), ids=OVERSIZED.keys())
def test_what_is_made_outside_of_lua_is_bounded(lasting_server, script):
    with lasting_server.connect(timeout=PATIENCE_S) as connection:
        connection.call("CONFIG", "SET", "busy-reply-threshold", 0)
        assert "not enough memory" in connection("EVAL", script, 0).text()
        connection.call("CONFIG", "SET", "busy-reply-threshold", THRESHOLD_MS)
    assert resident_bytes_max(lasting_server) < RESIDENT_BYTES_MAX


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
    server.process.wait(PATIENCE_S)
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
    "unpack far": "return unpack({}, -3, 2^31 - 1)",
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
    with server.connect(timeout=3 * PATIENCE_S) as connection:
        connection.call("CONFIG", "SET", "busy-reply-threshold", 0)
        reply = connection("EVAL", f"return {{pcall(function() {script} end)}}", 0)
        failed = reply.is_error or reply.value[0].is_null or "RECURSION" in script
        assert failed or "recursion" in script or "f()" in script, reply
        assert connection("EVAL", script, 0).raw
        assert connection.call("EVAL", "return 'well'", 0) == b"well"


def test_memory_comes_back(server):
    with server.connect(timeout=2 * PATIENCE_S) as connection:
        connection.call("CONFIG", "SET", "busy-reply-threshold", 0)
        connection("EVAL", "local t = {} for i = 1, 1e12 do t[i] = string.rep('x', 1e6) .. i end", 0)
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
    "local _, real = pairs(string) rawset(real, 'secret', 'leak') real.secret = 'leak'",
    "local _, real = pairs(redis) real.call = function() return 'leak' end",
    "getmetatable(setmetatable({}, string)).secret = 'leak'",
    "getmetatable(setmetatable({}, _G)).secret = 'leak'",
]
TRACES = [
    "return tostring(rawget(_G, 'secret')) .. tostring(_G[1] ~= nil and 'leak')",
    "return tostring(redis[1]) .. tostring(string.secret) .. tostring(cjson.secret)",
    "return tostring(pcall(function() return 'a' + 'b' end))",
    "return tostring(KEYS.secret) .. tostring(next(KEYS))",
    "return tostring(rawget(_G, 1)) .. tostring(next({}))",
    "return redis.call('PING')",
    "local names = {} for name in pairs(string) do names[#names + 1] = name end table.sort(names) return names",
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
    with server.connect(timeout=PATIENCE_S) as connection:
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
        with server.connect(timeout=PATIENCE_S) as connection:
            for step in range(20):
                body = "local n = 0 for i = 1, 2e5 do n = n + 1 end return redis.call('INCR', KEYS[1])"
                reply = connection("EVAL", body, 1, f"counter:{number}")
                replies.append(reply)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    [thread.start() for thread in threads]
    [thread.join(PATIENCE_S) for thread in threads]
    assert len(replies) == 120 and not any(reply.is_error and b"BUSY" not in reply.raw for reply in replies)


def test_scripts_take_keys_that_they_did_not_declare(start_server):
    """Of a script that has kept to its keys so far, many runs come to others at the same moment."""
    server = start_server(options={"worker-threads": 4, "worker-packing": "no"})
    clients = [server.connect() for _ in range(12)]
    for number in range(20):
        script = (
            f"redis.call('SET', KEYS[1], {number}) local i = 0 while i < 100000 do i = i + 1 end "
            f"if ARGV[1] == 'other' then redis.call('SET', ARGV[2], {number}) end return 1"
        )
        assert clients[0].call("EVAL", script, 1, "declared", "none") == 1
        for at, client in enumerate(clients):
            client.send("EVAL", script, 1, f"declared:{at}", "other", f"other:{at}")
        assert [client.read().plain() for client in clients] == [1] * len(clients)
        keys = [f"{name}:{at}" for name in ("declared", "other") for at in range(len(clients))]
        assert clients[0].call("MGET", *keys) == [str(number).encode()] * len(keys)
    for client in clients:
        client.close()
