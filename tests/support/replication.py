"""Pairs of servers that replicate, and both ends of the protocol by hand.

A `Node` is a server of one of `KINDS`. `RawReplica` speaks to a primary as a replica does, `RawPrimary` to replicas
as a primary does, byte by byte, so that a test may do either badly. A `Proxy` stands between the two ends of a link
and cuts it or holds it up.
"""

import contextlib
import itertools
import os
import socket
import threading
import time

from support.rdbfile import STRING, File, string
from support.resp import Closed, Decoder, encode
from support.servers import Server, command_line, subject_is_oracle
from support.state import differences, whole_state
from support.steps import figures
from support.waiting import PATIENCE_S

PAIRS = [
    ("mantissa", "mantissa"),
    ("redis", "mantissa"),
    ("mantissa", "redis"),
    ("redis7", "mantissa"),
    ("mantissa", "redis7"),
    ("valkey", "mantissa"),
    ("mantissa", "valkey"),
]
DEFAULTS = {"repl-diskless-sync-delay": 0, "repl-timeout": 60}


def wanted(pairs):
    """The pairs that this run is to test, as parameters with names PRIMARY-REPLICA."""
    import pytest

    named = os.environ.get("MANTISSA_PAIRS")
    chosen = [pair for pair in pairs if not named or "-".join(pair) in named.split(",")]
    return [pytest.param(pair, id="-".join(pair)) for pair in chosen]


def stand_in(pair):
    """The kinds of a pair in this run: where redis-server is to prove the suite, the partner's kind stands in."""
    if not subject_is_oracle():
        return pair
    partner = next((kind for kind in pair if kind != "mantissa"), "redis")
    return tuple(partner if kind == "mantissa" else kind for kind in pair)


