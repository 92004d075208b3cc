"""What all victims need of the whole cluster, its `Events`, as one file that Spark brings to every worker.

A worker's processes map it and share its pages.
"""

import mmap
import pickle
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from featurestore.exposure.kernels import Ints
from featurestore.interference.concurrency import Events

_HEAD = struct.Struct("<q")
_ARRAYS = Events._fields[1:]


def write(events: Events, offsets: Ints, path: Path) -> None:
    """Write *events*, function by function, and the *offsets* [F] where each function's begin, to *path*."""
    arrays = [np.ascontiguousarray(offsets), *(np.ascontiguousarray(getattr(events, name)) for name in _ARRAYS)]
    head = pickle.dumps((events.functions, [(each.dtype.str, len(each)) for each in arrays]))
    with path.open("wb") as file:
        file.write(_HEAD.pack(len(head)))
        file.write(head)
        for each in arrays:
            file.write(b"\0" * (-file.tell() % 64))
            each.tofile(file)


@lru_cache(maxsize=1)
def read(path: Path) -> tuple[Events, Ints]:
    """Map what `write` wrote."""
    with path.open("rb") as file:
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # the kernels are compiled for writable arrays
    [length] = _HEAD.unpack_from(held)
    functions, shapes = pickle.loads(held[_HEAD.size : _HEAD.size + length])
    found, at = list[np.ndarray[Any, Any]](), _HEAD.size + length
    for kind, count in shapes:
        at += -at % 64
        found.append(np.frombuffer(held, np.dtype(kind), count, at))
        at += found[-1].nbytes
    offsets, *arrays = found
    return Events(functions, *arrays), offsets


def sent(name: str) -> tuple[Events, Ints]:
    """Return what the driver sent to this worker under *name*."""
    from pyspark import SparkFiles

    return read(Path(SparkFiles.get(name)))
