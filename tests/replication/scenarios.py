"""Scenarios of a primary and a replica that stay what they are."""

import contextlib

from support.replication import RawPrimary, RawReplica, log_has, small_rdb, until
from support.resp import Closed, encode

SCENARIOS = {}


def scenario(**options):
    """Registers a scenario; `primary` and `replica` are options of these servers."""

    def register(function):
        SCENARIOS[function.__name__] = function, options
        return function

    return register


@scenario(primary={"repl_backlog_size": 1 << 20})
def info(stage):
    stage.info(stage.primary, "alone")
    stage.link()
    stage.primary.call("SET", "k", "v")
    stage.sync()
    stage.until_figure(stage.primary, "master_repl_offset", stage.replica.info()["slave_repl_offset"])
    stage.info(stage.primary, "with a replica")
    stage.info(stage.replica, "of the replica")
    below = stage.start_node(stage.replica.kind)
    stage.name(below.port, "BELOW")
    below.follow(stage.replica)
    stage.until_figure(below, "master_link_status", "up")
    until(lambda: b"state=online" in stage.replica.call("INFO", "replication"), "never online")
    stage.info(stage.replica, "of the one in the middle")
    below.kill()
    stage.until_figure(stage.replica, "connected_slaves", "0")
    stage.primary.config(min_replicas_to_write=1)
    until(lambda: stage.primary.info().get("min_slaves_good_slaves") == "1", "no good replica")
    stage.info(stage.primary, "with min-replicas-to-write")
    stage.primary.config(min_replicas_to_write=0)
    stage.replica.config(replica_priority=7, replica_announced="no")
    stage.info(stage.replica, "with priority")
    stage.replica.promote()
    stage.info(stage.replica, "promoted")
    stage.until_figure(stage.primary, "connected_slaves", "0")
    stage.info(stage.primary, "left")
    stage.replica.follow(stage.primary, stage.nobody())
    stage.info(stage.replica, "of nobody")


@scenario(replica={"replica_announce_ip": "127.0.0.9", "replica_announce_port": 4321})
def announced(stage):
    stage.replica.follow(stage.primary)
    stage.until_figure(stage.replica, "master_link_status", "up")
    until(lambda: b"state=online" in stage.primary.call("INFO", "replication"), "never online")
    stage.info(stage.primary, "with a replica that says where it is")
    reply = stage.primary.call("ROLE")
    stage.note("ROLE", reply[2][0][:2])


@scenario()
def role(stage):
    stage.note("alone", stage.primary.call("ROLE"))
    stage.p("ROLE x")
    stage.link()
    kind, offset, replicas = stage.primary.call("ROLE")
    stage.note("primary", [kind, offset == int(stage.primary.info()["master_repl_offset"])])
    stage.note("its replicas", [place[:2] for place in replicas])
    reply = stage.replica.call("ROLE")
    stage.note("replica", [*reply[:4], reply[4] == int(stage.replica.info()["slave_repl_offset"])])
    stage.replica.follow(stage.primary, stage.nobody())
    until(lambda: stage.replica.call("ROLE")[3] in (b"connect", b"connecting"), "not connecting")
    stage.note("of nobody", stage.replica.call("ROLE")[:3])


@scenario()
def states_of_a_sync(stage):
    """ROLE and INFO while a primary is silent, and while its dump comes."""

    def serve(wire):
        wire.handshake()
        until(lambda: goes_on, "nobody lets it go on")
        wire.full_resync()
        wire.send(b"$10000\r\nREDIS0009")
        wire.hold()

    goes_on = []
    with RawPrimary(serve) as raw:
        stage.name(raw.port, "RAW")
        stage.replica.follow(stage.primary, raw.port)
        until(lambda: raw.wires and b"PSYNC" in str(raw.wires[0].asked).encode().upper(), "no PSYNC")
        until(lambda: stage.replica.call("ROLE")[3] == b"handshake", "no handshake")
        stage.note("handshake", stage.replica.call("ROLE"))
        goes_on.append(True)
        until(lambda: stage.replica.call("ROLE")[3] == b"sync", "no sync")
        stage.note("sync", stage.replica.call("ROLE"))
        stage.until_figure(stage.replica, "master_sync_in_progress", "1")
        stage.info(stage.replica, "while the dump comes")
        stage.replica.promote()


