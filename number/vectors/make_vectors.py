#!/usr/bin/env python3
"""Writes the shared test vectors from the oracles, one case a line.

    make_vectors.py             everything but what only Redis can answer
    make_vectors.py --redis N   also scores.json, bounds.json and sums.json, from a Redis 8.2 on x86 at port N

Oracles: the C library's strtod and strtof for reading, Python's repr (David Gay's shortest digits) for
doubles, exact rationals for the shortest floats. All bits are hexadecimal, without the 0x.
"""

import argparse
import ctypes
import json
import random
import socket
import struct
from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBC = ctypes.CDLL(None)
LIBC.strtod.restype = ctypes.c_double
LIBC.strtof.restype = ctypes.c_float
RANDOM = random.Random(20260601)


def f64_bits(value):
    return struct.unpack(">Q", struct.pack(">d", value))[0]


def f64_of(bits):
    return struct.unpack(">d", struct.pack(">Q", bits))[0]


def f32_bits(value):
    return struct.unpack(">I", struct.pack(">f", value))[0]


def f32_of(bits):
    return struct.unpack(">f", struct.pack(">I", bits))[0]


def write(name, cases):
    lines = ",\n".join(json.dumps(case) for case in cases)
    (HERE / name).write_text("[\n" + lines + "\n]\n")
    print(f"{name}: {len(cases)} cases")


# ---- Reading


def number_length(text):
    """How many characters of the text are a decimal number, an infinity or a NaN."""
    at = 1 if text[:1] in ("+", "-") else 0
    lowered = text[at:].lower()
    for word in ("infinity", "inf"):
        if lowered.startswith(word):
            return at + len(word)
    if lowered.startswith("nan"):
        end = at + 3
        if text[end : end + 1] == "(":
            close = end + 1
            while close < len(text) and (text[close].isalnum() or text[close] == "_"):
                close += 1
            if text[close : close + 1] == ")":
                return close + 1
        return end
    start = at
    while at < len(text) and text[at] in "0123456789":
        at += 1
    digits = at - start
    if text[at : at + 1] == ".":
        after = at + 1
        while after < len(text) and text[after] in "0123456789":
            after += 1
        if digits + after - at - 1:
            digits += after - at - 1
            at = after
    if not digits:
        return 0
    if text[at : at + 1] in ("e", "E"):
        after = at + 1
        if text[after : after + 1] in ("+", "-"):
            after += 1
        if text[after : after + 1].isdigit():
            while after < len(text) and text[after] in "0123456789":
                after += 1
            at = after
    return at


def reading_case(text):
    end = number_length(text)
    if end == 0:
        return {"text": text, "end": 0, "status": "invalid"}
    number = text[:end]
    if "nan" in number.lower():
        return {"text": text, "end": end, "status": "nan"}
    double = LIBC.strtod(number.encode(), None)
    single = LIBC.strtof(number.encode(), None)
    mantissa = number.lower().split("e")[0]
    special = "inf" in number.lower()
    nonzero = any(digit in mantissa for digit in "123456789")

    def status(value):
        if special:
            return "ok"
        return "range" if value in (float("inf"), float("-inf")) or (value == 0 and nonzero) else "ok"

    return {
        "text": text,
        "end": end,
        "f64": f"{f64_bits(double):016x}",
        "status": status(double),
        "f32": f"{f32_bits(single):08x}",
        "f32_status": status(single),
    }


def exact_decimal(value):
    """The exact decimal text of a fraction whose denominator is a power of two."""
    shift = value.denominator.bit_length() - 1
    digits = str(value.numerator * 5**shift).rjust(shift + 1, "0")
    return digits[:-shift] + "." + digits[-shift:] if shift else digits


