#!/usr/bin/env python3
"""Replication side by side: a pair of this server and a pair of redis-server, primary and replica.

    bench/replicas.py [--mantissa PATH] [--redis PATH] [--rounds N] [--requests N] [--megabytes N]
                         [--only cost|sync] [--rate N]

cost: processor time of the primary for a pipelined SET of 128 bytes with no replica, one and two; that of a
replica for a SET that it applies; how far the replica was behind meanwhile, at the most; and how long after the last
reply it has applied everything. Behind is the time since the primary had more than the replica has, both looked
at every few milliseconds.

sync: a replica is attached to a primary with so many megabytes, without writes and under a load of pipelined
SETs of 1000 bytes to the keys that are there, --rate a second. By default that is half of what redis-server takes
from one such connection, the same for both pairs. The figures: seconds until the link is up, processor time of the
primary and of its children, the most memory that it takes beside the data, and the latency of SET on one more
connection between the request for the synchronisation and its end. Neither primary gives up a replica for what
waits for it: `client-output-buffer-limit replica` is unlimited. Memory is the growth of the highest resident bytes,
and where the primary forks what its child says that was copied: nothing looks at the pages meanwhile, which would
take time of the processors and delay the primary.

Figures are medians of rounds that alternate between the pairs. --mantissa and --redis may name any two servers.
cost needs redis-benchmark.
"""
import argparse
import bisect
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import threading
import time

from servers import Server, add_programs, encode, in_turn, programs

TICKS = os.sysconf("SC_CLK_TCK")
KEYS = 1_000_000
VALUE_BYTES = 1000
BATCH = 320
FULL_RATE_SECONDS = 3
WAIT_SECONDS_MAX = 300
LAG_LOOK_SECONDS = 0.002
SET_BYTES = 128
SET = ["-P", "32", "-c", "50", "-r", str(KEYS), "SET", "key:__rand_int__", "v" * SET_BYTES]


class Node(Server):
    """A server whose values of INFO can be asked for."""

    def __init__(self, name, command, *options):
        words = ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"]
        words += ["--client-output-buffer-limit", "replica", "0", "0", "0"]
        super().__init__(name, command, *words, *options)

    def offset(self):
        return int(re.search(rb"master_repl_offset:(\d+)", self.call(("INFO", "replication"))[0])[1])

    def follow(self, primary):
        self.call(("REPLICAOF", "127.0.0.1", primary.port))

    def is_linked(self):
        return b"master_link_status:up" in self.call(("INFO", "replication"))[0]

    def has_child(self):
        return bool(open(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read())

    def cpu_seconds(self):
        """User and system time so far, with that of children that have ended, in steps of 10 ms."""
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / TICKS

    def await_sync(self, primary):
        """Waits until the link is up and everything has been applied; returns the seconds since the call."""
        began = time.monotonic()
        while time.monotonic() - began < WAIT_SECONDS_MAX:
            if self.info("master_link_status") == "up" and self.offset() >= primary.offset():
                return time.monotonic() - began
            time.sleep(0.002)
        sys.exit(f"{self.name}: the replica did not get in step: see {self.folder}/log")


def benchmark(primary, requests, arguments=SET):
    words = ["redis-benchmark", "-p", str(primary.port), "-n", str(requests), "-q"] + arguments
    if subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600).returncode != 0:
        sys.exit(f"redis-benchmark failed against {primary.name}")


class LagWatch(threading.Thread):
    """Looks at the offsets of a primary and a replica, as long as it is not told to stop."""

    def __init__(self, primary, replica):
        super().__init__()
        self.primary, self.replica, self.ends = primary, replica, threading.Event()
        self.offsets, self.times, self.longest = [], [], 0.0

    def run(self):
        while not self.ends.wait(LAG_LOOK_SECONDS):
            self.offsets.append(self.primary.offset())
            self.times.append(time.monotonic())
            has = self.replica.offset()
            more = bisect.bisect_right(self.offsets, has)
            if more < len(self.times):
                self.longest = max(self.longest, time.monotonic() - self.times[more])

    def stop(self):
        """The longest lag, in s."""
        self.ends.set()
        self.join()
        return self.longest


def costs(name, command, requests):
    """Microseconds of processor time: the primary's with no, one and two replicas, a replica's; how far that was
    behind in s, at the most and at the end."""
    nodes = [Node(name, command) for _ in range(3)]
    primary, figures = nodes[0], []
    try:
        # All keys are there: a SET that adds one takes longer.
        fill(primary, KEYS, SET_BYTES)
        for count in range(3):
            if count > 0:
                nodes[count].follow(primary)
                nodes[count].await_sync(primary)
            before = [node.cpu_seconds() for node in nodes]
            benchmark(primary, requests)
            rest = nodes[1].await_sync(primary) if count == 1 else 0
            after = [node.cpu_seconds() for node in nodes]
            figures.append((after[0] - before[0]) / requests * 1e6)
            if count == 1:
                applied, applied_after = (after[1] - before[1]) / requests * 1e6, rest
                # Apart from what is measured above: looking takes time as well.
                watch = LagWatch(primary, nodes[1])
                watch.start()
                benchmark(primary, requests)
                longest = watch.stop()
        return (*figures, applied, longest, applied_after)
    finally:
        for node in nodes:
            node.stop()


