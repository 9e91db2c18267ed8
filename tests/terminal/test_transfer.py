"""`mantissa import` and `mantissa export`: servers and files, both ways, nothing lost."""

import json
import os
import signal
import socket
import socketserver
import subprocess
import threading

import pytest

from support.resp import encode
from support.servers import free_port, subject_path
from support.waiting import eventually, until_written

COUNT = 1500


def fill(server):
    """Keys of all types in two databases, some that expire, some with names and values that are no text."""
    with server.connect() as connection:
        for database in (0, 3):
            connection.call("SELECT", database)
            connection.pipeline([("SET", f"string {i}", f"value {i}") for i in range(COUNT)])
            connection.call("SET", b"\xff\x00key", b"\x00\xfe\r\n\"'")
            connection.call("SET", "expiring", "x", "PXAT", 4102444800123)
            connection.call("RPUSH", "list", *[f"element {i}" for i in range(2500)])
            connection.call("SADD", "set", "a", "b, with comma", b"\xf0")
            connection.call("SADD", "numbers", *range(200))
            connection.call("HSET", "hash", "field", "value", "other", "a,b\nc")
            connection.call("ZADD", "board", "1.5", "x", "-inf", "y", "0.1", "z")
            connection.call("XADD", "stream", "5-1", "f", "v", "g", "w")
            connection.call("XADD", "stream", "6-0", "h", b"\xff")


def state(server):
    """What a server holds, by DEBUG DIGEST."""
    with server.connect() as connection:
        return connection.call("DEBUG", "DIGEST")


def keys(server):
    with server.connect() as connection:
        return connection.call("DBSIZE")


KINDS = [("oracle", "subject"), ("subject", "oracle"), ("subject", "subject")]


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_a_live_server_is_copied(kinds, start_server, tool):
    source, target = start_server(kinds[0]), start_server(kinds[1])
    fill(source)
    result = tool("import", f"redis://127.0.0.1:{source.port}", "-p", target.port, "--verify", "--batch", 50)
    assert result.code == 0, result
    total = 2 * (COUNT + 8)
    said = result.out.decode()
    assert f"imported {total} keys" in said and f"verified: {total} keys are the same" in said, said
    assert state(source) == state(target)


def test_what_is_there_stays_unless_it_is_to_be_replaced(start_server, tool):
    source, target = start_server(), start_server()
    with source.connect() as connection:
        connection.call("MSET", "a", "new", "b", "new")
    with target.connect() as connection:
        connection.call("SET", "a", "old")
    words = ["import", f"redis://127.0.0.1:{source.port}", "-p", target.port]
    result = tool(*words, "--verify")
    assert result.code == 1 and b"1 were there already" in result.out and b"1 have another value" in result.out
    with target.connect() as connection:
        assert connection.call("MGET", "a", "b") == [b"old", b"new"]
    result = tool(*words, "--replace", "--verify")
    assert result.code == 0 and b"verified: 2 keys are the same" in result.out, result
    assert state(source) == state(target)


def test_one_database_and_a_pattern(start_server, tool):
    source, target = start_server(), start_server()
    fill(source)
    words = ["import", f"redis://127.0.0.1:{source.port}/3", "-p", target.port, "--pattern", "string 1*"]
    assert tool(*words).code == 0
    with target.connect() as connection:
        assert connection.call("DBSIZE") == 0
        connection.call("SELECT", 3)
        assert connection.call("DBSIZE") == sum(str(i).startswith("1") for i in range(COUNT))


def test_a_copy_that_was_cut_off_goes_on(start_server, tool, tmp_path):
    source, target = start_server(), start_server()
    fill(source)
    bookmark = tmp_path / "bookmark"
    words = ["import", f"redis://127.0.0.1:{source.port}", "-p", target.port, "--resume", bookmark]
    words += ["--batch", 10, "--threads", 2]
    with target.connect() as connection:
        connection.call("CONFIG", "SET", "maxmemory", "1")
        assert tool(*words).code == 1
        connection.call("CONFIG", "SET", "maxmemory", "0")
    # As a copy leaves it that ended in the middle of the second database.
    run = next(
        line.split(":")[1].strip()
        for line in source.connect().call("INFO", "server").decode().splitlines()
        if line.startswith("run_id:")
    )
    bookmark.write_text(f"redis://127.0.0.1:{source.port}\n{run}\n3 0\n")
    result = tool(*words)
    assert result.code == 0 and b"Going on where the copy was cut off, in database 3" in result.err, result
    assert keys(target) == 0 and not bookmark.exists()
    assert tool(*words, "--replace").code == 0
    assert state(source) == state(target)
    bookmark.write_text("redis://elsewhere\nx\n0 5\n")
    assert b"is about a copy of" in tool(*words).err


def test_what_the_target_has_refused_is_copied_by_the_next_attempt(start_server, tool, tmp_path):
    source, target = start_server(), start_server()
    fill(source)
    with target.connect() as connection:
        connection.call("ACL", "SETUSER", "default", "resetkeys", "~string*")
        words = ["import", f"redis://127.0.0.1:{source.port}", "-p", target.port, "--resume", tmp_path / "bookmark"]
        words += ["--batch", 10, "--replace"]
        assert tool(*words).code == 1
        connection.call("ACL", "SETUSER", "default", "~*")
    assert tool(*words).code == 0
    assert state(source) == state(target) and not (tmp_path / "bookmark").exists()


