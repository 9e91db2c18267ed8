"""While a dump is loaded, clients are told so."""

import pytest
from support.resp import Closed
from support.waiting import persistence


def test_commands_are_refused_while_loading(start_server):
    server = start_server("subject")
    with server.connect() as connection:
        connection.call("DEBUG", "POPULATE", 30_000, "key", 500)
        connection.call("SAVE")
        digest = connection.call("DEBUG", "DIGEST")
    server.kill()
    server.start(wait=False, config_lines=["key-load-delay 1"])
    refused, fields, totals, is_loaded = 0, {}, set(), False
    while not is_loaded:
        try:
            with server.connect() as connection:
                while not is_loaded:
                    reply = connection("GET", "key:1")
                    is_loaded = not reply.is_error
                    if not is_loaded:
                        assert reply.text() == "LOADING Redis is loading the dataset in memory"
                        refused += 1
                        lines = persistence(connection)
                        if lines["loading"] == "1":
                            fields = lines
                            totals.add(int(lines["loading_total_bytes"]))
        except (OSError, Closed):
            # Nobody listens yet, or it was the process before.
            assert server.alive, server.log_tail()
    assert refused > 0
    # Whoever is told of the load is told how much there is to load.
    assert totals == {(server.directory / "dump.rdb").stat().st_size}
    assert 0 <= int(fields["loading_loaded_bytes"]) <= int(fields["loading_total_bytes"])
    for name in ("loading_start_time", "loading_loaded_perc", "loading_eta_seconds"):
        assert name in fields
    with server.connect() as connection:
        assert connection.call("DEBUG", "DIGEST") == digest
        assert b"loading:0" in connection.call("INFO", "persistence")


def first_reply(server):
    """What the first client that is accepted gets."""
    while True:
        try:
            with server.connect(timeout=60) as connection:
                return connection("GET", "key")
        except (OSError, Closed):
            assert server.alive, server.log_tail()


@pytest.mark.parametrize("appendonly", ["no", "yes"])
def test_a_small_file_is_loaded_before_anybody_is_answered(start_server, appendonly):
    server = start_server("subject", options={"appendonly": appendonly})
    with server.connect() as connection:
        connection.call("SET", "key", "value")
        connection.call("SAVE")
    for _ in range(5):
        server.kill()
        server.start(wait=False)
        assert first_reply(server).text() == "value"
