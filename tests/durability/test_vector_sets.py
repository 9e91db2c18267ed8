"""Vector sets through restarts, rewrites, copies and replication: the same elements, and the same graph."""

import struct

import pytest

from support.seeds import generator
from support.servers import Server, subject_is_oracle
from support.waiting import eventually, until_written

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server's graph depends on chance")

ELEMENTS = 400


def fill(connection):
    numbers = generator("durability", "graph")
    for number in range(ELEMENTS):
        vector = struct.pack("<20f", *(numbers.gauss(0, 1) for _ in range(20)))
        name = f"e{numbers.randrange(300)}"
        connection("VADD", "v", "FP32", vector, name, "M", "8", "EF", "50", "SETATTR", '{"n":1}')
        if number % 5 == 0:
            connection("VREM", "v", f"e{numbers.randrange(300)}")
    connection("VADD", "p", "REDUCE", "3", "VALUES", "4", "1", "2", "3", "4", "a", "BIN")


def state(connection, key="v"):
    """Digest and graph."""
    names = [name.value for name in connection("VRANGE", key, "-", "+").value]
    links = [connection("VLINKS", key, name).plain() for name in names]
    return [connection("DEBUG", "DIGEST-VALUE", key, "p").plain(), connection("VINFO", key).plain(), names, links]


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_restarts_come_to_the_same_graph(preamble):
    options = {"appendonly": "yes", "appendfsync": "always", "aof-use-rdb-preamble": preamble}
    with Server("subject", options, workers=2) as server:
        with server.connect() as connection:
            fill(connection)
            before = state(connection)
        server.restart(crash=True)
        with server.connect() as connection:
            assert state(connection) == before
            connection("BGREWRITEAOF")
            until_written(connection)
            assert state(connection) == before
        server.restart(crash=True)
        with server.connect() as connection:
            after = state(connection)
            # What is loaded as a whole lies elsewhere in memory, but is the same.
            assert [after[0], after[1], after[2]] == before[:3]
            assert [[sorted(level) for level in links] for links in after[3]] == [
                [sorted(level) for level in links] for links in before[3]
            ]
            assert connection("DEBUG", "RELOAD").raw == b"+OK\r\n"
            assert state(connection)[:3] == before[:3]


def test_replicas_have_the_same_graph():
    with Server("subject", workers=2) as primary, Server("subject", workers=2) as replica:
        with primary.connect() as one, replica.connect() as other:
            other("REPLICAOF", "127.0.0.1", str(primary.port))
            eventually(lambda: b"master_link_status:up" in other("INFO", "replication").value, "the link is not up")
            fill(one)
            assert one("WAIT", "1", "10000").value == b"1"
            assert state(one) == state(other)


def test_copies_do_not_change_with_each_other():
    with Server("subject", workers=2) as server, server.connect() as connection:
        fill(connection)
        before = state(connection)
        assert connection("COPY", "v", "copy").value == b"1"
        assert state(connection, "copy") == [connection("DEBUG", "DIGEST-VALUE", "copy", "p").plain(), *before[1:]]
        names = [name.value for name in connection("VRANGE", "v", "-", "+").value]
        for name in names[:-1]:
            assert connection("VREM", "copy", name).value == b"1"
        assert state(connection) == before and connection("VCARD", "copy").value == b"1"
        assert connection("VREM", "copy", names[-1]).value == b"1" and connection("EXISTS", "copy").value == b"0"
        for name in names:
            connection("VREM", "v", name)
        assert connection("EXISTS", "v").value == b"0"
