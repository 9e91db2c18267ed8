#!/usr/bin/env python3
"""Writes the powers of five into mantissa_number.h, between the lines that mark them.

Entry q (from -342 to 324) is the 128-bit significand of 10^q: for q from 0 to 55 exact, for larger q cut off,
for negative q rounded up, which is what Lemire's reading algorithm needs. Printing needs them all rounded up.
"""

from pathlib import Path

FIRST, LAST, PER_LINE = -342, 324, 5
BEGIN, END = "/* powers: begin */", "/* powers: end */"


def significand(exponent):
    if exponent >= 0:
        power = 5**exponent
        excess = power.bit_length() - 128
        return power >> excess if excess > 0 else power << -excess
    power = 5**-exponent
    bits = power.bit_length() + 127
    quotient = (1 << bits) // power
    if quotient >> 128:
        quotient = (1 << (bits - 1)) // power
    return quotient + 1


def main():
    target = Path(__file__).resolve().parents[1] / "mantissa_number.h"
    text = target.read_text()
    words = []
    for exponent in range(FIRST, LAST + 1):
        value = significand(exponent)
        assert value.bit_length() == 128
        words += [f"0x{value >> 64:016x}", f"0x{value & (2**64 - 1):016x}"]
    lines = [", ".join(words[index : index + PER_LINE]) for index in range(0, len(words), PER_LINE)]
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    target.write_text(head + BEGIN + "\n    " + ",\n    ".join(lines) + "\n    " + END + tail)


if __name__ == "__main__":
    main()
