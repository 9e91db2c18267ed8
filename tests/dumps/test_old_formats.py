"""Files of old versions, put together by hand, give the same data here as in redis-server."""

import pytest

from support import rdbfile
from support.rdbfile import (
    File,
    flat,
    integer_string,
    intset,
    length,
    lzf_string,
    string,
    text_score,
    ziplist,
    zipmap,
)
from support.state import differences, read_state

PAIRS = [(b"one", b"1"), (b"two", b""), (b"long", b"x" * 300), (b"y" * 260, b"z")]
SCORES = [
    (b"a", "1"),
    (b"b", "-2.5"),
    (b"c", "inf"),
    (b"d", "-inf"),
    (b"e", "0.1"),
    (b"f", "1e100"),
    (b"g", "-0"),
]
ENTRIES = [
    b"text",
    0,
    12,
    13,
    -1,
    127,
    -128,
    300,
    70000,
    2**31,
    -(2**40),
    2**62,
    b"x" * 100,
    b"y" * 20000,
    b"",
]


def strings(file):
    file.record(rdbfile.STRING, "plain", string("value"))
    file.record(rdbfile.STRING, "empty", string(""))
    file.record(rdbfile.STRING, "packed", lzf_string(b"a" * 100 + b"tail" + b"b" * 300))
    for number in (0, -1, 127, -128, 128, 32767, -32768, 32768, 2**31 - 1, -(2**31)):
        file.record(rdbfile.STRING, f"number {number}", integer_string(number))
    file.record(rdbfile.STRING, "x" * 20000, string("y" * 70000))


def plain_collections(file):
    file.record(rdbfile.LIST, "list", flat(string, [b"a", b"b", b"a", b""]))
    file.record(rdbfile.LIST, "list of numbers", flat(integer_string, [1, -5, 40000]))
    file.record(rdbfile.SET, "set", flat(string, [b"a", b"b", b"c" * 100]))
    file.record(rdbfile.SET, "set of numbers", flat(integer_string, [3, 1, 2]))
    file.record(rdbfile.HASH, "hash", length(len(PAIRS)) + b"".join(string(k) + string(v) for k, v in PAIRS))
    file.record(
        rdbfile.ZSET, "zset", length(len(SCORES)) + b"".join(string(m) + text_score(s) for m, s in SCORES)
    )


def packed_collections(file):
    file.record(rdbfile.HASH_ZIPMAP, "zipmap", string(zipmap(PAIRS)))
    file.record(rdbfile.HASH_ZIPMAP, "zipmap packed", lzf_string(zipmap(PAIRS)))
    file.record(rdbfile.LIST_ZIPLIST, "list", string(ziplist(ENTRIES)))
    file.record(rdbfile.LIST_ZIPLIST, "list packed", lzf_string(ziplist([b"a" * 50, b"b" * 50])))
    for name, numbers in (("16", [1, -2, 300]), ("32", [1, 70000]), ("64", [1, 2**40, -(2**62)])):
        file.record(rdbfile.SET_INTSET, f"intset {name}", string(intset(numbers)))
    members = [value for index, entry in enumerate(ENTRIES) for value in (entry, index)]
    file.record(rdbfile.HASH_ZIPLIST, "hash", string(ziplist(members)))
    scored = [b"a", -5, b"b", b"0.25", b"c", b"1.5", b"d", 100]
    file.record(rdbfile.ZSET_ZIPLIST, "zset", string(ziplist(scored)))


def quicklists(file):
    nodes = [ziplist([b"a", 1]), ziplist([b"b" * 300]), ziplist(ENTRIES)]
    file.record(rdbfile.LIST_QUICKLIST, "quicklist", flat(string, nodes))


def expiries(file):
    file.expire_seconds(2_000_000_000)
    file.record(rdbfile.STRING, "seconds", string("v"))
    file.expire_milliseconds(33_177_117_420_123)
    file.record(rdbfile.STRING, "milliseconds", string("v"))
    file.expire_milliseconds(1)
    file.record(rdbfile.STRING, "past", string("v"))
    file.select(5)
    file.record(rdbfile.STRING, "elsewhere", string("v"))


def hints(file):
    """What versions 8 and 9 write between records."""
    file.resize(3, 0)
    file.body += bytes([rdbfile.IDLE]) + length(100)
    file.record(rdbfile.STRING, "idle", string("v"))
    file.body += bytes([rdbfile.FREQUENCY, 7])
    file.record(rdbfile.STRING, "frequent", string("v"))
    file.aux("some-new-field", "ignored")


PARTS = {
    "strings": (1, strings),
    "plain": (1, plain_collections),
    "packed": (4, packed_collections),
    "quicklists": (7, quicklists),
    "expiries": (3, expiries),
    "hints": (9, hints),
}
CASES = [
    (version, part) for part, (since, _) in PARTS.items() for version in range(1, 13) if version >= since
]


@pytest.mark.parametrize("version, part", CASES)
def test_an_old_file_loads(version, part, start_server, tmp_path):
    file = File(version)
    file.select(0)
    PARTS[part][1](file)
    (tmp_path / "dump.rdb").write_bytes(file.bytes())
    pictures = []
    for kind in ("oracle", "subject"):
        server = start_server(kind, directory=tmp_path)
        with server.connect() as connection:
            pictures.append((read_state(connection), connection.call("DEBUG", "DIGEST")))
        server.kill()
    assert pictures[0][0], "the file holds something"
    assert not differences(pictures[0][0], pictures[1][0])
    assert pictures[0][1] == pictures[1][1]


def test_a_file_without_checksum_loads(start_server, tmp_path):
    file = File(9)
    strings(file)
    (tmp_path / "dump.rdb").write_bytes(file.bytes(checksum=False))
    with start_server("subject", directory=tmp_path).connect() as connection:
        assert connection.call("GET", "plain") == b"value"


def test_a_file_of_a_later_version_is_refused(start_server, tmp_path):
    (tmp_path / "dump.rdb").write_bytes(File(99).bytes())
    server = start_server("subject", directory=tmp_path, wait=False)
    assert server.wait_exit() != 0
    assert "version" in server.log_text().lower()
