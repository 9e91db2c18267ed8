"""The page itself: its files and their fields, logins, the overview, lost connections."""

import gzip

import pytest
from support.http import ask
from support.servers import free_port
from support.waiting import eventually


def test_files_and_what_goes_with_them(start_server):
    port = free_port()
    server = start_server(options={"http-port": port, "http-console-label": 'a "b"', "requirepass": "p"})
    page = ask(port, "/", fields={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert page.status == 200 and page.content.startswith(b"<!doctype html>")
    total = len(page.content)
    for name, kind in (("console.js", "text/javascript"), ("console.css", "text/css")):
        found = ask(port, f"/console/{name}")
        assert found.status == 200 and found.fields["content-type"].startswith(kind)
        assert found.fields["content-encoding"] == "gzip" and gzip.decompress(found.content)
        total += len(found.content)
    assert total < 300 << 10
    assert ask(port, "/console/icon.svg").fields["content-type"] == "image/svg+xml"
    assert ask(port, "/console/about.json").content == b'{"label":"a \\"b\\""}'
    policy = page.fields["content-security-policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert page.fields["x-content-type-options"] == "nosniff"
    tag = page.fields["etag"]
    again = ask(port, "/", fields={"If-None-Match": f'"x", {tag}'}, method="HEAD")
    assert again.status == 304 and again.fields["etag"] == tag and again.fields["cache-control"] == "no-cache"
    assert ask(port, "/", fields={"Host": "evil.example"}).status == 421
    assert ask(port, "/console/console.js", fields={"Sec-Fetch-Site": "cross-site"}).status == 403
    # Commands need the login as ever.
    assert ask(port, "/get/a").status == 401
    with server.connect() as redis:
        redis.call("AUTH", "p")
        redis.call("CONFIG", "SET", "http-console", "no")
    assert ask(port, "/").status == 405
    assert ask(port, "/console/console.js").status == 401


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_overview(server, open_page, check_accessibility, theme):
    for number in range(100):
        server.redis.call("SET", f"key:{number}", "value")
    page = open_page(server, color_scheme=theme)
    page.get_by_role("heading", name="Overview").wait_for()
    page.get_by_text("100", exact=True).first.wait_for()
    figures = page.locator(".figures")
    assert "Commands a second" in figures.inner_text()
    # The second sample gives the first rate, which is the console's own.
    page.locator(".chart canvas").nth(5).wait_for()
    charts = page.locator(".chart [role=img]")
    eventually(lambda: "unknown" not in charts.first.get_attribute("aria-label"), "no rate comes")
    assert page.get_by_role("region", name="Databases").inner_text().split()[-4:-1] == ["db0", "100", "0"]
    check_accessibility(page)


def test_wrong_password_and_login(server, open_page, check_accessibility):
    server.redis.call("ACL", "SETUSER", "ada", "on", ">right", "~*", "&*", "+@all")
    server.redis.call("CONFIG", "SET", "requirepass", "secret")
    page = open_page(server)
    page.get_by_role("button", name="Log in").hover()
    check_accessibility(page)
    page.get_by_label("User").fill("ada")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("alert").get_by_text("WRONGPASS").wait_for()
    page.get_by_label("Password").fill("right")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Overview").wait_for()
    assert page.locator(".who").inner_text() == "ada"
    assert "right" not in page.evaluate("JSON.stringify([localStorage, sessionStorage, location.href])")
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="Log in").wait_for()


def test_lost_connection(server, open_page):
    page = open_page(server)
    page.get_by_role("heading", name="Overview").wait_for()
    server.terminate()
    page.get_by_text("The connection to the server is lost").wait_for()
    server.start()
    page.get_by_text("The connection to the server is lost").wait_for(state="hidden")


def test_label_and_read_only(server, open_page):
    server.redis.call("CONFIG", "SET", "http-console-label", "production <b>")
    page = open_page(server)
    page.get_by_role("note").get_by_text("production <b>").wait_for()
    assert page.get_by_label("Read only").is_checked()


def test_a_phone(server, open_page, check_accessibility):
    page = open_page(server, viewport={"width": 375, "height": 667}, is_mobile=True, has_touch=True)
    page.get_by_role("heading", name="Overview").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    check_accessibility(page)