@pytest.mark.parametrize("form", ["rdb", "jsonl", "csv"])
@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_files_both_ways(form, kind, start_server, tool, tmp_path):
    source, target = start_server(kind), start_server()
    fill(source)
    path = tmp_path / f"data.{form}"
    result = tool("export", path, "-p", source.port)
    assert result.code == 0 and b"exported" in result.out, result
    result = tool("import", path, "-p", target.port, "--threads", 2)
    assert result.code == 0, result
    assert state(source) == state(target)
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("form", ["rdb", "jsonl", "csv"])
def test_a_pattern_chooses_keys_of_files(form, subject, start_server, tool, tmp_path):
    with subject.connect() as connection:
        connection.pipeline([("RPUSH", f"list:{number}", "a", "b") for number in range(20)] + [("SET", "other", "1")])
        connection.call("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)")
    path = tmp_path / f"data.{form}"
    assert tool("export", path, "-p", subject.port).code == 0
    target = start_server()
    assert tool("import", path, "-p", target.port, "--pattern", "list:1*").code == 0
    with target.connect() as connection:
        assert connection.call("DBSIZE") == 11 and connection.call("LRANGE", "list:19", 0, -1) == [b"a", b"b"]
        assert connection.call("FUNCTION", "LIST") == []


@pytest.mark.parametrize("option", ["--verify", "--acl-users", "--resume=bookmark"])
def test_what_is_for_servers_is_refused_with_files(option, subject, tool, tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text('{"key": "k", "value": "v"}\n')
    result = tool("import", path, "-p", subject.port, option)
    name = option.split("=")[0].encode()
    assert result.code == 1 and name + b" is for copies of a server" in result.err
    assert tool("import", tmp_path, "-p", subject.port, "--pattern", "a*").err.startswith(b"--pattern: ")
    with subject.connect() as connection:
        assert connection.call("DBSIZE") == 0


def details(server):
    """What DEBUG DIGEST leaves out: expiries of fields, and what streams have beside their entries."""
    with server.connect() as connection:
        connection.call("SELECT", 1)
        found = [connection.call("HPEXPIRETIME", "hash", "FIELDS", 3, "a", "b", "c")]
        for key in ("stream", "empty", "fresh", *PENDING):
            facts = connection.call("XINFO", "STREAM", key)
            found.append([facts[facts.index(name) + 1] for name in STREAM_FACTS])
            for group in connection.call("XINFO", "GROUPS", key):
                found.append(group)
                consumers = connection.call("XINFO", "CONSUMERS", key, group[1])
                found.append([consumer[:4] for consumer in consumers])
                pending = connection.call("XPENDING", key, group[1], "-", "+", 100)
                found.append([[entry[0], entry[1], entry[3]] for entry in pending])
        return found


# Streams whose pending entries are deleted, and how.
PENDING = {
    "trimmed": [("XTRIM", "MINID", "3-0")],
    "emptied": [("XTRIM", "MAXLEN", 0)],
    "deleted": [("XDEL", *[f"{i}-0" for i in range(1, 7)])],
    "gaps": [("XDEL", "4-0", "6-0"), ("XTRIM", "MINID", "2-0")],
    "uncounted": [("XDEL", "2-0"), ("XSETID", "6-0", "ENTRIESADDED", 5, "MAXDELETEDID", "2-0")],
    "uncounted in front": [("XDEL", "1-0"), ("XSETID", "6-0", "ENTRIESADDED", 5, "MAXDELETEDID", "1-0")],
}

STREAM_FACTS = (b"length", b"last-generated-id", b"max-deleted-entry-id", b"entries-added")


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_fields_that_expire_and_groups_go_through_text(form, kind, start_server, tool, tmp_path):
    source, target = start_server(kind), start_server()
    with source.connect() as connection:
        connection.call("SELECT", 1)
        connection.call("HSET", "hash", "a", 1, "b", 2, "c", 3)
        connection.call("HPEXPIREAT", "hash", 4102444800123, "FIELDS", 2, "a", "c")
        for i in range(1, 1300):
            connection.call("XADD", "stream", f"{i}-0", "f", i)
        connection.call("XDEL", "stream", "3-0", "1299-0")
        for group in ("one", "two", "empty"):
            connection.call("XGROUP", "CREATE", "stream", group, "0")
        connection.call("XREADGROUP", "GROUP", "one", "anna", "COUNT", 1100, "STREAMS", "stream", ">")
        connection.call("XREADGROUP", "GROUP", "two", "b b", "COUNT", 3, "STREAMS", "stream", ">")
        connection.call("XCLAIM", "stream", "two", b"\xff", 0, "1-0", "RETRYCOUNT", 7)
        connection.call("XADD", "empty", "MAXLEN", 0, "5-5", "f", "v")
        connection.call("XGROUP", "CREATE", "fresh", "group", "$", "MKSTREAM")
        connection.call("XDEL", "stream", "10-0", "700-0")
        for key, commands in PENDING.items():
            for i in range(1, 7):
                connection.call("XADD", key, f"{i}-0", "f", i)
            connection.call("XGROUP", "CREATE", key, "group", "0")
            connection.call("XREADGROUP", "GROUP", "group", "anna", "STREAMS", key, ">")
            connection.call("XACK", key, "group", "5-0")
            for command in commands:
                connection.call(command[0], key, *command[1:])
            assert len(connection.call("XPENDING", key, "group", "-", "+", 10)) == 5
    path = tmp_path / f"data.{form}"
    assert tool("export", path, "-p", source.port).code == 0
    result = tool("import", path, "-p", target.port)
    assert result.code == 0, result
    assert state(source) == state(target) and details(source) == details(target)


def test_a_dump_that_is_exported_is_one_to_redis_server(subject, start_server, tool, tmp_path):
    fill(subject)
    assert tool("export", tmp_path / "dump.rdb", "-p", subject.port).code == 0
    assert state(start_server("oracle", directory=tmp_path)) == state(subject)


def test_pipes_and_links_stay_what_they_are(subject, tool, tmp_path):
    with subject.connect() as connection:
        connection.call("SET", "key", "value")
    pipe, real, link = tmp_path / "pipe", tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(pipe)
    real.write_text("before")
    link.symlink_to(real)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    assert tool("export", pipe, "--format", "json", "-p", subject.port).code == 0
    reader.join(60)
    assert json.loads(got[0])["key"] == "key" and pipe.is_fifo()
    assert tool("export", link, "-p", subject.port).code == 0
    assert link.is_symlink() and real.read_text() == got[0]
    assert tool("export", tmp_path, "--format", "json", "-p", subject.port).code == 1


def test_a_database_that_is_not_there_is_an_error(subject, start_server, tool, tmp_path):
    path = tmp_path / "before.rdb"
    path.write_text("an earlier one")
    result = tool("import", f"redis://127.0.0.1:{subject.port}/99", "-p", start_server().port)
    assert result.code == 1 and b"DB index is out of range" in result.err, result
    result = tool("export", "-n", "99", path, "-p", subject.port)
    assert result.code == 1 and b"DB index is out of range" in result.err, result
    assert path.read_text() == "an earlier one"


@pytest.mark.parametrize("form", ["json", "csv"])
def test_the_line_of_a_database_that_is_not_there_is_told(form, subject, tool):
    lines = [{"key": f"k{i}", "value": "v", "database": 99 if i == 2 else 0} for i in range(4)]
    text = "\n".join(json.dumps(line) for line in lines)
    if form == "csv":
        text = "key,value,database\n" + "\n".join("{key},{value},{database}".format(**line) for line in lines[1:])
    result = tool("import", "-", "--format", form, "-p", subject.port, stdin=text.encode())
    assert result.code == 1 and b"line 3: database 99: ERR DB index is out of range" in result.err, result


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_part_of_a_file(sent, subject, tmp_path):
    with subject.connect() as connection:
        connection.pipeline([("SET", f"k{i}", "v" * 100) for i in range(20_000)])
    path = tmp_path / "data.jsonl"
    path.write_text("before")
    words = [str(subject_path()), "export", str(path), "-p", str(subject.port), "--batch", "1"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    part = tmp_path / "data.jsonl.part"
    eventually(part.exists, "nothing is written")
    process.send_signal(sent)
    process.communicate(timeout=60)
    assert process.returncode == -sent
    assert not part.exists() and path.read_text() == "before"


def test_fields_that_expire_come_from_valkey(subject, start_server, tool, tmp_path):
    valkey = start_server("valkey")
    with valkey.connect() as connection:
        connection.call("HSET", "hash", "field", "value", "other", "x")
        connection.call("HPEXPIREAT", "hash", 4102444800123, "FIELDS", 1, "field")
    assert tool("cli", "-p", valkey.port, "--rdb", tmp_path / "dump.rdb").code == 0
    assert tool("import", tmp_path / "dump.rdb", "-p", subject.port).code == 0
    with subject.connect() as connection:
        assert connection.call("HPEXPIRETIME", "hash", "FIELDS", 2, "field", "other") == [4102444800123, -1]


def test_json_that_people_write(subject, tool):
    lines = [
        {"key": "number", "value": 12},
        {"key": "hash", "type": "hash", "value": {"field": "v", "other": True}},
        {"key": "board", "type": "zset", "value": {"m": 1.25}},
    ]
    text = "\n\n".join(json.dumps(line) for line in lines).encode()
    result = tool("import", "-", "--format", "json", "-p", subject.port, stdin=text)
    assert result.code == 0, result
    with subject.connect() as connection:
        assert connection.call("GET", "number") == b"12"
        assert connection.call("HGET", "hash", "other") == b"true"
        assert connection.call("ZSCORE", "board", "m") == b"1.25"
    csv = b"key,value\nk1,v1\n\"k,2\",\"a \"\"b\"\"\"\n"
    assert tool("import", "-", "--format", "csv", "-p", subject.port, stdin=csv).code == 0
    with subject.connect() as connection:
        assert connection.call("MGET", "k1", "k,2") == [b"v1", b'a "b"']
    result = tool("export", "-", "--format", "json", "-p", subject.port, "--pattern", "hash")
    assert json.loads(result.out)["value"] and result.err == b""


WRONG_JSON = [
    '"value":"v","expires_at_ms":"4102444800123"',
    '"value":"v","expires_at_ms":"x"',
    '"value":"v","expires_at_ms":true',
    '"value":"v","expires_at_ms":1.5',
    '"value":"v","expires_at_ms":18446744073709551616',
    '"type":"hash","value":[["f","v","x"]]',
    '"type":"hash","value":[["f","v",1.5]]',
    '"type":"hash","value":[["f"]]',
    '"value":"v","database":"3"',
    '"value":"v","database":-1',
    '"value":"v","database":1.5',
]
WRONG_CSV = [
    "k,string,4.1e12,,v,",
    "k,string,x,,v,",
    "k,string,1.5,,v,",
    "k,string, 4102444800123,,v,",
    "k,string,18446744073709551616,,v,",
    "k,hash,,f,v,x",
    'k,string,,,"v',
    'k,string,,,"v"x,',
    "k,string,,,v",
    "k,string,,,v,,",
]


@pytest.mark.parametrize("line", WRONG_JSON + WRONG_CSV)
def test_a_line_that_cannot_be_read_is_named_and_stores_nothing(line, subject, tool):
    if line in WRONG_JSON:
        form, text = "json", '{"key":"good","value":"v","expires_at_ms":4102444800123.0}\n{"key":"k",%s}\n' % line
    else:
        head = "key,type,expires_at_ms,field,value,field_expires_at_ms"
        form, text = "csv", f"{head}\ngood,string,4102444800123,,v,\n{line}\nlater,string,,,v,\n"
    place = b"line 2: " if form == "json" else b"line 3: "
    result = tool("import", "-", "--format", form, "-p", subject.port, stdin=text.encode())
    assert result.code == 1 and place in result.err, result
    with subject.connect() as connection:
        assert connection.call("KEYS", "*") == [b"good"]
        assert connection.call("PEXPIRETIME", "good") == 4102444800123


def test_numbers_keep_their_text(subject, tool):
    text = b"""
        {"key": "long", "value": 123456789012345678901}
        {"key": "zero", "value": 1.10}
        {"key": "hash", "type": "hash", "value": {"f": 1e3}}
        {"key": "list", "type": "list", "value": [100000000000000000000, -0, 1E+2]}
        {"key": "board", "type": "zset", "value": [["m", 1.50]]}
    """
    csv = b'key,type,field,value\nstream,stream,1-1,"[""f"",1.10]"\n'
    for form, content in (("json", text), ("csv", csv)):
        result = tool("import", "-", "--format", form, "-p", subject.port, stdin=content)
        assert result.code == 0, result
    with subject.connect() as connection:
        assert connection.call("MGET", "long", "zero") == [b"123456789012345678901", b"1.10"]
        assert connection.call("HGET", "hash", "f") == b"1e3"
        assert connection.call("LRANGE", "list", 0, -1) == [b"100000000000000000000", b"-0", b"1E+2"]
        assert connection.call("ZSCORE", "board", "m") == b"1.5"
        assert connection.call("XRANGE", "stream", "-", "+") == [[b"1-1", [b"f", b"1.10"]]]


def test_a_stream_that_fails_leaves_no_part(subject, tool):
    text = b'{"key":"s","type":"stream","value":[["5-1",["f","v"]],["4-1",["f","v"]]]}\n{"key":"k","value":"v"}\n'
    result = tool("import", "-", "--format", "json", "-p", subject.port, stdin=text)
    assert result.code == 1 and b"1 failed" in result.out and b"equal or smaller" in result.err, result
    with subject.connect() as connection:
        assert connection.call("KEYS", "*") == [b"k"]
        connection.call("SET", "s", "there")
    # What was there before stays.
    result = tool("import", "-", "--format", "json", "-p", subject.port, stdin=text)
    with subject.connect() as connection:
        assert connection.call("GET", "s") == b"there"


def test_functions_travel_in_dumps(subject, start_server, tool):
    with subject.connect() as connection:
        connection.call("FUNCTION", "LOAD", "#!lua name=one\nredis.register_function('f', function() return 7 end)")
        connection.call("SAVE")
    target = start_server()
    result = tool("import", subject.directory / "dump.rdb", "-p", target.port)
    assert result.code == 0, result
    with target.connect() as connection:
        assert connection.call("FCALL", "f", 0) == 7


LIBRARY = "#!lua name={}\nredis.register_function('{}', function() return {} end)"


def with_libraries(server, **numbers):
    with server.connect() as connection:
        for name, number in numbers.items():
            assert connection.call("FUNCTION", "LOAD", LIBRARY.format(name, name, number)) == name.encode()


@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_functions_are_copied_compared_and_replaced(kind, start_server, tool):
    source, target = start_server(kind), start_server()
    with_libraries(source, one=1, two=2)
    with_libraries(target, two=22)
    words = ["import", f"redis://127.0.0.1:{source.port}", "-p", target.port, "--verify"]
    result = tool(*words)
    assert result.code == 1 and b"imported 0 keys, 1 library of functions in" in result.out, result
    assert b"1 library of functions there already (see --replace)" in result.out
    assert b"verified: 1 library of functions is the same, 1 differs" in result.out, result
    result = tool(*words, "--replace")
    assert result.code == 0 and b"verified: 2 libraries of functions are the same\n" in result.out, result
    with target.connect() as connection:
        assert [connection.call("FCALL", name, 0) for name in ("one", "two")] == [1, 2]
    result = tool("import", f"redis://127.0.0.1:{source.port}/0", "-p", target.port)
    assert result.code == 0 and b"Not copied: 2 libraries of functions" in result.err, result


@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_users_are_copied_where_asked_for(kind, start_server, tool, tmp_path):
    source, target = start_server(kind), start_server()
    with source.connect() as connection:
        connection.call("ACL", "SETUSER", "ann", "on", ">secret", "~a*", "+get", "(~b* +set)")
        connection.call("ACL", "SETUSER", "bob", "nopass", "&news")
    words = ["import", f"redis://127.0.0.1:{source.port}", "-p", target.port, "--verify"]
    result = tool(*words)
    assert result.code == 0 and b"Not copied: 2 ACL users (see --acl-users)" in result.err, result
    result = tool(*words, "--acl-users")
    assert result.code == 0 and b"imported 0 keys, 2 ACL users" in result.out, result
    assert b"verified: 2 ACL users are the same" in result.out
    with target.connect() as connection:
        assert connection.call("AUTH", "ann", "secret") == b"OK"
        assert connection.call("GET", "abc") is None
        assert connection.call("SET", "bcd", "1") == b"OK"
    result = tool(*words, "--acl-users")
    assert result.code == 1 and b"2 ACL users there already (see --replace)" in result.out, result
    result = tool("export", tmp_path / "data.rdb", "-p", source.port)
    assert result.code == 0 and b"Not in the file: 2 ACL users" in result.err, result


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_text_files_say_what_they_have_no_place_for(form, subject, tool, tmp_path):
    with_libraries(subject, one=1)
    with subject.connect() as connection:
        connection.call("SET", "k", "v")
        connection.call("ACL", "SETUSER", "ann", "on")
    result = tool("export", tmp_path / f"data.{form}", "-p", subject.port)
    assert result.code == 0 and b"Not in the file: 1 library of functions, 1 ACL user.\n" == result.err, result


def test_functions_of_a_dump_that_are_there_do_not_end_the_import(subject, start_server, tool):
    with_libraries(subject, one=1)
    with subject.connect() as connection:
        connection.call("SET", "k", "v")
        connection.call("SAVE")
    target = start_server()
    with_libraries(target, one=11)
    words = ["import", subject.directory / "dump.rdb", "-p", target.port]
    result = tool(*words)
    assert result.code == 1 and b"imported 1 keys" in result.out, result
    assert b"1 library of functions there already (see --replace)" in result.out
    assert tool(*words, "--replace").code == 0
    with target.connect() as connection:
        assert connection.call("FCALL", "one", 0) == 1


@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_expiries_arrive_exactly(kind, start_server, tool, tmp_path):
    source = start_server(kind)
    times = {f"k{i}": 4102444800000 + i * 37 for i in range(300)}
    with source.connect() as connection:
        for key, time in times.items():
            connection.call("SET", key, "v", "PXAT", time)
    places = [f"redis://127.0.0.1:{source.port}"]
    for form in ("rdb", "jsonl", "csv"):
        places.append(tmp_path / f"data.{form}")
        assert tool("export", places[-1], "-p", source.port).code == 0
    for place in places:
        target = start_server()
        assert tool("import", place, "-p", target.port).code == 0
        with target.connect() as connection:
            assert {key: connection.call("PEXPIRETIME", key) for key in times} == times, place


class ChangingServer(socketserver.StreamRequestHandler):
    """Passes commands on to a server, on which each key changes just before its value is read."""

    def handle(self):
        with socket.create_connection(("127.0.0.1", self.server.behind.port)) as behind:
            back = threading.Thread(target=self.pass_back, args=(behind,))
            back.start()
            while words := read_words(self.rfile):
                if words[0] in (b"DUMP", b"GET", b"HSCAN"):
                    self.change(words[1])
                behind.sendall(encode(words))
            behind.shutdown(socket.SHUT_WR)
            back.join()

    def pass_back(self, behind):
        while replies := behind.recv(1 << 16):
            self.wfile.write(replies)

    def change(self, key):
        commands = self.server.changes.pop(key, [])
        with self.server.behind.connect() as connection:
            for words in commands:
                connection.call(*words)


@pytest.mark.parametrize("form", ["live", "rdb", "jsonl", "csv"])
@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_a_value_has_no_expiry_of_another_one(form, kind, start_server, tool, tmp_path):
    source, target = start_server(kind), start_server()
    with source.connect() as connection:
        connection.call("SET", "text", "volatile", "PX", 10**9)
        connection.call("HSET", "hash", "state", "volatile")
        connection.call("PEXPIRE", "hash", 10**9)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), ChangingServer) as server:
        server.daemon_threads = True
        server.behind = source
        server.changes = {
            b"text": [("SET", "text", "persistent")],
            b"hash": [("DEL", "hash"), ("HSET", "hash", "state", "persistent")],
        }
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        place = f"redis://127.0.0.1:{port}" if form == "live" else tmp_path / f"data.{form}"
        if form != "live":
            assert tool("export", place, "-p", port).code == 0
        result = tool("import", place, "-p", target.port)
        server.shutdown()
    assert result.code == 0 and server.changes == {}, result
    with target.connect() as connection:
        assert connection.call("GET", "text") == connection.call("HGET", "hash", "state") == b"persistent"
        assert [connection.call("PTTL", key) for key in ("text", "hash")] == [-1, -1]


