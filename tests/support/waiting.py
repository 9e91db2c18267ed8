"""Waiting for what a server does in the background, by asking it."""

import time

PATIENCE_S = 60


def persistence(connection):
    """INFO persistence, as a dict of texts."""
    text = connection.call("INFO", "persistence").decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def eventually(condition, what):
    """Until the condition holds. `what`, or what it returns, says what is wrong if it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.01)


def until_written(connection):
    """Until no dump and no log is being written, or about to be. Returns INFO persistence."""
    busy = ("rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled")

    def is_idle():
        state = persistence(connection)
        return all(state[name] == "0" for name in busy)

    eventually(is_idle, "the writing of files does not end")
    return persistence(connection)
