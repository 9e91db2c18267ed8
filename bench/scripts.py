#!/usr/bin/env python3
"""What scripts cost, beside redis-server, side by side.

    bench/scripts.py [--mantissa PATH] [--redis PATH] [--also PATH] [--rounds N] [--only TEXT]

Medians of rounds by turns: processor time of the server in microseconds for an EVALSHA, sent in batches of 32 over one
connection. The scripts are of the kinds that libraries and applications send: calls alone, a lock, limits of rates,
queues, documents in JSON and MessagePack, and work in Lua itself. `--also` names another build of this server.
"""

import argparse
import json
import os
import statistics
import sys

from servers import Server, add_programs, in_turn, programs

BATCH = 32
COMMANDS = 6400
KEYS = 1000

LOCK = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return 0"""
FIXED_WINDOW = """
local n = redis.call('incr', KEYS[1])
if n == 1 then redis.call('expire', KEYS[1], ARGV[1]) end
return {n, redis.call('ttl', KEYS[1])}"""
SLIDING_WINDOW = """
local now, window, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('zremrangebyscore', KEYS[1], 0, now - window)
local count = redis.call('zcard', KEYS[1])
if count < limit then redis.call('zadd', KEYS[1], now, ARGV[4]) redis.call('pexpire', KEYS[1], window) end
return {count < limit and 1 or 0, limit - count}"""
TOKEN_BUCKET = """
local rate, capacity, now, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local bucket = redis.call('hmget', KEYS[1], 'tokens', 'time')
local tokens, time = tonumber(bucket[1] or capacity), tonumber(bucket[2] or now)
tokens = math.min(capacity, tokens + math.max(0, now - time) * rate)
local allowed = tokens >= wanted
if allowed then tokens = tokens - wanted end
redis.call('hset', KEYS[1], 'tokens', tokens, 'time', now)
redis.call('expire', KEYS[1], math.ceil(capacity / rate) * 2)
return {allowed and 1 or 0, tostring(tokens)}"""
QUEUE = """
local id = redis.call('incr', KEYS[1])
local job = KEYS[2] .. ':' .. id
redis.call('hset', job, 'name', ARGV[1], 'data', ARGV[2], 'timestamp', ARGV[3], 'attempts', 0)
redis.call('lpush', KEYS[2], id)
local next = redis.call('rpop', KEYS[2])
local fields = redis.call('hgetall', KEYS[2] .. ':' .. next)
redis.call('del', KEYS[2] .. ':' .. next)
return fields"""
JSON_UPDATE = """
local session = cjson.decode(redis.call('get', KEYS[1]))
session.visits = session.visits + 1
session.seen = ARGV[1]
local text = cjson.encode(session)
redis.call('set', KEYS[1], text)
return #text"""
PACKED_UPDATE = """
local session = cmsgpack.unpack(redis.call('get', KEYS[1]))
session.visits = session.visits + 1
local text = cmsgpack.pack(session)
redis.call('set', KEYS[1], text)
return #text"""
PATTERNS = """
local fields, names = {}, {}
for name, value in string.gmatch(ARGV[1], '(%w+)=([^;]+)') do fields[name] = value names[#names + 1] = name end
table.sort(names)
local out = {}
for i, name in ipairs(names) do out[i] = string.format('%s:%d', string.upper(name), #fields[name]) end
return table.concat(out, ',')"""
LOOP = "local sum = 0 for i = 1, 1000 do sum = sum + i % 7 end return sum"
SUMS = """
local all, sum = redis.call('zrange', KEYS[1], 0, -1, 'withscores'), 0
for i = 2, #all, 2 do sum = sum + tonumber(all[i]) end
return tostring(sum)"""

