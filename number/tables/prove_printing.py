#!/usr/bin/env python3
"""Shows that mn__shortest_f64 in mantissa_number.h answers right for every normal double that is no power of two.

For a binary exponent the value is m * a, where m is the significand and `a` a rational number between 0.1 and 1: the
unit of the significand in tens of the unit of the last digit. The answer depends on where the fraction of m * a lies
against a / 2, 1 - a / 2, 0 and the middles between two digits. The C code knows the fraction and a / 2 to within a few
2^-64, so it can only err where the fraction comes that close to one of those. All such m are found, by a search
like Euclid's algorithm, and for each the C code, repeated here in whole numbers, is compared with the exact answer.

Two kinds of exponents have too many of those to try one by one:
- where the code's product and half interval are exact, it compares exact numbers, in units of 2^-64. It would err
  only where the fraction and a / 2 add up to exactly 1, or to 2^-64 less, and (2m + 1) a / 2 has an odd numerator
  over a power of two from 2 to 2^63; or where ten times the fraction, a multiple of 2^-61, lies less than BIAS
  below a middle, another such multiple;
- where `a` has a small denominator d, the fraction can only be equal to one of those places, for every d-th m.
  The code's fraction grows or falls steadily with m then, so the first and the last even and odd m tell for all.

Takes a few seconds; prints what was tried, and fails at the first wrong answer.
"""

import re
from fractions import Fraction
from pathlib import Path

HEADER = Path(__file__).resolve().parents[1] / "mantissa_number.h"
POWER_FIRST = -342
MASK = 2**64 - 1
CLOSE = Fraction(8, 2**64)
BIAS = 6  # in units of 2^-64, added to ten times the fraction
FIRST, LAST = 2**52 + 1, 2**53 - 1


def powers():
    table = HEADER.read_text().split("/* powers: begin */")[1].split("/* powers: end */")[0]
    words = [int(word, 16) for word in re.findall(r"0x[0-9a-f]{16}", table)]
    return [high << 64 | low for high, low in zip(words[::2], words[1::2])]


def computed(m, power, shift):
    """The C code: the tens and the last digit."""
    product = (m << shift) * (power >> 64) + ((m << shift) * (power & MASK) >> 64)
    low, high = product & MASK, product >> 64
    fraction = (high << 53 | low >> 11) & MASK
    half = ((power >> 64) >> (12 - shift)) + (~m & 1)
    up, down = fraction + half > MASK, fraction < half
    digit = (fraction * 10 + 2**63 + BIAS >> 64) - (fraction == 2**62)
    return (high >> 11) + up, 0 if up or down else digit


def exact(m, a):
    tens = m * a.numerator // a.denominator
    fraction = m * a - tens
    even = m % 2 == 0
    if fraction < a / 2 or (even and fraction == a / 2):
        return tens, 0
    if 1 - fraction < a / 2 or (even and 1 - fraction == a / 2):
        return tens + 1, 0
    return tens, round(fraction * 10)  # ties to even


def first_between(step, modulus, low, high):
    """The smallest i from 0 on with low <= step * i mod modulus <= high, or None."""
    if low == 0:
        return 0
    step %= modulus
    if step == 0:
        return None
    if 2 * step > modulus:
        return first_between(modulus - step, modulus, modulus - high, modulus - low)
    i = -(-low // step)
    if i * step <= high:
        return i
    turns = first_between(modulus, step, -high % step, -low % step)
    return None if turns is None else -(-(low + modulus * turns) // step)


def close(a, place):
    """Every m whose fraction of m * a is at `place`, give or take CLOSE."""
    modulus = a.denominator * place.denominator * CLOSE.denominator
    step = int(a * modulus) % modulus
    width = int(2 * CLOSE * modulus)
    m = FIRST
    while m <= LAST:
        low = int((place - CLOSE) * modulus - step * m) % modulus
        i = 0 if low + width >= modulus else first_between(step, modulus, low, low + width)
        if i is None or m + i > LAST:
            return
        m += i
        yield m
        m += 1


def ends(a, place):
    """Of the m whose fraction of m * a is `place`, the first and the last even and odd ones."""
    numerator = place * a.denominator
    if numerator.denominator != 1:
        return
    d = a.denominator
    residue = int(numerator) * pow(a.numerator, -1, d) % d if d > 1 else 0
    period = d if d % 2 == 0 else 2 * d
    for start in {residue, residue + period - d}:
        lowest = FIRST + (start - FIRST) % period
        highest = LAST - (LAST - start) % period
        if lowest <= LAST:
            yield lowest
            yield highest


def main():
    table = powers()
    tried = by_exactness = by_ends = 0
    for field in range(1, 2047):
        two = field - 1075
        ten = two * 1262611 >> 22
        shift = two + ((-ten - 1) * 1741647 >> 19) + 12
        power = table[-ten - 1 - POWER_FIRST]
        a = Fraction(2) ** two * Fraction(10) ** (-ten - 1)
        assert Fraction(1, 10) <= a < 1 and 8 <= shift <= 11
        exactly = (power << shift) % 2**75 == 0 and power % 2 ** (76 - shift) == 0
        if exactly and a.denominator <= 2**62:
            assert a.denominator & (a.denominator - 1) == 0 and a.denominator > 1
            assert Fraction(power) * 2**shift / 2**139 == a
            by_exactness += 1
            continue
        places = [a / 2, 1 - a / 2, Fraction(0)] + [Fraction(2 * d + 1, 20) for d in range(10)]
        few = a.denominator <= 2**44
        by_ends += few
        for place in places:
            if few:
                assert CLOSE < Fraction(1, 40 * a.denominator)
            for m in ends(a, place) if few else close(a, place):
                tried += 1
                if computed(m, power, shift) != exact(m, a):
                    answers = f"{computed(m, power, shift)}, not {exact(m, a)}"
                    raise SystemExit(f"wrong for {m} * 2^{two}: {answers}")
    print(f"{tried} significands tried, no error; "
          f"{by_exactness} exponents are exact, {by_ends} were judged by their ends")


if __name__ == "__main__":
    main()
