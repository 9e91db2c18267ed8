"""Plays steps of several clients on a server: `NAME COMMAND`, separated by semicolons.

`NAME ~COMMAND` sends a command that waits, and goes on once it does; `NAME <` reads its reply. `NAME sleep
SECONDS` lets time pass. `@MS` in a command is a time to live in ms, and `NAME expired` waits for its end, which must
not have come yet: `in_time` gives more time where the steps took longer. `$NAME` in a command is that client's number.
Words are separated by spaces; those in quotes may have some, and backslashes as in Python.
"""

import contextlib
import re
import time

from support.waiting import eventually


def words_of(command):
    """The words of a command."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', command)
    unescaped = [quoted.encode().decode("unicode_escape").encode("latin-1") for quoted, _ in found]
    return [plain or quoted for (_, plain), quoted in zip(found, unescaped)]


def figures(connection, section):
    """The lines of a section of INFO, as a dict of texts."""
    lines = connection.call("INFO", section).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


class TooLate(Exception):
    """What was to live until a step had expired before it."""


def in_time(play):
    """What `play` returns, which is called with how many times as long as written the times to live are to be."""
    for slowness in (1, 10, 100):
        with contextlib.suppress(TooLate):
            return play(slowness)
    return play(1000)


class Player:
    """The clients of one server. `admin` is a further one, in no step."""

    def __init__(self, server, slowness=1):
        self.server, self.admin = server, server.connect()
        self.slowness = slowness
        self.lives_until, self.is_gone_at = float("inf"), 0
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
        if command == "expired":
            return self.wait_for_expiry()
        command = re.sub(r"\$(\w)\b", lambda found: self.ids[found[1]], command)
        if lives := re.search(r"@(\d+)", command):
            return self.limit_life(client, command, lives)
        if not command.startswith("~"):
            return client(*words_of(command)).raw
        before = self.waiting()
        client.send(*words_of(command[1:]))
        eventually(lambda: self.waiting() != before, f"{command[1:]} does not wait")
        return None

    def limit_life(self, client, command, lives):
        """The reply to a command that sets a time to live, which begins before the reply."""
        life_ms = int(lives[1]) * self.slowness
        self.lives_until = time.monotonic() + life_ms / 1000
        reply = client(*words_of(command.replace(lives[0], str(life_ms))))
        self.is_gone_at = time.monotonic() + life_ms / 1000 + 0.005
        return reply.raw

    def wait_for_expiry(self):
        now = time.monotonic()
        if now >= self.lives_until:
            raise TooLate
        time.sleep(self.is_gone_at - now)

    def close(self):
        for connection in [self.admin, *self.clients.values()]:
            connection.close()
