"""What is left of a server that crashes: a report in the log, and the signal as its end."""

import os
import re
import signal
from pathlib import Path

import pytest

from support.resp import Closed
from support.servers import Server
from support.waiting import eventually

START = "=== REDIS BUG REPORT START: Cut & paste starting from here ==="
END = "=== REDIS BUG REPORT END. Make sure to include from START to END. ==="
PARTS = [
    START,
    "------ STACK TRACE ------",
    "------ STACK TRACE DONE ------",
    "------ REGISTERS ------",
    "------ INFO OUTPUT ------",
    "------ CLIENT LIST OUTPUT ------",
    "------ CONFIG DEBUG OUTPUT ------",
    END,
]
SIGNALS = [signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT]


def crash(server, connection, *command):
    """Run a command that ends the server. Returns its exit status."""
    with pytest.raises((Closed, OSError)):
        connection(*command)
    return server.wait_exit()


def check_parts(log, parts):
    places = [log.find(part) for part in parts]
    assert -1 not in places, [part for part, place in zip(parts, places) if place < 0]
    assert places == sorted(places)


@pytest.mark.parametrize("kind", ["oracle", "subject"])
@pytest.mark.parametrize(
    "word, status, says",
    [
        ("SEGFAULT", -signal.SIGSEGV, "crashed by signal: 11, si_code: 2"),
        ("PANIC", -signal.SIGABRT, "Guru Meditation: DEBUG PANIC called"),
        ("ASSERT", -signal.SIGABRT, "'1 == 2' is not true"),
        ("OOM", -signal.SIGABRT, "Redis aborting for OUT OF MEMORY. Allocating 9223372036854775807 bytes!"),
    ],
)
def test_debug_ends_the_server_with_a_report(kind, word, status, says):
    with Server(kind, {"crash-memcheck-enabled": "no"}) as server, server.connect() as connection:
        connection.call("CLIENT", "SETNAME", "culprit")
        assert crash(server, connection, "DEBUG", word) == status
        log = server.log_text()
        assert says in log
        if kind == "oracle" and word != "SEGFAULT":
            # There is no signal, so it shows no registers, and after a failed assertion little else.
            return
        check_parts(log, PARTS)
        assert "------ CURRENT CLIENT INFO ------" in log
        assert re.search(r"argc: '2'\nargv\[0\]: '\"DEBUG\"'\nargv\[1\]: '\"" + word, log), log[-5000:]
        assert "redis_version:8.2.3" in log and "name=culprit" in log and "RIP:" in log
        assert re.search(r"Accessing address: 0x[0-9a-f]+", log) or word != "SEGFAULT"


def test_stack_traces_have_names_of_all_threads():
    threads = ("worker-0", "worker-1", "worker-2", "background", "lazy-free")
    with Server("subject", workers=3) as server, server.connect() as connection:
        # A thread gets its name when it first runs.
        tasks = Path(f"/proc/{server.process.pid}/task")
        names = lambda: {(task / "comm").read_text().strip() for task in tasks.iterdir()}
        eventually(lambda: set(threads) <= names(), lambda: f"only {names()}")
        crash(server, connection, "DEBUG", "SEGFAULT")
        log = server.log_text()
        for thread in threads:
            assert re.search(rf"^\d+ {thread}( \*)?$", log, re.MULTILINE), thread
        crashed = re.search(r"^\d+ worker-\d \*\n(.*?)\n\n", log, re.MULTILINE | re.DOTALL)[1]
        # Innermost first, with its line.
        assert re.match(r"(mantissa_sys::crash::)?fault at .*crash\.rs:\d+ \[0x[0-9a-f]+\]", crashed), crashed
        assert "execute at " in crashed and "worker.rs:" in crashed
        assert re.search(r"^(\d+)/\1 expected stacktraces\.$", log, re.MULTILINE)


@pytest.mark.parametrize("number", SIGNALS)
def test_signals_from_outside_end_the_server_with_a_report(number):
    with Server("subject") as server:
        os.kill(server.process.pid, number)
        assert server.wait_exit() == -number
        log = server.log_text()
        check_parts(log, PARTS)
        assert f"crashed by signal: {int(number)}, si_code: 0" in log
        assert f"Killed by PID: {os.getpid()}" in log


def test_the_report_goes_to_the_log_file():
    with Server("subject", {"logfile": "own.log"}) as server, server.connect() as connection:
        crash(server, connection, "DEBUG", "SEGFAULT")
        check_parts((server.directory / "own.log").read_text(), PARTS)
        assert START not in server.log_text()


@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_no_report_where_it_is_switched_off(kind):
    with Server(kind) as server, server.connect() as connection:
        connection.call("CONFIG", "SET", "crash-log-enabled", "no")
        assert crash(server, connection, "DEBUG", "SEGFAULT") == -signal.SIGSEGV
        assert START not in server.log_text()


def test_arguments_are_hidden_where_they_are_to_be():
    with Server("subject", {"hide-user-data-from-log": "yes"}) as server, server.connect() as connection:
        crash(server, connection, "DEBUG", "SEGFAULT")
        log = server.log_text()
        assert "argv[0]: '\"DEBUG\"'" in log and "SEGFAULT" not in log


def test_a_crash_while_all_shards_are_held_is_reported():
    """INFO then lacks what is in the shards."""
    with Server("subject") as server, server.connect() as connection:
        connection.call("MULTI")
        connection.call("DEBUG", "SEGFAULT")
        assert crash(server, connection, "EXEC") == -signal.SIGSEGV
        log = server.log_text()
        check_parts(log, PARTS)
        assert "redis_version:8.2.3" in log and "argv[0]: '\"EXEC\"'" in log


@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_the_watchdog_tells_where_a_slow_command_is(kind):
    with Server(kind, {"watchdog-period": "200"}) as server, server.connect() as connection:
        assert connection.call("DEBUG", "SLEEP", "0") == b"OK"
        assert "WATCHDOG TIMER EXPIRED" not in server.log_text()
        assert connection.call("DEBUG", "SLEEP", "1.5") == b"OK"
        told = lambda: "--- WATCHDOG TIMER EXPIRED ---" in server.log_text()
        eventually(told, "the watchdog says nothing")
        eventually(lambda: "------ STACK TRACE DONE ------" in server.log_text(), "the stack is not whole")
        assert "sleep" in server.log_text()
        assert connection.call("PING") == b"PONG"
        connection.call("CONFIG", "SET", "watchdog-period", "0")


@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_an_alarm_tells_where_the_threads_are(kind):
    with Server(kind) as server, server.connect() as connection:
        server.process.send_signal(signal.SIGALRM)
        eventually(lambda: "Received SIGALRM" in server.log_text(), "it is not noted")
        eventually(lambda: "------ STACK TRACE DONE ------" in server.log_text(), "the stacks are not whole")
        assert connection.call("PING") == b"PONG"


def test_a_restarted_server_is_the_same_process():
    for word in ("RESTART", "CRASH-AND-RECOVER"):
        with Server("subject", {"appendonly": "yes"}) as server:
            with server.connect() as connection:
                connection.call("SET", "key", "value")
                with pytest.raises((Closed, OSError)):
                    connection("DEBUG", word)
            server.wait_ready()
            with server.connect() as connection:
                assert connection.call("GET", "key") == b"value"
