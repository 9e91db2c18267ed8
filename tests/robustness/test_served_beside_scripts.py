"""What clients get while a slow script has their worker."""

import signal
import threading

import pytest

from support.servers import subject_is_oracle
from support.waiting import eventually

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="redis-server serves nobody beside a script")
LOOP = "local i = 0 while i < tonumber(ARGV[1]) do i = i + 1 end return i"


def test_held_back_writes_are_told_of(start_server):
    """A write that CLIENT PAUSE held back runs beside the script: trackers and listeners learn of it."""
    options = {"busy-reply-threshold": "50", "notify-keyspace-events": "KEA", "save": ""}
    server = start_server(options=options, workers=1)
    with server.connect() as writer, server.connect() as other, server.connect() as listener:
        with server.connect() as tracking, server.connect() as broadcast, server.connect() as runner:
            for _ in range(2):
                # From then on it is known to need no keys.
                other.call("EVAL_RO", LOOP, 0, 10)
            listener.call("SUBSCRIBE", "__keyspace@0__:k")
            for client in (tracking, broadcast):
                client.call("HELLO", 3)
            tracking.call("CLIENT", "TRACKING", "ON")
            assert tracking.call("GET", "k") is None
            broadcast.call("CLIENT", "TRACKING", "ON", "BCAST")
            other.call("CLIENT", "PAUSE", 2_000, "WRITE")
            writer.send("SET", "k", "v")
            script = threading.Thread(target=lambda: runner("EVAL_RO", LOOP, 0, 10**13))
            script.start()
            try:
                assert writer.read().plain() == b"OK"
                assert listener.read(timeout=20).plain()[2] == b"set"
                for client in (tracking, broadcast):
                    assert client.read(timeout=20).plain() == [b"invalidate", [b"k"]]
            finally:
                eventually(lambda: not other("SCRIPT", "KILL").is_error, "the script can not be killed")
                script.join()
            assert listener.call("PING") and other.call("DBSIZE") == 1


def is_busy(connection):
    reply = connection("GET", "k")
    return reply.is_error and reply.text().startswith("BUSY")


@pytest.mark.parametrize("words", [("SHUTDOWN",), ("SHUTDOWN", "SAVE")])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_does_not_save_at_its_end_while_a_script_runs(start_server, words, workers):
    """The script may have the shards that a dump needs, and its thread may be the one that is to end."""
    options = {"busy-reply-threshold": "50", "save": "3600 1"}
    server = start_server(options=options, workers=workers)
    with server.connect() as runner, server.connect() as other:
        runner.send("EVAL", f"redis.call('SET', KEYS[1], 1) {LOOP}", 1, "k", 10**13)
        eventually(lambda: is_busy(other), "the script does not become slow")
        assert other(*words).text().startswith("BUSY Redis is busy running a script. You can only call SCRIPT KILL")
        assert other("SCRIPT", "KILL").text().startswith("UNKILLABLE")
        other.send("SHUTDOWN", "NOSAVE")
        server.process.wait(60)


def test_a_server_ends_unsaved_though_it_was_to_save(start_server):
    """A signal has the server save, which waits for the script."""
    server = start_server(options={"busy-reply-threshold": "50", "save": "3600 1"}, workers=2)
    with server.connect() as runner, server.connect() as other:
        runner.send("EVAL", f"redis.call('SET', KEYS[1], 1) {LOOP}", 1, "k", 10**13)
        eventually(lambda: is_busy(other), "the script does not become slow")
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: "Saving the final RDB snapshot" in server.log_text(), "it does not begin to save")
        other.send("SHUTDOWN", "NOSAVE")
        server.process.wait(60)
    assert not list(server.directory.glob("*.rdb"))
