"""Vector sets through redis-py, on this server and on redis-server."""

import math
import struct

from redis.commands.vectorset.commands import QuantizationOptions


def test_adding_and_finding(client):
    vset = client.vset()
    assert vset.vadd("v", [1, 4, 5], "one") == 1
    assert vset.vadd("v", struct.pack("<3f", 1, 4, 6), "two", cas=True, ef=50, numlinks=16) == 1
    assert vset.vadd("v", [-1, -4, -5], "far", attributes={"kind": "far", "n": 3}) == 1
    assert vset.vadd("v", [1, 4, 5], "one") == 0
    assert vset.vcard("v") == 3 and vset.vdim("v") == 3
    assert vset.vsim("v", "one")[:2] == ["one", "two"]
    found = vset.vsim("v", [1, 4, 5], with_scores=True, truth=True)
    assert list(found) == ["one", "two", "far"] and found["one"] > 0.9999 and found["far"] < 0.001
    found = vset.vsim("v", "one", with_scores=True, with_attribs=True, count=3)
    assert found["far"]["attributes"] == {"kind": "far", "n": 3} and found["one"]["attributes"] is None
    assert vset.vsim("v", "one", filter=".kind == 'far' and .n > 2", no_thread=True, ef=20) == ["far"]
    assert vset.vsim("missing", "one") == []
    assert vset.vrem("v", "far") == 1 and vset.vrem("v", "far") == 0


def test_vectors_come_back(client):
    vset = client.vset()
    vset.vadd("q8", [1, 4, 0, 5, -10], "a")
    vset.vadd("plain", [1, 4, 0, 5, -10], "a", quantization=QuantizationOptions.NOQUANT)
    vset.vadd("bits", [1, 4, 0, 5, -10], "a", quantization=QuantizationOptions.BIN)
    assert all(math.isclose(x, y, abs_tol=0.1) for x, y in zip(vset.vemb("q8", "a"), [1, 4, 0, 5, -10]))
    assert all(math.isclose(x, y, rel_tol=1e-6) for x, y in zip(vset.vemb("plain", "a"), [1, 4, 0, 5, -10]))
    assert vset.vemb("bits", "a") == [1, 1, -1, 1, -1]
    raw = vset.vemb("q8", "a", raw=True)
    assert raw["quantization"] == "int8" and len(raw["raw"]) == 5 and raw["range"] > 0
    assert math.isclose(raw["l2"], math.sqrt(142), rel_tol=1e-6)
    assert vset.vemb("q8", "b") is None and vset.vemb("missing", "b") is None
    assert [vset.vinfo(key)["quant-type"] for key in ("q8", "plain", "bits")] == ["int8", "f32", "bin"]
    assert vset.vinfo("missing") is None


def test_reducing(client):
    vset = client.vset()
    vset.vadd("v", [float(number % 7) for number in range(100)], "a", reduce_dim=10)
    assert vset.vdim("v") == 10 and vset.vinfo("v")["projection-input-dim"] == 100
    assert len(vset.vemb("v", "a")) == 10


def test_attributes(client):
    vset = client.vset()
    vset.vadd("v", [1, 2], "a")
    assert vset.vgetattr("v", "a") is None
    assert vset.vsetattr("v", "a", {"x": [1, 2]}) == 1 and vset.vgetattr("v", "a") == {"x": [1, 2]}
    assert vset.vsetattr("v", "a", {}) in (0, 1)
    assert vset.vsetattr("v", "b", {"x": 1}) == 0 and vset.vgetattr("v", "b") is None


def test_links_and_random_members(client):
    vset = client.vset()
    for number in range(50):
        vset.vadd("v", [math.cos(number), math.sin(number), number / 50], f"e{number}", numlinks=8)
    links = vset.vlinks("v", "e7")
    assert len(links) >= 1 and 1 <= len(links[-1]) <= 16 and "e7" not in links[-1]
    scored = vset.vlinks("v", "e7", with_scores=True)
    assert set(scored[-1]) == set(links[-1]) and all(0 <= score <= 1 for score in scored[-1].values())
    assert vset.vlinks("v", "none") is None
    assert vset.vrandmember("v") in {f"e{number}" for number in range(50)}
    assert len(set(vset.vrandmember("v", 10))) == 10 and len(vset.vrandmember("v", -100)) == 100
    assert len(vset.vrandmember("v", 100)) == 50
    assert vset.vrandmember("missing") is None and vset.vrandmember("missing", 3) == []
