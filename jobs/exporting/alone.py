"""One export at a time writes to a directory."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import BadInput


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Make *directory* where it is not there, and keep other exports out of it; a killed one keeps nobody out.

    Raises `BadInput` where another export writes there or it is a file, `OSError` where it cannot be made.
    """
    if directory.exists() and not directory.is_dir():
        raise BadInput(f"{directory}: a file, where a directory to export to is wanted")
    directory.mkdir(parents=True, exist_ok=True)
    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"{directory}: another export writes there") from None
        yield
    finally:
        os.close(held)
