"""Broken, huge and hostile input: the server stays up, keeps its memory bounded, and serves everybody
else."""

import resource
import socket
import threading
import warnings

import pytest

from support.resp import Closed, Connection, encode
from support.seeds import generator
from support.waiting import eventually

MIB = 1 << 20
CONNECTIONS = 20_000
FEWEST_CONNECTIONS = 5_000
DESCRIPTORS_SPARE = 500


@pytest.fixture
def server(start_server):
    server = start_server("subject", workers=2)
    yield server
    assert server.alive, server.log_tail()
    assert_serves(server)
    assert "panic" not in server.log_text()


def assert_serves(server):
    """Somebody else is served, by every worker."""
    connections = [server.connect() for _ in range(8)]
    for number, connection in enumerate(connections):
        assert connection.call("SET", f"alive:{number}", number) == b"OK"
        assert connection.call("GET", f"alive:{number}") == b"%d" % number
        connection.close()


def read_all(connection):
    """Everything until the server hangs up, or nothing if it resets."""
    try:
        return connection.read_until_closed()
    except (TimeoutError, OSError):
        return None


def test_half_sent_requests(server):
    request = encode(["SET", "half", "x" * 1000])
    connections = []
    for number in range(1000):
        connection = server.connect()
        connection.send_raw(request[: 1 + number % (len(request) - 1)])
        connections.append(connection)
    assert_serves(server)
    for number, connection in enumerate(connections[:500]):
        connection.send_raw(request[1 + number % (len(request) - 1) :])
    assert all(connection.read().raw == b"+OK\r\n" for connection in connections[:500])
    for connection in connections:
        connection.reset()


def test_a_request_byte_by_byte(server):
    with server.connect() as connection:
        for byte in encode(["ECHO", b"\r\n$5\r\n*1\r\n"]) + b"PING\r\n":
            connection.send_raw(bytes([byte]))
        assert connection.read().value == b"\r\n$5\r\n*1\r\n"
        assert connection.read().raw == b"+PONG\r\n"


def test_a_bulk_that_is_too_long_is_refused_before_it_comes(server):
    with server.connect() as connection:
        connection.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (600 * MIB))
        assert connection.read_until_closed() == b"-ERR Protocol error: invalid bulk length\r\n"
    assert server.memory_peak_bytes() < 150 * MIB


def test_announced_sizes_cost_nothing(server):
    """A hundred clients announce 500 MB each and send almost nothing of it."""
    before = server.memory_bytes()
    connections = [server.connect() for _ in range(100)]
    for connection in connections:
        connection.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\nabc" % (500 * MIB))
    for connection in [server.connect() for _ in range(20)]:
        connection.send_raw(b"*1000000\r\n$4\r\nMGET\r\n")
        connections.append(connection)
    assert_serves(server)
    assert server.memory_bytes() < before + 200 * MIB
    for connection in connections:
        connection.close()


def test_an_argument_of_300_megabytes(server):
    size = 300 * MIB
    value = bytes(range(256)) * (size // 256)
    with server.connect() as connection:
        connection.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % size)
        for start in range(0, size, 16 * MIB):
            connection.send_raw(value[start : start + 16 * MIB])
            assert start % (96 * MIB) or assert_serves(server) is None
        connection.send_raw(b"\r\n")
        assert connection.read().raw == b"+OK\r\n"
        assert connection.call("STRLEN", "k") == size
        assert connection.call("GETRANGE", "k", size - 300, -1) == value[-300:]
        assert server.memory_peak_bytes() < 2 * size + 150 * MIB, server.memory_peak_bytes()
        assert connection.call("GET", "k") == value
        assert connection.call("DEL", "k") == 1


