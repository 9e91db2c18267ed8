"""GEOSEARCH and GEOSEARCHSTORE with BYPOLYGON, which Valkey has since 9.0, beside a valkey-server."""

import math
import random

import pytest

from support.servers import Server, subject_is_oracle
from support.state import differences, whole_state

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server 8.2 has no BYPOLYGON")

POLYGONS = 400
SICILY = "4 10 36 10 40 20 40 20 36"
LINES = f"""
GEOADD sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 12.758489 38.788135 w 17.241510 38.788135 e
GEOADD square 0 0 o 1 1 a 2 2 b 3 1 c 1 3 d -1 -1 n 2 0 e
GEOSEARCH sicily BYPOLYGON {SICILY}
GEOSEARCH sicily bypolygon {SICILY} withdist WITHHASH
GEOSEARCH sicily BYPOLYGON {SICILY} ASC WITHDIST
GEOSEARCH sicily WITHDIST DESC BYPOLYGON {SICILY} COUNT 2
GEOSEARCH sicily BYPOLYGON {SICILY} COUNT 2
GEOSEARCH sicily BYPOLYGON {SICILY} COUNT 2 ANY
GEOSEARCH sicily BYPOLYGON {SICILY} ANY
GEOSEARCH sicily BYPOLYGON {SICILY} COUNT
GEOSEARCH sicily BYPOLYGON {SICILY} COUNT 0
GEOSEARCH sicily BYPOLYGON {SICILY} km WITHDIST
GEOSEARCH sicily BYPOLYGON {SICILY} FROMLONLAT 15 37
GEOSEARCH sicily FROMLONLAT 15 37 BYPOLYGON {SICILY}
GEOSEARCH sicily FROMMEMBER Palermo BYPOLYGON {SICILY}
GEOSEARCH sicily BYPOLYGON {SICILY} FROMMEMBER none
GEOSEARCH sicily BYPOLYGON 3 10 36 10 40 20 40 BYPOLYGON {SICILY} WITHDIST
GEOSEARCH sicily BYPOLYGON {SICILY} BYRADIUS 10 km
GEOSEARCH sicily BYPOLYGON {SICILY} BYBOX 10 10 km
GEOSEARCH sicily BYRADIUS 10 km BYPOLYGON {SICILY}
GEOSEARCH sicily BYBOX 10 10 km BYPOLYGON {SICILY}
GEOSEARCH sicily FROMLONLAT 1 1 BYBOX 10 10 km BYPOLYGON {SICILY}
GEOSEARCH none BYPOLYGON {SICILY}
GEOSEARCH none BYPOLYGON 2 10 36 10 40 20 40 20 36
GEOSEARCH none FROMMEMBER x BYPOLYGON {SICILY}
GEOSEARCH sicily BYPOLYGON
GEOSEARCH sicily BYPOLYGON 3
GEOSEARCH sicily BYPOLYGON 2 1 1 2 2
GEOSEARCH sicily BYPOLYGON 0 1 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON -1 1 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON x 1 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON 1 x 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON 4 1 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON 4 1 1 2 2 3 3 4
GEOSEARCH sicily BYPOLYGON 4 1 1 2 2 3 3 WITHDIST ASC
GEOSEARCH sicily BYPOLYGON 100 1 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON 2147483647 1 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON 2147483648 1 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON -2147483648 1 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON -2147483649 1 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON 9223372036854775807 1 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON 99999999999999999999 1 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON 3 1 1 2 2 3 x
GEOSEARCH sicily BYPOLYGON 3 1 1 2 2 3 98
GEOSEARCH sicily BYPOLYGON 3 181 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON 3 nan 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON 3 inf 1 2 2 3 3
GEOSEARCH sicily BYPOLYGON 3 1 1 2 2 3 3 4 4
GEOSEARCH sicily BYPOLYGON 3 1 1 2 2 3 3 STOREDIST
GEOSEARCH sicily WITHDIST WITHDIST WITHDIST WITHDIST BYPOLYGON
GEOSEARCH sicily WITHDIST WITHDIST WITHDIST BYPOLYGON 3
GEOSEARCH sicily WITHDIST WITHDIST WITHDIST BYPOLYGON x
GEOSEARCH sicily WITHDIST WITHDIST BYPOLYGON 3 1
GEOSEARCHSTORE stored sicily BYPOLYGON {SICILY}
ZRANGE stored 0 -1 WITHSCORES
GEOSEARCHSTORE stored sicily BYPOLYGON {SICILY} STOREDIST
ZRANGE stored 0 -1 WITHSCORES
GEOSEARCHSTORE stored sicily BYPOLYGON {SICILY} COUNT 1
ZRANGE stored 0 -1 WITHSCORES
GEOSEARCHSTORE stored sicily BYPOLYGON {SICILY} WITHDIST
GEOSEARCHSTORE stored sicily BYPOLYGON 2 10 36 10 40 20 40 20 36
GEOSEARCHSTORE stored sicily BYPOLYGON 3 1 1 2 2 3
GEOSEARCHSTORE stored none BYPOLYGON {SICILY}
EXISTS stored
GEORADIUS sicily 15 37 10 km BYPOLYGON 3 1 1 2 2 3 3
GEOSEARCH square BYPOLYGON 4 0 0 0 2 2 2 2 0 WITHDIST
GEOSEARCH square BYPOLYGON 4 0 0 2 2 0 2 2 0 WITHDIST
GEOSEARCH square BYPOLYGON 3 1 1 1 1 1 1 WITHDIST
GEOSEARCH square BYPOLYGON 3 0 0 1 1 2 2 WITHDIST
GEOSEARCH square BYPOLYGON 5 -3 -3 -3 5 1 1.2 5 5 5 -3 WITHDIST ASC
GEOSEARCH square BYPOLYGON 5 -180 -85 -180 85 10 85 180 85 180 -85 WITHDIST
SET text 1
GEOSEARCH text BYPOLYGON {SICILY}
""".strip().splitlines()


