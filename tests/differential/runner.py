"""Plays a stream to both servers in step and collects where they disagree."""

import os
import re
import time

from differential.policy import agree, agree_exec, policy_of, simple
from support.resp import Closed, ProtocolError, encode, show
from support.state import differences, read_state
from support.waiting import PATIENCE_S

GONE_SERVER_MISMATCHES_MAX = 3
DRAIN_TOKEN = b"end-of-stream"
PLACEHOLDER = re.compile(rb"\$\{(id|addr|laddr):(\d+)\}")
SMALL_THRESHOLDS = {
    "hash-max-listpack-entries": 3,
    "hash-max-listpack-value": 8,
    "list-max-listpack-size": 3,
    "set-max-intset-entries": 3,
    "set-max-listpack-entries": 4,
    "set-max-listpack-value": 8,
    "zset-max-listpack-entries": 3,
    "zset-max-listpack-value": 8,
    "stream-node-max-entries": 3,
    "hll-sparse-max-bytes": 40,
}


class Mismatch:
    """One disagreement, with what a person needs to repeat it."""

    def __init__(self, where, text, oracle, subject):
        self.where, self.text, self.oracle, self.subject = where, text, oracle, subject

    def __str__(self):
        return f"{self.where}: {self.text}\n    oracle:  {self.oracle}\n    subject: {self.subject}"


