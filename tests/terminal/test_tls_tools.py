"""TLS in the tools: the command line, the benchmark, import and export, beside redis-cli."""

import pytest

from robustness.test_tls import certificates, options_of  # noqa: F401
from support.servers import Server, subject_is_oracle, subject_path
from support.terminal import run

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="needs a server with TLS")


@pytest.fixture(scope="module")
def server(certificates):  # noqa: F811
    with Server("subject", options=options_of(certificates, tls_auth_clients="optional")) as server:
        yield server


@pytest.fixture
def words(server, certificates):  # noqa: F811
    return ["-p", server.options["tls-port"], "--tls", "--cacert", certificates / "ca.crt"]


def tool(name, *words, stdin=b""):
    return run([subject_path(), name, *words], stdin=stdin)


def test_commands_lines_and_pipes(words, redis_cli, server):
    for arguments, stdin in [
        (["SET", "key", "value"], b""),
        (["-x", "SET", "big"], b"x" * 3_000_000),
        (["STRLEN", "big"], b""),
        ([], b"PING\nGET key\nECHO 'a b'\n"),
        (["--pipe"], b"SET a 1\r\nINCR a\r\n" * 20_000),
        (["GET", "big"], b""),
        (["--scan", "--pattern", "k*"], b""),
    ]:
        ours = tool("cli", *words, *arguments, stdin=stdin)
        theirs = run(["redis-cli", *words, *arguments], stdin=stdin)
        assert (ours.code, ours.out) == (theirs.code, theirs.out), arguments


def test_certificates_are_compared(server, certificates, words, tmp_path):  # noqa: F811
    port = server.options["tls-port"]
    plain = tool("cli", "-p", port, "PING")
    assert plain.code == 1
    unknown = tool("cli", "-p", port, "--tls", "--cacert", certificates / "other.crt", "PING")
    assert unknown.code == 1 and b"invalid peer certificate" in unknown.err, unknown
    nobody = tool("cli", "-p", port, "--tls", "PING")
    assert nobody.code == 1
    assert tool("cli", "-p", port, "--tls", "--insecure", "PING").out == b"PONG\n"
    # The name matters where it is given, as the certificate is one for localhost.
    assert tool("cli", *words, "--sni", "localhost", "PING").out == b"PONG\n"
    assert tool("cli", *words, "--sni", "elsewhere", "PING").code == 1
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.pem").write_bytes((certificates / "ca.crt").read_bytes())
    (tmp_path / "folder" / "readme").write_text("no certificate")
    assert tool("cli", "-p", port, "--tls", "--cacertdir", tmp_path / "folder", "PING").out == b"PONG\n"
    assert tool("cli", "-u", f"rediss://127.0.0.1:{port}", "--cacert", certificates / "ca.crt", "PING").code == 0
    missing = tool("cli", "-p", port, "--tls", "--cacert", tmp_path / "none", "PING")
    assert missing.code == 1 and b"none" in missing.err


def test_a_certificate_is_shown(certificates, start_server):  # noqa: F811
    server = start_server(options=options_of(certificates, tls_auth_clients="yes"))
    words = ["-p", server.options["tls-port"], "--tls", "--cacert", certificates / "ca.crt"]
    assert tool("cli", *words, "PING").code == 1
    shown = ["--cert", certificates / "client.crt", "--key", certificates / "client.key"]
    assert tool("cli", *words, *shown, "PING").out == b"PONG\n"
    assert tool("cli", *words, "--cert", certificates / "client.crt", "PING").code == 1


def test_cipher_suites_are_chosen(words):
    for suites in (
        ["--tls-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"],
        ["--tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305"],
    ):
        assert tool("cli", *words, *suites, "PING").out == b"PONG\n"
    wrong = tool("cli", *words, "--tls-ciphers", "RC4", "PING")
    assert wrong.code == 1 and b"ECDHE-RSA-AES256-GCM-SHA384" in wrong.err


def test_benchmarks(words):
    for more in (["-n", "3000"], ["-n", "3000", "-P", "16"], ["-n", "300", "--threads", "2", "-d", "100000"]):
        result = tool("benchmark", *words, "-t", "set,get", "-c", "8", "--json", *more)
        assert result.code == 0, result
        assert b'"errors":0' in result.out.replace(b" ", b"") and result.err == b"", result


def test_data_goes_over_tls_both_ways(server, certificates, start_server, words, tmp_path):  # noqa: F811
    with server.connect() as connection:
        connection.call("FLUSHALL")
        connection.pipeline([("SET", f"key {i}", "x" * i) for i in range(2000)])
        expected = connection.call("DEBUG", "DIGEST")
    assert tool("export", tmp_path / "data.rdb", *words).code == 0
    with server.connect() as connection:
        connection.call("FLUSHALL")
    assert tool("import", tmp_path / "data.rdb", *words).code == 0
    target = start_server()
    source = f"rediss://127.0.0.1:{server.options['tls-port']}"
    result = tool("import", source, "-p", target.port, "--cacert", certificates / "ca.crt", "--verify")
    assert result.code == 0, result
    with server.connect() as one, target.connect() as other:
        assert one.call("DEBUG", "DIGEST") == other.call("DEBUG", "DIGEST") == expected
