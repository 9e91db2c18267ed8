"""redis-py's json() on this server, and on a redis-server with RedisJSON."""

import pytest
import redis

from support.modules import need_modules, why_missing
from support.servers import Server


@pytest.fixture(scope="module", params=["subject", "oracle"])
def server(request):
    if request.param == "oracle":
        need_modules()
    with Server(request.param, workers=2, modules=why_missing() is None) as server:
        yield server


def test_documents(client):
    json = client.json()
    document = {"name": "Ann", "visits": 1, "tags": ["new"], "on": True, "at": {"x": 1.5}}
    assert json.set("d", "$", document) is True
    assert json.get("d") == document
    assert json.get("d", "$.name") == ["Ann"]
    assert json.get("d", ".name") == "Ann"
    assert json.set("d", "$.visits", 5, xx=True) is True and json.set("d", "$.visits", 5, nx=True) is None
    assert json.numincrby("d", "$.visits", 2) == [7]
    assert json.nummultby("d", "$.visits", 3) == [21]
    assert json.strappend("d", "e", "$.name") == [4] and json.strlen("d", "$.name") == [4]
    assert json.toggle("d", "$.on") == [False]
    assert json.objkeys("d", "$") == [["name", "visits", "tags", "on", "at"]] and json.objlen("d", "$.at") == [1]
    assert json.mget(["d", "none"], "$.visits") == [[21], None]
    assert json.mset([("e", "$", 1), ("f", "$", [2])]) is True and json.get("f") == [2]
    assert json.merge("d", "$.at", {"x": None, "y": 2}) is True and json.get("d", "$.at") == [{"y": 2}]
    assert json.clear("d", "$.at") == 1 and json.delete("d", "$.at") == 1 and json.forget("e") == 1
    assert client.type("d") == "ReJSON-RL" and client.exists("e") == 0


def test_arrays(client):
    json = client.json()
    assert json.set("a", "$", [1, 2, 3]) is True
    assert json.arrappend("a", "$", 4, "five") == [5]
    assert json.arrindex("a", "$", 4) == [3]
    assert json.arrinsert("a", "$", 0, 0) == [6] and json.arrlen("a", "$") == [6]
    assert json.arrpop("a", "$") == ['"five"']
    assert json.arrtrim("a", "$", 1, 2) == [2] and json.get("a") == [1, 2]


def test_errors(client):
    with pytest.raises(redis.ResponseError):
        client.json().set("a", "$.x", 1)
    client.set("s", "text")
    with pytest.raises(redis.ResponseError):
        client.json().get("s")
