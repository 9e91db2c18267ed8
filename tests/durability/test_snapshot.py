"""A dump holds what there was when its save began, whatever is written while it is written."""

import random
import shutil

import pytest

from support.waiting import eventually, persistence, until_written

LONG_BYTES = 3_000_000


def texts(seed):
    """A string that compresses, and one that does not."""
    noise = random.Random(seed).randbytes(LONG_BYTES)
    return {"plain": b"".join(b"%d," % number for number in range(LONG_BYTES // 6)), "noise": noise}


def change_texts(connection, dice):
    """One random change of each long string, by each way there is."""
    for key in ("plain", "noise"):
        length = connection.call("STRLEN", key)
        place = dice.randrange(length + 1000)
        match dice.randrange(7):
            case 0:
                connection.call("SETBIT", key, place * 8, dice.randrange(2))
            case 1:
                connection.call("SETRANGE", key, place, dice.randbytes(dice.randrange(1, 400_000)))
            case 2:
                connection.call("APPEND", key, dice.randbytes(dice.randrange(10_000)))
            case 3:
                connection.call("BITFIELD", key, "SET", "i64", place * 8, dice.randrange(1 << 60))
            case 4:
                connection.call("EXPIRE", key, 10_000)
            case 5:
                connection.call("RENAME", key, f"{key}:renamed")
                connection.call("COPY", f"{key}:renamed", key)
            case _ if dice.randrange(8) == 0:
                connection.call("SET", key, dice.randbytes(LONG_BYTES))
            case _:
                connection.call("GETRANGE", key, place, place + 100)


@pytest.mark.parametrize("compress", ["yes", "no"])
@pytest.mark.parametrize("seed", [1, 2])
def test_long_strings_change_while_they_are_saved(start_server, tmp_path, seed, compress):
    options = {"rdb-key-save-delay": "200", "rdbcompression": compress}
    server = start_server("subject", options=options)
    dice = random.Random(seed)
    with server.connect(timeout=60) as connection:
        for key, text in texts(seed).items():
            connection.call("SET", key, text)
        connection.call("DEBUG", "POPULATE", 3_000, "key", 100)
        for _ in range(2):
            expected = connection.call("DEBUG", "DIGEST")
            connection.call("BGSAVE")
            while persistence(connection)["rdb_bgsave_in_progress"] == "1":
                change_texts(connection, dice)
                connection.call("SET", f"key:{dice.randrange(3_000)}", "changed")
            assert until_written(connection)["rdb_last_bgsave_status"] == "ok"
            shutil.copy(server.directory / "dump.rdb", tmp_path)
            other = start_server("subject", directory=tmp_path)
            with other.connect(timeout=60) as loaded:
                assert loaded.call("DEBUG", "DIGEST") == expected, f"seed {seed}"
            other.stop()


def test_what_is_sent_after_the_reply_of_bgsave_is_not_saved(start_server):
    server = start_server("subject")
    with server.connect(timeout=60) as connection:
        connection.call("DEBUG", "POPULATE", 10_000, "key", 10)
        for turn in range(10):
            connection.call("SET", "turn", turn)
            connection.call("BGSAVE")
            connection.call("SET", "turn", "late")
            eventually(
                lambda: persistence(connection)["rdb_bgsave_in_progress"] == "0", "the save does not end"
            )
            connection.call("DEBUG", "RELOAD", "NOSAVE")
            assert connection.call("GET", "turn") == str(turn).encode()
