"""A start with files that were cut or changed anywhere: all that they hold, or less said aloud, or a refusal."""

import pytest

from support.seeds import generator
from support.servers import subject_path
from support.terminal import run

KEYS = 40
CASES = 24


def command(*words):
    out = b"*%d\r\n" % len(words)
    for word in words:
        word = str(word).encode()
        out += b"$%d\r\n%s\r\n" % (len(word), word)
    return out


def whole_file():
    """Commands that make a key each, some of them in transactions; and where each of the keys is safe."""
    out, ends = command("SELECT", 0), []
    number = 0
    while number < KEYS:
        if number % 5 == 3:
            pair = command("SET", f"key {number}", "x" * 30) + command("RPUSH", f"key {number + 1}", 1, 2)
            out += command("MULTI") + pair + command("EXEC")
            ends += [len(out)] * 2
            number += 2
        else:
            out += command("SET", f"key {number}", "value\r\n" * (number % 4))
            ends.append(len(out))
            number += 1
    return out, ends


def write(folder, data, base=None):
    (folder / "appendonlydir").mkdir()
    manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n"
    if base is not None:
        manifest = "file appendonly.aof.1.base.rdb seq 1 type b\n" + manifest
        (folder / "appendonlydir" / "appendonly.aof.1.base.rdb").write_bytes(base)
    (folder / "appendonlydir" / "appendonly.aof.1.incr.aof").write_bytes(data)
    (folder / "appendonlydir" / "appendonly.aof.manifest").write_text(manifest)


def outcome(start_server, folder):
    """How many keys a start finds, or None where it refuses; and what the log says."""
    server = start_server(directory=folder, options={"appendonly": "yes"}, wait=False)
    try:
        server.wait_ready()
    except AssertionError:
        assert server.wait_exit() != 0
        return None, server.log_text()
    with server.connect() as connection:
        keys = connection.call("DBSIZE")
    server.terminate()
    return keys, server.log_text()


def repaired(folder):
    return run([subject_path(), "check", "aof", "--fix", "--yes", folder])


@pytest.mark.parametrize("case", range(CASES))
def test_a_cut_file(case, start_server, tmp_path):
    data, ends = whole_file()
    length = generator(f"cut {case}").randrange(1, len(data))
    write(tmp_path, data[:length])
    whole = sum(end <= length for end in ends)
    keys, log = outcome(start_server, tmp_path)
    if keys is None:
        # A value that looks like a command was cut.
        assert "mantissa check aof" in log
        assert repaired(tmp_path).code == 0
        keys, log = outcome(start_server, tmp_path)
    elif length not in ends and length != len(command("SELECT", 0)):
        assert "Truncating the AOF file" in log, f"cut at {length}"
    assert keys == whole, f"cut at {length}"


@pytest.mark.parametrize("case", range(CASES))
def test_a_changed_file(case, start_server, tmp_path):
    data, _ = whole_file()
    random = generator(f"change {case}")
    place, bit = random.randrange(len(data)), 1 << random.randrange(8)
    changed = bytearray(data)
    changed[place] ^= bit
    write(tmp_path, bytes(changed))
    keys, log = outcome(start_server, tmp_path)
    where = f"bit {bit} of byte {place}"
    if keys is None:
        assert "mantissa check aof" in log, where
        if "Unknown command" in log or "Wrong number of arguments" in log:
            # The form is right: nothing to repair, as with redis-check-aof.
            return
        assert repaired(tmp_path).code == 0, where
        keys, log = outcome(start_server, tmp_path)
        assert keys is not None, where
    elif keys < KEYS - 1:
        assert "Truncating the AOF file" in log or "CRITICAL" in log, f"{where}: {keys} keys"


@pytest.mark.parametrize("case", range(8))
def test_a_damaged_base(case, start_server, tmp_path, subject):
    with subject.connect() as connection:
        connection.pipeline([("SET", f"base {i}", "x" * 50) for i in range(50)])
        connection.call("SAVE")
    base = bytearray((subject.directory / "dump.rdb").read_bytes())
    random = generator(f"base {case}")
    if case % 2:
        base[random.randrange(9, len(base))] ^= 1 << random.randrange(8)
    else:
        del base[random.randrange(1, len(base)) :]
    write(tmp_path, whole_file()[0], bytes(base))
    keys, _ = outcome(start_server, tmp_path)
    assert keys is None
    assert run([subject_path(), "check", "aof", tmp_path]).code == 1