def reading_texts():
    texts = [
        "",
        " ",
        "+",
        "-",
        ".",
        "-.",
        "e",
        "e5",
        ".e5",
        "1e",
        "1e+",
        "1e-",
        "1.e",
        "0x10",
        "0x1p3",
        " 1",
        "1 ",
        "\t1",
        "1\u0000",
        "\u00001",
        "1\u00002",
        "1,5",
        "1_0",
        "--1",
        "+-1",
        "++1",
        "1.2.3",
        "1..2",
        "12e3e4",
        "5.",
        ".5",
        "5.e1",
        ".5e1",
        "+5",
        "-5",
        "+.5",
        "-.5",
        "00",
        "007",
        "0e0",
        "0e999999999999999999999",
        "0e-9999999999",
        "-0",
        "-0.0",
        "+0",
        "0.0000000",
        "inf",
        "INF",
        "-inf",
        "+inf",
        "Infinity",
        "-INFINITY",
        "infinit",
        "infi",
        "in",
        "i",
        "nan",
        "NaN",
        "-nan",
        "+NAN",
        "nan(",
        "nan()",
        "nan(abc_1)",
        "nan(a b)",
        "na",
        "n",
        "infnan",
        "1e400",
        "-1e400",
        "1e-400",
        "-1e-400",
        "1e99999999999999999999",
        "1e-99999999999999999999",
        "1e+5",
        "1e-5",
        "1E5",
        "1e05",
        "1e0000000000000000000005",
        "123456789",
        "12345678",
        "1234567",
        "-12345678",
        "-1234567",
        "1234567.",
        ".1234567",
        "0.1",
        "0.2",
        "0.3",
        "3.14",
        "9007199254740993",
        "9007199254740992.5",
        "9007199254740993.0000000000000000001",
        "18446744073709551615",
        "18446744073709551616",
        "9999999999999999999",
        "10000000000000000000",
        "1e22",
        "1e23",
        "8.41e21",
        "9.5e-3",
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "179769313486231570" + "0" * 291,
        "3.4028235e38",
        "3.4028236e38",
        "1.4e-45",
        "7e-46",
        "7.1e-46",
        "1.17549435e-38",
        "16777217",
        "16777216.000001",
        "8388609.5",
        "0." + "0" * 400 + "1",
        "1" + "0" * 400,
        "1" + "0" * 308,
        "0." + "0" * 322 + "5",
        "123456789012345678901234567890e-30",
        "6.9294956446009195e15",
        "7.2057594037927933e16",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203124",
        "1.000000000000000111022302462515654042363166809082031250001",
        "0."
        + "0" * 37
        + "11754943508222875079687365372222456778186655567720875215087517062784172594547271728515625",
        "[1.5",
        "1.5]",
        "1.5,2.5",
        "1e5}",
        "123456789:",
        "1.5f",
        "1d5",
        "12345678901234567890123",
        "0.000001e6",
        ".56452068128094287535e299",
        "00.56452068128094287535",
        "100000000000000016777215",
        "100000000000000016777216",
        "3.0540412E5",
        "2.98023223876953125E-8",
    ]
    for power in range(-345, 311):
        texts += [f"1e{power}", f"{RANDOM.randrange(10**17)}e{power - 16}"]
    for power in range(-1075, 1024):
        if power % 7 == 0 or power < -1068 or abs(power) < 60 or power > 1018:
            texts.append(exact_decimal(Fraction(2) ** power))
    for base in (2**53, 2**63, 2**64, 2**24, 10**15, 10**19):
        texts += [str(base + delta) for delta in range(-6, 7)]
    for length in list(range(1, 60)) + [100, 300, 700, 766, 767, 768, 769, 770, 800]:
        digits = "".join(RANDOM.choice("0123456789") for _ in range(length))
        texts += [digits, "0." + digits, f"{digits[0]}.{digits[1:]}e{RANDOM.randrange(-340, 309)}"]
    for _ in range(150):
        texts += halfway_texts(52, 1075) + halfway_texts(23, 150)
    for _ in range(300):
        value = f64_of(RANDOM.getrandbits(64))
        if value == value:
            texts.append(repr(value))
        texts.append(f"{RANDOM.uniform(-180, 180):.{RANDOM.randrange(1, 17)}f}")
        texts.append(f"{RANDOM.randrange(10**8) / 100:.2f}")
    return texts


