"""Scenarios in which a primary or a replica becomes something else, or ends."""

import re
import signal
import subprocess

from support.replication import log_has, until

SCENARIOS = {}


def scenario(**options):
    """Registers a scenario; `primary` and `replica` are options of these servers."""

    def register(function):
        SCENARIOS[function.__name__] = function, options
        return function

    return register


@scenario()
def replicaof(stage):
    """Good and bad arguments, twice, and inside MULTI."""
    stage.r("REPLICAOF", "REPLICAOF a", "REPLICAOF a b c", "REPLICAOF a b", "REPLICAOF a -1", "REPLICAOF a 65536")
    stage.r("REPLICAOF NO", "REPLICAOF NO ONE", "SLAVEOF no one", "REPLICAOF 127.0.0.1 $PRIMARY")
    stage.sync()
    stage.r("REPLICAOF 127.0.0.1 $PRIMARY", "SLAVEOF 127.0.0.1 $PRIMARY", "REPLICAOF 127.0.0.2 x")
    stage.note("syncs", stage.primary.stat("sync_full"))
    stage.r("MULTI", "REPLICAOF NO ONE", "SET k v", "EXEC", "GET k")
    stage.r("MULTI", "REPLICAOF 127.0.0.1 $PRIMARY", "GET k", "EXEC")
    stage.sync()
    stage.r("GET k", "MULTI", "SET k v", "EXEC")
    stage.r("EVAL \"return redis.call('REPLICAOF','NO','ONE')\" 0", "REPLICAOF NO ONE", "REPLICAOF NO ONE")
    stage.note("role", stage.replica.info()["role"])
    stage.r("SLAVEOF 127.0.0.1 $PRIMARY")
    stage.sync()


@scenario()
def as_sentinel_does(stage):
    """What Sentinel sends in one transaction, with clients of both sorts connected."""
    stage.link()
    with (
        stage.replica.connect() as sentinel,
        stage.replica.connect() as client,
        stage.replica.connect() as subscriber,
    ):
        subscriber.call("SUBSCRIBE", "c")
        client.call("GET", "k")
        commands = ["MULTI", "SLAVEOF NO ONE", "CONFIG REWRITE", "CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"]
        stage.r(*commands, connection=sentinel)
        sentinel.send("EXEC")
        replies = sentinel.read().plain()
        stage.note("EXEC", [*replies[:2], replies[2] >= 1, *replies[3:]])
        client.read_until_closed()
        subscriber.read_until_closed()
        stage.r("PING", "SET k v", connection=sentinel)
        stage.r("MULTI", "SLAVEOF 127.0.0.1 $PRIMARY", "CONFIG REWRITE", connection=sentinel)
        stage.note("EXEC", sentinel("EXEC").plain())
    stage.replica.forget_connection()
    stage.sync()
    lines = stage.replica.config_path.read_text().splitlines()
    stage.note("rewritten", [line for line in lines if line.startswith(("replicaof", "slaveof", "port"))])


@scenario()
def rewritten_configuration(stage):
    def rewritten(what):
        stage.r("CONFIG REWRITE")
        lines = stage.replica.config_path.read_text().splitlines()
        names = ("replicaof", "slaveof", "masterauth", "replica-", "repl-")
        # redis-server adds lines in an order that differs from start to start.
        stage.note(what, sorted(line for line in lines if line.startswith(names)))

    stage.link()
    stage.r("CONFIG GET replicaof", "CONFIG GET slaveof", "CONFIG SET replicaof x", "CONFIG GET slave-read-only")
    rewritten("of a replica")
    stage.replica.restart()
    stage.sync()
    stage.replica.config(masterauth="x y", replica_priority=5, repl_diskless_load="swapdb")
    stage.replica.promote()
    stage.r("CONFIG GET replicaof")
    rewritten("of a primary")
    stage.replica.restart()
    stage.note("role", stage.replica.info()["role"])


WAITING = [
    "BLPOP l 0", "BRPOP l 0", "BLMOVE l m LEFT LEFT 0", "BLMPOP 0 1 l LEFT", "BZPOPMIN z 0", "BZMPOP 0 1 z MIN",
    "XREAD BLOCK 0 STREAMS x $", "XREADGROUP GROUP g c BLOCK 0 STREAMS x >", "WAIT 5 0", "WAITAOF 0 5 0",
]  # fmt: skip