class Node(Server):
    """A server whose options lie in its configuration file: CONFIG REWRITE may write it, and a restart reads it."""

    def __init__(self, kind, **options):
        named = {name.replace("_", "-"): value for name, value in options.items()}
        self.connection = None
        self.announced_port = None  # where it says that it is, if that is not its own port
        super().__init__(kind, DEFAULTS | named, workers=2 if kind == "mantissa" else None)

    @property
    def config_path(self):
        return self.directory / "server.conf"

    def arguments(self, _):
        if not self.config_path.exists():
            options = {"port": self.port, "dir": self.directory} | self.options
            lines = [f"{name} {self.words(value)}" for name, value in options.items()]
            self.config_path.write_text("\n".join(lines) + "\n")
        return [*command_line(self.kind), str(self.config_path)]

    @staticmethod
    def words(value):
        return str(value) if str(value) else '""'

    def admin(self):
        """A connection that stays open, and is opened anew when it has ended."""
        if self.connection is None:
            self.connection = self.connect(timeout=PATIENCE_S)
            if "requirepass" in self.options:
                self.connection.call("AUTH", self.options["requirepass"])
        return self.connection

    def __call__(self, *words):
        try:
            return self.admin()(*words)
        except (Closed, OSError):
            self.connection = None
            raise

    def call(self, *words):
        reply = self(*words)
        assert not reply.is_error, f"{self.kind}: {words!r} gave {reply.text()}"
        return reply.plain()

    def info(self, section="replication"):
        """A section of INFO. The connection may have been killed as one of all clients."""
        for _ in range(3):
            with contextlib.suppress(Closed, ConnectionError):
                return figures(self, section)
        return figures(self, section)

    def stat(self, name):
        return int(self.info("stats")[name])

    def config(self, **settings):
        for name, value in settings.items():
            self.call("CONFIG", "SET", name.replace("_", "-"), value)

    def follow(self, primary, port=None):
        """Make it a replica of a primary, or of what listens at a port."""
        self.call("REPLICAOF", "127.0.0.1", port or primary.port)

    def promote(self):
        self.call("REPLICAOF", "NO", "ONE")

    def forget_connection(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def kill(self):
        self.forget_connection()
        super().kill()

    def shut_down(self, *words):
        """End it by SHUTDOWN, and wait for that."""
        self.admin().send("SHUTDOWN", *words)
        status = self.wait_exit()
        self.forget_connection()
        return status

    def restart(self, crash=False, **changes):
        self.forget_connection()
        super().restart(crash, **changes)


def until(condition, what, patience=PATIENCE_S, pause=0.01):
    """Wait until a condition holds. `what` is a text, or makes one, that says what is wrong if it never does."""
    deadline = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(pause)


def link(replica, primary, port=None):
    replica.follow(primary, port)
    wait_in_sync(primary, replica)


def is_online(primary, replica):
    """Whether the primary counts the replica as one that has all data."""
    lines = [value for name, value in primary.info().items() if name.startswith("slave") and "port=" in value]
    return any(f"port={replica.announced_port or replica.port},state=online" in line for line in lines)


def is_in_sync(primary, replica):
    theirs, ours = primary.info(), replica.info()
    return (
        ours["role"] == "slave"
        and ours["master_link_status"] == "up"
        and ours["slave_repl_offset"] == ours["master_repl_offset"] == theirs["master_repl_offset"]
        and ours["master_replid"] == theirs["master_replid"]
        and is_online(primary, replica)
    )


def wait_in_sync(primary, *replicas, patience=PATIENCE_S):
    """Until the links are up and all have the same offset."""
    for replica in replicas:
        until(
            lambda replica=replica: is_in_sync(primary, replica),
            lambda replica=replica: f"no sync:\n{primary.kind}: {primary.info()}\n{replica.kind}: {replica.info()}",
            patience,
        )


def picture(node, groups_in_full=True):
    """All that a server holds, read by its commands."""
    with node.connect(timeout=PATIENCE_S) as connection:
        state = whole_state(connection)
    for place, value in state.items():
        if value[0] == b"groups" and not groups_in_full:
            state[place] = (*value[:3], told_of_groups(value[3]), *value[4:])
        if value[0] == b"zset":
            # Versions write the same score in different ways.
            state[place] = (*value[:3], [(member, float(score)) for member, score in value[3]], *value[4:])
    return state


def told_of_groups(value):
    """The reply of XINFO STREAM without what redis-server and valkey-server do not tell their replicas: consumers that
    an XCLAIM of nothing makes, and in 7.0 how many entries a client read that was blocked."""
    if not isinstance(value, list):
        return value
    kept = [told_of_groups(element) for element in value]
    for name in (b"entries-read", b"lag"):
        if name in kept:
            kept[kept.index(name) + 1] = None
    return [one for one in kept if not (isinstance(one, list) and one[2:4] == [b"pel-count", 0])]


def digests_agree(*nodes):
    """Whether the nodes make the same digest of the same data: versions write scores in different ways."""
    kinds = {"redis" if node.kind == "mantissa" else node.kind for node in nodes}
    return len(kinds) == 1


def expect_same_data(primary, *replicas):
    """What the nodes hold is the same. A difference does not count if their offsets have moved meanwhile."""
    for replica in replicas:
        for _ in range(10):
            wait_in_sync(primary, replica)
            before = primary.info()["master_repl_offset"]
            left, right = (picture(node, not primary.real) for node in (primary, replica))
            digests = [node.call("DEBUG", "DIGEST") for node in (primary, replica)]
            found = differences(left, right, near=0)
            if not found and digests_agree(primary, replica) and digests[0] != digests[1]:
                found = ["digests differ, replies do not"]
            after = [node.info()["master_repl_offset"] for node in (primary, replica)]
            if not found or after == [before, before]:
                break
        assert not found, f"{primary.kind} to {replica.kind}, {before} to {after}:\n" + "\n".join(found[:20])


def log_has(node, text):
    """Whether a line of the log holds a text, in any case of letters."""
    return text.lower() in node.log_text().lower()


def small_rdb(values, version=9, aux=()):
    """A dump of strings: {key: value}."""
    file = File(version)
    for name, value in aux:
        file.aux(name, value)
    file.select(0)
    file.resize(len(values), 0)
    for key, value in values.items():
        file.record(STRING, key, string(value))
    return file.bytes()


class Wire:
    """A socket read as lines and commands of the replication protocol."""

    def __init__(self, connected):
        self.socket = connected
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.deadline_s = PATIENCE_S

    def fill(self, timeout=None):
        self.socket.settimeout(timeout or self.deadline_s)
        try:
            data = self.socket.recv(1 << 18)
        except (ConnectionResetError, BrokenPipeError):
            data = b""
        if not data:
            raise Closed(bytes(self.buffer))
        self.buffer += data

    def take(self, size):
        while len(self.buffer) < size:
            self.fill()
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    def line(self):
        """The next line that is not empty, without its end: bare newlines are signs of life."""
        while True:
            while b"\n" not in self.buffer:
                self.fill()
            found = self.take(self.buffer.index(b"\n") + 1).rstrip(b"\r\n")
            if found:
                return found

    def reply(self, timeout=None):
        """The next reply or command. Newlines before it do not count: they are signs of life."""
        while True:
            while self.buffer[:1] in (b"\n", b"\r"):
                del self.buffer[:1]
            decoder = Decoder()
            decoder.feed(bytes(self.buffer))
            reply = decoder.next()
            if reply is not None:
                del self.buffer[: len(reply.raw)]
                return reply
            self.fill(timeout)

    def command(self, timeout=None):
        """The next command, and how many bytes it took."""
        reply = self.reply(timeout)
        return reply.plain(), len(reply.raw)

    def send(self, data):
        self.socket.sendall(data)

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class RawReplica(Wire):
    """A connection to a primary that speaks as a replica does."""

    ports = itertools.count(1)

    def __init__(self, primary, capabilities=("eof", "psync2")):
        super().__init__(socket.create_connection(("127.0.0.1", primary.port), PATIENCE_S))
        self.primary, self.capabilities, self.port = primary, capabilities, next(self.ports)
        self.announced_port = self.port
        self.replid, self.offset = "?", -1

    def ask(self, *words):
        self.send(encode(words))
        return self.line()

    def handshake(self):
        assert self.ask("PING") == b"+PONG"
        assert self.ask("REPLCONF", "listening-port", self.port) == b"+OK"
        words = [word for name in self.capabilities for word in ("capa", name)]
        assert self.ask("REPLCONF", *words) == b"+OK" if words else True
        return self

    def psync(self, replid="?", offset=-1):
        """Ask, and take over the id and offset of the answer."""
        words = self.ask("PSYNC", replid, offset).decode().split()
        if words[0] == "+FULLRESYNC":
            self.replid, self.offset = words[1], int(words[2])
        elif words[0] == "+CONTINUE":
            self.replid, self.offset = (words[1:] or [replid])[0], offset - 1
        return words

    def payload(self):
        """The dump that follows a FULLRESYNC, of a known length or up to a mark."""
        head = self.line()
        assert head.startswith(b"$"), head
        if not head.startswith(b"$EOF:"):
            return self.take(int(head[1:]))
        mark = head[5:]
        assert len(mark) == 40, head
        while (end := self.buffer.find(mark)) < 0:
            self.fill()
        return self.take(end + 40)[:-40]

    def full_sync(self):
        """From the start to where the stream begins. Returns the dump."""
        self.handshake()
        assert self.psync()[0] == "+FULLRESYNC"
        dump = self.payload()
        # An acknowledgement that comes before the primary knows of the end of its dump does not count.
        until(lambda: is_online(self.primary, self), "the replica does not get online")
        self.acknowledge()
        return dump

    def acknowledge(self, offset=None, fsynced=None):
        words = ["REPLCONF", "ACK", self.offset if offset is None else offset]
        self.send(encode(words if fsynced is None else [*words, "FACK", fsynced]))

    def next(self, timeout=None):
        """The next command of the stream; the offset moves past it."""
        words, size = self.command(timeout)
        self.offset += size
        return words

    def until(self, name):
        """The commands of the stream up to one of this name, without PINGs and what is asked of the replica."""
        found = []
        while True:
            words = self.next()
            if words[0].upper() == b"REPLCONF" and words[1].upper() == b"GETACK":
                self.acknowledge(self.offset - len(encode(words)))
            elif words[0].upper() != b"PING":
                found.append(words)
            if words[0].upper() == name:
                return found


class RawPrimary:
    """A listener for replicas. `serve(wire)` runs in a thread for each connection that comes."""

    replid = "a" * 40

    def __init__(self, serve):
        self.serve, self.wires, self.failures = serve, [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.closed = False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.closed:
            try:
                connected, _ = self.listener.accept()
            except OSError:
                return
            wire = RawLink(connected)
            self.wires.append(wire)
            threading.Thread(target=self.run, args=(wire,), daemon=True).start()

    def run(self, wire):
        try:
            self.serve(wire)
        except (Closed, OSError):
            pass
        except AssertionError as failure:
            self.failures.append(failure)
        finally:
            wire.close()

    def close(self):
        self.closed = True
        self.listener.close()
        for wire in self.wires:
            wire.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        if self.failures:
            raise self.failures[0]


class RawLink(Wire):
    """A primary's side of the link to one replica."""

    def __init__(self, connected):
        super().__init__(connected)
        self.asked = []  # the commands of the handshake

    def handshake(self):
        """Answer as a primary does until PSYNC or SYNC is asked for, and return that."""
        while True:
            words, _ = self.command()
            self.asked.append(words)
            name = words[0].upper()
            if name in (b"PSYNC", b"SYNC"):
                return words
            self.send(b"+PONG\r\n" if name == b"PING" else b"+OK\r\n")

    def full_resync(self, offset=0, replid=RawPrimary.replid):
        self.send(b"+FULLRESYNC %s %d\r\n" % (replid.encode(), offset))

    def dump(self, rdb, mark=None):
        """Send a dump, with its length or between marks."""
        if mark is None:
            self.send(b"$%d\r\n%s" % (len(rdb), rdb))
        else:
            self.send(b"$EOF:%s\r\n%s%s" % (mark, rdb, mark))

    def stream(self, *commands):
        """Send commands; returns how many bytes they are."""
        data = b"".join(encode(words) for words in commands)
        self.send(data)
        return len(data)

    def acknowledged(self):
        """The offset of the next REPLCONF ACK."""
        while True:
            words, _ = self.command()
            if [word.upper() for word in words[:2]] == [b"REPLCONF", b"ACK"]:
                return int(words[2])

    def hold(self):
        """Read until the other side ends."""
        with contextlib.suppress(Closed):
            while True:
                self.buffer.clear()
                self.fill(3600)


class Proxy:
    """A link that can be cut at once or after some bytes, held up, and refused."""

    def __init__(self, target):
        self.target = target if isinstance(target, int) else target.port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.pairs = []
        self.flows = threading.Event()
        self.flows.set()
        self.refuses = self.closed = False
        self.accepted = 0
        self.left = {}  # bytes until the cut, per direction: {"up": n} to the primary, {"down": n} from it
        self.plan = []  # the same for the next connections, one each
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.closed:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self.refuses:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target), 10)
            except OSError:
                near.close()
                continue
            near.settimeout(None)
            far.settimeout(None)
            with self.lock:
                self.pairs.append((near, far))
                counts = self.plan.pop(0) if self.plan else dict(self.left)
            threading.Thread(target=self.copy, args=(near, far, "up", counts), daemon=True).start()
            threading.Thread(target=self.copy, args=(far, near, "down", counts), daemon=True).start()

    def copy(self, source, sink, direction, counts):
        while True:
            try:
                data = source.recv(1 << 16)
                self.flows.wait()
                left = counts.get(direction)
                if left is not None:
                    data, counts[direction] = data[:left], left - len(data[:left])
                sink.sendall(data)
            except OSError:
                data = b""
            if not data or counts.get(direction) == 0:
                return self.end(source, sink)

    @staticmethod
    def end(*sockets):
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """End what is connected now."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            self.end(*pair)

    def cut_after(self, **bytes_left):
        """Cut each later connection after so many bytes `up` or `down`; without any, none."""
        with self.lock:
            self.left = bytes_left

    def cut_each(self, plan):
        """Cut the next connections, each after the bytes that the plan says."""
        with self.lock:
            self.plan = list(plan)

    def refuse(self, refuses=True):
        """Cut, and end new connections at once, or take them again."""
        self.refuses = refuses
        if refuses:
            self.cut()

    def stall(self):
        """Hold back all bytes until `resume`, with the connections open."""
        self.flows.clear()

    def resume(self):
        self.flows.set()

    def close(self):
        self.closed = True
        self.resume()
        # Closed alone, it would take one more connection: a thread waits in `accept`.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