@pytest.mark.parametrize("denied", ["-@transaction", "-pexpiretime", "-@transaction -pexpiretime"])
@pytest.mark.parametrize("kind", ["subject", "oracle"])
def test_expiries_without_transactions_and_exact_times(kind, denied, start_server, tool, tmp_path):
    source = start_server(kind)
    with source.connect() as connection:
        connection.pipeline([("SET", f"k{i}", "v", "PX", 10**9) for i in range(50)])
        connection.call("HSET", "hash", "a", 1)
        connection.call("PEXPIRE", "hash", 10**9)
        connection.call("RPUSH", "list", "x")
        connection.call("ACL", "SETUSER", "default", *denied.split())
    places = [f"redis://127.0.0.1:{source.port}", tmp_path / "data.jsonl"]
    assert tool("export", places[1], "-p", source.port).code == 0
    for place in places:
        target = start_server()
        assert tool("import", place, "-p", target.port).code == 0
        with target.connect() as connection:
            assert connection.call("PTTL", "list") == -1 and connection.call("DBSIZE") == 52
            for key in ("k0", "k49", "hash"):
                assert 0 < connection.call("PTTL", key) <= 10**9


def module_dump():
    """A dump with a key of a module's type between two that are known."""
    identifier = 0
    for character in "abcdefghi":
        identifier = identifier << 6 | ord(character) - ord("a") + 26
    value = b"\x81" + (identifier << 10 | 1).to_bytes(8, "big") + b"\x02\x07\x05\x01s\x00"
    body = b"REDIS0011" + b"\x00\x01a\x01x" + b"\x07\x05m odd" + value + b"\x00\x01b\x01y" + b"\xff"
    return body + bytes(8)


