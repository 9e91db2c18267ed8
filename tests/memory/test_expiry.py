"""Keys whose time has passed go by themselves, and their memory with them."""

from support.memory import figure, used


def wait_until(connection, keys):
    while connection.call("DBSIZE") > keys:
        pass


def test_all_of_many_go_and_their_memory_comes_back(subject):
    with subject.connect() as connection:
        connection("SET", "warm", "up")
        before = used(connection)
        for start in range(0, 50_000, 1_000):
            connection.pipeline([("SET", f"key:{n}", "v" * 100, "PX", "1") for n in range(start, start + 1_000)])
        wait_until(connection, 1)
        assert used(connection) < before + (1 << 20)
        assert int(figure(connection, "expired_keys")) == 50_000


def test_rare_ones_among_many_go_too(subject):
    with subject.connect() as connection:
        for start in range(0, 100_000, 1_000):
            connection.pipeline([("SET", f"key:{n}", "v") for n in range(start, start + 1_000)])
        for number in range(20):
            connection("SET", f"expiring:{number}", "v", "PX", "1")
        wait_until(connection, 100_000)


def test_databases_do_not_wait_for_each_other(subject):
    with subject.connect() as connection:
        for database in range(16):
            connection("SELECT", str(database))
            connection.pipeline([("SET", f"key:{n}", "v", "PX", "1") for n in range(500)])
        for database in range(16):
            connection("SELECT", str(database))
            wait_until(connection, 0)


def test_events_are_published_without_access(subject):
    with subject.connect() as connection, subject.connect() as listener:
        connection("CONFIG", "SET", "notify-keyspace-events", "Ex")
        listener("SUBSCRIBE", "__keyevent@0__:expired")
        connection("SET", "gone", "v", "PX", "1")
        assert listener.read().plain()[2] == b"gone"


def test_effort_and_its_figures(subject):
    with subject.connect() as connection:
        for effort in (1, 10):
            assert connection.call("CONFIG", "SET", "active-expire-effort", str(effort)) == b"OK"
            connection.pipeline([("SET", f"key:{n}", "v", "PX", "1") for n in range(5_000)])
            wait_until(connection, 0)
        assert connection("CONFIG", "SET", "active-expire-effort", "11").is_error
        assert float(figure(connection, "expired_stale_perc")) >= 0
        connection("CONFIG", "RESETSTAT")
        assert int(figure(connection, "expired_keys")) == 0


def test_it_can_be_turned_off(subject):
    with subject.connect() as connection:
        connection("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        connection.pipeline([("SET", f"key:{n}", "v", "PX", "1") for n in range(100)])
        while connection.call("GET", "key:0") is not None:
            pass
        assert connection.call("DBSIZE") >= 90
        connection("DEBUG", "SET-ACTIVE-EXPIRE", "1")
        wait_until(connection, 0)