@scenario()
def a_paused_replica(stage):
    """What comes from the primary is read and not applied as long as CLIENT PAUSE lasts."""
    stage.link()
    stage.primary.call("SET", "k", "v")
    stage.sync()
    stage.replica.call("CLIENT", "PAUSE", "100000", "WRITE")
    stage.primary.call("SET", "k", "w")
    offset = lambda node, name: node.info()[name]
    is_read = lambda: offset(stage.replica, "slave_read_repl_offset") == offset(stage.primary, "master_repl_offset")
    until(is_read, "it is not read")
    figures = stage.replica.info()
    stage.note("applied", figures["slave_repl_offset"] == figures["slave_read_repl_offset"])
    stage.r("GET k")
    stage.replica.call("CLIENT", "UNPAUSE")
    stage.sync()
    stage.r("GET k")


@scenario(primary={"rdbcompression": "no", "repl_diskless_sync_delay": 60})
def states_of_a_dump(stage):
    """INFO of a primary while a replica waits for a dump, and while it reads nothing of one."""
    stage.primary.call("DEBUG", "POPULATE", 20_000, "filled", 1000)
    for capabilities in (("eof", "psync2"), ("psync2",)):
        with RawReplica(stage.primary, capabilities) as raw:
            raw.port = 4711
            raw.handshake()
            raw.send(encode(["PSYNC", "?", "-1"]))
            if "eof" in capabilities:
                until(lambda: b"wait_bgsave" in stage.primary.call("INFO", "replication"), "it does not wait")
                stage.info(stage.primary, "with one that waits")
                stage.note("ROLE", stage.primary.call("ROLE")[2])
                stage.primary.config(repl_diskless_sync_delay=0)
            until(lambda raw=raw: raw.line().startswith(b"+FULLRESYNC"), "no dump begins")
            if "eof" not in capabilities:
                until(lambda: b"send_bulk" in stage.primary.call("INFO", "replication"), "nothing is sent")
            stage.info(stage.primary, "with one that reads nothing")
            stage.note("ROLE", stage.primary.call("ROLE")[2])
        stage.until_figure(stage.primary, "connected_slaves", "0")


@scenario(replica={"key_load_delay": 500, "loading_process_events_interval_bytes": 1024})
def states_of_a_file(stage):
    """INFO and refusals while the dump is loaded from a file, once the old data are gone."""

    def serve(wire):
        wire.handshake()
        wire.full_resync()
        wire.dump(small_rdb({f"key:{number}": "v" for number in range(2000)}))
        wire.hold()

    with RawPrimary(serve) as raw:
        stage.name(raw.port, "RAW")
        stage.replica.call("SET", "old", "v")
        stage.replica.follow(stage.primary, raw.port)
        stage.until_figure(stage.replica, "loading", "1", "persistence")
        figures = stage.replica.info("persistence")
        stage.note("lines", [name for name in figures if "loading" in name])
        stage.note("values", [figures[name] for name in ("loading", "async_loading", "loading_total_bytes")])
        stage.info(stage.replica, "while the file is loaded")
        stage.r("GET old", "PING", "ROLE", "CONFIG GET replica-priority")
        stage.until_figure(stage.replica, "master_link_status", "up")
        stage.r("GET old", "GET key:1", "DBSIZE")


@scenario(replica={"repl_diskless_load": "swapdb"})
def states_of_a_load(stage):
    """INFO while a second dump of the same history is loaded beside the data, which are served."""

    def serve(wire):
        wire.handshake()
        wire.full_resync()
        is_first = len(raw.wires) == 1
        wire.dump(small_rdb({"old": "v"} if is_first else {f"key:{number}": "v" for number in range(3000)}))
        wire.hold()

    with RawPrimary(serve) as raw:
        stage.name(raw.port, "RAW")
        stage.replica.follow(stage.primary, raw.port)
        stage.until_figure(stage.replica, "master_link_status", "up")
        stage.replica.config(key_load_delay=500)
        if stage.replica.kind == "redis":
            stage.replica.config(loading_process_events_interval_bytes=1024)
        raw.wires[0].close()
        stage.until_figure(stage.replica, "async_loading", "1", "persistence")
        until(lambda: stage.replica.info("persistence")["loading_loaded_bytes"] != "0", "nothing is loaded")
        figures = stage.replica.info("persistence")
        stage.note("lines", [name for name in figures if "loading" in name])
        stage.note("values", [figures[name] for name in ("loading", "async_loading", "loading_total_bytes")])
        stage.info(stage.replica, "while the dump is loaded")
        stage.r("GET old", "GET key:1", "DBSIZE")
        stage.until_figure(stage.replica, "master_link_status", "up")
        stage.r("GET old", "GET key:1", "DBSIZE", "REPLICAOF NO ONE")


