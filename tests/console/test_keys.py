"""Keys: the tree, every type's view and editor, deletion of many, hostile names and values, large ones."""

import json
import re
from urllib.parse import quote

import pytest
from support.waiting import eventually

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    '"><svg onload=alert(1)>',
    "{{constructor.constructor('alert(1)')()}}",
    "__proto__",
    "a\u202eb\u0000c\n\td",
    "../../x?y#z",
    " ",
    "%00%zz",
]


# Frames, and what is done some moments after one, come two seconds late.
LATE_FRAMES = """
const later = setTimeout;
window.requestAnimationFrame = (work) => later(() => work(performance.now()), 2000);
window.setTimeout = (work, ms, ...more) => later(work, ms > 0 && ms <= 150 ? 2000 : ms, ...more);
"""

DENIED = ("-config", "-json.set", "-mantissa.delete")


def address(key):
    return f"#/keys/t:{quote(key, safe='')}"


def pane(page):
    return page.get_by_role("region", name="Key", exact=True)


def rows(page, label):
    """The cells of a table, as text."""
    table = page.get_by_role("region", name=label, exact=True)
    table.wait_for()
    return [
        [cell.inner_text().strip() for cell in row.get_by_role("cell").all()]
        for row in table.locator("tbody tr").all()
    ]


def answer(page, **words):
    """Fill in the dialog that is open, and send it."""
    dialog = page.get_by_role("dialog")
    for label, text in words.items():
        dialog.get_by_label(label.replace("_", " ")).fill(text)
    dialog.locator("button[type=submit]").click()
    dialog.wait_for(state="hidden")


def log_in(page, user, password):
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def test_the_tree(server, open_page, check_accessibility):
    for number in range(30):
        server.redis.call("SET", f"user:{number}:name", "x")
        server.redis.call("HSET", f"session:{number % 3}:{number % 21}", "f", "v")
    server.redis.call("SET", "single", "x")
    page = open_page(server, "#/keys")
    tree = page.get_by_role("tree")
    tree.get_by_role("treeitem").nth(2).wait_for()
    texts = [row.inner_text().replace("\n", " ") for row in tree.get_by_role("treeitem").all()]
    assert [re.sub(r" ·.*", "", text) for text in texts] == ["▸ user: 30", "▸ session: 21", "single string"]
    check_accessibility(page)
    # By keyboard: down, open, into it, and up again.
    tree.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    tree.get_by_role("treeitem", name="0:").first.wait_for()
    assert tree.get_by_role("treeitem").count() == 6
    page.keyboard.press("ArrowLeft")
    assert tree.get_by_role("treeitem").count() == 3
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    pane(page).get_by_role("heading", name="single").wait_for()
    # Filters.
    page.get_by_label("Pattern").fill("*:1:*")
    page.keyboard.press("Enter")
    page.get_by_text("8 keys").wait_for()
    page.get_by_label("Type").select_option("hash")
    page.get_by_text("7 keys").wait_for()
    # Another database has other keys.
    server.redis.call("SELECT", 1)
    server.redis.call("SET", "elsewhere", "x")
    page.get_by_label("Database").select_option("1")
    tree.get_by_role("treeitem", name="elsewhere").wait_for()


def test_strings(server, open_page, check_accessibility):
    server.redis.call("SET", "s", '{"a":1}', "EX", 1000)
    page = open_page(server, address("s"))
    pane(page).get_by_label("Value").fill("changed ✓")
    pane(page).get_by_role("button", name="Save").click()
    page.get_by_text("Saved").wait_for()
    assert server.redis.call("GET", "s").decode() == "changed ✓"
    assert server.redis.call("TTL", "s") > 0
    check_accessibility(page)
    pane(page).get_by_role("button", name="Bytes").click()
    assert "63 68 61 6e" in pane(page).locator(".dump").inner_text()
    # The button that is pressed can be read below the pointer, too.
    check_accessibility(page)
    pane(page).get_by_role("button", name="Bits").click()
    pane(page).get_by_role("button", name="Set a bit").click()
    answer(page, Offset="7", **{"0_or_1": "0"})
    eventually(lambda: server.redis.call("GET", "s").startswith(b"b"), "the bit is not changed")
    # Bytes that are no text are edited as escapes.
    server.redis.call("SET", "s", b"\xff\xfe\\x")
    pane(page).get_by_role("button", name="Ask again").click()
    eventually(lambda: pane(page).get_by_label("Value").input_value() == r"\xff\xfe\\x", "bytes are not shown")
    pane(page).get_by_label("Value").fill(r"\xff\x00\\y")
    pane(page).get_by_role("button", name="Save").click()
    eventually(lambda: server.redis.call("GET", "s") == b"\xff\x00\\y", "bytes are not saved")


