"""Keeps the serving processes: starts them, and starts one again, with growing pauses, when it ends by itself."""

import time
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from jobs.supervisor import children

_log = structlog.get_logger(__name__)

#: Pause before a process is started again: doubled from the first to the last while it keeps ending young.
_FIRST, _LAST = 0.25, 30.0

#: A process that lived this long in seconds starts again with the first pause.
_SETTLED = 60.0

#: Exit code of a command that was given bad input; starting it again would not help.
BAD_INPUT = 2


class Place:
    """One serving process and its successors."""

    def __init__(self, start: Callable[[], children.Process]) -> None:
        self._start = start
        self._failures = 0
        self._born = time.monotonic()
        self._due = 0.0
        self.process: children.Process | None = start()

    def look(self, now: float) -> int | None:
        """Start the process again when it is due; returns the exit code where it has just ended."""
        if self.process is None:
            if now >= self._due:
                self._born = now
                self.process = self._start()
            return None
        code = self.process.poll()
        if code is None:
            return None
        self.process = None
        self._failures = 0 if now - self._born >= _SETTLED else self._failures + 1
        self._due = now + min(_LAST, _FIRST * 2.0 ** max(0, self._failures - 1))
        return code


class Servers:
    """All serving processes of one supervisor."""

    def __init__(self, start: Callable[[int], children.Process], count: int, restarted: Callable[[], None]) -> None:
        self._restarted = restarted
        self._places = [Place(partial(start, slot)) for slot in range(count)]

    def look(self) -> int | None:
        """Replace what has ended; returns an exit code that makes going on pointless, else None."""
        for place in self._places:
            code = place.look(time.monotonic())
            if code == BAD_INPUT:
                return code
            if code is not None:
                self._restarted()
                _log.error("serving process ended", code=code)
        return None

    def stop(self, grace: float = 10.0) -> None:
        """End all of them: each answers what it has begun to."""
        children.end(self.processes(), grace)

    def processes(self) -> Sequence[children.Process]:
        """The processes that run now."""
        return [place.process for place in self._places if place.process is not None]
