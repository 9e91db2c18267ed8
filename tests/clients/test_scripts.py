"""Scripts as real libraries write them, through redis-py, on this server and on redis-server."""

import json
import uuid

import pytest
import redis


@pytest.fixture
def client(client):
    client.script_flush()
    client.function_flush()
    return client


RELEASE = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end
"""
EXTEND = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])
"""


def test_lock(client):
    release, extend = client.register_script(RELEASE), client.register_script(EXTEND)
    mine, other = str(uuid.uuid4()), str(uuid.uuid4())
    assert client.set("lock", mine, nx=True, px=10_000)
    assert not client.set("lock", other, nx=True, px=10_000)
    assert release(keys=["lock"], args=[other]) == 0
    assert extend(keys=["lock"], args=[mine, 60_000]) == 1 and client.pttl("lock") > 20_000
    assert extend(keys=["lock"], args=[other, 60_000]) == 0
    assert release(keys=["lock"], args=[mine]) == 1 and client.get("lock") is None


def test_lock_of_redis_py(client):
    lock = client.lock("the lock", timeout=10)
    assert lock.acquire(blocking=False) and lock.owned()
    assert not client.lock("the lock").acquire(blocking=False)
    assert lock.extend(10) and lock.reacquire()
    lock.release()
    assert not lock.owned()
    with pytest.raises(redis.exceptions.LockError):
        lock.release()


SLIDING_WINDOW = """
local key, now, window, limit = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', key, '-inf', now - window)
local count = redis.call('ZCARD', key)
if count >= limit then
  local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return {0, count, tonumber(oldest[2]) + window - now}
end
redis.call('ZADD', key, now, now .. ':' .. ARGV[4])
redis.call('PEXPIRE', key, window)
return {1, count + 1, 0}
"""


def test_sliding_window(client):
    allow = client.register_script(SLIDING_WINDOW)
    for number in range(3):
        assert allow(keys=["rate"], args=[1000 + number, 100, 3, number]) == [1, number + 1, 0]
    assert allow(keys=["rate"], args=[1010, 100, 3, "x"]) == [0, 3, 90]
    assert allow(keys=["rate"], args=[1101, 100, 3, "y"]) == [1, 2, 0]


TOKEN_BUCKET = """
local rate, burst, now, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local state = redis.call('HMGET', KEYS[1], 'tokens', 'time')
local tokens, time = tonumber(state[1]) or burst, tonumber(state[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - time) * rate)
local allowed = tokens >= wanted
if allowed then tokens = tokens - wanted end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'time', now)
redis.call('EXPIRE', KEYS[1], math.ceil(burst / rate) * 2)
return {allowed and 1 or 0, tostring(tokens)}
"""


def test_token_bucket(client):
    take = client.register_script(TOKEN_BUCKET)
    assert take(keys=["bucket"], args=[0.5, 3, 100, 2]) == [1, "1"]
    assert take(keys=["bucket"], args=[0.5, 3, 100, 2]) == [0, "1"]
    assert take(keys=["bucket"], args=[0.5, 3, 101.5, 1.5]) == [1, "0.25"]
    assert client.hget("bucket", "tokens") == "0.25" and client.ttl("bucket") > 0


TAKE_JOB = """
local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
if not id then return false end
local attempts = redis.call('HINCRBY', KEYS[3], id, 1)
redis.call('ZADD', KEYS[4], tonumber(ARGV[1]) + tonumber(ARGV[2]), id)
return {id, attempts, redis.call('HGET', KEYS[5], id)}
"""
RETRY_JOBS = """
local late = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 100)
local retried, dead = {}, {}
for _, id in ipairs(late) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('LREM', KEYS[2], 1, id)
  if tonumber(redis.call('HGET', KEYS[4], id)) >= tonumber(ARGV[2]) then
    redis.call('SADD', KEYS[5], id)
    dead[#dead + 1] = id
  else
    redis.call('LPUSH', KEYS[3], id)
    retried[#retried + 1] = id
  end
end
return cjson.encode({retried = retried, dead = dead, count = #late})
"""


def test_job_queue(client):
    take, retry = client.register_script(TAKE_JOB), client.register_script(RETRY_JOBS)
    client.hset("jobs", mapping={"1": json.dumps({"mail": "a"}), "2": json.dumps({"mail": "b"})})
    client.lpush("waiting", "1", "2")
    keys = ["waiting", "active", "attempts", "deadlines", "jobs"]
    assert take(keys=keys, args=[1000, 50]) == ["1", 1, '{"mail": "a"}']
    assert take(keys=keys, args=[1000, 60]) == ["2", 1, '{"mail": "b"}']
    assert take(keys=keys, args=[1000, 60]) is None
    retry_keys = ["deadlines", "active", "waiting", "attempts", "dead"]
    first = json.loads(retry(keys=retry_keys, args=[1055, 2]))
    assert first == {"retried": ["1"], "dead": {}, "count": 1}
    assert take(keys=keys, args=[1060, 10]) == ["1", 2, '{"mail": "a"}']
    second = json.loads(retry(keys=retry_keys, args=[2000, 2]))
    assert second["count"] == 2 and second["dead"] == ["1"] and second["retried"] == ["2"]
    assert client.smembers("dead") == {"1"} and client.lrange("waiting", 0, -1) == ["2"]