@scenario()
def flags_of_clients(stage):
    stage.link()
    for node, kind in ((stage.primary, "replica"), (stage.primary, "slave"), (stage.replica, "master")):
        [line] = node.call("CLIENT", "LIST", "TYPE", kind).splitlines()
        fields = dict(field.split(b"=", 1) for field in line.split(b" "))
        kept = (b"flags", b"user", b"sub", b"multi", b"resp", b"redir", b"name", b"lib-name")
        stage.note(f"{kind} in CLIENT LIST", list(fields))
        stage.note(f"values of {kind}", [(name, fields[name]) for name in kept])
    stage.note("of the other kinds", stage.primary.call("CLIENT", "LIST", "TYPE", "master"))
    stage.note("of the other kinds", stage.replica.call("CLIENT", "LIST", "TYPE", "replica"))
    stage.note("normal", len(stage.primary.call("CLIENT", "LIST", "TYPE", "normal").splitlines()))
    info = stage.primary.info("clients")
    stage.note("counted", [info["connected_clients"], stage.primary.info("stats")["sync_full"]])
    kills = [(stage.p, "replica"), (stage.p, "slave"), (stage.r, "master"), (stage.r, "master")]
    for number, (play, kind) in enumerate(kills):
        play(f"CLIENT KILL TYPE {kind}")
        stage.until_figure(stage.primary, "sync_partial_ok", str(number + 1), "stats")
        stage.sync()
    stage.r("CLIENT KILL TYPE replica")
    stage.p("CLIENT KILL TYPE master", "CLIENT KILL TYPE x")
    stage.note("syncs", stage.primary.stat("sync_full"))


REFUSED = [
    "SET k v", "GET k", "DEL k", "INCR k", "GETEX k", "GETEX k EX 10", "PFCOUNT h", "PFADD h a", "PUBLISH c m",
    "SPUBLISH c m", "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "SELECT 1", "SELECT 0", "EXPIRE k 10", "SORT l",
    "SORT l STORE m",
    "GEORADIUS g 0 0 1 km", "GEORADIUS g 0 0 1 km STORE h", "BLPOP l 0.01", "BLMOVE l m LEFT LEFT 0.01",
    "XREADGROUP GROUP g c STREAMS s >", "XREAD STREAMS s 0", "RESTORE x 0 y", "MIGRATE 127.0.0.1 1 k 0 10",
    "EVAL \"return 1\" 0", "EVAL \"return redis.call('GET','k')\" 1 k",
    "EVAL \"return redis.call('SET','k','v')\" 1 k",
    "EVAL_RO \"return redis.call('SET','k','v')\" 1 k", "EVAL_RO \"return redis.call('GET','k')\" 1 k",
    "EVAL \"return redis.pcall('SET','k','v')\" 1 k", "EVAL \"#!lua\\nreturn 1\" 0",
    "EVAL \"#!lua flags=no-writes\\nreturn redis.call('GET','k')\" 1 k", "SCRIPT LOAD \"return 1\"", "SCRIPT FLUSH",
    "FUNCTION LOAD \"#!lua name=x\\nredis.register_function('f', function() return 1 end)\"", "FUNCTION FLUSH",
    "FUNCTION DELETE lib", "FCALL reads 1 k", "FCALL writes 1 k", "FCALL_RO reads 1 k", "FCALL_RO writes 1 k",
    "WAIT 0 0", "WAITAOF 0 0 0", "CONFIG GET replica-read-only", "SAVE", "COPY k l", "TOUCH k", "OBJECT ENCODING k",
    "MULTI", "GET k", "EXEC", "MULTI", "SET k v", "GET k", "EXEC", "MULTI", "PUBLISH c m", "EXEC", "WATCH k",
    "UNWATCH",
    "FAILOVER", "DEBUG SLEEP 0", "BITFIELD b GET u8 0", "BITFIELD b SET u8 0 1", "BITFIELD_RO b GET u8 0", "SPOP s",
    "HGETEX h EX 1 FIELDS 1 f", "NOSUCH", "SET k", "GEORADIUSBYMEMBER g a 1 km STORE h", "LPUSH", "EXISTS k",
]  # fmt: skip
LIBRARY = """#!lua name=lib
redis.register_function{function_name='reads', callback=function(keys) return redis.call('GET', keys[1]) end,
  flags={'no-writes'}}
redis.register_function('writes', function(keys) return redis.call('SET', keys[1], 'written') end)"""