def test_keys_of_modules_are_named_and_left_out(subject, start_server, tool, tmp_path):
    path = tmp_path / "dump.rdb"
    path.write_bytes(module_dump())
    result = tool("check", "rdb", path)
    assert result.code == 0 and b'  type abcdefghi  database 0  "m odd"\n' in result.out, result
    found = json.loads(tool("check", "rdb", path, "--json").out)
    assert found["of_modules"] == [{"database": 0, "key": "m odd", "type": "abcdefghi"}]
    result = tool("import", path, "-p", subject.port)
    assert result.code == 1 and b"'m odd': it is of the module type 'abcdefghi'" in result.err, result
    target = start_server()
    result = tool("import", path, "-p", target.port, "--skip-unknown-types")
    assert result.code == 0 and b"1 of module types were left out" in result.out, result
    assert b"Left out: \"m odd\" of database 0, of the module type 'abcdefghi'" in result.err
    for server in (subject, target):
        with server.connect() as connection:
            assert connection.call("MGET", "a", "b") == [b"x", b"y"]
    result = tool("check", "rdb", tmp_path)
    assert result.code == 1 and result.err.decode().endswith(f"this is a folder, not a dump; try {path}\n"), result
    result = tool("check", path)
    assert result.code == 1 and b"Say `mantissa check rdb FILE`" in result.err and result.err.count(b"\n") == 1
    assert b"Usage: mantissa import" in tool("import").err


