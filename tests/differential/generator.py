"""Makes random commands from the grammars in `grammar/`.

The words are few, so that commands meet the same keys, members and values again and again, also with keys of
another type. All depends on the given random generator only. What a server is free to decide is left out:
nothing expires while a stream runs (times are far away or past), SPOP takes all, BYLEX works on sorted sets
of equal scores.

A line of a grammar is a template of a command, after a number that is its weight; `:NAME word ...` says from which
words {NAME} is chosen.
"""

import pathlib
import re

from differential.stream import split_words

GRAMMARS = pathlib.Path(__file__).parent / "grammar"
PIECE = re.compile(r"[\[\](){}<>|]|[^\[\](){}<>|]+|\{[^}]*\}")
OTHER_TYPE_CHANCE = 0.05
MUTATION_CHANCE = 0.04
ODD_WORDS = [
    "",
    "abc",
    "-1",
    "0",
    "1.5",
    "nan",
    "inf",
    "9223372036854775807",
    "-9223372036854775808",
    "x y",
    "[a",
]
INITIALS = {"string": "k", "list": "l", "set": "s", "hash": "h", "zset": "z", "stream": "t"}
TYPES = list(INITIALS)
KEYS = {kind: [f"{INITIALS[kind]}{number}" for number in range(1, 5)] for kind in TYPES}
KEYS["lex"] = ["x1", "x2"]
KEYS["sketch"] = ["p1", "p2", "p3"]
KEYS["geo"] = ["g1", "g2", "g3"]
VALUES = [
    "",
    "a",
    "b",
    "hello",
    "0",
    "1",
    "-1",
    "10",
    "12345",
    "007",
    "1.5",
    "3.0",
    " 1",
    "9223372036854775807",
    "abcdefgh",
    "-9223372036854775808",
    b"bin\x00\xff\r\n",
    "x" * 9,
    "y" * 44,
    "z" * 45,
    "w" * 64,
    "v" * 65,
    "u" * 300,
    "foo",
    "bar",
]
MEMBERS = [f"m{number}" for number in range(12)] + [
    "",
    "1",
    "2",
    "3",
    "17",
    "-5",
    "x" * 9,
    "y" * 70,
    b"n\x00l",
    b"\xff",
]
SCORES = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-0",
    "0.1",
    "0.2",
    "1.5",
    "3.14",
    "1e10",
    "-2.5",
    "inf",
    "-inf",
    "1e300",
    "1e-5",
    "17",
    "1e17",
    "123456789.123",
    "5e-324",
]
FLOATS = ["0", "1", "-1", "0.1", "1.5", "-2.25", "3.0e2", "1e-3", "5.0", "100", "1e17", "0.000001", "-0.1"]


