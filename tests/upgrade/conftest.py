"""A server that is upgraded: the process changes, the port stays."""

import os
import re
import signal

import pytest

from support.servers import subject_is_oracle
from support.waiting import eventually


def pytest_collection_modifyitems(items):
    if subject_is_oracle():
        for item in items:
            if "tests/upgrade" in str(item.path):
                item.add_marker(pytest.mark.skip(reason="redis-server has no upgrade"))


def start_upgrade(server):
    """Begins an upgrade; returns the connection that waits for its end, and the number of the new process.

    The number is from the log: the old process may have ended before anybody could look for its children.
    """

    def begun():
        return re.findall(r"Upgrade: process (\d+) of .* begins to take over", server.log_text())

    before = len(begun())
    connection = server.connect()
    connection.send("MANTISSA.UPGRADE")
    eventually(lambda: len(begun()) > before, "no process is started")
    return connection, int(begun()[-1])


class Upgraded:
    """The processes of a server, of which the last one serves."""

    def __init__(self, server):
        self.server = server
        self.processes, self.former = [], []

    def process(self):
        with self.server.connect() as connection:
            text = connection.call("INFO", "server").decode()
        return int(next(line.split(":")[1] for line in text.splitlines() if line.startswith("process_id:")))

    def upgrade(self, *words):
        """Upgrades, checks that another process serves, and returns its number."""
        before = self.process()
        with self.server.connect() as connection:
            reply = connection("MANTISSA.UPGRADE", *words)
        assert not reply.is_error, f"{reply}\n{self.server.log_tail()}"
        after = self.process()
        assert after != before and f"process {after} serves" in reply.text()
        self.processes.append(after)
        self.former.append(before)
        return after

    def await_end_of_former(self):
        eventually(lambda: not any(map(alive, self.former)), "a former process does not end")

    def stop(self):
        for process in self.processes:
            if alive(process):
                os.kill(process, signal.SIGKILL)
        self.server.kill()


def alive(process):
    """Whether a process lives and is no zombie."""
    try:
        return open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def start_upgradable(start_server):
    started = []

    def start(**options):
        upgraded = Upgraded(start_server(**options))
        started.append(upgraded)
        return upgraded

    yield start
    for upgraded in started:
        upgraded.stop()
