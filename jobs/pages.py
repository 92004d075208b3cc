"""Directories for pages on their way into the store; what killed collections left behind is cleared away."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import BadInput

_PREFIX = "pages-"
_LOCK = "lock"


def prepare(spool: Path) -> None:
    """Make *spool* and clear away what dead processes left in it; `BadInput` where it cannot be used."""
    try:
        spool.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"store.spool: {spool}: {error.strerror}") from None
    for left in spool.glob(f"{_PREFIX}*"):
        try:
            with (left / _LOCK).open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
        except OSError:  # in use, or gone meanwhile
            continue


@contextmanager
def directory(spool: Path, name: str) -> Iterator[Path]:
    """Make a directory in *spool* that goes when the block is left; where the process dies in it, by `prepare`.

    Raises `BadInput` naming *spool* where none can be made.
    """
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=spool))
        lock = (made / _LOCK).open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system gives it back when this process ends, however it does
        made = made.rename(spool / f"{_PREFIX}{made.name[1:]}")  # only what is locked has the name of what is cleared
    except OSError as error:
        raise BadInput(f"store.spool: {spool}: {error.strerror}") from None
    with lock:
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
