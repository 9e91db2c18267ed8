"""What clients may take: limits of replies and requests, `maxmemory-clients`, and what is said of both."""

import time

import pytest

from support.resp import Closed, encode
from support.waiting import PATIENCE_S, eventually

MIB = 1 << 20
OUTPUT_LIMIT = {"client-output-buffer-limit": ["normal", "20mb", "0", "0"]}


def info(connection, section="everything"):
    """A section of INFO, as a dict of texts."""
    text = connection.call("INFO", section).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def figures(connection, client):
    """The line of CLIENT LIST about a client, as a dict of texts; None if it is gone."""
    for line in connection.call("CLIENT", "LIST").decode().splitlines():
        fields = dict(field.split("=", 1) for field in line.split(" "))
        if int(fields["id"]) == client:
            return fields
    return None


def is_closed_by(connection, *args):
    """Whether the server hangs up instead of replying."""
    try:
        connection.send(*args)
        connection.read()
    except (Closed, OSError):
        return True
    return False


def fill(connection, count, prefix="key"):
    """So many keys of a megabyte."""
    for number in range(count):
        connection.call("SET", f"{prefix}:{number}", b"x" * MIB)
    return [f"{prefix}:{number}" for number in range(count)]


# ---- output ------------------------------------------------------------------------------------------------


