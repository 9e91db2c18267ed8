"""The wire format of packed numbers, written again from docs/packed.md with struct."""

import struct

F64, F32, VARINT, DELTA = 1, 2, 3, 4
SCALAR, NULLS, NAMES, COLUMNS = 1, 2, 4, 8


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


def pack(kind, numbers, names=None, scalar=False):
    """Packed numbers, with a name each if there are names."""
    body = bytearray()
    before = 0
    for number in numbers:
        if kind == F64:
            body += struct.pack(">d", number)
        elif kind == F32:
            body += struct.pack(">f", number)
        elif kind == DELTA:
            body += put_varint((number - before) % 2**64)
        else:
            body += put_varint(zigzag(number))
        before = number
    flags = (SCALAR if scalar else 0) | (0 if names is None else NAMES)
    header = struct.pack(">2sBBBBHII", b"MP", 1, kind, flags, 0, 1, len(numbers), len(body))
    return header + body + b"".join(struct.pack(">I", len(name)) for name in names or []) + b"".join(names or [])


class Packed:
    """Packed numbers, read."""

    def __init__(self, data):
        letters, version, kind, flags, zero, columns, count, size = struct.unpack_from(">2sBBBBHII", data)
        assert (letters, version, zero) == (b"MP", 1, 0)
        self.kind, self.columns, self.is_scalar = kind, columns, bool(flags & SCALAR)
        at = 16
        if kind in (F64, F32):
            letter, each = ("d", 8) if kind == F64 else ("f", 4)
            assert size == each * count
            self.numbers = list(struct.unpack_from(f">{count}{letter}", data, at))
            at += size
        else:
            self.numbers, last = [], 0
            for _ in range(count):
                word, at = take_varint(data, at)
                last = (last + word + 2**63) % 2**64 - 2**63 if kind == DELTA else unzigzag(word)
                self.numbers.append(last)
            assert at == 16 + size
        assert not flags & NULLS

        def names(number):
            nonlocal at
            sizes = struct.unpack_from(f">{number}I", data, at)
            at += 4 * number
            found = []
            for size in sizes:
                found.append(data[at : at + size])
                at += size
            return found

        self.names = names(count // columns) if flags & NAMES else None
        self.column_names = names(columns) if flags & COLUMNS else None
        assert at == len(data)


def unpack(data):
    """The type, the numbers, and the names of the rows."""
    packed = Packed(data)
    return packed.kind, packed.numbers, packed.names
