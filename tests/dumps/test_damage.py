"""A damaged dump stops the start with the place and the reason, and stays as it is."""

import re

import pytest

from support.filling import fill
from support.seeds import generator
from support.servers import Server

CUTS = 25
FLIPS = 40


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """A dump with every type, of redis-server."""
    with Server("oracle", directory=tmp_path_factory.mktemp("whole")) as server:
        with server.connect() as connection:
            fill(connection)
            connection.call("SAVE")
        return (server.directory / "dump.rdb").read_bytes()


def start_on(data, tmp_path, start_server):
    """Start on a dump with these bytes: the exit status and the log, or None if the server came up."""
    path = tmp_path / "dump.rdb"
    path.write_bytes(data)
    server = start_server("subject", directory=tmp_path, options={"save": "3600 1"}, wait=False)
    try:
        server.wait_ready()
    except AssertionError:
        pass
    status = None if server.alive else server.process.returncode
    server.kill()
    assert path.read_bytes() == data, "the damaged file was changed"
    return status, server.log_text()


def assert_refused(status, log):
    assert status is not None, "the server started on a damaged dump"
    assert status > 0, f"ended by signal {-status}\n{log[-2000:]}"
    assert re.search(r"(offset|byte) \d+", log), log[-1000:]


def test_cut_anywhere(dump, tmp_path, start_server):
    random = generator("cuts")
    places = [0, 1, 8, 9, 10, len(dump) - 1, len(dump) - 8, len(dump) - 9]
    places += [random.randrange(9, len(dump)) for _ in range(CUTS)]
    for place in places:
        assert_refused(*start_on(dump[:place], tmp_path, start_server))


def test_changed_anywhere(dump, tmp_path, start_server):
    random = generator("flips")
    for _ in range(FLIPS):
        place = random.randrange(len(dump))
        data = bytearray(dump)
        data[place] ^= 1 << random.randrange(8)
        assert_refused(*start_on(bytes(data), tmp_path, start_server))


def test_not_a_dump(tmp_path, start_server):
    for data in (b"not a dump at all", b"REDIS", b"REDISabcd", b"\x00" * 100, b"REDIS0011" + b"\xff" * 50):
        assert_refused(*start_on(data, tmp_path, start_server))
