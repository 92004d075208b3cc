"""A disk that is full, without one."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """What a full disk does to a file that grows, without one; Python ignores the signal that comes with it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
