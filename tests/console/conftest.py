"""A server with the console, and pages of Chromium that fail a test for what a page must never do."""

import os
import pathlib
import shutil

import pytest
from support.servers import ROOT, free_port

CHROMIUM = os.environ.get("MANTISSA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
AXE_FOLDERS = (ROOT / ".test-env" / "node_modules", ROOT / "console" / "node_modules")
# What a lost connection has the browser say by itself.
EXPECTED = ("WebSocket connection to", "net::ERR_")


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def server(start_server):
    """A server with the console, and a connection to it as `redis`."""
    port = free_port()
    server = start_server(options={"http-port": port}, workers=2)
    server.url = f"http://127.0.0.1:{port}/"
    with server.connect() as redis:
        server.redis = redis
        yield server


@pytest.fixture
def open_page(browser):
    """Opens pages. The test fails if one of them has thrown, broken the policy or asked another server."""
    contexts = []
    complaints = []

    def watch(page, url):
        page.on("pageerror", lambda error: complaints.append(f"thrown: {error}"))
        page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: request.url.startswith(url) or complaints.append(f"elsewhere: {request.url}"),
        )

    def start(server, path="", init_script="", **options):
        options = {"viewport": {"width": 1280, "height": 800}} | options
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(60000)
        context.add_init_script(init_script)
        page = context.new_page()
        watch(page, server.url)
        page.goto(server.url + path)
        return page

    yield start
    for context in contexts:
        context.close()
    assert [it for it in complaints if not any(word in it for word in EXPECTED)] == []


@pytest.fixture
def check_accessibility():
    """Has axe look for what keeps people out."""
    found = [folder / "axe-core" / "axe.min.js" for folder in AXE_FOLDERS]
    scripts = [path for path in found if path.exists()]

    def check(page):
        if not scripts:
            pytest.skip("axe-core is not installed: npm is missing")
        page.evaluate(pathlib.Path(scripts[0]).read_text())
        violations = page.evaluate("axe.run().then((it) => it.violations)")
        assert [
            (violation["id"], node["html"][:200], node["failureSummary"])
            for violation in violations
            for node in violation["nodes"]
        ] == []

    return check
