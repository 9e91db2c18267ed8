"""What a client has, it has after an upgrade: on the same connection, without noticing."""

import time

from support.resp import encode
from support.waiting import eventually


def test_data_and_settings_go_over(start_upgradable):
    server = start_upgradable(options={"appendonly": "no"})
    with server.server.connect() as client:
        client.call("MSET", "a", "1", "b", "x" * 100_000)
        client.call("ZADD", "z", "0.1", "m")
        client.call("HSET", "h", "f", "v", "g", "w")
        client.call("HPEXPIRE", "h", "1000000", "FIELDS", "1", "f")
        client.call("SET", "e", "1", "PX", "10000000")
        client.call("XADD", "s", "1-1", "f", "v")
        client.call("XGROUP", "CREATE", "s", "g", "0")
        client.call("SELECT", "3")
        client.call("SET", "other", "database")
        client.call("CONFIG", "SET", "maxmemory", "900mb", "hash-max-listpack-entries", "7")
        client.call("ACL", "SETUSER", "anna", "on", ">secret", "~a*", "+get")
        sha = client.call("SCRIPT", "LOAD", "return ARGV[1]")
        client.call("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 7 end)")
        digest = client.call("DEBUG", "DIGEST")
        server.upgrade()
        assert client.call("DEBUG", "DIGEST") == digest
        assert client.call("GET", "other") == b"database"
        assert client.call("CONFIG", "GET", "maxmemory")[1] == b"943718400"
        assert client.call("CONFIG", "GET", "hash-max-listpack-entries")[1] == b"7"
        assert client.call("EVALSHA", sha, "0", "x") == b"x"
        assert client.call("FCALL", "f", "0") == 7
        assert client("AUTH", "anna", "wrong").is_error
        client.call("AUTH", "anna", "secret")
        assert client("SET", "a", "1").is_error


def test_a_session_goes_over(start_upgradable):
    server = start_upgradable()
    client, other = server.server.connect(protocol=3), server.server.connect()
    client.call("SELECT", "5")
    client.call("CLIENT", "SETNAME", "anna")
    client.call("CLIENT", "SETINFO", "LIB-NAME", "tests")
    client.call("CLIENT", "NO-TOUCH", "ON")
    client.call("CLIENT", "CAPA", "redirect")
    client.call("READONLY")
    number = client.call("CLIENT", "ID")
    info = client.call("CLIENT", "INFO").decode().split()
    server.upgrade()
    after = client.call("CLIENT", "INFO").decode().split()
    keep = ("id=", "addr=", "laddr=", "name=", "db=", "user=", "resp=", "lib-name=", "flags=", "capa=")
    kept = lambda words: [word for word in words if word.startswith(keep)]
    assert kept(after) == kept(info)
    assert "capa=r" in after and "flags=rT" in after
    assert client.call("CLIENT", "ID") == number
    assert client("HGETALL", "none").kind == "%", "it still speaks RESP3"
    with server.server.connect() as late:
        assert late.call("CLIENT", "ID") > number
    assert other.call("PING") == b"PONG"
    client.close()
    other.close()


def test_field_sets_go_over(start_upgradable):
    server = start_upgradable()
    with server.server.connect() as client, server.server.connect() as other:
        client.call("SELECT", "5")
        client.call("HIMPORT", "PREPARE", "a", "x", "y")
        client.call("HIMPORT", "PREPARE", "", "", "\r\n")
        client.call("MULTI")
        client.call("HIMPORT", "SET", "k", "a", "1", "2")
        server.upgrade()
        assert client.call("EXEC") == [b"OK"]
        assert sorted(client.call("HGETALL", "k")) == [b"1", b"2", b"x", b"y"]
        client.call("HIMPORT", "SET", "k", "", "3", "4")
        assert client.call("HGET", "k", "\r\n") == b"4"
        assert other("HIMPORT", "SET", "k", "a", "1", "2").text() == "ERR no such fieldset"
        assert client.call("HIMPORT", "DISCARDALL") == 2


