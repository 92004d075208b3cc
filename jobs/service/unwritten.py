"""How many decisions a serving process took and is done with, in memory that outlives it: what a kill cost is seen.

Taking one touches no disk and no lock: each number has one thread that writes it.
"""

import contextlib
import mmap
import os
import sys
from typing import Final

_NUMBERS: Final = 2
_SIZE: Final = 8 * _NUMBERS


def shared(processes: int) -> int | None:
    """Return the descriptor of memory for so many serving processes; None where a system, or what Python was built
    with, has none without a file, or does not let it be made."""
    if sys.platform != "linux" or not hasattr(os, "memfd_create"):
        return None
    with contextlib.suppress(OSError):
        descriptor = os.memfd_create("colocate-unwritten")
        os.ftruncate(descriptor, _SIZE * processes)
        return descriptor
    return None


class Unwritten:
    """The numbers of the serving process in *slot* of the memory that *descriptor* names, of its own without one."""

    def __init__(self, descriptor: int | None = None, slot: int = 0) -> None:
        memory = mmap.mmap(-1, _SIZE) if descriptor is None else mmap.mmap(descriptor, 0)
        first = slot * _NUMBERS if descriptor is not None else 0
        self._numbers = memoryview(memory).cast("Q")[first : first + _NUMBERS]

    def take(self) -> None:
        """Count one decision that is to be written."""
        self._numbers[0] += 1

    def done(self, count: int) -> None:
        """Count decisions that are written, or counted as lost."""
        self._numbers[1] += count

    def inherit(self) -> int:
        """Return how many decisions a former process of this slot took and was not done with, and begin anew.

        Those whose writing it did not come to note count too: it is so many at most.
        """
        taken, done = self._numbers
        self._numbers[0] = self._numbers[1] = 0
        return max(0, taken - done)
