"""An archive in a bucket: everything that a folder can do, and what networks and other writers do to it."""

import signal
import ssl
import subprocess
import time

import pytest

from support.buckets import Service
from support.certificates import HAS_OPENSSL, make_authority, make_certificate
from support.filling import fill
from support.seeds import generator
from support.servers import subject_path
from support.waiting import eventually

from .conftest import Archive
from .test_repository import large_values, saved
from .test_schedule import archived, status, stored
from .test_snapshots import digest, numbered, store


def made_in(service, prefix="", **options):
    made = Archive(service.place(prefix, **options), service.environment)
    made.do("init")
    return made


@pytest.fixture
def bucket(service):
    """An archive at the top of a bucket, whose writers are given up after a second."""
    return made_in(service, lease=1)


@pytest.mark.parametrize("prefix", ["", "a/path of it"])
def test_everything_comes_back(prefix, service, subject, digest_of, tmp_path):
    archive = made_in(service, prefix)
    with subject.connect() as connection:
        fill(connection)
        connection.call("SET", "a string", "one")
    # More snapshots than a page of a list has keys.
    made = [archive.create(subject, "--tag", f"number {number}") for number in range(9)]
    assert [one["snapshot"] for one in archive.snapshots()] == [one["snapshot"] for one in made]
    assert made[-1]["new_bytes"] == 0 < made[0]["new_bytes"]
    for command in ("restore", "export"):
        archive.do(command, "latest", tmp_path / f"{command}.rdb")
        assert digest_of(tmp_path / f"{command}.rdb") == digest(subject) == made[0]["digest"]
    assert archive.do("verify").count("are right") == 9
    with subject.connect() as connection:
        connection.call("SET", "a string", "another")
        archive.do("restore", "latest", "-p", subject.port, "--only-key", "a string", "--replace")
        assert digest(subject) == made[0]["digest"]
        connection.call("FLUSHALL")
    archive.create(subject)
    assert "8 snapshots" in archive.do("prune", "--keep-last", 2)
    archive.do("prune", "--keep-last", 1)
    assert len(archive.snapshots()) == 1 and all("/log" not in key for key in service.bucket.objects)
    archive.do("verify")
    assert all(key.startswith(f"{prefix}/" if prefix else "") for key in service.bucket.objects)


def test_with_encryption(service, subject, tmp_path):
    store(subject, numbered(generator("bucket encryption"), range(500)))
    archive = Archive(service.place("secret"), service.environment)
    archive.do("init", "--new-key-file", tmp_path / "key", "--new-write-key-file", tmp_path / "write")
    archive.keys = (tmp_path / "write",)
    archive.create(subject)
    assert b"this key can write to the archive only" in archive.call("verify").err
    archive.keys = (tmp_path / "key",)
    archive.do("verify")
    assert all(b"key:00" not in body for body, _, _ in service.bucket.objects.values())


def test_by_the_server_and_back_to_a_second(service, bucket, start_server, tmp_path):
    options = {"archive-url": bucket.path, "archive-log": "yes", "archive-log-interval": 1}
    server = start_server("subject", options=options, environment=service.environment)
    with server.connect() as connection:
        eventually(lambda: status(connection)["snapshots"] == 1, "the log does not begin")
        connection.call("SET", "key", "first")
        stored(connection)
        second = int(time.time())
        eventually(lambda: time.time() > second + 1.1, "time stands still")
        connection.call("SET", "key", "second")
        stored(connection)
        assert archived(connection)["snapshots"] == 2
    bucket.do("restore", "--at", second, tmp_path / "then")
    then = start_server("subject", directory=tmp_path / "then", options={"appendonly": "yes"})
    with then.connect() as connection:
        assert connection.call("GET", "key") == b"first"
    bucket.do("verify")


def test_faults_that_pass_change_nothing(service, subject, tmp_path):
    random = generator("bucket faults")
    bucket = made_in(service)
    store(subject, numbered(random, range(2000)))
    faults, told = [503, 500, "cut", "lose the answer"], []

    def fault(*_):
        chosen = random.choice(faults) if random.random() < 0.2 else None
        told.append(chosen)
        return chosen

    service.bucket.fault = fault
    for _ in range(3):
        large_values(subject, random, 4)
        bucket.create(saved(subject))
    bucket.do("verify")
    service.bucket.fault = lambda *_: None
    bucket.do("restore", "latest", tmp_path / "out.rdb")
    assert len(bucket.snapshots()) == 3 and {*faults} <= {*told}