def test_transactions_and_watched_keys_go_over(start_upgradable):
    server = start_upgradable()
    queued, clean, dirty, aborted = (server.server.connect() for _ in range(4))
    queued.call("MULTI")
    queued.call("INCR", "n")
    queued.call("SELECT", "2")
    queued.call("INCR", "n")
    clean.call("WATCH", "w")
    clean.call("MULTI")
    clean.call("SET", "clean", "1")
    dirty.call("WATCH", "changed")
    clean_writer = server.server.connect()
    clean_writer.call("SET", "changed", "1")
    dirty.call("MULTI")
    dirty.call("SET", "dirty", "1")
    aborted.call("MULTI")
    assert aborted("NOSUCH").is_error
    server.upgrade()
    assert [reply for reply in queued.call("EXEC")] == [1, b"OK", 1]
    assert dirty.call("EXEC") is None
    assert aborted("EXEC").text().startswith("EXECABORT")
    clean_writer.call("SET", "w", "1")
    assert clean.call("EXEC") is None, "keys are watched on"
    for connection in (queued, clean, dirty, aborted, clean_writer):
        connection.close()


def test_subscribers_and_monitors_go_over(start_upgradable):
    server = start_upgradable()
    channel, pattern, monitor = (server.server.connect() for _ in range(3))
    channel.call("SUBSCRIBE", "news")
    pattern.call("PSUBSCRIBE", "n*")
    monitor.call("MONITOR")
    server.upgrade()
    with server.server.connect() as publisher:
        assert publisher.call("PUBLISH", "news", "hello") == 2
    assert channel.read().plain() == [b"message", b"news", b"hello"]
    assert pattern.read().plain() == [b"pmessage", b"n*", b"news", b"hello"]
    eventually(lambda: b'"PUBLISH" "news" "hello"' in monitor.read().value, "nothing is monitored")
    for connection in (channel, pattern, monitor):
        connection.close()


