#!/usr/bin/env python3
"""The chart and the table of README, from the figures in RESULTS.md.

    bench/chart.py            print the table
    bench/chart.py --write    write docs/compared.svg, and the table in README between its marks

Each row is this server's figure divided by that of redis-server in the same run: below 1 is better. A test fails
where the files are not what this prints.
"""
import html
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHART = ROOT / "docs" / "compared.svg"
BEGIN, END = "<!-- Ratios, written by bench/chart.py -->\n", "<!-- End of ratios -->\n"
MEMORY, CPU, SAVES = "## Memory for a key or element", "## Commands", "## Saving and loading"
# Group, name, section of RESULTS.md, first cell of its row, columns of mantissa and redis.
ROWS = [
    ("Memory", "key with an integer", MEMORY, "16 B key, integer", "B"),
    ("Memory", "key with 128 bytes", MEMORY, "16 B key, 128 B value", "B"),
    ("Memory", "member of a set", MEMORY, "set of 19 B members", "B"),
    ("Memory", "member of a sorted set", MEMORY, "sorted set, 19 B members, float scores", "B"),
    ("Memory", "field of a hash", MEMORY, "hash, 16 B fields and values", "B"),
    ("Memory", "element of a list", MEMORY, "list, 16 B elements", "B"),
    ("CPU", "GET, pipelined", CPU, "GET -P 32", "us"),
    ("CPU", "SET, pipelined", CPU, "SET -P 32", "us"),
    ("CPU", "ZADD, pipelined", CPU, "ZADD -P 32", "us"),
    ("CPU", "GET", CPU, "GET", "us"),
    ("CPU", "SET", CPU, "SET", "us"),
    ("CPU", "ZRANGE of 100", CPU, "ZRANGE 100 WITHSCORES", "us"),
    ("Saves", "SAVE of 212 MB", SAVES, "SAVE", "s"),
    ("Saves", "loading it", SAVES, "load", "s"),
    ("Saves", "extra memory", SAVES, "extra memory at most", "%"),
    ("Latency", "SET while saving, median", SAVES, "50", "ms"),
    ("Latency", "SET while saving, 99.9 %", SAVES, "99.9", "ms"),
]
COMMANDS = {
    "Memory": "bench/compare.py --memory",
    "CPU": "bench/compare.py",
    "Saves": "bench/snapshot.py",
    "Latency": "bench/snapshot.py",
}
COLOURS = {"Memory": "#2f6f9f", "CPU": "#3f8f5f", "Saves": "#a0692c", "Latency": "#7a4f9a"}


def figures():
    """Group, name, unit, this server's figure, redis-server's."""
    results = (ROOT / "bench" / "RESULTS.md").read_text()
    for group, name, section, first, unit in ROWS:
        text = results[results.index(section):]
        line = re.search(rf"^\| {re.escape(first)} \|(.*)$", text[: text.index("\n## ", 1)], re.M).group(1)
        ours, theirs = (float(re.match(r"[\d.]+", cell.strip()).group()) for cell in line.split("|")[:2])
        yield group, name, unit, ours, theirs


def table():
    lines = ["| | | Mantissa | Redis 8.2.3 | ratio | reproduce |", "| --- | --- | --- | --- | --- | --- |"]
    for group, name, unit, ours, theirs in figures():
        ratio = f"**{ours / theirs:.2f}**"
        lines.append(f"| {group} | {name} | {ours:g} {unit} | {theirs:g} {unit} | {ratio} | `{COMMANDS[group]}` |")
    return "\n".join(lines) + "\n"


def chart():
    rows, step, left, width = list(figures()), 22, 250, 420
    height = 70 + step * len(rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="760" height="{height}" fill="#ffffff"/>',
        '<text x="20" y="24" font-size="15" fill="#222">Mantissa as a part of Redis 8.2.3: shorter is better</text>',
    ]
    for index, (group, name, _, ours, theirs) in enumerate(rows):
        y, ratio = 46 + step * index, ours / theirs
        if index == 0 or rows[index - 1][0] != group:
            out.append(f'<text x="20" y="{y + 12}" fill="{COLOURS[group]}" font-weight="bold">{group}</text>')
        out.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end" fill="#333">{html.escape(name)}</text>')
        bar = max(1, round(width * ratio))
        out.append(f'<rect x="{left}" y="{y}" width="{bar}" height="15" fill="{COLOURS[group]}"/>')
        out.append(f'<text x="{left + bar + 6}" y="{y + 12}" fill="#333">{ratio:.2f}</text>')
    x, bottom = left + width, height - 22
    out.append(f'<line x1="{x}" y1="40" x2="{x}" y2="{bottom}" stroke="#888" stroke-dasharray="4 3"/>')
    out.append(f'<text x="{x}" y="{height - 7}" text-anchor="middle" fill="#666">Redis = 1</text>')
    return "\n".join([*out, "</svg>", ""])


def readme(text):
    """README with the table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        CHART.write_text(chart())
        (ROOT / "README.md").write_text(readme((ROOT / "README.md").read_text()))
    else:
        print(table(), end="")
