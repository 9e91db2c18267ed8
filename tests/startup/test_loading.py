"""While a dump is loaded, clients are told so."""


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
            connection = server.connect(timeout=60)
        except OSError:
            assert server.alive, server.log_tail()
            continue
        with connection:
            while not is_loaded:
                reply = connection("GET", "key:1")
                is_loaded = not reply.is_error
                if is_loaded:
                    break
                assert reply.text() == "LOADING Redis is loading the dataset in memory"
                refused += 1
                text = connection.call("INFO", "persistence").decode()
                lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
                if lines["loading"] == "1":
                    fields = lines
    assert refused > 0
    assert int(fields["loading_total_bytes"]) == (server.directory / "dump.rdb").stat().st_size
    assert 0 <= int(fields["loading_loaded_bytes"]) <= int(fields["loading_total_bytes"])
    for name in ("loading_start_time", "loading_loaded_perc", "loading_eta_seconds"):
        assert name in fields
    with server.connect(timeout=60) as connection:
        assert connection.call("DEBUG", "DIGEST") == digest
        assert b"loading:0" in connection.call("INFO", "persistence")
