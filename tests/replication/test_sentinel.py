"""Sentinel, unchanged, watches a primary and two replicas under load: the primary is killed, stopped or cut off, a
replica takes over, the former primary comes back as a replica, and no write that WAIT 1 confirmed is lost."""

import contextlib
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest
import redis
from redis.sentinel import Sentinel

from support.replication import Node, is_in_sync, until, wait_in_sync
from support.servers import command_line, subject_is_oracle

SUBJECT = "redis" if subject_is_oracle() else "mantissa"
NAME = "watched"
DOWN_AFTER_MS = 1000
FAILOVER_PATIENCE_S = 90


class Watcher(Node):
    """A Sentinel. Its configuration is its own to write."""

    def __init__(self, kind, port_watched):
        self.port_watched = port_watched
        super().__init__(kind)

    def arguments(self, _):
        if not self.config_path.exists():
            lines = [
                f"port {self.port}", f"dir {self.directory}", "bind 127.0.0.1",
                f"sentinel monitor {NAME} 127.0.0.1 {self.port_watched} 2",
                f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}", f"sentinel failover-timeout {NAME} 10000",
                f"sentinel parallel-syncs {NAME} 1",
            ]  # fmt: skip
            self.config_path.write_text("\n".join(lines) + "\n")
        return [*command_line(self.kind), str(self.config_path), "--sentinel"]

    def state(self):
        words = self.call("SENTINEL", "MASTER", NAME)
        return dict(zip(words[::2], words[1::2]))

    def port_of_primary(self):
        return int(self.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])


class Writers:
    """Clients of redis-py that find the primary through the Sentinels; they note which writes WAIT confirmed."""

    key = "key"

    def __init__(self, watchers, threads=3):
        self.watchers, self.confirmed, self.failures = watchers, set(), []
        self.numbers, self.stop = itertools.count(), threading.Event()
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self):
        places = [("127.0.0.1", watcher.port) for watcher in self.watchers]
        found = Sentinel(places, socket_timeout=1.0, sentinel_kwargs={"socket_timeout": 1.0})
        client = found.master_for(NAME, socket_timeout=2.0)
        while not self.stop.is_set():
            number = next(self.numbers)
            try:
                with client.pipeline(transaction=False) as pipeline:
                    pipeline.set(f"key:{number}", number)
                    pipeline.wait(1, 500)
                    stored, replicas = pipeline.execute()
                if stored and replicas >= 1:
                    self.confirmed.add(number)
            except redis.RedisError:
                self.stop.wait(0.05)
            except Exception as failure:
                self.failures.append(failure)
                return

    def wait_for_more(self, count=200):
        wanted = len(self.confirmed) + count
        until(
            lambda: len(self.confirmed) >= wanted,
            lambda: f"writes of {self.key} are not confirmed: {len(self.confirmed)} of {wanted}, {self.failures}",
            patience=FAILOVER_PATIENCE_S,
        )

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)
        assert not self.failures, self.failures


