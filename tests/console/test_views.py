"""The workbench, messages and events, the slow log, latency, clients, configuration, users, functions, saves."""

import re
import subprocess

import pytest
from support.servers import free_port, subject_path
from support.waiting import eventually

from .test_keys import answer, log_in, rows


def visit(server, open_page, path, heading):
    page = open_page(server, f"#/{path}")
    page.get_by_role("heading", name=heading, exact=True).wait_for()
    return page


def enter(page, *lines):
    """Type lines into the editor of the workbench, and run the last one."""
    editor = page.get_by_label("Commands", exact=True)
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text("\n".join(lines))
    page.keyboard.press("Control+Enter")


def result(page, line):
    return page.get_by_role("region", name=line, exact=True)


def test_workbench(server, open_page, check_accessibility):
    page = visit(server, open_page, "workbench", "Workbench")
    enter(page, 'SET "a b" \'it\\\'s <b>\'')
    result(page, 'SET "a b" \'it\\\'s <b>\'').get_by_text("OK", exact=True).wait_for()
    assert server.redis.call("GET", "a b") == b"it's <b>"
    enter(page, r'GET "a\x20b"')
    result(page, r'GET "a\x20b"').get_by_text("it's <b>").wait_for()
    enter(page, "NOSUCH")
    result(page, "NOSUCH").get_by_text("ERR unknown command").wait_for()
    enter(page, 'GET "open')
    page.get_by_text("A quote is open").wait_for()
    enter(page, "SUBSCRIBE a")
    page.get_by_text("does not end").wait_for()
    check_accessibility(page)
    # A transaction, all lines at once.
    enter(page, "MULTI", "INCR n", "INCR n", "EXEC")
    page.get_by_text("(number) 2").or_(page.get_by_text("ERR EXEC without MULTI")).first.wait_for()
    page.get_by_role("button", name="Run all").click()
    eventually(lambda: server.redis.call("GET", "n") == b"2", "the transaction did not run")
    page.get_by_role("button", name="Clear").click()
    assert page.locator(".done").count() == 0


def test_large_integers(server, open_page):
    """A number of JavaScript has 53 bits; what is shown is what the server has."""
    page = visit(server, open_page, "workbench", "Workbench")
    server.redis.call("SET", "n", "9223372036854775806")
    enter(page, "INCR n")
    result(page, "INCR n").get_by_text("(number) 9223372036854775807", exact=True).wait_for()
    line = "BITFIELD bits SET i64 0 -9007199254740993 GET i64 0"
    enter(page, line)
    result(page, line).get_by_role("button", name="JSON").click()
    assert "-9007199254740993" in result(page, line).locator("pre").inner_text().split()
    # What looks like one in a string stays a string.
    enter(page, "ECHO 9007199254740993")
    result(page, "ECHO 9007199254740993").get_by_text("9007199254740993", exact=True).wait_for()


def test_completion_and_history(server, open_page):
    page = visit(server, open_page, "workbench", "Workbench")
    editor = page.get_by_label("Commands", exact=True)
    editor.click()
    page.keyboard.type("zad", delay=30)
    option = page.get_by_role("option", name=re.compile("^ZADD"))
    option.click()
    page.get_by_text("ZADD key [NX|XX]").first.wait_for()
    page.keyboard.type("z 1 m")
    page.keyboard.press("Control+Enter")
    eventually(lambda: server.redis.call("ZCARD", "z") == 1, "nothing was added")
    enter(page, "config ge")
    editor.click()
    page.keyboard.press("End")
    page.keyboard.press("Control+Space")
    page.get_by_role("option", name=re.compile("^GET")).wait_for()
    page.keyboard.press("Escape")
    enter(page, "AUTH secret")
    page.get_by_role("button", name="History").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="ZADD z 1 m").wait_for()
    assert "secret" not in dialog.inner_text()
    assert "secret" not in page.evaluate("JSON.stringify([localStorage, sessionStorage])")


