#!/usr/bin/env python3
"""Vector sets beside redis-server: rates of VADD and VSIM at equal recall, memory, and how long a dump takes to load.

    bench/vectors.py NAME=PORT [NAME=PORT ...] [--count 100000] [--dimension 300] [--phase fill|search|dump] [--usearch]

It needs numpy, and with --usearch the package of that name: a library for the same, measured in this process by one
thread and with neither a protocol nor attributes, as a yardstick. The servers run already, each with a `dir` of its
own. Times are processor time, user and system, of the server's threads, so that rates are those of one core, also where
others are busy. Vectors are made from a fixed seed, in clusters: CENTRES directions, and around each as much noise as
makes the nearest ten hard to find. Elements go in through one connection in pipelines of 16, as do queries, for 10
elements each. Recall@10 is counted against TRUTH of the same server, by scores: an element as near as the tenth counts.
`EF` rises by a tenth until the recall is reached; the rate is that of the smallest such EF.
"""

import argparse
import itertools
import pathlib
import sys
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))

from support.resp import Connection  # noqa: E402

CENTRES = 1000
NOISE = 0.7
QUERIES = 400
BATCH = 16
RECALLS = (0.95, 0.99)
EFS = sorted({round(10 * 1.1**step) for step in range(52)})


def vectors(count, dimension, seed):
    """Vectors around the same centres for every seed."""
    centres = numpy.random.default_rng(1).standard_normal((CENTRES, dimension), dtype=numpy.float32)
    generator = numpy.random.default_rng(seed)
    while count > 0:
        part = min(count, 10_000)
        noise = generator.standard_normal((part, dimension), dtype=numpy.float32) * NOISE
        # The first directions differ more than the last, as in embeddings.
        noise *= numpy.linspace(1.5, 0.5, dimension, dtype=numpy.float32)
        yield from centres[generator.integers(0, CENTRES, part)] + noise
        count -= part


def pipelined(connection, commands):
    """The replies to all commands."""
    replies = []
    for batch in batched(commands):
        replies += connection.pipeline(batch, BATCH)
    return replies


def batched(commands):
    commands = iter(commands)
    while batch := list(itertools.islice(commands, BATCH)):
        yield batch


def timed(connection, commands):
    """The seconds of processor time that all commands took, and the replies."""
    start = processor_seconds(connection)
    replies = pipelined(connection, commands)
    return processor_seconds(connection) - start, replies


def processor_seconds(connection):
    lines = connection("INFO", "cpu").value.split(b"\r\n")
    return sum(float(line.split(b":")[1]) for line in lines if line.startswith((b"used_cpu_user:", b"used_cpu_sys:")))


def used_memory(connection):
    text = connection("INFO", "memory").value
    return int(next(line for line in text.split(b"\r\n") if line.startswith(b"used_memory:")).split(b":")[1])


def fill(name, connection, arguments):
    connection("FLUSHALL")
    before = used_memory(connection)
    chosen = vectors(arguments.count, arguments.dimension, 2)
    commands = (("VADD", "v", "FP32", one.tobytes(), f"element:{index}") for index, one in enumerate(chosen))
    taken, _ = timed(connection, commands)
    memory = used_memory(connection) - before
    rate, size = arguments.count / taken, memory / arguments.count
    print(f"{name}: VADD {rate:,.0f}/s, {size:,.0f} bytes an element", flush=True)


def scores(reply):
    return [float(score.value) for score in reply.value[1::2]]


def search(name, connection, arguments):
    queries = [one.tobytes() for one in vectors(QUERIES, arguments.dimension, 3)]
    tail = ("COUNT", "10", "WITHSCORES")
    exact = [scores(r) for r in pipelined(connection, (("VSIM", "v", "FP32", q, *tail, "TRUTH") for q in queries))]
    wanted = list(RECALLS)
    for ef in EFS:
        commands = [("VSIM", "v", "FP32", q, *tail, "EF", str(ef), "NOTHREAD") for q in queries]
        taken, replies = timed(connection, commands)
        found = sum(sum(s >= truth[-1] for s in scores(reply)) for truth, reply in zip(exact, replies))
        recall = found / (10 * len(queries))
        if wanted and recall >= wanted[0]:
            taken = min(taken, *(timed(connection, commands)[0] for _ in range(2)))
            rate = len(queries) / taken
            while wanted and recall >= wanted[0]:
                print(f"{name}: VSIM recall {wanted.pop(0)}: {rate:,.0f}/s with EF {ef} ({recall:.4f})", flush=True)
        if not wanted:
            return


def dump(name, connection, _):
    start = processor_seconds(connection)
    connection("SAVE")
    saved = processor_seconds(connection)
    connection("DEBUG", "RELOAD", "NOSAVE")
    loaded = processor_seconds(connection)
    print(f"{name}: saved in {saved - start:.2f} s, loaded in {loaded - saved:.2f} s", flush=True)


def measure_usearch(arguments):
    """The same figures of a library, whose elements are 8-bit numbers as well."""
    from usearch.index import Index

    index = Index(ndim=arguments.dimension, dtype="i8", connectivity=16, expansion_add=200)
    chosen, taken = vectors(arguments.count, arguments.dimension, 2), 0
    for first in range(0, arguments.count, 10_000):
        part = numpy.array(list(itertools.islice(chosen, 10_000)))
        start = time.process_time()
        index.add(numpy.arange(first, first + len(part)), part, threads=1)
        taken += time.process_time() - start
    rate, size = arguments.count / taken, index.memory_usage / arguments.count
    print(f"usearch: add {rate:,.0f}/s, {size:,.0f} bytes an element", flush=True)
    queries = numpy.array(list(vectors(QUERIES, arguments.dimension, 3)))
    tenth = index.search(queries, 10, threads=1, exact=True).distances[:, -1:]
    wanted = list(RECALLS)
    for ef in EFS:
        index.expansion_search = ef
        seconds = []
        for _ in range(3):
            start = time.process_time()
            matches = index.search(queries, 10, threads=1)
            seconds.append(time.process_time() - start)
        recall = (matches.distances <= tenth).sum() / matches.distances.size
        while wanted and recall >= wanted[0]:
            rate = len(queries) / min(seconds)
            print(f"usearch: search recall {wanted.pop(0)}: {rate:,.0f}/s with EF {ef} ({recall:.4f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="*", metavar="NAME=PORT")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=300)
    parser.add_argument("--phase", action="append", choices=["fill", "search", "dump"])
    parser.add_argument("--usearch", action="store_true", help="measure the library usearch as well")
    arguments = parser.parse_args()
    phases = {"fill": fill, "search": search, "dump": dump}
    for phase in arguments.phase or phases:
        for server in arguments.servers:
            name, port = server.split("=")
            with Connection(("127.0.0.1", int(port)), timeout=3600.0) as connection:
                phases[phase](name, connection, arguments)
    if arguments.usearch:
        measure_usearch(arguments)


if __name__ == "__main__":
    main()
