"""Upgrades under load, with other settings, again and again; and those that fail."""

import os
import signal
import subprocess
import threading
import time

import pytest

from support.resp import Closed
from support.seeds import run_seed
from support.servers import subject_path
from support.waiting import eventually
from upgrade.conftest import start_upgrade


class Load:
    """Clients that count: each increments a key of its own, in pipelines, and checks every reply."""

    def __init__(self, server, clients, pipeline=16):
        self.server, self.pipeline = server, pipeline
        self.counts, self.errors, self.longest = [0] * clients, [], [0.0] * clients
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        try:
            with self.server.connect() as connection:
                while not self.ended.is_set():
                    began = time.monotonic()
                    for _ in range(self.pipeline):
                        connection.send("INCR", f"count:{number}")
                    for _ in range(self.pipeline):
                        reply = connection.read().plain()
                        if reply != self.counts[number] + 1:
                            self.errors.append((number, self.counts[number], reply))
                            return
                        self.counts[number] = reply
                    self.longest[number] = max(self.longest[number], time.monotonic() - began)
        except Exception as error:
            self.errors.append((number, self.counts[number], repr(error)))

    def goes_on(self, before):
        """Whether all clients have got replies since these were the counts."""
        return all(count > former for count, former in zip(self.counts, before)) or self.errors

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(60)

    def stop(self):
        self.end()
        assert not self.errors, self.errors[:3]

    def check(self, connection):
        for number, count in enumerate(self.counts):
            assert int(connection.call("GET", f"count:{number}") or 0) == count, number


@pytest.mark.parametrize("appendonly", ["no", "yes"])
def test_no_command_is_lost_or_done_twice_under_load(start_upgradable, appendonly):
    server = start_upgradable(options={"appendonly": appendonly}, workers=2)
    load = Load(server.server, 20)
    for _ in range(3):
        goal = sum(load.counts) + 2000
        eventually(lambda: sum(load.counts) >= goal or load.errors, "nobody is served")
        server.upgrade()
    load.stop()
    server.await_end_of_former()
    with server.server.connect() as connection:
        load.check(connection)
        if appendonly == "yes":
            connection.call("DEBUG", "LOADAOF")
            load.check(connection)


def test_who_asks_and_has_not_read_all_is_told(start_upgradable):
    """It comes after the others, as any client may on a busy machine."""
    server = start_upgradable()
    before = server.process()
    with server.server.connect(protocol=3) as connection, server.server.connect() as other:
        other.call("CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0")
        other.call("DEBUG", "POPULATE", 300_000)
        connection("SUBSCRIBE", "channel")
        connection.send("MANTISSA.UPGRADE")
        eventually(lambda: "begins to take over" in server.server.log_text(), "no process is started")
        other.call("PUBLISH", "channel", "x" * 50_000_000)
        eventually(lambda: server.process() != before, "no other process serves")
        server.processes.append(server.process())
        server.former.append(before)
        # The other process may have published the message already.
        replies = sorted((connection.read(), connection.read()), key=lambda reply: len(reply.raw))
        assert replies[0].text() == f"OK process {server.processes[-1]} serves"
        assert len(replies[1].raw) > 50_000_000
    server.await_end_of_former()


def test_other_settings(start_upgradable):
    server = start_upgradable(workers=2)
    load = Load(server.server, 5)
    for options in (
        ("--worker-threads", "1", "--io-driver", "epoll"),
        ("--shards", "128", "--worker-threads", "3"),
        ("--databases", "32"),
    ):
        server.upgrade("OPTION", *options)
        with server.server.connect() as connection:
            for name, value in zip(options[::2], options[1::2]):
                assert connection.call("CONFIG", "GET", name[2:])[1].decode() == value
    load.stop()
    with server.server.connect() as connection:
        load.check(connection)


