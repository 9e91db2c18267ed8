"""Many clients add to one vector set at once: each finds what it has added, and a replica has the same graph."""

import struct

import pytest

from support.crowd import Crowd
from support.seeds import generator
from support.servers import Server, subject_is_oracle
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server's graph depends on chance")

# So many that insertions are planned with the set unlocked.
ELEMENTS = 2500
WRITERS = 4
ROUNDS = 25
BATCH = 8


def vector(random):
    """One of few directions with some noise: insertions meet at the same elements."""
    centre = random.randrange(5)
    return struct.pack("<12f", *((index % 5 == centre) + random.gauss(0, 0.2) for index in range(12)))


def adds(key, random, names):
    return [("VADD", key, "FP32", vector(random), name, "SETATTR", f'"{name}"') for name in names]


def write(own, prefix):
    """Add elements, and replace and remove some of them, and put a copy in the place of the set now and then."""

    def work(connection, random, stop):
        for round_ in range(ROUNDS):
            if stop.is_set():
                return
            new = [f"{prefix}:{round_}:{index}" for index in range(BATCH)]
            assert [reply.value for reply in connection.pipeline(adds("v", random, new))] == [b"1"] * BATCH
            own.update(new)
            found = connection("VSIM", "v", "ELE", new[-1], "COUNT", "1").plain()
            assert len(found) == 1
            match random.randrange(6):
                case 0:
                    gone = random.choice(sorted(own))
                    assert connection("VREM", "v", gone).value == b"1"
                    own.remove(gone)
                case 1:
                    assert connection(*adds("v", random, [new[0]])[0]).value == b"0"
                case 2:
                    steps = [("MULTI",), ("COPY", "v", "copy"), ("RENAME", "copy", "v"), ("EXEC",)]
                    assert not connection.pipeline(steps)[-1].is_error

    return work


def state(connection):
    """Digest, elements and graph."""
    names = connection("VRANGE", "v", "-", "+").plain()
    links = connection.pipeline([("VLINKS", "v", name) for name in names])
    attributes = connection.pipeline([("VGETATTR", "v", name) for name in names])
    everything = [reply.plain() for reply in [*links, *attributes]]
    return [connection("DEBUG", "DIGEST-VALUE", "v").plain(), connection("VINFO", "v").plain(), names, everything]


def test_clients_add_to_one_set():
    options = {"worker-packing": "no"}
    with Server("subject", options, workers=3) as primary, Server("subject", workers=2) as replica:
        with primary.connect() as client, replica.connect() as other:
            random = generator("concurrency", "vectors")
            client.pipeline(adds("v", random, [f"first:{index}" for index in range(ELEMENTS)]))
            other("REPLICAOF", "127.0.0.1", str(primary.port))
            eventually(lambda: b"master_link_status:up" in other("INFO", "replication").value, "the link is not up")

            crowd, owned = Crowd(primary), [set() for _ in range(WRITERS)]
            for index, own in enumerate(owned):
                crowd.start(write(own, f"writer{index}"), generator("concurrency", "vectors", index))
            crowd.join()

            names = {name.decode() for name in client("VRANGE", "v", "-", "+").plain()}
            assert names == set().union(*owned, (f"first:{index}" for index in range(ELEMENTS)))
            assert client("WAIT", "1", "10000").value == b"1"
            assert state(client) == state(other)
