#!/usr/bin/env python3
"""How much room changes take in an archive of snapshots, and how long work with it takes.

    bench/archive.py [--mantissa PATH] [--keys N]

A server gets keys under a hundred prefixes, whose values are 100 bytes that no compression makes smaller. Snapshots
are made of its dumps: of the first state, of the same data again, after all keys of one prefix have changed (1 %),
after 1 % of all keys at random have, and after as many were added. Then the last one is verified, restored and
exported. `new` is what chunks that were not there yet have of all bytes; `stored` is what the archive's folder grew
by, manifests and indexes included, as a part of what the first snapshot took. Seconds are of processor time.
"""
import argparse
import json
import os
import random
import resource
import subprocess

from servers import ROOT, Server

PREFIXES = 100
VALUE_BYTES = 100


def size_of(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


class Archive:
    def __init__(self, program, path):
        self.program, self.path = program, path
        self.run("init")

    def run(self, name, *words):
        """What a command prints, and the processor time that it takes in seconds."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [self.program, "archive", name, self.path, *words]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def create(self, dump):
        before = size_of(self.path)
        _, seconds = self.run("create", dump)
        facts = json.loads(self.run("show", "--json")[0])
        return facts, size_of(self.path) - before, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mantissa", default=os.path.join(ROOT, "target/dist/mantissa"))
    parser.add_argument("--keys", type=int, default=1_000_000)
    options = parser.parse_args()
    generator = random.Random(1)
    server = Server("mantissa", [options.mantissa, "server"])
    dump = os.path.join(server.folder, "dump.rdb")
    part = options.keys // PREFIXES

    def store(numbers):
        commands = (("SET", f"{n // part:02}:{n % part:08}", generator.randbytes(VALUE_BYTES)) for n in numbers)
        while batch := [command for _, command in zip(range(50_000), commands)]:
            server.call(*batch)

    changes = [
        ("the first snapshot", range(options.keys)),
        ("nothing changed", []),
        ("1 % of the keys, one prefix", range(7 * part, 8 * part)),
        ("1 % of the keys, at random", generator.sample(range(options.keys), part)),
        ("1 % more keys, a new prefix", range(options.keys, options.keys + part)),
    ]
    try:
        archive = Archive(options.mantissa, os.path.join(server.folder, "archive"))
        print("| snapshot after | bytes | new | stored | processor s |")
        print("| --- | --- | --- | --- | --- |")
        first = None
        for name, numbers in changes:
            store(numbers)
            server.call(("SAVE",))
            facts, stored, seconds = archive.create(dump)
            first = first or stored
            new = 100 * facts["new_bytes"] / facts["bytes"]
            room = f"{facts['bytes']:,} | {new:.2f} % | {100 * stored / first:.2f} %"
            print(f"| {name} | {room} | {seconds:.1f} |", flush=True)
        print(f"\nThe first snapshot took {first:,} bytes in {facts['chunks']:,} chunks.")
        out = os.path.join(server.folder, "out.rdb")
        for words in (["verify", "latest"], ["restore", "latest", out], ["export", "latest", out]):
            print(f"{words[0]}: {archive.run(*words)[1]:.1f} s")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
