"""The link to the primary with TLS, between servers of this kind and a redis-server that has it."""

import pytest

from replication.test_pairs import LIBRARY, play_all
from support.certificates import HAS_OPENSSL, make_authority, make_certificate
from support.replication import PATIENCE_S, expect_same_data, log_has, stand_in, until, wait_in_sync, wanted
from support.servers import free_port

pytestmark = pytest.mark.skipif(not HAS_OPENSSL, reason="needs the openssl command")

# Debian's redis-server has TLS.
TLS_PAIRS = [("mantissa", "mantissa"), ("redis7", "mantissa"), ("mantissa", "redis7")]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A folder with certificates of two servers of one authority, and one of a stranger."""
    folder = tmp_path_factory.mktemp("tls")
    for authority in ("ca", "other"):
        make_authority(folder, authority)
    for name, authority in (("server", "ca"), ("replica", "ca"), ("stranger", "other")):
        make_certificate(folder, name, authority)
    return folder


@pytest.fixture
def start(start_node, certificates):
    """Starts a node that replicates over TLS; clients of the test need none."""

    def start_with_tls(kind, name, authority="ca", **options):
        files = {"cert_file": f"{name}.crt", "key_file": f"{name}.key", "ca_cert_file": f"{authority}.crt"}
        named = {f"tls_{what}": certificates / file for what, file in files.items()}
        node = start_node(kind, tls_port=free_port(), tls_replication="yes", **named, **options)
        node.announced_port = node.options["tls-port"]
        return node

    return start_with_tls


def follow(replica, primary):
    replica.follow(primary, primary.options["tls-port"])


@pytest.mark.parametrize("pair", wanted(TLS_PAIRS))
def test_a_full_sync_the_stream_and_the_rest_after_a_cut(pair, start):
    kinds = stand_in(pair)
    primary, replica = start(kinds[0], "server", repl_backlog_size=1 << 26), start(kinds[1], "replica")
    primary.call("DEBUG", "POPULATE", 5000, "filled", 500)
    primary.call("FUNCTION", "LOAD", LIBRARY % ("before", "before"))
    follow(replica, primary)
    wait_in_sync(primary, replica)
    play_all(primary)
    expect_same_data(primary, replica)
    before = primary.stat("sync_full")
    replica.call("CLIENT", "KILL", "TYPE", "master")
    with primary.connect(timeout=PATIENCE_S) as connection:
        # More than a record has.
        connection.pipeline([("SET", f"large:{number}", "x" * 100_000) for number in range(20)])
    expect_same_data(primary, replica)
    assert (before, primary.stat("sync_full"), primary.stat("sync_partial_ok")) == (1, 1, 1)


@pytest.mark.parametrize("pair", wanted(TLS_PAIRS[:2]))
def test_a_certificate_that_is_not_trusted(pair, start, certificates):
    """Neither side takes a stranger's; the link comes up once the certificate is right."""
    kinds = stand_in(pair)
    primary = start(kinds[0], "server")
    primary.call("SET", "k", "v")
    distrustful, stranger = start(kinds[1], "replica", authority="other"), start(kinds[1], "stranger")
    for replica in (distrustful, stranger):
        replica.call("SET", "own", "kept")
        follow(replica, primary)
        until(lambda replica=replica: int(replica.info()["master_total_sync_attempts"]) > 1, "it does not try")
        assert replica.info()["master_link_status"] == "down"
        assert replica.call("GET", "own") == b"kept"
        if replica.kind == "mantissa":
            assert log_has(replica, "Error condition on socket for SYNC") or log_has(replica, "SYNC handshake")
    assert primary.stat("sync_full") == 0
    distrustful.config(tls_ca_cert_file=str(certificates / "ca.crt"))
    files = {"tls-cert-file": str(certificates / "replica.crt"), "tls-key-file": str(certificates / "replica.key")}
    stranger.call("CONFIG", "SET", *(word for pair in files.items() for word in pair))
    wait_in_sync(primary, distrustful, stranger)
    assert distrustful.call("GET", "k") == stranger.call("GET", "k") == b"v"


def test_a_primary_without_tls(start, start_node):
    """Plain text is no handshake: the log says so, and the data stay."""
    primary, replica = start_node("redis"), start(stand_in(("mantissa",))[0], "replica", repl_timeout=1)
    replica.call("SET", "own", "kept")
    replica.follow(primary)
    until(lambda: int(replica.info()["master_total_sync_attempts"]) > 1, "it does not try")
    assert replica.info()["master_link_status"] == "down" and replica.call("GET", "own") == b"kept"
