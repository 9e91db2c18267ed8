"""Repairing an archive: what is damaged goes, is stored anew, and older snapshots are whole again."""

import re
import shutil
import signal
import subprocess

import pytest

from support.seeds import generator
from support.servers import subject_path
from support.waiting import eventually

from .conftest import Archive
from .test_buckets import made_in
from .test_repository import large_values, saved
from .test_snapshots import digest, numbered, store

KILLS = 8


def flip(path, at):
    """Change a bit of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def values(random, numbers):
    """Values that stay as they are in a pack, which does not get smaller when it is compressed."""
    return {f"key:{number:03}": random.randbytes(20_000) for number in numbers}


def damage_value(archive, text):
    """Change a bit within a value, in the one pack that has it."""
    [(path, at)] = [
        (path, at) for path in archive.path.glob("packs/*") if (at := path.read_bytes().find(text)) >= 0
    ]
    flip(path, at)
    return path


def lines(result):
    return result.out.decode().splitlines()


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_what_is_damaged_is_stored_anew(subject, archive, digest_of, tmp_path, is_encrypted):
    random = generator("repair")
    if is_encrypted:
        archive.path = tmp_path / "encrypted"
        archive.do("init", "--new-key-file", tmp_path / "key", "--new-write-key-file", tmp_path / "write")
        archive.keys = (tmp_path / "key",)
    store(subject, values(random, range(200)).items())
    first = archive.create(subject)
    [pack] = archive.path.glob("packs/*")
    store(subject, values(random, range(50)).items())
    archive.create(subject)
    flip(pack, pack.stat().st_size * 3 // 4)
    # Nobody has looked yet, so the damaged chunk is taken for stored.
    third = archive.create(subject)
    assert third["new_bytes"] == 0
    result = archive.call("verify")
    assert result.code == 1 and result.err.count(pack.name.encode()) == 3 and b"archive repair" in result.err
    if is_encrypted:
        archive.keys = (tmp_path / "write",)
        result = archive.call("repair")
        assert result.code == 1 and b"read key" in result.err and pack.exists()
        archive.keys = (tmp_path / "key",)
    files = archive.files()
    said = lines(archive.call("repair", "--dry-run"))
    assert files == archive.files() and f"packs/{pack.name}: it was damaged and would be removed" in said[0]
    result = archive.call("repair")
    assert result.code == 1 and not pack.exists() and result.err == b""
    assert [line.replace("was removed", "would be removed") for line in lines(result)] == said
    assert said[-1].startswith("0 snapshots are whole, 3 incomplete, until")
    # What is left can be read, also behind the damage.
    for key in ("key:001", "key:199"):
        archive.do("restore", "latest", tmp_path / "one.rdb", "--only-key", key)
    again = archive.call("repair")
    assert again.code == 1 and "none is damaged" in again.out.decode() and lines(again)[-1] == said[-1]
    last = archive.create(subject)
    assert 0 < last["new_bytes"] < 0.5 * last["bytes"]
    assert archive.do("verify").count("are right") == 4
    assert "4 snapshots are whole\n" in archive.do("repair")
    archive.do("restore", first["snapshot"], tmp_path / "first.rdb")
    assert digest_of(tmp_path / "first.rdb") == first["digest"]
    # Pruning keeps for the first snapshot what the last one has stored.
    archive.do("prune")
    assert len(list(archive.path.glob("packs/*"))) == len(list(archive.path.glob("indexes/*")))
    [oldest] = [one for one in archive.snapshots() if one["created_ms"] == first["created_ms"]]
    for one in archive.snapshots():
        if one["created_ms"] != first["created_ms"]:
            (archive.path / "snapshots" / one["snapshot"]).unlink()
    archive.do("prune")
    archive.do("restore", oldest["snapshot"], tmp_path / "pruned.rdb")
    assert digest_of(tmp_path / "pruned.rdb") == first["digest"]


def test_what_is_missing_is_named(subject, archive, start_server, tmp_path):
    random = generator("repair names")
    texts = values(random, range(200))
    large = random.randbytes(500_000)
    with subject.connect() as connection:
        store(subject, texts.items())
        connection.call("SELECT", 2)
        connection.call("MSET", 'with "quotes"', large, "xyz", "small")
        archive.create(subject)
    damage_value(archive, texts["key:100"][:64])
    damage_value(archive, large[250_000:250_064])
    result = archive.call("repair")
    _, lack, *gaps, last = lines(result)
    assert re.fullmatch(r"\S+: it lacks 2 chunks", lack) and last.startswith("0 snapshots are whole, 1 incomplete")
    between, part = gaps
    before, behind = re.fullmatch(r'  all (?:between the key "(\S+)" and|before) the key "(\S+)".*', between).groups()
    assert (before or "") < "key:100" < behind
    assert part == r'  a part of the key "with \"quotes\"" of database 2'
    out = tmp_path / "rest.rdb"
    assert archive.call("restore", "latest", out).code == 1 and not out.exists()
    result = archive.call("restore", "latest", out, "--skip-lost")
    assert result.code == 1 and result.err == b"left out what is lost at 2 places\n"
    rest = start_server("oracle", directory=tmp_path, options={"dbfilename": out.name})
    with rest.connect() as connection:
        left = {key.decode() for key in connection.call("KEYS", "*")}
        lost = {key for key in texts if (before or "") < key < behind}
        assert left == texts.keys() - lost and "key:100" in lost
        assert all(connection.call("GET", key) == texts[key] for key in left)
        assert connection.call("SELECT", 2) == b"OK" and connection.call("DBSIZE") == 1
    with subject.connect() as connection:
        connection.call("FLUSHALL")
        result = archive.call("restore", "latest", "-p", subject.port, "--skip-lost", "--only-prefix", "key:1")
        assert result.code == 1 and result.err.endswith(b"left out what is lost at one place\n")
        assert connection.call("DBSIZE") == len([key for key in left if key.startswith("key:1")])
    # Nothing of what is wanted is lost.
    archive.do("restore", "latest", tmp_path / "one.rdb", "--skip-lost", "--only-key", "key:199")


def test_a_pack_without_its_index_is_set_aside(subject, archive):
    random = generator("repair index")
    store(subject, numbered(random, range(500)))
    archive.create(subject)
    [index] = archive.path.glob("indexes/*")
    flip(index, 20)
    result = archive.call("repair")
    assert result.code == 1 and "for ever" in result.out.decode() and "until" not in result.out.decode()
    assert f"packs/{index.name}: no index says what is in it" in result.out.decode()
    aside = {path.name for path in archive.path.glob("damaged/*")}
    assert aside == {f"indexes-{index.name}", f"packs-{index.name}"}
    # The same data make the same pack, so even this snapshot is whole again.
    archive.create(subject)
    assert archive.do("verify").count("are right") == 2


def test_what_other_packs_have_can_be_restored(subject, archive, tmp_path):
    random = generator("repair half")
    store(subject, values(random, range(200)).items())
    archive.create(subject)
    [first] = archive.path.glob("indexes/*")
    store(subject, {f"other:{number:03}": random.randbytes(1000) for number in range(500)}.items())
    archive.create(subject)
    [second] = [path for path in archive.path.glob("indexes/*") if path != first]
    flip(second, 50)
    for _ in range(2):
        archive.do("restore", "latest", tmp_path / "one.rdb", "--only-key", "key:001")
        result = archive.call("restore", "latest", tmp_path / "one.rdb", "--only-key", "other:250")
        assert result.code == 1 and second.name.encode() in result.err
        result = archive.call("repair")
        assert result.code == 1 and "1 snapshot is whole, 1 incomplete\n" in result.out.decode()


def test_manifests_that_can_not_be_read_stand_in_no_way(subject, archive):
    store(subject, numbered(generator("repair manifest"), range(100)))
    first, second = archive.create(subject), archive.create(subject)
    flip(archive.path / "snapshots" / first["snapshot"], 30)
    assert archive.call("prune").code == 1
    result = archive.call("repair")
    assert result.code == 1 and f"snapshots/{first['snapshot']}: it can not be read" in result.out.decode()
    assert [one["snapshot"] for one in archive.snapshots()] == [second["snapshot"]]
    assert (archive.path / "damaged" / f"snapshots-{first['snapshot']}").exists()
    archive.do("prune")
    archive.do("repair")
    archive.do("verify")


def test_a_short_pack_is_in_nobodys_way(subject, archive):
    store(subject, values(generator("repair short"), range(100)).items())
    first = archive.create(subject)
    [pack] = archive.path.glob("packs/*")
    pack.write_bytes(pack.read_bytes()[:-500_000])
    result = archive.call("create", "-p", subject.port)
    assert result.code == 1 and b"mantissa archive repair" in result.err
    assert archive.call("repair").code == 1
    again = archive.create(subject)
    assert 0 < again["new_bytes"] < 700_000
    assert archive.do("verify").count("are right") == 2 and again["digest"] == first["digest"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_pack_that_nothing_names_is_in_nobodys_way(subject, archive, digest_of, tmp_path, is_killed):
    store(subject, values(generator("repair unnamed"), range(50)).items())
    first = archive.create(subject)
    for path in [*archive.path.glob("indexes/*"), archive.path / "snapshots" / first["snapshot"]]:
        if is_killed:
            # A `create` that was killed leaves a pack only.
            path.unlink()
        else:
            flip(path, 30)
    [pack] = archive.path.glob("packs/*")
    flip(pack, 5000)
    result = archive.call("create", "-p", subject.port)
    assert result.code == 1 and b"archive repair" in result.err
    result = archive.call("repair")
    assert result.code == (0 if is_killed else 1)
    said = lines(result)
    assert f"packs/{pack.name}: no index says what is in it, so it was moved to damaged/" in said
    assert "none is damaged" not in result.out.decode() and said[-1] == "0 snapshots are whole"
    assert archive.do("repair") == "0 packs: none is damaged\n0 snapshots are whole\n"
    again = archive.create(subject)
    assert archive.do("repair") == "1 pack: none is damaged\n1 snapshot is whole\n"
    archive.do("restore", "latest", tmp_path / "again.rdb")
    assert again["digest"] == first["digest"] == digest_of(tmp_path / "again.rdb")


def damaged_archive(subject, path):
    """An archive of which each of three packs has a damaged chunk, and of these data a dump."""
    made = Archive(path)
    made.do("init")
    random = generator("repair kill")
    large_values(subject, random, 20)
    made.create(saved(subject))
    whole = digest(subject)
    store(subject, values(random, range(100)).items())
    made.create(saved(subject))
    for pack in made.path.glob("packs/*"):
        flip(pack, pack.stat().st_size // 2)
    return made, whole


def test_a_kill_at_any_moment_loses_nothing(subject, digest_of, tmp_path):
    original, first = damaged_archive(subject, tmp_path / "original")
    killed = 0
    for round_ in range(KILLS):
        copy = Archive(tmp_path / f"copy-{round_}")
        shutil.copytree(original.path, copy.path)
        words = [str(subject_path()), "archive", "repair", str(copy.path)]

        def state(path=copy.path):
            return frozenset(map(str, path.glob("*/*")))

        seen = {state()}
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while process.poll() is None and len(seen) < 2 + round_:
            seen.add(state())
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        assert "0 snapshots are whole, 2 incomplete" in copy.call("repair").out.decode()
        last = copy.create(saved(subject))
        assert 0 < last["new_bytes"] < 0.3 * last["bytes"], last
        assert copy.do("verify").count("are right") == 3
        assert copy.snapshots()[0]["digest"] == first
        shutil.rmtree(copy.path)
    assert killed >= 2


def test_in_a_bucket(service, subject):
    random = generator("repair bucket")
    bucket = made_in(service, lease=1)
    store(subject, values(random, range(100)).items())
    first = bucket.create(subject)
    [pack] = [key for key in service.bucket.objects if key.startswith("packs/")]
    body = bytearray(service.bucket.objects[pack][0])
    body[len(body) // 2] ^= 1
    service.bucket.put(pack, bytes(body))
    words = [str(subject_path()), "archive", "repair", bucket.path]
    # The pack, its index, and the damaged pack; the lock before and between.
    for wanted in range(1, 4):
        changes, started = [], []

        def kill(method, key, changes=changes, wanted=wanted, started=started):
            if method in ("PUT", "DELETE") and "lock" not in key:
                changes.append(key)
                if len(changes) == wanted:
                    eventually(lambda: started, "the process is not there")
                    started[0].send_signal(signal.SIGKILL)
                    started[0].wait()
                    return "lose the answer"
            return None

        service.bucket.fault = kill
        process = subprocess.Popen(words, env=service.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        started.append(process)
        process.communicate()
        service.bucket.fault = lambda *_: None
        assert process.returncode == -signal.SIGKILL and len(changes) == wanted
        # A killed writer keeps others out for a second.
        eventually(lambda: b"incomplete" in bucket.call("repair", "--dry-run").out, "the right to write is not free")
        if wanted < 3:
            assert pack in service.bucket.objects
            # The next one begins where there is only the damaged pack.
            for key in [key for key in service.bucket.objects if key.startswith(("packs/", "indexes/"))]:
                if pack.partition("/")[2] not in key:
                    del service.bucket.objects[key]
    assert pack not in service.bucket.objects
    result = bucket.call("repair")
    assert result.code == 1 and b"none is damaged" in result.out
    assert bucket.create(subject)["new_bytes"] < 0.5 * first["bytes"]
    assert bucket.do("verify").count("are right") == 2


def test_nothing_is_damaged(subject, archive, terminal):
    assert archive.do("repair") == "0 packs: none is damaged\n0 snapshots are whole\n"
    large_values(subject, generator("repair progress"), 20)
    archive.create(saved(subject))
    files = archive.files()
    one = terminal("archive", "repair", archive.path)
    one.wait_for("checking")
    one.wait_for("1 snapshot is whole")
    assert one.wait_end() == 0 and archive.files() == files