LEADERBOARD = """
local board, member, score = KEYS[1], ARGV[1], tonumber(ARGV[2])
local old = redis.call('ZSCORE', board, member)
if old and tonumber(old) >= score then
  return {0, redis.call('ZREVRANK', board, member), old}
end
redis.call('ZADD', board, score, member)
redis.call('ZREMRANGEBYRANK', board, 0, -1 - tonumber(ARGV[3]))
local rank = redis.call('ZREVRANK', board, member)
redis.call('HSET', KEYS[2], member, cmsgpack.pack({score = score, rank = rank or -1}))
return {1, rank or -1, tostring(score)}
"""


def test_leaderboard(client):
    update = client.register_script(LEADERBOARD)
    assert update(keys=["board", "info"], args=["ann", 10, 3]) == [1, 0, "10"]
    assert update(keys=["board", "info"], args=["bob", 12.5, 3]) == [1, 0, "12.5"]
    assert update(keys=["board", "info"], args=["cid", 11, 3]) == [1, 1, "11"]
    assert update(keys=["board", "info"], args=["ann", 9, 3])[0] == 0
    assert update(keys=["board", "info"], args=["dan", 10.5, 3]) == [1, 2, "10.5"]
    assert client.zscore("board", "ann") is None and client.zcard("board") == 3


def test_a_script_that_was_forgotten_is_sent_again(client):
    script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    assert script(keys=["n"], args=[5]) == 5
    client.script_flush()
    assert client.script_exists(script.sha) == [False]
    assert script(keys=["n"], args=[2]) == 7 and client.script_exists(script.sha) == [True]
    pipe = client.pipeline(transaction=True)
    script(keys=["n"], args=[1], client=pipe)
    pipe.get("n")
    assert pipe.execute() == [8, "8"]


def test_errors(client):
    with pytest.raises(redis.ResponseError, match="WRONGTYPE|wrong kind of value"):
        client.eval("redis.call('SET', KEYS[1], 'x') return redis.call('LPUSH', KEYS[1], 'y')", 1, "k")
    with pytest.raises(redis.exceptions.NoScriptError):
        client.evalsha("0" * 40, 0)
    with pytest.raises(redis.ResponseError, match="my own error"):
        client.eval("return redis.error_reply('my own error')", 0)
    assert client.eval("local ok, e = pcall(redis.call, 'LPUSH', KEYS[1]) return e", 1, "k").startswith("ERR Wrong")


LIBRARY = """#!lua name=counters
local function bump(keys, args)
  local now = redis.call('TIME')[1]
  redis.call('HSET', keys[1], 'bumped', now)
  return redis.call('HINCRBY', keys[1], 'count', args[1] or 1)
end
local function peek(keys)
  return redis.call('HGET', keys[1], 'count')
end
redis.register_function('bump', bump)
redis.register_function{function_name = 'peek', callback = peek, flags = {'no-writes'}, description = 'Looks.'}
"""


def test_functions(client, server):
    assert client.function_load(LIBRARY) == "counters"
    assert client.fcall("bump", 1, "c", 5) == 5 and client.fcall("bump", 1, "c") == 6
    assert client.fcall_ro("peek", 1, "c") == "6"
    with pytest.raises(redis.ResponseError):
        client.fcall_ro("bump", 1, "c")
    with pytest.raises(redis.ResponseError, match="already exists"):
        client.function_load(LIBRARY)
    assert client.function_load(LIBRARY, replace=True) == "counters"
    binary = redis.Redis(port=server.port)
    payload = binary.function_dump()
    client.function_flush()
    assert client.function_list() == []
    assert client.function_restore(payload) and client.fcall("bump", 1, "c") == 7
    with pytest.raises(redis.ResponseError, match="already exists"):
        client.function_restore(payload)
    assert client.function_restore(payload, "REPLACE") and client.function_restore(payload, "FLUSH")
    client.function_delete("counters")
    binary.close()


def test_time_stands_still(client):
    wait = "local began = os.clock() repeat until os.clock() - began > 0.002"
    same = f"local one = redis.call('TIME') {wait} local other = redis.call('TIME') return {{one, other}}"
    times = [client.eval(same, 0) for _ in range(3)]
    assert all(one == other for one, other in times) and times[0] != times[1] != times[2]
    pipeline = client.pipeline(transaction=True)
    for _ in range(2):
        pipeline.time()
        pipeline.eval(same, 0)
        [at, (one, other), *_] = pipeline.time().execute()
        assert [str(number) for number in at] == one == other


def test_many_libraries(client):
    """Loading and calling a function take the same time whatever the number of libraries."""
    count = 3000

    def code(library, function, value):
        return f"#!lua name={library}\nredis.register_function('{function}', function() return {value} end)"

    pipeline = client.pipeline(transaction=False)
    for number in range(count):
        pipeline.function_load(code(f"many{number}", f"F{number}", number))
    pipeline.execute()
    for _ in range(2):
        for number in (0, count // 2, count - 1):
            assert client.fcall(f"f{number}", 0) == number
        client.function_load(code("many0", "f0", 0), replace=True)
    with pytest.raises(redis.ResponseError, match="Function f7 already exists"):
        client.function_load(code("other", "f7", 0))
    client.function_load(code("many7", "g7", 7), replace=True)
    with pytest.raises(redis.ResponseError, match="Function not found"):
        client.fcall("F7", 0)
    client.function_load(code("other", "f7", -7))
    client.function_delete("many7")
    assert client.fcall("F7", 0) == -7
    client.function_flush()
    assert client.function_list() == []
