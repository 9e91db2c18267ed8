"""Waiting for what a server does in the background, by asking it."""

import os
import time

# How long what must come may take. It fails a test only, so it is far more than is ever needed: a server may get
# little time of a processor that many tests share. MANTISSA_TEST_PATIENCE sets another.
PATIENCE_S = float(os.environ.get("MANTISSA_TEST_PATIENCE", "120"))


def persistence(connection):
    """INFO persistence, as a dict of texts."""
    text = connection.call("INFO", "persistence").decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def eventually(condition, what):
    """Until the condition holds; returns what it gave. `what`, or what it returns, says what is wrong if it never
    does."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.01)
    return found


def until_written(connection):
    """Until no dump and no log is being written, or about to be. Returns INFO persistence."""
    busy = ("rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled")

    def is_idle():
        state = persistence(connection)
        return all(state[name] == "0" for name in busy)

    eventually(is_idle, "the writing of files does not end")
    return persistence(connection)


def until_loaded(connection):
    """Until the data of the files are there."""
    eventually(lambda: persistence(connection)["loading"] == "0", "the loading does not end")
