#!/usr/bin/env python3
"""Compares `mantissa probe` with independent programs, in alternating rounds: `probe.c` beside this file (STREAM's
triad and a chain of loads) and, where it is installed, fio (random reads, syncs). Prints the best of all
rounds, which other work on the machine disturbed the least (of random reads and of syncs the best
median), and the ratio of medians.

    cargo build --profile fast && bench/probe.py target/fast/mantissa [--rounds 5] [--folder .]
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

MEMORY_MIB = 384
FILE_MIB = 128


def fio(folder, *words):
    # As a process of its own, its job's syncs end with the kernel's ticks: 4 ms instead of 0.04 ms.
    command = ["fio", "--thread", "--name=probe", f"--directory={folder}", "--filename=.probe-fio",
               f"--size={FILE_MIB}M", "--bs=4k", "--direct=1", "--overwrite=1", "--ioengine=psync",
               "--time_based", "--runtime=3", "--output-format=json", *words]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["jobs"][0]


def median(times):
    return times["percentile"]["50.000000"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default=".")
    options = parser.parse_args()
    ours, theirs = {}, {}

    def note(where, name, value):
        where.setdefault(name, []).append(value)

    with tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder) / "probe"
        subprocess.run(["cc", "-O3", "-o", other, pathlib.Path(__file__).with_name("probe.c")], check=True)
        for _ in range(options.rounds):
            words = ["probe", "--json", "--only", "memory,disk", "--seconds", "15", "--memory", str(MEMORY_MIB),
                     "--file-size", str(FILE_MIB), "--folder", options.folder]
            result = subprocess.run([options.program, *words], check=True, capture_output=True).stdout
            sections = json.loads(result)["sections"]
            memory, disk = sections["memory"]["figures"], sections["disk"]["figures"]
            note(ours, "triad, GB/s", memory["triad_1"]["max"] / 1e9)
            note(ours, "latency, ns", memory["latency_small_pages"]["min"])
            triad, latency = subprocess.run([other, str(MEMORY_MIB)], check=True, capture_output=True).stdout.split()
            note(theirs, "triad, GB/s", float(triad) / 1e9)
            note(theirs, "latency, ns", float(latency))
            if shutil.which("fio"):
                note(ours, "random reads, K/s", disk["random_reads_1"]["median"] / 1e3)
                read = fio(options.folder, "--rw=randread")["read"]
                note(theirs, "random reads, K/s", 1e6 / median(read["clat_ns"]))
                note(ours, "write and sync, us", disk["sync"]["median"] / 1e3)
                write = fio(options.folder, "--rw=write", "--fdatasync=1")
                took = median(write["write"]["clat_ns"]) + median(write["sync"]["lat_ns"])
                note(theirs, "write and sync, us", took / 1e3)
    (pathlib.Path(options.folder) / ".probe-fio").unlink(missing_ok=True)
    print("| figure | mantissa probe | the other | ratio | of medians |\n| --- | --- | --- | --- | --- |")
    for name, values in ours.items():
        best = max if name.endswith("/s") else min
        one, other = best(values), best(theirs[name])
        medians = statistics.median(values) / statistics.median(theirs[name])
        print(f"| {name} | {one:.2f} | {other:.2f} | {one / other:.2f} | {medians:.2f} |")


if __name__ == "__main__":
    main()
