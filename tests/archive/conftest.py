"""An archive in a folder or a bucket, and servers on what comes out of it."""

import json
import shutil

import pytest

from support.buckets import Service
from support.servers import subject_path
from support.terminal import Terminal, run


class Archive:
    """An archive, and the commands on it."""

    def __init__(self, path, environment=None):
        self.path = path
        self.environment = environment
        self.keys = ()

    def call(self, name, *words):
        """Run a command, whatever comes of it."""
        keys = ("--key-file", *self.keys) if self.keys and name != "init" else ()
        result = run([subject_path(), "archive", name, self.path, *words, *keys], env=self.environment)
        assert b"panicked" not in result.err, result
        return result

    def do(self, name, *words):
        """Run a command that is to succeed; what it prints."""
        result = self.call(name, *words)
        assert result.code == 0, result
        return result.out.decode()

    def create(self, source, *words):
        """Make a snapshot of a file or a server; its facts."""
        if hasattr(source, "port"):
            with source.connect() as connection:
                connection.call("CONFIG", "SET", "repl-diskless-sync-delay", 0)
            words = ("-p", source.port, *words)
        else:
            words = (source, *words)
        self.do("create", *words)
        return self.snapshots()[-1]

    def snapshots(self):
        return [json.loads(line) for line in self.do("list", "--json").splitlines()]

    def files(self):
        """All objects but the lock."""
        return sorted(path for path in self.path.rglob("*") if path.is_file() and path.name != "lock")


@pytest.fixture
def archive(tmp_path):
    made = Archive(tmp_path / "archive")
    made.do("init")
    return made


@pytest.fixture
def service():
    """A service of buckets."""
    made = Service()
    yield made
    made.close()


@pytest.fixture
def digest_of(start_server, tmp_path):
    """What DEBUG DIGEST says of a server that was started on a dump."""

    def load(file, kind="subject", **options):
        folder = tmp_path / f"loaded-{file.name}-{kind}"
        folder.mkdir()
        shutil.copy(file, folder / "dump.rdb")
        server = start_server(kind, directory=folder, **options)
        with server.connect() as connection:
            return connection.call("DEBUG", "DIGEST").decode()

    return load


@pytest.fixture
def terminal():
    """Starts `mantissa` with these words at a pseudo-terminal."""
    started = []

    def start(*words):
        one = Terminal([str(subject_path()), *map(str, words)], {})
        started.append(one)
        return one

    yield start
    for one in started:
        one.close()