def halfway_texts(bits, lowest):
    """The exact middle between two neighbours, and texts just beside it."""
    significand = RANDOM.randrange(2**bits, 2 ** (bits + 1))
    exponent = RANDOM.choice([RANDOM.randrange(-80, 80), RANDOM.randrange(-lowest, -lowest + 80), -lowest])
    if exponent == -lowest:
        significand = RANDOM.randrange(2 ** RANDOM.randrange(1, bits))
    text = exact_decimal(Fraction(2 * significand + 1) * Fraction(2) ** (exponent - 1))
    point = "" if "." in text else "."
    below = text[:-1] + str(int(text[-1]) - 1) + "9" if text[-1] != "0" else text
    return [text, text + point + "0" * 30 + "1", below, text + point + "0" * RANDOM.randrange(900)]


# ---- Printing


def lay_out(negative, digits, exponent):
    """The general layout: `digits` times ten to the `exponent`."""
    digits_text = str(digits)
    stripped = digits_text.rstrip("0")
    exponent += len(digits_text) - len(stripped)
    leading = exponent + len(stripped) - 1
    if not -5 <= leading < 17:
        text = stripped[0] + ("." + stripped[1:] if stripped[1:] else "")
        text += f"e{'-' if leading < 0 else '+'}{abs(leading)}"
    elif leading < 0:
        text = "0." + "0" * (-leading - 1) + stripped
    elif exponent >= 0:
        text = stripped + "0" * exponent
    else:
        text = stripped[: leading + 1] + "." + stripped[leading + 1 :]
    return ("-" if negative else "") + text


def printed_f64(bits):
    value = f64_of(bits)
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "-0" if bits >> 63 else "0"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    return lay_out(bits >> 63, int(whole + fraction), int(exponent or 0) - len(fraction))


def shortest_f32(bits):
    """Digits and exponent of the shortest decimal in a float's rounding interval, the closest of those."""
    field, fraction = bits >> 23 & 0xFF, bits & (2**23 - 1)
    significand = fraction | (2**23 if field else 0)
    unit = Fraction(2) ** ((field or 1) - 150)
    value = significand * unit
    below = unit / 4 if fraction == 0 and field > 1 else unit / 2
    low, high, closed = value - below, value + unit / 2, significand % 2 == 0
    exponent = 39
    while True:
        scale = Fraction(10) ** exponent
        base = value // scale
        inside = [
            count
            for count in (base, base + 1)
            if count and (low < count * scale < high or (closed and count * scale in (low, high)))
        ]
        if inside:
            best = min(inside, key=lambda count: (abs(count * scale - value), count % 2))
            return int(best), exponent
        exponent -= 1


def printed_f32(bits):
    value = f32_of(bits)
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "-0" if bits >> 31 else "0"
    return lay_out(bits >> 31, *shortest_f32(bits & 0x7FFFFFFF))


def f64_samples():
    values = [
        0,
        1 << 63,
        0x7FF << 52,
        0xFFF << 52,
        0x7FF8 << 48,
        1,
        2,
        3,
        2**52 - 1,
        2**52,
        2**52 + 1,
        (0x7FF << 52) - 1,
    ]
    values += [
        f64_bits(float(text))
        for text in "0.1 0.3 2.5 12.5 0.001 0.0005 0.125 99.995 1e15 1e16 1e17 1e21 1.3588129002659584e-245 "
        "1.3076622631878654e+65 2251799813685247.25 2251799813685247.75".split()
    ]
    values += [f64_bits(float(f"{digit}e{power}")) for power in range(-323, 309) for digit in (1, 9.5)]
    values += [field << 52 for field in range(1, 2047, 3)]
    values += [(field << 52) - 1 for field in range(1, 2047, 9)] + [
        (field << 52) + 1 for field in range(1, 2047, 9)
    ]
    values += [
        f64_bits(float(base + delta))
        for base in (2**53, 2**56, 10**15, 10**16, 10**17)
        for delta in range(-9, 9)
    ]
    values += [RANDOM.getrandbits(64) for _ in range(500)]
    values += [f64_bits(RANDOM.randrange(10**9) / 10 ** RANDOM.randrange(8)) for _ in range(500)]
    values += [RANDOM.getrandbits(RANDOM.randrange(1, 52)) for _ in range(50)]
    return values