def read_words(file):
    """The next command of a client; empty at the end."""
    words = []
    for _ in range(int(file.readline()[1:] or 0)):
        words.append(file.read(int(file.readline()[1:]) + 2)[:-2])
    return words


class ModuleServer(socketserver.StreamRequestHandler):
    """Plays a server before version 7 that has a key of a module's type, and no functions."""

    def handle(self):
        while words := read_words(self.rfile):
            self.wfile.write(self.reply(words))

    def reply(self, words):
        start = module_dump().index(b"m odd") + 5
        payload = b"\x07" + module_dump()[start:-14] + b"\x0b\x00" + bytes(8)
        match words[0].upper():
            case b"INFO":
                return b"$28\r\n# Keyspace\r\ndb0:keys=1,x=0\r\n\r\n"
            case b"SCAN":
                return b"*2\r\n$1\r\n0\r\n*1\r\n$3\r\nodd\r\n"
            case b"SELECT":
                return b"+OK\r\n"
            case b"PTTL":
                return b":-1\r\n"
            case b"DUMP":
                return b"$%d\r\n%s\r\n" % (len(payload), payload)
        return b"-ERR unknown command\r\n"


class EndingServer(socketserver.StreamRequestHandler):
    """Plays a server that ends when it is to store something."""

    def handle(self):
        while (words := read_words(self.rfile)) and words[0].upper() != b"RESTORE":
            self.wfile.write(b"+OK\r\n")


