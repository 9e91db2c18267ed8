"""Libraries of functions travel in dumps and in payloads, in both directions."""

import pytest

from support.servers import Server

LIBRARIES = {
    "small": "#!lua name=small\nredis.register_function('one', function() return 1 end)",
    "large": "#!lua name=large\n"
    + "-- words that compress well\n" * 200
    + "redis.register_function{function_name='add', "
    "callback=function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end, description='Adds.'}",
    "odd": "#!lua name=odd\nredis.register_function('text', function() return '\x00\xff\\r\\n' end)",
}


def check(connection):
    names = sorted(library[1] for library in connection("FUNCTION", "LIST").plain())
    assert names == [b"large", b"odd", b"small"]
    assert connection.call("FCALL", "one", 0) == 1
    assert connection.call("FCALL", "add", 1, "sum", 5) in (5, 10, 15)
    codes = {library[1]: library[7] for library in connection("FUNCTION", "LIST", "WITHCODE").plain()}
    assert codes == {name.encode(): code.encode("latin-1") for name, code in LIBRARIES.items()}


def fill(connection):
    for code in LIBRARIES.values():
        connection.call("FUNCTION", "LOAD", code.encode("latin-1"))


@pytest.mark.parametrize("writer, reader", [("subject", "oracle"), ("oracle", "subject"), ("subject", "subject")])
def test_libraries_travel_in_dumps(writer, reader, start_server):
    first = start_server(writer)
    with first.connect() as connection:
        fill(connection)
        check(connection)
        connection.call("SAVE")
    first.kill()
    with Server(reader, directory=first.directory) as second, second.connect() as connection:
        check(connection)
        connection.call("DEBUG", "RELOAD")
        check(connection)


def test_libraries_travel_in_payloads(start_server):
    subject, oracle = start_server("subject"), start_server("oracle")
    with subject.connect() as ours, oracle.connect() as theirs:
        fill(ours)
        assert theirs.call("FUNCTION", "RESTORE", ours.call("FUNCTION", "DUMP")) == b"OK"
        check(theirs)
        ours.call("FUNCTION", "FLUSH")
        assert ours.call("FUNCTION", "RESTORE", theirs.call("FUNCTION", "DUMP")) == b"OK"
        check(ours)


def test_damaged_payloads_are_refused(start_server):
    subject, oracle = start_server("subject"), start_server("oracle")
    with subject.connect() as ours, oracle.connect() as theirs:
        fill(theirs)
        payload = theirs.call("FUNCTION", "DUMP")
        for length in range(0, len(payload), 7):
            replies = [side("FUNCTION", "RESTORE", payload[:length]) for side in (ours, theirs)]
            assert replies[0].raw == replies[1].raw, length
        assert ours.call("FUNCTION", "LIST") == []
