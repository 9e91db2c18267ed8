#!/usr/bin/env python3
"""Saving and loading side by side: this server and redis-server, on the same data.

    bench/snapshot.py [--mantissa PATH] [--redis PATH] [--rounds N] [--seconds N] [--svg FILE] [--scale F]
    bench/snapshot.py --large-key MEMBERS [--alone] [--seconds N]
    bench/snapshot.py --long-string MEGABYTES [--alone] [--seconds N]

Prints the time of SAVE and of loading (as each server's log states it), medians of rounds that alternate;
then, while clients write as fast as they can and one BGSAVE follows the other, the latency of SET on one
more connection, as a histogram by percentile, and the memory that saving takes beside the data (the
proportional resident bytes of the server and its children). Only what was sent and answered while a save
was under way counts; half as long before, the same is measured without saves.

Each round starts a server twice: after the other one has run, and again as soon as it has stopped. Hosts of
virtual machines take free memory back, and then the first use of it is many times as slow, of huge pages
above all; the second start finds what the server itself has just given back.

With --large-key the same is done with one sorted set, and then one hash, of so many members, to which all
clients write: the latency of these writes, and of SET to another key. With --long-string a string of so many
megabytes changes at its end and within, once for each save, while others are measured.
"""
import argparse
import array
import math
import multiprocessing
import os
import random
import re
import shutil
import statistics
import subprocess
import time

from servers import Server, add_programs, encode, programs
from shapes import values

WORKS = ("SAVE", "load", "load, restarted", "SAVE, CPU", "load, CPU", "load, restarted, CPU")
# How data of one key is made, in the server, and what is then written to it.
LARGE = {
    "sorted set": (
        "redis.call('ZADD', KEYS[1], math.random() * 1e6, string.format('member:%012d', n))",
        ("ZADD", "large", "__rand_int__", "member:__rand_int__"),
    ),
    "hash": (
        "redis.call('HSET', KEYS[1], string.format('field:%012d', n), string.rep('v', 16))",
        ("HSET", "large", "field:__rand_int__", "w" * 16),
    ),
}
SET = ("SET", "key:__rand_int__", "w" * 128)
PERCENTILES = (50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 100)


def dataset(scale):
    picker, texts = random.Random(7), values()
    thousand = lambda count: range(int(count * 1000 * scale))
    for n in thousand(1000):
        yield ("SET", "key:%012d" % n, texts[n % 1000])
    for n in thousand(1000):
        yield ("ZADD", "ranks", repr(picker.random() * 1e6), "member:%012d" % n)
    for n in thousand(100):
        pairs = ((f"field{f}", texts[(n + f) % 1000][:16]) for f in range(10))
        yield ("HSET", "user:%012d" % n, *(part for pair in pairs for part in pair))
    for n in thousand(200):
        yield ("RPUSH", "list", "element:%08d" % n)
    for n in thousand(200):
        yield ("SADD", "set", "member:%012d" % n)
    for n in thousand(200):
        yield ("XADD", "stream", f"{1_700_000_000_000 + n}-0", "sensor", n % 100, "value", repr(picker.random()))


def started(name, command, *options):
    """A server that takes commands."""
    server = Server(name, command, "--enable-debug-command", "yes", *options)
    while True:
        server.connection.sendall(encode(("PING",)))
        if not server.stream.readline().startswith(b"-LOADING"):
            return server
        time.sleep(0.01)


def loaded_server(name, command, dump, *options):
    """A server that has loaded a dump, and the seconds that its log says it took."""
    server = started(name, command, "--dir", os.path.dirname(dump), *options)
    log = open(os.path.join(server.folder, "log"), errors="replace").read()
    return server, float(re.search(r"DB loaded from disk: ([0-9.]+)", log).group(1))


def compare_saving(options, starters, folders):
    times = {(work, name): [] for work in WORKS for name in starters}
    for _ in range(options.rounds):
        for name, command in starters.items():
            for work in ("load", "load, restarted"):
                server, seconds = loaded_server(name, command, os.path.join(folders[name], "dump.rdb"))
                times[work, name].append(seconds)
                times[f"{work}, CPU", name].append(server.cpu_seconds())
                if work == "load":
                    began, cpu_before = time.monotonic(), server.cpu_seconds()
                    server.call(("SAVE",))
                    times["SAVE", name].append(time.monotonic() - began)
                    times["SAVE, CPU", name].append(server.cpu_seconds() - cpu_before)
                server.stop()
    print("| work | mantissa s | redis s | ratio |\n| --- | --- | --- | --- |")
    for work in WORKS:
        own, rival = (statistics.median(times[work, name]) for name in starters)
        print(f"| {work} | {own:.3f} | {rival:.3f} | {own / rival:.2f} |", flush=True)


