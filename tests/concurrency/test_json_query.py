"""MANTISSA.JSON.QUERY: values of many documents page by page, while others write, for those who may read them."""

import json
import threading

import pytest

from support.seeds import generator

FILTER = "$.orders[?(@.price>90)].id"


@pytest.fixture
def server(start_server):
    return start_server("subject", workers=2)


def fill(connection, documents):
    connection.pipeline([("JSON.SET", key, "$", json.dumps(document)) for key, document in documents.items()])


def query(connection, *args):
    """All pages: {key: values}. A key may come again, with the same values if nobody changes it."""
    found, cursor = {}, b"0"
    while True:
        cursor, page = connection.call("MANTISSA.JSON.QUERY", cursor, *args)
        found |= {key.decode(): json.loads(values) for key, values in page}
        if cursor == b"0":
            return found


@pytest.mark.parametrize("protocol", [2, 3])
def test_matches_of_many_documents(server, protocol):
    random = generator("query")
    documents = {
        f"shop:{number}": {"orders": [{"id": n, "price": random.randrange(100)} for n in range(random.randrange(6))]}
        for number in range(3000)
    }
    wanted = {
        key: ids
        for key, document in documents.items()
        if (ids := [order["id"] for order in document["orders"] if order["price"] > 90])
    }
    with server.connect(protocol) as client:
        fill(client, documents | {"other:1": documents["shop:0"] | {"orders": [{"id": 7, "price": 91}]}})
        client.pipeline([("SET", f"shop:text:{number}", "x") for number in range(500)])
        assert query(client, "PATH", FILTER, "PREFIX", "shop:") == wanted
        assert query(client, "PREFIX", "shop:", "PATH", FILTER, "COUNT", "7") == wanted
        assert query(client, "PATH", FILTER) == wanted | {"other:1": [7]}
        assert query(client, "PATH", FILTER, "PREFIX", "other:", "COUNT", "1000000") == {"other:1": [7]}
        assert query(client, "PATH", ".orders[0].id", "PREFIX", "other:") == {"other:1": 7}
        assert query(client, "PATH", "$.nothing") == query(client, "PATH", "nothing") == {}
        # A page looks at about so many keys.
        _, page = client.call("MANTISSA.JSON.QUERY", "0", "PATH", "$.orders", "COUNT", "50")
        assert 20 <= len(page) <= 100
        client.call("SELECT", "1")
        assert query(client, "PATH", "$") == {}


def test_errors_transactions_and_expiry(server):
    with server.connect() as client:
        fill(client, {"a": {"x": 1}, "b": {"x": 2}})
        for wrong in (["x", "PATH", "$"], ["0", "PATH", "$", "COUNT", "0"], ["0", "PATH"], ["0", "PREFIX", "a"],
                      ["0", "PATH", "$", "OTHER", "x"], ["0", "PATH", "$[", "COUNT", "1"], ["0", "PATH", b"\xff"]):
            assert client("MANTISSA.JSON.QUERY", *wrong).is_error, wrong
        client.call("MULTI")
        client.call("JSON.SET", "c", "$", '{"x":3}')
        client.call("MANTISSA.JSON.QUERY", "0", "PATH", "$.x", "COUNT", "100000")
        _, (cursor, page) = client.call("EXEC")
        assert cursor == b"0" and sorted(page) == [[b"a", b"[1]"], [b"b", b"[2]"], [b"c", b"[3]"]]
        assert client("EVAL", "return redis.call('MANTISSA.JSON.QUERY', 0, 'PATH', '$')", "0").is_error
        client.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        client.call("PEXPIREAT", "a", "1")
        assert query(client, "PATH", "$.x") == {"b": [2], "c": [3]}


def test_keys_that_may_not_be_read_are_passed_over(server):
    with server.connect() as admin, server.connect() as client:
        names = ("mine", "yours", "written")
        fill(admin, {f"{name}:{number}": {"x": number} for name in names for number in range(20)})
        admin.call("ACL", "SETUSER", "u", "on", "nopass", "+@all", "~mine:*", "%W~written:*", "(%R~yours:1* +get)")
        client.call("AUTH", "u", "x")
        assert query(client, "PATH", "$.x") == {f"mine:{number}": [number] for number in range(20)}
        admin.call("ACL", "SETUSER", "u", "(%R~yours:1* +mantissa.json.query)")
        assert len(query(client, "PATH", "$.x")) == 20 + 11
        admin.call("ACL", "SETUSER", "u", "clearselectors", "-@json")
        assert client("MANTISSA.JSON.QUERY", "0", "PATH", "$").text().startswith("NOPERM")


def test_what_stays_is_found_while_others_write(server):
    with server.connect() as client:
        fill(client, {f"stays:{number}": {"x": number} for number in range(5000)})
        stop = threading.Event()

        def write(seed):
            random = generator(seed)
            with server.connect() as writer:
                while not stop.is_set():
                    keys = [f"comes:{random.randrange(20_000)}" for _ in range(200)]
                    name = random.choice(["JSON.SET", "DEL"])
                    writer.pipeline([(name, key) + (("$", '{"x":-1}') if name != "DEL" else ()) for key in keys])
                    changed = f"stays:{random.randrange(5000)}"
                    writer.call("JSON.SET", changed, "$.y", json.dumps("y" * random.randrange(300)))

        writers = [threading.Thread(target=write, args=(f"writer {number}",)) for number in range(2)]
        [writer.start() for writer in writers]
        try:
            for _ in range(5):
                found = query(client, "PATH", "$.x", "PREFIX", "stays:")
                assert found == {f"stays:{number}": [number] for number in range(5000)}
        finally:
            stop.set()
            [writer.join() for writer in writers]


def test_large_documents_end_a_page(server):
    with server.connect() as client:
        large = {"text": "x" * 1_500_000}
        fill(client, {f"large:{number}": large for number in range(8)})
        _, page = client.call("MANTISSA.JSON.QUERY", "0", "PATH", "$.text", "COUNT", "1000000")
        assert 1 <= len(page) < 8
        assert len(query(client, "PATH", "$.text", "COUNT", "1000000")) == 8


def test_a_hostile_path_is_an_error(server):
    with server.connect() as client:
        fill(client, {"deep": json.loads('{"a":' * 100 + "1" + "}" * 100)})
        for call in (["JSON.GET", "deep", "$..a..a..a..a..a..x"], ["JSON.DEL", "deep", "$..a..a..a..a..a..x"],
                     ["JSON.TYPE", "deep", "$..*..*..*..*..*..*"], ["JSON.MGET", "deep", "$..a..a..a..a..a..x"],
                     ["MANTISSA.JSON.QUERY", "0", "PATH", "$..a..a..a..a..a..x"]):
            assert client(*call).text() == "ERR path takes too many steps"
        assert client.call("JSON.TYPE", "deep", "$.a.a") == [b"object"]
