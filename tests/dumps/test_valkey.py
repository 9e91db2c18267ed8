"""Files and payloads of valkey-server 9, which has a format of its own since hashes have fields that expire."""

import subprocess
import time

import pytest

from support.servers import Server, subject_is_oracle, subject_path
from support.state import differences, whole_state
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server does not read them")


@pytest.fixture(scope="module")
def valkey():
    with Server("valkey", options={"save": "", "hash-max-listpack-entries": 8}) as server:
        yield server


def fill(connection):
    later = int(time.time()) + 100_000
    for number in range(3000):
        connection.call("SET", f"key:{number}", "v" * (number % 50))
        connection.call("HSET", f"hash:{number % 40}", f"field:{number}", number)
    for number in range(0, 40, 2):
        fields = [f"field:{number + 40 * step}" for step in range(10)]
        connection.call("HEXPIREAT", f"hash:{number}", later + number, "FIELDS", len(fields), *fields)
    connection.call("HSET", "one", "f", "v")
    connection.call("HPEXPIREAT", "one", later * 1000, "FIELDS", 1, "f")
    connection.call("RPUSH", "list", *range(500))
    connection.call("ZADD", "scores", 1.5, "a", 2, "b")
    connection.call("XADD", "stream", "1-1", "a", "b")


def test_a_file_with_fields_that_expire(valkey, start_server, tmp_path):
    with valkey.connect() as connection:
        connection.call("FLUSHALL")
        fill(connection)
        connection.call("SAVE")
        expected = whole_state(connection)
    path = valkey.directory / "dump.rdb"
    assert path.read_bytes().startswith(b"VALKEY080")
    checked = subprocess.run([subject_path(), "check", "rdb", path], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (tmp_path / "dump.rdb").write_bytes(path.read_bytes())
    server = start_server(options={"hash-max-listpack-entries": 8}, directory=tmp_path)
    with server.connect() as connection:
        assert not (found := differences(expected, whole_state(connection), near=0)), "\n".join(found[:20])


LIBRARY = """#!lua name=lib
server.register_function('set', function(keys, args)
  return server == redis and server.call('SET', keys[1], args[1])
end)"""


def test_an_append_only_file_with_a_dump_in_front(start_server, tmp_path):
    """Its functions run commands by `server`, which is `redis` as well."""
    options = {"save": "", "appendonly": "yes"}
    with Server("valkey", options=options, directory=tmp_path) as valkey, valkey.connect() as connection:
        fill(connection)
        assert connection.call("FUNCTION", "LOAD", LIBRARY) == b"lib"
        connection.call("BGREWRITEAOF")
        eventually(lambda: b"aof_rewrite_in_progress:0" in connection.call("INFO", "persistence"), "it goes on")
        connection.call("SET", "after", 1)
        expected = whole_state(connection)
        connection.send("SHUTDOWN")
        valkey.process.wait(60)
    (base,) = (tmp_path / "appendonlydir").glob("*.base.rdb")
    assert base.read_bytes().startswith(b"VALKEY080")
    server = start_server(options=options, directory=tmp_path)
    with server.connect() as connection:
        assert not (found := differences(expected, whole_state(connection), near=0)), "\n".join(found[:20])
        assert connection.call("FCALL", "set", 1, "key", "value") == b"OK"
        script = "server.call('APPEND', 'key', '2') return redis.call('GET', 'key')"
        assert connection.call("EVAL", script, 0) == b"value2"
        assert "readonly table" in connection("EVAL", "server.x = 1", 0).text()


def test_damage_is_found(valkey, tmp_path):
    with valkey.connect() as connection:
        connection.call("FLUSHALL")
        fill(connection)
        connection.call("SAVE")
    whole = (valkey.directory / "dump.rdb").read_bytes()
    for at in range(1, len(whole), len(whole) // 25):
        path = tmp_path / "damaged.rdb"
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        checked = subprocess.run([subject_path(), "check", "rdb", path], capture_output=True, text=True, timeout=60)
        assert checked.returncode == 1, checked.stdout + checked.stderr


def test_payloads(valkey, subject):
    with valkey.connect() as theirs, subject.connect() as ours:
        theirs.call("FLUSHALL")
        fill(theirs)
        for key in ("hash:2", "hash:3", "one", "list", "scores", "stream", "key:1"):
            assert ours.call("RESTORE", key, 0, theirs.call("DUMP", key)) == b"OK"
        for key in ("hash:2", "one"):
            fields = sorted(theirs.call("HKEYS", key))
            asked = ["HPEXPIRETIME", key, "FIELDS", len(fields), *fields]
            assert ours.call(*asked) == theirs.call(*asked)
            assert ours.call("HMGET", key, *fields) == theirs.call("HMGET", key, *fields)


def test_a_configuration_file_of_all_directives(valkey, start_server, tmp_path):
    """As it is by default, and as changed as it can be where only Valkey knows the directive."""
    with valkey.connect() as connection:
        words = [word.decode() for word in connection.call("CONFIG", "GET", "*")]
    told = dict(zip(words[::2], words[1::2]))
    own = {"port", "dir", "unixsocket", "pidfile", "logfile", "replicaof", "slaveof"}
    changed = {"log-format": "logfmt", "availability-zone": "a", "primaryauth": "secret", "rdma-bind": "::1 127.0.0.1"}
    # A file has one name of each setting.
    own |= {"masterauth", "slowlog-log-slower-than", "slowlog-max-len", "commandlog-slow-execution-max-len"}
    values = {name: value for name, value in told.items() if name not in own} | changed
    lines = [f'{name} "{value}"' for name, value in values.items()]
    server = start_server(directory=tmp_path, config_lines=lines)
    with server.connect() as connection:
        assert connection.call("CONFIG", "GET", "primaryauth", "masterauth") == [
            b"primaryauth", b"secret", b"masterauth", b"secret",
        ]
        assert connection.call("CONFIG", "SET", "commandlog-execution-slower-than", 5) == b"OK"
        told = [b"slowlog-log-slower-than", b"5", b"slowlog-max-len", b"128"]
        assert connection.call("CONFIG", "GET", "slowlog-*") == told
    log = server.log_path.read_text()
    for name in ("log-format", "availability-zone", "rdma-bind"):
        assert f"The directive '{name}' is accepted but has no effect" in log
    assert "'mptcp'" not in log and "'primaryauth'" not in log
