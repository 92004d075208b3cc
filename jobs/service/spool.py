"""Decisions on their way to the history: bounded, and never waited for."""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from jobs.service.decide import Decided
from jobs.service.periodic import Periodic
from jobs.service.unwritten import Unwritten


class Spool:
    """Takes decisions from the admission path and writes them in batches from a thread of its own.

    Where more than *room* wait, further ones are refused, which the caller counts. *write* gets each batch once,
    and an empty one when nothing waits; if it raises, the batch is lost and *lost* is told how many those were.
    *unwritten* knows how many wait, for a successor of this process.
    """

    BATCH = 1000

    def __init__(
        self,
        write: Callable[[Sequence[Decided]], object],
        lost: Callable[[int], object],
        room: int = 10_000,
        seconds: float = 1.0,
        unwritten: Unwritten | None = None,
    ) -> None:
        self._write = write
        self._lost = lost
        self._room = room
        self._unwritten = unwritten or Unwritten()
        self._waiting: deque[Decided] = deque()
        self._recent: deque[Decided] = deque(maxlen=1000)
        self._writing = threading.Lock()
        self._thread = Periodic("decisions", seconds, self.flush, finally_=True)

    def __call__(self, decided: Decided) -> bool:
        """Take one decision; returns whether there was room."""
        self._recent.append(decided)
        if len(self._waiting) >= self._room:
            return False
        self._unwritten.take()
        self._waiting.append(decided)
        return True

    @property
    def recent(self) -> tuple[Decided, ...]:
        """The last decisions of this process, oldest first."""
        return tuple(self._recent)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Write what is left and stop."""
        self._thread.close()

    def flush(self) -> None:
        """Write what waits, in batches."""
        with self._writing:
            while True:
                batch = [self._waiting.popleft() for _ in range(min(self.BATCH, len(self._waiting)))]
                try:
                    self._write(batch)
                except Exception:
                    self._lost(len(batch))
                    raise
                finally:
                    self._unwritten.done(len(batch))
                if not self._waiting:
                    return