@scenario(replica={"appendonly": "yes"})
def clients_that_wait(stage):
    """What becomes of clients that wait when their server gets a replica."""
    stage.replica.call("XGROUP", "CREATE", "x", "g", "$", "MKSTREAM")
    connections = []
    for number, command in enumerate(WAITING):
        connection = stage.replica.connect()
        if command.startswith("WAIT"):
            connection.call("SET", "k", "v")
        connection.send(*command.split())
        connections.append((command, connection))
        stage.until_figure(stage.replica, "blocked_clients", str(number + 1), "clients")
    stage.replica.follow(stage.primary)
    stage.sync()
    waiting = int(stage.replica.info("clients")["blocked_clients"])
    stage.note("still waiting", waiting)
    listed = stage.replica.call("CLIENT", "LIST").decode()
    blocked = re.findall(r" addr=\S+:(\d+) .* flags=\S*b", listed)
    for command, connection in connections:
        is_blocked = str(connection.socket.getsockname()[1]) in blocked
        stage.note(command, "waits on" if is_blocked else connection.read().raw)
        connection.close()


@scenario()
def readers_that_wait_on_a_replica(stage):
    stage.link()
    with stage.replica.connect() as reader:
        reader.send("XREAD", "BLOCK", 0, "STREAMS", "x", "$")
        stage.until_figure(stage.replica, "blocked_clients", "1", "clients")
        stage.replica.promote()
        stage.replica.call("XADD", "x", "1-1", "a", "b")
        stage.note("reader", reader.read().raw)


@scenario()
def failover_refused(stage):
    stage.p("FAILOVER", "FAILOVER ABORT", "FAILOVER TO 127.0.0.1 1", "FAILOVER TO 127.0.0.1 1 FORCE")
    stage.link()
    stage.r("FAILOVER", "FAILOVER ABORT")
    stage.p("FAILOVER TO 127.0.0.1 1", "FAILOVER TO 127.0.0.1 1 TIMEOUT 100", "FAILOVER TO 127.0.0.1 $REPLICA FORCE")
    stage.p("FAILOVER TIMEOUT 0", "FAILOVER FORCE", "FAILOVER ABORT", "MULTI", "FAILOVER ABORT", "EXEC")


def changed_places(stage):
    stage.until_figure(stage.primary, "role", "slave")
    stage.until_figure(stage.replica, "role", "master")
    stage.primary, stage.replica = stage.replica, stage.primary
    stage.sync()
    stage.note("failover", stage.replica.info()["master_failover_state"])
    stage.note("syncs", [stage.primary.stat("sync_full"), stage.primary.stat("sync_partial_ok")])
    stage.note("role", stage.replica.call("ROLE")[:4])


@scenario(primary={"repl_ping_replica_period": 3600}, replica={"repl_ping_replica_period": 3600})
def failover(stage):
    """There, and back to a named replica."""
    stage.link()
    stage.p("SET k v", "FAILOVER")
    changed_places(stage)
    stage.p("GET k", "SET k w", "FAILOVER TO 127.0.0.1 $PRIMARY TIMEOUT 10000")
    changed_places(stage)
    stage.p("GET k", "SET k x")
    stage.r("SET k y")


@scenario()
def failover_that_waits(stage):
    """A replica that is stopped holds it up: writes wait, it is aborted, or forced after its time."""
    stage.link()
    stage.replica.suspend()
    try:
        stage.p("SET k v", "FAILOVER")
        stage.note("state", stage.primary.info()["master_failover_state"])
        stage.p("FAILOVER", "GET k", "REPLICAOF 127.0.0.1 1")
        with stage.primary.connect() as writer:
            writer.send("SET", "k", "w")
            stage.until_figure(stage.primary, "blocked_clients", "1", "clients")
            stage.p("FAILOVER ABORT")
            stage.note("the writer", writer.read().raw)
        stage.p("GET k", "FAILOVER ABORT", "SET k x", "FAILOVER TIMEOUT 100")
        stage.until_figure(stage.primary, "master_failover_state", "no-failover")
        stage.p("SET k y")
    finally:
        stage.replica.resume()
    stage.sync()
    stage.r("GET k")


@scenario()
def clients_during_a_failover(stage):
    """Writers that wait get the answer of a replica once it is one; those blocked are told."""
    stage.link()
    with stage.primary.connect() as blocked, stage.primary.connect() as writer:
        blocked.send("BLPOP", "l", 0)
        stage.until_figure(stage.primary, "blocked_clients", "1", "clients")
        stage.replica.suspend()
        try:
            stage.p("SET k v", "FAILOVER")
            writer.send("SET", "k", "w")
            stage.until_figure(stage.primary, "blocked_clients", "2", "clients")
        finally:
            stage.replica.resume()
        stage.note("the writer", writer.read().raw)
        stage.note("the blocked one", blocked.read().raw)
    changed_places(stage)