def test_expiry_rename_delete(server, open_page):
    server.redis.call("SET", "k", "v")
    server.redis.call("SET", "taken", "v")
    page = open_page(server, address("k"))
    pane(page).get_by_role("button", name="Expiry").click()
    answer(page, Seconds="100")
    eventually(lambda: 0 < server.redis.call("TTL", "k") <= 100, "no expiry")
    pane(page).get_by_text("expires in").wait_for()
    pane(page).get_by_role("button", name="Expiry").click()
    answer(page, Seconds="")
    eventually(lambda: server.redis.call("TTL", "k") == -1, "the expiry stays")
    pane(page).get_by_role("button", name="Rename").click()
    page.get_by_role("dialog").get_by_label("New name").fill("taken")
    page.get_by_role("dialog").locator("button[type=submit]").click()
    page.get_by_role("dialog").get_by_role("alert").get_by_text("is there").wait_for()
    answer(page, New_name="other")
    pane(page).get_by_role("heading", name="other").wait_for()
    pane(page).get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    eventually(lambda: server.redis.call("EXISTS", "other", "k") == 0, "it is not deleted")
    page.get_by_text("Choose a key").wait_for()


def test_hashes(server, open_page, check_accessibility):
    server.redis.call("HSET", "h", "2", "two", "1", "one")
    server.redis.call("HEXPIRE", "h", 1000, "FIELDS", 1, "1")
    page = open_page(server, address("h"))
    found = {row[0]: row[1:3] for row in rows(page, "Fields")}
    assert found["2"] == ["two", "–"] and found["1"][0] == "one" and "min" in found["1"][1]
    check_accessibility(page)
    pane(page).get_by_role("button", name="Edit 2").click()
    answer(page, Value="zwei", Expiry="50")
    eventually(lambda: server.redis.call("HGET", "h", "2") == b"zwei", "the field stays")
    assert 0 < server.redis.call("HTTL", "h", "FIELDS", 1, "2")[0] <= 50
    pane(page).get_by_role("button", name="Add").click()
    answer(page, Field="3", Value="three")
    eventually(lambda: server.redis.call("HGET", "h", "3") == b"three", "no new field")
    pane(page).get_by_role("button", name="Delete 1").click()
    eventually(lambda: server.redis.call("HEXISTS", "h", "1") == 0, "the field is not deleted")


def test_lists(server, open_page):
    server.redis.call("RPUSH", "l", *[f"e{number}" for number in range(250)])
    page = open_page(server, address("l"))
    assert rows(page, "Elements")[0][:2] == ["0", "e0"]
    pane(page).get_by_role("button", name="Last page").click()
    pane(page).get_by_text("200 to 249 of 250").wait_for()
    pane(page).get_by_role("button", name="Edit element 249").click()
    answer(page, Value="changed")
    eventually(lambda: server.redis.call("LINDEX", "l", -1) == b"changed", "the element stays")
    pane(page).get_by_role("button", name="Delete element 248").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    eventually(lambda: server.redis.call("LLEN", "l") == 249, "the element is not deleted")
    assert server.redis.call("LRANGE", "l", -2, -1) == [b"e247", b"changed"]
    pane(page).get_by_role("button", name="Add in front").click()
    answer(page, Value="first")
    eventually(lambda: server.redis.call("LINDEX", "l", 0) == b"first", "nothing is added")


def test_sets_and_sorted_sets(server, open_page, check_accessibility):
    server.redis.call("SADD", "s", "a", "b")
    page = open_page(server, address("s"))
    assert sorted(row[0] for row in rows(page, "Members")) == ["a", "b"]
    pane(page).get_by_role("button", name="Add").click()
    answer(page, Member="c")
    pane(page).get_by_role("button", name="Delete a").click()
    eventually(lambda: sorted(server.redis.call("SMEMBERS", "s")) == [b"b", b"c"], "the set is another")
    for number in range(1000):
        server.redis.call("ZADD", "z", number * number, f"m{number}")
    page.goto(server.url + address("z"))
    pane(page).get_by_role("img", name="Scores by rank").wait_for()
    assert rows(page, "Members")[3][:3] == ["3", "9", "m3"]
    check_accessibility(page)
    pane(page).get_by_role("button", name="Edit m3", exact=True).click()
    answer(page, Score="-1.5")
    eventually(lambda: server.redis.call("ZSCORE", "z", "m3") == b"-1.5", "the score stays")
    pane(page).get_by_label("Highest first").check()
    eventually(lambda: rows(page, "Members")[0][2] == "m999", "the order stays")


