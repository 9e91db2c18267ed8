"""CONFIG SET of every setting to odd values, compared with redis-server: the reply, and what CONFIG GET says."""

import pytest

from differential.runner import Mismatch
from support.resp import show
from support.servers import Server

VALUES = [
    *(b"", b"abc", b"0", b"-1", b"1.5", b"-0", b" 1", b"1 ", b"+1", b"01", b"1e3", b"inf", b"nan", b"-inf", b"0x10"),
    *(b"0x1p3", b"1e400", b"1e-400", b"9223372036854775807", b"-9223372036854775808", b"4294967296", b"2147483647"),
    *(b"2147483648", b"1k", b"1kb", b"1KB", b"1 kb", b"1g", b"1tb", b"-1mb", b"101%", b"50%", b"0%", b"-5%", b"0%%"),
    *(b"1\x00", b"yes", b"no", b"YES ", b"10 20", b"100.5", b"-1 2", b"50 0x32", b"50.00000001 99.9", b"101", b"+50"),
    *(b"nan 1", b"50,99", b"\t50", b"C", b"POSIX", b"1\n"),
]
# What is another one here: `a` is the letter of arrays, a type of Redis 8.8.
LATER = {("notify-keyspace-events", b"nan")}
# They move the server, lock the test out, end redis-server, or are this machine's.
LEFT_OUT = set(
    "aclfile appendonly bind daemonize dbfilename dir logfile loglevel masterauth maxclients oom-score-adj "
    "oom-score-adj-values pidfile port replicaof requirepass save slaveof tls-cluster tls-port tls-replication "
    "unixsocket cluster-announce-human-nodename tls-key-file-pass tls-client-key-file-pass".split()
)


@pytest.fixture(scope="module")
def connections():
    with Server("oracle") as oracle, Server("subject") as subject:
        yield oracle.connect(), subject.connect()


def settings_of(connection):
    words = [word.decode() for word in connection("CONFIG", "GET", "*").plain()]
    return dict(zip(words[::2], words[1::2]))


def test_odd_values(connections):
    values = [settings_of(connection) for connection in connections]
    found = []
    for name in sorted(set(values[0]) - LEFT_OUT):
        is_same = values[0][name] == values[1].get(name)
        for odd in VALUES:
            if (name, odd) in LATER:
                continue
            answers, shown = [], []
            for connection, before in zip(connections, values):
                answers.append(connection("CONFIG", "SET", name, odd))
                shown.append(connection("CONFIG", "GET", name))
                if not answers[-1].is_error:
                    connection("CONFIG", "SET", name, before.get(name, ""))
            for left, right in [answers, shown] if is_same else [answers]:
                if left.raw != right.raw:
                    found.append(Mismatch(name, show(odd), show(left.raw), show(right.raw)))
    assert not found, f"{len(found)} mismatches\n" + "\n".join(map(str, found[:40]))
