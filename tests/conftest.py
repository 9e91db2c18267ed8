"""Fixtures that all Python suites share."""

import gc
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from support.seeds import run_seed  # noqa: E402
from support.servers import Server, oracle_path, starting, subject_is_oracle, subject_path  # noqa: E402

# Shells have what runs in the background ignore Ctrl-C, and so would all programs that are started here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header():
    subject = oracle_path() if subject_is_oracle() else subject_path()
    return [f"subject: {subject}", f"oracle: {oracle_path()}", f"MANTISSA_TEST_SEED={run_seed()}"]


def known_gaps():
    """What is known to differ from redis-server and not mended yet: a part of a test's name, and the reason."""
    gaps = []
    for line in (pathlib.Path(__file__).parent / "known_gaps.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, reason = line.split(" ", 1)
            gaps.append((name, reason.strip()))
    return gaps


def pytest_collection_modifyitems(items):
    if subject_is_oracle():
        return
    gaps = known_gaps()
    for item in items:
        for name, reason in gaps:
            if name in item.nodeid:
                # Those of replication wait long for what does not come.
                runs = "replication" not in item.nodeid
                item.add_marker(pytest.mark.xfail(reason=reason, strict=False, run=runs))


def pytest_collection_finish():
    # Replies are many small objects, of which the collector finds none unused: it looks seldom, and never at what there
    # is before the first test.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    setattr(item, f"report_{call.when}", outcome.get_result())


@pytest.fixture
def start_server(request):
    """Starts servers that end with the test; on failure their folders are kept and their logs shown."""
    yield from starting(request, Server)


@pytest.fixture
def subject(start_server):
    """One server under test."""
    return start_server("subject")


@pytest.fixture
def oracle(start_server):
    """One redis-server."""
    return start_server("oracle")