def test_streams(server, open_page):
    for number in range(3):
        server.redis.call("XADD", "x", f"{number + 1}-0", "name", f"value {number}")
    server.redis.call("XGROUP", "CREATE", "x", "workers", "0")
    server.redis.call("XREADGROUP", "GROUP", "workers", "w1", "COUNT", 2, "STREAMS", "x", ">")
    page = open_page(server, address("x"))
    assert [row[0] for row in rows(page, "Entries")] == ["3-0", "2-0", "1-0"]
    pane(page).get_by_role("button", name="Add").click()
    answer(page, Id="9-0", Fields="a=b\nc=d=e")
    eventually(lambda: server.redis.call("XLEN", "x") == 4, "no new entry")
    assert server.redis.call("XRANGE", "x", "9", "9") == [[b"9-0", [b"a", b"b", b"c", b"d=e"]]]
    pane(page).get_by_role("button", name="Groups").click()
    assert rows(page, "Consumers of workers")[0][:2] == ["w1", "2"]


def test_json(server, open_page):
    server.redis.call("JSON.SET", "j", "$", '{"big":12345678901234567890,"list":[1,{"x":null}],"a\\"b":"<i>"}')
    page = open_page(server, address("j"))
    pane(page).get_by_text("12345678901234567890").wait_for()
    pane(page).get_by_role("button", name="list [2]").click()
    pane(page).get_by_role("button", name='Edit $["list"][0]').click()
    answer(page, JSON='{"new": [2]}')
    wanted = {"new": [2]}
    eventually(
        lambda: json.loads(server.redis.call("JSON.GET", "j", "$.list[0]"))[0] == wanted, "the part stays"
    )
    pane(page).get_by_role("button", name="Text", exact=True).click()
    pane(page).get_by_label("Document").fill("{broken")
    pane(page).get_by_role("button", name="Save").click()
    page.get_by_role("status").get_by_text("key must be").or_(page.locator(".notices .failure")).first.wait_for()


def test_series_vectors_and_sketches(server, open_page, check_accessibility):
    call = server.redis.call
    for number in range(50):
        call("TS.ADD", "series", 1000 * number + 1000, number)
    for name, vector in (("cat", (1, 0)), ("dog", (0.9, 0.1)), ("tree", (0, 1))):
        call("VADD", "words", "VALUES", 2, *vector, name)
    call("BF.ADD", "bloom", "a")
    call("CF.ADD", "cuckoo", "a")
    call("CMS.INITBYDIM", "cms", 100, 5)
    call("CMS.INCRBY", "cms", "a", 7)
    call("TOPK.RESERVE", "top", 3)
    call("TOPK.ADD", "top", "a", "a", "b")
    call("TDIGEST.CREATE", "digest")
    call("TDIGEST.ADD", "digest", 1, 2, 3)
    page = open_page(server, address("series"))
    pane(page).get_by_role("img", name="Samples").wait_for()
    pane(page).get_by_text("50 samples").wait_for()
    check_accessibility(page)
    page.goto(server.url + address("words"))
    pane(page).get_by_role("button", name="cat").click()
    assert [row[0] for row in rows(page, "Neighbours")] == ["cat", "dog", "tree"]
    for key, item, wanted in [("bloom", "a", "true"), ("cuckoo", "a", "1"), ("cms", "a", "7"), ("digest", "3", "0.8")]:
        page.goto(server.url + address(key))
        page.get_by_role("region", name="About the sketch").wait_for()
        pane(page).locator("input").first.fill(item)
        pane(page).get_by_role("button", name="Ask", exact=True).click()
        answered = pane(page).get_by_label("Answer")
        eventually(lambda: answered.inner_text().startswith(wanted), f"{key}: {answered.inner_text()}")
    page.goto(server.url + address("top"))
    assert rows(page, "Top items") == [["a", "2"], ["b", "1"]]


def test_new_keys(server, open_page):
    page = open_page(server, "#/keys")
    page.get_by_role("button", name="New key").click()
    page.get_by_role("dialog").get_by_label("Type").select_option("zset")
    answer(page, Name="made", Score="2.5", First_member="m")
    pane(page).get_by_role("heading", name="made").wait_for()
    assert server.redis.call("ZSCORE", "made", "m") == b"2.5"


