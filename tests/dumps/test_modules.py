"""Dumps with keys of modules: refused by name, or loaded without them and kept as they are."""

import json
import subprocess

import pytest

from support.rdbfile import MODULE, MODULE_AUX, STRING, File, length, module_identifier, string
from support.servers import oracle_path, subject_is_oracle, subject_path
from support.waiting import eventually, persistence

# The elements of a module's value: their kinds, and the mark of its end.
SIGNED, UNSIGNED, FLOAT, DOUBLE, STRINGS, END = 1, 2, 3, 4, 5, 0


def value(name):
    identifier = length(module_identifier(name))
    elements = length(UNSIGNED) + length(7) + length(STRINGS) + string("text") + length(DOUBLE) + b"\0" * 8
    return identifier + elements + length(END)


def dump(aux=False, keys_of_modules=2):
    file = File(11)
    if aux:
        file.body += bytes([MODULE_AUX]) + length(module_identifier("ft_index0"))
        file.body += length(UNSIGNED) + length(2) + length(SIGNED) + length(5) + length(END)
    file.select(0)
    file.record(STRING, "before", string("1"))
    for number in range(keys_of_modules):
        file.record(MODULE, f"doc:{number}", value("ReJSON-RL"))
    file.select(3)
    file.record(STRING, "after", string("2"))
    return file.bytes()


@pytest.fixture
def start_with(start_server):
    """Starts a server on a folder with this dump."""

    def start(content, folder, wait=True, **options):
        (folder / "dump.rdb").write_bytes(content)
        return start_server(directory=folder, wait=wait, options=options)

    return start


def test_a_refusal_names_key_type_and_what_to_do(start_with, tmp_path):
    server = start_with(dump(), tmp_path, wait=False)
    assert server.wait_exit() != 0
    log = server.log_text()
    assert '"doc:0"' in log and "ReJSON-RL" in log and "'rdb-skip-unknown-types yes'" in log
    assert str(tmp_path / "dump.rdb") in log
    server = start_with(dump(aux=True, keys_of_modules=0), tmp_path, wait=False)
    assert server.wait_exit() != 0
    assert "'ft_index0'" in server.log_text() and "'rdb-skip-unknown-types yes'" in server.log_text()


@pytest.mark.skipif(subject_is_oracle(), reason="redis-server has no such tool")
def test_data_beside_the_keys_are_told(tmp_path):
    path = tmp_path / "dump.rdb"
    path.write_bytes(dump(aux=True, keys_of_modules=0))
    words = [subject_path(), "check", "rdb", path]
    text = subprocess.run(words, capture_output=True, timeout=60).stdout.decode()
    assert "\ndata of type ft_index0 beside the keys, which cannot be loaded\n" in text
    found = json.loads(subprocess.run([*words, "--json"], capture_output=True, timeout=60).stdout)
    assert found["types_beside_keys"] == ["ft_index0"]


def test_keys_that_are_skipped_are_told_and_the_file_stays(start_with, tmp_path):
    content = dump()
    server = start_with(content, tmp_path, **{"rdb-skip-unknown-types": "yes"})
    log = server.log_text()
    for number in range(2):
        assert f"Skipped the key \"doc:{number}\" of database 0: its type 'ReJSON-RL'" in log, log
    assert "without 2 keys and 0 other data of modules (ReJSON-RL: 2)" in log
    with server.connect() as connection:
        assert connection.call("GET", "before") == b"1"
        for command in (["SAVE"], ["BGSAVE"], ["BGSAVE", "SCHEDULE"], ["BGREWRITEAOF"]):
            reply = connection(*command).text()
            assert str(tmp_path / "dump.rdb") in reply and "rdb-overwrite-after-skip yes" in reply, reply
        for command in (["CONFIG", "SET", "appendonly", "yes"], ["DEBUG", "RELOAD"]):
            assert connection(*command).is_error
        assert connection.call("DEBUG", "RELOAD", "NOSAVE") == b"OK"
        assert connection.call("DBSIZE") == 1
        connection.call("SET", "new", "value")
        assert connection("SHUTDOWN", "SAVE").is_error
        assert (tmp_path / "dump.rdb").read_bytes() == content
        assert connection.call("CONFIG", "SET", "rdb-overwrite-after-skip", "yes") == b"OK"
        assert connection.call("SAVE") == b"OK"
        assert (tmp_path / "dump.rdb").read_bytes() != content
        # The file holds what is in memory now: there is nothing to protect any more.
        connection.call("CONFIG", "SET", "rdb-overwrite-after-skip", "no")
        assert connection.call("SAVE") == b"OK"


