"""Every command with every kind of bad argument, made from one good call each (matrix.txt).

For each good call: the call itself on a key of each type; each argument in turn replaced by odd values,
dropped and doubled; an argument added. Before each call its keys are set anew, and after it the keys are
compared by digest.
"""

import pathlib

import pytest

from differential.policy import agree, policy_of
from differential.runner import Mismatch, from_difference
from support.resp import show, to_bytes
from support.servers import Server

CALLS = [
    line.split(" ")
    for line in (pathlib.Path(__file__).parent / "matrix.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
ODD_VALUES = [
    b"",
    b"abc",
    b"0",
    b"-1",
    b"1.5",
    b"-0",
    b" 1",
    b"1 ",
    b"+1",
    b"01",
    b"1e3",
    b"inf",
    b"-inf",
    b"nan",
    b"0x10",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"4294967296",
    b"\x00\xff",
    b"x" * 70,
    b"(1",
    b"[a",
    b"*",
    b"1e400",
    b"1e-400",
    b"0x1p3",
    b" -1",
    b"1\n",
    b"1\x00",
    b"-9223372036854775809",
]
SETUPS = {
    "none": [],
    "number": [["SET", "K", "10"]],
    "string": [["SET", "K", "some text"]],
    "list": [["RPUSH", "K", "a", "b", "c", "b"]],
    "hash": [["HSET", "K", "a", "1", "b", "text"]],
    "intset": [["SADD", "K", "1", "2", "3"]],
    "set": [["SADD", "K", "a", "b", "c"]],
    "zset": [["ZADD", "K", "1", "a", "2", "b", "3", "c"]],
    "stream": [
        ["XADD", "K", "1-1", "a", "1.50"],
        ["XADD", "K", "1-2", "b", "text"],
        ["XGROUP", "CREATE", "K", "g", "0"],
        ["XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "K", ">"],
    ],
    "expiring": [["SET", "K", "v", "EX", "1000"]],
}
TYPICAL = {
    "string": "number",
    "list": "list",
    "hash": "hash",
    "set": "set",
    "zset": "zset",
    "stream": "stream",
}
# Calls whose good form waits, or whose mutated form would wait for ever or take the connection away.
ENDLESS = {b"BLPOP", b"BRPOP", b"BLMOVE", b"BRPOPLPUSH", b"BLMPOP", b"BZPOPMIN", b"BZPOPMAX", b"BZMPOP"}
# Random counts near 2^63 make redis-server loop or run out of memory.
HUGE_COUNTS = {b"SRANDMEMBER", b"HRANDFIELD", b"ZRANDMEMBER", b"SPOP"}
SHOWN_MAX = 40


def unsafe(args, call):
    """Whether a made-up call would block for ever, or ask for a reply without end."""
    name = args[0].upper() if args else b""
    if name in ENDLESS:
        timeout = call.index("0.001")
        return (
            args[timeout : timeout + 1] != [b"0.001"]
            if name in (b"BLMPOP", b"BZMPOP")
            else args[-1] != b"0.001"
        )
    if args[:2] == [b"SPOP", b"K"] and len(args) == 2 or args == [b"CONFIG", b"GET", b"*"]:
        return True  # what it takes is random; what it lists is the server's own
    if name in HUGE_COUNTS:
        return any(len(arg) > 8 and arg[-1:].isdigit() for arg in args)
    if name == b"LSET" and any(len(arg) > 9 for arg in args[2:3]):
        return True  # redis-server cuts the index to 32 bits
    if name == b"SETRANGE" or name == b"SETBIT":
        return b"4294967296" in args
    if name == b"DEBUG" and args[1:2] == [b"SLEEP"]:
        return len(args) > 2 and args[2] not in (b"0", b"", b"abc", b"-1")
    return name in (b"QUIT", b"MONITOR") or args[:2] == [b"CONFIG", b"SET"] and args[2:3] == [b"*"]


def variants(call, setups=SETUPS, typical=TYPICAL):
    """(setup, args) of the good call and of all made from it."""
    kind, *good = call
    good = [to_bytes(word) for word in good]
    usual = typical[kind]
    for setup in setups:
        # The dump of a stream shows when its entries were delivered.
        if (setup, good[0]) != ("stream", b"DUMP"):
            yield setup, good
    for position in range(1, len(good)):
        for odd in ODD_VALUES:
            yield usual, [*good[:position], odd, *good[position + 1 :]]
            if kind != "string":
                yield "none", [*good[:position], odd, *good[position + 1 :]]
        yield usual, [*good[:position], *good[position + 1 :]]
        yield usual, [*good[: position + 1], *good[position:]]
        yield usual, good[:position]
        yield usual, [*good[:position], b"abc", *good[position + 1 :], b"extra"]
        yield "string", [*good[:position], b"abc", *good[position + 1 :]]
    yield usual, good[:1]
    yield usual, [*good, b"extra"]
    yield usual, [*good, b"extra", b"more"]


def requests_of(call, setups, typical, left_out):
    """For each variant the requests to send: clean, set up, call, look."""
    for setup, args in variants(call, setups, typical):
        if not unsafe(args, call[1:]) and left_out.isdisjoint(args):
            yield (
                [
                    [b"SELECT", b"0"],
                    [b"FLUSHALL"],
                    *setups[setup],
                    args,
                    [b"SELECT", b"0"],
                    [b"DEBUG", b"DIGEST"],
                    [b"PTTL", b"K"],
                    [b"OBJECT", b"ENCODING", b"K"],
                ],
                setup,
            )


def play(call, oracle, subject, setups=SETUPS, typical=TYPICAL, left_out=frozenset()):
    """Mismatches of all variants of a call, but of those that have a word that is left out."""
    groups = list(requests_of(call, setups, typical, left_out))
    flat = [request for group, _ in groups for request in group]
    answers = [iter(connection.pipeline(flat, batch=400)) for connection in (oracle, subject)]
    found = []
    for group, setup in groups:
        called = group[-5]
        for request in group:
            left, right = (next(replies) for replies in answers)
            if not agree(policy_of([to_bytes(arg) for arg in request]), left, right):
                text = " ".join(show(to_bytes(arg), 90) or '""' for arg in called)
                after = (
                    ""
                    if request is called
                    else f" then {' '.join(show(to_bytes(arg), 40) for arg in request)}"
                )
                parts = from_difference(show(left.raw, 10_000), show(right.raw, 10_000))
                found.append(Mismatch(f"K is {setup}", text + after, *parts))
    return found


@pytest.fixture(scope="module", params=[2, 3], ids=["resp2", "resp3"])
def connections(request):
    options = {
        "hz": 500,
        "slowlog-log-slower-than": -1,
    }  # a blocked client's time is looked at `hz` times a second
    with Server("oracle", options) as oracle, Server("subject", options, workers=2) as subject:
        yield oracle.connect(request.param), subject.connect(request.param), subject
        if not subject.alive:
            print(subject.log_tail())


@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda number: "-".join(CALLS[number][1:4]))
def test_calls(number, connections):
    oracle, subject, server = connections
    assert server.alive, "the subject is gone"
    found = play(CALLS[number], oracle, subject)
    if found:
        pytest.fail(f"{len(found)} mismatches\n" + "\n".join(map(str, found[:SHOWN_MAX])), pytrace=False)
