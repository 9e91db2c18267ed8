"""Fixtures that run the program's own tools, and redis-cli beside them."""

import shutil

import pytest

from support.servers import subject_path
from support.terminal import Terminal, run


@pytest.fixture
def cli():
    """Runs `mantissa cli` on a server in pipes."""

    def call(server, *words, **options):
        return run([subject_path(), "cli", "-p", server.port, *words], **options)

    return call


@pytest.fixture
def redis_cli():
    """Runs redis-cli on a server in pipes; the test is left out where it is not installed."""
    if shutil.which("redis-cli") is None:
        pytest.skip("redis-cli is not installed")

    def call(server, *words, **options):
        return run(["redis-cli", "-p", server.port, *words], **options)

    return call


@pytest.fixture
def tool():
    """Runs a subcommand of the program in pipes."""

    def call(name, *words, **options):
        return run([subject_path(), name, *words], **options)

    return call


@pytest.fixture
def terminal(tmp_path):
    """Starts `mantissa` with these words at a pseudo-terminal, its files in an own folder."""
    started = []

    def start(*words, **env):
        home = {"HOME": str(tmp_path), "MANTISSA_HISTORY": str(tmp_path / "history"), "PAGER": ""}
        one = Terminal([str(subject_path()), *words], home | env)
        started.append(one)
        return one

    yield start
    for one in started:
        one.close()