def test_a_target_that_ends_is_told(subject, tool):
    with subject.connect() as connection:
        connection.call("MSET", *(word for number in range(1000) for word in (number, "value")))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), EndingServer) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = ["import", f"redis://127.0.0.1:{subject.port}", "-p", server.server_address[1]]
        result = tool(*words, "--batch", 1, "--threads", 2)
        server.shutdown()
    assert result.code == 1 and result.err, result


def test_keys_of_modules_on_a_live_server(subject, tool):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), ModuleServer) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = ["import", f"redis://127.0.0.1:{server.server_address[1]}", "-p", subject.port]
        failed = tool(*words)
        left_out = tool(*words, "--skip-unknown-types", "--verify")
        server.shutdown()
    assert failed.code == 1 and b"'odd': it is of the module type 'abcdefghi' (see --skip" in failed.err, failed
    assert left_out.code == 0 and b'Left out: "odd" of database 0' in left_out.err, left_out
    assert b"1 of module types were left out" in left_out.out and b"1 were left out" in left_out.out


def test_what_cannot_be_done_is_said(subject, tool, tmp_path):
    broken = tmp_path / "broken.rdb"
    broken.write_bytes(b"REDIS0011\x00\x01a")
    result = tool("import", broken, "-p", subject.port)
    assert result.code == 1 and b"broken.rdb" in result.err
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"key": "k", "value": "v"}\n{"key"}\n')
    result = tool("import", lines, "-p", subject.port)
    assert result.code == 1 and b"line 2" in result.err
    assert tool("import", tmp_path / "none.rdb", "-p", subject.port).code == 1
    assert tool("import", "what", "-p", subject.port).code == 1
    assert tool("import", f"redis://127.0.0.1:{free_port()}", "-p", subject.port).code == 1
    assert tool("export", f"redis://127.0.0.1:{subject.port}", "-p", subject.port).code == 1


