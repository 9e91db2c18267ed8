"""The metrics: both formats, redis_exporter's names with the figures of INFO, Mantissa's own, readiness."""

import pathlib
import shutil
import subprocess

import pytest
from support import exposition
from support.http import ask
from support.servers import free_port
from support.waiting import eventually, until_written

HERE = pathlib.Path(__file__).parent
CONTRIB = HERE.parents[1] / "contrib"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
# Fields that change between two looks at them, or while metrics are asked for.
MOVING = {
    "allocator_active",
    "allocator_frag_bytes",
    "allocator_frag_ratio",
    "allocator_muzzy",
    "allocator_resident",
    "allocator_rss_bytes",
    "allocator_rss_ratio",
    "eventloop_cycles",
    "eventloop_duration_cmd_sum",
    "eventloop_duration_sum",
    "mem_clients_normal",
    "mem_fragmentation_bytes",
    "mem_fragmentation_ratio",
    "process_id",
    "total_commands_processed",
    "total_net_input_bytes",
    "total_net_output_bytes",
    "total_reads_processed",
    "total_writes_processed",
    "uptime_in_seconds",
}
MOVING_BEGINNINGS = ("used_", "allocator_allocated", "instantaneous_", "client_recent_", "lazyfree")


@pytest.fixture(params=["io_uring", "epoll"])
def server(request, start_server):
    """A server with metrics, on each driver."""
    server = start_server(options={"io-driver": request.param, "metrics-port": free_port()}, workers=2)
    server.metrics_port = server.options["metrics-port"]
    return server


def scrape(server, openmetrics=False):
    """The families of a scrape, strictly parsed."""
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"
    response = ask(server.metrics_port, "/metrics", fields={"Accept": accept} if openmetrics else {})
    assert response.status == 200
    assert response.fields["content-type"] == (OPENMETRICS if openmetrics else PLAIN)
    return exposition.parse(response.content, openmetrics)


def info(client, section="all"):
    """INFO as a dict of texts."""
    text = client.call("INFO", section).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def use(client):
    """Does a bit of everything, so that every metric has samples."""
    client.call("SET", "key", "value", "EX", "1000")
    client.call("GET", "key")
    client.call("GET", "missing")
    client.pipeline([["SET", f"key:{number}", "x" * number] for number in range(300)])
    assert client("LPUSH", "key", "x").is_error
    assert client("GET").is_error
    client.call("SELECT", "3")
    client.call("HSET", "hash", "field", "value")
    client.call("SELECT", "0")
    client.call("CONFIG", "SET", "latency-monitor-threshold", "1", "slowlog-log-slower-than", "0")
    client.call("DEBUG", "SLEEP", "0.01")
    client.call("CONFIG", "SET", "slowlog-log-slower-than", "10000")


def test_both_formats_say_the_same(server):
    with server.connect() as client:
        use(client)
    plain, openmetrics = scrape(server), scrape(server, openmetrics=True)
    names = {name if family.type != "counter" else name.removesuffix("_total") for name, family in plain.items()}
    # Keys are found in the background, perhaps between the two.
    found = {"mantissa_big_key_bytes", "mantissa_hot_key_accesses_per_second"}
    # A summary with quantiles in percent, which OpenMetrics does not allow: three gauges there.
    percentiles = plain.pop("redis_latency_percentiles_usec")
    assert percentiles.type == "summary"
    names.remove(percentiles.name)
    for suffix in ("", "_sum", "_count"):
        part = openmetrics.pop(percentiles.name + suffix)
        assert (part.type, part.help) == ("gauge", percentiles.help)
        assert {labels for _, labels in part.samples} == {
            labels for of, labels in percentiles.samples if of == suffix
        }
    assert names - found == set(openmetrics) - found
    for name, family in plain.items():
        if name in found - set(openmetrics):
            continue
        other = openmetrics.get(name) or openmetrics[name.removesuffix("_total")]
        assert (family.type, family.help) == (other.type, other.help)
    assert openmetrics["redis_memory_used_bytes"].unit == "bytes"
    assert openmetrics["redis_commands_duration_seconds"].unit == "seconds"


