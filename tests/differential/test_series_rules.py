"""Random writes to time series with rules, beside a redis-server with the module: each followed by a look at the
destinations, their open buckets included. POLICY.md says where the module is not followed; these streams keep
away from there.
"""

import math

import pytest

from differential.test_modules import OPTIONS
from support.modules import need_modules
from support.seeds import generator
from support.servers import Server

EPISODES = 60
DESTINATIONS = ("d1", "d 2")
AGGREGATIONS = "min max sum avg count first last range std.p std.s var.p var.s twa".split()
VALUES = [1, 2, 3.5, -1.25, 100]


@pytest.fixture(scope="module")
def connections():
    need_modules("series")
    with Server("oracle", OPTIONS, modules=True) as oracle:
        with Server("subject", OPTIONS, workers=2, modules=True) as subject:
            yield oracle.connect(), subject.connect()


def episode(chance, is_in_order):
    """Commands on a source with two rules."""
    choice, below = chance.choice, chance.randrange
    yield "TS.CREATE", "s", "DUPLICATE_POLICY", choice(["LAST", "SUM", "MIN", "BLOCK", "FIRST"])
    for key in DESTINATIONS:
        yield "TS.CREATE", key
        align = choice([[], [0], [3], [7]])
        yield "TS.CREATERULE", "s", key, "AGGREGATION", choice(AGGREGATIONS), choice([5, 10, 50]), *align
    time = choice([0, 100])
    for _ in range(30):
        if is_in_order or below(10) < 7:
            time += choice([1, 2, 3, 5, 20, 60])
            yield "TS.ADD", "s", time, choice(VALUES)
        elif below(4) == 0:
            yield "TS.INCRBY", "s", choice(VALUES), "TIMESTAMP", time + choice([0, 1, 10])
        else:
            yield "TS.ADD", "s", max(0, time - below(60)), choice(VALUES)


def ask(connection, *words):
    """The reply to a command, an error too, as plain values."""
    reply = connection(*words)
    return reply.text() if reply.is_error else reply.plain()


def look(connection):
    """What the destinations hold. The latest sample is not asked for alone: see POLICY.md."""
    seen = []
    for key in DESTINATIONS:
        seen += [ask(connection, "TS.RANGE", key, "-", "+", *latest) for latest in ([], ["LATEST"])]
    return seen


def alike(one, other):
    """Whether two replies are equal, but for the last digits of numbers."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    try:
        return one == other or math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-9)
    except (TypeError, ValueError):
        return False


@pytest.mark.parametrize("is_in_order", [True, False], ids=["in-order", "any-order"])
def test_destinations_hold_what_those_of_the_module_hold(connections, is_in_order):
    oracle, subject = connections
    for number in range(EPISODES):
        chance = generator("series_rules", is_in_order, number)
        done = []
        for connection in connections:
            connection.call("FLUSHALL")
        for command in episode(chance, is_in_order):
            done.append(" ".join(map(str, command)))
            words = [str(word) for word in command]
            wanted, found = ([ask(one, *words), *look(one)] for one in (oracle, subject))
            if not alike(wanted, found):
                shown = "\n".join(done)
                pytest.fail(f"episode {number}\n{shown}\noracle: {wanted}\nsubject: {found}", pytrace=False)