def append_only(start_server, kind, **options):
    """A server with an append-only file, of which a part has been rewritten."""
    server = start_server(kind, options={"appendonly": "yes", "auto-aof-rewrite-percentage": "0"} | options)
    fill(server)
    return server


def rewrite(server):
    with server.connect() as connection:
        connection.call("BGREWRITEAOF")
        until_written(connection)


@pytest.mark.parametrize("preamble", ["yes", "no"])
@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_append_only_files_are_read(kind, preamble, start_server, tool):
    source = append_only(start_server, kind, **{"aof-use-rdb-preamble": preamble, "aof-timestamp-enabled": "yes"})
    rewrite(source)
    with source.connect() as connection:
        connection.call("SELECT", 3)
        for command in (("MULTI",), ("SET", "t", 1), ("INCR", "t"), ("EXEC",), ("DEL", "string 1")):
            connection.call(*command)
        connection.call("EVAL", "redis.call('RPUSH', 'list', 'x') redis.call('SPOP', 'numbers')", 0)
        connection.call("HPEXPIREAT", "hash", 4102444800123, "FIELDS", 1, "field")
        connection.call("FUNCTION", "LOAD", "#!lua name=one\nredis.register_function('f', function() return 7 end)")
    expected = state(source)
    source.terminate()
    target = start_server()
    result = tool("import", source.directory / "appendonlydir", "-p", target.port)
    assert result.code == 0 and b" commands in " in result.out, result
    assert state(target) == expected
    with target.connect() as connection:
        assert connection.call("FCALL", "f", 0) == 7
        connection.call("SELECT", 3)
        assert connection.call("HPEXPIRETIME", "hash", "FIELDS", 1, "field") == [4102444800123]
    result = tool("import", source.directory / "appendonlydir", "-p", target.port)
    assert result.code == 1 and b"the server is not empty" in result.err