class Player:
    """One server's side: its connections by number."""

    def __init__(self, server, protocol):
        self.server, self.protocol = server, protocol
        self.control = server.connect()
        self.connections, self.ids = {}, {}

    def connection(self, number):
        """Connection `number`, opened now if it is new."""
        if number not in self.connections:
            connection = self.server.connect(timeout=PATIENCE_S)
            own = connection("CLIENT", "ID")
            self.ids[number] = own.plain() if own.kind == ":" else 0  # none before AUTH
            if self.protocol == 3 and own.kind == ":":
                connection.call("HELLO", "3")
            self.connections[number] = connection
        return self.connections[number]

    def fill_in(self, arg):
        """An argument with its placeholders replaced by this server's values."""

        def value(found):
            connection = self.connection(int(found[2]))
            if found[1] == b"id":
                return b"%d" % self.ids[int(found[2])]
            name = connection.socket.getsockname() if found[1] == b"addr" else connection.socket.getpeername()
            return b"%s:%d" % (name[0].encode(), name[1])

        return PLACEHOLDER.sub(value, arg) if b"${" in arg else arg

    def send(self, line):
        connection = self.connection(line.connection)
        args = [self.fill_in(arg) for arg in line.args]
        try:
            connection.send_raw(b"".join(args) if line.action == "raw" else encode(args))
        except OSError:
            pass  # the reads that follow report the closed connection

    def receive(self, number):
        """The next reply, or what happened instead."""
        try:
            return self.connection(number).read()
        except Closed as closed:
            return simple(f"<connection closed> {show(closed.pending)}")
        except TimeoutError as error:
            return simple(f"<no reply> {error}")
        except (ProtocolError, ValueError) as error:
            return simple(f"<not RESP> {error}")

    def receive_bag(self, number, count):
        """Several replies whose order does not matter, as one."""
        return simple(" ".join(sorted(show(self.receive(number).raw) for _ in range(count))))

    def receive_end(self, number):
        """Everything until the server hangs up."""
        connection = self.connections.pop(number, None)
        if connection is None:
            return simple("<closed before>")
        try:
            return simple(f"<closed> {show(connection.read_until_closed())}")
        except TimeoutError as error:
            return simple(f"<still open> {error}")

    def wait_blocked(self, number):
        """Poll until the server reports connection `number` as blocked."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            listed = self.control("CLIENT", "LIST", "ID", self.ids[number])
            flags = re.search(rb" flags=(\S*)", listed.value or b"")
            if flags and b"b" in flags[1]:
                return simple("<blocked>")
            if listed.is_error:
                break
        return simple(f"<never blocked> {show(listed.raw)}")

    def iterate(self, number, args):
        """All elements of a SCAN command, as a sorted set, or its error."""
        connection, found = self.connection(number), set()
        args = list(args)
        position = 1 if args[0].upper() == b"SCAN" else 2
        step = (
            2 if args[0].upper() in (b"HSCAN", b"ZSCAN") and b"NOVALUES" not in map(bytes.upper, args) else 1
        )
        for _ in range(1_000_000):
            reply = connection(*args)
            if not reply.is_aggregate:
                return reply
            raws = [element.raw for element in reply.value[1].value]
            found |= {b" ".join(raws[start : start + step]) for start in range(0, len(raws), step)}
            args[position] = reply.value[0].value
            if args[position] == b"0":
                return simple(f"<iterated> {sorted(found)}")
        return simple("<endless iteration>")

    def until(self, number, expected, args):
        """Repeat a command until it gives the expected raw reply."""
        deadline = time.monotonic() + PATIENCE_S
        args = [self.fill_in(arg) for arg in args]
        while time.monotonic() < deadline:
            reply = self.connection(number)(*args)
            if reply.raw == expected or reply.is_error:
                return reply
            time.sleep(0.002)
        return reply

    def drain(self, number):
        """Every reply still to come on a connection, that to PING at the end."""
        replies, connection = [], self.connections[number]
        connection.send("PING", DRAIN_TOKEN)
        while True:
            reply = self.receive(number)
            replies.append(reply)
            is_refused = reply.raw.startswith(b"-NOPERM") and b"'ping'" in reply.raw
            if DRAIN_TOKEN in reply.raw or is_refused or happened(reply):
                return replies

    def close(self):
        for connection in [*self.connections.values(), self.control]:
            connection.close()


class Runner:
    """Plays lines to the oracle and the subject."""

    def __init__(self, oracle, subject, protocol, small=False):
        self.protocol, self.small = protocol, small
        self.players = []
        for server in (oracle, subject):
            self.players.append(Player(server, protocol))
        self.queues = {}
        self.mismatches = []
        self.silent = 0
        if small:
            for name, value in SMALL_THRESHOLDS.items():
                for player in self.players:
                    player.control.call("CONFIG", "SET", name, value)

    def both(self, method, *args):
        return [getattr(player, method)(*args) for player in self.players]

    def play(self, lines):
        """Play all lines, then compare what is left in the sockets and the data. Returns the mismatches."""
        for line in lines:
            if self.silent >= GONE_SERVER_MISMATCHES_MAX or not self.players[1].server.alive:
                self.note(line, "", "<server gone or silent: stream ended>")
                return self.mismatches
            if f"resp{5 - self.protocol}" not in line.flags:
                self.play_line(line)
        self.finish()
        return self.mismatches

    def play_line(self, line):
        if line.action in ("close", "reset"):
            for player in self.players:
                getattr(player.connection(line.connection), line.action)()
                del player.connections[line.connection]
            return
        if line.action == "until":
            null = {2: b"$-1", 3: b"_"}[self.protocol]
            expected = (null if line.args[0] == b"nil" else line.args[0]) + b"\r\n"
            for player in self.players:
                reply = player.until(line.connection, expected, line.args[1:])
                if reply.raw != expected:
                    self.note(line, show(expected), f"{player.server.kind} kept giving {show(reply.raw)}")
            return
        if "iterate" in line.flags:
            self.compare(line, *self.both("iterate", line.connection, line.args))
            return
        if line.action in ("send", "raw"):
            self.both("send", line)
        if "blocks" in line.flags:
            self.compare(line, *self.both("wait_blocked", line.connection))
            return
        if "bag" in line.flags:
            self.compare(line, *self.both("receive_bag", line.connection, line.replies))
            return
        for _ in range(line.replies):
            if not self.compare(line, *self.both("receive", line.connection)):
                if line.connection not in self.players[0].connections:
                    return
        if "closes" in line.flags:
            self.queues.pop(line.connection, None)
            self.compare(line, *self.both("receive_end", line.connection))

    def compare(self, line, oracle, subject):
        """Compare two replies by the line's policy, or by the command's own."""
        queue = self.queues.get(line.connection)
        name = line.args[0].upper() if line.action == "send" and line.args else b""
        if queue is not None and name == b"EXEC" and oracle.is_aggregate and line.policy is None:
            same = agree_exec(queue, oracle, subject)
        else:
            same = agree(self.policy(line), oracle, subject)
        self.follow_transaction(line, name, oracle)
        if not same:
            self.note(line, show(oracle.raw, 100_000), show(subject.raw, 100_000))
        lost = [happened(reply) for reply in (oracle, subject)]
        if any(lost):
            self.silent += 1
            self.reopen(line.connection)
            if all(lost):
                self.note(line, show(oracle.raw), "both servers: the line needs another annotation")
        return same

    def policy(self, line):
        """The line's own policy, or its command's."""
        if line.policy or line.action != "send":
            return line.policy or "exact"
        return "exact" if "packed" in line.flags and not self.small else policy_of(line.args)

    def follow_transaction(self, line, name, oracle):
        """Remember the policies of queued commands, for EXEC's reply."""
        if name == b"MULTI" and oracle.raw == b"+OK\r\n":
            self.queues[line.connection] = []
        elif name in (b"EXEC", b"DISCARD", b"RESET"):
            self.queues.pop(line.connection, None)
        elif oracle.raw == b"+QUEUED\r\n" and line.connection in self.queues:
            self.queues[line.connection].append(self.policy(line))

    def reopen(self, number):
        """Start connection `number` anew on both sides, after it was lost on one."""
        self.queues.pop(number, None)
        for player in self.players:
            if number in player.connections:
                player.connections.pop(number).close()

    def note(self, line, oracle, subject):
        self.mismatches.append(Mismatch(line.where, line.text[:500], *from_difference(oracle, subject)))

    def finish(self):
        """Compare unread replies and the data."""
        for number in list(self.players[0].connections):
            drained = self.both("drain", number)
            oracle, subject = [show(b"".join(reply.raw for reply in replies), 100_000) for replies in drained]
            if oracle != subject:
                self.mismatches.append(Mismatch("end", f"unread on @{number}", *from_difference(oracle, subject)))
            elif not all(is_message(reply) for reply in drained[0][:-1]):
                # The lines before were compared by replies to others, and did not wait for theirs.
                self.mismatches.append(Mismatch("end", f"replies on @{number} that no line reads", oracle, ""))
        self.mismatches += compare_data(self.players[0].control, self.players[1].control)

    def close(self):
        for player in self.players:
            player.close()


