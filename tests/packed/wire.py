"""The wire format of packed numbers, written again from docs/packed.md with struct."""

import struct

F64, F32, VARINT, DELTA = 1, 2, 3, 4
NUMBERS, PAIRS, ENTRIES = 0, 1, 2


def put_varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def take_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def zigzag(value):
    return value * 2 if value >= 0 else -value * 2 - 1


def unzigzag(value):
    return value // 2 if value % 2 == 0 else -(value + 1) // 2


def pack(kind, numbers, names=None):
    """Packed numbers, with a name each if there are names."""
    out = bytearray(struct.pack(">BBBBI", 1, kind, NUMBERS if names is None else PAIRS, 0, len(numbers)))
    before = None
    for number in numbers:
        if kind == F64:
            out += struct.pack(">d", number)
        elif kind == F32:
            out += struct.pack(">f", number)
        elif kind == DELTA and before is not None:
            out += put_varint(number - before)
        else:
            out += put_varint(zigzag(number))
        before = number
    for name in names or []:
        out += put_varint(len(name)) + name
    return bytes(out)


def unpack(data):
    """The type, the numbers and what is beside them: None, names, or a list of (ms, seq, names)."""
    version, kind, contents, zero, count = struct.unpack_from(">BBBBI", data)
    assert (version, zero) == (1, 0)
    at = 8
    if kind in (F64, F32):
        letter, size = ("d", 8) if kind == F64 else ("f", 4)
        numbers = list(struct.unpack_from(f">{count}{letter}", data, at))
        at += size * count
    else:
        numbers = []
        for index in range(count):
            word, at = take_varint(data, at)
            numbers.append(numbers[-1] + word if kind == DELTA and index else unzigzag(word))

    def name(at):
        size, at = take_varint(data, at)
        return data[at : at + size], at + size

    beside = None
    if contents == PAIRS:
        beside = []
        for _ in range(count):
            one, at = name(at)
            beside.append(one)
    elif contents == ENTRIES:
        beside, seen, names = [], 0, []
        while seen < count:
            ms, at = take_varint(data, at)
            seq, at = take_varint(data, at)
            fields, at = take_varint(data, at)
            if fields:
                names = []
                for _ in range(fields):
                    one, at = name(at)
                    names.append(one)
            beside.append((ms, seq, names))
            seen += len(names)
    assert at == len(data)
    return kind, numbers, beside
