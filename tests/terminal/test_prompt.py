"""The prompt of `mantissa cli`, driven through a real pseudo-terminal."""

import os
import stat

import pytest

from support.terminal import kill
from support.waiting import eventually

ENTER = "\r"
TAB = "\t"
CTRL_C = "\x03"


@pytest.fixture
def prompt(subject, terminal):
    """A prompt that waits for the first line."""
    screen = terminal("cli", "-p", str(subject.port))
    screen.wait_for(f"127.0.0.1:{subject.port}> ")
    screen.name = f"127.0.0.1:{subject.port}"
    return screen


def enter(screen, line, wanted, raw=False):
    """Type a line and wait for what it prints, and for the next prompt; what was printed before."""
    screen.type(line + ENTER)
    before = screen.wait_for(wanted, raw)
    screen.wait_for("> ")
    return before


def answer(screen, line, wanted, prompt):
    """Type a line and wait for what it prints, and for the next prompt that ends so."""
    screen.type(line + ENTER)
    screen.wait_for(wanted)
    screen.wait_for(prompt if prompt.startswith("not") else screen.name + prompt)


def test_replies_have_types_and_colours(prompt):
    enter(prompt, 'set "a key" "x y"', "OK")
    enter(prompt, "get 'a key'", '\x1b[32m"x y"\x1b[0m', raw=True)
    enter(prompt, "incr n", "\x1b[36m(integer) 1\x1b[0m", raw=True)
    enter(prompt, "get missing", "\x1b[90m(nil)\x1b[0m", raw=True)
    enter(prompt, "nosuch", "\x1b[31m(error) ERR unknown command", raw=True)
    enter(prompt, "rpush l a b", "(integer) 2")
    enter(prompt, "lrange l 0 -1", '1) "a"\r\n2) "b"')
    prompt.type("quit" + ENTER)
    assert prompt.wait_end() == 0


def test_no_colours_if_none_are_wanted(subject, terminal):
    screen = terminal("cli", "-p", str(subject.port), NO_COLOR="1")
    screen.wait_for("> ")
    screen.type("incr n" + ENTER)
    screen.wait_for("(integer) 1\r\n", raw=True)


def test_hints_completion_and_help(prompt):
    prompt.type("getra")
    prompt.type(TAB)
    prompt.wait_for("key start end")
    prompt.type(CTRL_C)
    prompt.wait_for(f"{prompt.name}> ")
    prompt.type(CTRL_C)
    assert prompt.wait_end() == 0


HINTS = [
    ("set k v ex", " seconds [NX | XX] [GET]"),
    ("set k v ex 10", " [NX | XX] [GET]"),
    ("set k v get", " [NX | XX] [EX seconds"),
    ("zadd board nx", " [GT | LT] [CH] [INCR] score member"),
    ("zadd board 1", " member"),
    ("zadd board 1 a", " [score member ...]"),
    ("expire k", " seconds [NX | XX | GT | LT]"),
    ("xadd s maxlen", " [= | ~] threshold"),
    ("lpop k", " [count]"),
]


@pytest.mark.parametrize("typed, hint", HINTS)
def test_hints_follow_the_position(typed, hint, prompt):
    prompt.type(typed)
    shown = prompt.wait_for(hint)
    assert typed.split()[0] in shown


def test_settings_are_completed(prompt):
    prompt.type("config get maxmemory-pol" + TAB)
    prompt.wait_for("config get maxmemory-policy")
    prompt.type(ENTER)
    prompt.wait_for("noeviction")
    prompt.wait_for("> ")
    prompt.type("config set maxmemory-pol" + TAB + " allkeys-lru" + ENTER)
    prompt.wait_for("OK")


def test_completion_of_options_and_keys(subject, prompt):
    with subject.connect() as connection:
        connection.call("MSET", "user:1000:name", "x", "other", "y", "with space", "z")
    prompt.type("get user:" + TAB)
    prompt.wait_for("user:1000:name")
    prompt.type(ENTER)
    prompt.wait_for('"x"')
    prompt.wait_for("> ")
    prompt.type("get with" + TAB)
    prompt.wait_for('"with space"')
    prompt.type(ENTER)
    prompt.wait_for('"z"')
    prompt.wait_for("> ")
    prompt.type("zadd board n" + TAB)
    prompt.wait_for("nx")
    prompt.type(" 1 m" + ENTER)
    prompt.wait_for("(integer) 1")
    prompt.wait_for("> ")
    prompt.type("config g" + TAB)
    prompt.wait_for("config get")


def test_help(prompt):
    enter(prompt, "help", "help COMMAND")
    text = enter(prompt, "help zadd", "group: sorted-set")
    assert "summary:" in text and "ZADD key" in text
    text = enter(prompt, "help @hyperloglog", "PFMERGE")
    assert "PFADD" in text and "PFCOUNT" in text
    enter(prompt, "help nosuch", "The server says nothing about nosuch.")


