"""A backup while the process changes: one that is not sealed fails, one that is sealed stays."""

import shutil

import pytest

from durability.test_aof import FOLDER, digest
from durability.test_backup import (
    BACKUPS,
    EVERY_MODE,
    NOT_SEALED,
    backup_files,
    begin,
    listed,
    slow_down,
    status,
    until_state,
)
from support.waiting import eventually


@EVERY_MODE
@pytest.mark.parametrize("state", ["pending", "snapshotting", "incrementing"])
def test_a_backup_that_is_not_sealed_fails(start_upgradable, appendonly, state):
    upgraded = start_upgradable(options={"appendonly": appendonly})
    server = upgraded.server
    with server.connect() as connection:
        slow_down(connection, keys=20)
        if state == "pending":
            connection.call("BGSAVE")
        assert connection.call("BACKUP", "START") == b"OK"
        until_state(connection, state)
        connection.call("SET", "since", "1")
        before = digest(connection)
    upgraded.upgrade()
    assert "The backup failed: the server is upgraded" in server.log_text()
    with server.connect() as connection:
        found = status(connection)
        assert (found["state"], found["error"]) in [("idle", ""), ("failed", NOT_SEALED)]
        assert digest(connection) == before
        eventually(lambda: backup_files(server) == [], "what is left is not removed")
        connection.call("CONFIG", "SET", "rdb-key-save-delay", 0)
        begin(connection)
        connection.call("SET", "more", "1")
        assert connection.call("BACKUP", "SEAL") == b"OK"
        assert len(backup_files(server)) == 3


@EVERY_MODE
def test_a_sealed_backup_stays(start_upgradable, start_server, tmp_path, appendonly):
    upgraded = start_upgradable(options={"appendonly": appendonly})
    server = upgraded.server
    with server.connect() as connection:
        begin(connection)
        connection.call("SET", "a", "1")
        assert connection.call("BACKUP", "SEAL") == b"OK"
        at_seal, sealed, files = digest(connection), status(connection), listed(connection)
    upgraded.upgrade()
    with server.connect() as connection:
        assert status(connection) == sealed and listed(connection) == files
    shutil.copytree(server.directory / BACKUPS, tmp_path / FOLDER)
    restored = start_server(directory=tmp_path, options={"appendonly": "yes"})
    with restored.connect() as connection:
        assert digest(connection) == at_seal


def test_an_upgrade_that_fails_leaves_the_server_able(start_upgradable):
    upgraded = start_upgradable()
    server = upgraded.server
    with server.connect() as connection:
        begin(connection)
        assert connection("MANTISSA.UPGRADE", "/bin/true").is_error
        # Where the successor ended before anything was handed over, the backup goes on.
        if status(connection)["state"] == "incrementing":
            assert connection.call("BACKUP", "SEAL") == b"OK"
