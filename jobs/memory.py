"""What learning leaves to the system of the memory that it needed: allocators keep what is freed."""

import contextlib
import ctypes
import gc
import os
from functools import cache

import pyarrow as pa

#: Numbers of glibc's ``mallopt``: how much a heap keeps that is free at its end, from which size on an allocation has
#: pages of its own, and how many heaps exist.
_KEPT, _OF_ITS_OWN, _HEAPS = -1, -3, -8
#: Packed states are arrays of tens of megabytes: each goes back once freed. With 128 KiB fits take a tenth more.
_LARGE = 4 * 1024**2
#: Where a heap ends changes with every victim: with 128 KiB it goes back each time, and learning takes a twelfth
#: more.
_END = 64 * 1024**2


@cache
def lean() -> None:
    """Have what is large go back to the system once it is freed, and this process have a heap for each core.

    Left alone it has eight, with holes in them, and what is freed once makes larger allocations be kept: a fifth of
    what learning needs. Nothing where the C library has no such settings.
    """
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_OF_ITS_OWN, _LARGE)
        library.mallopt(_KEPT, _END)
        library.mallopt(_HEAPS, os.cpu_count() or 1)


def release(*, cycles: bool = False) -> None:
    """Give memory that one step needed back to the system: the next one's would come on top.

    What refers to itself is sought too where *cycles* are asked for: that takes a tenth of a second and more, however
    little is found, of the half that a small increment takes.
    """
    if cycles:
        gc.collect()
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError, OSError):  # a C library that has none
        ctypes.CDLL(None).malloc_trim(0)