def probe(port, stop, latencies):
    import socket

    try:
        # It waits for no processor itself.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pass
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    number, found = 0, []
    while not stop.is_set():
        began = time.monotonic()
        connection.sendall(encode(("SET", "probe:%d" % (number % 1000), "w" * 128)))
        connection.recv(64)
        found.append((began, time.monotonic() - began))
        number += 1
        time.sleep(0.0005)
    latencies.put(found)


def batches_of_sets(count):
    """Batches of SETs to random ones of so many keys, made beforehand: the load takes little of the processors."""
    import random

    picker, batches = random.Random(5), []
    for _ in range(100):
        numbers = (picker.randrange(count) for _ in range(BATCH))
        batches.append(b"".join(encode(("SET", "key:%012d" % number, "w" * VALUE_BYTES)) for number in numbers))
    return batches


def write_at(port, batches, rate, stop):
    """Writes at a rate until told to stop, without a limit where that is 0. Returns how many a second."""
    import socket

    connection = socket.create_connection(("127.0.0.1", port))
    stream, began, sent = connection.makefile("rb"), time.monotonic(), 0
    while not stop.is_set():
        connection.sendall(batches[sent // BATCH % len(batches)])
        stream.read(len(b"+OK\r\n") * BATCH)
        sent += BATCH
        ahead = sent / rate - (time.monotonic() - began) if rate else 0
        if ahead > 0:
            time.sleep(ahead)
    return sent / (time.monotonic() - began)


def fill(primary, count, value_bytes=VALUE_BYTES):
    for start in range(0, count, 50_000):
        numbers = range(start, min(start + 50_000, count))
        primary.call(*(("SET", "key:%012d" % number, "v" * value_bytes) for number in numbers))


def full_rate(name, command, count):
    """SETs a second that a primary without replicas takes from one connection."""
    primary, stop = Node(name, command), threading.Event()
    try:
        fill(primary, count)
        threading.Timer(FULL_RATE_SECONDS, stop.set).start()
        return write_at(primary.port, batches_of_sets(count), 0, stop)
    finally:
        primary.stop()


def sync(name, command, megabytes, rate):
    """Seconds of a full synchronisation, the primary's extra bytes as a share of its data, and latencies."""
    primary, replica = Node(name, command), Node(name, command)
    try:
        count = megabytes * 1_000_000 // VALUE_BYTES
        fill(primary, count)
        stop, latencies = multiprocessing.Event(), multiprocessing.Queue()
        workers = [multiprocessing.Process(target=probe, args=(primary.port, stop, latencies))]
        if rate:
            load = (primary.port, batches_of_sets(count), rate, stop)
            workers.append(multiprocessing.Process(target=write_at, args=load))
        for worker in workers:
            worker.start()
        time.sleep(1)
        base, forks = primary.highest_resident_bytes(resets=True), False
        began, cpu_before = time.monotonic(), primary.cpu_seconds()
        replica.follow(primary)
        while not replica.is_linked():
            forks |= primary.has_child()
            if time.monotonic() - began > WAIT_SECONDS_MAX:
                sys.exit(f"{name}: the replica did not get in step: see {replica.folder}/log")
            time.sleep(0.005)
        linked = time.monotonic() - began
        if primary.info("sync_full") != "1":
            sys.exit(f"{name}: the synchronisation began anew: see {primary.folder}/log")
        extra = primary.highest_resident_bytes() - base
        stop.set()
        found = sorted(took for asked, took in latencies.get() if began <= asked <= began + linked)
        for worker in workers:
            worker.join()
        while primary.has_child():
            time.sleep(0.01)
        cpu = primary.cpu_seconds() - cpu_before
        extra += int(primary.info("rdb_last_cow_size")) if forks else 0
        at = lambda share: found[min(len(found) - 1, int(len(found) * share))] * 1e3
        return linked, cpu, extra / base * 100, at(0.5), at(0.999), found[-1] * 1e3
    finally:
        primary.stop()
        replica.stop()


def table(title, columns, measure, commands, rounds):
    figures = {name: [] for name in commands}
    for round_number in range(rounds):
        order = list(commands.items())
        for name, command in in_turn(order, round_number):
            figures[name].append(measure(name, command))
    print(f"\n{title}\n\n| figure | mantissa | redis | ratio |\n| --- | --- | --- | --- |")
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in figures.items()}
    for at, column in enumerate(columns):
        own, rival = medians["mantissa"][at], medians["redis"][at]
        print(f"| {column} | {own:.3f} | {rival:.3f} | {own / rival if rival else float('nan'):.2f} |", flush=True)
    return medians


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=2_000_000)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--only", choices=["cost", "sync"])
    parser.add_argument("--rate", type=int, help="SETs a second during a synchronisation")
    options = parser.parse_args()
    commands = programs(options)
    if options.only != "sync":
        columns = [f"primary, {count} replicas, us/SET" for count in range(3)]
        columns += ["replica, us/SET", "longest lag, s", "replica has all after, s"]
        measure = lambda name, command: costs(name, command, options.requests)
        table("Processor time", columns, measure, commands, options.rounds)
    if options.only != "cost":
        columns = ["link up, s", "primary, processor s", "memory beside the data, %", "SET p50, ms", "SET p99.9, ms"]
        columns += ["SET longest, ms"]
        count = options.megabytes * 1_000_000 // VALUE_BYTES
        load = options.rate or int(full_rate("redis", commands["redis"], count) / 2)
        for rate in (0, load):
            measure = lambda name, command: sync(name, command, options.megabytes, rate)
            table(f"Full sync, {rate} SET/s meanwhile", columns, measure, commands, options.rounds)


if __name__ == "__main__":
    main()