@pytest.fixture(scope="module")
def valkey():
    with Server("valkey") as server:
        yield server


@pytest.mark.parametrize("protocol", [2, 3])
def test_polygons_are_searched(valkey, subject, protocol):
    with valkey.connect(protocol) as theirs, subject.connect(protocol) as ours:
        theirs.call("FLUSHALL")
        for line in LINES:
            words = line.split()
            assert ours(*words).raw == theirs(*words).raw, line
        assert not differences(whole_state(theirs), whole_state(ours))


def polygon(choice):
    """A polygon, often a star around a center, and sometimes one whose edges cross or that goes round the earth."""
    size = 10 ** choice.uniform(-3, 1.9)
    longitude, latitude = choice.uniform(-180, 180), choice.uniform(-85, 85)
    vertices = []
    for number in range(choice.randint(3, 9)):
        turn, reach = number + choice.random(), size * choice.uniform(0.1, 1)
        if choice.random() < 0.1:
            turn = choice.uniform(0, 9)
        vertices.append(longitude + reach * math.cos(turn))
        vertices.append(latitude + reach * math.sin(turn))
    return [min(max(value, -limit), limit) for value, limit in zip(vertices, [180, 85.05112878] * 9)]


def test_any_polygon(valkey, subject):
    choice = random.Random(7)
    polygons = [polygon(choice) for _ in range(POLYGONS)]
    points = [(choice.uniform(-180, 180), choice.uniform(-85, 85)) for _ in range(1000)]
    for vertices in polygons:
        longitudes, latitudes = vertices[::2], vertices[1::2]
        for _ in range(5):
            share = choice.random()
            first, second = choice.randrange(len(longitudes)), choice.randrange(len(longitudes))
            points.append(tuple(
                values[first] * share + values[second] * (1 - share) for values in (longitudes, latitudes)
            ))
    found = 0
    with valkey.connect() as theirs, subject.connect() as ours:
        for connection in (theirs, ours):
            connection.call("DEL", "many")
            for number, (longitude, latitude) in enumerate(points):
                connection.call("GEOADD", "many", longitude, latitude, number)
        for vertices in polygons:
            request = ["GEOSEARCH", "many", "BYPOLYGON", len(vertices) // 2, *vertices, "WITHDIST", "WITHHASH"]
            options = choice.choice([[], ["ASC"], ["DESC"], ["COUNT", 3], ["COUNT", 3, "ANY"]])
            reply = ours(*request, *options)
            assert reply.raw == theirs(*request, *options).raw, request
            found += len(reply.value)
    assert found > 3 * POLYGONS
