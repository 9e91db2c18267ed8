#!/usr/bin/env python3
"""Times mantissa_kernels.h beside numkong and a plain read: kernels.py [--rounds N] [--levels]

Sizes are those of one vector. Within the caches the figure is numkong's time over ours (above 1: ours is faster);
from memory it is the rate as a fraction of a plain read's of the same bytes. Medians of rounds by turns. Numkong is
measured where Python has it (pip install numkong); its reductions compute more: sums with sums of squares, least and
greatest with their places.
"""

import argparse
import ctypes
import glob
import importlib.util
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, os.pardir, "build")
SIZES = (1 << 10, 1 << 14, 1 << 18)
FAR = 1 << 27

# Name, bytes a number (an eighth for bits), the kind of ours (see bench_call), numkong's name and kind.
ONE = {"f64": 0, "f32": 1, "bf16": 1, "i8": 2}
TWO = {"f64": 3, "f32": 4, "bf16": 4, "i8": 5}
WIDTH = {"f64": 8, "f32": 4, "bf16": 2, "i8": 1}


def functions():
    """All of mn_kernels in its order, the name left out."""
    out = []
    out += [(f"sum_{t}", t, ONE[t], f"nk_reduce_moments_{t}", 8) for t in WIDTH]
    for name in ("min", "max"):
        out += [(f"{name}_{t}", t, ONE[t], f"nk_reduce_minmax_{t}", 9) for t in WIDTH]
    out += [(f"dot_{t}", t, TWO[t], f"nk_dot_{t}", 7) for t in WIDTH]
    out += [("dot_bits", "bits", 5, "nk_dot_u1", 7)]
    out += [(f"squared_distance_{t}", t, TWO[t], f"nk_sqeuclidean_{t}", 7) for t in WIDTH]
    out += [("hamming", "bits", 5, "nk_hamming_u1", 7)]
    out += [(f"cosine_{t}", t, 3, f"nk_angular_{t}", 7) for t in WIDTH]
    out += [("cosine_bits", "bits", 3, None, 7)]
    out += [(f"sign_{t}", t, 6, None, 7) for t in WIDTH]
    out += [("popcount", "bits", 2, "nk_reduce_moments_u1", 8)]
    return out


def load_numkong():
    spec = importlib.util.find_spec("numkong")
    if spec is None:
        return None
    return ctypes.CDLL(glob.glob(os.path.join(list(spec.submodule_search_locations)[0], "_numkong*.so"))[0])


def build():
    os.makedirs(BUILD, exist_ok=True)
    library = os.path.join(BUILD, "kernels.so")
    flags = ["-std=c99", "-O3", "-fPIC", "-shared", "-Wall", "-Wextra", "-I", os.path.join(HERE, os.pardir)]
    subprocess.run(
        [os.environ.get("CC", "gcc"), *flags, os.path.join(HERE, "kernels.c"), "-o", library, "-lm"], check=True
    )
    bench = ctypes.CDLL(library)
    bench.bench_level.restype = ctypes.c_char_p
    for name in ("bench_call", "bench_ours", "bench_read"):
        getattr(bench, name).restype = ctypes.c_double
    return bench


def vectors(kind, size):
    """Two vectors of `size` bytes, of numbers about 1."""
    import array
    import random

    random.seed(1)
    base = 4096
    sides = []
    for _ in range(2):
        numbers = [random.uniform(0.5, 1.5) * random.choice((-1, 1)) for _ in range(base)]
        if kind == "f64":
            bytes_ = array.array("d", numbers).tobytes()
        elif kind == "f32":
            bytes_ = array.array("f", numbers).tobytes()
        elif kind == "bf16":
            raw = array.array("f", numbers).tobytes()
            bytes_ = b"".join(raw[at + 2 : at + 4] for at in range(0, len(raw), 4))
        else:
            bytes_ = bytes(random.randrange(1, 256) for _ in range(base))
        sides.append(ctypes.create_string_buffer((bytes_ * (size // len(bytes_) + 1))[:size], size))
    return sides


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--levels", action="store_true", help="rates of every level within the caches instead")
    parser.add_argument("--only", default="", help="functions whose names contain this")
    arguments = parser.parse_args()
    bench, numkong = build(), load_numkong()
    levels = [level.decode() for level in iter_levels(bench)]
    out = (ctypes.c_uint64 * (FAR // 64 + 64))()
    if arguments.levels:
        print("GB/s at 16 KB a vector\n\n| kernel | " + " | ".join(levels) + " |\n|---|" + "---|" * len(levels))
    else:
        print(f"level {levels[-1]}; GB/s of ours, and numkong's time over ours; last the fraction of a plain read\n")
        head = [f"{size >> 10} KB" for size in SIZES]
        print("| kernel | " + " | ".join(head) + f" | {FAR >> 20} MB |\n|---|" + "---|" * (len(head) + 1))
    for number, (name, kind, ours, theirs, nk_kind) in enumerate(functions(), 1):
        if arguments.only not in name:
            continue
        cells = []
        for size in (SIZES[1:2] if arguments.levels else SIZES + (FAR,)):
            cells += measure(bench, numkong, levels, arguments, out, number, kind, ours, theirs, nk_kind, size)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def iter_levels(bench):
    level = 0
    while (name := bench.bench_level(level)) is not None:
        yield name
        level += 1


def measure(bench, numkong, levels, arguments, out, number, kind, ours, theirs, nk_kind, size):
    left, right = vectors(kind, size)
    count = size // WIDTH.get(kind, 1)
    calls = max(1, 20_000_000 // size)
    moved = size * (1 if ours in (0, 1, 2, 6) else 2)
    pointers = [ctypes.byref(left), ctypes.byref(right)]

    def time_ours(level):
        return bench.bench_ours(
            ctypes.c_size_t(level), ctypes.c_size_t(number), ours, *pointers, ctypes.c_size_t(count),
            ctypes.c_size_t(calls), out,
        )

    if arguments.levels:
        times = [statistics.median(time_ours(level) for _ in range(arguments.rounds)) for level in range(len(levels))]
        return [f"{moved / time:.0f}" for time in times]
    pairs = []
    function = getattr(numkong, theirs, None) if numkong and theirs and size < FAR else None
    for _ in range(arguments.rounds):
        mine = time_ours(len(levels) - 1)
        if size == FAR:
            read = bench.bench_read(pointers[0], ctypes.c_size_t(size // 8), ctypes.c_size_t(1))
            if moved > size:
                read += bench.bench_read(pointers[1], ctypes.c_size_t(size // 8), ctypes.c_size_t(1))
            pairs.append((mine, read / mine))
        elif function is not None:
            nk_count = count * 8 if kind == "bits" else count
            time = bench.bench_call(
                function, nk_kind, *pointers, ctypes.c_size_t(nk_count),
                ctypes.c_size_t(WIDTH.get(kind, 1)), ctypes.c_size_t(calls), out,
            )
            pairs.append((mine, time / mine))
        else:
            pairs.append((mine, None))
    rate = moved / statistics.median(mine for mine, _ in pairs)
    ratios = [ratio for _, ratio in pairs if ratio is not None]
    return [f"{rate:.1f}" + (f", {statistics.median(ratios):.2f}" if ratios else "")]


if __name__ == "__main__":
    sys.exit(main())
