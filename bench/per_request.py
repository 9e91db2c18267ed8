#!/usr/bin/env python3
"""What a GET costs by the way it comes: this server with all workers, with one, and redis-server, side by side.

    bench/per_request.py [--mantissa PATH] [--redis PATH] [--rounds N] [--requests N] [--also PATH]

Medians of rounds in random order: processor time in microseconds (all threads of the server), system calls and
context switches for a request, and requests a second. The counts, unlike times, hardly depend on the processor.
`--also` adds another build of this server. Needs redis-benchmark, and perf with the right to count
raw_syscalls:sys_enter.
"""
import argparse
import os
import random
import statistics
import subprocess
import tempfile
import time

from servers import Server, add_programs, programs

KEYS = 100_000
EVENTS = "raw_syscalls:sys_enter,context-switches"
# Name: arguments of redis-benchmark, and how many times --requests.
WORKS = {
    "50 clients": (["-c", "50"], 1),
    "50 clients, -P 32": (["-c", "50", "-P", "32"], 12),
    "8 clients": (["-c", "8"], 1),
}


def measure(server, arguments, requests, path):
    threads = ",".join(os.listdir(f"/proc/{server.process.pid}/task"))
    load = ["redis-benchmark", "-p", str(server.port), "-n", str(requests), "-q", "-r", str(KEYS), *arguments]
    words = ["perf", "stat", "-x,", "-e", EVENTS, "-t", threads, "-o", path, "--", *load, "GET", "key:__rand_int__"]
    before, began = server.cpu_seconds(), time.monotonic()
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=600)
    seconds = time.monotonic() - began
    cpu = server.cpu_seconds() - before
    counts = [float(line.split(",")[0]) for line in open(path) if line[:1].isdigit()]
    return cpu / requests * 1e6, *(count / requests for count in counts), requests / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=150_000)
    parser.add_argument("--only", help="only the load of this name")
    parser.add_argument("--also", help="another build of this server")
    options = parser.parse_args()
    commands = programs(options)
    commands = {"mantissa": commands["mantissa"], "one worker": commands["mantissa"], "redis": commands["redis"]}
    if options.also:
        commands["also"] = [options.also, "server"]
    extra = {"one worker": ["--worker-threads", "1"]}
    servers = [Server(name, command, *extra.get(name, [])) for name, command in commands.items()]
    for server in servers:
        server.call(*(("SET", "key:%012d" % number, "v" * 128) for number in range(KEYS)))
    print("| GET | server | us | ratio | system calls | context switches | requests/s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    picker = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        for name, (arguments, share) in WORKS.items():
            if options.only not in (None, name):
                continue
            figures = {server.name: [] for server in servers}
            for _ in range(options.rounds):
                for server in picker.sample(servers, len(servers)):
                    row = measure(server, arguments, options.requests * share, os.path.join(folder, "counts"))
                    figures[server.name].append(row)
            medians = {key: [statistics.median(column) for column in zip(*rows)] for key, rows in figures.items()}
            for key, (cpu, calls, switches, rate) in medians.items():
                ratio = cpu / medians["redis"][0]
                counts = f"{calls:.3f} | {switches:.4f} | {rate:,.0f}"
                print(f"| {name} | {key} | {cpu:.2f} | {ratio:.2f} | {counts} |", flush=True)
    for server in servers:
        server.stop()


if __name__ == "__main__":
    main()
