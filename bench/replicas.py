#!/usr/bin/env python3
"""Replication side by side: a pair of this server and a pair of redis-server, primary and replica.

    bench/replicas.py [--mantissa PATH] [--redis PATH] [--rounds N] [--requests N] [--megabytes N]
                         [--only cost|sync]

cost: processor time of the primary for a pipelined SET of 128 bytes with no replica, one and two; that of a
replica for a SET that it applies; and how long after the last reply the replica has applied everything.

sync: a replica is attached to a primary with so many megabytes, without writes and under half of the rate of
pipelined SETs that the primary reached alone: seconds until the link is up and the offsets are the same, the
primary's memory beside the data meanwhile (its highest resident bytes), and the latency of SET on one more
connection.

Figures are medians of rounds that alternate between the pairs. Needs redis-benchmark.
"""
import argparse
import multiprocessing
import statistics
import subprocess
import sys
import threading
import time

from servers import Server, add_programs, encode, programs

KEYS = 1_000_000
VALUE_BYTES = 1000
WAIT_SECONDS_MAX = 300
SET = ["-P", "32", "-c", "50", "-r", str(KEYS), "SET", "key:__rand_int__", "v" * 128]


class Node(Server):
    """A server whose values of INFO can be asked for."""

    def __init__(self, name, command, *options):
        super().__init__(name, command, "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb", *options)

    def offset(self):
        return int(self.info("master_repl_offset"))

    def follow(self, primary):
        self.call(("REPLICAOF", "127.0.0.1", primary.port))

    def await_sync(self, primary):
        """Waits until the link is up and everything has been applied; returns the seconds since the call."""
        began = time.monotonic()
        while time.monotonic() - began < WAIT_SECONDS_MAX:
            if self.info("master_link_status") == "up" and self.offset() >= primary.offset():
                return time.monotonic() - began
            time.sleep(0.002)
        sys.exit(f"{self.name}: the replica did not get in step: see {self.folder}/log")

    def highest_resident_bytes(self, resets=False):
        if resets:
            open(f"/proc/{self.process.pid}/clear_refs", "w").write("5")
        status = open(f"/proc/{self.process.pid}/status").read()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024


def benchmark(primary, requests, arguments=SET):
    words = ["redis-benchmark", "-p", str(primary.port), "-n", str(requests), "-q"] + arguments
    if subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600).returncode != 0:
        sys.exit(f"redis-benchmark failed against {primary.name}")


def costs(name, command, requests):
    """Microseconds of processor time: the primary's with no, one and two replicas, a replica's; the lag in s."""
    nodes = [Node(name, command) for _ in range(3)]
    primary, figures = nodes[0], []
    try:
        benchmark(primary, requests // 4)
        for count in range(3):
            if count > 0:
                nodes[count].follow(primary)
                nodes[count].await_sync(primary)
            before = [node.cpu_seconds() for node in nodes]
            benchmark(primary, requests)
            lag = nodes[1].await_sync(primary) if count == 1 else 0
            after = [node.cpu_seconds() for node in nodes]
            figures.append((after[0] - before[0]) / requests * 1e6)
            if count == 1:
                applied, applied_lag = (after[1] - before[1]) / requests * 1e6, lag
        return (*figures, applied, applied_lag)
    finally:
        for node in nodes:
            node.stop()


def probe(port, stop, latencies):
    import socket

    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    number, found = 0, []
    while not stop.is_set():
        began = time.monotonic()
        connection.sendall(encode(("SET", "probe:%d" % (number % 1000), "w" * 128)))
        connection.recv(64)
        found.append(time.monotonic() - began)
        number += 1
        time.sleep(0.0005)
    latencies.put(found)


def write_at(primary, rate, stop):
    """Writes in batches of 320 at a rate, until told to stop."""
    import random
    import socket

    connection, picker = socket.create_connection(("127.0.0.1", primary.port)), random.Random(5)
    stream, began, sent = connection.makefile("rb"), time.monotonic(), 0
    while not stop.is_set():
        batch = b"".join(
            encode(("SET", "key:%012d" % picker.randrange(KEYS), "w" * VALUE_BYTES)) for _ in range(320)
        )
        connection.sendall(batch)
        stream.read(5 * 320)
        sent += 320
        ahead = sent / rate - (time.monotonic() - began)
        if ahead > 0:
            time.sleep(ahead)


def sync(name, command, megabytes, rate):
    """Seconds of a full synchronisation, the primary's extra bytes as a share of its data, and latencies."""
    primary, replica = Node(name, command), Node(name, command)
    try:
        count = megabytes * 1_000_000 // VALUE_BYTES
        for start in range(0, count, 50_000):
            numbers = range(start, min(start + 50_000, count))
            primary.call(*(("SET", "key:%012d" % number, "v" * VALUE_BYTES) for number in numbers))
        stop, latencies = multiprocessing.Event(), multiprocessing.Queue()
        workers = [multiprocessing.Process(target=probe, args=(primary.port, stop, latencies))]
        if rate:
            workers.append(multiprocessing.Process(target=write_at, args=(primary, rate, stop)))
        for worker in workers:
            worker.start()
        time.sleep(1)
        before = primary.highest_resident_bytes(resets=True)
        highest, ended = [0], threading.Event()

        def watch():
            while not ended.is_set():
                highest[0] = max(highest[0], total_resident_bytes(primary.process.pid))
                time.sleep(0.02)

        watcher = threading.Thread(target=watch)
        base = total_resident_bytes(primary.process.pid)
        watcher.start()
        began, cpu_before = time.monotonic(), primary.cpu_seconds()
        replica.follow(primary)
        while replica.info("master_link_status") != "up":
            time.sleep(0.005)
        linked = time.monotonic() - began
        ended.set()
        watcher.join()
        stop.set()
        found = sorted(latencies.get())
        for worker in workers:
            worker.join()
        extra = (max(highest[0], before) - base) / base
        cpu = primary.cpu_seconds() - cpu_before
        at = lambda share: found[min(len(found) - 1, int(len(found) * share))] * 1e3
        return linked, cpu, extra * 100, at(0.5), at(0.999), found[-1] * 1e3
    finally:
        primary.stop()
        replica.stop()


def total_resident_bytes(pid):
    """Proportional resident bytes of a process and its children."""
    total = 0
    children = open(f"/proc/{pid}/task/{pid}/children").read().split()
    for process in [str(pid), *children]:
        try:
            lines = open(f"/proc/{process}/smaps_rollup").read().splitlines()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    return total


def table(title, columns, measure, commands, rounds):
    figures = {name: [] for name in commands}
    for round_number in range(rounds):
        order = list(commands.items())
        for name, command in order if round_number % 2 == 0 else reversed(order):
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
    parser.add_argument("--rate", type=int, default=60_000, help="SETs a second during a synchronisation")
    options = parser.parse_args()
    commands = programs(options)
    if options.only != "sync":
        columns = [f"primary, {count} replicas, us/SET" for count in range(3)]
        columns += ["replica, us/SET", "replica has all after, s"]
        measure = lambda name, command: costs(name, command, options.requests)
        table("Processor time", columns, measure, commands, options.rounds)
    if options.only != "cost":
        columns = ["link up, s", "primary, processor s", "memory beside the data, %", "SET p50, ms", "SET p99.9, ms"]
        columns += ["SET longest, ms"]
        for rate in (0, options.rate):
            measure = lambda name, command: sync(name, command, options.megabytes, rate)
            table(f"Full sync, {rate} SET/s meanwhile", columns, measure, commands, options.rounds)


if __name__ == "__main__":
    main()