@scenario()
def readonly(stage):
    stage.primary.call("FUNCTION", "LOAD", LIBRARY)
    stage.primary.call("SET", "k", "value")
    stage.link()
    with stage.replica.connect() as connection:
        stage.r(*REFUSED, connection=connection)
    with stage.replica.connect(protocol=3) as connection:
        stage.r("SET k v", "MULTI", "SET k v", "EXEC", connection=connection)
    stage.note("errors", [stage.replica.info("stats")["unexpected_error_replies"]])
    stage.sync()


STALE = [
    "GET k", "SET k v", "PING", "ECHO x", "INFO server", "ROLE", "SELECT 0", "CONFIG GET maxmemory", "CLIENT ID",
    "TIME",
    "PUBLISH c m", "MULTI", "EXEC", "MULTI", "GET k", "EXEC", "EVAL \"return 1\" 0",
    "EVAL \"#!lua flags=allow-stale\\nreturn 1\" 0",
    "EVAL \"#!lua flags=allow-stale,no-writes\\nreturn redis.call('GET','k')\" 1 k", "SCRIPT LOAD \"return 1\"",
    "SCRIPT EXISTS x", "FUNCTION STATS", "KEYS *", "SCAN 0", "DBSIZE", "RANDOMKEY", "EXISTS k", "TYPE k",
    "OBJECT ENCODING k", "LASTSAVE", "SLOWLOG LEN", "COMMAND COUNT", "DEBUG DIGEST", "MEMORY USAGE k", "WATCH k",
    "UNWATCH",
    "WAIT 0 0", "BLPOP k 0.01", "XREAD BLOCK 1 STREAMS s $", "FLUSHALL", "SUBSCRIBE c", "UNSUBSCRIBE c", "ACL WHOAMI",
    "LATENCY RESET", "SAVE", "SORT l", "CLUSTER INFO", "READONLY", "RESET", "HELLO 2", "AUTH x", "QUIT",
]  # fmt: skip
# HELLO names the modules of redis-server.
UNEVEN = {"HELLO 2", "INFO server", "CLIENT ID", "TIME", "LASTSAVE", "COMMAND COUNT", "MEMORY USAGE k", "SLOWLOG LEN"}


@scenario(replica={"replica_serve_stale_data": "no"})
def masterdown(stage):
    stage.primary.call("SET", "k", "value")
    stage.link()
    stage.r("GET k")
    stage.primary.kill()
    stage.until_figure(stage.replica, "master_link_status", "down")
    with stage.replica.connect() as connection:
        for command in STALE:
            raw = connection(*stage.words(command)).raw
            stage.note(command, raw[:1] if command in UNEVEN or command == "ROLE" else raw)
    stage.replica.config(replica_serve_stale_data="yes")
    stage.r("GET k", "SET k v", "KEYS *")
    stage.replica.config(replica_serve_stale_data="no")
    stage.replica.promote()
    stage.r("GET k", "SET k v")


@scenario(replica={"replica_read_only": "no"})
def a_replica_that_may_be_written(stage):
    stage.primary.call("SET", "k", "value")
    stage.link()
    stage.r("SET own 1", "INCR own", "SET k mine", "GET k", "DBSIZE", "SELECT 3", "LPUSH l a b", "SELECT 0")
    stage.r("SET soon v PX 20", "HSET h f v", "HPEXPIRE h 20 FIELDS 1 f", "MULTI", "SET a 1", "EXEC")
    stage.r("EVAL \"return redis.call('SET','script','v')\" 0", "SET keeps v EX 1000", "PERSIST keeps", "FLUSHDB")
    stage.r("SET soon v PX 20", "SET later v EX 1000")
    stage.until_figure(stage.replica, "slave_expires_tracked_keys", "1", "stats")
    until(lambda: stage.replica.call("DBSIZE") == 1, "what it wrote itself does not expire")
    stage.r("GET soon", "KEYS *")
    stage.primary.call("SET", "k", "theirs")
    stage.sync()
    stage.r("GET k")
    stage.p("DBSIZE", "EXISTS own")


