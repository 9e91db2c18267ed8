#!/usr/bin/env python3
"""Writes crates/number/src/score/powers.rs: every eighth power of ten, as 64 bits rounded to nearest."""

from fractions import Fraction
from pathlib import Path

FIRST, LAST, STEP = -348, 340, 8


def significand(exponent):
    """The integer nearest to 10^exponent * 2^-e that has 64 bits, and e."""
    value = Fraction(10) ** exponent
    binary = value.numerator.bit_length() - value.denominator.bit_length() - 64
    while value / Fraction(2) ** binary >= 2**64:
        binary += 1
    while value / Fraction(2) ** binary < 2**63:
        binary -= 1
    return round(value / Fraction(2) ** binary), binary


def main():
    lines = [
        "//! Powers of ten for [`super::digits`], made by `number/tables/make_score_powers.py`.",
        "",
        f"/// The exponent of the first power, and the step to the next.",
        f"pub(super) const FIRST_EXPONENT: i32 = {FIRST};",
        f"pub(super) const EXPONENT_STEP: i32 = {STEP};",
        "",
        "/// Each power is the first number times two to the second, to within half a unit of the first.",
        "#[rustfmt::skip]",
    ]
    exponents = range(FIRST, LAST + 1, STEP)
    lines.append(f"pub(super) static POWERS: [(u64, i16); {len(exponents)}] = [")
    for exponent in exponents:
        high, binary = significand(exponent)
        lines.append(f"    (0x{high:016x}, {binary}),")
    lines.append("];")
    target = Path(__file__).resolve().parents[2] / "crates/number/src/score/powers.rs"
    target.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