def test_one_reply_beyond_the_limit_evicts_nobody_and_takes_no_memory(start_server):
    options = OUTPUT_LIMIT | {"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}
    server = start_server("subject", options=options, workers=2)
    with server.connect() as connection, server.connect() as greedy:
        keys = fill(connection, 51)
        before = server.memory_bytes()
        assert is_closed_by(greedy, "MGET", *keys[:1] * 1000)
        assert connection.call("DBSIZE") == 51
        assert server.memory_peak_bytes() < before + 80 * MIB
        assert info(connection)["client_output_buffer_limit_disconnections"] == "1"
        assert connection.call("STRLEN", keys[0]) == MIB
        # What is within the limit is served.
        assert len(connection.call("MGET", *keys[:18])) == 18


@pytest.mark.parametrize("count, is_served", [(300, True), (3000, False)])
def test_who_has_not_logged_in_may_leave_little_unread(start_server, count, is_served):
    server = start_server(options={"requirepass": "secret"}, wait=False)
    server.wait_ready()
    with server.connect() as stranger, server.connect() as connection:
        replies = 0
        try:
            stranger.send_raw(encode(["PING"]) * count)
            while replies < count and stranger.read().text().startswith("NOAUTH"):
                replies += 1
        except (Closed, OSError):
            pass
        assert (replies == count) == is_served
        connection.call("AUTH", "secret")
        assert connection.call("ECHO", b"x" * MIB) == b"x" * MIB
        counted = info(connection)["client_output_buffer_limit_disconnections"]
        assert counted == ("0" if is_served else "1")


def test_a_transaction_beyond_the_limit_runs_to_its_end(start_server):
    server = start_server("subject", options=OUTPUT_LIMIT)
    with server.connect() as connection, server.connect() as greedy:
        keys = fill(connection, 10)
        before = server.memory_bytes()
        greedy.call("MULTI")
        for _ in range(40):
            greedy.call("MGET", *keys)
        greedy.call("SET", "done", "1")
        assert is_closed_by(greedy, "EXEC")
        assert connection.call("GET", "done") == b"1"
        assert server.memory_peak_bytes() < before + 80 * MIB


@pytest.mark.parametrize("size", [3, 1000])
def test_random_picks_end_at_the_limit(start_server, size):
    server = start_server("subject", options=OUTPUT_LIMIT)
    with server.connect() as connection:
        for number in range(size):
            connection.call("HSET", "hash", f"field:{number}", "value")
            connection.call("SADD", "set", f"member:{number}")
            connection.call("ZADD", "zset", number, f"member:{number}")
        connection.call("SADD", "integers", *range(size))
        before = server.memory_bytes()
        for command in (
            ["HRANDFIELD", "hash", "-2147483649"],
            ["HRANDFIELD", "hash", "-4000000000000", "WITHVALUES"],
            ["SRANDMEMBER", "set", "-9223372036854775807"],
            ["SRANDMEMBER", "integers", "-2147483649"],
            ["ZRANDMEMBER", "zset", "-2147483649"],
            ["ZRANDMEMBER", "zset", "-4000000000000", "WITHSCORES"],
        ):
            for within in ([], ["MULTI"]):
                with server.connect() as greedy:
                    for word in within:
                        greedy.call(word)
                        greedy.call(*command)
                    assert is_closed_by(greedy, *(["EXEC"] if within else command)), command
        assert server.memory_peak_bytes() < before + 80 * MIB


def test_a_script_gets_no_endless_reply(start_server):
    server = start_server("subject")
    with server.connect() as connection:
        connection.call("HSET", "hash", "field", "value")
        before = server.memory_bytes()
        reply = connection("EVAL", "return redis.call('HRANDFIELD', 'hash', '-2147483649')", "1", "hash")
        assert reply.is_error and "the reply is larger than a script may hold" in reply.text()
        assert connection.call("EVAL", "return redis.call('HGET', 'hash', 'field')", "1", "hash") == b"value"
        assert server.memory_peak_bytes() < before + 900 * MIB


def test_replies_of_many_kinds_end_at_the_limit(start_server):
    server = start_server("subject", options=OUTPUT_LIMIT)
    with server.connect() as connection:
        for start in range(0, 600, 20):
            numbers = range(start, start + 20)
            connection.call("RPUSH", "list", *(b"x" * 50_000 for _ in numbers))
            connection.call("HSET", "hash", *(word for n in numbers for word in (n, b"x" * 50_000)))
            connection.call("ZADD", "zset", *(word for n in numbers for word in (n, b"%05d" % n * 10_000)))
            connection.call("SADD", "set", *(b"%05d" % n * 10_000 for n in numbers))
        for number in range(600):
            connection.call("XADD", "stream", "*", "field", b"x" * 50_000)
        connection.call("XGROUP", "CREATE", "stream", "group", "0")
        script = "local t = {} for i = 1, 600 do t[i] = ARGV[1] end return t"
        for command in (
            ["LRANGE", "list", "0", "-1"],
            ["HGETALL", "hash"],
            ["HSCAN", "hash", "0", "COUNT", "100000"],
            ["SSCAN", "set", "0", "COUNT", "100000"],
            ["SMEMBERS", "set"],
            ["ZRANGE", "zset", "0", "-1", "WITHSCORES"],
            ["XRANGE", "stream", "-", "+"],
            ["XREADGROUP", "GROUP", "group", "me", "STREAMS", "stream", ">"],
            ["XAUTOCLAIM", "stream", "group", "me", "0", "0", "COUNT", "600"],
            ["SORT", "list", "BY", "nosort"],
            ["EVAL", script, "0", b"x" * 50_000],
        ):
            for protocol in (2, 3):
                connection.call("XGROUP", "SETID", "stream", "group", "0")
                with server.connect(protocol) as greedy:
                    assert is_closed_by(greedy, *command), command
        assert connection.call("XPENDING", "stream", "group")[0] == 600
        assert info(connection)["client_output_buffer_limit_disconnections"] == "22"


def test_the_limit_is_that_of_the_present_class(start_server):
    limits = ["normal", "40mb", "0", "0", "pubsub", "5mb", "0", "0"]
    server = start_server("subject", options={"client-output-buffer-limit": limits})
    with server.connect() as connection:
        fill(connection, 10)
    requests = [["SUBSCRIBE", "news"], ["UNSUBSCRIBE"], ["MGET", *(f"key:{n}" for n in range(10))]]
    with server.connect(3) as client:
        client.send_raw(b"".join(encode(request) for request in requests))
        assert [client.read().kind for _ in requests] == [">", ">", "*"]
        client.call(*requests[0])
        assert is_closed_by(client, *requests[2])


def test_a_reply_that_is_not_wanted_is_not_made(start_server):
    server = start_server("subject", options=OUTPUT_LIMIT)
    with server.connect() as connection:
        keys = fill(connection, 10)
        before = server.memory_bytes()
        connection.send("CLIENT", "REPLY", "OFF")
        connection.send("MGET", *keys * 100)
        connection.send("CLIENT", "REPLY", "ON")
        assert connection.read().raw == b"+OK\r\n"
        connection.send("CLIENT", "REPLY", "SKIP")
        connection.send("MGET", *keys * 100)
        assert connection.call("PING") == b"PONG"
        assert server.memory_peak_bytes() < before + 60 * MIB


def test_the_soft_limit_holds_without_traffic(start_server):
    limits = ["normal", "0", "2mb", "1"]
    server = start_server("subject", options={"client-output-buffer-limit": limits})
    with server.connect() as connection, server.connect() as slow:
        fill(connection, 1)
        number = slow.call("CLIENT", "ID")
        slow.send_raw(encode(["GET", "key:0"]) * 30)
        eventually(lambda: figures(connection, number) is None, "the client is never closed")
        assert info(connection)["client_output_buffer_limit_disconnections"] == "1"
        assert "output limit" in server.log_text()


def test_a_limit_that_is_too_small_can_be_taken_back(subject):
    with subject.connect() as connection:
        connection.call("CONFIG", "SET", "client-output-buffer-limit", "normal 1 1 1")
        assert connection.call("PING") == b"PONG"
        connection.call("CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0")


def test_the_soft_limit_forgets_who_reads(start_server):
    """The time over the soft limit counts from when it was exceeded last without a break."""
    limits = ["normal", "0", "4mb", "5"]
    server = start_server("subject", options={"client-output-buffer-limit": limits})
    with server.connect() as connection, server.connect() as slow:
        fill(connection, 1)
        slow.call("CLIENT", "ID")
        slow.send_raw(encode(["GET", "key:0"]) * 40)
        unread = 40 * (MIB + 12)
        # Down to below the limit, but never to nothing.
        while unread > 2 * MIB:
            unread -= len(slow.socket.recv(1 << 20))
        time.sleep(7)
        while unread:
            received = slow.socket.recv(1 << 20)
            assert received, "closed although it was below the soft limit"
            unread -= len(received)
        assert slow.call("PING") == b"PONG"


# ---- CLIENT REPLY, and what requests depend on --------------------------------------------------------------


def test_a_reset_brings_back_the_limits_of_strangers(start_server):
    for kind in ("oracle", "subject"):
        server = start_server(kind, options={"requirepass": "secret"})
        for protocol in (2, 3):
            with server.connect() as connection:
                connection.call("AUTH", "secret")
                if protocol == 3:
                    connection.call("HELLO", "3")
                large = encode(["SET", "key", b"x" * 20_000])
                connection.send_raw(large + encode(["RESET"]) + large + encode(["PING"]))
                assert connection.read().raw == b"+OK\r\n"
                assert connection.read().raw == b"+RESET\r\n"
                assert connection.read().raw == b"-ERR Protocol error: unauthenticated bulk length\r\n"
                assert connection.read_until_closed() == b""
            with server.connect() as connection:
                many = encode(["MSET", *"abcdefghijklmnop"])
                connection.send_raw(
                    encode(["AUTH", "secret"]) + many + encode(["PING"]) + encode(["RESET"]) + many
                )
                assert [connection.read().raw[:4] for _ in range(4)] == [b"+OK\r", b"+OK\r", b"+PON", b"+RES"]
                assert connection.read().raw == b"-ERR Protocol error: unauthenticated multibulk length\r\n"


def test_a_changed_argument_limit_holds_for_the_rest_of_a_pipeline(start_server):
    for kind in ("oracle", "subject"):
        server = start_server(kind)
        with server.connect() as connection:
            set_limit = encode(["CONFIG", "SET", "proto-max-bulk-len", "1mb"])
            connection.send_raw(set_limit + b"*2\r\n$4\r\nECHO\r\n$1048577\r\n")
            assert connection.read().raw == b"+OK\r\n"
            assert connection.read().raw == b"-ERR Protocol error: invalid bulk length\r\n"


# ---- requests ----------------------------------------------------------------------------------------------


def test_queued_commands_count_as_a_request(start_server):
    limits = {"client-query-buffer-limit": "1mb"}
    counts = {}
    for kind in ("oracle", "subject"):
        server = start_server(kind, options=limits)
        with server.connect() as connection, server.connect() as greedy:
            greedy.call("MULTI")
            counts[kind] = 0
            while not is_closed_by(greedy, "SET", "key", b"x" * 10_000):
                counts[kind] += 1
                assert counts[kind] < 1000, "the client is never closed"
            assert info(connection)["client_query_buffer_limit_disconnections"] == "1"
            # A transaction within the limit runs, and another one after it.
            with server.connect() as modest:
                for _ in range(3):
                    modest.call("MULTI")
                    for _ in range(90):
                        modest.call("SET", "key", b"x" * 10_000)
                    assert len(modest.call("EXEC")) == 90
            with server.connect() as large:
                assert is_closed_by(large, "SET", "key", b"x" * (MIB + 1))
    assert counts["oracle"] == counts["subject"]


# ---- maxmemory-clients -------------------------------------------------------------------------------------


def half_sent(server, size, no_evict=False):
    """A connection that has sent so much of a larger request, and its number."""
    connection = server.connect()
    number = connection.call("CLIENT", "ID")
    if no_evict:
        connection.call("CLIENT", "NO-EVICT", "ON")
    try:
        connection.send_raw(b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % (size + 10) + b"x" * size)
    except OSError:
        pass  # It is evicted while it sends.
    return connection, number


def until_noted(connection, number, size):
    """Until the server has made room for what was sent."""

    def is_there():
        line = figures(connection, number)
        return line is None or int(line["qbuf"]) + int(line["qbuf-free"]) >= size

    eventually(is_there, "what was sent never shows")


def present(connection, numbers):
    return [figures(connection, number) is not None for number in numbers]


@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_the_largest_clients_are_evicted(start_server, kind):
    server = start_server(kind, options={"maxmemory-clients": "12mb"}, workers=2)
    with server.connect() as connection:
        clients = []
        for size in (1, 5, 2):
            clients.append(half_sent(server, size * MIB))
            until_noted(connection, clients[-1][1], size * MIB)
        numbers = [number for _, number in clients]
        assert present(connection, numbers) == [True, True, True]
        clients.append(half_sent(server, 9 * MIB))
        eventually(lambda: figures(connection, clients[-1][1]) is None, "the largest is not evicted")
        assert present(connection, numbers) == [True, True, True]
        assert info(connection)["evicted_clients"] == "1"
        # The limit falls: the next in size goes, the others stay.
        connection.call("CONFIG", "SET", "maxmemory-clients", "6mb")
        eventually(lambda: figures(connection, numbers[1]) is None, "the next is not evicted")
        assert present(connection, numbers) == [True, False, True]
        assert info(connection)["evicted_clients"] == "2"
        # The server counts with buffers that it has grown beyond what was sent.
        assert int(info(connection)["mem_clients_normal"]) < 6 * MIB
        connection.call("CONFIG", "RESETSTAT")
        assert info(connection)["evicted_clients"] == "0"
        assert "Evicting client: id=" in server.log_text()
        # A request that was half sent is served all the same.
        clients[0][0].send_raw(b"y" * 10 + b"\r\n")
        assert len(clients[0][0].read().value) == MIB + 10


@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_percent_of_maxmemory_and_no_evict(start_server, kind):
    server = start_server(kind, options={"maxmemory": "100mb", "maxmemory-clients": "10%"}, workers=2)
    with server.connect() as connection:
        kept = half_sent(server, 6 * MIB, no_evict=True)
        until_noted(connection, kept[1], 6 * MIB)
        other = half_sent(server, 5 * MIB)
        eventually(lambda: figures(connection, other[1]) is None, "nobody is evicted")
        assert "e" in figures(connection, kept[1])["flags"]
        connection.call("CONFIG", "SET", "maxmemory-clients", "50%")
        large = [half_sent(server, 8 * MIB) for _ in range(2)]
        for _, number in large:
            until_noted(connection, number, 8 * MIB)
        assert present(connection, [number for _, number in large]) == [True, True]
        # Without maxmemory there is nothing that it could be a part of.
        connection.call("CONFIG", "SET", "maxmemory", "0")
        more = [half_sent(server, 30 * MIB) for _ in range(2)]
        for _, number in more:
            until_noted(connection, number, 30 * MIB)
        assert present(connection, [number for _, number in more]) == [True, True]
        assert info(connection)["evicted_clients"] == "1"


@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_whatever_a_client_holds_counts(start_server, kind):
    server = start_server(kind, options={"maxmemory-clients": "6mb"}, workers=2)
    with server.connect() as connection:
        fill(connection, 1)

        def evicts(work):
            before = int(info(connection)["evicted_clients"])
            with server.connect() as client:
                try:
                    for _ in range(400):
                        work(client)
                except (Closed, OSError):
                    pass
                eventually(lambda: int(info(connection)["evicted_clients"]) > before, "it stays")

        def unread(client):
            client.send("GET", "key:0")
            client.send("GET", "key:0")

        def queued(client):
            reply = client("SET", "key", b"x" * 100_000)
            if reply.raw == b"+OK\r\n":
                client.call("MULTI")

        def subscribed(client):
            client.call("SUBSCRIBE", b"%d" % client.socket.fileno() + b"x" * 100_000 + b"%f" % time.monotonic())

        def named(client):
            client.call("CLIENT", "SETNAME", "x" * 8 * MIB)
            client.call("PING")

        def watching(client):
            client.call("WATCH", b"%d" % client.socket.fileno() + b"x" * 100_000 + b"%f" % time.monotonic())

        def tracking(client):
            prefix = b"%f" % time.monotonic() + b"x" * 100_000
            client.call("CLIENT", "TRACKING", "ON", "REDIRECT", mine, "BCAST", "PREFIX", prefix)

        mine = connection.call("CLIENT", "ID")
        # redis-server does not count the names of channels, keys and prefixes, only what refers to them.
        works = [unread, queued, named] + ([watching, subscribed, tracking] if kind == "subject" else [])
        for number, work in enumerate(works, 1):
            evicts(work)
            assert info(connection)["evicted_clients"] == str(number), work
        with server.connect() as subscriber:
            subscriber.call("SUBSCRIBE", "news")
            for _ in range(400):
                connection.call("PUBLISH", "news", b"x" * 100_000)
            subscriber.read_until_closed()
        assert info(connection)["evicted_clients"] == str(len(works) + 1)
        with server.connect() as waiting:
            try:
                waiting.send("BLPOP", *(b"%05d" % number * 1_000 for number in range(2_000)), "0")
            except OSError:
                pass  # It is evicted while it sends.
            eventually(lambda: int(info(connection)["evicted_clients"]) > len(works) + 1, "it stays")
        assert connection.call("PING") == b"PONG"


@pytest.mark.parametrize("within", [[], ["MULTI"]])
def test_one_reply_beyond_all_clients_memory_is_not_made(start_server, within):
    server = start_server("subject", options={"maxmemory-clients": "20mb"}, workers=2)
    with server.connect() as connection, server.connect() as greedy, server.connect() as exempt:
        keys = fill(connection, 10)
        before = server.memory_bytes()
        for word in within:
            greedy.call(word)
            greedy.call("MGET", *keys * 60)
        assert is_closed_by(greedy, *(["EXEC"] if within else ["MGET", *keys * 60]))
        assert info(connection)["evicted_clients"] == "1"
        assert info(connection)["client_output_buffer_limit_disconnections"] == "0"
        assert server.memory_peak_bytes() < before + 80 * MIB
        exempt.call("CLIENT", "NO-EVICT", "ON")
        assert len(exempt.call("MGET", *keys * 3)) == 30


def test_many_clients_are_evicted_fast(start_server):
    server = start_server("subject", workers=2)
    with server.connect() as connection:
        # What it lists is longer than what the others hold.
        connection.call("CLIENT", "NO-EVICT", "ON")
        clients = [half_sent(server, 100_000) for _ in range(600)]
        until_noted(connection, clients[-1][1], 100_000)
        eventually(lambda: int(info(connection)["mem_clients_normal"]) > 60 * 10**6, "sums are wrong")
        before_s = server.processor_seconds()
        connection.call("CONFIG", "SET", "maxmemory-clients", "20mb")
        eventually(lambda: int(info(connection)["mem_clients_normal"]) < 20 * MIB, "sums are wrong")
        assert server.processor_seconds() - before_s < 2
        # At one moment: what is listed is so long that it may have another client evicted.
        connection.pipeline([["MULTI"], ["CLIENT", "LIST"], ["INFO", "stats"]])
        listed, text = connection.call("EXEC")
        left = listed.count(b"\n")
        evicted = int(text.split(b"evicted_clients:")[1].split()[0])
        assert left + evicted == 601 and 100 < left < 250
        connection.call("CONFIG", "SET", "maxmemory-clients", "0")
        for client, _ in clients:
            client.close()
        eventually(lambda: connection.call("CLIENT", "LIST").count(b"\n") == 1, "clients do not go")
        assert int(info(connection)["mem_clients_normal"]) < 10_000


def test_exactly_the_limit_is_within_it(start_server):
    server = start_server("subject", workers=2)
    with server.connect() as connection:
        clients = [half_sent(server, MIB) for _ in range(6)]
        for _, number in clients:
            until_noted(connection, number, MIB)
        own = int(figures(connection, connection.call("CLIENT", "ID"))["tot-mem"])
        one = int(figures(connection, clients[0][1])["tot-mem"])
        connection.call("CLIENT", "NO-EVICT", "ON")
        connection.call("CONFIG", "SET", "maxmemory-clients", str(own + 3 * one))
        numbers = [number for _, number in clients]
        eventually(lambda: sum(present(connection, numbers)) <= 3, "the clients stay")
        assert sum(present(connection, numbers)) == 3


@pytest.fixture(params=["oracle", "io_uring", "epoll"])
def impatient(start_server, request):
    """A server that closes who is idle for two seconds."""
    options = {"timeout": 2}
    if request.param == "oracle":
        return start_server("oracle", options=options)
    return start_server("subject", options=options | {"io-driver": request.param}, workers=2)


def test_who_sends_slowly_is_not_idle(impatient):
    size = 12 * 300_000
    with impatient.connect() as slow, impatient.connect() as lame:
        slow.send_raw(b"*3\r\n$3\r\nSET\r\n$5\r\nvalue\r\n$%d\r\n" % size)
        lame.send_raw(b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % size + b"x" * 300_000)
        for _ in range(12):
            time.sleep(0.3)
            slow.send_raw(b"x" * 300_000)
        slow.send_raw(b"\r\n")
        assert slow.read().raw == b"+OK\r\n"
        assert is_closed_by(lame)


def is_gone(connection):
    """Whether the server has closed a client that waits."""
    connection.socket.setblocking(False)
    try:
        return not connection.socket.recv(1 << 16)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.socket.settimeout(PATIENCE_S)


def test_who_is_held_back_is_not_idle(impatient):
    with impatient.connect() as held:
        client = held.call("CLIENT", "ID")
        with impatient.connect() as connection:
            connection.call("CLIENT", "PAUSE", 1_000_000, "WRITE")
        held.send("SET", "k", "v")
        with impatient.connect() as connection:
            eventually(lambda: "b" in figures(connection, client)["flags"], "it is not held back")
        # Those that come after it are closed one after the other.
        for _ in range(2):
            with impatient.connect() as idle:
                idle.call("CLIENT", "ID")
                eventually(lambda: is_gone(idle), "who is idle stays")
        with impatient.connect() as connection:
            assert int(figures(connection, client)["idle"]) >= 2
            began = time.monotonic()
            connection.call("CLIENT", "UNPAUSE")
            assert held.read().raw == b"+OK\r\n"
            # It counts from the reply on.
            assert int(figures(connection, client)["idle"]) <= time.monotonic() - began + 1
        assert held.call("GET", "k") == b"v"


def test_who_reads_slowly_is_not_idle(impatient):
    size = 16 * MIB
    with impatient.connect() as slow:
        slow.call("SETRANGE", "value", size - 1, "x")
        slow.send("GET", "value")
        received = 0
        while received < size:
            time.sleep(0.1)
            part = slow.socket.recv(400_000)
            assert part, f"closed after {received} bytes"
            received += len(part)


def test_what_is_listed_of_clients_is_true(start_server):
    server = start_server("subject", workers=2)
    with server.connect() as connection:
        fill(connection, 1)
        idle = server.connect()
        number = idle.call("CLIENT", "ID")
        base = int(figures(connection, number)["tot-mem"])
        assert 0 < base < 10_000
        half, number = half_sent(server, 3 * MIB)
        until_noted(connection, number, 3 * MIB)
        line = {name: value for name, value in figures(connection, number).items()}
        eventually(lambda: int(figures(connection, number)["qbuf"]) >= 3 * MIB, "what has come does not show")
        line = figures(connection, number)
        assert int(line["qbuf"]) == 3 * MIB
        held = int(line["qbuf"]) + int(line["qbuf-free"])
        assert held <= int(line["tot-mem"]) < held + 10_000
        half.send_raw(b"y" * 10 + b"\r\n")
        half.read()
        line = figures(connection, number)
        assert (line["qbuf"], line["qbuf-free"]) == ("0", "0")
        number = idle.call("CLIENT", "ID")
        idle.call("MULTI")
        idle.call("SET", "key", b"x" * 100_000)
        line = figures(connection, number)
        assert 100_000 < int(line["multi-mem"]) < 101_000
        assert base + 100_000 < int(line["tot-mem"]) < base + 110_000
        idle.call("DISCARD")
        idle.call("WATCH", b"x" * 50_000)
        assert 50_000 < int(figures(connection, number)["multi-mem"]) < 51_000
        idle.call("UNWATCH")
        assert figures(connection, number)["multi-mem"] == "0"
        slow = server.connect()
        number = slow.call("CLIENT", "ID")
        slow.send_raw(encode(["GET", "key:0"]) * 20)
        eventually(lambda: int(figures(connection, number)["omem"]) > MIB, "what is unread does not show")
        line = figures(connection, number)
        assert int(line["omem"]) < 21 * MIB and int(line["tot-mem"]) > int(line["omem"])
        for _ in range(20):
            slow.read()
        eventually(lambda: figures(connection, number)["omem"] == "0", "what has been read still shows")