def use_everything(server, client):
    """Has all metrics have samples, also those of the append-only file, of hot and of big keys."""
    use(client)
    client.call("CONFIG", "SET", "appendonly", "yes")
    until_written(client)
    client.pipeline([["GET", "key"]] * 5_000)
    eventually(lambda: "mantissa_big_key_bytes" in scrape(server), "no walk finds big keys")


def test_every_family_of_the_page_has_samples(server):
    """But for those that exist only while a file is loaded, or where a server is replicated, has an archive or values
    on disk."""
    with server.connect() as client:
        use_everything(server, client)
    page = (HERE.parents[1] / "docs" / "metrics.md").read_text().split("<!-- metrics -->")[1]
    listed = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    found = set(scrape(server))
    assert found <= listed
    elsewhere = ("redis_slave_", "redis_master_", "redis_connected_slave_", "mantissa_archive_", "mantissa_tier_")
    absent = {name for name in listed - found if not name.startswith(elsewhere)}
    assert absent <= {"mantissa_loading_bytes", "mantissa_loading_done_bytes"}


def test_values_on_disk_have_samples(start_server):
    server = start_server(options={"metrics-port": free_port(), "tier-dir": ".", "tier-pressure": "yes"}, workers=2)
    server.metrics_port = server.options["metrics-port"]
    with server.connect() as client:
        client.call("SET", "key", "x" * 500)
        is_on_disk = lambda: client.call("MANTISSA.LOCATION", "key") == b"disk"
        eventually(is_on_disk, "the value does not go to disk")
        client.call("GET", "key")
        eventually(is_on_disk, "the value does not go to disk again")
        # A value that was read before it was written is written again; the first one goes when it is there.
        eventually(lambda: exposition.value(scrape(server), "mantissa_tier_values") == 1, "there are more values")
        families = scrape(server)
        assert exposition.value(families, "mantissa_tier_value_bytes") == 512
        assert exposition.value(families, "mantissa_tier_reads_total") >= 1


def test_the_names_of_redis_exporter_have_the_figures_of_info(server):
    lines = (HERE / "redis_exporter_names.txt").read_text().splitlines()
    names = dict(line.split() for line in lines if not line.startswith("#"))
    with server.connect() as client:
        use(client)
        fields = info(client)
        families = scrape(server)
    compared = 0
    for field, name in names.items():
        if field not in fields:
            continue
        assert name in families, f"{name}, of {field}"
        if field in MOVING or field.startswith(MOVING_BEGINNINGS):
            continue
        text = {"ok": "1", "err": "0"}.get(fields[field], fields[field])
        assert exposition.value(families, name) == float(text), field
        compared += 1
    assert compared > 90


def test_series_with_labels(server):
    with server.connect() as client:
        use(client)
        client.call("SELECT", "5")
        client.pipeline([["SETEX", f"key:{number}", "1000", "value"] for number in range(100)])
        fields = info(client)
        families = scrape(server)
    calls = exposition.series(families, "redis_commands_total", "cmd")
    assert calls["get"] == 2 and calls["set"] == 301 and calls["config|set"] == 2 and calls["setex"] == 100
    assert exposition.series(families, "redis_commands_failed_calls_total", "cmd")["lpush"] == 1
    assert exposition.series(families, "redis_commands_rejected_calls_total", "cmd")["get"] == 1
    assert exposition.series(families, "redis_commands_duration_seconds_total", "cmd")["debug"] >= 0.01
    errors = exposition.series(families, "redis_errors_total", "err")
    assert (errors["ERR"], errors["WRONGTYPE"]) == (1, 1)
    keys = exposition.series(families, "redis_db_keys", "db")
    assert (keys["db0"], keys["db1"], keys["db3"], len(keys)) == (301, 0, 1, 16)
    assert exposition.series(families, "redis_db_keys_expiring", "db")["db0"] == 1
    # Estimated from samples, which find some of many.
    assert 900 < exposition.series(families, "redis_db_avg_ttl_seconds", "db")["db5"] <= 1000
    spikes = exposition.series(families, "redis_latency_spike_duration_seconds", "event_name")
    assert spikes["command"] >= 0.01
    assert exposition.value(families, "redis_slowlog_length") >= 1
    (labels,) = [dict(labels) for _, labels in families["redis_instance_info"].samples]
    assert labels["role"] == "master" and labels["tcp_port"] == str(server.port)
    for label in ["redis_version", "redis_mode", "os", "maxmemory_policy", "run_id", "process_id"]:
        assert labels[label] == fields[label], label
    limits = families["redis_config_client_output_buffer_limit_bytes"].samples
    assert len(limits) == 6 and 33554432 in limits.values()