@scenario(primary={"min_replicas_to_write": 1, "min_replicas_max_lag": 10})
def too_few_replicas(stage):
    asked = ["SET k v", "GET k", "DEL k", "MULTI", "SET k v", "GET k", "EXEC", "MULTI", "GET k", "EXEC"]
    asked += ["EVAL \"return redis.call('SET','k','v')\" 1 k", "EVAL \"return redis.call('GET','k')\" 1 k"]
    asked += ["EVAL \"return redis.pcall('SET','k','v')\" 1 k", "EVAL \"return 1\" 0", "PUBLISH c m", "FLUSHALL"]
    asked += ["EVAL \"#!lua flags=no-writes\\nreturn 1\" 0", "EVAL \"#!lua\\nreturn 1\" 0", "BLPOP l 0.01",
        "EXPIRE k 1"]
    asked += ["SCRIPT LOAD \"return 1\"", "CONFIG SET maxmemory 0", "PFCOUNT h", "SELECT 0", "FUNCTION FLUSH",
        "SORT l"]
    stage.p(*asked)
    stage.link()
    until(lambda: stage.primary.info()["min_slaves_good_slaves"] == "1", "no good replica")
    stage.p(*asked)
    stage.primary.config(min_replicas_to_write=2)
    stage.p(*asked)
    stage.primary.config(min_replicas_to_write=1)
    stage.p("SET k v")
    stage.replica.suspend()
    stage.primary.config(min_replicas_max_lag=1)
    until(lambda: stage.primary.info()["min_slaves_good_slaves"] == "0", "a replica that is stopped stays good")
    stage.p("SET k v")
    stage.replica.resume()
    until(lambda: stage.primary.info()["min_slaves_good_slaves"] == "1", "the replica does not get good again")
    stage.p("SET k v")


@scenario()
def wait(stage):
    stage.p("WAIT 0 0", "WAIT 1 10", "WAITAOF 0 1 10", "WAITAOF 1 0 10")
    stage.link()
    stage.p("SET k v", "WAIT 1 10000", "WAIT 2 50", "WAIT 0 0", "WAIT 1 0", "WAIT -1 10", "WAIT a 1", "WAIT 1 -1",
        "WAIT 1")
    stage.p("MULTI", "SET k w", "WAIT 5 0", "EXEC", "WAITAOF 0 0 0", "WAITAOF 1 0 0", "WAITAOF 0 1 50", "WAITAOF 0 1")
    stage.r("WAIT 0 0", "WAIT 1 10", "WAITAOF 0 0 0", "WAITAOF 0 1 10")
    stage.p("EVAL \"redis.call('SET','k','v') return redis.call('WAIT', 5, 0)\" 0")
    with stage.primary.connect() as fresh:
        stage.p("WAIT 1 0", connection=fresh)
    stage.replica.suspend()
    try:
        stage.p("SET k v", "WAIT 1 50", "WAIT 0 50")
        # To a script it counts who has what was written before the client's first write: all replicas.
        stage.p(*(f"EVAL \"return redis.call({words})\" 0" for words in ("'WAIT', 5, 0", "'WAITAOF', 0, 5, 0")))
        stage.p("MULTI", "EVAL \"return redis.call('WAIT', 5, 0)\" 0", "WAIT 5 0", "EXEC")
        stage.primary.admin().send("WAIT", 1, 0)
    finally:
        stage.replica.resume()
    stage.note("WAIT once it goes on", stage.primary.admin().read().raw)


# What is durable is so at once: redis-server would take up to a second by `everysec`.
DURABLE = {"appendonly": "yes", "appendfsync": "always"}


@scenario(primary=DURABLE, replica=DURABLE)
def waitaof(stage):
    stage.link()
    stage.p("SET k v", "WAITAOF 1 1 10000", "SET k w", "WAITAOF 0 1 10000", "WAITAOF 1 2 50")
    stage.p("MULTI", "SET k v", "WAITAOF 1 1 0", "EXEC")
    stage.replica.config(appendonly="no")
    stage.p("SET k x", "WAITAOF 1 1 100")
    below = stage.replica.info()["role"]
    stage.note("role", below)


