"""The backup in the view of saves: from the start to the end, what is aborted, rights, errors."""

import re
import shutil

import pytest
from durability.test_backup import slow_down
from support.waiting import eventually, until_written

from .test_keys import log_in, rows

# Keeps back what is sent for BACKUP SEAL until `held` is called.
HELD_SEAL = """
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (data) {
  if (data.includes('["BACKUP","SEAL"]')) window.held = () => send.call(this, data);
  else send.call(this, data);
};
"""


def panel(page):
    heading = page.get_by_role("heading", name="Backups", exact=True)
    return page.locator("section").filter(has=heading)


def button(page, name):
    return panel(page).get_by_role("button", name=name, exact=True)


def enabled(page):
    return [found.inner_text() for found in panel(page).get_by_role("button").all() if found.is_enabled()]


def until_state(page, state, *buttons):
    """Until the view shows the state, and just these buttons can be pressed."""
    name = state if isinstance(state, re.Pattern) else re.compile(f"^State {state}$")
    panel(page).get_by_role("row", name=name).wait_for()
    eventually(lambda: enabled(page) == list(buttons), lambda: f"{enabled(page)}, not {buttons}")


def press_and_confirm(page, name):
    button(page, name).click()
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()


def until_notice(page, text):
    page.get_by_role("status").get_by_text(text).wait_for()


def shown_files(page):
    return [path for [path] in rows(page, "Files of the backup")]


def listed(server):
    return [path.decode() for path in server.redis.call("BACKUP", "LIST")]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_backup(server, open_page, check_accessibility, theme):
    server.redis.call("SET", "a", "b")
    page = open_page(server, "#/saves", color_scheme=theme)
    until_state(page, "idle", "Start")
    assert dict(rows(page, "Backup"))["Folder"] == f"{server.directory.resolve()}/backupdir"
    check_accessibility(page)
    button(page, "Start").focus()
    page.keyboard.press("Enter")
    until_state(page, "incrementing", "Seal", "Abort")
    [base] = listed(server)
    assert shown_files(page) == [base]
    check_accessibility(page)
    button(page, "Seal").click()
    until_state(page, "sealed", "Clean up")
    assert shown_files(page) == listed(server) and len(listed(server)) == 3
    facts = dict(rows(page, "Backup"))
    assert facts["Begun"].endswith("UTC") and facts["Begun"] <= facts["Sealed"]
    assert facts["Kept until"] == "it is cleaned up"
    server.redis.call("CONFIG", "SET", "backup-sealed-ttl", 3600)
    eventually(lambda: dict(rows(page, "Backup"))["Kept until"] > facts["Sealed"], "its time is not shown")
    check_accessibility(page)
    # What is thrown away is asked for, and Escape is a no.
    button(page, "Clean up").click()
    assert base in page.get_by_role("dialog").inner_text()
    check_accessibility(page)
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    assert len(listed(server)) == 3
    press_and_confirm(page, "Clean up")
    until_state(page, "idle", "Start")
    assert listed(server) == [] and list((server.directory / "backupdir").iterdir()) == []
    assert page.get_by_role("region", name="Files of the backup").count() == 0


def test_a_backup_is_aborted_and_another_one_followed(server, open_page, check_accessibility):
    slow_down(server.redis, keys=300)
    page = open_page(server, "#/saves")
    button(page, "Start").click()
    until_state(page, "snapshotting", "Abort")
    button(page, "Abort").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    until_state(page, "snapshotting", "Abort")
    press_and_confirm(page, "Abort")
    until_state(page, "failed: it was aborted", "Start", "Clean up")
    check_accessibility(page)
    press_and_confirm(page, "Clean up")
    until_state(page, "idle", "Start")
    server.redis.call("CONFIG", "SET", "rdb-key-save-delay", 0)
    until_written(server.redis)
    # What other clients do is seen.
    slow_down(server.redis, keys=200)
    server.redis.call("BGSAVE")
    server.redis.call("BACKUP", "START")
    until_state(page, "pending", "Abort")
    server.redis.call("CONFIG", "SET", "rdb-key-save-delay", 0)
    until_state(page, "incrementing", "Seal", "Abort")


def test_a_backup_is_aborted_while_it_is_sealed(server, open_page):
    """A seal that waits for the disk keeps nothing else waiting."""

    def connections():
        return server.redis.call("CLIENT", "LIST").count(b" name=console ")

    page = open_page(server, "#/saves", init_script=HELD_SEAL)
    button(page, "Start").click()
    until_state(page, "incrementing", "Seal", "Abort")
    eventually(lambda: connections() == 1, "the connection of the start is still there")
    button(page, "Seal").click()
    until_state(page, "incrementing", "Abort")
    eventually(lambda: connections() == 2, "it has no connection of its own")
    press_and_confirm(page, "Abort")
    until_state(page, "failed: it was aborted", "Start", "Clean up")
    page.evaluate("held()")
    until_notice(page, "ERR No backup is in progress")
    eventually(lambda: connections() == 1, "a connection is left behind")


def test_errors(server, open_page, check_accessibility):
    folder = server.directory / "backupdir"
    folder.mkdir()
    (folder / "something else").touch()
    page = open_page(server, "#/saves")
    button(page, "Start").click()
    until_notice(page, "is not empty")
    until_state(page, "idle", "Start")
    shutil.rmtree(folder)
    folder.touch()
    button(page, "Start").click()
    until_notice(page, "Can't use the backup directory")
    until_state(page, re.compile("^State failed: Can't use the backup directory"), "Start", "Clean up")
    check_accessibility(page)
    folder.unlink()
    button(page, "Start").click()
    until_state(page, "incrementing", "Seal", "Abort")


@pytest.mark.parametrize(
    ("rules", "offered"),
    [
        ("+@all -backup|start -backup|cleanup", ["Seal", "Abort"]),
        # Rights are found out by MULTI, or by calls that do nothing.
        ("+@all -acl -backup|start -backup|cleanup", ["Seal", "Abort"]),
        ("+info +@connection +backup|status", []),
    ],
)
def test_what_the_user_may_not_do_is_not_offered(server, open_page, rules, offered):
    server.redis.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", *rules.split())
    server.redis.call("CONFIG", "SET", "requirepass", "p")
    server.redis.call("BACKUP", "START")
    page = open_page(server, "#/saves")
    log_in(page, "ada", "pw")
    until_state(page, "incrementing", *offered)
    assert panel(page).get_by_role("button").all_inner_texts() == offered
    files = page.get_by_role("region", name="Files of the backup")
    assert files.count() == (1 if "+@all" in rules else 0)


def test_a_user_without_the_right_to_look(server, open_page):
    server.redis.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-backup")
    server.redis.call("CONFIG", "SET", "requirepass", "p")
    page = open_page(server, "#/saves")
    log_in(page, "ada", "pw")
    page.get_by_role("button", name="Save now").wait_for()
    assert panel(page).count() == 0


def test_read_only(server, open_page):
    page = open_page(server, "#/saves")
    until_state(page, "idle", "Start")
    page.get_by_label("Read only").check()
    button(page, "Start").wait_for(state="detached")
    server.redis.call("BACKUP", "START")
    until_state(page, "incrementing")
    page.get_by_label("Read only").uncheck()
    until_state(page, "incrementing", "Seal", "Abort")
