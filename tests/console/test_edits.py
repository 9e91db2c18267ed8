"""Edits of what others change meanwhile, and of bytes that fields of forms would change."""

import base64
import random
import shutil
import subprocess

import pytest
from support.servers import ROOT
from support.waiting import eventually

from .test_keys import address, answer, pane, rows

ESBUILD = ROOT / "console" / "node_modules" / ".bin" / "esbuild"
# What is changed, taken for an escape, or cut apart, if anything is.
PIECES = [
    *(b"\r", b"\n", b"\r\n", b"\\", b"\\r", b"\\n", b"\\x", b"\\x0d", b"x41", b"t", b"\t", b"\0", b"\x7f"),
    *(b"\xff", b"\xc3", "é".encode(), "✓".encode(), "\U0001f600".encode(), "\ufeff".encode(), b"\xed\xa0\x80"),
    *("\u2028".encode(), "\x85".encode(), b" ", b'"', b"'"),
]
ROUND_TRIPS = """
const failures = [];
for (const value of values) {
  const bytes = Uint8Array.from(atob(value), (letter) => letter.charCodeAt(0));
  const shown = text.textOf(bytes);
  for (const [kind, isLine] of [["textarea", false], ["input", true]]) {
    const field = document.createElement(kind);
    field.value = text.editable(shown, isLine);
    const found = text.bytesOf(text.typed(field.value, shown, isLine));
    if (found.length !== bytes.length || found.some((byte, at) => byte !== bytes[at])) failures.push([kind, value]);
  }
}
return failures;
"""


def submit(page):
    page.get_by_role("dialog").locator("button[type=submit]").click()


def refused(page, what):
    """The dialog says that something has changed. It stays open, with what was typed."""
    page.get_by_role("dialog").get_by_role("alert").get_by_text(f"{what} has changed meanwhile").wait_for()


def cancel(page):
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").wait_for(state="hidden")


def conflict(page):
    alert = pane(page).get_by_role("alert").get_by_text("has changed meanwhile")
    alert.wait_for()
    return pane(page).get_by_role("button", name="Load it anew")


@pytest.mark.skipif(not ESBUILD.exists() or shutil.which("node") is None, reason="esbuild is not installed")
def test_fields_give_back_every_byte(browser):
    bundle = [ESBUILD, "src/text.ts", "--bundle", "--format=iife", "--global-name=text", "--log-level=error"]
    script = subprocess.run(bundle, cwd=ROOT / "console", check=True, capture_output=True, text=True).stdout
    chance = random.Random(7)
    values = [b"".join(chance.choices(PIECES, k=chance.randrange(9))) for _ in range(4000)]
    values += [chance.randbytes(chance.randrange(12)) for _ in range(2000)] + [bytes([byte]) for byte in range(256)]
    page = browser.new_page()
    try:
        texts = [base64.b64encode(value).decode() for value in values]
        failures = page.evaluate(f"(values) => {{ {script} {ROUND_TRIPS} }}", texts)
    finally:
        page.close()
    assert [(kind, base64.b64decode(value)) for kind, value in failures] == []


def test_carriage_returns_stay(server, open_page):
    call = server.redis.call
    call("SET", "s", "a\r\nb\\n\rc")
    call("HSET", "h", "f", "a\r\nb")
    call("RPUSH", "l", "x\ry")
    page = open_page(server, address("s"))
    value = pane(page).get_by_label("Value")
    value.wait_for()
    assert value.input_value() == "a\\r\nb\\\\n\\rc"
    value.focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("!")
    pane(page).get_by_role("button", name="Save").click()
    eventually(lambda: call("GET", "s") == b"a\r\nb\\n\rc!", lambda: f"saved: {call('GET', 's')}")
    page.goto(server.url + address("h"))
    assert rows(page, "Fields")[0][1] == "a\\r b"
    pane(page).get_by_role("button", name="Edit f").click()
    answer(page, Expiry="100")
    eventually(lambda: call("HTTL", "h", "FIELDS", 1, "f") != [-1], "the field is not saved")
    assert call("HGET", "h", "f") == b"a\r\nb"
    page.goto(server.url + address("l"))
    pane(page).get_by_role("button", name="Edit element 0").click()
    answer(page, Value="x\\ry\\\\")
    eventually(lambda: call("LINDEX", "l", 0) == b"x\ry\\", "the element is not saved")


