"""Users while many clients are at work: a change holds for everybody from its reply on."""

import threading

import pytest

from support.resp import Closed
from support.waiting import eventually

CLIENTS = 16
ROUNDS = 40


@pytest.fixture
def crowd(start_server):
    """A server of several workers, an administrator, and clients of one user."""
    server = start_server("subject", workers=4)
    admin = server.connect()
    admin.call("ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*", "&*")
    clients = [server.connect() for _ in range(CLIENTS)]
    for client in clients:
        client.call("AUTH", "u", "x")
    return server, admin, clients


def test_a_change_holds_for_all_from_its_reply_on(crowd):
    _, admin, clients = crowd
    for number in range(ROUNDS):
        admin.call("ACL", "SETUSER", "u", "resetkeys", f"~{number}:*")
        for client in clients:
            assert client("SET", f"{number}:k", "x").raw == b"+OK\r\n"
            assert client("GET", f"{number - 1}:k").text().startswith("NOPERM")


def test_taken_rights_stop_pipelines(crowd):
    _, admin, clients = crowd
    done = threading.Event()
    seen = []

    def write(client):
        while not done.is_set():
            replies = client.pipeline([["INCR", "n"]] * 50, batch=50)
            seen.append([reply.is_error for reply in replies])

    threads = [threading.Thread(target=write, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    eventually(lambda: admin.call("EXISTS", "n"), "nobody writes")
    admin.call("ACL", "SETUSER", "u", "-incr")
    count = int(admin.call("GET", "n"))
    counts = [int(admin.call("GET", "n")) for _ in range(20)]
    assert max(counts) <= count + CLIENTS, "more was written than what had begun"
    done.set()
    for thread in threads:
        thread.join()
    assert all(errors == sorted(errors) for errors in seen), "a write came after a refusal"


def test_nobody_stays_a_deleted_user(crowd):
    server, admin, clients = crowd
    done = threading.Event()

    def log_in():
        while not done.is_set():
            with server.connect() as client:
                try:
                    client("AUTH", "u", "x")
                    client("PING")
                except Closed:
                    pass

    threads = [threading.Thread(target=log_in) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(ROUNDS):
        admin.call("ACL", "DELUSER", "u")
        assert b"user=u " not in admin.call("CLIENT", "LIST")
        admin.call("ACL", "SETUSER", "u", "on", "nopass", "+@all")
    done.set()
    for thread in threads:
        thread.join()
    for client in clients:
        assert client.read_until_closed() == b""


def test_nobody_keeps_a_channel_that_was_taken(crowd):
    server, admin, clients = crowd
    for number in range(ROUNDS):
        admin.call("ACL", "SETUSER", "u", "resetchannels", f"&{number}")
        for client in clients[:4]:
            client.send("SUBSCRIBE", str(number))
        admin.call("ACL", "SETUSER", "u", "resetchannels")
        for client in clients[:4]:
            client.send("PING")
        admin.call("PUBLISH", number, "secret")
        for place, client in enumerate(clients[:4]):
            try:
                reply = client.read()
                got = client.read() if reply.is_error else client.read_until_closed()
                assert reply.is_error or b"secret" not in bytes(got)
                if reply.is_error:
                    continue
            except Closed:
                pass
            clients[place] = server.connect()
            clients[place].call("AUTH", "u", "x")
        assert admin.call("PUBSUB", "NUMSUB", number) == [str(number).encode(), 0]