def test_deleting_many(server, open_page, check_accessibility):
    for number in range(500):
        server.redis.call("SET", f"old:{number}", "x")
    server.redis.call("SET", "new:1", "x")
    page = open_page(server, "#/keys")
    page.get_by_role("treeitem", name="old:").wait_for()
    page.get_by_role("tree").focus()
    page.get_by_role("button", name="Delete many").click()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_label("Keys that begin with").input_value() == "old:"
    assert dialog.get_by_role("button", name="Delete").count() == 0, "a dry run comes first"
    dialog.get_by_role("button", name="Dry run").click()
    dialog.get_by_text("500 keys of").wait_for()
    assert server.redis.call("DBSIZE") == 501
    check_accessibility(page)
    dialog.get_by_role("button", name="Delete 500 keys").click()
    dialog.get_by_text("were deleted").wait_for()
    assert server.redis.call("KEYS", "*") == [b"new:1"]
    page.keyboard.press("Escape")
    page.get_by_text("1 keys").wait_for()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_and_values(server, open_page, name):
    call = server.redis.call
    call("SET", f"{name}:{name}", name)
    call("HSET", "hash", name, name)
    call("JSON.SET", "json", "$", json.dumps({name: [name]}))
    page = open_page(server, "#/keys")
    page.get_by_role("treeitem").first.wait_for()
    page.get_by_role("treeitem", name=re.compile("1 · ")).first.click()
    page.goto(server.url + address(f"{name}:{name}"))
    value = pane(page).get_by_label("Value")
    value.wait_for()
    assert value.input_value() == name
    page.goto(server.url + address("hash"))
    eventually(lambda: pane(page).locator("tbody tr").count() == 1, "no field")
    page.goto(server.url + address("json"))
    pane(page).locator(".json-open").nth(1).wait_for()
    assert page.locator("#root script, #root img, #root svg").count() == 0


def test_a_tree_that_comes_before_the_first_frame(server, open_page):
    """A browser that has much to do draws late; what has come until then is shown all the same."""
    server.redis.call("MSET", "a:1", "x", "a:2", "x", "b", "x")
    page = open_page(server, "#/overview", init_script=LATE_FRAMES)
    page.get_by_role("link", name="Keys").click()
    page.get_by_role("treeitem", name="a:").wait_for()


def test_a_prefix_opens_without_another_walk(server, open_page):
    for number in range(60):
        server.redis.call("SET", f"few:{number % 7}", "x")
        server.redis.call("SET", f"many:{number}:x", "x")
    page = open_page(server, "#/keys")
    tree = page.get_by_role("tree")
    tree.get_by_role("treeitem", name="few:").wait_for()
    server.redis.call("SET", "few:new", "x")

    def walks():
        return server.redis.call("INFO", "commandstats").split(b"cmdstat_mantissa.tree:calls=")[1].split(b",")[0]

    before = walks()
    tree.get_by_role("treeitem", name="few:").click()
    tree.get_by_role("treeitem", name="6 string").wait_for()
    tree.get_by_role("treeitem", name="many:").click()
    tree.get_by_role("treeitem", name="50 keys more").wait_for()
    assert walks() == before
    assert tree.get_by_role("treeitem").count() == 2 + 7 + 10 + 1
    # The rest is counted when it is asked for.
    tree.get_by_role("treeitem", name="50 keys more").click()
    tree.get_by_role("treeitem", name="more…").wait_for(state="detached")
    page.get_by_label("Ask again").click()
    page.get_by_text("68 keys").wait_for()


def test_names_that_are_no_text(server, open_page):
    server.redis.call("SET", b"bin:\xff\x00", b"v")
    page = open_page(server, "#/keys")
    page.get_by_role("tree").focus()
    page.get_by_role("treeitem", name="bin:").click()
    page.get_by_role("treeitem", name=r"\xff\x00").click()
    value = pane(page).get_by_label("Value")
    value.wait_for()
    assert value.input_value() == "v"


