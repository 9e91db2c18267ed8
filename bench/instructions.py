#!/usr/bin/env python3
"""Counts the instructions that a command takes on the engine, under callgrind, and compares with instructions.tsv.

    bench/instructions.py             fails if a command takes 3 % more than the file says
    bench/instructions.py --update    rewrites the file

A run counts from the bytes of a request to those of its reply: parsing, hashing, prefetching, running; alone, or 32
requests at a time. Sockets are not part of it. The counts are those of the profile `fast`, whose debug assertions
count as well; the same binary counts the same to about one in a thousand.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE = ROOT / "bench/instructions.tsv"
COMMANDS = "GET SET INCR HGET HSET ZADD ZSCORE LPUSH LPOP SADD MGET10 EVAL MULTI".split()
MODES = {"alone": 1, "batch": 32}
RUNS = 2048
MORE_MAX = 0.03


def build(profile):
    # Of all members, so that dependencies have the features that they have in test.sh, and are compiled once.
    # Compiled incrementally less is inlined: a command takes 5 to 14 % more.
    subprocess.run(
        ["cargo", "build", "--profile", profile, "--workspace", "--bin", "mantissa", "--example", "instructions"],
        cwd=ROOT, check=True, env={**os.environ, "CARGO_INCREMENTAL": "0"})
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / profile / "examples/instructions"


def count(binary, command, mode, out=None):
    """The instructions of one run of a command."""
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=instructions::measured_part*",
             f"--callgrind-out-file={out or folder + '/callgrind.out'}",
             binary, command, str(MODES[mode]), str(RUNS), folder + "/data"],
            capture_output=True, text=True)
    total = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode != 0 or not total or total[1] == "0":
        sys.exit(f"{command} {mode}: {result.stderr}")
    return int(total[1]) / RUNS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="rewrite the file")
    parser.add_argument("--profile", default="fast", help="the cargo profile (only fast is compared)")
    parser.add_argument("--binary", type=pathlib.Path, help="a binary that has been built")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for callgrind's output files")
    arguments = parser.parse_args()
    binary = arguments.binary or build(arguments.profile)
    tasks = [(command, mode) for mode in MODES for command in COMMANDS]

    def run(task):
        out = arguments.keep and arguments.keep / "-".join(task)
        return count(binary, *task, out)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = dict(zip(tasks, pool.map(run, tasks)))
    before = {}
    if FILE.exists():
        for line in FILE.read_text().splitlines()[1:]:
            command, mode, instructions = line.split("\t")
            before[command, mode] = float(instructions)
    dearer = []
    for task, now in counts.items():
        was = before.get(task)
        change = f"{100 * (now / was - 1):+6.1f} %" if was else "    new"
        print(f"{task[0]:8} {task[1]:6} {now:9.0f} {change}")
        if was is None or now > was * (1 + MORE_MAX):
            dearer.append(task)
    mean = sum(counts.values()) / len(counts)
    known = [before[task] for task in counts if task in before]
    change = f"{100 * (mean * len(known) / sum(known) - 1):+6.1f} %" if known else ""
    print(f"mean            {mean:9.0f} {change}")
    ratios = [counts[task] / before[task] for task in counts if task in before]
    if ratios:
        print(f"mean of the changes: {100 * (sum(ratios) / len(ratios) - 1):+.1f} %")
    if arguments.update:
        lines = ["command\tmode\tinstructions"]
        lines += [f"{command}\t{mode}\t{counts[command, mode]:.0f}" for command, mode in counts]
        FILE.write_text("\n".join(lines) + "\n")
    elif dearer and arguments.profile == "fast":
        names = ", ".join(" ".join(task) for task in dearer)
        sys.exit(f"More instructions than bench/instructions.tsv allows: {names}. Make them fewer, or say in the "
                 "commit why they are needed and run bench/instructions.py --update.")


if __name__ == "__main__":
    main()
