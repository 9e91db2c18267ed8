"""`cluster-emulated`: clients of a cluster use a server and its replica, beside a redis-server with all slots."""

import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import pytest
from redis.cluster import RedisCluster

from support.http import ask
from support.replication import until, wait_in_sync
from support.seeds import run_seed
from support.servers import free_port, subject_is_oracle

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server emulates no cluster")

MODULES = pathlib.Path(sys.prefix) / "node_modules"
REQUESTS = """
CLUSTER INFO
CLUSTER NODES
CLUSTER SLOTS
CLUSTER SHARDS
CLUSTER MYID
CLUSTER LINKS
CLUSTER SAVECONFIG
CLUSTER REPLICAS ID
CLUSTER SLAVES ID
CLUSTER REPLICAS nobody
CLUSTER COUNT-FAILURE-REPORTS ID
CLUSTER COUNT-FAILURE-REPORTS nobody
CLUSTER KEYSLOT a{b}c
CLUSTER KEYSLOT
CLUSTER COUNTKEYSINSLOT 15495
CLUSTER COUNTKEYSINSLOT 1
CLUSTER COUNTKEYSINSLOT -1
CLUSTER COUNTKEYSINSLOT 16384
CLUSTER COUNTKEYSINSLOT x
CLUSTER GETKEYSINSLOT 15495 10
CLUSTER GETKEYSINSLOT 15495 0
CLUSTER GETKEYSINSLOT 15495 -1
CLUSTER GETKEYSINSLOT 16384 1
CLUSTER GETKEYSINSLOT x 1
CLUSTER NOSUCH
READONLY
READWRITE
ASKING
HELLO
"""
ANNOUNCED = (
    {},
    {"cluster-announce-hostname": "a.example"},
    {"cluster-announce-hostname": "a.example", "cluster-preferred-endpoint-type": "hostname"},
    {"cluster-announce-hostname": "a.example", "cluster-preferred-endpoint-type": "unknown-endpoint"},
    {"cluster-preferred-endpoint-type": "hostname"},
    {"cluster-preferred-endpoint-type": "unknown-endpoint"},
    {"cluster-announce-ip": "10.1.2.3", "cluster-announce-port": 7, "cluster-announce-bus-port": 8},
)


def node_of_cluster(start_node, kind, **options):
    name = "cluster-emulated" if kind == "mantissa" else "cluster-enabled"
    node = start_node(kind, **{name: "yes", "cluster-announce-ip": "127.0.0.1"} | options)
    if kind == "redis":
        node.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until(lambda: "cluster_state:ok" in node("CLUSTER", "INFO").text(), "the cluster is up")
    return node


def told(node, words, protocol):
    """A reply without what differs between any two servers."""
    with node.connect(protocol=protocol) as connection:
        name = connection("CLUSTER", "MYID").value.decode()
        raw = connection(*[name if word == "ID" else word for word in words]).raw.decode()
        raw = raw.replace(name, "ID").replace(str(node.port + 10000), "BUS").replace(str(node.port), "PORT")
        raw = re.sub(r"cluster_(my|current)_epoch:\d+", r"cluster_\1_epoch", raw)
        raw = re.sub(r" \d+ connected", " EPOCH connected", raw)
        raw = re.sub(r"\$6\r\nserver.*?mode", "HELLO", raw, flags=re.DOTALL)
        raw = re.sub(r"modules\r\n.*", "modules", raw, flags=re.DOTALL)
        return re.sub(r"^[$=]\d+\r\n|cluster_stats_messages_\w+:\d+\r\n", "", raw)


@pytest.mark.parametrize("options", ANNOUNCED)
def test_a_node_with_all_slots_tells_the_same(start_node, options):
    nodes = [node_of_cluster(start_node, kind, **options) for kind in ("mantissa", "redis")]
    for node in nodes:
        node.call("SET", "a", 1)
    for words, protocol in itertools.product(map(str.split, REQUESTS.strip().splitlines()), (2, 3)):
        ours, theirs = (told(node, words, protocol) for node in nodes)
        assert ours == theirs, words
    chance = random.Random(run_seed())
    for _ in range(300):
        key = "".join(chance.choice("a{}\0\xff") for _ in range(chance.randrange(12))).encode("latin-1")
        slots = {node.call("CLUSTER", "KEYSLOT", key) for node in nodes}
        assert len(slots) == 1, key


def test_nobody_changes_the_cluster(start_node):
    node = node_of_cluster(start_node, "mantissa")
    for words in (["ADDSLOTS", 1], ["MEET", "127.0.0.1", 1], ["RESET"], ["FAILOVER"], ["BUMPEPOCH"], ["FLUSHSLOTS"]):
        assert node("CLUSTER", *words).text().startswith("ERR The cluster is emulated")
    assert node.info("cluster")["cluster_enabled"] == "1" and node.info("server")["redis_mode"] == "cluster"
    # More than a cluster allows.
    node.call("MSET", "a", 1, "b", 2)
    node.call("SELECT", 1)


@pytest.fixture
def shard(start_node):
    primary, replica = (node_of_cluster(start_node, "mantissa") for _ in range(2))
    replica.follow(primary)
    wait_in_sync(primary, replica)
    return primary, replica


