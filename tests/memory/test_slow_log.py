"""The log of slow commands keeps little of a large one."""

from support.memory import used
from support.servers import Server

COMMANDS = 100
# Each worker has a buffer for long requests.
OPTIONS = {"slowlog-log-slower-than": "0", "slowlog-max-len": str(COMMANDS), "worker-threads": "1"}


def test_slow_commands_with_many_arguments_take_little_memory():
    with Server("subject", OPTIONS) as server:
        with server.connect() as connection:
            words = ["EXISTS", *["x" * 10] * 20_000]
            connection.call(*words)
            before = used(connection)
            for _ in range(COMMANDS):
                connection.call(*words)
            # 32 arguments each.
            assert used(connection) - before < COMMANDS * 4096
