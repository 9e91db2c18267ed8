#!/usr/bin/env python3
"""What one client waits for while another reads a large value: this server beside redis-server, or another build.

    bench/long_reads.py [--mantissa PATH] [--redis PATH] [--fields N] [--seconds N] [--rounds N]

One connection asks for HGETALL of a hash, again and again, another for HGET of one of its fields, each millisecond.
Figures are medians of rounds that alternate between the servers: the share of the time in which the second one waits
for longer than 3 ms, the 99th percentile of what it waits, and how many HGETALL are answered a second. Before that,
what others wait at the most for the first HGETALL that a new server gets: a client that is there, and one that comes;
then, with nothing else running, of one HGETALL: when its first bytes come, when all are there, the server's processor
time, and by how much its resident memory rises. `--redis` may name a link to another build of this server whose name
ends in `redis-server`.
"""
import argparse
import socket
import statistics
import threading
import time

from servers import Server, add_programs, encode, in_turn, programs

LONG_SECONDS = 0.003
PAUSE_SECONDS = 0.001
ALONE = 10
VALUE = "value"
COLUMNS = [
    "waits for the first, ms",
    "new client, ms",
    "first bytes, ms",
    "all, ms",
    "processor time, ms",
    "memory, MB",
    "waits longer than 3 ms, % of the time",
    "HGET p99, ms",
    "HGETALL/s",
]


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port))


def read_all(server, reply_bytes, stop, counts):
    with connect(server) as connection:
        while not stop.is_set():
            connection.sendall(encode(("HGETALL", "hash")))
            receive(connection, reply_bytes)
            counts.append(1)


def beside_the_first(server, reply_bytes):
    """The longest waits while a first HGETALL is read, in ms: of a client that is there, and of one that comes."""
    waits = []
    with connect(server) as reader, connect(server) as other:
        reader.sendall(encode(("HGETALL", "hash")))
        thread = threading.Thread(target=receive, args=(reader, reply_bytes))
        thread.start()
        while thread.is_alive():
            times = [time.monotonic()]
            ping(other)
            times.append(time.monotonic())
            with connect(server) as new:
                ping(new)
            times.append(time.monotonic())
            waits.append((times[1] - times[0], times[2] - times[1]))
            time.sleep(PAUSE_SECONDS)
        thread.join()
    return [max(column) * 1e3 for column in zip(*waits)]


def ping(connection):
    connection.sendall(encode(("PING",)))
    assert connection.recv(64) == b"+PONG\r\n"


def receive(connection, count):
    while count > 0:
        count -= len(connection.recv(1 << 20))


def alone(server, reply_bytes):
    """First bytes after and all after, in ms; ms of processor time; MB more."""
    firsts, wholes = [], []
    with connect(server) as connection:
        before, cpu_before = server.highest_resident_bytes(resets=True), server.cpu_seconds()
        for _ in range(ALONE):
            asked = time.monotonic()
            connection.sendall(encode(("HGETALL", "hash")))
            left = reply_bytes - len(connection.recv(1 << 20))
            firsts.append(time.monotonic() - asked)
            receive(connection, left)
            wholes.append(time.monotonic() - asked)
        cpu = (server.cpu_seconds() - cpu_before) / ALONE
    more = server.highest_resident_bytes() - before
    return statistics.median(firsts) * 1e3, statistics.median(wholes) * 1e3, cpu * 1e3, more / 1e6


def measure(name, command, fields, seconds):
    server = Server(name, command)
    try:
        names = ["field:%07d" % number for number in range(fields)]
        for start in range(0, fields, 1000):
            pairs = (word for field in names[start : start + 1000] for word in (field, VALUE))
            server.call(("HSET", "hash", *pairs))
        reply_bytes = len(b"*%d\r\n" % (2 * fields)) + fields * len(encode((names[0], VALUE))[4:])
        figures = *beside_the_first(server, reply_bytes), *alone(server, reply_bytes)
        stop, counts, waits = threading.Event(), [], []
        reader = threading.Thread(target=read_all, args=(server, reply_bytes, stop, counts))
        reader.start()
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            asked = time.monotonic()
            server.call(("HGET", "hash", names[fields // 2]))
            waits.append(time.monotonic() - asked)
            time.sleep(PAUSE_SECONDS)
        stop.set()
        reader.join()
        waits.sort()
        slow = sum(wait for wait in waits if wait > LONG_SECONDS)
        return *figures, slow / seconds * 100, waits[int(len(waits) * 0.99)] * 1e3, len(counts) / seconds
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--fields", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    figures = {}
    for round_number in range(options.rounds):
        order = list(programs(options).items())
        for name, command in in_turn(order, round_number):
            figures.setdefault(name, []).append(measure(name, command, options.fields, options.seconds))
    print("| server | %s |\n|%s" % (" | ".join(COLUMNS), " --- |" * (len(COLUMNS) + 1)))
    for name, rows in figures.items():
        medians = (statistics.median(column) for column in zip(*rows))
        print("| %s | %s |" % (name, " | ".join("%.2f" % median for median in medians)))


if __name__ == "__main__":
    main()