def test_names_of_more_than_one_line(server, open_page):
    """A field of one line would drop the ends of lines: another key would be made, other keys deleted."""
    server.redis.call("SET", "a\r\nb", "x")
    page = open_page(server, address("a\r\nb"))
    pane(page).get_by_role("button", name="Rename").click()
    name = page.get_by_role("dialog").get_by_label("New name")
    assert name.input_value() == r"a\r\nb"
    answer(page, New_name=r"a\r\nc")
    eventually(lambda: server.redis.call("KEYS", "*") == [b"a\r\nc"], "the key is not renamed")
    server.redis.call("MSET", "p\n:1", "x", "p:1", "x")
    page.goto(server.url + "#/keys")
    page.get_by_label("Ask again").click()
    page.get_by_role("tree").get_by_role("treeitem").first.wait_for()
    page.get_by_role("treeitem", name="p\n:").click()
    page.get_by_role("button", name="Delete many").click()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_label("Keys that begin with").input_value() == r"p\n:"
    dialog.get_by_role("button", name="Dry run").click()
    dialog.get_by_role("button", name="Delete 1 keys").click()
    dialog.get_by_text("were deleted").wait_for()
    assert sorted(server.redis.call("KEYS", "*")) == [b"a\r\nc", b"p:1"]


def test_a_list_that_moves(server, open_page):
    call = server.redis.call
    call("RPUSH", "edl", "a", "b", "c")
    page = open_page(server, address("edl"))
    pane(page).get_by_role("button", name="Edit element 1").click()
    call("LPUSH", "edl", "NEW")
    page.get_by_role("dialog").get_by_label("Value").fill("B")
    submit(page)
    refused(page, "The list")
    assert call("LRANGE", "edl", 0, -1) == [b"NEW", b"a", b"b", b"c"]
    # It is shown anew, and what was typed is not lost.
    assert page.get_by_role("dialog").get_by_label("Value").input_value() == "B"
    cancel(page)
    eventually(lambda: [row[1] for row in rows(page, "Elements")] == ["NEW", "a", "b", "c"], "it is not shown anew")
    pane(page).get_by_role("button", name="Edit element 2").click()
    answer(page, Value="B")
    assert call("LRANGE", "edl", 0, -1) == [b"NEW", b"a", b"B", b"c"]
    eventually(lambda: rows(page, "Elements")[2][1] == "B", "the element is not shown")
    # Deletion looks as well.
    pane(page).get_by_role("button", name="Delete element 0").click()
    call("LPUSH", "edl", "NEWER")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.locator(".notices").get_by_text("The list has changed meanwhile").wait_for()
    eventually(lambda: rows(page, "Elements")[0][1] == "NEWER", "it is not shown anew")
    assert call("LLEN", "edl") == 5


# Before each transaction another connection runs the next of these commands: after what was read, before what is
# written.
BETWEEN = """
const real = WebSocket.prototype.send;
const between = %s;
window.rounds = 0;
WebSocket.prototype.send = function (text) {
  if (!text.includes('"MULTI"') || between.length === 0) return real.call(this, text);
  window.rounds += 1;
  // What this socket sends comes after it.
  const later = [text];
  const command = between.shift();
  this.send = (more) => later.push(more);
  const other = new WebSocket(`ws://${location.host}/ws`, "json");
  other.onopen = () => real.call(other, JSON.stringify(command));
  other.onmessage = () => {
    other.close();
    delete this.send;
    for (const it of later) real.call(this, it);
  };
};
"""


def test_a_list_that_moves_between_the_check_and_the_write(server, open_page):
    call = server.redis.call
    call("RPUSH", "l", "a", "b", "c")
    page = open_page(server, address("l"), init_script=BETWEEN % '[["LPUSH", "l", "NEW"]]')
    pane(page).get_by_role("button", name="Edit element 1").click()
    page.get_by_role("dialog").get_by_label("Value").fill("B")
    submit(page)
    refused(page, "The list")
    assert page.evaluate("rounds") == 1
    assert call("LRANGE", "l", 0, -1) == [b"NEW", b"a", b"b", b"c"]