def f32_samples():
    values = [0, 1 << 31, 0xFF << 23, 0x1FF << 23, 0x7FC00000, 1, 2, 3, 2**23 - 1, 2**23, (0xFF << 23) - 1]
    values += [field << 23 for field in range(1, 255)] + [(field << 23) - 1 for field in range(1, 255)]
    values += [f32_bits(float(f"1e{power}")) for power in range(-45, 39)]
    return values + [RANDOM.getrandbits(32) for _ in range(500)]


# ---- Integers and bytes


def integer_texts():
    values = [
        0,
        9,
        10,
        99,
        100,
        255,
        256,
        2**32 - 1,
        2**32,
        2**63 - 1,
        2**63,
        2**63 + 1,
        2**64 - 1,
        2**64,
        10**20,
    ]
    values += [10**power + delta for power in range(1, 21) for delta in (-1, 0, 1)]
    values += [RANDOM.getrandbits(bits) for bits in range(1, 70)]
    texts = [str(value) for value in values] + ["-" + str(value) for value in values]
    return texts + [
        "",
        "-",
        "+1",
        "01",
        "-01",
        "00",
        "000000000000000000000000012",
        "1a",
        "12345678a",
        " 1",
        "--1",
        "-0",
    ]


def integer_case(text):
    sign = 1 if text[:1] == "-" else 0
    end = sign
    while end < len(text) and text[end] in "0123456789":
        end += 1
    case = {"text": text, "end": end if end > sign else 0}
    if end > sign:
        value = int(text[:end])
        if -(2**63) <= value < 2**63:
            case["i64"] = str(value)
        if not sign and value < 2**64:
            case["u64"] = str(value)
    return case