class NodeWriters(Writers):
    """The same with ioredis, in a process of its own."""

    key = "node"
    modules = pathlib.Path(sys.prefix) / "node_modules"

    @classmethod
    def missing(cls):
        """Why there can be none."""
        if not shutil.which("node") or not shutil.which("npm"):
            return "node or npm is missing"
        return None if (cls.modules / "ioredis").is_dir() else f"{cls.modules} has no ioredis: ./test.sh puts it there"

    def __init__(self, watchers):
        script = pathlib.Path(__file__).parent / "sentinel_client.js"
        self.process = subprocess.Popen(
            ["node", str(script), NAME, *(str(watcher.port) for watcher in watchers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"NODE_PATH": str(self.modules)},
        )  # fmt: skip
        super().__init__(watchers, threads=1)

    def run(self):
        for line in self.process.stdout:
            self.confirmed.add(int(line))
        if not self.stop.is_set():
            self.failures.append(f"node ended with {self.process.wait()}")

    def end(self):
        self.stop.set()
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        super().end()
        self.process.wait(30)


@pytest.fixture
def watch(start_node):
    """Starts three Sentinels that know each other and two replicas."""
    watchers = []

    def start(kind, port_watched):
        watchers.extend(Watcher(kind, port_watched) for _ in range(3))
        for watcher in watchers:
            until(
                lambda watcher=watcher: (
                    watcher.state()[b"num-slaves"] == b"2"
                    and watcher.state()[b"num-other-sentinels"] == b"2"
                    and watcher.state()[b"flags"] == b"master"
                ),
                lambda watcher=watcher: f"Sentinel knows {watcher.state()}\n{watcher.log_tail()}",
                patience=FAILOVER_PATIENCE_S,
            )
        return watchers

    yield start
    for watcher in watchers:
        watcher.stop()


def fail(fault, primary, proxy):
    match fault:
        case "killed":
            primary.kill()
        case "stopped":
            primary.suspend()
        case "cut off":
            proxy.stall()


def come_back(fault, primary, proxy):
    match fault:
        case "killed":
            primary.start()
        case "stopped":
            primary.resume()
        case "cut off":
            # What was on its way is lost.
            proxy.cut()
            proxy.resume()


def start_watched(start_node, proxied):
    """A primary and two replicas; where it is `proxied`, all others know it by the port of a proxy."""
    options = {"repl_backlog_size": 1 << 26, "repl_ping_replica_period": 3600}
    primary = start_node(SUBJECT, save="3600 1", **options)
    proxy = proxied(primary) if proxied else None
    if proxy:
        primary.announced_port = proxy.port
        primary.config(replica_announce_port=proxy.port)
    replicas = [start_node(SUBJECT, **options) for _ in range(2)]
    for replica in replicas:
        replica.follow(primary, proxy and proxy.port)
    wait_in_sync(primary, *replicas)
    return primary, replicas, proxy


class Both:
    """Writers of both kinds, where they can be had."""

    def __init__(self, watchers, kinds):
        self.all = [kind(watchers) for kind in kinds]

    def wait_for_more(self):
        for writers in self.all:
            writers.wait_for_more()

    def end(self):
        for writers in self.all:
            writers.end()


def lost_writes(node, writers):
    """Confirmed writes that a node does not have."""
    with node.connect() as connection:
        numbers = sorted(writers.confirmed)
        found = connection.pipeline([("GET", f"{writers.key}:{number}") for number in numbers])
    return [number for number, reply in zip(numbers, found) if reply.value != str(number).encode()]


def settled(watchers, nodes):
    """The port of the node that all Sentinels take for the primary, the node, and the others, if these follow it.
    On a slow machine a Sentinel may elect twice."""
    chosen, *different = {watcher.port_of_primary() for watcher in watchers}
    others = [node for port, node in nodes.items() if port != chosen]
    is_settled = not different and all(is_in_sync(nodes[chosen], node) for node in others)
    return (chosen, nodes[chosen], others) if is_settled else None


@pytest.mark.parametrize(
    "kind, fault", [("redis", "killed"), ("redis", "stopped"), ("redis", "cut off"), ("redis7", "killed")]
)
def test_failover(kind, fault, start_node, watch, make_proxy):
    primary, replicas, proxy = start_watched(start_node, make_proxy if fault == "cut off" else None)
    watchers = watch(kind, proxy.port if proxy else primary.port)
    writers = Both(watchers, [Writers] if NodeWriters.missing() else [Writers, NodeWriters])
    try:
        writers.wait_for_more()
        fail(fault, primary, proxy)
        ports = {replica.port: replica for replica in replicas}
        until(
            lambda: {watcher.port_of_primary() for watcher in watchers} <= set(ports),
            lambda: "no failover:\n" + watchers[0].log_tail(),
            patience=FAILOVER_PATIENCE_S,
        )
        writers.wait_for_more()
        come_back(fault, primary, proxy)
        until(
            lambda: primary.info()["role"] == "slave" and primary.info()["master_link_status"] == "up",
            lambda: f"it does not come back as a replica: {primary.info()}\n{watchers[0].log_tail()}",
            patience=FAILOVER_PATIENCE_S,
        )
        writers.wait_for_more()
    finally:
        primary.resume()
        writers.end()
    chosen, promoted, others = until(
        lambda: settled(watchers, ports | {proxy.port if proxy else primary.port: primary}),
        lambda: "the others do not follow:\n" + watchers[0].log_tail(),
        patience=FAILOVER_PATIENCE_S,
    )
    for node in others:
        assert f"replicaof 127.0.0.1 {chosen}" in node.config_path.read_text().splitlines()
    for watcher in watchers:
        # They publish, and so the stream would never rest.
        watcher.stop()
    wait_in_sync(promoted, *others)
    assert len({node.call("DEBUG", "DIGEST") for node in (promoted, *others)}) == 1
    lost = [(one.key, number) for one in writers.all for number in lost_writes(promoted, one)]
    assert not lost, f"{len(lost)} confirmed writes are lost: {lost[:10]}"
    if NodeWriters.missing():
        pytest.skip(f"all went well, but without ioredis: {NodeWriters.missing()}")