def probe(port, command, keys, seconds, results):
    """Sends one command after the other and notes when each was answered, and after how long."""
    import socket

    try:
        # What is measured is to be the server's time, and not how long this process waits behind the writers.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        print("(The measuring process has no priority, so that its own waits count as well.)", flush=True)
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    picker = random.Random(11)
    ends, latencies = array.array("d"), array.array("d")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        request = encode([word.replace("__rand_int__", "%012d" % picker.randrange(keys)) for word in command])
        began = time.monotonic()
        connection.sendall(request)
        answer = connection.recv(64)
        ended = time.monotonic()
        assert answer[:1] in b"+:", answer
        ends.append(ended)
        latencies.append(ended - began)
    results.put((ends.tobytes(), latencies.tobytes()))


def family_bytes(process):
    """Proportional resident bytes of a process and its children."""
    children = open(f"/proc/{process}/task/{process}/children").read().split()
    total = 0
    for one in [process, *children]:
        try:
            text = open(f"/proc/{one}/smaps_rollup").read()
            total += int(re.search(r"^Pss: +(\d+)", text, re.M).group(1)) * 1024
        except (OSError, AttributeError):
            pass  # it has ended meanwhile
    return total


def is_saving(server):
    return b"rdb_bgsave_in_progress:1" in server.call(("INFO", "persistence"))[0]


def measure(server, command, keys, seconds, save=lambda: time.sleep(0.1)):
    """When commands were answered, after how long in seconds, and when the saves were that `save` made."""
    results = multiprocessing.Queue()
    watcher = multiprocessing.Process(target=probe, args=(server.port, command, keys, seconds, results))
    windows = []
    watcher.start()
    until = time.monotonic() + seconds - 0.5
    while time.monotonic() < until:
        began = time.monotonic()
        save()
        windows.append((began, time.monotonic()))
        time.sleep(0.1)
    ends, latencies = (array.array("d", part) for part in results.get())
    watcher.join()
    return ends, latencies, windows