def leb128(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def byte_cases():
    values = [0, 1, 127, 128, 255, 300, 16383, 16384, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
    values += [RANDOM.getrandbits(bits) for bits in range(1, 65)]
    cases = []
    for value in values:
        signed = value - 2**64 if value >> 63 else value
        cases.append(
            {
                "u64": str(value),
                "varint": leb128(value).hex(),
                "i64": str(signed),
                "zigzag": str((signed << 1 ^ signed >> 63) & (2**64 - 1)),
                "f64_be": struct.pack(">Q", value).hex(),
                "f64_le": struct.pack("<Q", value).hex(),
            }
        )
    return cases


# ---- Redis


class Redis:
    """Just enough of a client to pipeline commands."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")

    def read(self):
        line = self.file.readline()[:-2]
        if line[:1] == b"$":
            length = int(line[1:])
            return None if length < 0 else self.file.read(length + 2)[:-2]
        return line

    def ask(self, commands):
        answers = []
        for start in range(0, len(commands), 200):
            batch = commands[start : start + 200]
            for command in batch:
                arguments = [
                    item if isinstance(item, bytes) else item.encode("latin-1") for item in command
                ]
                head = b"*%d\r\n" % len(arguments)
                self.socket.sendall(
                    head + b"".join(b"$%d\r\n%s\r\n" % (len(item), item) for item in arguments)
                )
            answers += [self.read() for _ in batch]
        return answers


def redis_vectors(port):
    redis = Redis(port)
    values = [bits for bits in f64_samples() if f64_of(bits) == f64_of(bits)]
    values += [f64_bits(float(f"{RANDOM.uniform(-180, 180):.6f}")) for _ in range(1000)]
    commands = []
    for bits in values:
        commands += [["DEL", "vector"], ["ZADD", "vector", "INCR", repr(f64_of(bits)), "member"]]
    answers = redis.ask(commands)[1::2]
    write(
        "scores.json",
        [{"f64": f"{bits:016x}", "text": text.decode()} for bits, text in zip(values, answers)],
    )

    texts = reading_texts()[:150] + [
        "0x.8",
        "-0x1.8p1",
        "0X1P+3",
        "0x1.",
        "0x1p",
        "0x.p1",
        "0x1p-1074",
        "0x1p-1075",
    ]
    texts += [
        "0x1p1024",
        "0x1.fffffffffffff7ffp1023",
        "0x1.fffffffffffff8p1023",
        "0x0p99999999999",
        "0xg",
        "0x",
    ]
    texts += [f"0x{RANDOM.getrandbits(90):x}p{RANDOM.randrange(-1200, 1000)}" for _ in range(60)]
    commands = []
    for text in texts:
        commands += [
            ["DEL", "vector"],
            ["ZADD", "vector", "INCR", text, "member"],
            ["ZCOUNT", "vector", text, text],
        ]
    answers = redis.ask(commands)
    write(
        "score_texts.json",
        [
            {
                "text": text,
                "score": None if score[:1] == b"-" and b"ERR" in score else score.decode(),
                "bound": not bound.startswith(b"-"),
            }
            for text, score, bound in zip(texts, answers[1::3], answers[2::3])
        ],
    )
    write("sums.json", sum_cases(redis))


def sum_cases(redis):
    def number():
        digits = lambda count: "".join(RANDOM.choice("0123456789") for _ in range(count))
        shapes = [
            lambda: f"{RANDOM.randrange(-10**8, 10**8) / 100:.2f}",
            lambda: repr(RANDOM.random()),
            lambda: f"{digits(RANDOM.randrange(1, 25))}.{digits(RANDOM.randrange(25))}",
            lambda: f"{digits(RANDOM.randrange(1, 22))}e{RANDOM.randrange(-40, 40)}",
            lambda: f"{digits(1)}.{digits(RANDOM.randrange(1, 40))}e{RANDOM.randrange(-4960, 300)}",
            lambda: str(RANDOM.randrange(2**63, 2**64 + 5)) + ".5",
            lambda: exact_decimal(
                Fraction(2 * RANDOM.randrange(2**63, 2**64) + 1) / 2 ** RANDOM.randrange(60, 70)
            ),
            lambda: f"0x{RANDOM.getrandbits(80):x}p{RANDOM.randrange(-80, 20)}",
            lambda: f"{RANDOM.getrandbits(64)}e-{RANDOM.randrange(30)}",
        ]
        text = RANDOM.choice(shapes)()
        return "-" + text if RANDOM.random() < 0.3 and text[0] != "-" else text

    pairs = [
        ("0.1", "0.2"),
        ("0", "-0"),
        ("0", "4.9e-18"),
        ("0", "5e-18"),
        ("0", "1e-17"),
        ("1e4931", "1e4931"),
        ("", "1"),
    ]
    pairs += [
        ("0", "1e-4951"),
        ("0", "3e-4951"),
        ("inf", "1"),
        ("1e4932", "1.9e4931"),
        ("nan", "1"),
        ("1", " 1"),
        ("1 ", "1"),
    ]
    for _ in range(2000):
        first = number()
        pairs.append((first, number() if RANDOM.random() < 0.8 else ("-" + first).replace("--", "")))
    commands = []
    for first, second in pairs:
        commands += [["SET", "vector", first], ["INCRBYFLOAT", "vector", second]]
    answers = redis.ask(commands)[1::2]
    return [
        {"first": first, "second": second, "sum": None if b"ERR" in answer else answer.decode()}
        for (first, second), answer in zip(pairs, answers)
    ]


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def packed(kind, numbers, names=None, columns=1, flags=0):
    """Packed numbers as docs/packed.md has them."""
    body, before = b"", 0
    for number in numbers:
        if number is None:
            number = float("nan") if kind in ("F64", "F32") else before if kind == "DELTA" else 0
        if kind == "F64":
            body += struct.pack(">d", number)
        elif kind == "F32":
            body += struct.pack(">f", number)
        elif kind == "DELTA":
            body += varint((number - before) % 2**64)
        else:
            body += varint(number * 2 if number >= 0 else -number * 2 - 1)
        before = number
    missing = [number is None for number in numbers]
    flags |= 2 * any(missing) | 4 * (names is not None)
    code = ["F64", "F32", "VARINT", "DELTA"].index(kind) + 1
    out = struct.pack(">2sBBBBHII", b"MP", 1, code, flags, 0, columns, len(numbers), len(body)) + body
    if any(missing):
        bits = sum(1 << index for index, is_missing in enumerate(missing) if is_missing)
        out += bits.to_bytes((len(numbers) + 7) // 8, "little")
    encoded = [name.encode() for name in names or []]
    return out + b"".join(struct.pack(">I", len(name)) for name in encoded) + b"".join(encoded)


def packed_case(kind, numbers, names=None, columns=1, flags=0):
    show = {"F64": lambda value: f"{f64_bits(value):016x}", "F32": lambda value: f"{f32_bits(value):08x}"}
    texts = [None if number is None else show.get(kind, str)(number) for number in numbers]
    case = {"packed": packed(kind, numbers, names, columns, flags).hex(), "type": kind, "numbers": texts}
    return case | ({} if names is None else {"names": names})


def packed_cases():
    doubles = [0.0, -0.0, 1.5, -2.25, 0.1, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf")]
    integers = [-(2**63), -300, -1, 0, 0, 1, 63, 64, 127, 128, 2**32, 2**63 - 1]
    good = [
        packed_case("F64", []),
        packed_case("F64", doubles),
        packed_case("F64", doubles[:3], ["a", "", "r\u00f6m" * 50]),
        packed_case("F64", [2.5], flags=1),
        packed_case("F64", [13.5, 38.25, 15.0, 37.5], columns=2),
        packed_case("F64", [1.0, None, 3.0]),
        packed_case("F32", [0.5, -1.0, float("inf"), 0.10000000149011612], ["w", "x", "y", "z"]),
        packed_case("VARINT", integers),
        packed_case("VARINT", integers[::-1]),
        packed_case("VARINT", [None, 7, None, 1, 2, 3, 4, 5, None]),
        packed_case("DELTA", integers),
        packed_case("DELTA", [1_700_000_000_000 + 20 * step for step in range(20)], [str(n) for n in range(20)]),
    ]
    whole = packed("F64", [1.0, 2.0], ["a", "b"])
    bad = [whole[:size] for size in (0, 3, 15, 16, 31, 33, len(whole) - 1)] + [whole + b"x"]
    for place, value in [(0, 0), (2, 2), (3, 0), (3, 5), (4, 64), (5, 1), (7, 0), (7, 3), (8, 1), (12, 1), (32, 1)]:
        changed = bytearray(whole)
        changed[place] = value
        bad.append(bytes(changed))
    ten = b"\xff" * 9
    for number in (ten + b"\x02", ten + b"\x81\x00", b"\x80"):
        bad.append(struct.pack(">2sBBBBHII", b"MP", 1, 3, 0, 0, 1, 1, len(number)) + number)
    bad.append(struct.pack(">2sBBBBHII", b"MP", 1, 3, 0, 0, 1, 2**31 - 1, 1) + b"\x01")
    beyond = bytearray(packed("VARINT", [None, 7]))
    beyond[-1] |= 4
    bad.append(bytes(beyond))
    return good + [{"packed": data.hex()} for data in bad]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--redis", type=int, metavar="PORT")
    options = parser.parse_args()
    write("reading.json", [reading_case(text) for text in reading_texts()])
    write(
        "printing_f64.json", [{"f64": f"{bits:016x}", "text": printed_f64(bits)} for bits in f64_samples()]
    )
    write(
        "printing_f32.json", [{"f32": f"{bits:08x}", "text": printed_f32(bits)} for bits in f32_samples()]
    )
    write("integers.json", [integer_case(text) for text in integer_texts()])
    write("bytes.json", byte_cases())
    write("packed.json", packed_cases())
    if options.redis:
        redis_vectors(options.redis)


if __name__ == "__main__":
    main()