def test_tables_and_charts(server, open_page):
    for number in range(5):
        server.redis.call("TS.ADD", "t", 1_700_000_000_000 + number, number)
        server.redis.call("XADD", "x", f"{number + 1}-0", "a", number, "b", "<i>")
    page = visit(server, open_page, "workbench", "Workbench")
    enter(page, "XRANGE x - +")
    found = result(page, "XRANGE x - +")
    found.get_by_role("columnheader", name="b").wait_for()
    assert rows(found, "Result")[4] == ["5-0", "4", "<i>"]
    enter(page, "TS.RANGE t - +")
    found = result(page, "TS.RANGE t - +")
    found.get_by_role("button", name="Chart").click()
    found.get_by_role("img", name="Result").wait_for()
    enter(page, "HELLO 3")
    found = result(page, "HELLO 3")
    found.get_by_role("button", name="JSON").click()
    found.get_by_text('"proto": 3').wait_for()


def test_a_command_that_waits_is_stopped(server, open_page):
    page = visit(server, open_page, "workbench", "Workbench")
    enter(page, "BLPOP nothing 0")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop").wait_for(state="detached")
    enter(page, "ECHO again")
    result(page, "ECHO again").get_by_text("again", exact=True).wait_for()


def test_live(server, open_page, check_accessibility):
    page = visit(server, open_page, "live", "Live")
    page.get_by_label("Channels").first.fill("news.*")
    page.get_by_role("button", name="Subscribe").click()
    page.get_by_role("button", name="Unsubscribe from news.*").wait_for()
    server.redis.call("PUBLISH", "news.a", "<script>alert(1)</script>")
    eventually(
        lambda: page.get_by_text("<script>alert(1)</script>").count() == 1, "the message does not come"
    )
    page.get_by_label("Channel", exact=True).fill("news.b")
    page.get_by_label("Message", exact=True).fill("by hand")
    page.get_by_role("button", name="Publish").click()
    page.get_by_text("1 have got it").wait_for()
    eventually(lambda: rows(page, "Messages")[0][1:] == ["news.b", "by hand"], "it does not come back")
    page.get_by_role("button", name="Turn events of keys on").click()
    page.get_by_role("button", name="Unsubscribe from __keyevent@0__:*").wait_for()
    server.redis.call("SET", "touched", "x")
    eventually(lambda: "touched" in rows(page, "Messages")[0], "the event does not come")
    check_accessibility(page)
    # Subscriptions are there again after a lost connection.
    server.restart()
    page.get_by_text("The connection to the server is lost").wait_for(state="hidden")
    with server.connect() as redis:
        eventually(lambda: redis.call("PUBLISH", "news.c", "later") == 1, "the subscription is lost")
    eventually(lambda: rows(page, "Messages")[0][1:] == ["news.c", "later"], "it does not come")


def test_slow_log_and_latency(server, open_page, check_accessibility):
    server.redis.call("CONFIG", "SET", "slowlog-log-slower-than", "0", "latency-monitor-threshold", "1")
    server.redis.call("SET", "slow <b>", "x")
    server.redis.call("CONFIG", "SET", "slowlog-log-slower-than", "10000000")
    server.redis.call("DEBUG", "SLEEP", "0.02")
    page = visit(server, open_page, "slow-log", "Slow log")
    assert any("SET slow <b> x" in row for row in rows(page, "Slow calls"))
    check_accessibility(page)
    page.get_by_role("button", name="Empty it").click()
    page.get_by_role("dialog").get_by_role("button", name="Empty it").click()
    page.get_by_text("No call was slow").wait_for()
    page.get_by_role("link", name="Latency").click()
    page.get_by_role("button", name="command", exact=True).click()
    page.get_by_role("img", name=re.compile("^command")).wait_for()
    assert any(row[0] == "set" for row in rows(page, "Calls by the time they took"))
    check_accessibility(page)


