"""Plays every hand-written stream to both servers, in RESP2 and RESP3, with default and with small
thresholds."""

import pathlib

import pytest

from differential.runner import Runner
from differential.stream import load
from support.servers import Server

STREAMS = sorted((pathlib.Path(__file__).parent / "streams").glob("*.txt"))
SHOWN_MAX = 60


@pytest.mark.parametrize("thresholds", ["default", "small"])
@pytest.mark.parametrize("protocol", [2, 3], ids=["resp2", "resp3"])
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_stream(path, protocol, thresholds):
    lines = load(path)
    with Server("oracle") as oracle, Server("subject", workers=2) as subject:
        runner = Runner(oracle, subject, protocol, small=thresholds == "small")
        mismatches = runner.play(lines)
        runner.close()
        end = "" if subject.alive else f"\nthe subject is gone:\n{subject.log_tail()}"
    if mismatches:
        shown = "\n".join(map(str, mismatches[:SHOWN_MAX]))
        pytest.fail(f"{len(mismatches)} mismatches of {len(lines)} lines\n{shown}{end}", pytrace=False)