def nodes_told(node):
    """The lines of CLUSTER NODES without what differs between nodes."""
    lines = node("CLUSTER", "NODES").text().replace("myself,", "").splitlines()
    return [re.sub(r" 0 \d+ 1 ", " ", line) for line in lines]


def test_both_nodes_tell_the_same(shard):
    primary, replica = shard
    until(lambda: nodes_told(primary) == nodes_told(replica), "both know of each other")
    leader, follower = (line.split() for line in nodes_told(primary))
    assert leader[1:] == [f"127.0.0.1:{primary.port}@{primary.port + 10000}", "master", "-", "connected", "0-16383"]
    assert follower[1:3] == [f"127.0.0.1:{replica.port}@{replica.port + 10000}", "slave"]
    assert follower[3:] == [leader[0], "connected"]
    assert [node("CLUSTER", "MYID").text() for node in shard] == [leader[0], follower[0]]
    slots = [node.call("CLUSTER", "SLOTS") for node in shard]
    assert slots[0] == slots[1] and len(slots[0][0]) == 4


def test_a_replica_sends_clients_to_its_primary(shard):
    primary, replica = shard
    primary.call("SET", "a", 1)
    wait_in_sync(primary, replica)
    moved = b"-MOVED 15495 127.0.0.1:%d\r\n" % primary.port
    with replica.connect() as client:

        def asks(line):
            return client(*line.split(" ")).raw

        requests = ["GET a", "SET a 2", "MGET a b", "EVAL return{1} 1 a", "EVAL_RO return{1} 1 a", "XREAD STREAMS a 0"]
        for line in [*requests, "WATCH a", "BLPOP a 0", "SORT a"]:
            assert asks(line) == moved, line
        for line in ["PING", "EVAL return{1} 0", "DBSIZE", "SPUBLISH a m", "KEYS *"]:
            assert not asks(line).startswith(b"-"), line
        assert asks("FLUSHALL").startswith(b"-READONLY ")
        assert [asks(line) for line in ("MULTI", "GET a")] == [b"+OK\r\n", moved]
        assert asks("EXEC").startswith(b"-EXECABORT ")
        assert asks("READONLY") == b"+OK\r\n"
        assert [asks(line) for line in ("GET a", "SET a 2")] == [b"$1\r\n1\r\n", moved]
        asks("MULTI")
        assert [asks(line) for line in ("GET a", "EXEC")] == [b"+QUEUED\r\n", b"*1\r\n$1\r\n1\r\n"]
        assert asks("READWRITE") == b"+OK\r\n" and asks("GET a") == moved
        assert "errorstat_MOVED" in client("INFO", "errorstats").text()


def test_http_reads_from_a_replica(start_node):
    """Who comes over HTTP is no client of a cluster."""
    primary, replica = (node_of_cluster(start_node, "mantissa", **{"http-port": free_port()}) for _ in range(2))
    primary.call("SET", "a", "value")
    replica.follow(primary)
    wait_in_sync(primary, replica)
    port = replica.options["http-port"]
    assert json.loads(ask(port, "/get/a").content) == {"result": "value"}
    assert json.loads(ask(port, "/set/a/1", method="POST").content)["error"].startswith("MOVED 15495 ")


def test_clients_follow_a_failover(shard):
    primary, replica = shard
    client = RedisCluster(host="127.0.0.1", port=replica.port, read_from_replicas=True)
    ports = {node.port for node in client.get_nodes()}
    assert ports == {primary.port, replica.port}
    for number in range(100):
        client.set(f"key{number}", number)
    with primary.connect() as waiting:
        waiting.send("BLPOP", "a", 0)
        until(lambda: primary.info("clients")["blocked_clients"] == "1", "it waits")
        primary.call("FAILOVER", "TO", "127.0.0.1", replica.port)
        assert waiting.read().raw == b"-MOVED 15495 127.0.0.1:%d\r\n" % replica.port
    until(lambda: replica.info()["role"] == "master", "the replica leads")
    pipeline = client.pipeline()
    for number in range(100):
        pipeline.incr(f"key{number}")
    assert pipeline.execute() == list(range(1, 101))
    assert [node.port for node in client.get_primaries()] == [replica.port]
    client.close()


SCRIPT = """
const Redis = require('ioredis');
(async () => {
  const client = new Redis.Cluster([{ host: '127.0.0.1', port: Number(process.argv[1]) }], { scaleReads: 'slave' });
  await client.set('x', 1);
  while (await client.get('x') !== '1') {}
  const ports = role => client.nodes(role).map(node => node.options.port);
  const listener = new Redis.Cluster([{ host: '127.0.0.1', port: Number(process.argv[1]) }]);
  const heard = new Promise(resolve => listener.on('message', (_, message) => resolve(message)));
  await listener.subscribe('c');
  await client.publish('c', 'm');
  console.log(JSON.stringify([ports('master'), ports('slave'), await heard]));
  client.disconnect();
  listener.disconnect();
})();
"""


@pytest.mark.skipif(not shutil.which("node") or not (MODULES / "ioredis").is_dir(), reason="there is no ioredis")
def test_ioredis(shard):
    primary, replica = shard
    out = subprocess.run(
        ["node", "-e", SCRIPT, str(replica.port)], env=os.environ | {"NODE_PATH": str(MODULES)}, capture_output=True,
        timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(out.stdout) == [[primary.port], [replica.port], "m"]
