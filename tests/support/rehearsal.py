"""Plays streams of commands to one server, for what they leave behind rather than for their replies."""

from differential.runner import Player
from differential.stream import load


def rehearse(server, path, protocol=3):
    """Play a hand-written stream to its end. Replies are read in the order in which the stream expects them, so that
    blocked clients are served as it means."""
    player = Player(server, protocol)
    for line in load(path):
        if f"resp{5 - protocol}" not in line.flags:
            play_line(player, line)
    player.close()


def play_line(player, line):
    if line.action in ("close", "reset"):
        getattr(player.connection(line.connection), line.action)()
        del player.connections[line.connection]
    elif line.action == "until":
        null = {2: b"$-1", 3: b"_"}[player.protocol]
        player.until(line.connection, (null if line.args[0] == b"nil" else line.args[0]) + b"\r\n", line.args[1:])
    elif "iterate" in line.flags:
        player.iterate(line.connection, line.args)
    else:
        if line.action in ("send", "raw"):
            player.send(line)
        if "blocks" in line.flags:
            player.wait_blocked(line.connection)
            return
        for _ in range(line.replies):
            reply = player.receive(line.connection)
            if reply.kind == "+" and reply.value.startswith(b"<connection closed"):
                player.connections.pop(line.connection).close()
                return
        if "closes" in line.flags:
            player.receive_end(line.connection)