def test_histograms_are_those_of_the_engine(server):
    with server.connect() as client:
        use(client)
        client.call("DEBUG", "SLEEP", "1.2")
        reply = client.call("LATENCY", "HISTOGRAM")
        calls = {name.decode(): details[1] for name, details in zip(reply[::2], reply[1::2])}
        families = scrape(server)
    calls["latency|histogram"] = 1
    for name in ["mantissa_command_duration_seconds", "redis_commands_latencies_usec"]:
        counts = {
            dict(labels)["cmd"]: value
            for (suffix, labels), value in families[name].samples.items()
            if suffix == "_count"
        }
        assert counts == calls
    durations = families["mantissa_command_duration_seconds"].samples

    def within(bound):
        return durations[("_bucket", frozenset({"cmd": "debug", "le": bound}.items()))]

    assert (within("0.005"), within("0.5"), within("1"), within("+Inf")) == (0, 1, 1, 2)
    assert durations[("_sum", frozenset({"cmd": "debug"}.items()))] >= 1.2
    everything = families["mantissa_all_commands_duration_seconds"].samples
    assert everything[("_count", frozenset())] == sum(calls.values())
    quantile = {"cmd": "debug", "quantile": "50"}
    assert families["redis_latency_percentiles_usec"].samples[("", frozenset(quantile.items()))] >= 10_000


def test_counters_never_fall(server):
    with server.connect() as client:
        use(client)
        before = scrape(server)
        for _ in range(3):
            use(client)
            after = scrape(server)
            for name, family in before.items():
                for key, value in family.samples.items():
                    if family.type == "counter" or key[0] in ("_bucket", "_count", "_sum"):
                        assert after[name].samples[key] >= value, (name, key)
            before = after
    assert exposition.value(after, "redis_exporter_scrapes_total") == 4


def test_hot_and_big_keys_with_any_bytes(server):
    hostile = [b'quote " backslash \\ line\nend', b"\xff\xfe", b"\\xff\\xfe", "käse".encode(), b"n" * 500]
    with server.connect() as client:
        for key in hostile:
            client.call("SET", key, "x" * 100_000)
        client.pipeline([["STRLEN", key] for key in hostile] * 3_000)

        def are_found():
            families = scrape(server)
            wanted = ["mantissa_big_key_bytes", "mantissa_hot_key_accesses_per_second"]
            return all(name in families and len(families[name].samples) == 5 for name in wanted)

        eventually(are_found, "not all keys are found")
        families = scrape(server, openmetrics=True)
        keys = exposition.series(families, "mantissa_big_key_bytes", "key")
        assert {hostile[0].decode(), '"\\xff\\xfe"', "\\xff\\xfe", "käse"} < set(keys)
        assert all(100_000 < size < 200_000 for size in keys.values())
        client.call("CONFIG", "SET", "hide-user-data-from-log", "yes")
        assert "mantissa_big_key_bytes" not in scrape(server)


def test_a_million_keys_cost_a_scrape_nothing_more(server):
    """No figure comes from a walk over keys: 5 ms with any number of them, in a build for use."""
    with server.connect() as client:
        client.call("DEBUG", "POPULATE", "1000000", "key", "10")
        scrape(server)
        families = scrape(server)
    assert exposition.series(families, "redis_db_keys", "db")["db0"] == 1_000_000
    assert exposition.value(families, "mantissa_scrape_stale_shards") == 0


def test_not_ready_while_loading(start_server):
    server = start_server(options={"metrics-port": free_port(), "key-load-delay": 0})
    port = server.metrics_port = server.options["metrics-port"]
    with server.connect() as client:
        client.pipeline([["SET", f"key:{number}", "value"] for number in range(300)])
        client.call("SAVE")
    server.terminate()
    server.options["key-load-delay"] = 10_000
    server.start(wait=False)

    def is_up():
        try:
            return ask(port, "/healthz").status == 200
        except OSError:
            return False

    eventually(is_up, "the port is not served while data is loaded")
    response = ask(port, "/readyz")
    assert response.status == 503 and response.content.startswith(b"LOADING"), response
    families = scrape(server)
    assert exposition.value(families, "redis_loading_dump_file") == 1
    assert exposition.value(families, "mantissa_loading_bytes") > 0
    with server.connect() as client:
        client.call("CONFIG", "SET", "key-load-delay", "0")
    eventually(lambda: ask(port, "/readyz").status == 200, "it does not get ready")


