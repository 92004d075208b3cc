"""What all victims need of the whole cluster, its `Concurrency`, as one file that Spark brings to every worker.

A worker's processes map it and share its pages; nobody reads more of it than the functions that a victim met.
"""

import mmap
import struct
from functools import lru_cache
from pathlib import Path

import numpy as np

from featurestore.interference.concurrency import Concurrency

_HEAD = struct.Struct("<qqq")


def write(concurrency: Concurrency, path: Path) -> None:
    """Write *concurrency* to *path*."""
    with path.open("wb") as file:
        file.write(_HEAD.pack(concurrency.functions, len(concurrency.offsets), len(concurrency.times)))
        for column in (concurrency.offsets, concurrency.times, concurrency.integral):
            column.tofile(file)


@lru_cache(maxsize=2)
def read(path: Path) -> Concurrency:
    """Map what `write` wrote."""
    with path.open("rb") as file:
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # the kernels are compiled for writable arrays
    functions, offsets, times = _HEAD.unpack_from(held)
    first = _HEAD.size + 8 * offsets
    return Concurrency(
        functions,
        np.frombuffer(held, np.int64, offsets, _HEAD.size),
        np.frombuffer(held, np.float64, times, first),
        np.frombuffer(held, np.float64, times, first + 8 * times),
    )


def sent(name: str) -> Concurrency:
    """Return what the driver sent to this worker under *name*."""
    from pyspark import SparkFiles

    return read(Path(SparkFiles.get(name)))
