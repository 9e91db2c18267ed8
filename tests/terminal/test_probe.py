"""`mantissa probe`: what it measures, in its three forms, and what it says of wrong options."""

import json
import math
import os
import signal
import subprocess
from html.parser import HTMLParser

import pytest

from support.servers import subject_path
from support.waiting import PATIENCE_S, eventually

SMALL = ("--seconds", 1, "--memory", 6, "--file-size", 1)


def test_json_has_all_sections_with_sane_figures(tool, tmp_path):
    result = tool("probe", "--quick", "--json", "--memory", 6, "--file-size", 1, "--folder", tmp_path)
    assert result.code == 0, result
    found = json.loads(result.out)
    assert set(found) == {"version", "date", "command", "machine", "sections", "advice"}
    assert set(found["sections"]) == {"system", "simd", "network", "memory", "disk"}
    for section in found["sections"].values():
        assert set(section) == {"figures", "curves", "notes"} and section["figures"]
        for figure in section["figures"].values():
            assert 0 < figure["min"] <= figure["low"] <= figure["median"] <= figure["high"] <= figure["max"]
            assert math.isfinite(figure["max"]) and figure["rounds"] >= 1
    memory = found["sections"]["memory"]
    assert {"read_1", "copy_1", "triad_1", "cache_line", "latency_cache"} <= set(memory["figures"])
    assert set(memory["curves"]) == {"bandwidth", "strides", "latency"}
    assert all(set(one) == {"what", "state", "change", "gain", "measured"} for one in found["advice"])
    assert len(found["advice"]) == 6
    assert os.listdir(tmp_path) == []


def test_text_and_page(tool, tmp_path):
    page = tmp_path / "probe.html"
    result = tool("probe", *SMALL, "--only", "memory,system", "--html", page)
    assert result.code == 0, result
    text = result.out.decode()
    assert "triad, 1 thread" in text and "Latency of a load by working set" in text
    assert "Disk" not in text and "\x1b" not in text

    class Page(HTMLParser):
        tags = []

        def handle_starttag(self, tag, attributes):
            self.tags.append(tag)
            assert not any(name in ("src", "href") for name, _ in attributes)

    Page().feed(page.read_text())
    assert Page.tags.count("svg") == 3 and Page.tags.count("table") >= 3


def test_a_server_is_measured_and_keeps_its_keys(tool, subject):
    with subject.connect() as client:
        client.call("SET", "mine", "1")
    place = f"127.0.0.1:{subject.port}"
    result = tool("probe", *SMALL, "--json", "--only", "system,network", "--server", place)
    assert result.code == 0, result
    figures = json.loads(result.out)["sections"]["server"]["figures"]
    names = ("ping", "get", "set", "zadd")
    expected = {f"{name}_per_{limit}" for name in names for limit in ("round_trip", "system_call")}
    assert set(figures) == {*names, *expected}
    assert all(figure["min"] > 0 for figure in figures.values())
    with subject.connect() as client:
        assert client.call("KEYS", "*") == [b"mine"]


@pytest.mark.parametrize(
    "words, error, code",
    [
        (["--seconds", "0"], "invalid value '0' for '--seconds <SECONDS>'", 1),
        (["--only", "moon"], "invalid value 'moon'", 1),
        ([*SMALL, "--server", "127.0.0.1:1"], "Could not connect to Redis at 127.0.0.1:1: Connection refused", 1),
        ([*SMALL, "--server", "here:x"], "here:x: the port is not a number", 1),
        (["--none"], "unexpected argument '--none'", 1),
        ([*SMALL, "--only", "disk", "--folder", "/nowhere/at/all"], "/nowhere/at/all: No such file or directory", 1),
        ([*SMALL, "--only", "system", "--html", "/nowhere/x.html"], "/nowhere/x.html: No such file or directory", 1),
    ],
)
def test_what_cannot_be_done_is_said(tool, words, error, code):
    result = tool("probe", *words)
    assert result.code == code and error in result.err.decode(), result


def test_an_interrupt_ends_it_and_leaves_nothing(tmp_path):
    words = [subject_path(), "probe", "--only", "disk", "--seconds", "600", "--file-size", "1", "--folder", tmp_path]
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # The signal is taken from the moment that the file, which has no name, is open.
    folder = f"/proc/{process.pid}/fd"

    def has_file():
        try:
            return any(str(tmp_path) in os.readlink(os.path.join(folder, name)) for name in os.listdir(folder))
        except FileNotFoundError:
            # A descriptor was closed meanwhile.
            return False

    eventually(lambda: process.poll() is not None or has_file(), "no file is made")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130 and os.listdir(tmp_path) == []