def test_the_command_line(start_upgradable):
    server = start_upgradable()
    before = server.process()
    words = [str(subject_path()), "upgrade", "-p", str(server.server.port), "--", "--maxmemory", "123mb"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    server.processes.append(server.process())
    assert f"process {server.processes[-1]} serves" in done.stdout and server.processes[-1] != before
    with server.server.connect() as connection:
        assert connection.call("CONFIG", "GET", "maxmemory")[1] == str(123 << 20).encode()


def test_what_is_written_afterwards_survives_a_restart(start_upgradable):
    server = start_upgradable(options={"appendonly": "yes"})
    with server.server.connect() as client:
        client.call("SET", "before", "1")
        process = server.upgrade()
        client.call("SET", "after", "1")
    os.kill(process, signal.SIGKILL)
    server.server.process.wait()
    server.server.start()
    with server.server.connect() as client:
        assert client.call("MGET", "before", "after") == [b"1", b"1"]


def test_keys_expire_after_an_upgrade(start_upgradable):
    server = start_upgradable()
    with server.server.connect() as client:
        client.call("SET", "before", "1", "PX", "300")
        server.upgrade()
        client.call("SET", "after", "1", "PX", "1")
        eventually(lambda: client.call("DBSIZE") == 0, "nothing is removed")


def test_the_append_only_file_of_a_later_replica_begins_anew(start_upgradable, start_server):
    primary = start_server(options={"repl-diskless-sync-delay": "0"})
    server = start_upgradable(options={"appendonly": "yes"})
    with primary.connect() as client:
        client.call("SET", "of", "the primary")
    with server.server.connect() as client:
        client.call("SET", "own", "1")
        process = server.upgrade()
        client.call("REPLICAOF", "127.0.0.1", primary.port)
        eventually(lambda: client("GET", "of").value == b"the primary", "it gets no data")
        ended = "Background AOF rewrite finished"
        eventually(lambda: ended in server.server.log_text(), "the log does not begin anew")
    os.kill(process, signal.SIGKILL)
    server.server.process.wait()
    server.server.start()
    with server.server.connect() as client:
        assert client.call("MGET", "of", "own") == [b"the primary", None]


@pytest.mark.parametrize("binary", ["/nonexistent/program", "/bin/false", "/bin/true", "/etc/passwd"])
def test_a_program_that_does_not_take_over(start_upgradable, binary):
    server = start_upgradable(options={"appendonly": "yes"})
    load, before = Load(server.server, 3), server.process()
    with server.server.connect() as connection:
        reply = connection("MANTISSA.UPGRADE", "BINARY", binary)
        assert reply.is_error and "this server goes on" in reply.text()
        assert connection.call("PING") == b"PONG"
    assert server.process() == before
    load.stop()
    server.upgrade()
    with server.server.connect() as connection:
        load.check(connection)


def test_settings_that_are_wrong(start_upgradable):
    server = start_upgradable()
    before = server.process()
    with server.server.connect() as connection:
        reply = connection("MANTISSA.UPGRADE", "OPTION", "--maxmemory", "much")
        assert reply.is_error, reply
        assert connection("MANTISSA.UPGRADE", "NONSENSE").text() == "ERR syntax error"
    assert server.process() == before


def test_the_new_process_is_killed_at_any_moment(start_upgradable):
    """Whichever of the two serves in the end, nothing that was acknowledged is lost, one of them serves, and what
    clients had on its way to the other is not lost either: all of them go on."""
    import random

    picker = random.Random(f"{run_seed()} kills")
    server = start_upgradable(options={"appendonly": "yes"}, workers=2)
    load, is_gone = Load(server.server, 8), False
    for _ in range(60):
        parent = server.process()
        connection, child = start_upgrade(server.server)
        with connection:
            # An upgrade takes from 20 ms on.
            time.sleep(picker.random() * picker.choice([0.03, 0.06, 0.25]))
            log = server.server.log_text()
            if f"process {child} serves" in log:
                server.processes.append(child)
                connection.read()
                continue
            os.kill(child, signal.SIGKILL)
            try:
                reply = connection.read()
            except (Closed, ConnectionError):
                # It had just begun to serve, and with it the clients have gone.
                is_gone = True
                break
            if not reply.is_error:
                # The same, and the answer was on its way.
                is_gone = True
                break
            assert "this server goes on" in reply.text(), reply
        assert server.process() == parent
        before = list(load.counts)
        eventually(lambda: load.goes_on(before), lambda: f"clients get no replies: {before}, {load.counts}")
    if is_gone:
        load.end()
    else:
        load.stop()
        with server.server.connect() as connection:
            load.check(connection)


class Queue:
    """Clients that push numbers to a list, and others that wait for them there."""

    def __init__(self, server, consumers):
        self.server, self.ended = server, threading.Event()
        self.pushed, self.popped, self.errors = 0, [], []
        waiting = [threading.Thread(target=self.run, args=(self.pop,)) for _ in range(consumers)]
        self.threads = [*waiting, threading.Thread(target=self.run, args=(self.push,))]
        for thread in self.threads:
            thread.start()

    def run(self, work):
        try:
            with self.server.connect() as connection:
                work(connection)
        except Exception as error:
            self.errors.append(repr(error))

    def push(self, connection):
        while not self.ended.is_set():
            connection.call("RPUSH", "queue", str(self.pushed))
            self.pushed += 1

    def pop(self, connection):
        while not self.ended.is_set():
            found = connection.call("BLPOP", "queue", "1")
            if found is not None:
                self.popped.append(int(found[1]))

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(60)
        assert not self.errors, self.errors[:3]


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_what_a_blocked_client_is_served_reaches_it(start_upgradable, policy):
    server = start_upgradable(options={"appendonly": "yes", "appendfsync": policy}, workers=2)
    queue = Queue(server.server, 3)
    for _ in range(12):
        goal = queue.pushed + 60
        eventually(lambda: queue.pushed >= goal or queue.errors, "nothing is pushed")
        server.upgrade()
    queue.stop()
    with server.server.connect() as connection:
        left = [int(number) for number in connection.call("LRANGE", "queue", "0", "-1")]
    assert sorted(queue.popped + left) == list(range(queue.pushed))