def from_difference(oracle, subject, before=60, shown=400):
    """Two long texts cut to where they begin to differ."""
    start = len(os.path.commonprefix([oracle, subject]))
    if max(len(oracle), len(subject)) <= shown:
        return oracle, subject
    start = max(0, start - before)
    cut = [
        text[start : start + shown] + ("..." if len(text) > start + shown else "")
        for text in (oracle, subject)
    ]
    return [f"(from {start}) {text}" if start else text for text in cut]


def is_message(reply):
    """Whether this comes without a request: a push, or a message to a subscriber in RESP2."""
    return reply.kind == ">" or reply.is_aggregate and b"message" in reply.value[0].raw


def happened(reply):
    """Whether this stands for something that happened instead of a reply."""
    return reply.kind == "+" and reply.value.startswith((b"<connection closed", b"<no reply", b"<not RESP"))


def compare_data(oracle, subject):
    """Mismatches between the data of two servers."""
    found = []
    digests = [connection("DEBUG", "DIGEST").raw for connection in (oracle, subject)]
    try:
        states = [read_state(connection) for connection in (oracle, subject)]
    except (AssertionError, Closed, TimeoutError) as error:
        return [Mismatch("end", "reading the data", "", f"{error}")]
    for text in differences(*states)[:20]:
        found.append(Mismatch("end", "data", text, ""))
    if digests[0] != digests[1]:
        found.append(Mismatch("end", "DEBUG DIGEST", show(digests[0]), show(digests[1])))
    return found
