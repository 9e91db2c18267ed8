"""`Upstash-Sync-Token`: a client that asks a replica sees its own writes there."""

import json

import pytest
from support.servers import free_port
from support.waiting import eventually

from .conftest import Rest

FIELD = "Upstash-Sync-Token"


@pytest.fixture
def pair(start_server):
    """A primary and a replica of it, both with HTTP."""
    servers = []
    for _ in range(2):
        port = free_port()
        server = start_server(options={"http-port": port})
        server.http_port = port
        servers.append(server)
    primary, replica = servers
    with replica.connect() as client:
        client.call("REPLICAOF", "127.0.0.1", primary.port)
        eventually(lambda: b"master_link_status:up" in client.call("INFO", "replication"), "no link")
    return primary, replica


def with_token(rest, token, *command):
    """The answer to a command and the token that comes with it."""
    answer = rest.post("/", command, {FIELD: token})
    return answer, answer.fields.get(FIELD.lower())


def position(server):
    with server.connect() as client:
        text = client.call("INFO", "replication").decode()
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return facts["master_replid"], int(facts["master_repl_offset"])


def test_own_writes_are_read_from_a_replica(pair):
    primary, replica = pair
    with Rest(primary.http_port) as writer, Rest(replica.http_port) as reader:
        token = ""
        for number in range(50):
            answer, token = with_token(writer, token, "SET", "k", number)
            assert json.loads(answer.content) == {"result": "OK"}
            answer, again = with_token(reader, token, "GET", "k")
            assert json.loads(answer.content) == {"result": str(number)} and again == token
        history, offset = position(primary)
        assert token.split(":")[0] == history and int(token.split(":")[1]) <= offset
        # Reading changes no token, and who has none asks for none.
        assert with_token(writer, token, "GET", "k")[1] == token
        assert with_token(reader, "", "GET", "k")[1] is None
        assert FIELD.lower() not in reader.post("/", ["GET", "k"]).fields
        answer = writer.post("/pipeline", [["INCR", "n"], ["INCR", "n"]], {FIELD: token})
        assert int(answer.fields[FIELD.lower()].split(":")[1]) > int(token.split(":")[1])


def test_a_replica_that_is_behind(pair):
    primary, replica = pair
    with Rest(primary.http_port) as writer, Rest(replica.http_port) as reader:
        history, offset = position(primary)
        ahead = f"{history}:{offset + 3000}"
        # The primary has its own writes, and what belongs to another history can not be waited for.
        assert with_token(writer, ahead, "GET", "k")[0].status == 200
        assert with_token(reader, f"{'0' * 40}:{offset + 3000}", "GET", "k")[0].status == 200
        for odd in ("x", "x:1", f"{history}:x"):
            answer, token = with_token(reader, odd, "GET", "k")
            assert answer.status == 200 and token is None
        data = b'["GET","k"]'
        head = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
        reader.send(f"{head}{FIELD}: {ahead}\r\n\r\n".encode() + data)
        # What is sent ahead is answered after it.
        reader.send(f"{head}\r\n".encode() + data)
        assert json.loads(writer.post("/", ["SET", "k", "x" * 4000]).content) == {"result": "OK"}
        for _ in range(2):
            assert json.loads(reader.read().content) == {"result": "x" * 4000}
        # For what does not come it waits some seconds.
        answer, _ = with_token(reader, f"{history}:{position(primary)[1] + 100000}", "GET", "k")
        assert answer.status == 503 and b"has not received" in answer.content
        assert json.loads(reader.post("/", ["ECHO", "on"]).content) == {"result": "on"}
