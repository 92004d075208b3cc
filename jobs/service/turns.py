"""Serving processes beside each other take up a new snapshot in turn: the others answer on their cores meanwhile."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

#: After so many seconds a process waits no longer: whoever has the turn may hang.
PATIENCE: Final = 20.0


class Turns:
    """Turns of all processes with this *path*; one that ends gives its turn back.

    They hold a lock on a file of its own beside *path*: the directory is locked by exports into it. Where none can be
    made, or the file system knows no locks, there are turns for everybody at once.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path.with_name(f".{path.name}.turn")
        self._clock = clock
        self._asked: float | None = None

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Yield whether it is this process's turn, which it is while the context lasts; never waits."""
        try:
            held = os.open(self._path, os.O_RDONLY | os.O_CREAT, 0o644)
        except OSError:
            yield True
            return
        try:
            mine = self._taken(held)
            yield mine
        finally:
            os.close(held)

    def _taken(self, held: int) -> bool:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = self._clock()
            if self._asked is None:
                self._asked = now
            if now - self._asked < PATIENCE:
                return False
        except OSError:
            pass
        self._asked = None
        return True
