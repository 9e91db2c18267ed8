"""Writes README's list of the commands of redis-server 8.2.3 that are not there yet: ours and its COMMAND LIST
compared. Run it after a command was added:

    .test-env/bin/python tests/differential/missing_commands.py

`test_command_table.py` fails if the list is not current.
"""

import pathlib
import sys
import textwrap

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from support.modules import COMMANDS  # noqa: E402

README = TESTS.parent / "README.md"
BEGIN = "<!-- Missing commands, written by tests/differential/missing_commands.py -->\n"
END = "<!-- End of missing commands -->\n"
OWN = "mantissa."  # the start of the names of commands that redis-server does not have
MODULES = ("vectorset",)  # part of redis-server 8.2, but no part of its core
# The commands of vector sets: in redis-server their names are in capitals (test_vector_sets.py).
VECTORS = (
    *("vadd", "vcard", "vdim", "vemb", "vgetattr", "vinfo", "vismember", "vlinks", "vrandmember", "vrange"),
    *("vrem", "vsetattr", "vsim"),
)
# Of the core of Redis 8.4 to 8.10, and of Valkey.
LATER = (
    *("backup", "client|capa", "commandlog", "delex", "delifeq", "digest", "increx", "msetex", "script|show"),
    *("blmovem", "himport", "lmovem", "sdiffcard", "sunioncard", "xcfgset", "xidmprecord", "xnack"),
    # Of arrays.
    *("arcount", "ardel", "arget", "argrep", "arinfo", "arinsert", "arlastitems", "arlen", "armget", "armset"),
    *("arnext", "arop", "arring", "arscan", "arseek", "arset"),
)
WIDTH = 120


def names(connection):
    """All commands of a server but those of its modules, later ones and our own, subcommands as `container|name`."""
    found = {name.value.decode() for name in connection("COMMAND", "LIST").value}
    found = {name for name in found if not name.startswith((OWN, *COMMANDS, *VECTORS, *LATER))}
    for module in MODULES:
        listed = connection("COMMAND", "LIST", "FILTERBY", "MODULE", module).value
        found -= {name.value.decode() for name in listed}
    return found


def missing(ours, theirs):
    """What is missing, a container without any of its subcommands by its own name."""
    absent = theirs - ours
    return sorted(name for name in absent if name.partition("|")[0] not in absent or "|" not in name)


def described(absent):
    """The part of README between the marks."""
    words = ", ".join(name.upper().replace("|", "\N{NO-BREAK SPACE}") for name in absent)
    text = f"Commands of redis-server 8.2.3's core that are missing: {words}." if absent else (
        "No command of redis-server 8.2.3's core is missing."
    )
    lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ") + "\n"


def split_readme():
    """README before, between and after the marks."""
    before, _, rest = README.read_text().partition(BEGIN)
    between, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{README} has no line {END!r}")
    return before, between, after


def main():
    from support.servers import Server

    with Server("subject") as subject, Server("oracle") as oracle:
        with subject.connect() as ours, oracle.connect() as theirs:
            text = described(missing(names(ours), names(theirs)))
    before, _, after = split_readme()
    README.write_text(before + BEGIN + text + END + after)
    print(text, end="")


if __name__ == "__main__":
    main()
