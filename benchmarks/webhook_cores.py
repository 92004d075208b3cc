"""Who has which core in the webhook's benchmark: one serves, the others have whoever asks and all else."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

#: The core that serves, where there are two.
CORE = 1


def serving() -> None:
    """Keep this process to the serving core from now on."""
    if (os.cpu_count() or 1) > CORE:
        os.sched_setaffinity(0, {CORE})


def elsewhere() -> None:
    """Keep this process, and those that it starts, off the serving core from now on."""
    if (os.cpu_count() or 1) > CORE:
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - {CORE})


@contextmanager
def asking() -> Iterator[None]:
    """Keep this process, and those that it starts, off the serving core meanwhile."""
    before = os.sched_getaffinity(0)
    elsewhere()
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
