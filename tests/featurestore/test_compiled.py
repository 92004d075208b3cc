"""Compiled loops work where their machine code can be kept nowhere."""

import os
import subprocess
import sys

PROGRAM = """
import sys
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []  # as in a container whose file system and home cannot be written
import numpy as np
from featurestore.exposure.sweep import sweep
one = np.zeros(2, np.int32)
found = sweep(one, np.array([0, 5]), np.array([10, 15]), np.arange(2, dtype=np.int32), functions=2)
sys.stdout.write(repr(found.values.tolist()))
"""


def test_a_cache_that_cannot_be_written_is_no_error(repository):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=repository,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[0.5, 0.5]"), done.stderr
