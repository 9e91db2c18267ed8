"""redis_exporter itself, pointed at this server and at redis-server: what it shows of one it shows of the other, and
`metrics-port` shows the same names, labels and figures without it.

The program is what REDIS_EXPORTER names, else `redis_exporter` or Debian's `prometheus-redis-exporter`; the tests
are skipped where there is none."""

import os
import re
import shutil
import subprocess
import urllib.request

import pytest
from support.http import ask
from support.servers import die_with_parent, free_port
from support.waiting import eventually

from .test_metrics import MOVING, MOVING_BEGINNINGS, info, use

EXPORTER = (
    os.environ.get("REDIS_EXPORTER") or shutil.which("redis_exporter") or shutil.which("prometheus-redis-exporter")
)
pytestmark = pytest.mark.skipif(EXPORTER is None, reason="there is no redis_exporter: see tests/README.md")

SAMPLE = re.compile(r"([a-zA-Z_:0-9]+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
# What it says of keys, clients and settings on request only.
EVERYTHING = [
    "-include-config-metrics",
    "-include-system-metrics",
    "-export-client-list",
    "-check-keys=db0=key*",
    "-check-streams=db0=stream*",
    "-count-keys=db0=key*",
]
# Series of the exporter's own work, one that it takes for a field of KeyDB's, and pieces of lines that it can't read.
OF_THE_EXPORTER = re.compile(
    r"redis_(db_keys_cached|exporter_build_info|exporter_last_scrape_connect_time_seconds"
    r"|exporter_scrape_duration_seconds(_sum|_count)?|target_scrape_request_errors_total"
    r"|last_key_groups_scrape_duration_milliseconds|db\d+_distrib_[a-z_]+)"
)


class Text:
    """The metrics of a text: their types, and their values by name and labels."""

    def __init__(self, text):
        self.types, self.values = {}, {}
        for line in text.splitlines():
            if line.startswith("# TYPE redis_"):
                _, _, name, kind = line.split()
                self.types[name] = kind
            elif line.startswith("redis_"):
                name, labels, value = SAMPLE.fullmatch(line).groups()
                self.values[name, frozenset(LABEL.findall(labels or ""))] = float(value)

    def label_names(self):
        """The names of the labels of each series' name."""
        names = {}
        for name, labels in self.values:
            names.setdefault(name, set()).update(label for label, _ in labels)
        return names

    def value(self, name, **labels):
        return self.values[name, frozenset(labels.items())]


@pytest.fixture
def exported():
    """Runs exporters; gives what one shows of a server."""
    processes = []

    def export(server, options=()):
        port = free_port()
        log_path = server.directory / f"exporter-{port}.log"
        words = [EXPORTER, f"-redis.addr=redis://127.0.0.1:{server.port}", f"-web.listen-address=127.0.0.1:{port}"]
        with open(log_path, "wb") as log:
            process = subprocess.Popen(
                [*words, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        processes.append(process)
        texts = []

        def answers():
            assert process.poll() is None, log_path.read_text()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
                    texts.append(response.read().decode())
            except OSError:
                return False
            return True

        eventually(answers, "the exporter does not answer")
        said = log_path.read_text()
        assert "level=err" not in said and "level=warn" not in said, said
        return Text(texts[-1])

    yield export
    for process in processes:
        process.kill()
        process.wait()


def use_more(client):
    """A stream with a group too."""
    use(client)
    client.call("XADD", "stream", "*", "field", "value")
    client.call("XGROUP", "CREATE", "stream", "group", "0")
    client.call("XREADGROUP", "GROUP", "group", "consumer", "STREAMS", "stream", ">")
    client.call("LPUSH", "key:list", "a", "b")
    client.call("ZADD", "key:zset", "1", "a")
    client.call("EVAL", "return 1", "0")


def test_it_shows_of_this_server_what_it_shows_of_redis_server(subject, oracle, exported):
    texts = {}
    for server in (subject, oracle):
        with server.connect() as client:
            use_more(client)
            texts[server] = exported(server, EVERYTHING)
        assert texts[server].value("redis_up") == 1
        assert texts[server].value("redis_exporter_last_scrape_error", err="") == 0
    ours, theirs = texts[subject], texts[oracle]
    assert theirs.types.items() - ours.types.items() == set()
    labels = ours.label_names()
    for name, wanted in theirs.label_names().items():
        assert wanted <= labels[name], name
    for name in ["redis_db_keys", "redis_db_keys_expiring", "redis_errors_total", "redis_keys_count"]:
        for key, value in theirs.values.items():
            if key[0] == name:
                assert ours.values[key] == value, key
    for command in ["set", "get", "hset", "select", "debug", "xadd", "eval", "lpush"]:
        for name in ["redis_commands_total", "redis_commands_rejected_calls_total"]:
            assert ours.value(name, cmd=command) == theirs.value(name, cmd=command), (name, command)
    for name, _ in theirs.values:
        if name.startswith(("redis_stream_", "redis_key_size", "redis_key_value")):
            assert series_of(ours, name) == series_of(theirs, name), name


def series_of(text, name):
    """The series of a metric by their labels, without identifiers and figures of time."""
    if name.endswith(("_id", "_seconds")):
        return None
    return {labels: value for (other, labels), value in text.values.items() if other == name}


def test_metrics_port_shows_what_it_shows_by_default(start_server, exported):
    server = start_server(options={"metrics-port": free_port()}, workers=2)
    with server.connect() as client:
        use(client)
        fields = info(client)
        theirs = exported(server)
    ours = Text(ask(server.options["metrics-port"], "/metrics").content.decode())
    absent = {name for name, _ in theirs.values} - {name for name, _ in ours.values}
    assert {name for name in absent if not OF_THE_EXPORTER.fullmatch(name)} == set()
    labels = ours.label_names()
    for name, wanted in theirs.label_names().items():
        if name in labels and not name.startswith("redis_exporter_"):
            assert wanted <= labels[name], name
    names = dict(line.split() for line in names_of_fields())
    moving = {names[field] for field in fields if field in names and is_moving(field)}
    compared = 0
    for (name, wanted), value in theirs.values.items():
        if wanted or name in moving or not is_still(name) or OF_THE_EXPORTER.fullmatch(name):
            continue
        assert ours.values[name, wanted] == value, name
        compared += 1
    assert compared > 60
    for key, value in theirs.values.items():
        if key[0] in ("redis_db_keys", "redis_db_keys_expiring"):
            assert ours.values[key] == value, key


def names_of_fields():
    """The lines of redis_exporter_names.txt: a field of INFO and its metric."""
    path = os.path.join(os.path.dirname(__file__), "redis_exporter_names.txt")
    with open(path) as lines:
        return [line for line in lines.read().splitlines() if not line.startswith("#")]


def is_moving(field):
    return field in MOVING or field.startswith(MOVING_BEGINNINGS)


def is_still(name):
    """Whether a figure stays while its server is looked at: its clients, commands and their time do not."""
    changing = ("cpu_", "commands_", "connect", "exporter_", "keyspace_", "start_time", "memory_used", "uptime", "net_")
    also = ("allocator_", "mem_", "slowlog", "total_", "last_slow")
    return not name.removeprefix("redis_").startswith(changing + also)
