"""A server that is killed at a random moment under load, in each fsync mode, with and without a rewrite under way:
what it had acknowledged is there after a new start, in order, and no transaction is there by half.

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
# A killed process loses what it has not handed to the kernel: what `everysec` writes once a second at the latest.
LOSS_SECONDS_MAX = 2.0
SCRIPT = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[1]) return 1"


class Writer(threading.Thread):
    """A client that writes steps until the server is gone, and remembers when each was acknowledged."""

    def __init__(self, server, number, first):
        super().__init__(daemon=True)
        self.connection = server.connect(timeout=60)
        self.number, self.step = number, first
        self.acknowledged = []  # (step, when)
        self.failure = None

    def run(self):
        try:
            while True:
                self.step += 1
                self.write(self.step)
                self.acknowledged.append((self.step, time.monotonic()))
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


def check(connection, writer, killed, mode):
    """The state of one client's keys is that of a step, and no older than the mode promises."""
    name = f"client:{writer.number}"
    values = connection.call("MGET", f"{name}:step", f"{name}:left", f"{name}:right")
    step, left, right = (int(value or 0) for value in values)
    steps = [int(value) for value in connection.call("LRANGE", f"{name}:list", 0, -1)]
    assert left == right, f"half a transaction: {left} {right}"
    assert steps == list(range(1, len(steps) + 1)), "a gap in what was written"
    # The three parts of a step are written one after the other.
    assert step - 1 <= len(steps) <= step and len(steps) - 1 <= left <= len(steps)
    promised = [step for step, when in writer.acknowledged if mode == "always" or when < killed - LOSS_SECONDS_MAX]
    assert left >= max(promised, default=0), f"{left} is there, {promised[-1]} was acknowledged"
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
        killed = time.monotonic()
        server.kill()
        for writer in writers:
            writer.join()
            assert writer.failure is None, writer.failure
        server.start()
        with server.connect(timeout=60) as connection:
            # What has not been handed over may be missing: the rest goes on from there.
            first = [check(connection, writer, killed, mode) for writer in writers]
            for writer, step in zip(writers, first):
                name = f"client:{writer.number}"
                connection.call("MSET", f"{name}:step", step, f"{name}:left", step, f"{name}:right", step)