def test_a_command_of_a_million_arguments(server):
    count = 1_000_000
    keys = [b"key:%d" % number for number in range(count)]
    with server.connect() as connection:
        assert connection.call("DEL", *keys) == 0
        assert connection.call("RPUSH", "list", *keys) == count
        assert connection.call("SADD", "set", *keys) == count
        assert connection.call("MSET", *[word for key in keys[: count // 2] for word in (key, b"v")]) == b"OK"
        assert connection.call("UNLINK", *keys) == count // 2
        assert connection("LRANGE", "list", *keys).is_error
        assert connection.call("FLUSHALL") == b"OK"


def test_a_pipeline_of_half_a_million_requests(server):
    count = 500_000
    with server.connect() as connection:
        sender = threading.Thread(target=connection.send_raw, args=(b"PING\r\n" * count,))
        sender.start()
        for _ in range(count):
            assert connection.read().raw == b"+PONG\r\n"
        sender.join()
    assert server.memory_peak_bytes() < 300 * MIB


def raise_descriptor_limit(wanted):
    """Raise the limit of open files for this process and its children, if allowed. Returns the limit in
    force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in ((max(soft, wanted), max(hard, wanted)), (hard, hard)):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            break
        except (ValueError, OSError):
            continue
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_twenty_thousand_connections(start_server):
    limit = raise_descriptor_limit(CONNECTIONS + DESCRIPTORS_SPARE)
    count = min(CONNECTIONS, limit - DESCRIPTORS_SPARE)
    if count < FEWEST_CONNECTIONS:
        pytest.skip(f"the limit of open files is {limit}, too low for {CONNECTIONS} connections")
    if count < CONNECTIONS:
        warnings.warn(f"only {count} connections: the limit of open files is {limit}")
    server = start_server("subject", workers=2, options={"maxclients": count + 100, "tcp-backlog": 4096})
    before = server.memory_bytes()
    sockets = []
    try:
        for _ in range(count):
            sockets.append(socket.create_connection(("127.0.0.1", server.port), 20))
        for index in range(0, count, 7):
            sockets[index].sendall(b"PING\r\n")
        for index in range(0, count, 7):
            assert sockets[index].recv(100) == b"+PONG\r\n"
        with server.connect() as connection:
            assert b"connected_clients:%d\r\n" % (count + 1) in connection.call("INFO", "clients")
        assert_serves(server)
        per_connection = (server.memory_bytes() - before) / count
        assert per_connection < 8 * 1024, f"{per_connection:.0f} bytes an idle connection"
    finally:
        for sock in sockets:
            sock.close()
    with server.connect() as connection:
        eventually(lambda: b"connected_clients:1\r\n" in connection.call("INFO", "clients"), "clients stay")
    assert_serves(server)


def test_more_clients_than_allowed_are_told(start_server):
    server = start_server("subject", options={"maxclients": 20})
    connections = [server.connect()]
    while b"connected_clients:1\r\n" not in connections[0].call("INFO", "clients"):
        pass  # the connection that found the server ready is still being closed
    connections += [server.connect() for _ in range(19)]
    for connection in connections:
        assert connection.call("PING") == b"PONG"
    with server.connect() as one_more:
        assert one_more.read_until_closed() == b"-ERR max number of clients reached\r\n"
    connections.pop().close()
    while True:
        with server.connect() as again:
            again.send("PING")
            try:
                reply = again.read()
            except Closed:
                continue
            if reply.raw == b"+PONG\r\n":
                break
    for connection in connections:
        connection.close()


def test_abrupt_resets(server):
    random = generator("resets")
    with server.connect() as connection:
        connection.call("SET", "big", b"x" * MIB)
        connection.call("RPUSH", "list", *range(10_000))
    requests = [
        encode(["GET", "big"]) * 5,
        encode(["LRANGE", "list", 0, -1]) * 5,
        encode(["BLPOP", "never", 0]),
        encode(["SUBSCRIBE", "channel"]),
        encode(["MULTI"]) + encode(["SET", "k", "v"]),
        encode(["SET", "k", "v" * 1000])[:500],
        b"",
        encode(["MONITOR"]),
        encode(["WATCH", "big"]),
    ]
    for _ in range(600):
        connection = server.connect()
        try:
            connection.send_raw(random.choice(requests))
            if random.random() < 0.3:
                connection.socket.settimeout(0.01)  # some of these never answer
                connection.socket.recv(10)
        except (OSError, TimeoutError):
            pass
        connection.reset() if random.random() < 0.8 else connection.close()
    with server.connect() as connection:
        connection.call("PUBLISH", "channel", "nobody")
        # An element goes to a client that waits until the server has been told that it is gone.
        is_alone = lambda: connection.call("CLIENT", "LIST").count(b"\n") == 1
        eventually(is_alone, "clients that are gone are still listed")
        connection.call("RPUSH", "never", "stays")
        assert connection.call("LRANGE", "never", 0, -1) == [b"stays"]


def test_a_slow_reader_is_cut_at_its_limit(start_server):
    server = start_server("subject", options={"client-output-buffer-limit": ["normal", "16mb", "0", "0"]})
    with server.connect() as connection:
        connection.call("SET", "big", b"x" * MIB)
    before = server.memory_bytes()
    with server.connect() as reader:
        try:
            for _ in range(500):
                reader.send("GET", "big")
        except OSError:
            pass  # it hung up while we were sending
        assert_serves(server)
        read_all(reader)
    assert server.memory_peak_bytes() < before + 120 * MIB
    assert_serves(server)


def test_a_slow_reader_without_limit_stops_being_read(server):
    """Half a gigabyte of replies that nobody reads yet: the server serves others and delivers all in the
    end."""
    count = 400
    with server.connect() as connection:
        connection.call("SET", "big", b"x" * MIB)
    with server.connect() as reader:
        reader.send_raw(encode(["GET", "big"]) * count)
        assert_serves(server)
        for _ in range(count):
            assert len(reader.read().value) == MIB


def test_a_slow_subscriber_is_cut(start_server):
    server = start_server("subject", options={"client-output-buffer-limit": ["pubsub", "8mb", "2mb", "60"]})
    before = server.memory_bytes()
    with server.connect() as reader, server.connect() as publisher:
        reader.call("SUBSCRIBE", "news")
        sent = 0
        while publisher.call("PUBLISH", "news", b"x" * 100_000):
            sent += 100_000
            assert sent < 2000 * MIB, "the subscriber is never cut"
    assert server.memory_peak_bytes() < before + 100 * MIB
    assert_serves(server)


def test_a_request_larger_than_the_query_buffer_is_cut(start_server):
    server = start_server("subject", options={"client-query-buffer-limit": "2mb"})
    with server.connect() as connection:
        try:
            connection.send_raw(b"*100000\r\n" + b"$100\r\n%s\r\n" % (b"x" * 100) * 60_000)
        except OSError:
            pass
        read_all(connection)
    assert server.memory_peak_bytes() < 200 * MIB
    assert_serves(server)


def random_stream(random):
    """Bytes of some kind that is no protocol, or almost."""
    match random.randrange(6):
        case 0:
            return random.randbytes(random.randrange(1, 5000))
        case 1:
            return b"*" + random.randbytes(random.randrange(1, 200))
        case 2:
            return b"*3\r\n$3\r\nSET\r\n" + random.randbytes(random.randrange(1, 200))
        case 3:
            request = bytearray(encode(["SET", "k", random.randbytes(50)]) * 3)
            for _ in range(random.randrange(1, 6)):
                request[random.randrange(len(request))] = random.randrange(256)
            return bytes(request)
        case 4:
            words = [
                "SET",
                "GET",
                "ZADD",
                "HSET",
                "EVAL",
                "CLIENT",
                "CONFIG",
                "OBJECT",
                "LPUSH",
                "SORT",
                "BITFIELD",
            ]
            return encode([random.choice(words), *[random.randbytes(random.randrange(8)) for _ in range(4)]])
        case _:
            return bytes(random.choices(b"*$\r\n0123456789-+:abc\"' \x00", k=random.randrange(1, 300)))


def test_random_bytes(server):
    random = generator("random bytes")
    for _ in range(2000):
        with server.connect() as connection:
            try:
                connection.send_raw(random_stream(random))
                if random.random() < 0.5:
                    connection.socket.shutdown(socket.SHUT_WR)
                    read_all(connection)
            except OSError:
                pass
    assert server.memory_peak_bytes() < 200 * MIB


def test_the_server_reads_what_it_wrote_after_all_this(server):
    """A client that stops reading in the middle of a reply and goes on later gets every byte."""
    with server.connect() as connection:
        connection.call("RPUSH", "list", *[b"x" * 100] * 100_000)
        connection.send("LRANGE", "list", 0, -1)
        assert_serves(server)
        assert len(connection.read().value) == 100_000


def test_connections_on_the_socket_that_do_nothing(server):
    """Clients that connect and say nothing, or only end their side, cost nothing and disturb nobody."""
    silent = [Connection(("127.0.0.1", server.port)) for _ in range(200)]
    for connection in silent[::2]:
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.read_until_closed() == b""
    assert_serves(server)
    for connection in silent:
        connection.close()
