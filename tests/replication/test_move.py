"""Moving from another server without stopping: this server becomes its replica, clients move, it is promoted, and no
confirmed write is missing or done twice."""

import itertools
import threading

import pytest
import redis

from support.filling import fill
from support.replication import expect_same_data, stand_in, until, wait_in_sync, wanted
from support.waiting import PATIENCE_S

MOVES = [("redis", "mantissa"), ("redis7", "mantissa"), ("valkey", "mantissa"), ("mantissa", "redis")]


class Clients:
    """Clients that write to the server that they are told of, and count what was confirmed."""

    def __init__(self, node, count=4):
        self.node, self.failures = node, []
        self.stop = threading.Event()
        self.confirmed = [0] * count
        self.unsure = [0] * count
        self.threads = [threading.Thread(target=self.run, args=(index,), daemon=True) for index in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, index):
        node, client = None, None
        while not self.stop.is_set():
            if node is not self.node:
                node = self.node
                client = redis.Redis(port=node.port, socket_timeout=PATIENCE_S, retry=None)
            try:
                self.write(client, index)
                self.confirmed[index] += 1
            except (redis.ConnectionError, redis.ReadOnlyError):
                # The server has ended, or is not a primary yet: what was sent may not have been done.
                self.unsure[index] += 1
                self.stop.wait(0.01)
            except Exception as failure:
                self.failures.append(failure)
                return

    def write(self, client, index):
        with client.pipeline(transaction=True) as pipeline:
            pipeline.incr(f"moved:count:{index}")
            pipeline.rpush(f"moved:list:{index}", self.confirmed[index])
            pipeline.hincrbyfloat(f"moved:hash:{index}", "sum", 0.5)
            pipeline.execute()

    def wait_for_more(self, count=300):
        before = sum(self.confirmed)
        until(
            lambda: sum(self.confirmed) >= before + count or self.failures,
            lambda: f"clients write no more: {self.confirmed} {self.failures}",
        )
        assert not self.failures, self.failures

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)
        assert not self.failures, self.failures


@pytest.mark.parametrize("kinds", wanted(MOVES))
def test_clients_move(kinds, start_node):
    kinds = stand_in(kinds)
    old, new = start_node(kinds[0]), start_node(kinds[1])
    with old.connect() as connection:
        fill(connection, field_expiry=False)
    clients = Clients(old)
    try:
        clients.wait_for_more()
        new.follow(old)
        until(lambda: new.info()["master_link_status"] == "up", "no link")
        clients.wait_for_more()
        # Reads may move first; a client that writes too early is told so.
        assert new.call("GET", "moved:count:0") is not None
        assert new("SET", "k", "v").text().startswith("READONLY")
        old.call("CLIENT", "PAUSE", 60_000, "WRITE")
        wait_in_sync(old, new)
        expect_same_data(old, new)
        new.promote()
        clients.node = new
        old.shut_down("NOSAVE")
        clients.wait_for_more()
    finally:
        clients.end()
    assert new.info()["role"] == "master"
    for index, confirmed, unsure in zip(itertools.count(), clients.confirmed, clients.unsure):
        count = int(new.call("GET", f"moved:count:{index}"))
        assert confirmed <= count <= confirmed + unsure
        assert new.call("LLEN", f"moved:list:{index}") == count
        assert float(new.call("HGET", f"moved:hash:{index}", "sum")) == count / 2
    assert new.call("GET", "string:0") == b""
