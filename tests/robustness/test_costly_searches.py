"""Searches that took hours: what they cost is in proportion to what they look at, or they are refused."""

import json

import pytest

from support.servers import subject_is_oracle

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no arrays and no documents")

# Compiling it takes a tenth of a second.
COSTLY = r"(\w{30}){6}"


@pytest.fixture
def client(start_server):
    server = start_server("subject", workers=2)
    with server.connect() as connection:
        yield connection
        assert connection.call("PING") == b"PONG"
    assert server.alive and "panic" not in server.log_text()


def test_an_expression_of_a_document_is_compiled_once(client):
    elements = [{"a": "x" * 300 if number == 7 else "x", "p": COSTLY} for number in range(20_000)]
    client.call("JSON.SET", "key", "$", json.dumps(elements))
    found = json.loads(client.call("JSON.GET", "key", "$[?(@.a=~@.p)]"))
    assert found == [elements[7]]
    # A few take turns.
    elements = [{"a": "b" * (number % 4), "p": f"^b{{{number % 3}}}$|{COSTLY}"} for number in range(12_000)]
    client.call("JSON.SET", "key", "$", json.dumps(elements))
    found = json.loads(client.call("JSON.GET", "key", "$[?(@.a=~@.p)]"))
    assert found == [element for number, element in enumerate(elements) if number % 4 == number % 3]


def test_documents_with_many_costly_expressions_are_refused(client):
    refused = "ERR path takes too many steps"
    elements = [{"a": "x", "p": f"{COSTLY}{number}"} for number in range(20_000)]
    client.call("JSON.SET", "key", "$", json.dumps(elements[:200]))
    assert client("JSON.GET", "key", "$[?(@.a=~@.p)]").text() == refused
    assert client("JSON.DEL", "key", "$[?(@.a=~@.p)]").text() == refused
    client.call("JSON.SET", "key", "$", json.dumps([{"a": "x", "p": "a" * 20_000}]))
    assert client("JSON.GET", "key", "$[?(@.a=~@.p)]").text() == refused
    # One that keeps a thousand places in mind at each byte of long texts.
    client.call("JSON.SET", "key", "$", json.dumps(["ab" * 50_000] * 50))
    assert client("JSON.GET", "key", '$[?(@=~"[ab]*a[ab]{1000}c")]').text() == refused
    # Short ones that differ are taken.
    elements = [{"a": f"x{number}", "p": rf"^x{number}$"} for number in range(300)]
    client.call("JSON.SET", "key", "$", json.dumps(elements))
    assert json.loads(client.call("JSON.GET", "key", "$[?(@.a=~@.p)]")) == elements


def test_paths_with_many_costly_expressions_are_refused(client):
    client.call("JSON.SET", "key", "$", '["foo","bar","word 5"]')

    def find(*expressions):
        conditions = [f'@=~"{text}"' for text in expressions]
        return client("JSON.GET", "key", f"$[?({'||'.join(conditions)})]")

    refused = "ERR the regular expressions of the path are too large"
    assert find(*(f"{COSTLY}{number}" for number in range(20_000))).text() == refused
    assert find("a" * 20_000).text() == refused
    assert json.loads(find("^ba", r"\\w+ \\d").plain()) == ["bar", "word 5"]
    assert json.loads(find(*(f"^{'x' * 9}{number}$" for number in range(200)), "^foo$").plain()) == ["foo"]
    # What is no expression, or too large to be one, matches nothing, as with RedisJSON.
    for text in ("(", r"(\\w{30}){30}"):
        assert json.loads(find(text, "^foo$").plain()) == ["foo"]


@pytest.mark.parametrize("case", [(), ("NOCASE",)], ids=["exact", "nocase"])
def test_parts_are_found_in_time_linear_in_the_text(client, case):
    half = 2_500_000
    text = "a" * half + "A" * half
    client.call("ARSET", "key", 0, text, text + "b", "b" + text)
    for part, found in (("a" * half + "b", [1]), ("A" * half + "b", [1]), ("b" + "a" * half, [2])):
        expected = found if case or part[0] != "a" or part[-1] == "a" else []
        assert client.call("ARGREP", "key", "-", "+", "MATCH", part, *case) == expected