class Words:
    """The made-up words, by their names in the grammars."""

    def __init__(self, random):
        self.random = random
        self.own = {}

    def key(self, kind):
        if kind == "any" or self.random.random() < OTHER_TYPE_CHANCE:
            kind = self.random.choice(TYPES)
        return self.random.choice(KEYS[kind])

    def lex(self):
        return (
            self.random.choice(KEYS["lex"]) if self.random.random() > OTHER_TYPE_CHANCE else KEYS["list"][0]
        )

    def seconds(self):
        """Mostly far away, and rarely equal to another; sometimes past."""
        return (
            self.random.choice([0, -1, -100])
            if self.random.random() < 0.08
            else self.random.randint(10**5, 10**8)
        )

    def later(self):
        """Seconds since 1970, a thousand years away."""
        return 33_000_000_000 + self.random.randint(0, 10**8)

    def moment(self):
        """Seconds since 1970, past or a thousand years away."""
        return 1 if self.random.random() < 0.08 else self.later()

    def id(self):
        """An identifier of a stream's entry, out of few."""
        return f"{self.random.randint(1, 7)}-{self.random.randint(0, 7)}"

    def trimming(self):
        """The options that trim a stream."""
        random = self.random
        operator = random.choice([[], ["="], ["~"]])
        words = random.choice([["MAXLEN", *operator, random.randint(0, 12)], ["MINID", *operator, self.id()]])
        if operator == ["~"] and random.random() < 0.5:
            words += ["LIMIT", random.randint(0, 8)]
        references = random.choice([[], [], ["KEEPREF"], ["DELREF"], ["ACKED"]])
        return references + words if random.random() < 0.5 else words + references

    def make(self, name):
        """One or more words for a name."""
        random = self.random
        if name in self.own:
            return [random.choice(self.own[name])]
        if name in KEYS and name != "lex" or name == "any":
            return [self.key(name)]
        if name.startswith("keys:"):
            keys = [self.key(name[5:]) for _ in range(random.randint(1, 3))]
            return [len(keys), *keys]
        if name == "ids":
            ids = [self.id() for _ in range(random.randint(1, 3))]
            return [len(ids), *ids]
        if name == "trimming":
            return self.trimming()
        if name in ("fields", "fieldvalues"):
            fields = [random.choice(MEMBERS) for _ in range(random.randint(1, 3))]
            pairs = [word for field in fields for word in (field, random.choice(VALUES))]
            return [len(fields), *(fields if name == "fields" else pairs)]
        return [self.single(name)]

    def single(self, name):
        random = self.random
        makers = {
            "lex": self.lex,
            "value": lambda: random.choice(VALUES),
            "member": lambda: random.choice(MEMBERS),
            "field": lambda: random.choice(MEMBERS),
            "number": lambda: random.choice([random.randint(-20, 20), 2**63 - 1, -(2**63), "3.5", "1e3"]),
            "integer": lambda: random.choice(
                [random.randint(-10, 10), random.randint(-300, 300), 2**62, -(2**62)]
            ),
            "float": lambda: random.choice(FLOATS),
            "score": lambda: random.choice(SCORES),
            "small": lambda: random.randint(0, 5),
            "count": lambda: random.randint(0, 6),
            "index": lambda: random.randint(-12, 12),
            "rank": lambda: random.choice([1, 2, 3, -1, -2, -3, 0]),
            "offset": lambda: random.choice([0, 1, 2, 3, 7, 13, 40, 70]),
            "bit": lambda: random.choice([0, 1, 7, 8, 9, 63, 64, 100, 511]),
            "bits": lambda: random.choice("iu") + str(random.choice([1, 2, 3, 5, 8, 13, 31, 32, 33, 63])),
            "bound": lambda: random.choice(["", "", "("]) + random.choice(SCORES),
            "lexbound": lambda: random.choice(["-", "+", "[m3", "(m5", "[m1", "(m9", "[", "(", "[z"]),
            "pattern": lambda: random.choice(["*", "m*", "?", "s[12]", "*1", "[^m]*", "nothing"]),
            "ttl": self.seconds,
            "ttlms": lambda: self.seconds() * 1000,
            "at": self.moment,
            "later": self.later,
            "laterms": lambda: self.later() * 1000,
            "atms": lambda: self.moment() * 1000,
            "longitude": lambda: random.choice([
                round(random.uniform(-180, 180), random.randint(0, 6)),
                round(random.uniform(10, 20), 4),
                round(random.uniform(179, 180), 4),
                random.choice([180, -180, 0, 180.1]),
            ]),
            "latitude": lambda: random.choice([
                round(random.uniform(-85, 85), random.randint(0, 6)),
                round(random.uniform(35, 45), 4),
                random.choice([85.05112878, -85.05112878, 0, 85.1]),
            ]),
            "distance": lambda: random.choice([0, 1, 0.5, 100, 5000, 20000, round(10 ** random.uniform(-2, 5), 3)]),
            "place": lambda: "place" + str(random.randint(0, 40)),
            "sketchplace": lambda: random.choice([0, 4, 8, 15, 16, 17, 18, 19, 22, 30]),
            "sketchbytes": lambda: random.choice(
                [b"\x00", b"\x01", b"\x7f\xff", b"\x80", b"\x84\xff", b"\x40", b"\x3f", b"HYLL", b"\x7f\xfe"]
            ),
            "id": self.id,
            "ms": lambda: random.randint(1, 7),
            "interval": lambda: random.choice(["-", "+", self.id(), "(" + self.id()]),
            "streamfield": lambda: random.choice(["a", "b", "temp"]),
            "streamvalue": lambda: random.choice(VALUES + FLOATS),
            "group": lambda: random.choice(["g", "h"]),
            "consumer": lambda: random.choice(["c", "d"]),
            "db": lambda: random.choice([0, 0, 1, 2]),
        }
        return makers[name]()


