"""Free TCP ports for servers that bind them later, in another process.

They lie below the kernel's ephemeral ports, so no outgoing connection takes one in between. A process holds
a block of them by the name of an abstract socket, which the kernel frees with the process, so two test processes
never choose the same one.

On the command line: `ports.py COUNT` prints so many.
"""

import os
import socket
import sys

BLOCK = 400
LOWEST = 10_000


def ephemeral_ports_start():
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        return int(file.read().split()[0])


def hold_block(first):
    """The socket whose name stands for the block, or None where another process has it."""
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f"\0mantissa-test-ports-{first}")
        return holder
    except OSError:
        holder.close()
        return None


def can_be_bound(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


class Ports:
    """The ports of one process, handed out in turn. A forked process takes a block of its own."""

    def __init__(self):
        self.owner = self.holder = None

    def take_block(self):
        end = ephemeral_ports_start()
        # Another process starts elsewhere, so that a port is not used again at once.
        blocks = range(min(LOWEST, end // 2), end - BLOCK + 1, BLOCK)
        for turn in range(len(blocks)):
            self.first = blocks[(os.getpid() + turn) % len(blocks)]
            self.holder = hold_block(self.first)
            if self.holder:
                self.owner, self.taken = os.getpid(), 0
                return
        raise OSError(f"all ports from {blocks.start} to {end} are held by other processes")

    def next(self):
        if self.owner != os.getpid():
            self.take_block()
        for _ in range(BLOCK):
            port = self.first + self.taken % BLOCK
            self.taken += 1
            if can_be_bound(port):
                return port
        raise OSError(f"no free port from {self.first} to {self.first + BLOCK - 1}")


free_port = Ports().next


if __name__ == "__main__":
    print(*(free_port() for _ in range(int(sys.argv[1]))))
