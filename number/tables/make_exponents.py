#!/usr/bin/env python3
"""Writes the table of exponents of mantissa_number.h, between its markers: what a printed double ends with.

An entry holds the text in its low bytes, the first one lowest, and the length of the text in its highest.
"""

from pathlib import Path

HEADER = Path(__file__).resolve().parents[1] / "mantissa_number.h"
FIRST, LAST = -324, 308
BEGIN, END = "/* exponents: begin */", "/* exponents: end */"


def entry(exponent):
    text = f"e{exponent:+}".encode()
    return int.from_bytes(text, "little") | len(text) << 56


def main():
    words = [f"0x{entry(exponent):016x}" for exponent in range(FIRST, LAST + 1)]
    lines = [", ".join(words[at : at + 5]) for at in range(0, len(words), 5)]
    text = HEADER.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    body = ",\n    ".join(lines)
    HEADER.write_text(f"{before}{BEGIN}\n    {body}\n    {END}{after}")


if __name__ == "__main__":
    main()
