"""A server that is killed at a random moment under load, in each fsync mode, with and without a rewrite under way:
everything that it had acknowledged is there after a new start, in order, and no transaction is there by half. Under
every policy a reply waits until the kernel has what it tells of: only a loss of power costs `everysec` a second.

Each client writes to its own keys, in steps whose numbers grow: a step is a SET and an RPUSH, a transaction that sets
two keys to the same number, or a script that does. So what is there can be told to be a state that was, or not.
"""

import threading
import time

import pytest

from support.resp import Closed
from support.seeds import generator

CLIENTS = 6
KILLS = 4
KILLS_BESIDE_LARGE_WRITES = 6
SCRIPT = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[1]) return 1"


class Writer(threading.Thread):
    """A client that writes steps until the server is gone, and remembers when each was acknowledged."""

    def __init__(self, server, number, first):
        super().__init__(daemon=True)
        self.connection = server.connect()
        self.number, self.step = number, first
        self.acknowledged = 0
        self.failure = None

    def run(self):
        try:
            while True:
                self.step += 1
                self.write(self.step)
                self.acknowledged = self.step
        except (OSError, Closed):
            pass
        except AssertionError as error:
            self.failure = error

    def write(self, step):
        name, call = f"client:{self.number}", self.connection.call
        call("SET", f"{name}:step", step)
        call("RPUSH", f"{name}:list", step)
        if step % 3 == 0:
            call("EVAL", SCRIPT, 2, f"{name}:left", f"{name}:right", step)
        elif step % 3 == 1:
            call("MULTI")
            call("SET", f"{name}:left", step)
            call("SET", f"{name}:right", step)
            call("EXEC")
        else:
            call("MSET", f"{name}:left", step, f"{name}:right", step)


def check(connection, writer):
    """The state of one client's keys is that of a step, and no older than the last one that was acknowledged."""
    name = f"client:{writer.number}"
    values = connection.call("MGET", f"{name}:step", f"{name}:left", f"{name}:right")
    step, left, right = (int(value or 0) for value in values)
    steps = [int(value) for value in connection.call("LRANGE", f"{name}:list", 0, -1)]
    assert left == right, f"half a transaction: {left} {right}"
    assert steps == list(range(1, len(steps) + 1)), "a gap in what was written"
    # The three parts of a step are written one after the other.
    assert step - 1 <= len(steps) <= step and len(steps) - 1 <= left <= len(steps)
    assert left >= writer.acknowledged, f"{left} is there, {writer.acknowledged} was acknowledged"
    return len(steps)


@pytest.mark.parametrize("rewrites", [False, True], ids=["", "while rewriting"])
@pytest.mark.parametrize("mode", ["always", "everysec", "no"])
def test_what_was_acknowledged_survives_a_kill(mode, rewrites, start_server):
    random = generator("kill", mode, rewrites)
    server = start_server(options={"appendonly": "yes", "appendfsync": mode}, workers=2)
    first = [0] * CLIENTS
    for _ in range(KILLS):
        writers = [Writer(server, number, first[number]) for number in range(CLIENTS)]
        for writer in writers:
            writer.start()
        delay = random.uniform(0.05, 0.8)
        if rewrites:
            time.sleep(delay / 2)
            with server.connect() as connection:
                connection("BGREWRITEAOF")
            delay = random.uniform(0, 0.1)
        time.sleep(delay)
        server.kill()
        for writer in writers:
            writer.join()
            assert writer.failure is None, writer.failure
        server.start()
        with server.connect() as connection:
            # What has not been handed over may be missing: the rest goes on from there.
            first = [check(connection, writer) for writer in writers]
            for writer, step in zip(writers, first):
                name = f"client:{writer.number}"
                connection.call("MSET", f"{name}:step", step, f"{name}:left", step, f"{name}:right", step)


def count_and_look(server, key, count):
    """INCRs that are each waited for, while another client looks. Returns the last number that either was told."""
    told = 0
    with server.connect() as writer, server.connect() as reader:
        for _ in range(count):
            writer.send("INCR", key)
            told = max(told, int(reader.call("GET", key) or 0))
            told = max(told, int(writer.read().value))
    return told


@pytest.mark.parametrize("driver", ["io_uring", "epoll"])
@pytest.mark.parametrize("mode", ["everysec", "no"])
def test_what_was_acknowledged_beside_large_writes_survives_a_kill(mode, driver, start_server):
    options = {"appendonly": "yes", "appendfsync": mode, "io-driver": driver}
    server = start_server(options=options, workers=2)
    acknowledged = {}
    for round_number in range(KILLS_BESIDE_LARGE_WRITES):
        key = f"counter:{round_number}"
        large = [server.connect() for _ in range(7)]
        for number, connection in enumerate(large):
            for turn in range(60):
                connection.send("SET", f"large:{number}:{turn}", "x" * 20_000)
        acknowledged[key] = count_and_look(server, key, 200)
        server.kill()
        for connection in large:
            connection.close()
        server.start()
        with server.connect() as connection:
            there = {key: int(connection.call("GET", key) or 0) for key in acknowledged}
        assert there == acknowledged


@pytest.mark.parametrize("driver", ["io_uring", "epoll"])
def test_a_killed_server_accepts_nobody(driver, start_server):
    """Once the process has been waited for its port is closed: supervisors take a server for alive that accepts."""
    server = start_server(options={"io-driver": driver}, workers=2)
    for _ in range(KILLS):
        connections = [server.connect() for _ in range(20)]
        assert all(connection("PING").text() == "PONG" for connection in connections)
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        for connection in connections:
            connection.close()
        server.start()