@scenario(primary={"hz": 100})
def what_has_expired(stage):
    """A replica hides what has expired, and removes it when it is told to."""
    stage.p("DEBUG SET-ACTIVE-EXPIRE 0")
    stage.link()
    stage.p("SET gone v PX 30", "RPUSH lasting a", "SET big 1 PX 30", "SET later v EX 1000")
    stage.applied()
    until(lambda: stage.replica.call("EXISTS", "gone", "big") == 0, "what has expired is seen")
    looks = ["GET gone", "EXISTS gone", "TTL gone", "PTTL gone", "TYPE gone", "STRLEN gone", "DUMP gone",
        "MGET gone big"]
    looks += ["OBJECT ENCODING gone", "EXPIRETIME gone", "GETRANGE gone 0 1", "KEYS gone", "BITCOUNT gone",
        "TOUCH gone"]
    looks += ["EVAL \"return redis.call('GET','gone')\" 1 gone",
        "EVAL_RO \"return redis.call('EXISTS','gone')\" 1 gone"]
    stage.r(*looks)
    stage.r("DBSIZE")
    stage.note("KEYS", sorted(stage.replica.call("KEYS", "*")))
    stage.note("INFO keyspace", stage.replica.info("keyspace")["db0"].split(",avg")[0])
    stage.note("expired", stage.replica.info("stats")["expired_keys"])
    # A look of the primary's removes it on both.
    stage.p("GET gone", "INCR big")
    stage.applied()
    stage.r("DBSIZE", "GET big", "PTTL big")
    stage.note("expired", stage.replica.info("stats")["expired_keys"])
    stage.p("DEBUG SET-ACTIVE-EXPIRE 1", "SET gone2 v PX 30")
    until(lambda: stage.primary.call("DBSIZE") == stage.replica.call("DBSIZE") == 3, "no DEL arrives")


@scenario(primary={"hz": 100})
def fields_that_have_expired(stage):
    stage.p("DEBUG SET-ACTIVE-EXPIRE 0")
    stage.link()
    stage.p("HSET h f v g w", "HPEXPIRE h 30 FIELDS 1 f", "HSET hh f v", "HPEXPIRE hh 30 FIELDS 1 f")
    stage.applied()
    until(lambda: stage.replica.call("HGET", "h", "f") is None, "what has expired is seen")
    until(lambda: stage.replica.call("HGET", "hh", "f") is None, "what has expired is seen")
    stage.r("HGETALL h", "HGET h f", "HTTL h FIELDS 1 f", "HEXISTS h f", "HVALS h", "HGET hh f", "HKEYS hh")
    stage.p("DEBUG SET-ACTIVE-EXPIRE 1")
    until(lambda: stage.primary.call("EXISTS", "hh") == 0, "fields do not expire")
    until(lambda: stage.primary.call("HLEN", "h") == 1, "fields do not expire")
    stage.applied()
    stage.r("HGETALL h", "EXISTS hh", "DBSIZE")
    stage.note("expired", stage.replica.info("stats")["expired_keys"])


def messages(connection, count):
    return [connection.read().plain() for _ in range(count)]


@scenario(replica={"notify_keyspace_events": "KEA"})
def events_and_messages(stage):
    stage.link()
    with stage.replica.connect() as listener, stage.primary.connect() as other:
        listener.call("PSUBSCRIBE", "__keyevent@*", "news*")
        listener.call("SUBSCRIBE", "news")
        other.call("SUBSCRIBE", "news")
        stage.p("SET k v EX 100", "INCR n", "LPUSH l a", "DEL l", "RENAME k j", "EXPIRE j -1", "HSET h f v",
            "SADD s a")
        stage.p("SPOP s", "MULTI", "SET a 1", "DEL a", "EXEC", "SELECT 3", "SET in3 v", "SELECT 0", "ZADD z 1 a")
        stage.p("EVAL \"redis.call('SET','e','1') redis.call('PUBLISH','news','script')\" 0", "FLUSHALL")
        stage.p("XADD x 1-1 a b", "XGROUP CREATE x g 0", "SET soon v PX 5")
        until(lambda: stage.primary.call("EXISTS", "soon") == 0, "it does not expire")
        stage.p("PUBLISH news primary", "SPUBLISH shard x", "SET last v")
        found = []
        while not found or found[-1][-1] != b"last":
            found.append(listener.read().plain())
        stage.note("events", found)
        stage.r("PUBLISH news replica", "PUBSUB NUMSUB news", "PUBSUB NUMPAT")
        stage.note("messages", messages(listener, 2))
        other.send("PING")
        stage.note("at the primary", messages(other, 3))