@scenario()
def shutdown_waits(stage):
    """SHUTDOWN ends once a replica that is behind has caught up, or is aborted, or does not wait when told."""
    stage.link()
    stage.primary.config(shutdown_timeout=60)
    stage.replica.suspend()
    try:
        stage.p("SET k v")
        with stage.primary.connect() as ender, stage.primary.connect() as writer:
            ender.send("SHUTDOWN", "NOSAVE")
            until(lambda: "shutdown_in_milliseconds" in stage.primary.info("server"), "it does not wait")
            stage.note("alive", stage.primary.alive)
            writer.send("SET", "k", "w")
            stage.until_figure(stage.primary, "blocked_clients", "2", "clients")
            stage.p("SHUTDOWN ABORT", "SHUTDOWN ABORT")
            stage.note("who asked", ender.read().raw)
            stage.note("who wrote", writer.read().raw)
        stage.primary.admin().send("SHUTDOWN", "NOSAVE")
    finally:
        stage.replica.resume()
    stage.note("status", stage.primary.wait_exit())
    stage.r("GET k")


@scenario()
def shutdowns_of_many_clients_are_called_off(stage):
    stage.link()
    stage.primary.config(shutdown_timeout=60)
    stage.replica.suspend()
    try:
        stage.p("SET k v")
        enders = [stage.primary.connect() for _ in range(4)]
        for ender in enders:
            ender.send("SHUTDOWN", "NOSAVE")
        stage.until_figure(stage.primary, "blocked_clients", "4", "clients")
        stage.p("SHUTDOWN ABORT")
        for ender in enders:
            stage.note("who asked", ender.read().raw)
            ender.close()
    finally:
        stage.replica.resume()
    stage.p("SET k w", "SHUTDOWN ABORT")


@scenario(primary={"save": "3600 1", "enable_protected_configs": "yes", "shutdown_timeout": 60})
def shutdown_that_fails(stage):
    """Where the dump can not be written after the wait for replicas, writes go on."""
    stage.link()
    folder = stage.primary.directory / "gone"
    folder.mkdir()
    stage.primary.config(dir=str(folder))
    folder.rmdir()
    for number, way in enumerate(("SHUTDOWN", "SIGTERM")):
        stage.replica.suspend()
        with stage.primary.connect() as ender:
            try:
                stage.p("SET k v")
                if way == "SHUTDOWN":
                    ender.send("SHUTDOWN")
                else:
                    stage.primary.process.send_signal(signal.SIGTERM)
                until(lambda: "shutdown_in_milliseconds" in stage.primary.info("server"), "it does not wait")
            finally:
                stage.replica.resume()
            if way == "SHUTDOWN":
                stage.note("who asked", ender.read().raw)
            until(
                lambda number=number: stage.primary.log_text().count("can't exit") > number,
                "it does not say that it failed",
            )
        stage.p("SET k w")
    stage.primary.config(save="")


@scenario()
def shutdown_now(stage):
    stage.link()
    stage.primary.config(shutdown_timeout=60)
    stage.replica.suspend()
    try:
        stage.p("SET k v")
        stage.note("status", stage.primary.shut_down("NOSAVE", "NOW"))
    finally:
        stage.replica.resume()


@scenario(primary={"shutdown_timeout": 1})
def shutdown_gives_up(stage):
    stage.link()
    stage.replica.suspend()
    try:
        stage.p("SET k v")
        stage.note("status", stage.primary.shut_down("NOSAVE"))
        stage.note("told", log_has(stage.primary, "lag"))
    finally:
        stage.replica.resume()


def cli(node, *words, **options):
    return subprocess.run(["redis-cli", "-p", str(node.port), *words], capture_output=True, timeout=60, **options)


@scenario()
def redis_cli_takes_a_dump(stage):
    """`redis-cli --rdb` and `--functions-rdb`, on the primary and on the replica."""
    stage.primary.call("SET", "k", "v")
    stage.primary.call("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)")
    stage.link()
    for node in (stage.primary, stage.replica):
        for option in ("--rdb", "--functions-rdb"):
            path = node.directory / f"taken{option}.rdb"
            done = cli(node, option, str(path))
            stage.note("status", done.returncode)
            reader = stage.start_node("redis", dbfilename=path.name, dir=node.directory)
            stage.note("data", [sorted(reader.call("KEYS", "*")), len(reader.call("FUNCTION", "LIST"))])
            reader.kill()


@scenario()
def redis_cli_as_a_replica(stage):
    """`redis-cli --replica` prints the stream."""
    stage.primary.call("SET", "before", "v")
    path = stage.primary.directory / "stream"
    with open(path, "wb") as output:
        process = subprocess.Popen(
            ["redis-cli", "-p", str(stage.primary.port), "--replica"], stdout=output, stderr=subprocess.DEVNULL
        )
    try:
        until(lambda: b"state=online" in stage.primary.call("INFO", "replication"), "redis-cli does not get online")
        stage.p("SET k v", "LPUSH l a", "DEL k")
        until(lambda: b'"DEL","k"' in path.read_bytes(), lambda: f"the stream is {path.read_bytes()}")
        lines = [line for line in path.read_bytes().splitlines() if line.startswith(b'"')]
        stage.note("stream", [line for line in lines if b"PING" not in line.upper()])
    finally:
        process.kill()
        process.wait()
