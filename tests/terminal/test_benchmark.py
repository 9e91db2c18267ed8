"""`mantissa benchmark`: redis-benchmark's tests and output, and what is more."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.terminal import kill, run
from support.waiting import eventually


def bench(tool, server, *words, **options):
    result = tool("benchmark", "-p", server.port, *words, **options)
    assert result.code == 0, result
    return result.out.decode()


def test_the_names_and_forms_of_redis_benchmark(subject, tool):
    if shutil.which("redis-benchmark") is None:
        pytest.skip("redis-benchmark is not installed")
    for form in ("-q", "--csv"):
        words = ["-p", subject.port, "-n", 200, "-c", 2, form]
        theirs = run(["redis-benchmark", *words]).out.decode().replace("\r", "\n")
        ours = bench(tool, subject, *words[2:])
        figure = re.compile(r"\d+\.\d+")
        shape = lambda text: [figure.sub("N", line.strip()) for line in text.splitlines() if line.strip()]
        assert shape(ours) == [line for line in shape(theirs) if "overall" not in line and "rps=N" not in line]


def test_all_figures(subject, tool):
    text = bench(tool, subject, "-n", 500, "-c", 3, "-P", 4, "-t", "get", "--threads", 2, "-r", 10)
    assert "====== GET ======\n  500 requests completed in" in text
    assert "multi-thread: yes\n  threads: 2" in text and "server processor time" in text
    assert "100.000% <= " in text and "(cumulative count 500)" in text


def test_a_command_with_random_parts(subject, tool):
    bench(tool, subject, "-q", "-n", 300, "-r", 1000000, "SADD", "s", "m:__rand_int__")
    bench(tool, subject, "-q", "-n", 5, "-x", "SET", "from-stdin", stdin=b"the value")
    with subject.connect() as connection:
        members = connection.call("SMEMBERS", "s")
        assert 290 <= len(members) <= 300 and all(re.fullmatch(rb"m:\d{12}", member) for member in members)
        assert connection.call("GET", "from-stdin") == b"the value"


def test_mixtures_sizes_and_key_choices(subject, tool):
    words = ["--json", "-n", 2000, "-r", 1000, "--mix", "get:9,set:1", "-d", "10-20:1,100:1"]
    text = bench(tool, subject, *words, "--keys", "zipfian:1.2")
    result = json.loads(text)["tests"][0]
    assert result["requests"] == 2000 and result["errors"] == 0
    with subject.connect() as connection:
        sizes = {connection.call("STRLEN", key) for key in connection.call("KEYS", "key:*")}
        assert sizes and all(10 <= size <= 20 or size == 100 for size in sizes)
        assert connection.call("EXISTS", "key:000000000000") == 1
        connection.call("FLUSHALL")
    bench(tool, subject, "-q", "-n", 50, "-r", 50, "-t", "set", "--keys", "sequential", "--threads", 2)
    with subject.connect() as connection:
        assert connection.call("DBSIZE") == 50


def test_float_scores(subject, tool):
    bench(tool, subject, "-q", "-n", 100, "-r", 100, "-t", "zadd_float,zincrby_float,zscore_float,zrangebyscore_float")
    with subject.connect() as connection:
        assert any(b"." in score for score in connection.call("ZRANGE", "board", 0, -1, "WITHSCORES")[1::2])


def test_a_fixed_rate(subject, tool):
    result = json.loads(bench(tool, subject, "--json", "-n", 200, "--rate", 1000, "-c", 4, "-t", "get"))
    one = result["tests"][0]
    assert one["requests"] == 200 and one["seconds"] >= 0.19, one
    assert result["rate"] == 1000


def test_a_stall_counts_for_all_requests_that_it_delays(oracle, tool):
    """The server sleeps while requests fall due. A tool that waits for replies would count two of them."""
    words = ["--json", "-n", 750, "--rate", 500, "-c", 2, "-t", "get"]
    with oracle.connect() as connection, ThreadPoolExecutor() as executor:
        running = executor.submit(bench, tool, oracle, *words)
        eventually(lambda: b"cmdstat_get:" in connection.call("INFO", "commandstats"), "it does not begin")
        connection.call("DEBUG", "SLEEP", "0.5")
        latency = json.loads(running.result())["tests"][0]["latency_ms"]
    assert latency["p95"] > 200 and latency["max"] > 400, latency


def test_latencies_add_up(subject, tool):
    """One client waits for each reply: together its waits take about as long as the test."""
    one = json.loads(bench(tool, subject, "--json", "-n", 2000, "-c", 1, "-t", "get"))["tests"][0]
    latency = one["latency_ms"]
    assert latency["min"] <= latency["p50"] <= latency["p99"] <= latency["max"]
    assert 0.5 * one["seconds"] < latency["avg"] * 2000 / 1000 <= 1.01 * one["seconds"] + 0.01, one


def test_for_a_time(subject, tool):
    one = json.loads(bench(tool, subject, "--json", "--duration", 0.2, "-c", 2, "-t", "incr"))["tests"][0]
    assert one["requests"] > 0 and one["seconds"] >= 0.1


def test_two_servers(subject, oracle, tool, tmp_path):
    page = tmp_path / "page.html"
    words = ["-n", 300, "-c", 2, "-t", "get,set", "--compare", f"127.0.0.1:{oracle.port}", "--rounds", 2]
    text = bench(tool, subject, *words, "--html", page)
    assert "ratio A/B" in text and re.search(r"requests per second +\d+\.\d{3} \[", text)
    html = page.read_text()
    assert html.count("<svg") == 3 and "polyline" in html and str(oracle.port) in html
    assert "medians of 2 rounds" in html and "Ratios A/B" in html and "--compare 127.0.0.1:" in html
    assert re.search(r"<p>20\d\d-\d\d-\d\d \d\d:\d\d UTC: <code>mantissa benchmark -p", html)
    assert re.search(r"<td>GET</td><td>A</td><td>\d+ \[\d+, \d+\]</td><td>\d+\.\d{3} \[", html)
    assert re.search(r"<td>SET</td><td>\d+\.\d{3} \[\d+\.\d{3}, \d+\.\d{3}\]</td>", html)
    tests = json.loads(bench(tool, subject, *words, "--json"))["tests"]
    assert [test["test"] for test in tests] == ["GET", "SET"] and len(tests[0]["a"]) == 2
    assert set(tests[0]["ratios"]["requests per second"]) == {"mean", "low", "high"}


def test_errors_and_refusals(subject, tool):
    with subject.connect() as connection:
        connection.call("SET", "mylist", "no list")
    result = tool("benchmark", "-p", subject.port, "-q", "-n", 10, "-t", "lpush")
    assert result.code == 1 and b"WRONGTYPE" in result.err
    assert tool("benchmark", "-p", subject.port, "-t", "nosuch").code == 1
    assert tool("benchmark", "--cluster").code == 1
    kill(subject)
    result = tool("benchmark", "-p", subject.port, "-t", "get")
    assert result.code == 1 and b"Could not connect to Redis at 127.0.0.1" in result.err


def test_new_connections(subject, tool):
    with subject.connect() as connection:
        before = connection.call("INFO", "stats")
        bench(tool, subject, "-q", "-n", 50, "-c", 2, "-k", 0, "-t", "get")
        after = connection.call("INFO", "stats")
    count = lambda text: int(re.search(rb"total_connections_received:(\d+)", text).group(1))
    assert count(after) - count(before) >= 50


def test_idle_connections_end_with_an_error_of_the_server(start_server, tool):
    server = start_server(options={"maxclients": 5})
    result = tool("benchmark", "-p", server.port, "-c", 10, "-I")
    assert result.code == 1 and b"ERR max number of clients reached" in result.err, result