def test_transactions_and_databases_show_in_the_prompt(prompt):
    answer(prompt, "multi", "OK", "(TX)> ")
    answer(prompt, "set k v", "QUEUED", "(TX)> ")
    answer(prompt, "exec", "1) OK", "> ")
    answer(prompt, "select 3", "OK", "[3]> ")


def test_messages_until_the_person_has_seen_enough(subject, prompt):
    prompt.type("subscribe news" + ENTER)
    prompt.wait_for('3) (integer) 1')
    with subject.connect() as connection:
        connection.call("PUBLISH", "news", "hello")
        prompt.wait_for('3) "hello"')
        prompt.type(CTRL_C)
        prompt.wait_for(f"{prompt.name}> ")
        enter(prompt, "ping", "PONG")
        prompt.type("monitor" + ENTER)
        prompt.wait_for("OK")
        connection.call("GET", "seen")
        prompt.wait_for('"GET" "seen"')
        prompt.type(CTRL_C)
    prompt.wait_for(f"{prompt.name}> ")
    prompt.type("blpop nothing 0" + ENTER)
    with subject.connect() as connection:
        while b"blocked_clients:1" not in connection.call("INFO", "clients"):
            prompt.read()
    prompt.type(CTRL_C)
    prompt.wait_for(f"{prompt.name}> ")
    enter(prompt, "ping", "PONG")


def test_pushes_of_resp3(subject, prompt):
    enter(prompt, "hello 3", "proto")
    enter(prompt, "client tracking on", "OK")
    enter(prompt, "get cached", "(nil)")
    with subject.connect() as connection:
        connection.call("SET", "cached", "1")
    enter(prompt, "ping", "-> invalidate: 'cached'")


def test_reconnection(subject, prompt):
    enter(prompt, "select 2", "OK")
    with subject.connect() as connection:
        connection.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    answer(prompt, "ping", "PONG", "[2]> ")
    kill(subject)
    # With io_uring the system ends the connection some milliseconds after the process; a command may still be sent.
    answer(prompt, "ping", "", "not connected> ")
    answer(prompt, "ping", "Could not connect to Redis", "not connected> ")
    subject.start()
    answer(prompt, "ping", "PONG", "[2]> ")


def test_nothing_runs_outside_a_transaction_that_is_lost(subject, prompt):
    enter(prompt, "multi", "OK")
    enter(prompt, "set a 1", "QUEUED")
    kill(subject)
    subject.start()
    answer(prompt, "set b 1", "Error: Server closed the connection", "not connected> ")
    answer(prompt, "exists a b", "(integer) 0", "> ")


def test_a_line_that_is_no_utf_8_is_given_up(prompt):
    prompt.type(b"set k \x80")
    prompt.wait_for("is not UTF-8")
    prompt.wait_for(f"{prompt.name}> ")
    enter(prompt, "exists k", "(integer) 0")
    enter(prompt, 'set k "\\x80"', "OK")
    prompt.type("quit" + ENTER)
    assert prompt.wait_end() == 0


def test_scripts_in_several_lines(prompt):
    prompt.type("eval 'local a = 20" + ENTER)
    prompt.wait_for("  '> ")
    prompt.type("return a + 22' 0" + ENTER)
    prompt.wait_for("(integer) 42")


def pasted(text):
    """Text as a terminal hands over what is pasted."""
    return f"\x1b[200~{text}\x1b[201~"


# The editor ends a line that it shows with two carriage returns.
@pytest.mark.parametrize("paste, end", [(pasted, "\r\n"), (str, "\r\r\n")], ids=["bracketed", "plain"])
def test_pasted_lines_are_a_command_each(paste, end, subject, prompt):
    lines = [f"sadd p {i}" for i in range(40)]
    prompt.type(paste("\r".join(lines)) + ENTER)
    for line in lines:
        prompt.wait_for(f"> {line}{end}(integer) 1")
    prompt.wait_for(f"{prompt.name}> ")
    prompt.type(paste("eval 'local a = 20\n  return a + 22' 0\r\nping last\n") + ENTER)
    prompt.wait_for("(integer) 42")
    prompt.wait_for('"last"')
    with subject.connect() as connection:
        assert connection.call("SCARD", "p") == len(lines)
        assert connection.call("DBSIZE") == 1
    prompt.wait_for(f"{prompt.name}> ")
    prompt.type("\x1b[A")
    prompt.wait_for("ping last")
    prompt.type("\x1b[A")
    prompt.wait_for("return a + 22")


