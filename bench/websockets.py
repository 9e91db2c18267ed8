#!/usr/bin/env python3
"""Messages over WebSocket a second, and the server's processor time for one: beside Bun and Node.js with ws.

    bench/websockets.py [--mantissa PATH] [--rounds N] [--seconds N] [--subscribers N]

Medians of rounds in random order. One client program (bench/websocket.c) for all: a message of 14 bytes and its answer
over 1 and 100 connections, here PING, there an echo; and a message of 12 bytes to all subscribers. `sockets alone` is
bench/websocket_floor.c, which looks at nothing it is sent. Needs a C compiler, Node.js and npm, by which it installs
bun and ws in a folder of its own.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import tempfile

from servers import ROOT, Server, free_port

PACKAGES = ["bun@1.4.5", "ws@8.23.0"]
PING = r"*1\r\n$4\r\nPING\r\n"
PUBLISH = r"*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$12\r\nhello, world\r\n"
SUBSCRIBE = r"*2\r\n$9\r\nSUBSCRIBE\r\n$4\r\nnews\r\n"


class Mantissa(Server):
    """This server, at whose HTTP port is WebSocket."""

    echo, fan = ("/ws", PING), ("/ws", PUBLISH, SUBSCRIBE)

    def __init__(self, program):
        super().__init__("mantissa", [program, "server"], "--http-port", str(free_port()))
        self.web_port = int(self.call(("CONFIG", "GET", "http-port"))[0][1])


class Rival:
    """A server of JavaScript."""

    echo, fan = ("/echo", "fourteen bytes"), ("/fan", "hello, world", "subscribe")

    def __init__(self, name, *words):
        self.name = name
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.web_port = int(self.process.stdout.readline())

    cpu_seconds = Server.cpu_seconds

    def stop(self):
        self.process.kill()
        self.process.wait()


def measure(server, client, kind, connections, seconds):
    """Messages a second, and microseconds of the server's processor time for one."""
    path, *messages = getattr(server, kind)
    before = server.cpu_seconds()
    words = [client, str(server.web_port), path, kind, str(connections), str(seconds), *messages]
    rate = float(subprocess.run(words, capture_output=True, check=True, text=True, timeout=600).stdout)
    return rate, (server.cpu_seconds() - before) / (rate * seconds) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.path.join(ROOT, "target/dist/mantissa")
    parser.add_argument("--mantissa", type=os.path.abspath, default=default, help="this server's program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--subscribers", type=int, default=9000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        client = os.path.join(folder, "websocket")
        floor = os.path.join(folder, "websocket_floor")
        for program in (client, floor):
            source = os.path.join(ROOT, "bench", os.path.basename(program) + ".c")
            subprocess.run(["cc", "-O2", "-o", program, source], check=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", folder, *PACKAGES], check=True)
        script = shutil.copy(os.path.join(ROOT, "bench/websocket_servers.mjs"), folder)
        bun = os.path.join(folder, "node_modules/.bin/bun")
        servers = [Mantissa(options.mantissa), Rival("bun", bun, script), Rival("ws", "node", script)]
        servers.append(Rival("sockets alone", floor))
        print("| load | server | messages/s | of Bun's | us | of Bun's |")
        print("| --- | --- | --- | --- | --- | --- |")
        picker = random.Random(7)
        loads = [("round trips, 1 connection", "echo", 1), ("round trips, 100 connections", "echo", 100)]
        loads.append((f"to {options.subscribers} subscribers", "fan", options.subscribers))
        for name, kind, connections in loads:
            figures = {server.name: [] for server in servers}
            for _ in range(options.rounds):
                for server in picker.sample(servers, len(servers)):
                    figures[server.name].append(measure(server, client, kind, connections, options.seconds))
            medians = {name: list(map(statistics.median, zip(*rows))) for name, rows in figures.items()}
            for server, (rate, cost) in medians.items():
                of_rate, of_cost = rate / medians["bun"][0], cost / medians["bun"][1]
                print(f"| {name} | {server} | {rate:,.0f} | {of_rate:.2f} | {cost:.2f} | {of_cost:.2f} |", flush=True)
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