def test_clients(server, open_page, check_accessibility):
    with server.connect() as other:
        other.call("CLIENT", "SETNAME", "to-be-closed")
        number = other.call("CLIENT", "ID")
        page = visit(server, open_page, "clients", "Clients")
        page.get_by_label("Filter").fill("to-be")
        eventually(lambda: len(rows(page, "Clients")) == 1, "the filter finds others")
        check_accessibility(page)
        page.get_by_role("button", name=f"Close client {number}").click()
        page.get_by_role("dialog").get_by_role("button", name="Close it").click()
        eventually(lambda: b"to-be-closed" not in server.redis.call("CLIENT", "LIST"), "it is still there")


def test_configuration(server, open_page, check_accessibility):
    page = visit(server, open_page, "configuration", "Configuration")
    page.get_by_label("Filter").fill("maxmemory-policy")
    page.get_by_text("noeviction").first.wait_for()
    check_accessibility(page)
    page.get_by_role("button", name="Change maxmemory-policy").click()
    page.get_by_role("dialog").locator("input").fill("wrong")
    page.get_by_role("dialog").locator("button[type=submit]").click()
    page.get_by_role("dialog").get_by_role("alert").get_by_text("ERR CONFIG SET failed").wait_for()
    page.get_by_role("dialog").locator("input").fill("allkeys-lru")
    page.get_by_role("dialog").locator("button[type=submit]").click()
    page.locator("code.changed", has_text="allkeys-lru").wait_for()
    assert server.redis.call("CONFIG", "GET", "maxmemory-policy")[1] == b"allkeys-lru"
    # Every setting is described, and other names for it are said.
    page.get_by_label("Filter").fill("")
    names = {name.decode() for name in server.redis.call("CONFIG", "GET", "*")[::2]}
    shown = set(page.locator(".setting dt code").all_inner_texts())
    others = re.findall(r"also `([^`]*)`", page.locator("main").inner_text())
    assert names - shown - set(others) == set()


def test_users(server, open_page, check_accessibility):
    page = visit(server, open_page, "users", "Users")
    page.get_by_role("button", name="New user").click()
    answer(page, Name="ada", Rules="on >secret ~app:* +@read")
    eventually(lambda: b"ada" in server.redis.call("ACL", "USERS"), "the user is not made")
    eventually(lambda: any(row[0] == "ada" for row in rows(page, "Rules of users")), "the user is not shown")
    check_accessibility(page)
    page.get_by_role("button", name="Change ada").click()
    answer(page, Rules="off")
    eventually(lambda: b"off" in server.redis.call("ACL", "GETUSER", "ada")[1], "the user is not changed")
    page.get_by_role("button", name="Delete ada").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    eventually(lambda: server.redis.call("ACL", "USERS") == [b"default"], "the user is not deleted")


def test_functions(server, open_page, check_accessibility):
    page = visit(server, open_page, "functions", "Functions")
    page.get_by_role("button", name="Load a library").click()
    page.get_by_role("dialog").locator("button[type=submit]").click()
    eventually(lambda: len(rows(page, "Functions of example")) == 1, "the library is not shown")
    check_accessibility(page)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("There are no libraries").wait_for()


def test_saves(server, open_page, check_accessibility):
    server.redis.call("SET", "a", "b")
    server.redis.call("CONFIG", "SET", "appendonly", "yes")
    page = visit(server, open_page, "saves", "Saves")
    page.get_by_role("button", name="Save now").click()
    eventually(lambda: dict(rows(page, "Dump"))["Changes since"] == "0", "nothing is saved")
    page.get_by_text("turn it on").wait_for()
    page.get_by_role("button", name="Rewrite now").click()
    check_accessibility(page)


