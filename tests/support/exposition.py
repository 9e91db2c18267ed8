"""Strict parsers of the Prometheus text format 0.0.4 and of OpenMetrics 1.0, as far as a server writes them:
every family has HELP and TYPE and comes once, its samples right after them; no series comes twice; names, labels
and numbers are well formed; buckets rise up to `+Inf`, which is the count."""

import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?|[+-]Inf|NaN")
TYPES = {"gauge", "counter", "histogram", "summary"}
SUFFIXES = {
    "gauge": {""},
    "histogram": {"_bucket", "_sum", "_count"},
    "summary": {"", "_sum", "_count"},
}
UNITS = ("seconds", "bytes", "ratio")


class Family:
    """A metric: its type, help and unit, and its samples by suffix and labels."""

    def __init__(self, name, help_text):
        self.name = name
        self.help = help_text
        self.type = None
        self.unit = None
        self.samples = {}


def unescape(text, with_quotes):
    allowed = {"\\\\": "\\", "\\n": "\n"} | ({'\\"': '"'} if with_quotes else {})

    def one(found):
        assert found[0] in allowed, text
        return allowed[found[0]]

    return re.sub(r"\\.?", one, text)


def parse_labels(text):
    labels, position = {}, 0
    assert text != "", "empty braces"
    while text and position < len(text):
        found = LABEL.match(text, position)
        assert found, text
        assert found[1] not in labels, text
        labels[found[1]] = unescape(found[2], True)
        assert found[3] == "" or found.end() < len(text), text
        position = found.end()
    return labels


def parse_number(text):
    assert NUMBER.fullmatch(text), text
    return float(text)


def parse(content, openmetrics):
    """The families of a text, by name. The name of a counter is without `_total` in OpenMetrics."""
    text = content.decode("utf-8")
    assert text.endswith("\n") and "\r" not in text
    lines = text[:-1].split("\n")
    if openmetrics:
        assert lines.pop() == "# EOF"
    families, family = {}, None
    for line in lines:
        if line.startswith("# HELP "):
            _, _, name, help_text = line.split(" ", 3)
            assert re.fullmatch(NAME, name) and name not in families, line
            assert family is None or family.samples, f"{family.name} has no samples"
            family = families[name] = Family(name, unescape(help_text, openmetrics))
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family.name and family.type is None and not family.samples, line
            assert kind in TYPES, line
            assert kind != "gauge" or openmetrics or not name.endswith(("_sum", "_count")), line
            family.type = kind
        elif line.startswith("# UNIT "):
            _, _, name, unit = line.split(" ")
            assert openmetrics and name == family.name and family.unit is None, line
            assert name.endswith("_" + unit) and unit in UNITS, line
            family.unit = unit
        else:
            add_sample(family, line, openmetrics)
    check(families, openmetrics)
    return families


def add_sample(family, line, openmetrics):
    found = SAMPLE.fullmatch(line)
    assert found, line
    name, labels, value = found.groups()
    assert family.type and name.startswith(family.name), line
    suffix = name[len(family.name) :]
    counter = {"_total"} if openmetrics else {""}
    assert suffix in SUFFIXES.get(family.type, counter), line
    labels = parse_labels(labels) if labels is not None else {}
    assert ("quantile" in labels) == (suffix == "") or family.type != "summary", line
    assert not (openmetrics and family.type == "summary"), "quantiles in percent are none there"
    assert ("le" in labels) == (suffix == "_bucket"), line
    if "le" in labels and openmetrics:
        assert labels["le"] == "+Inf" or re.search(r"[.e]", labels["le"]), line
    key = (suffix, frozenset(labels.items()))
    assert key not in family.samples, line
    family.samples[key] = parse_number(value)


def check(families, openmetrics):
    for name, family in families.items():
        unit = next((unit for unit in UNITS if name.endswith("_" + unit)), None)
        assert family.unit == (unit if openmetrics else None), name
        assert family.help and family.samples, name
        for value in family.samples.values():
            assert not math.isnan(value), name
        if family.type == "counter":
            assert openmetrics or name.endswith("_total"), name
            assert not openmetrics or not name.endswith("_total"), name
            assert all(0 <= value < math.inf for value in family.samples.values()), name
        if family.type == "histogram":
            check_histogram(family)


def check_histogram(family):
    series = {}
    for (suffix, labels), value in family.samples.items():
        rest = frozenset(item for item in labels if item[0] != "le")
        series.setdefault(rest, {}).setdefault(suffix, {})[dict(labels).get("le")] = value
    for labels, parts in series.items():
        assert set(parts) == {"_bucket", "_sum", "_count"}, (family.name, labels)
        bounds = [float(bound) for bound in parts["_bucket"]]
        assert bounds == sorted(set(bounds)) and bounds[-1] == math.inf, (family.name, labels)
        counts = list(parts["_bucket"].values())
        assert counts == sorted(counts) and counts[-1] == parts["_count"][None], (family.name, labels)


def value(families, name, suffix="", **labels):
    """The value of one sample."""
    return families[name].samples[(suffix, frozenset(labels.items()))]


def series(families, name, label):
    """The values of a metric with one label, by that label."""
    return {dict(labels)[label]: value for (_, labels), value in families[name].samples.items()}
