"""Gives number/vectors/packed.json to packed.c's program, and compares what it reads: packed_vectors.py COMMAND..."""

import json
import pathlib
import struct
import subprocess
import sys

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "number/vectors/packed.json"


def number(text, kind):
    """A number as the program prints it: floats as the doubles that they are."""
    if text is None or kind in ("VARINT", "DELTA"):
        return text or "null"
    if kind == "F64":
        return text
    value = struct.unpack(">f", bytes.fromhex(text))[0]
    return struct.pack(">d", value).hex()


def line(vector):
    if "type" not in vector:
        return "refused"
    kind, flags = vector["type"], int(vector["packed"][8:10], 16)
    words = [kind] + (["scalar"] if flags & 1 else []) + [str(int(vector["packed"][12:16], 16))]
    words += [number(text, kind) for text in vector["numbers"]]
    if "names" in vector:
        words += ["rows", *[name.encode().hex() for name in vector["names"]]]
    return " ".join(words)


def main():
    vectors = json.loads(VECTORS.read_text())
    lines = "".join(vector["packed"] + "\n" for vector in vectors)
    run = subprocess.run(sys.argv[1:], input=lines, stdout=subprocess.PIPE, text=True)
    seen = run.stdout.splitlines()
    wanted = [line(vector) for vector in vectors]
    for index, (one, other) in enumerate(zip(wanted, seen)):
        if one != other:
            sys.exit(f"packed vector {index}: {other!r}, not {one!r}")
    print("\n".join(seen[len(wanted) :]))
    sys.exit(run.returncode or len(seen) <= len(wanted))


main()