SESSION = {
    "id": 123456789, "user": "someone@example.org", "visits": 7, "seen": "2026-11-27T10:00:00Z", "on": True,
    "roles": ["reader", "writer", "owner"], "address": {"city": "São Paulo", "zip": "01310-100", "at": [1.5, -2]},
    "cart": [{"sku": f"sku-{n}", "count": n, "price": 9.99 + n} for n in range(5)],
}
PACK = "redis.call('set', KEYS[1], cmsgpack.pack(cjson.decode(ARGV[1]))) return 1"
TEXT = ";".join(f"name{n}=some value {n}" for n in range(12))


def key(kind, number):
    return f"{kind}:{number * 7919 % KEYS}"


# Name, text, and the keys and arguments of a call.
WORKS = [
    ("nothing", "return 1", lambda n: ([], [])),
    ("GET", "return redis.call('get', KEYS[1])", lambda n: ([key("text", n)], [])),
    ("SET", "return redis.call('set', KEYS[1], ARGV[1])", lambda n: ([key("text", n)], ["v" * 64])),
    ("ten INCRs", "local n for i = 1, 10 do n = redis.call('incr', KEYS[1]) end return n",
     lambda n: ([key("number", n)], [])),
    ("lock", LOCK, lambda n: ([key("lock", n)], [f"owner {n * 7919 % KEYS}", 30000])),
    ("fixed window", FIXED_WINDOW, lambda n: ([key("fixed", n)], [60])),
    ("sliding window", SLIDING_WINDOW, lambda n: ([key("sliding", n)], [10**12 + n * 37, 60000, 100, f"request {n}"])),
    ("token bucket", TOKEN_BUCKET, lambda n: ([key("bucket", n)], [10, 100, 10**9 + n / 100, 1])),
    ("queue", QUEUE, lambda n: (["next", "queue"], ["send mail", json.dumps({"to": n}), 10**12 + n])),
    ("JSON", JSON_UPDATE, lambda n: ([key("json", n)], ["2026-11-27T10:00:01Z"])),
    ("MessagePack", PACKED_UPDATE, lambda n: ([key("packed", n)], [])),
    ("patterns", PATTERNS, lambda n: ([], [TEXT])),
    ("loop of 1000", LOOP, lambda n: ([], [])),
    ("sum of 100 scores", SUMS, lambda n: (["scores"], [])),
]


def fill(server):
    server.call(*(("SET", f"text:{n}", "v" * 64) for n in range(KEYS)))
    server.call(*(("SET", f"json:{n}", json.dumps(SESSION)) for n in range(KEYS)))
    server.call(*(("EVAL", PACK, 1, f"packed:{n}", json.dumps(SESSION)) for n in range(KEYS)))
    server.call(*(("ZADD", "scores", n / 4, f"member {n}") for n in range(100)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--also", type=os.path.abspath, help="another build of this server")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="only scripts with this text in their names")
    options = parser.parse_args()
    started = programs(options)
    if options.also:
        started["also"] = [options.also, "server"]
    servers = [Server(name, command) for name, command in started.items()]
    for server in servers:
        fill(server)
    names = [server.name for server in servers]
    print("| script | " + ", us | ".join(names) + ", us | ratio" + (" | to also" if options.also else "") + " |")
    print("| --- " * (len(names) + 2 + bool(options.also)) + "|")
    for name, text, words in WORKS:
        if options.only not in name:
            continue
        times = {server.name: [] for server in servers}
        for round_number in range(options.rounds + 1):
            for server in in_turn(servers, round_number):
                (sha,) = server.call(("SCRIPT", "LOAD", text))
                calls = (words(round_number * COMMANDS + n) for n in range(COMMANDS))
                commands = [("EVALSHA", sha, len(keys), *keys, *arguments) for keys, arguments in calls]
                times[server.name].append(server.microseconds_each(commands, BATCH))
        # The first round warms up.
        medians = {server: statistics.median(rounds[1:]) for server, rounds in times.items()}
        ratios = [medians["mantissa"] / medians[other] for other in names[1:]]
        row = [f"{medians[server]:.2f}" for server in names] + [f"{ratio:.2f}" for ratio in ratios]
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)
    for server in servers:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