def test_settings_that_a_user_may_not_read_are_unknown(server, open_page):
    server.redis.call("CONFIG", "SET", "appendonly", "yes")
    server.redis.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-config")
    server.redis.call("CONFIG", "SET", "requirepass", "p")
    page = open_page(server, "#/saves")
    log_in(page, "ada", "pw")
    page.get_by_role("heading", name="Saves", exact=True).wait_for()
    page.get_by_role("region", name="Append-only file").get_by_text("Folder").wait_for()
    found = dict(rows(page, "Dump")) | dict(rows(page, "Append-only file"))
    assert [found[name] for name in ("Save points", "File", "Synced", "Folder")] == ["–"] * 4


def test_archive(start_server, open_page, check_accessibility, tmp_path):
    port, archive = free_port(), tmp_path / "archive"
    subprocess.run([subject_path(), "archive", "init", archive], check=True, capture_output=True)
    server = start_server(options={"http-port": port, "archive-url": archive})
    server.url = f"http://127.0.0.1:{port}/"
    with server.connect() as connection:
        connection.call("SET", "a", "b")
    page = visit(server, open_page, "saves", "Saves")
    page.get_by_role("button", name="Snapshot now").click()
    eventually(lambda: dict(rows(page, "Archive")).get("Snapshots") == "1", "there is no snapshot")
    found = dict(rows(page, "Archive"))
    assert found["State"] == "idle" and found["Keys"] == "1" and found["Archive"] == str(archive)
    eventually(lambda: len(rows(page, "Snapshots")) == 1, "the snapshot is not listed")
    [[_, name, tag, keys, *sizes]] = rows(page, "Snapshots")
    assert (name, tag, keys) == (found["Name"], "", "1") and len(sizes) == 3
    check_accessibility(page)


@pytest.mark.parametrize(("width", "theme"), [(375, "dark"), (1280, "light")])
def test_all_views_fit_and_write_nothing(server, open_page, check_accessibility, width, theme):
    """In read-only mode no view changes data, and none is wider than the screen."""
    server.redis.call("CONFIG", "SET", "http-console-label", "production")
    page = open_page(server, viewport={"width": width, "height": 700}, color_scheme=theme)
    names = page.get_by_role("navigation").get_by_role("link")
    names.first.wait_for()
    before = server.redis.call("INFO", "persistence").split(b"rdb_changes_since_last_save:")[1].split(b"\r")[0]
    for at in range(names.count()):
        names.nth(at).click()
        page.locator("main h1").wait_for(state="attached")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), names.nth(at).inner_text()
        check_accessibility(page)
        for word in ("Delete", "Empty it", "New user", "Save now", "Start", "Write into the file", "Load a library"):
            assert page.get_by_role("button", name=word, exact=True).count() == 0
    assert before in server.redis.call("INFO", "persistence")


@pytest.mark.parametrize("path", ["clients", "users"])
def test_wide_tables_scroll_by_themselves(server, open_page, path):
    server.redis.call("CLIENT", "SETNAME", "a-name-that-is-longer-than-a-screen-is-wide-" * 5)
    rules = [f"~app:some:prefix:number:{number}:*" for number in range(20)]
    server.redis.call("ACL", "SETUSER", "ada" * 30, "on", "nopass", *rules, "~" + "long" * 40, "+@read", "-get")
    page = open_page(server, f"#/{path}", viewport={"width": 360, "height": 700})
    label, word = {"clients": ("Clients", "a-name-that-is"), "users": ("Rules of users", "adaada")}[path]
    page.get_by_role("region", name=label, exact=True).get_by_text(word).first.wait_for()
    for element in ("document.documentElement", "document.querySelector('main')"):
        width = page.evaluate(f"[{element}.scrollWidth, {element}.clientWidth]")
        assert width[0] <= width[1], (element, width)
    # The buttons at the end of a row can be reached.
    button = page.get_by_role("region", name=label, exact=True).get_by_role("button").last
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    assert 0 <= box["x"] and box["x"] + box["width"] <= 360