def test_a_quote_that_stays_open_is_seen_and_given_up(subject, prompt):
    prompt.type("set note don't" + ENTER)
    prompt.wait_for("  '> ")
    prompt.type("more" + CTRL_C)
    prompt.wait_for(f"{prompt.name}> ")
    enter(prompt, "ping still", '"still"')
    prompt.type('set a "' + ENTER)
    prompt.wait_for('  "> ')
    prompt.type("\x04")
    prompt.wait_for("Invalid argument(s)")
    prompt.wait_for(f"{prompt.name}> ")
    enter(prompt, 'get "a"b', "Invalid argument(s)")
    prompt.type("half a comm" + CTRL_C)
    prompt.wait_for(f"{prompt.name}> ")
    enter(prompt, "ping whole", '"whole"')
    with subject.connect() as connection:
        assert connection.call("DBSIZE") == 0
    prompt.type(CTRL_C)
    assert prompt.wait_end() == 0


def test_ctrl_c_gives_up_the_rest_of_what_was_pasted(subject, prompt):
    prompt.type(pasted("blpop nothing 0\nset a 1") + ENTER)
    prompt.wait_for("> blpop nothing 0\r\n")
    with subject.connect() as connection:
        # Until then it reads keys, and takes this one for the end of a line.
        eventually(lambda: b"blocked_clients:1" in connection.call("INFO", "clients"), "the command does not wait")
    prompt.type(CTRL_C)
    prompt.wait_for(f"{prompt.name}> ")
    enter(prompt, "get a", "(nil)")


def test_the_history_keeps_no_secrets(prompt, tmp_path):
    enter(prompt, "ping first", '"first"')
    enter(prompt, "auth very-secret", "(error)")
    prompt.type("\x1b[A")
    prompt.wait_for("ping first")
    prompt.type(CTRL_C)
    prompt.wait_for(f"{prompt.name}> ")
    prompt.type(CTRL_C)
    prompt.wait_end()
    history = tmp_path / "history"
    assert "ping first" in history.read_text() and "very-secret" not in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_preferences(subject, prompt, terminal, tmp_path):
    enter(prompt, ":set timing", ":set timing")
    enter(prompt, "ping", " ms)")
    enter(prompt, ":set", ":set timing")
    enter(prompt, ":set nosuch", "There is no preference 'nosuch'")
    enter(prompt, ":nosuch", "There is no ':nosuch'; there are :set and :plot.")
    (tmp_path / ".mantissarc").write_text("# my preferences\n:set nocolours timing\n")
    screen = terminal("cli", "-p", str(subject.port))
    screen.wait_for("> ")
    screen.type("incr other" + ENTER)
    screen.wait_for("(integer) 1\r\n(", raw=True)


def test_a_pager_for_what_is_long(subject, terminal, tmp_path):
    with subject.connect() as connection:
        connection.call("RPUSH", "long", *range(100))
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho \"paged $(wc -l) lines\"\n")
    os.chmod(pager, 0o755)
    screen = terminal("cli", "-p", str(subject.port), PAGER=str(pager))
    screen.wait_for("> ")
    screen.type("lrange long 0 -1" + ENTER)
    screen.wait_for("paged 100 lines")
    screen.wait_for("> ")
    screen.type("lrange long 0 2" + ENTER)
    screen.wait_for('3) "2"')
    pager.write_text("#!/bin/sh\nwc -l\nsleep 0.4\necho paged\n")
    screen.type(":set timing" + ENTER)
    screen.type("lrange long 0 -1" + ENTER)
    screen.wait_for("paged")
    screen.wait_for("(")
    assert float(screen.wait_for(" ms)")) < 400


def test_plots(prompt):
    enter(prompt, "zadd board 1 a 5 b 2.5 c", "(integer) 3")
    text = enter(prompt, ":plot zrange board 0 -1 withscores", "└")
    assert "zrange board 0 -1 withscores (3 points)" in text
    enter(prompt, ":plot get nothing", "The reply has no numbers to draw.")
    enter(prompt, ":plot nosuch", "(error)")
    enter(prompt, "xadd s 1000-0 name x load 1.5", "1000-0")
    enter(prompt, "xadd s 3000-0 name y load 2.5", "3000-0")
    text = enter(prompt, ":plot xrange s - +", "└")
    assert "xrange s - + (2 points)" in text
    enter(prompt, ":plot", ":plot takes a command")


def test_without_a_server(terminal):
    screen = terminal("cli", "-p", "1")
    screen.wait_for("Could not connect to Redis at 127.0.0.1:1: Connection refused")
    screen.wait_for("not connected> ")
    screen.type("exit" + ENTER)
    assert screen.wait_end() == 0


def test_a_password_is_asked_for(start_server, terminal):
    server = start_server(options={"requirepass": "secret"}, wait=False)
    server.wait_ready()
    screen = terminal("cli", "-p", str(server.port), "--askpass")
    screen.wait_for("Please input password: ")
    screen.type("secret" + ENTER)
    screen.wait_for("> ")
    screen.type("ping" + ENTER)
    screen.wait_for("PONG")
    assert "secret" not in screen.text
