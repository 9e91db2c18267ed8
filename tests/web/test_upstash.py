"""The npm package @upstash/redis, unchanged: commands, pipelines, transactions, subscriptions."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

MODULES = pathlib.Path(sys.prefix) / "node_modules"

EXPECTED = {
    "set": "OK",
    "get": "v \u00e9",
    "ok": ["OK", "OK"],
    "object": ["OK", {"a": [1, "x"]}],
    "missing": None,
    "expiry": ["OK", 100],
    "counter": 5,
    "hash": [2, {"a": 1, "b": "two"}],
    "list": [3, ["a", 1, "OK"]],
    "zset": [2, ["m", 1.5, "n", 2]],
    "stream": ["1-1", {"1-1": {"f": "v"}}],
    "json": ["OK", [1]],
    "pipeline": ["OK", 2, 2],
    "multi": ["OK", 2, ["a", 1, "OK"]],
    "message": {"channel": "news", "message": {"x": 1}},
}


@pytest.mark.skipif(not (MODULES / "@upstash").is_dir(), reason="@upstash/redis is not there: ./test.sh installs it")
def test_upstash_client(server):
    with server.connect() as client:
        client.call("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
        client.call("CONFIG", "SET", "requirepass", "main")
    script = pathlib.Path(__file__).parent / "upstash.mjs"
    # Imports are looked for from the script's own folder on; this one is beside the packages.
    copy = MODULES.parent / f"upstash-{os.getpid()}.mjs"
    shutil.copy(script, copy)
    try:
        words = ["node", str(copy), f"http://127.0.0.1:{server.http_port}", "app:secret"]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    finally:
        copy.unlink()
    assert ended.returncode == 0, ended.stderr
    results = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(results) == 2 * 18 + 2
    for index, (name, result) in enumerate(results):
        kind = "base64" if index < 18 else "plain"
        if name == "script":
            assert result == [f"{kind}:k", "a", 1]
        elif name == "scan":
            assert result == ["0", [f"{kind}:h"]]
        elif name == "error":
            assert "WRONGTYPE" in result["error"]
        elif name == "discarded":
            assert "error" in result or result[0] == "OK"
        elif name == "unauthorized":
            assert "WRONGPASS" in result["error"]
        else:
            assert result == EXPECTED[name], (kind, name)