def test_a_change_elsewhere_in_a_list_between_the_check_and_the_write(server, open_page):
    """The element is what it was: it is written, by another round."""
    call = server.redis.call
    call("RPUSH", "l", "a", "b", "c")
    script = BETWEEN % '[["RPUSH", "l", "d"], ["RPUSH", "l", "e"]]'
    page = open_page(server, address("l"), init_script=script)
    pane(page).get_by_role("button", name="Delete element 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("Deleted").wait_for()
    assert page.evaluate("rounds") == 2
    assert call("LRANGE", "l", 0, -1) == [b"a", b"c", b"d", b"e"]


def test_a_string_that_changes(server, open_page):
    call = server.redis.call
    call("SET", "s", "one", "EX", 1000)
    page = open_page(server, address("s"))
    value = pane(page).get_by_label("Value")
    value.fill("mine")
    call("SET", "s", "theirs", "KEEPTTL")
    pane(page).get_by_role("button", name="Save").click()
    anew = conflict(page)
    assert call("GET", "s") == b"theirs" and value.input_value() == "mine"
    anew.click()
    eventually(lambda: value.input_value() == "theirs", "it is not shown anew")
    assert pane(page).get_by_role("alert").count() == 0
    value.fill("mine again")
    pane(page).get_by_role("button", name="Save").click()
    eventually(lambda: call("GET", "s") == b"mine again", "it is not saved")
    assert call("TTL", "s") > 0
    # A draft stands for what was there when it was begun.
    value.fill("a draft")
    pane(page).get_by_role("button", name="Bits").click()
    pane(page).get_by_role("button", name="Set a bit").click()
    answer(page, Offset="7", **{"0_or_1": "0"})
    pane(page).get_by_text("of 80 bits are set").wait_for()
    changed = eventually(lambda: (found := call("GET", "s")) != b"mine again" and found, "the bit is not set")
    pane(page).get_by_role("button", name="Text", exact=True).click()
    pane(page).get_by_role("button", name="Save").click()
    conflict(page)
    assert call("GET", "s") == changed


@pytest.mark.parametrize("length", [3, 3 << 20])
def test_a_string_that_becomes_a_hash(server, open_page, length):
    call = server.redis.call
    call("SET", "s", "x" * length)
    page = open_page(server, address("s"))
    if length > 3:
        pane(page).get_by_role("button", name="Show all").click()
    value = pane(page).get_by_label("Value")
    eventually(lambda: len(value.input_value()) == length and value.is_enabled(), "it is not shown whole")
    value.fill("mine")
    call("DEL", "s")
    call("HSET", "s", "a", "b")
    pane(page).get_by_role("button", name="Save").click()
    anew = conflict(page)
    assert call("HGETALL", "s") == [b"a", b"b"]
    anew.click()
    assert rows(page, "Fields")[0][:2] == ["a", "b"]
    page.locator(".notices").get_by_text("has become another: hash").wait_for()


def test_a_long_string(server, open_page):
    call = server.redis.call
    call("SET", "s", "x" * (9 << 20), "EX", 1000)
    page = open_page(server, address("s"))
    pane(page).get_by_role("button", name="Show all").click()
    value = pane(page).get_by_label("Value")
    eventually(lambda: len(value.input_value()) == 9 << 20 and value.is_enabled(), "it is not shown whole")
    value.fill("y" * (9 << 20))
    pane(page).get_by_role("button", name="Save").click()
    eventually(lambda: call("GETRANGE", "s", 0, 2) == b"yyy", "it is not saved")
    assert call("STRLEN", "s") == 9 << 20 and call("TTL", "s") > 0


def test_a_hash_that_changes(server, open_page):
    call = server.redis.call
    call("HSET", "h", "f", "one", "g", "one")
    call("HPEXPIRE", "h", 1000400, "FIELDS", 1, "f")
    expiry = call("HPEXPIRETIME", "h", "FIELDS", 1, "f")
    page = open_page(server, address("h"))
    # What is not touched stays as it is, to the millisecond.
    pane(page).get_by_role("button", name="Edit f").click()
    answer(page, Value="two")
    assert call("HGET", "h", "f") == b"two"
    assert call("HPEXPIRETIME", "h", "FIELDS", 1, "f") == expiry
    eventually(lambda: "two" in [row[1] for row in rows(page, "Fields")], "the field is not shown")
    pane(page).get_by_role("button", name="Edit f").click()
    call("HSET", "h", "f", "theirs")
    page.get_by_role("dialog").get_by_label("Value").fill("mine")
    submit(page)
    refused(page, "The field")
    assert call("HGET", "h", "f") == b"theirs"
    cancel(page)
    eventually(lambda: "theirs" in [row[1] for row in rows(page, "Fields")], "it is not shown anew")
    # A new field is a new one, and what expires now would be deleted.
    pane(page).get_by_role("button", name="Add").click()
    page.get_by_role("dialog").get_by_label("Field").fill("f")
    page.get_by_role("dialog").get_by_label("Value").fill("mine")
    submit(page)
    page.get_by_role("alert").get_by_text("This field is there already").wait_for()
    cancel(page)
    pane(page).get_by_role("button", name="Edit g").click()
    page.get_by_role("dialog").get_by_label("Expiry").fill("0")
    submit(page)
    page.get_by_role("alert").get_by_text("more than 0 seconds").wait_for()
    assert call("HMGET", "h", "f", "g") == [b"theirs", b"one"]


def test_scores_that_change(server, open_page):
    call = server.redis.call
    call("ZADD", "z", 1.5, "m")
    page = open_page(server, address("z"))
    pane(page).get_by_role("button", name="Edit m").click()
    call("ZINCRBY", "z", 1, "m")
    page.get_by_role("dialog").get_by_label("Score").fill("7")
    submit(page)
    refused(page, "The score")
    assert call("ZSCORE", "z", "m") == b"2.5"
    cancel(page)
    eventually(lambda: rows(page, "Members")[0][1] == "2.5", "it is not shown anew")
    pane(page).get_by_role("button", name="Edit m").click()
    answer(page, Score="inf")
    eventually(lambda: rows(page, "Members")[0][1] == "inf", "the score is not shown")
    pane(page).get_by_role("button", name="Edit m").click()
    answer(page, Score="0.1")
    assert call("ZSCORE", "z", "m") == b"0.1"
    pane(page).get_by_role("button", name="Add").click()
    page.get_by_role("dialog").get_by_label("Member").fill("m")
    submit(page)
    page.get_by_role("alert").get_by_text("This member is there already").wait_for()
    assert call("ZSCORE", "z", "m") == b"0.1"


def test_documents_that_change(server, open_page):
    call = server.redis.call
    call("JSON.SET", "j", "$", '{"a":1,"list":[1,{"\\u00e9\\u0001/":2}],"b":1}')
    page = open_page(server, address("j"))
    # Others may change other parts.
    pane(page).get_by_role("button", name='Edit $["list"]').click()
    call("JSON.SET", "j", "$.b", "2")
    answer(page, JSON="[9]")
    assert call("JSON.GET", "j") == b'{"a":1,"list":[9],"b":2}'
    eventually(lambda: pane(page).locator(".json-row", has_text="b: 2").count() == 1, "it is not shown")
    pane(page).get_by_role("button", name='Edit $["a"]').click()
    call("JSON.NUMINCRBY", "j", "$.a", 1)
    page.get_by_role("dialog").get_by_label("JSON").fill("7")
    submit(page)
    refused(page, "The document")
    cancel(page)
    pane(page).locator(".json-row", has_text="a: 2").wait_for()
    # The whole.
    pane(page).get_by_role("button", name="Text", exact=True).click()
    document = pane(page).get_by_label("Document")
    document.fill("[]")
    call("JSON.SET", "j", "$.b", "3")
    pane(page).get_by_role("button", name="Save").click()
    conflict(page).click()
    eventually(lambda: document.input_value() == '{"a":2,"list":[9],"b":3}', "it is not shown anew")
    document.fill("[]")
    pane(page).get_by_role("button", name="Save").click()
    eventually(lambda: call("JSON.GET", "j") == b"[]", "it is not saved")
    document.fill("[1]")
    call("DEL", "j")
    call("SET", "j", "x")
    pane(page).get_by_role("button", name="Save").click()
    conflict(page)
    assert call("GET", "j") == b"x"


def test_expiry_of_what_has_changed(server, open_page):
    call = server.redis.call
    call("SET", "k", "v")
    page = open_page(server, address("k"))
    pane(page).get_by_role("button", name="Expiry").click()
    page.get_by_role("dialog").get_by_label("Seconds").fill("0")
    submit(page)
    page.get_by_role("alert").get_by_text("more than 0 seconds").wait_for()
    page.get_by_role("dialog").get_by_label("Seconds").fill("10")
    call("DEL", "k")
    call("RPUSH", "k", "a")
    submit(page)
    refused(page, "The key")
    assert call("TTL", "k") == -1
    cancel(page)
    assert rows(page, "Elements")[0][1] == "a"
    # What is left as it was is not sent.
    pane(page).get_by_role("button", name="Expiry").click()
    call("EXPIRE", "k", 1000)
    submit(page)
    page.get_by_role("dialog").wait_for(state="hidden")
    pane(page).get_by_text("expires in").wait_for()
    assert call("TTL", "k") > 0


def test_new_keys_leave_others_alone(server, open_page):
    """A key that comes after the console has looked for it is not written to."""
    call = server.redis.call
    page = open_page(server, "#/keys", init_script=LATE_EXISTS)
    for kind, words, theirs in [
        ("string", {"Value": "mine"}, ("SET", "string", "theirs")),
        ("hash", {"Field": "f", "Value": "mine"}, ("HSET", "hash", "f", "theirs")),
        ("zset", {"Score": "1", "First_member": "m"}, ("ZADD", "zset", "2", "m")),
    ]:
        call(*theirs)
        page.get_by_role("button", name="New key").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill(kind)
        dialog.get_by_label("Type").select_option(kind)
        for label, text in words.items():
            dialog.get_by_label(label.replace("_", " ")).fill(text)
        submit(page)
        page.get_by_role("alert").get_by_text("is there").wait_for()
        cancel(page)
    assert call("GET", "string") == b"theirs" and call("HGET", "hash", "f") == b"theirs"
    assert call("ZSCORE", "zset", "m") == b"2"


# EXISTS is asked of a key that is not there.
LATE_EXISTS = """
const real = WebSocket.prototype.send;
WebSocket.prototype.send = function (text) {
  const message = JSON.parse(text);
  if (message.command && message.command[0] === "EXISTS") message.command[1] = "nowhere";
  real.call(this, JSON.stringify(message));
};
"""


def test_libraries_that_change(server, open_page):
    call = server.redis.call
    page = open_page(server, "#/functions")
    page.get_by_role("button", name="Load a library").click()
    answer(page)
    page.get_by_role("button", name="Change").click()
    code = page.get_by_role("dialog").get_by_label("Code")
    mine = code.input_value().replace("GET", "STRLEN")
    theirs = code.input_value().replace("GET", "TYPE")
    call("FUNCTION", "LOAD", "REPLACE", theirs)
    code.fill(mine)
    submit(page)
    refused(page, "The library")
    cancel(page)
    # One that is there is not replaced by a new one.
    page.get_by_role("button", name="Load a library").click()
    submit(page)
    page.get_by_role("alert").get_by_text("already exists").wait_for()
    cancel(page)
    page.locator(".dump", has_text="TYPE").wait_for()
    page.get_by_role("button", name="Change").click()
    answer(page, Code=mine)
    page.locator(".dump", has_text="STRLEN").wait_for()


def test_who_may_not_watch_is_not_offered_what_needs_it(server, open_page):
    call = server.redis.call
    call("RPUSH", "l", "a")
    call("ACL", "SETUSER", "default", "-watch")
    page = open_page(server, address("l"))
    pane(page).get_by_role("button", name="Add in front").wait_for()
    assert rows(page, "Elements") == [["0", "a"]]
    assert pane(page).get_by_role("button", name="Edit element 0").count() == 0
    assert pane(page).get_by_role("button", name="Expiry").count() == 0
