"""While a dump is loaded, clients are told so."""

from support.resp import Closed


def persistence_lines(connection):
    """What INFO says of persistence, by name."""
    text = connection.call("INFO", "persistence").decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def test_commands_are_refused_while_loading(start_server):
    server = start_server("subject")
    with server.connect(timeout=60) as connection:
        connection.call("DEBUG", "POPULATE", 150_000, "key", 50)
        connection.call("SAVE")
        digest = connection.call("DEBUG", "DIGEST")
    server.kill()
    server.start(wait=False)
    refused, fields, is_loaded = 0, {}, False
    while not is_loaded:
        try:
            with server.connect(timeout=60) as connection:
                while not is_loaded:
                    reply = connection("GET", "key:1")
                    is_loaded = not reply.is_error
                    if not is_loaded:
                        assert reply.text() == "LOADING Redis is loading the dataset in memory"
                        refused += 1
                        lines = persistence_lines(connection)
                        fields = lines if lines["loading"] == "1" else fields
        except (OSError, Closed):
            # Nobody listens yet, or it was the process before.
            assert server.alive, server.log_tail()
    assert refused > 0
    assert int(fields["loading_total_bytes"]) == (server.directory / "dump.rdb").stat().st_size
    assert 0 <= int(fields["loading_loaded_bytes"]) <= int(fields["loading_total_bytes"])
    for name in ("loading_start_time", "loading_loaded_perc", "loading_eta_seconds"):
        assert name in fields
    with server.connect(timeout=60) as connection:
        assert connection.call("DEBUG", "DIGEST") == digest
        assert b"loading:0" in connection.call("INFO", "persistence")
