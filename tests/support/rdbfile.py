"""Writes RDB files of old versions by hand: the encodings that no redis-server of today writes any more.

The format is the one documented by its readers: a header `REDIS` and four digits, records of an op code, a
key and a value, 0xFF, and from version 5 on a CRC-64 (polynomial of Jones, reflected, little-endian).
"""

import struct

EXPIRE_MILLISECONDS, EXPIRE_SECONDS, SELECT_DB, END, AUX, RESIZE = 0xFC, 0xFD, 0xFE, 0xFF, 0xFA, 0xFB
IDLE, FREQUENCY, MODULE_AUX = 0xF8, 0xF9, 0xF7
STRING, LIST, SET, ZSET, HASH, ZSET_BINARY = 0, 1, 2, 3, 4, 5
HASH_ZIPMAP, LIST_ZIPLIST, SET_INTSET, ZSET_ZIPLIST, HASH_ZIPLIST, LIST_QUICKLIST = 9, 10, 11, 12, 13, 14
MODULE = 7
HASH_LISTPACK, ZSET_LISTPACK, LIST_QUICKLIST_2, SET_LISTPACK = 16, 17, 18, 20
CRC_POLYNOMIAL = 0x95AC9329AC4BC9B5


def version_of(path):
    """The version of a file: four digits behind `REDIS`."""
    return path.read_bytes()[5:9]


def crc_table():
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (CRC_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = crc_table()


def crc64(data):
    """The checksum at the end of a file."""
    value = 0
    for byte in data:
        value = CRC_TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value


def length(number):
    """A length: 6, 14, 32 or 64 bits."""
    if number < 1 << 6:
        return bytes([number])
    if number < 1 << 14:
        return bytes([0x40 | number >> 8, number & 0xFF])
    if number < 1 << 32:
        return b"\x80" + struct.pack(">I", number)
    return b"\x81" + struct.pack(">Q", number)


def string(data):
    """A string as it is."""
    data = data if isinstance(data, bytes) else str(data).encode()
    return length(len(data)) + data


def integer_string(number):
    """A string that is a small integer, in its short form."""
    for code, (size, limit) in enumerate(((1, 7), (2, 15), (4, 31))):
        if -(1 << limit) <= number < 1 << limit:
            return bytes([0xC0 | code]) + number.to_bytes(size, "little", signed=True)
    return string(str(number))


def lzf_string(data):
    """A string in LZF form: literal runs, and one back reference where a byte repeats."""
    packed, position = bytearray(), 0
    while position < len(data):
        run = 1
        while position + run < len(data) and data[position + run] == data[position] and run < 200:
            run += 1
        packed += bytes([0, data[position]])
        if run > 4:  # the rest of the run refers to the byte before it
            repeat = run - 1 - 2
            packed += bytes([min(repeat, 7) << 5]) if repeat < 7 else bytes([7 << 5, repeat - 7])
            packed += b"\x00"
            position += run
        else:
            position += 1
    return b"\xc3" + length(len(packed)) + length(len(data)) + bytes(packed)


def text_score(score):
    """A score as version 1 to 7 files hold it: its text, with codes for nan and the infinities."""
    if score in ("nan", "inf", "-inf"):
        return bytes([{"nan": 253, "inf": 254, "-inf": 255}[score]])
    return bytes([len(score)]) + score.encode()


def intset(numbers):
    """A sorted array of integers of one width."""
    numbers = sorted(numbers)
    width = next(
        width for width in (2, 4, 8) if all(-(1 << 8 * width - 1) <= n < 1 << 8 * width - 1 for n in numbers)
    )
    body = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
    return struct.pack("<II", width, len(numbers)) + body


def ziplist_entry(value, previous):
    """One entry: the size of the one before, the encoding, the data."""
    head = bytes([previous]) if previous < 254 else b"\xfe" + struct.pack("<I", previous)
    if isinstance(value, int):
        if 0 <= value <= 12:
            return head + bytes([0xF1 + value])
        for code, size in ((0xFE, 1), (0xC0, 2), (0xF0, 3), (0xD0, 4), (0xE0, 8)):
            if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
                return head + bytes([code]) + value.to_bytes(size, "little", signed=True)
    if len(value) < 1 << 6:
        return head + bytes([len(value)]) + value
    if len(value) < 1 << 14:
        return head + bytes([0x40 | len(value) >> 8, len(value) & 0xFF]) + value
    return head + b"\x80" + struct.pack(">I", len(value)) + value


def ziplist(values):
    """The packed list of versions before 7.0; values are bytes or integers."""
    entries, previous, tail = b"", 0, 10
    for value in values:
        entry = ziplist_entry(value, previous)
        tail, previous = 10 + len(entries), len(entry)
        entries += entry
    size = 10 + len(entries) + 1
    return struct.pack("<IIH", size, tail, min(len(values), 0xFFFF)) + entries + b"\xff"


def zipmap(pairs):
    """The packed hash of versions before 2.6."""
    body = bytes([min(len(pairs), 254)])
    for field, value in pairs:
        body += zipmap_length(field) + field + zipmap_length(value) + b"\x00" + value
    return body + b"\xff"


def zipmap_length(data):
    return bytes([len(data)]) if len(data) < 254 else b"\xfe" + struct.pack("<I", len(data))


class File:
    """Collects records and gives the bytes of the file."""

    def __init__(self, version):
        self.version = version
        self.body = b"REDIS%04d" % version
        if version >= 7:
            self.aux("redis-ver", "3.2.0")
            self.aux("redis-bits", "64")

    def aux(self, name, value):
        self.body += bytes([AUX]) + string(name) + string(value)

    def select(self, database):
        self.body += bytes([SELECT_DB]) + length(database)

    def resize(self, keys, expires):
        self.body += bytes([RESIZE]) + length(keys) + length(expires)

    def expire_seconds(self, moment):
        self.body += bytes([EXPIRE_SECONDS]) + struct.pack("<i", moment)

    def expire_milliseconds(self, moment):
        self.body += bytes([EXPIRE_MILLISECONDS]) + struct.pack("<q", moment)

    def record(self, kind, key, value):
        """A key with its already encoded value."""
        self.body += bytes([kind]) + string(key) + value

    def bytes(self, checksum=True):
        body = self.body + bytes([END])
        if self.version < 5:
            return body
        return body + struct.pack("<Q", crc64(body) if checksum else 0)


def flat(kind_of_string, values):
    """A counted sequence of strings."""
    return length(len(values)) + b"".join(map(kind_of_string, values))


def module_identifier(name, version=1):
    """The number that stands for a module's type: nine characters of six bits, and a version."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    number = 0
    for character in name:
        number = number << 6 | alphabet.index(character)
    return number << 10 | version