def command(*words):
    words = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def test_what_expires_meanwhile_is_there_for_later_commands(subject, tool, tmp_path):
    past, future = 1000, 4102444800000
    lines = [
        ("SET", "kept", "v", "PXAT", past),
        ("PEXPIREAT", "kept", future),
        ("SET", "persists", 1, "PXAT", past),
        ("INCR", "persists"),
        ("PERSIST", "persists"),
        ("SET", "gone", 1, "PXAT", past),
        ("INCR", "gone"),
        ("SET", "moves", 1, "PXAT", past),
        ("RENAME", "moves", "moved"),
        ("COPY", "moved", "copied", "DB", 2),
        ("COPY", "moved", "replaced", "REPLACE", "DB", 2),
        ("SET", "stays", 1),
        ("HSET", "hash", "a", 1, "b", 2, "c", 3),
        ("HPEXPIREAT", "hash", past, "FIELDS", 2, "a", "b"),
        ("HPEXPIREAT", "hash", future, "FIELDS", 1, "b"),
        ("RPUSH", "list", "x"),
        ("EXPIREAT", "list", 1),
        ("RPUSH", "list", "y"),
    ]
    (tmp_path / "file.aof").write_bytes(b"".join(command(*line) for line in lines))
    result = tool("import", tmp_path / "file.aof", "-p", subject.port)
    assert result.code == 0, result
    with subject.connect() as connection:
        assert sorted(connection.call("KEYS", "*")) == [b"hash", b"kept", b"persists", b"stays"]
        assert connection.call("PEXPIRETIME", "kept") == future
        assert connection.call("GET", "persists") == b"2" and connection.call("PTTL", "persists") == -1
        assert sorted(connection.call("HKEYS", "hash")) == [b"b", b"c"]
        assert connection.call("HPEXPIRETIME", "hash", "FIELDS", 2, "b", "c") == [future, -1]
        connection.call("SELECT", 2)
        assert connection.call("DBSIZE") == 0


@pytest.mark.parametrize(
    "lines, told",
    [
        ([], b"imported 0 keys and ran 0 commands in "),
        ([("SELECT", 0), ("SET", "a", 1)], b"imported 0 keys and ran 1 command in "),
        ([("SET", "a", 1), ("SELECT", 1), ("SET", "b", 1)], b"imported 0 keys and ran 2 commands in "),
    ],
    ids=str,
)
def test_commands_of_append_only_files_are_counted(lines, told, subject, tool, tmp_path):
    (tmp_path / "file.aof").write_bytes(b"".join(command(*line) for line in lines))
    result = tool("import", tmp_path / "file.aof", "-p", subject.port)
    assert result.code == 0 and result.out.startswith(told), result


def test_the_end_of_an_append_only_file_may_be_torn(subject, tool, tmp_path):
    whole = command("SET", "a", 1)
    (tmp_path / "file.aof").write_bytes(whole + command("MULTI") + command("SET", "b", 1))
    result = tool("import", tmp_path / "file.aof", "-p", subject.port)
    assert result.code == 1 and b"the file ends within a transaction" in result.err, result
    with subject.connect() as connection:
        assert connection.call("KEYS", "*") == [b"a"]
        connection.call("FLUSHALL")
    (tmp_path / "file.aof").write_bytes(whole + command("LPUSH", "a", 1) + b"junk")
    result = tool("import", tmp_path / "file.aof", "-p", subject.port)
    assert result.code == 1 and b"expected a command, found 'j' at byte" in result.err, result
    assert b"1 failed" in result.out and b"WRONGTYPE" in result.err


NAMING = [("SELECT", 2), ("MOVE", "k", 2), ("COPY", "k", "c", "REPLACE", "DB", 2), ("SWAPDB", 2, 0), ("SWAPDB", 0, 2)]


@pytest.mark.parametrize("naming", NAMING, ids=[" ".join(map(str, words)) for words in NAMING])
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
def test_an_append_only_file_ends_at_a_database_that_is_not_there(inside, naming, start_server, tool, tmp_path):
    target = start_server(options={"databases": 2})
    lines = [("SET", "k", "zero"), ("SET", "near", "v", "PXAT", 1000), ("SELECT", 1), ("SET", "k", "one")]
    lines += [("MULTI",), ("SET", "l", "one")] if inside else []
    lines += [naming, ("SET", "k", "two"), ("FLUSHDB",)]
    lines += [("EXEC",)] if inside else []
    (tmp_path / "file.aof").write_bytes(b"".join(command(*line) for line in lines))
    result = tool("import", tmp_path / "file.aof", "-p", target.port)
    expected = b"the server refuses database 2: ERR DB index is out of range (what comes before that is stored)"
    assert result.code == 1 and expected in result.err, result
    with target.connect() as connection:
        assert connection.call("KEYS", "*") == [b"k"] and connection.call("GET", "k") == b"zero"
        connection.call("SELECT", 1)
        assert connection.call("KEYS", "*") == [b"k"] and connection.call("GET", "k") == b"one"


@pytest.mark.parametrize("name", ["appendonlydir/", "appendonly.aof"])
@pytest.mark.parametrize("kind", ["oracle", "subject"])
def test_append_only_files_are_written(kind, name, subject, start_server, tool, tmp_path):
    fill(subject)
    result = tool("export", f"{tmp_path}/{name}", "-p", subject.port)
    assert result.code == 0 and b"exported" in result.out, result
    assert tool("check", "aof", tmp_path / name).code == 0
    if name.endswith("/"):
        assert tool("export", f"{tmp_path}/{name}", "-p", subject.port).code == 1
    empty = start_server()
    assert tool("import", tmp_path / name, "-p", empty.port).code == 0
    assert state(empty) == state(subject)
    loaded = start_server(kind, directory=tmp_path, options={"appendonly": "yes"})
    assert state(loaded) == state(subject)
