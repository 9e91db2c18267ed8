"""JSON.SET with FPHA, which the module here has not yet: arrays of numbers are rounded to a type of floats."""

import json
import struct

import pytest

from support.seeds import generator
from support.servers import Server

OUT_OF_RANGE = {"FP16": 65520, "BF16": 3.3961775292304601e38, "FP32": 3.4028235677973366e38}


@pytest.fixture(scope="module")
def server():
    with Server("subject", workers=2) as subject:
        yield subject


@pytest.fixture
def client(server):
    with server.connect(2) as connection:
        connection.call("FLUSHALL")
        yield connection


def bfloat(value):
    """The closest number of 16 bits and eight bits of exponent, of two the even one; for values that are binary32."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]


def rounded(kind, value):
    if kind == "BF16":
        return bfloat(value)
    code = {"FP16": "<e", "FP32": "<f", "FP64": "<d"}[kind]
    return struct.unpack(code, struct.pack(code, value))[0]


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


@pytest.mark.parametrize("kind", ["FP16", "BF16", "FP32", "FP64"])
def test_numbers_are_the_closest_of_the_type_with_the_digits_of_a_float(client, kind):
    random = generator(f"floats-{kind}")
    # All are binary32, so that the one way of bfloat has no second rounding.
    numbers = [single(random.choice([-1, 1]) * random.random() * 10 ** random.randrange(-9, 4)) for _ in range(2000)]
    numbers += [0, -0.0, 1, -7, 60000]
    assert client.call("JSON.SET", "key", "$", json.dumps({"name": "n", "v": numbers, "n": 1}), "FPHA", kind) == b"OK"
    text = client.call("JSON.GET", "key")
    found = json.loads(text)
    assert found["n"] == 1 and isinstance(found["n"], int)
    assert len(found["v"]) == len(numbers)
    for before, after in zip(numbers, found["v"]):
        assert isinstance(after, float)
        expected = rounded(kind, before)
        assert (after if kind == "FP64" else single(after)) == expected, before
        # No text of fewer digits is the same float.
        if kind != "FP64":
            digits = len(repr(after).split("e")[0].replace(".", "").strip("-0"))
            assert digits <= 1 or single(float(f"{expected:.{digits - 2}e}")) != expected, before
    # A second time nothing changes, and what is printed reads back as the same document.
    client.call("JSON.SET", "again", "$", text, "FPHA", kind)
    client.call("JSON.SET", "plain", "$", text)
    assert client.call("JSON.GET", "again") == client.call("JSON.GET", "plain") == text


def test_arrays_of_numbers_alone_are_rounded_at_any_depth(client):
    value = '{"a":[1,2],"b":[1,"x"],"c":[[0.1],[1,[2]],[]],"d":0.1}'
    client.call("JSON.SET", "key", "$", value, "NX", "FPHA", "fp16")
    assert client.call("JSON.GET", "key") == b'{"a":[1.0,2.0],"b":[1,"x"],"c":[[0.099975586],[1,[2.0]],[]],"d":0.1}'
    assert client.call("JSON.SET", "key", "$.a", "[0.1,3]", "FPHA", "BF16", "XX") == b"OK"
    assert client.call("JSON.GET", "key", "$.a") == b"[[0.100097656,3.0]]"
    assert client.call("JSON.TYPE", "key", "$.a[1]") == [b"number"]
    assert client.call("JSON.ARRAPPEND", "key", "$.a", "0.1") == [3]
    assert client.call("JSON.GET", "key", "$.a") == b"[[0.100097656,3.0,0.1]]"


@pytest.mark.parametrize("kind", list(OUT_OF_RANGE))
def test_a_number_beyond_the_type_changes_nothing(client, kind):
    client.call("JSON.SET", "key", "$", "[1]")
    for text, line, column in [
        (f"[{OUT_OF_RANGE[kind]!r}]", 1, 1 + len(repr(OUT_OF_RANGE[kind]))),
        ('{"a":[1],\n "b":[ 2 , -1e300 ,5]}', 2, 17),
        ("[[1],[18446744073709551615, 1e39]]", 1, 32),
    ]:
        if kind == "FP16" and "18446" in text:
            column = 26
        for path in ["$", "$[0]"]:
            reply = client("JSON.SET", "key", path, text, "FPHA", kind)
            assert reply.text() == f"value out of range for {kind} at line {line} column {column}"
    assert client.call("JSON.GET", "key") == b"[1]"


def test_options_are_checked(client):
    for options, message in [
        (["FPHA"], "ERR wrong number of arguments for 'json.set' command"),
        (["FPHA", "FP8"], "ERR syntax error"),
        (["FPHA", "FP16", "NX", "XX"], "ERR syntax error"),
    ]:
        reply = client("JSON.SET", "key", "$", "[1]", *options)
        assert reply.is_error and reply.text() == message
    assert client.call("EXISTS", "key") == 0


def test_what_is_rounded_stays_in_the_log_and_the_dump():
    server = Server("subject", {"appendonly": "yes"})
    with server, server.connect() as client:
        client.call("JSON.SET", "key", "$", '{"v":[0.1,1]}', "FPHA", "BF16")
        client.call("JSON.SET", "key", "$.w", "[0.2]", "FPHA", "FP16")
        before = client.call("JSON.GET", "key")
        assert before == b'{"v":[0.100097656,1.0],"w":[0.19995117]}'
        client.call("RESTORE", "copy", 0, client.call("DUMP", "key"))
        assert client.call("JSON.GET", "copy") == before
        client.call("DEBUG", "LOADAOF")
        assert client.call("JSON.GET", "key") == before


def test_an_embedding_takes_five_bytes_a_number(client):
    random = generator("embedding")
    numbers = [single(random.uniform(-1, 1)) for _ in range(1000)]
    client.call("JSON.SET", "key", "$", json.dumps(numbers))
    assert json.loads(client.call("JSON.GET", "key")) == numbers
    assert client.call("MEMORY", "USAGE", "key") < 5 * len(numbers) + 600