def under_load(server, options, keys, command=SET, disturb=lambda: None, probed=None):
    """Latencies of a command in seconds while saves are under way and everybody else sends `command`, those
    without saves, memory before and at most, and saves done. Memory is looked at in a last part, since looking
    disturbs the server. `disturb` is called once in each save."""

    def save():
        server.call(("BGSAVE",))
        disturb()
        while is_saving(server):
            time.sleep(0.05)

    probed = probed or command
    writers = ["redis-benchmark", "-p", str(server.port), "-q", "-c", "20", "-P", "8", "-n", "100000000"]
    writers += ["-r", str(keys), *command]
    load = subprocess.Popen(writers, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    _, quiet, _ = measure(server, probed, keys, options.seconds / 2)
    ends, latencies, windows = measure(server, probed, keys, options.seconds, save)
    before = peak = family_bytes(server.process.pid)
    server.call(("BGSAVE",))
    while is_saving(server):
        peak = max(peak, family_bytes(server.process.pid))
        time.sleep(0.02)
    load.kill()
    load.wait()
    within = lambda end, latency: any(end > since and end - latency < until for since, until in windows)
    chosen = sorted(latency for end, latency in zip(ends, latencies) if within(end, latency))
    return chosen, sorted(quiet), before, peak, len(windows)


def percentile(latencies, percent):
    return latencies[min(len(latencies) - 1, int(len(latencies) * percent / 100))] * 1000


def compare_latency(options, starters, folders):
    keys = int(1_000_000 * options.scale)
    found = {}
    for name, command in starters.items():
        server, _ = loaded_server(name, command, os.path.join(folders[name], "dump.rdb"))
        found[name] = under_load(server, options, keys)
        server.stop()
    show("SET", found)
    if options.svg:
        draw({name: found[name][0] for name in starters}, options.svg)


def show(work, found):
    """Prints what `under_load` returned for each server."""
    columns = lambda cells: " | ".join(cells)
    head = f"{columns(found)} |\n| --- |{' --- |' * len(found)}"
    print(f"\nLatency of {work} while BGSAVE runs under full write load, in ms:\n\n| percentile | {head}")
    for percent in PERCENTILES:
        times = (f"{percentile(latencies, percent):.3f}" for latencies, *_ in found.values())
        print(f"| {percent} | {columns(times)} |")
    print(f"\n| | {head}")
    print(f"| samples | {columns(str(len(latencies)) for latencies, *_ in found.values())} |")
    print(f"| saves | {columns(str(saves) for *_, saves in found.values())} |")
    without = (f"{percentile(quiet, 99.9):.3f}" for _, quiet, *_ in found.values())
    print(f"| 99.9 without saves | {columns(without)} |")
    extra = (f"{(peak / before - 1) * 100:.0f} %" for *_, before, peak, _ in found.values())
    print(f"| extra memory at most | {columns(extra)} |", flush=True)


def compare_large_keys(options, starters):
    """One key that everybody writes to."""
    members, step = options.large_key, 50_000
    for kind, (make, command) in LARGE.items():
        found, others = {}, {}
        for name, start in starters.items():
            server = started(name, start)
            script = f"for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do {make} end"
            for first in range(0, members, step):
                server.call(("EVAL", script, 1, "large", first, min(first + step, members) - 1))
            found[name] = under_load(server, options, members, command)
            others[name] = under_load(server, options, members, command, probed=("SET", "other", "value"))
            server.stop()
        show(f"{command[0]} to a {kind} of {members:,} members", found)
        show(f"SET to another key, beside {command[0]} to a {kind} of {members:,} members,", others)


def compare_long_strings(options, starters):
    """One string that changes while it is saved; others are measured."""
    size = options.long_string << 20
    found = {}
    for name, start in starters.items():
        server = started(name, start)
        server.call(("SETRANGE", "long", size - 1, "x"))
        changes = [("APPEND", "long", "x"), ("SETRANGE", "long", size // 2, "y")]
        found[name] = under_load(server, options, 100_000, SET, lambda: server.call(*changes))
        server.stop()
    show(f"SET while a string of {options.long_string} MB changes,", found)


def draw(latencies, path):
    """Latency over percentile, both logarithmic, as HDR plots have it."""
    width, height, left, bottom = 800, 400, 60, 40
    top_ms = max(values[-1] for values in latencies.values()) * 1000
    decades = math.ceil(math.log10(top_ms / 0.01))
    x = lambda percent: left + (width - left - 20) * min(1, -math.log10(max(1 - percent / 100, 1e-5)) / 5)
    y = lambda ms: height - bottom - (height - bottom - 20) * max(0, math.log10(max(ms, 0.01) / 0.01)) / decades
    size = f'width="{width}" height="{height}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">']
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for decade in range(decades + 1):
        ms = 0.01 * 10**decade
        parts.append(f'<path d="M{left} {y(ms):.1f}H{width - 20}" stroke="#ddd"/>')
        parts.append(f'<text x="4" y="{y(ms) + 4:.1f}">{ms:g} ms</text>')
    for percent in (0, 90, 99, 99.9, 99.99, 99.999):
        parts.append(f'<path d="M{x(percent):.1f} 20V{height - bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(percent) - 14:.1f}" y="{height - 20}">{percent:g} %</text>')
    for number, (name, values) in enumerate(latencies.items()):
        color = ("#06c", "#c30")[number % 2]
        steps = [100 - 100 * 10 ** (-at / 40) for at in range(201)]
        line = " ".join(f"{x(percent):.1f},{y(percentile(values, percent)):.1f}" for percent in steps)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        place = f'x="{left + 20}" y="{36 + 18 * number}" fill="{color}"'
        parts.append(f"<text {place}>{name}: SET while BGSAVE runs</text>")
    open(path, "w").write("\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of SAVE and load")
    parser.add_argument("--seconds", type=float, default=15, help="seconds of load for each server")
    parser.add_argument("--svg", help="where to draw the latencies")
    parser.add_argument("--scale", type=float, default=1, help="a part of the data")
    parser.add_argument("--large-key", type=int, help="members of one key that everybody writes to")
    parser.add_argument("--long-string", type=int, help="megabytes of a string that changes in each save")
    parser.add_argument("--alone", action="store_true", help="without redis-server, with one key only")
    options = parser.parse_args()
    starters = programs(options)
    if options.alone:
        del starters["redis"]
    if options.large_key:
        return compare_large_keys(options, starters)
    if options.long_string:
        return compare_long_strings(options, starters)
    maker = Server("mantissa", starters["mantissa"])
    folders = {name: os.path.join(maker.folder, name) for name in starters}
    batch = []
    for command in dataset(options.scale):
        batch.append(command)
        if len(batch) == 10_000:
            maker.call(*batch)
            batch.clear()
    maker.call(*batch, ("SAVE",))
    dump = os.path.join(maker.folder, "dump.rdb")
    print(f"The dump has {os.path.getsize(dump) / 1e6:.0f} MB.\n", flush=True)
    for folder in folders.values():
        os.mkdir(folder)
        shutil.copy(dump, folder)
    maker.process.kill()
    compare_saving(options, starters, folders)
    compare_latency(options, starters, folders)
    maker.stop()


if __name__ == "__main__":
    main()