def test_a_client_that_caches_forgets_and_goes_on(start_upgradable):
    server = start_upgradable()
    client, broadcast = server.server.connect(protocol=3), server.server.connect(protocol=3)
    client.call("CLIENT", "TRACKING", "ON")
    client.call("GET", "a")
    broadcast.call("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "b")
    server.upgrade()
    # What it had read before is not known any more: it is to forget everything.
    assert client.read().plain() == [b"invalidate", None]
    assert broadcast.read().plain() == [b"invalidate", None]
    client.call("GET", "a")
    with server.server.connect() as writer:
        writer.call("MSET", "a", "1", "b1", "1")
    assert client.read().plain() == [b"invalidate", [b"a"]]
    assert broadcast.read().plain() == [b"invalidate", [b"b1"]]
    client.close()
    broadcast.close()


def test_blocked_clients_stay_in_line(start_upgradable):
    server = start_upgradable(workers=2)
    clients = [server.server.connect() for _ in range(6)]
    for number, client in enumerate(clients):
        client.send("BLPOP", "queue", "0")
        eventually(lambda: blocked(server.server) == number + 1, "it does not block")
    timed = server.server.connect()
    began = time.monotonic()
    timed.send("BLPOP", "empty", "8")
    eventually(lambda: blocked(server.server) == 7, "it does not block")
    server.upgrade()
    assert blocked(server.server) == 7
    with server.server.connect() as writer:
        for number in range(6):
            writer.call("RPUSH", "queue", number)
            assert clients[number].read().plain() == [b"queue", str(number).encode()]
    assert timed.read().is_null
    assert 7.9 < time.monotonic() - began < 40, "its time had begun before"
    for client in (*clients, timed):
        client.close()


def blocked(server):
    with server.connect() as connection:
        text = connection.call("INFO", "clients").decode()
    return int(next(line.split(":")[1] for line in text.splitlines() if line.startswith("blocked_clients:")))


def test_requests_that_have_come_in_part_go_over(start_upgradable):
    server = start_upgradable()
    short, long = server.server.connect(), server.server.connect()
    request, large = encode(("SET", "k", "value")), encode(("SET", "long", b"y" * 3_000_000))
    short.send_raw(request[:12])
    long.send_raw(large[:1_000_000])
    with server.server.connect() as other:
        held = lambda: other.call("CLIENT", "LIST").decode().count(" qbuf=0 ")
        eventually(lambda: held() <= 1, "the beginnings do not arrive")
    server.upgrade()
    short.send_raw(request[12:])
    assert short.read().text() == "OK"
    long.send_raw(large[1_000_000:])
    assert long.read().text() == "OK"
    assert short.call("STRLEN", "long") == 3_000_000
    server.await_end_of_former()
    short.close()
    long.close()


def test_a_client_that_does_not_read_gets_all_replies(start_upgradable):
    server = start_upgradable()
    with server.server.connect() as client:
        client.call("SET", "large", b"z" * 1_000_000)
    slow = server.server.connect()
    slow.send_raw(encode(("GET", "large")) * 30 + encode(("INCR", "after")))
    server.upgrade()
    for _ in range(30):
        assert len(slow.read().value) == 1_000_000
    assert slow.read().plain() == 1
    assert slow.call("PING") == b"PONG"
    server.await_end_of_former()
    slow.close()


def test_what_a_client_has_set_goes_over(start_upgradable):
    server = start_upgradable()
    connect = server.server.connect
    silent, skipping, user, opted, redirected, target, shard = (connect() for _ in range(7))
    silent.send("CLIENT", "REPLY", "OFF")
    skipping.send("CLIENT", "REPLY", "SKIP")
    user.call("ACL", "SETUSER", "anna", "on", ">secret", "~a*", "+get", "+acl|whoami")
    user.call("AUTH", "anna", "secret")
    opted.call("HELLO", "3")
    opted.call("CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP")
    target.call("SUBSCRIBE", "__redis__:invalidate")
    with connect() as client:
        text = client.call("CLIENT", "LIST", "TYPE", "pubsub").decode()
        number = next(word[3:] for word in text.split() if word.startswith("id="))
    redirected.call("CLIENT", "TRACKING", "ON", "BCAST", "REDIRECT", number)
    shard.call("SSUBSCRIBE", "news")
    with connect() as client:
        # What was sent without a reply has arrived when its figure is there.
        flags = lambda: client.call("CLIENT", "LIST").decode().count("cmd=client|reply")
        eventually(lambda: flags() == 2, "it does not arrive")
    server.upgrade()
    silent.send("SET", "silent", "1")
    silent.send("CLIENT", "REPLY", "ON")
    assert silent.read().text() == "OK"
    assert silent.call("GET", "silent") == b"1"
    skipping.send("SET", "skipped", "1")
    assert skipping.call("GET", "skipped") == b"1"
    assert user.call("ACL", "WHOAMI") == b"anna" and user("SET", "a", "1").is_error
    assert opted.read().plain() == [b"invalidate", None]
    info = opted.call("CLIENT", "TRACKINGINFO")
    assert {b"on", b"optin", b"noloop"} <= set(info[b"flags"] if isinstance(info, dict) else info[1])
    assert redirected.call("CLIENT", "GETREDIR") == int(number)
    assert target.read().plain() == [b"message", b"__redis__:invalidate", None]
    with connect() as client:
        assert client.call("SPUBLISH", "news", "hello") == 1
        client.call("SET", "b", "1")
    assert shard.read().plain() == [b"smessage", b"news", b"hello"]
    for connection in (silent, skipping, user, opted, redirected, target, shard):
        connection.close()


def test_a_pause_of_clients_goes_on(start_upgradable):
    server = start_upgradable()
    with server.server.connect() as client, server.server.connect() as waiting:
        client.call("CLIENT", "PAUSE", "100000", "WRITE")
        waiting.send("SET", "a", "1")
        eventually(lambda: blocked(server.server) == 1, "it is not held")
        server.upgrade()
        eventually(lambda: blocked(server.server) == 1, "it is not held any more")
        assert client.call("GET", "a") is None
        client.call("CLIENT", "UNPAUSE")
        assert waiting.read().text() == "OK"


def test_renamed_commands_stay(start_upgradable):
    names = {"FLUSHALL": "", "CONFIG": "XCONF", "SUBSCRIBE": "HEAR", "WATCH": "LOOK", "MULTI": "BEGIN", "GET": "TAKE"}
    server = start_upgradable(config_lines=[f'rename-command {old} "{new}"' for old, new in names.items()])
    with server.server.connect() as client, server.server.connect() as hearer:
        hearer.call("HEAR", "news")
        client.call("SET", "key", "value")
        client.call("LOOK", "key")
        client.call("BEGIN")
        assert client.call("TAKE", "key") == b"QUEUED"
        server.upgrade()
        assert client.call("EXEC") == [b"value"]
        assert client.call("PUBLISH", "news", "hello") == 1
        assert hearer.read().plain() == [b"message", b"news", b"hello"]
        assert client.call("XCONF", "GET", "port")[0] == b"port"
        for name in names:
            assert "unknown command" in client(name).text()
