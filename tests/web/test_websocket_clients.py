"""WebSocket as others speak it, within TLS, and across an upgrade."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from support.websocket import WebSocket
from upgrade.conftest import start_upgrade

MODULES = pathlib.Path(sys.prefix) / "node_modules"

EXPECTED = {
    "protocol": "json",
    "set": {"id": 1, "reply": "OK"},
    "get": {"reply": "v é"},
    "subscribe": {"push": ["subscribe", "news", 1]},
    "extensions": "",
    "publish": ":1\r\n",
    "message": {"push": ["message", "news", "hello"]},
    "large": 3_000_000 + len("$3000000\r\n\r\n"),
    "pong": "are you there",
    "closed": 4321,
    "quit": 1000,
}


@pytest.mark.skipif(not (MODULES / "ws").is_dir(), reason="ws is not there: ./test.sh installs it")
def test_ws_of_npm(server):
    script = pathlib.Path(__file__).parent / "websocket.mjs"
    # Imports are looked for from the script's own folder on; this one is beside the packages.
    copy = MODULES.parent / f"websocket-{os.getpid()}.mjs"
    shutil.copy(script, copy)
    try:
        command = ["node", str(copy), f"ws://127.0.0.1:{server.http_port}/ws"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    finally:
        copy.unlink()
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == EXPECTED


def test_websocket_within_tls(tls_server):
    port, trusted = tls_server
    with WebSocket(port, tls=trusted) as client:
        value = "x" * 300_000
        assert client.ask("SET", "k", value) == {"reply": "OK"}
        assert client.ask("GET", "k") == {"reply": value}


def test_an_upgrade_takes_connections_along(server):
    with WebSocket(server.http_port) as client:
        assert client.call("SET", "k", "v") == b"OK"
        connection, process = start_upgrade(server)
        try:
            with connection:
                assert connection.read().plain().startswith(b"OK process ")
            assert client.call("APPEND", "k", "w") == 2
            with WebSocket(server.http_port) as other:
                assert other.call("GET", "k") == b"vw"
        finally:
            os.kill(process, signal.SIGKILL)