def test_large_values(server, open_page):
    server.redis.call("SET", "text", "x" * (1 << 20))
    server.redis.call("SET", "larger", "y" * (5 << 20))
    server.redis.call("HSET", "hash", "field", "z" * (1 << 20))
    page = open_page(server, address("text"))
    value = pane(page).get_by_label("Value")
    value.wait_for()
    assert len(value.input_value()) == 1 << 20
    page.goto(server.url + address("larger"))
    pane(page).get_by_role("button", name="Show all").click()
    eventually(lambda: len(value.input_value()) == 5 << 20, "it is not shown whole")
    page.goto(server.url + address("hash"))
    assert len(rows(page, "Fields")[0][1]) < 500
    text = "\\n" * (2 << 20)
    server.redis.call("JSON.SET", "json", "$", '{"a":"%s","b":2}' % text)
    page.goto(server.url + address("json"))
    pane(page).locator(".json-row", has_text="b").last.wait_for()
    # Of a list of large elements few are asked for at once.
    server.redis.call("RPUSH", "list", *[str(number) * (1 << 20) for number in range(9)])
    page.goto(server.url + address("list"))
    pane(page).get_by_role("button", name="Last page").click()
    eventually(lambda: rows(page, "Elements")[-1][0] == "8", "the last element is not shown")
    assert len(rows(page, "Elements")) <= 4


def test_many_keys_scroll(server, open_page):
    for start in range(0, 60000, 10000):
        words = [word for number in range(start, start + 10000) for word in (f"key{number:06}", "x")]
        server.redis.call("MSET", *words)
    page = open_page(server, "#/keys")
    tree = page.get_by_role("tree")
    page.get_by_role("treeitem", name="key000000").wait_for()
    # Only what is in sight is in the page, and further keys come when they are asked for.
    for _ in range(3):
        tree.focus()
        page.keyboard.press("End")
        more = page.get_by_role("treeitem", name="more…")
        more.wait_for()
        before = more.inner_text()
        page.keyboard.press("Enter")
        page.get_by_role("treeitem", name=before).wait_for(state="detached")
        page.get_by_role("treeitem", name="Counting…").wait_for(state="detached")
        assert page.get_by_role("treeitem").count() < 100
    page.keyboard.press("End")
    page.get_by_role("treeitem", name="56,000 keys more…").wait_for()
    page.get_by_role("treeitem", name="key003999").wait_for()


def test_what_the_user_may_not_do_is_not_offered(server, open_page):
    server.redis.call("SET", "app:1", "x")
    server.redis.call("SET", "other:1", "x")
    server.redis.call("ACL", "SETUSER", "reader", "on", ">pw", "~app:*", "+@read", "+@connection")
    server.redis.call("CONFIG", "SET", "requirepass", "p")
    page = open_page(server, "#/keys")
    log_in(page, "reader", "pw")
    item = page.get_by_role("option", name="app:1").or_(page.get_by_role("treeitem", name="app:"))
    item.first.wait_for()
    assert page.get_by_role("link", name="Overview").count() == 0
    assert page.get_by_role("button", name="Delete many").count() == 0
    page.goto(server.url + address("app:1"))


@pytest.mark.parametrize("rules", ["+@all", "+@all -acl"])
def test_rights_are_asked_for(server, open_page, rules):
    """By ACL DRYRUN, or by MULTI where that is not allowed."""
    server.redis.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", *rules.split(), *DENIED)
    server.redis.call("SET", "string", "x")
    server.redis.call("JSON.SET", "json", "$", "[1]")
    server.redis.call("CONFIG", "SET", "requirepass", "p")
    page = open_page(server, address("string"))
    log_in(page, "ada", "pw")
    pane(page).get_by_role("button", name="Save").wait_for()
    links = page.get_by_role("navigation").get_by_role("link").all_inner_texts()
    assert "Configuration" not in links and "Clients" in links and ("Users" in links) == ("-acl" not in rules)
    assert page.get_by_role("button", name="Delete many").count() == 0
    page.goto(server.url + address("json"))
    page.get_by_role("button", name="Text", exact=True).click()
    pane(page).get_by_label("Document").wait_for()
    assert pane(page).get_by_role("button", name="Save").count() == 0
    assert server.redis.call("DBSIZE") == 2


def test_read_only(server, open_page):
    server.redis.call("HSET", "h", "f", "v")
    page = open_page(server, address("h"))
    pane(page).get_by_role("button", name="Edit f").wait_for()
    page.get_by_label("Read only").check()
    pane(page).get_by_role("button", name="Edit f").wait_for(state="detached")
    assert pane(page).get_by_role("button", name="Delete").count() == 0
    page.get_by_role("button", name="New key").click()
    page.get_by_role("dialog").get_by_label("Name").fill("new")
    page.get_by_role("dialog").locator("button[type=submit]").click()
    page.get_by_role("alert").get_by_text("read-only mode").wait_for()
    assert server.redis.call("EXISTS", "new") == 0
