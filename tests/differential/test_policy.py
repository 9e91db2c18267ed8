"""The written policy and the code agree, and the comparers do what the page says."""

import pathlib

import pytest

from differential import policy
from differential.stream import parse_line, split_words
from support.resp import Decoder

PAGE = (pathlib.Path(__file__).parent / "POLICY.md").read_text()


def reply(raw):
    decoder = Decoder()
    decoder.feed(raw)
    return decoder.next()


@pytest.mark.parametrize("name", sorted(policy.COMPARERS) + ["near"])
def test_every_policy_is_described(name):
    assert f"| `{name}" in PAGE


@pytest.mark.parametrize(
    "name, oracle, subject, same",
    [
        ("exact", b"*2\r\n+a\r\n+b\r\n", b"*2\r\n+b\r\n+a\r\n", False),
        ("unordered", b"*2\r\n+a\r\n+b\r\n", b"*2\r\n+b\r\n+a\r\n", True),
        ("unordered", b"*2\r\n+a\r\n+b\r\n", b"~2\r\n+b\r\n+a\r\n", False),
        ("unordered", b"*2\r\n+a\r\n+a\r\n", b"*2\r\n+a\r\n+b\r\n", False),
        ("pairs", b"%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n", b"%2\r\n+b\r\n:2\r\n+a\r\n:1\r\n", True),
        ("pairs", b"%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n", b"%2\r\n+b\r\n:1\r\n+a\r\n:2\r\n", False),
        ("nested", b"*2\r\n$5\r\nnotes\r\n+a\r\n", b"*2\r\n$5\r\nnotes\r\n+b\r\n", True),
        ("nested", b"*2\r\n$5\r\nnotes\r\n+a\r\n", b"*2\r\n$5\r\nnotes\r\n:1\r\n", False),
        ("nested", b"*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n", b"*2\r\n:3\r\n*2\r\n:2\r\n:1\r\n", True),
        ("nested", b"*2\r\n+a\r\n+b\r\n", b"*2\r\n+b\r\n+c\r\n", False),
        ("near=2", b":100\r\n", b":99\r\n", True),
        ("near=2", b":100\r\n", b":97\r\n", False),
        ("near=2", b":-1\r\n", b":-2\r\n", False),
        ("near=2", b":-1\r\n", b":1\r\n", False),
        ("moments", b"*2\r\n:5\r\n:1700000000000\r\n", b"*2\r\n:5\r\n:1700000000900\r\n", True),
        ("moments", b"*2\r\n:5\r\n:1700000000000\r\n", b"*2\r\n:6\r\n:1700000000000\r\n", False),
        ("moments", b":1700000000000\r\n", b":1700000090000\r\n", False),
        ("shape", b"*1\r\n$1\r\na\r\n", b"*1\r\n$1\r\nb\r\n", True),
        ("shape", b"$-1\r\n", b"$1\r\nb\r\n", False),
        ("shape", b"-ERR a\r\n", b"-ERR b\r\n", False),
        (
            "acl_log",
            b"*1\r\n*4\r\n+n\r\n:1\r\n+age-seconds\r\n+1\r\n",
            b"*1\r\n*4\r\n+n\r\n:1\r\n+age-seconds\r\n+2\r\n",
            True,
        ),
        ("acl_log", b"*1\r\n*2\r\n+n\r\n:1\r\n", b"*1\r\n*2\r\n+n\r\n:2\r\n", False),
        ("code", b"-ERR a\r\n", b"-ERR b\r\n", True),
        ("kind", b"-ERR a\r\n", b"-ERR b\r\n", False),
        ("scan", b"*2\r\n$1\r\n5\r\n*0\r\n", b"*2\r\n$1\r\n9\r\n*1\r\n+a\r\n", True),
        ("scan", b"*2\r\n$1\r\n0\r\n*0\r\n", b"*2\r\n$1\r\n0\r\n*1\r\n+a\r\n", False),
    ],
)
def test_comparers(name, oracle, subject, same):
    assert policy.agree(name, reply(oracle), reply(subject)) is same


def test_a_queued_command_keeps_its_policy():
    oracle, subject = reply(b"*2\r\n:9\r\n:10\r\n"), reply(b"*2\r\n:9\r\n:11\r\n")
    assert policy.agree_exec(["exact", "near=2"], oracle, subject)
    assert not policy.agree_exec(["near=2", "exact"], oracle, subject)


def test_words_are_split_as_redis_cli_does():
    assert split_words(r'''SET "a\x00\n" 'it\'s' ${ab*1} ${x*3} ""''') == [
        b"SET",
        b"a\x00\n",
        b"it's",
        b"${ab*1}",
        b"xxx",
        b"",
    ]
    with pytest.raises(ValueError):
        split_words('"open')


def test_lines_carry_annotations():
    [line] = parse_line("f:1", "[near=5, replies=2] @3 TTL k")
    assert (line.policy, line.replies, line.connection, line.args) == ("near=5", 2, 3, [b"TTL", b"k"])
    assert [line.args[1] for line in parse_line("f:1", "!repeat 2 GET k{i}")] == [b"k0", b"k1"]
    with pytest.raises(ValueError):
        parse_line("f:1", "[nonsense] GET k")