def parse(text):
    """A template as nested tuples: ("all"|"one"|"maybe"|"some", parts) over words and ("word", name)."""
    tokens = re.findall(r"\{[^}]*\}|[\[\]()<>|]|\s+|[^\s\[\]()<>|{}]+", text)
    position = 0

    def sequence(closing):
        nonlocal position
        options, parts = [], []
        while position < len(tokens):
            token = tokens[position]
            position += 1
            if token == closing:
                break
            if token == "|":
                options.append(("all", parts))
                parts = []
            elif token in "[(<":
                kind = {"[": "maybe", "(": "one", "<": "some"}[token]
                parts.append((kind, sequence({"[": "]", "(": ")", "<": ">"}[token])))
            elif token.startswith("{"):
                parts.append(("word", token[1:-1]))
            else:
                parts.append(token)
        return [*options, ("all", parts)]

    return ("all", sequence(None))


class Grammar:
    """The commands of some families, with their weights."""

    def __init__(self, families, random):
        self.random, self.words = random, Words(random)
        self.templates, self.weights = [], []
        for family in families:
            for line in (GRAMMARS / f"{family}.txt").read_text().splitlines():
                if not line or line.startswith("#"):
                    continue
                if line.startswith(":"):
                    name, *words = split_words(line[1:])
                    self.words.own[name.decode()] = words
                    continue
                weight, _, rest = line.partition(" ")
                weighted = weight.isdigit()
                self.templates.append(parse(rest if weighted else line))
                self.weights.append(int(weight) if weighted else 1)

    def command(self):
        """One random command as bytes."""
        [template] = self.random.choices(self.templates, self.weights)
        words, glue = [], True
        for piece in self.expand(template):
            if piece is None:
                glue = True
            elif glue:
                words.append(piece)
                glue = False
            else:
                words[-1] += piece
        if self.random.random() < MUTATION_CHANCE:
            self.mutate(words)
        return words

    def expand(self, node):
        """The words of a node, with None between them; adjacent pieces without it form one word."""
        if isinstance(node, str):
            return [None] if node.isspace() else [node.encode()]
        kind, parts = node
        if kind == "word":
            pieces = []
            for word in self.words.make(parts):
                pieces += [None, word if isinstance(word, bytes) else str(word).encode()]
            return pieces[1:]
        if kind == "maybe" and self.random.random() < 0.55:
            return [None]
        if kind in ("maybe", "one"):
            return self.expand(self.random.choice(parts))
        pieces = []
        for _ in range(self.random.randint(1, 3) if kind == "some" else 1):
            for part in parts:
                pieces += self.expand(part)
            if kind == "some":
                pieces.append(None)
        return pieces

    def mutate(self, words):
        """Break a command a little."""
        if (
            len(words) < 2
            or words[0] in (b"SPOP", b"SRANDMEMBER", b"HRANDFIELD", b"ZRANDMEMBER")
            or b"0.001" in words
        ):
            return
        position = self.random.randrange(1, len(words))
        match self.random.randrange(3):
            case 0:
                del words[position]
            case 1:
                words.insert(position, words[position])
            case 2:
                word = self.random.choice(ODD_WORDS)
                # NaN is a value of time series since Redis 8.6.
                words[position] = ("inf" if word == "nan" and words[0].startswith(b"TS.") else word).encode()
