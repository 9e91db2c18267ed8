"""Runs the server under valgrind for a while: commands of every family, a save, loading, the log, a shutdown.

Arguments are the names of streams to play; without them, one of every family. Replies are not judged here, the
differential tests do that: any error that valgrind reports fails the run, and so does a server that ends before
it is told to. MANTISSA_BINARY names a program built with the feature
`whole_allocations`, in which each allocation is the system's own.
"""

import os
import pathlib
import shlex
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from differential import runner  # noqa: E402
from differential.stream import load  # noqa: E402
from support.servers import Server, subject_path  # noqa: E402
from support.waiting import until_written  # noqa: E402

STREAMS = (
    "acl_rules bitfield blocking copy_move_swapdb dump_restore functions geo hash_expiry hashes lists pubsub "
    "scripting_libraries sets sketches sort stream_groups streams strings transactions zsets"
).split()
ERROR_STATUS = 99
REPLY_SECONDS_MAX = 6
STOP_SECONDS_MAX = 60
OPTIONS = {"shards": 64, "io-driver": "epoll"}
# These end what the next streams need.
LEFT_OUT = {b"SHUTDOWN", b"QUIT"}


def wrap(folder):
    """A program that runs the server under valgrind."""
    program = folder / "mantissa-under-valgrind"
    words = [
        "valgrind",
        "--quiet",
        "--fair-sched=yes",
        f"--error-exitcode={ERROR_STATUS}",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
        "--num-callers=30",
        f"--log-file={folder}/valgrind.%p.log",
        str(subject_path().resolve()),
    ]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    return program


def play(oracle, subject, name, protocol, small):
    """One stream, on both servers: it waits for replies by what the oracle does."""
    lines = load(ROOT / "tests" / "differential" / "streams" / f"{name}.txt")
    began = time.monotonic()
    players = runner.Runner(oracle, subject, protocol, small=small)
    players.play([line for line in lines if not line.args or line.args[0].upper() not in LEFT_OUT])
    players.close()
    print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    for server in (oracle, subject):
        with server.connect() as connection:
            connection("FUNCTION", "FLUSH")
            connection("SCRIPT", "FLUSH")


def fill(connection):
    """Large values of each type, so that files hold every form."""
    for number in range(600):
        requests = [
            ("SET", f"string:{number}", "x" * (number % 100)),
            ("HSET", "hash", f"field:{number}", number),
            ("SADD", "set", f"member:{number}"),
            ("SADD", "numbers", number * 7),
            ("ZADD", "sorted set", number / 8, f"member:{number}"),
            ("RPUSH", "list", f"element:{number}" * (number % 9)),
            ("XADD", "stream", f"{number + 1}-1", "name", number),
        ]
        connection.pipeline([request for at, request in enumerate(requests) if at or number < 100])
    connection.call("HEXPIRE", "hash", 1000, "FIELDS", 1, "field:1")
    connection.call("XGROUP", "CREATE", "stream", "group", "0")
    connection.call("XREADGROUP", "GROUP", "group", "reader", "COUNT", 20, "STREAMS", "stream", ">")
    connection.call("FUNCTION", "LOAD", "#!lua name=some\nredis.register_function('f', function() end)")


def files(subject):
    """The same data through a save, a reload, a dump, the log and its rewriting."""
    with subject.connect(timeout=120) as connection:
        connection.call("FLUSHALL")
        fill(connection)
        digest = connection.call("DEBUG", "DIGEST")
        connection.call("SAVE")
        connection.call("DEBUG", "RELOAD")
        assert connection.call("DEBUG", "DIGEST") == digest, "reloaded"
        connection.call("CONFIG", "SET", "appendonly", "yes")
        until_written(connection)
        connection.call("DEBUG", "LOADAOF")
        assert connection.call("DEBUG", "DIGEST") == digest, "loaded from the log"


def finish(subject):
    """Tell the server to end; its status says whether valgrind saw an error."""
    subject.process.terminate()
    return subject.wait_exit(STOP_SECONDS_MAX)


def main():
    runner.REPLY_SECONDS_MAX = REPLY_SECONDS_MAX
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        os.environ["MANTISSA_BINARY"] = str(wrap(folder))
        statuses, names = [], sys.argv[1:] or STREAMS
        with Server("oracle") as oracle, Server("subject", workers=2, options=OPTIONS) as subject:
            for number, name in enumerate(names):
                play(oracle, subject, name, 2 + number % 2, small=number % 4 > 1)
                assert subject.alive, f"ended during the stream {name}"
            files(subject)
            statuses.append(finish(subject))
            subject.options |= {"appendonly": "yes"}
            subject.start()
            statuses.append(finish(subject))
        reports = [path.read_text() for path in sorted(folder.glob("valgrind.*.log"))]
        print("\n".join(filter(None, reports)))
        assert statuses == [0, 0], f"exit statuses {statuses}"
        print(f"no errors, {len(names)} streams")


if __name__ == "__main__":
    main()
