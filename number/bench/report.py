#!/usr/bin/env python3
"""Writes bench/results.svg and the tables of bench/RESULTS.md from what the two benchmarks print with --json.

    build/bench 200 --json > c.json
    cargo bench -p mantissa-number --bench compare -- 200 --json > rust.json
    bench/report.py c.json rust.json "the machine, in words"

The text of RESULTS.md outside the marked tables is written by hand.
"""

import datetime
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = ["random", "canada", "mesh", "bits", "prices", "unix"]
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
COLOURS = {
    "ours": "#0b6e4f",
    "fast_float": "#c8553d",
    "fast-float2": "#c8553d",
    "std::from_chars": "#8f8f8f",
    "std": "#8f8f8f",
    "std::to_chars": "#8f8f8f",
    "zmij": "#3d6cb9",
    "ryu": "#b58900",
}


def load(path):
    return [json.loads(line) for line in open(path) if line.startswith("{")]


def table(title, records, work, unranked=("score",)):
    names = []
    for record in records:
        if record["work"] == work and record["who"] not in names:
            names.append(record["who"])
    times = {(r["data"], r["who"]): r for r in records if r["work"] == work}
    lines = [f"### {title}", "", "| | " + " | ".join(names) + " | best other / ours |"]
    lines.append("|---" * (len(names) + 2) + "|")
    for data in DATA:
        row = [times[data, name] for name in names]
        others = [entry["ns"] for entry in row[1:] if entry["who"] not in unranked]
        cells = " | ".join(f"{entry['ns']:.1f} ({entry['mb_s']:.0f})" for entry in row)
        lines.append(f"| {data} | {cells} | {min(others) / row[0]['ns']:.2f} |")
    return "\n".join(lines) + "\n"


def bulk_table(records):
    lines = [
        "### Bulk, big-endian doubles, GB/s",
        "",
        "| size | memcpy | encode | decode |",
        "|---|---|---|---|",
    ]
    for record in records:
        if record["work"] == "bulk":
            copy = record["memcpy"]
            cells = [f"{record[key]:.1f} ({record[key] / copy:.2f})" for key in ("encode", "decode")]
            lines.append(f"| {record['data']} | {copy:.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def panel(title, records, work, names, top):
    """Grouped bars of MB/s, a group for every dataset; returns the lines and the height used."""
    speeds = {(r["data"], r["who"]): r["mb_s"] for r in records if r["work"] == work}
    largest = max(speeds[data, name] for data in DATA for name in names)
    width, height, left = 100, 150, 40
    lines = [f'<text x="{left}" y="{top}" class="title">{title}</text>']
    base = top + height + 20
    for group, data in enumerate(DATA):
        x = left + group * (width + 20)
        for index, name in enumerate(names):
            speed = speeds[data, name]
            bar = speed / largest * height
            step = width / len(names)
            lines.append(
                f'<rect x="{x + index * step:.1f}" y="{base - bar:.1f}" width="{step - 2:.1f}" '
                f'height="{bar:.1f}" fill="{COLOURS[name]}"><title>{name}: {speed} MB/s</title></rect>'
            )
            lines.append(
                f'<text x="{x + (index + 0.5) * step - 1:.1f}" y="{base - bar - 3:.1f}" class="value">'
                f"{speed:.0f}</text>"
            )
        lines.append(f'<text x="{x + width / 2}" y="{base + 14}" class="label">{data}</text>')
    for index, name in enumerate(names):
        x = left + 240 + index * 125
        lines.append(f'<rect x="{x}" y="{top - 10}" width="10" height="10" fill="{COLOURS[name]}"/>')
        lines.append(f'<text x="{x + 14}" y="{top}" class="legend">{name}</text>')
    return lines, height + 70


def chart(c_records, rust_records):
    panels = [
        ("Reading, C++, MB/s", c_records, "read", ["ours", "fast_float", "std::from_chars"]),
        ("Reading, Rust, MB/s", rust_records, "read", ["ours", "fast-float2", "std"]),
        ("Printing, Rust, MB/s", rust_records, "print", ["ours", "zmij", "ryu"]),
    ]
    body, top = [], 30
    for title, records, work, names in panels:
        lines, used = panel(title, records, work, names, top)
        body += lines
        top += used
    style = (
        "text{font-family:sans-serif;fill:#222}.title{font-size:14px;font-weight:bold}"
        ".value{font-size:8px;text-anchor:middle}.label{font-size:12px;text-anchor:middle}"
        ".legend{font-size:12px}"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="780" height="{top}" viewBox="0 0 780 {top}">'
    )
    background = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, f"<style>{style}</style>", background, *body, "</svg>"]) + "\n"


def main():
    c_records, rust_records, machine = load(sys.argv[1]), load(sys.argv[2]), sys.argv[3]
    (HERE / "results.svg").write_text(chart(c_records, rust_records))
    tables = "\n".join(
        [
            f"{datetime.date.today().isoformat()}, {machine}.\n",
            "Nanoseconds a number, and MB/s of text in brackets.\n",
            table("Reading, C++ (gcc -O3)", c_records, "read"),
            table("Reading, Rust (a call into C but for short texts and integers)", rust_records, "read"),
            table("Printing, C++ (gcc -O3)", c_records, "print"),
            table("Printing, Rust (each number a call into C)", rust_records, "print"),
            bulk_table(c_records),
        ]
    )
    target = HERE / "RESULTS.md"
    text = target.read_text()
    head, rest = text.split(BEGIN)
    target.write_text(head + BEGIN + "\n\n" + tables + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
