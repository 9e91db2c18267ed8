"""A pair of servers on which a scenario is played, and what is seen of it in a form that other pairs share."""

import re
import shlex

from support.replication import until, wait_in_sync
from support.servers import free_port

# Fields of INFO whose values depend on time, or on how many bytes the versions of a handshake have.
VARYING = re.compile(
    rb"^(slave\d+:.*?offset=|master_last_io_seconds_ago:|master_link_(?:up|down)_since_seconds:"
    rb"|[a-z_]*(?:offset|histlen):|master_(?:current|total)_sync_attempts:|(?:total_)?disconnect_time_sec:"
    rb"|(?:total_disconnect|replica_full_sync_buffer)[a-z_]*:|master_sync_(?:last|left|read|perc|total)[a-z_]*:).*$"
)


class Stage:
    """`p` and `r` are the primary and what is its replica; `seen` is what a scenario has noted of them."""

    def __init__(self, primary, replica, start_node, make_proxy):
        self.primary, self.replica = primary, replica
        self.start_node, self.make_proxy = start_node, make_proxy
        self.seen, self.names = [], {}
        self.name(primary.port, "PRIMARY")
        self.name(replica.port, "REPLICA")

    def name(self, port, name):
        """Show a port by a name."""
        self.names[str(port).encode()] = name.encode()

    def nobody(self):
        """A port at which nobody listens."""
        port = free_port()
        self.name(port, "NOBODY")
        return port

    def masked(self, value):
        """A value without ports, ids and addresses."""
        if isinstance(value, (list, tuple)):
            return [self.masked(element) for element in value]
        if isinstance(value, int) and str(value).encode() in self.names:
            return self.names[str(value).encode()]
        if isinstance(value, str):
            value = value.encode()
        if not isinstance(value, bytes):
            return value
        for port, name in self.names.items():
            value = re.sub(rb"(?:\$5\r\n)?(?<!\d)" + port + rb"(?!\d)", name, value)
        return re.sub(rb"\b[0-9a-f]{40}\b", b"ID", value)

    def note(self, what, value):
        self.seen.append((what, self.masked(value)))

    def p(self, *commands, connection=None):
        """Commands to the primary, each a text, whose replies are noted."""
        self.play("p", connection or self.primary, commands)

    def r(self, *commands, connection=None):
        """Commands to the replica."""
        self.play("r", connection or self.replica, commands)

    def play(self, who, target, commands):
        for command in commands:
            self.note(f"{who} {command}", target(*self.words(command)).raw)

    def words(self, command):
        for port, name in self.names.items():
            command = command.replace(f"${name.decode()}", port.decode())
        return shlex.split(command)

    def libraries(self, node):
        """Note the libraries of functions, in an order of their own."""
        found = [[sorted(map(repr, part)) if isinstance(part, list) else part for part in library]
                 for library in node.call("FUNCTION", "LIST", "WITHCODE")]  # fmt: skip
        self.note("libraries", found)

    def link(self, port=None):
        self.replica.follow(self.primary, port)
        self.sync()

    def sync(self):
        wait_in_sync(self.primary, self.replica)

    def applied(self):
        """Until the replica has all that the primary has, whatever else is not as it should be."""
        wanted = int(self.primary.info()["master_repl_offset"])
        until(lambda: int(self.replica.info()["master_repl_offset"]) >= wanted, "the stream does not arrive")

    def until_figure(self, node, name, value, section="replication"):
        until(
            lambda: node.info(section).get(name) == value,
            lambda: f"{name} is not {value} but {node.info(section).get(name)}",
        )

    def info(self, node, what, section="replication"):
        """Note the lines of INFO, without values that vary."""
        lines = node.call("INFO", section).splitlines()
        self.note(f"INFO {what}", [VARYING.sub(rb"\1*", line) for line in lines])
