"""Plays steps of several clients on a server: `NAME COMMAND`, separated by semicolons.

`NAME ~COMMAND` sends a command that waits, and goes on once it does; `NAME <` reads its reply. `NAME sleep
SECONDS` lets time pass. `$NAME` in a command is that client's number. Words are separated by spaces; those in
quotes may have some, and backslashes as in Python.
"""

import re
import time

PATIENCE_S = 20


def words_of(command):
    """The words of a command."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', command)
    unescaped = [quoted.encode().decode("unicode_escape").encode("latin-1") for quoted, _ in found]
    return [plain or quoted for (_, plain), quoted in zip(found, unescaped)]


def figures(connection, section):
    """The lines of a section of INFO, as a dict of texts."""
    lines = connection.call("INFO", section).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


class Player:
    """The clients of one server. `admin` is a further one, in no step."""

    def __init__(self, server):
        self.server, self.admin = server, server.connect()
        self.clients, self.ids = {}, {}

    def client(self, name):
        if name not in self.clients:
            self.clients[name] = self.server.connect()
            self.ids[name] = str(self.clients[name].call("CLIENT", "ID"))
        return self.clients[name]

    def waiting(self):
        return int(figures(self.admin, "clients")["blocked_clients"])

    def play(self, steps):
        """Plays the steps. Returns each with the bytes of its reply, if it has one."""
        played = []
        for step in re.split(r";\s", steps.strip()):
            name, command = step.strip().split(" ", 1)
            played.append((step.strip(), self.step(name, command.strip())))
        return played

    def step(self, name, command):
        client = self.client(name)
        if command == "<":
            return client.read().raw
        if command.startswith("sleep "):
            return time.sleep(float(command.split()[1]))
        command = re.sub(r"\$(\w)\b", lambda found: self.ids[found[1]], command)
        if not command.startswith("~"):
            return client(*words_of(command)).raw
        before, deadline = self.waiting(), time.monotonic() + PATIENCE_S
        client.send(*words_of(command[1:]))
        while self.waiting() == before:
            assert time.monotonic() < deadline, f"{command[1:]} does not wait"
        return None

    def close(self):
        for connection in [self.admin, *self.clients.values()]:
            connection.close()
