"""One kind of background thread: does its work every so often until it is closed, and outlives an error."""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import structlog

_log = structlog.get_logger(__name__)


#: How much such a thread gives way to those that answer: on Linux each thread has a nice value of its own. One that
#: wakes up on a core where another of equal weight runs may wait for the end of its slice, three milliseconds.
_GIVES_WAY: Final = 5


class Periodic:
    """Calls *work* every *seconds* in a thread of its own, and once more at `close` where *finally_* says so.

    The thread gives way to others of its process.
    """

    def __init__(self, name: str, seconds: float, work: Callable[[], object], *, finally_: bool = False) -> None:
        self._name = name
        self._seconds = seconds
        self._work = work
        self._finally = finally_
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; the first run is at once."""
        self._thread.start()

    def wake(self) -> None:
        """Run as soon as possible instead of at the next turn."""
        self._wake.set()

    def close(self, timeout: float = 5.0) -> None:
        """Stop after the current run; waits for at most *timeout* seconds."""
        self._closing = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        if sys.platform == "linux":
            os.nice(_GIVES_WAY)
        while not self._closing:
            self._once()
            self._wake.wait(self._seconds)
            self._wake.clear()
        if self._finally:
            self._once()

    def _once(self) -> None:
        try:
            self._work()
        except Exception as error:
            _log.error("background work failed", work=self._name, error=f"{type(error).__name__}: {error}")


Signature = tuple[tuple[int, int, int] | None, ...]


def signature(paths: Iterable[Path | None]) -> Signature:
    """Return what changes when a file is replaced or rewritten: inode, time and size; None for a missing one.

    Symbolic links are followed, since Kubernetes swaps a link when it renews a mounted secret.
    """
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            stat = os.stat(path) if path is not None else None  # noqa: PTH116
        except OSError:
            stat = None
        found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size) if stat else None)
    return tuple(found)