def test_another_file_name_is_written(start_with, tmp_path):
    server = start_with(dump(), tmp_path, **{"rdb-skip-unknown-types": "yes", "enable-protected-configs": "yes"})
    with server.connect() as connection:
        assert connection("SAVE").is_error
        assert connection.call("CONFIG", "SET", "dbfilename", "other.rdb") == b"OK"
        assert connection.call("SAVE") == b"OK"
    assert (tmp_path / "other.rdb").exists() and (tmp_path / "dump.rdb").read_bytes() == dump()


def test_save_points_and_the_end_keep_the_file(start_with, tmp_path):
    options = {"rdb-skip-unknown-types": "yes", "save": "1 1"}
    server = start_with(dump(), tmp_path, **options)
    assert server.terminate() == 0, "nothing has changed, so nothing is to be saved"
    server = start_with(dump(), tmp_path, **options)
    with server.connect() as connection:
        connection.call("SET", "new", "value")
        failed = lambda: persistence(connection)["rdb_last_bgsave_status"] == "err"  # noqa: E731
        eventually(failed, "the save point does not fail")
        assert "Background saving error" in server.log_text()
        assert connection("SET", "more", "value").text().startswith("MISCONF")
    assert (tmp_path / "dump.rdb").read_bytes() == dump()


def test_data_that_belong_to_no_key_count(start_with, tmp_path):
    server = start_with(dump(aux=True, keys_of_modules=0), tmp_path, **{"rdb-skip-unknown-types": "yes"})
    assert "without 0 keys and 1 other data of modules (ft_index0: 1)" in server.log_text()
    with server.connect() as connection:
        assert connection("SAVE").is_error


def test_many_keys_are_counted_and_not_all_named(start_with, tmp_path):
    server = start_with(dump(keys_of_modules=5000), tmp_path, **{"rdb-skip-unknown-types": "yes"})
    log = server.log_text()
    assert log.count("Skipped the key") == 100 and "ReJSON-RL: 5000" in log


def test_keys_stay_out_of_the_log_where_they_are_hidden(start_with, tmp_path):
    options = {"rdb-skip-unknown-types": "yes", "hide-user-data-from-log": "yes"}
    server = start_with(dump(), tmp_path, **options)
    assert "doc:" not in server.log_text() and "ReJSON-RL: 2" in server.log_text()


def test_an_append_only_file_does_not_begin_or_get_shorter(start_with, tmp_path):
    options = {"rdb-skip-unknown-types": "yes", "appendonly": "yes"}
    server = start_with(dump(), tmp_path, wait=False, **options)
    assert server.wait_exit() != 0
    assert "The append-only file can not begin" in server.log_text()
    folder = tmp_path / "appendonlydir"
    (folder / "appendonly.aof.1.base.rdb").write_bytes(dump())
    (folder / "appendonly.aof.1.incr.aof").write_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n")
    lines = ["file appendonly.aof.1.base.rdb seq 1 type b", "file appendonly.aof.1.incr.aof seq 1 type i"]
    (folder / "appendonly.aof.manifest").write_text("\n".join(lines) + "\n")
    server = start_with(dump(), tmp_path, **options)
    with server.connect() as connection:
        assert connection.call("MGET", "before", "k") == [b"1", b"v"]
        assert connection.call("SET", "k", "w") == b"OK"
        assert connection("BGREWRITEAOF").is_error
    server.restart()
    with server.connect() as connection:
        assert connection.call("GET", "k") == b"w"
        assert connection.call("CONFIG", "SET", "rdb-overwrite-after-skip", "yes") == b"OK"
        assert not connection("BGREWRITEAOF").is_error
        done = lambda: persistence(connection)["aof_base_size"] != "0" and not (  # noqa: E731
            folder / "appendonly.aof.1.base.rdb"
        ).exists()
        eventually(done, "the base is not rewritten")


def test_a_dump_of_redis_server_with_a_module(start_server, tmp_path):
    library = oracle_path().parent / "falkordb.so"
    if not library.exists():
        pytest.skip("there is no module to load")
    oracle = start_server("oracle", options={"loadmodule": str(library)})
    with oracle.connect() as connection:
        connection.call("GRAPH.QUERY", "graph", "CREATE (:person {name: 'a'})")
        connection.call("SET", "plain", "value")
        connection.call("SAVE")
    (tmp_path / "dump.rdb").write_bytes((oracle.directory / "dump.rdb").read_bytes())
    server = start_server(directory=tmp_path, options={"rdb-skip-unknown-types": "yes"})
    assert '"graph"' in server.log_text() and "graphdata" in server.log_text()
    with server.connect() as connection:
        assert connection.call("KEYS", "*") == [b"plain"]
