#!/usr/bin/env python3
"""Writes that are made durable one by one, side by side: this server and redis-server, `appendfsync always`.

    bench/always.py [--mantissa PATH] [--redis PATH] [--rounds N] [--seconds N] [--connections N]

Prints SETs a second, through TCP and through a Unix socket, one request at a time and sixteen: medians of
rounds that alternate, and the median of the ratios within a round. The load is closed_loop.c, which takes
less of a processor than redis-benchmark does; where it and the server share two, it matters. The files are
in the folder for temporary files: that is to be on a disk.
"""
import argparse
import os
import statistics
import subprocess
import tempfile

from servers import ROOT, Server, add_programs, in_turn, programs

DEPTHS = (1, 16)


def started(name, command, folder):
    """A server and its Unix socket."""
    path = os.path.join(folder, name)
    options = ("--appendonly", "yes", "--appendfsync", "always", "--unixsocket", path)
    return Server(name, command, *options), path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each server, way and depth in a round")
    parser.add_argument("--connections", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        load = os.path.join(folder, "closed_loop")
        subprocess.run(["cc", "-O2", "-o", load, os.path.join(ROOT, "bench/closed_loop.c")], check=True)
        servers = {name: started(name, command, folder) for name, command in programs(options).items()}
        rates = {(way, depth, name): [] for way in ("TCP", "Unix") for depth in DEPTHS for name in servers}
        for number in range(options.rounds):
            for way, depth, name in in_turn(list(rates), number):
                server, path = servers[name]
                place = path if way == "Unix" else str(server.port)
                words = [load, place, str(options.connections), str(depth), str(options.seconds)]
                answer = subprocess.run(words, check=True, capture_output=True, text=True).stdout
                rates[way, depth, name].append(float(answer))
        for server, _ in servers.values():
            server.stop()
    print("| way | requests at a time | mantissa | redis | ratio |\n| --- | --- | --- | --- | --- |")
    for way, depth in dict.fromkeys(key[:2] for key in rates):
        own, rival = (rates[way, depth, name] for name in servers)
        ratio = statistics.median(ours / theirs for ours, theirs in zip(own, rival))
        print(f"| {way} | {depth} | {statistics.median(own):,.0f} | {statistics.median(rival):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
