#!/usr/bin/env python3
"""Measures values on disk: data four times as large as memory, used by a zipfian distribution, beside a server that
has all of it in memory; reads of values that are on disk, beside fio; what a value on disk takes of memory.

    cargo build --profile fast && bench/tiering.py target/fast/mantissa [--keys 400000] [--rounds 5] [--folder .]
        [--skews 0.99,1.2] [--policy allkeys-lfu]

Medians of alternating rounds. Both servers run at the same time, and only one of them has work. The load comes from
`mantissa benchmark` with 20 connections. Reads of values on disk go through the page cache here, as they do in use;
fio reads its file past it, with as many threads as the server reads with.
"""

import argparse
import json
import pathlib
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

from servers import free_port

VALUE_BYTES = 1000
THREADS = 8


class Server:
    """A server that runs until the block ends."""

    def __init__(self, program, folder, *words):
        self.port = free_port()
        words = ["--port", str(self.port), "--dir", folder, "--save", "", *words]
        self.process = subprocess.Popen([program, "server", *words], stdout=subprocess.DEVNULL)
        self.program = program
        for _ in range(200):
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port), 60)
                break
            except OSError:
                time.sleep(0.05)

    def info(self):
        self.socket.sendall(b"INFO everything\r\n")
        text = self.socket.recv(1 << 20)
        size = int(text[1 : text.index(b"\r")])
        while len(text) < size:
            text += self.socket.recv(1 << 20)
        lines = (line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
        return dict(lines)

    def load(self, *words):
        command = [self.program, "benchmark", "-p", str(self.port), "--json", "-d", str(VALUE_BYTES), *words]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    def end(self):
        self.process.terminate()
        self.process.wait()


def measure(server, *words):
    """Commands a second, the 99th percentile in ms, and values read from disk a second."""
    before, began = server.info(), time.monotonic()
    result = server.load("-c", "20", *words)
    seconds, after = time.monotonic() - began, server.info()
    reads = int(after.get("tier_reads", 0)) - int(before.get("tier_reads", 0))
    return result["tests"][0], reads / seconds


def fio(folder):
    command = ["fio", "--name=tier", f"--directory={folder}", "--size=512M", "--bs=4k", "--direct=1", "--rw=randread",
               "--ioengine=psync", f"--numjobs={THREADS}", "--group_reporting", "--time_based", "--runtime=4",
               "--filename=.tier-fio", "--output-format=json"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    (pathlib.Path(folder) / ".tier-fio").unlink(missing_ok=True)
    return result["jobs"][0]["read"]["iops"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--keys", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--folder", default=".")
    parser.add_argument("--skews", default="0.99", help="exponents of zipfian distributions, a list")
    parser.add_argument("--policy", default="noeviction", help="maxmemory-policy, which says what goes to disk")
    options = parser.parse_args()
    program = options.program.resolve()
    keys = ["-r", str(options.keys)]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        memory = Server(program, folder)
        empty = int(memory.info()["used_memory"])
        fill = ["-t", "set", "--keys", "sequential", "-P", "32", "-n", str(options.keys), *keys]
        memory.load(*fill)
        whole = int(memory.info()["used_memory"]) - empty
        limit = empty + whole // 4
        tiered = Server(program, folder, "--maxmemory", str(limit), "--tier-dir", folder,
                        "--tier-max-size", "64gb", "--tier-threads", str(THREADS),
                        "--maxmemory-policy", options.policy)
        try:
            tiered.load(*fill)
            print(f"data {whole / 2**20:.0f} MiB, maxmemory {limit / 2**20:.0f} MiB")
            on_disk = int(tiered.info()["tier_values"])
            print(f"values on disk: {on_disk} of {options.keys}")
            kinds = {
                f"zipfian {skew}, 95 % GET": ["--mix", "get:95,set:5", "--keys", f"zipfian:{skew}"]
                for skew in options.skews.split(",")
            } | {
                "uniform GET": ["-t", "get", "--keys", "uniform"],
            }
            results = {}
            for _ in range(options.rounds):
                for name, words in kinds.items():
                    for where, server in (("memory", memory), ("tiered", tiered)):
                        words_now = [*words, *keys, "--duration", str(options.seconds)]
                        results.setdefault((name, where), []).append(measure(server, *words_now))
                if shutil.which("fio"):
                    results.setdefault("fio", []).append(fio(options.folder))
            for name in kinds:
                rates = {}
                for where in ("memory", "tiered"):
                    rounds = results[name, where]
                    rates[where] = statistics.median(round[0]["rps"] for round in rounds)
                    p99 = statistics.median(round[0]["latency_ms"]["p99"] for round in rounds)
                    reads = statistics.median(round[1] for round in rounds)
                    print(f"{name}, {where}: {rates[where]:,.0f}/s, p99 {p99:.3f} ms, {reads:,.0f} reads from disk/s")
                print(f"  ratio {rates['tiered'] / rates['memory']:.2f}")
            if "fio" in results:
                print(f"fio, {THREADS} threads, 4 KiB past the cache: {statistics.median(results['fio']):,.0f} reads/s")
        finally:
            memory.end()
            tiered.end()


if __name__ == "__main__":
    main()
