"""Where randomness in tests comes from: one seed a run, printed, and settable with MANTISSA_TEST_SEED."""

import os
import random

DEFAULT_SEED = 20100501


def run_seed():
    """The seed of this run. It is fixed unless asked for, so that a run repeats; `random` draws a new one."""
    named = os.environ.get("MANTISSA_TEST_SEED", "")
    if named == "random":
        os.environ["MANTISSA_TEST_SEED"] = str(random.SystemRandom().getrandbits(32))
        named = os.environ["MANTISSA_TEST_SEED"]
    return int(named) if named else DEFAULT_SEED


def generator(*names):
    """A random generator for one test: it depends on the seed of the run and on the names only."""
    return random.Random(":".join([str(run_seed()), *map(str, names)]))
