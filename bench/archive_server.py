#!/usr/bin/env python3
"""What snapshots by the server, and the log in its archive, cost the server's clients.

    bench/archive_server.py [--mantissa PATH] [--keys N] [--requests N]

A server gets keys with values of 100 bytes that no compression makes smaller. One client sends GET after GET, first
with nothing else to do, then while a BGSAVE is under way, then while a snapshot for the archive is. Then `mantissa
benchmark` sends SETs of 100 bytes, with `archive-log` off and on by turns, and the segments are counted.
"""
import argparse
import os
import random
import statistics
import subprocess
import time

from servers import ROOT, Server


def info(server):
    text = server.call(("INFO", "persistence"))[0]
    text = text.decode() if isinstance(text, bytes) else text
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def latencies(server, keys, is_busy):
    """Microseconds of GETs, one after the other, until nothing is busy any more; and how long that took."""
    generator, found, began = random.Random(2), [], time.monotonic()
    while True:
        for _ in range(500):
            key = f"key:{generator.randrange(keys):08}"
            at = time.perf_counter()
            server.call(("GET", key))
            found.append((time.perf_counter() - at) * 1e6)
        if not is_busy():
            return sorted(found), time.monotonic() - began


def tell(name, found, seconds):
    p50, p99, most = (found[min(int(len(found) * part), len(found) - 1)] for part in (0.5, 0.99, 1.0))
    print(f"| {name} | {seconds:.1f} | {p50:.0f} | {p99:.0f} | {most:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mantissa", default=os.path.join(ROOT, "target/dist/mantissa"))
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=1_000_000)
    options = parser.parse_args()
    generator = random.Random(1)
    server = Server("mantissa", [options.mantissa, "server"], "--enable-protected-configs", "yes")
    archive = os.path.join(server.folder, "archive")
    subprocess.run([options.mantissa, "archive", "init", archive], check=True, capture_output=True)
    server.call(*((("SET", f"key:{n:08}", generator.randbytes(100))) for n in range(options.keys)))
    server.call(("CONFIG", "SET", "archive-url", archive))
    print("| while | s | p50 us | p99 us | max us |\n| --- | --- | --- | --- | --- |")
    end = time.monotonic() + 3
    tell("nothing else", *latencies(server, options.keys, lambda: time.monotonic() < end))
    server.call(("BGSAVE",))
    tell("BGSAVE", *latencies(server, options.keys, lambda: info(server)["rdb_bgsave_in_progress"] == "1"))
    for name in ("the first snapshot", "a snapshot of the same"):
        saves = info(server)["archive_saves"]
        server.call(("MANTISSA.ARCHIVE", "NOW"))
        tell(name, *latencies(server, options.keys, lambda: info(server)["archive_saves"] == saves))  # noqa: B023
    rates = {"no": [], "yes": []}
    for _ in range(3):
        for setting, found in rates.items():
            server.call(("CONFIG", "SET", "archive-log", setting))
            wanted = (str(int(setting == "yes")), "0")
            while tuple(info(server)[name] for name in ("archive_log_enabled", "archive_in_progress")) != wanted:
                time.sleep(0.05)
            words = ["-p", server.port, "-t", "set", "-d", 100, "-r", options.keys, "-n", options.requests, "-P", 16]
            command = [options.mantissa, "benchmark", *map(str, words), "--csv"]
            out = subprocess.run(command, check=True, capture_output=True, text=True)
            found.append(float(out.stdout.splitlines()[-1].split(",")[1].strip('"')))
    for setting, found in rates.items():
        print(f"SET with archive-log {setting}: {statistics.median(found):.0f} a second, median of {found}")
    figures = info(server)
    print({name: figures[name] for name in figures if name.startswith("archive_")})
    server.stop()


if __name__ == "__main__":
    main()