def test_not_ready_while_writes_are_refused(server):
    with server.connect() as client:
        assert ask(server.metrics_port, "/readyz").status == 200
        client.call("CONFIG", "SET", "maxmemory", "1")
        response = ask(server.metrics_port, "/readyz")
        assert response.status == 503 and response.content.startswith(b"OOM "), response
        client.call("CONFIG", "SET", "maxmemory", "0", "save", "3600 1")
        assert ask(server.metrics_port, "/readyz").status == 200
        (server.directory / "dump.rdb").mkdir()
        client("BGSAVE")
        until_written(client)
        response = ask(server.metrics_port, "/readyz")
        assert response.status == 503 and response.content.startswith(b"MISCONF "), response
        assert exposition.value(scrape(server), "redis_rdb_last_bgsave_status") == 0
        client.call("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
        assert ask(server.metrics_port, "/readyz").status == 200


def test_it_listens_on_loopback_only_unless_told(start_server):
    port = free_port()
    server = start_server(options={"bind": "*", "metrics-port": port})
    listening = subprocess.run(["ss", "-ltn"], capture_output=True, text=True, check=False).stdout
    if not listening:
        table = pathlib.Path(f"/proc/{server.process.pid}/net/tcp").read_text()
        addresses = [line.split()[1] for line in table.splitlines()[1:] if line.split()[3] == "0A"]
        assert f"0100007F:{port:04X}" in addresses and f"00000000:{port:04X}" not in addresses
    else:
        assert f"127.0.0.1:{port} " in listening and f"0.0.0.0:{port} " not in listening
    with server.connect() as client:
        assert client.call("CONFIG", "GET", "metrics-bind")[1] == b"127.0.0.1 -::1"


# ---- Prometheus ----

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool, of Debian's package prometheus, is not installed"
)


def promtool(*words, **options):
    return subprocess.run(["promtool", *words], capture_output=True, timeout=120, check=False, **options)


@needs_promtool
def test_promtool_accepts_the_text(server):
    """Its advice about names is heeded for Mantissa's own; those of redis_exporter are as they are."""
    with server.connect() as client:
        use(client)
    content = ask(server.metrics_port, "/metrics").content
    checked = promtool("check", "metrics", input=content)
    assert b"error while linting" not in checked.stderr, checked.stderr
    advice = [line for line in (checked.stdout + checked.stderr).decode().splitlines() if line.strip()]
    assert [line for line in advice if not line.startswith("redis_")] == []


@needs_promtool
def test_promtool_accepts_the_rules():
    checked = promtool("check", "rules", str(CONTRIB / "prometheus" / "alerts.yml"))
    assert checked.returncode == 0, checked.stderr
    tested = promtool("test", "rules", str(CONTRIB / "prometheus" / "alerts_test.yml"))
    assert tested.returncode == 0, tested.stdout + tested.stderr


# What a server has only with an archive, or as a replica.
SOMETIMES = {"mantissa_archive_last_status", "mantissa_archive_log_status", "redis_master_link_up"}


def test_dashboard_and_rules_ask_for_what_there_is(server):
    import json
    import re

    with server.connect() as client:
        use_everything(server, client)
    known = set()
    for name, family in scrape(server).items():
        known |= {name + suffix for suffix, _ in family.samples}
    dashboard = json.loads((CONTRIB / "grafana" / "mantissa.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    rules = (CONTRIB / "prometheus" / "alerts.yml").read_text().splitlines()
    expressions += [line for line in rules if not line.startswith("#")]
    asked = set()
    for expression in expressions:
        asked |= set(re.findall(r"\b(?:redis|mantissa)_[a-z_]+\b", expression))
    assert len(expressions) > 15 and asked - known == SOMETIMES
    reference = (CONTRIB.parent / "docs" / "metrics.md").read_text()
    assert all(f"`{name}`" in reference for name in SOMETIMES)