@scenario()
def clients_of_a_replica_see_changes(stage):
    """WATCH, tracking, and readers that wait, on a replica."""
    stage.primary.call("SET", "k", "v")
    stage.link()
    with stage.replica.connect(protocol=3) as one, stage.replica.connect() as waiting:
        stage.r("CLIENT TRACKING ON", "GET k", "WATCH k", connection=one)
        waiting.send("XREAD", "BLOCK", 0, "STREAMS", "x", "$")
        stage.until_figure(stage.replica, "blocked_clients", "1", "clients")
        stage.p("SET k w", "XADD x 1-1 a b")
        stage.note("woken", waiting.read().raw)
        stage.note("pushed", one.read().raw)
        stage.r("MULTI", "GET k", "EXEC", connection=one)


@scenario()
def scripts_and_functions(stage):
    stage.link()
    sha = stage.primary.call("SCRIPT", "LOAD", "return redis.call('SET', KEYS[1], ARGV[1])").decode()
    stage.p(f"EVALSHA {sha} 1 k v")
    stage.primary.call("FUNCTION", "LOAD", LIBRARY)
    stage.p("FCALL writes 1 f")
    stage.sync()
    stage.r("GET k", "GET f", f"SCRIPT EXISTS {sha}", f"EVALSHA {sha} 1 k v", f"EVALSHA_RO {sha} 1 k v",
        "FCALL_RO reads 1 k")
    stage.libraries(stage.replica)
    stage.p("SCRIPT FLUSH", "FUNCTION DELETE lib")
    stage.sync()
    stage.libraries(stage.replica)
    stage.primary.call("FUNCTION", "LOAD", LIBRARY)
    dump = stage.primary.call("FUNCTION", "DUMP")
    stage.p("FUNCTION FLUSH")
    stage.sync()
    stage.libraries(stage.replica)
    stage.primary.call("FUNCTION", "RESTORE", dump)
    stage.sync()
    stage.libraries(stage.replica)


@scenario()
def memory_limits(stage):
    stage.primary.call("DEBUG", "POPULATE", 10_000, "key", 100)
    stage.link()
    stage.replica.config(maxmemory=1_000_000, maxmemory_policy="allkeys-lru")
    stage.primary.call("DEBUG", "POPULATE", 1000, "more", 100)
    stage.p("SET k v")
    stage.applied()
    stage.r("DBSIZE", "GET k")
    stage.note("evicted", stage.replica.info("stats")["evicted_keys"])
    stage.replica.config(maxmemory_policy="noeviction")
    stage.p("SET k w")
    stage.applied()
    stage.r("GET k", "EVAL \"return redis.call('GET','k')\" 1 k")


@scenario(primary={"requirepass": "secret"}, replica={"masterauth": "wrong"})
def passwords(stage):
    stage.replica.follow(stage.primary)
    until(lambda: log_has(stage.replica, "WRONGPASS"), "a wrong password is not in the log")
    stage.note("link", stage.replica.info()["master_link_status"])
    stage.replica.config(masterauth="secret")
    stage.sync()
    stage.p("ACL SETUSER repl on >pass +psync +replconf +ping")
    stage.replica.config(masteruser="repl", masterauth="pass")
    stage.p("CLIENT KILL TYPE replica")
    stage.sync()
    [line] = stage.primary.call("CLIENT", "LIST", "TYPE", "replica").splitlines()
    stage.note("user", [field for field in line.split() if field.startswith(b"user=")])


@scenario()
def a_small_dump_by_hand(stage):
    """What a primary of few words sends is taken over: a dump, a stream, questions for the offset."""
    offsets = []

    def serve(wire):
        stage.note("asked", sorted({words[0] for words in (wire.handshake(), *wire.asked)}))
        wire.full_resync(1000)
        wire.dump(small_rdb({"k": "v"}))
        sent = wire.stream(["SELECT", "0"], ["SET", "from", "stream"])
        sent_all = sent + wire.stream(["REPLCONF", "GETACK", "*"])
        while not offsets or offsets[-1] < 1000 + sent:
            offsets.append(wire.acknowledged())
        while offsets[-1] < 1000 + sent_all:
            offsets.append(wire.acknowledged())
        offsets.append("end")
        with contextlib.suppress(Closed):
            wire.hold()

    with RawPrimary(serve) as raw:
        stage.replica.follow(stage.primary, raw.port)
        until(lambda: offsets and offsets[-1] == "end", lambda: f"offsets {offsets}")
        stage.r("GET k", "GET from", "DBSIZE")
        stage.note("last offset", offsets[-2])
        stage.replica.promote()
