"""The old process is killed at any moment of an upgrade: one of the two has everything that was acknowledged."""

import os
import signal
import time

import pytest

from support.resp import Closed, Connection
from support.seeds import generator
from support.waiting import eventually
from upgrade.conftest import alive, start_upgrade
from upgrade.test_upgrade import Load

# What the log says of a step of the old process or of the new one; in this order.
STEPS = [
    "begins to take over",
    "Loading DB in memory",
    "Synchronization with replica hand-over",
    "Finished with success",
    "this process serves",
]


def who_serves(port):
    """The number of the process that answers; none if nobody does."""
    try:
        with Connection(("127.0.0.1", port), timeout=5) as connection:
            text = connection.call("INFO", "server").decode()
    except (OSError, Closed):
        return None
    return int(next(line.split(":")[1] for line in text.splitlines() if line.startswith("process_id:")))


def kill_and_check(server, when):
    """Kills the old process when `when` returns, and checks what is left. Returns whether the new one serves."""
    with server.connect() as client:
        client.call("FLUSHALL")
    load = Load(server, 6)
    eventually(lambda: sum(load.counts) >= 300 or load.errors, "nobody is served")
    connection, child = start_upgrade(server)
    try:
        when(child)
        server.kill()
        eventually(lambda: not alive(child) or who_serves(server.port) == child, "the new process hangs")
        serves = alive(child)
        if not serves:
            server.start()
        load.end()
        with server.connect() as client:
            for number, count in enumerate(load.counts):
                found = int(client.call("GET", f"count:{number}") or 0)
                assert count <= found <= count + load.pipeline, (number, serves)
            client.call("SET", "after", "1")
        files = {path.name for path in server.directory.iterdir()}
        assert not [name for name in files if name.startswith("temp-")], files
        return serves
    finally:
        connection.close()
        load.end()
        if alive(child):
            os.kill(child, signal.SIGKILL)


@pytest.fixture
def durable(start_server):
    return start_server(options={"appendonly": "yes", "repl-diskless-sync-delay": "0"}, workers=2)


@pytest.mark.parametrize("step", STEPS)
def test_the_old_process_is_killed_at_a_step(durable, step):
    before = durable.log_text().count(step)

    def when(child):
        eventually(lambda: durable.log_text().count(step) > before, f"never: {step}")

    serves = kill_and_check(durable, when)
    assert serves or step != "this process serves"


def test_the_old_process_is_killed_at_any_moment(durable):
    picker = generator("kills of the old process")
    for _ in range(6):
        moment_s = picker.random() * 0.25
        kill_and_check(durable, lambda child: time.sleep(moment_s))
        if not durable.alive:
            eventually(lambda: who_serves(durable.port) is None, "it still serves")
            durable.start()


@pytest.mark.parametrize("step", STEPS[1:4])
def test_the_new_process_is_killed_at_a_step(durable, step):
    before = durable.log_text().count(step)
    load, process = Load(durable, 6), durable.process.pid
    connection, child = start_upgrade(durable)
    eventually(lambda: durable.log_text().count(step) > before, f"never: {step}")
    os.kill(child, signal.SIGKILL)
    try:
        reply = connection.read()
        goes_on = reply.is_error
    except Closed:
        goes_on = False
    connection.close()
    if not goes_on:
        # It served already, and its clients have gone with it.
        load.end()
        return
    assert "this server goes on" in reply.text()
    assert who_serves(durable.port) == process
    load.stop()
    with durable.connect() as client:
        load.check(client)