def test_faults_that_stay_are_told(service, subject):
    store(subject, numbered(generator("bucket failures"), range(10)))
    archive = made_in(service)
    service.bucket.fault = lambda method, key: 503 if key.startswith("packs/") else None
    result = archive.call("create", "-p", subject.port)
    assert result.code == 1 and b"s3://backups/packs/" in result.err and b"SlowDown: as <asked>" in result.err
    assert archive.snapshots() == [] and "lock" not in service.bucket.objects
    service.bucket.fault = lambda *_: None
    archive.create(subject)
    wrong = Archive(archive.path, service.environment | {"AWS_SECRET_ACCESS_KEY": "wrong"}).call("list")
    assert wrong.code == 1 and b"SignatureDoesNotMatch" in wrong.err
    elsewhere = Archive(archive.path.replace("backups", "elsewhere"), service.environment).call("list")
    assert elsewhere.code == 1 and b"NoSuchBucket" in elsewhere.err
    nobody = {"AWS_ACCESS_KEY_ID": "", "AWS_SHARED_CREDENTIALS_FILE": "", "HOME": "/nowhere"}
    result = Archive(archive.path, nobody).call("list")
    assert result.code == 1 and b"AWS_ACCESS_KEY_ID" in result.err
    assert b"there is an archive already" in archive.call("init").err
    [pack] = [key for key in service.bucket.objects if key.startswith("packs/")]
    service.bucket.put(pack, service.bucket.objects[pack][0][:-10])
    assert archive.call("verify").code == 1


def test_a_kill_at_any_moment_loses_nothing(service, bucket, subject):
    random = generator("bucket kill")
    store(subject, numbered(random, range(2000)))
    first = bucket.create(subject)
    killed = 0
    for round_ in range(8):
        large_values(subject, random, 20)
        puts, process = [], None

        def kill(method, key, puts=puts, wanted=2 + round_ % 6):
            if method == "PUT":
                puts.append(key)
                if len(puts) == wanted and process:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    return "lose the answer"
            return None

        file = saved(subject)
        words = [str(subject_path()), "archive", "create", bucket.path, str(file)]
        # A killed writer keeps others out for a second.
        eventually(lambda: bucket.call("prune").code == 0, "the right to write is not free again")
        service.bucket.fault = kill
        process = subprocess.Popen(words, env=service.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.communicate()
        service.bucket.fault = lambda *_: None
        killed += process.returncode == -signal.SIGKILL
        assert bucket.snapshots()[0]["snapshot"] == first["snapshot"]
        bucket.do("verify", first["snapshot"])
    assert killed >= 4
    eventually(lambda: bucket.call("prune").code == 0, "the right to write is not free again")
    bucket.create(subject)
    bucket.do("verify")


def test_one_writer_at_a_time(service, subject):
    archive = made_in(service)
    store(subject, numbered(generator("bucket writers"), range(10)))
    service.bucket.put("lock", b"somebody else")
    result = archive.call("create", "-p", subject.port)
    assert result.code == 1 and b"another process is writing to the archive" in result.err
    assert b"for 120 seconds" in result.err and service.bucket.objects["lock"][0] == b"somebody else"
    # By the clock of the service nothing was heard of them for a lease.
    body, etag, when = service.bucket.objects["lock"]
    service.bucket.objects["lock"] = (body, etag, when - 200)
    archive.create(subject)
    assert "lock" not in service.bucket.objects

    def rob(method, key):
        if method == "PUT" and key.startswith("packs/"):
            service.bucket.put("lock", b"a robber")
            time.sleep(2)

    service.bucket.fault = rob
    large_values(subject, generator("bucket robber"), 1)
    short = Archive(service.place(lease=1), service.environment)
    result = short.call("create", saved(subject))
    assert result.code == 1 and b"the right to write to the archive was lost" in result.err
    assert service.bucket.objects["lock"][0] == b"a robber" and len(archive.snapshots()) == 1


@pytest.mark.skipif(not HAS_OPENSSL, reason="openssl makes the certificates")
def test_with_tls(subject, tmp_path):
    make_authority(tmp_path, "right")
    make_authority(tmp_path, "other")
    make_certificate(tmp_path, "server", "right")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    service = Service(context)
    try:
        archive = Archive(service.place(), service.environment | {"AWS_CA_BUNDLE": str(tmp_path / "right.crt")})
        archive.do("init")
        archive.create(subject)
        archive.do("verify")
        archive.environment["AWS_CA_BUNDLE"] = str(tmp_path / "other.crt")
        result = archive.call("list")
        assert result.code == 1 and b"certificate" in result.err
    finally:
        service.close()
