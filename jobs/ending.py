"""Whether a process is to end: set from a signal handler, awaited by the main thread, asked by every thread."""

import contextlib
import queue


class Ending:
    """An event that a signal handler may set.

    `threading.Event` is not one: its `set` takes a lock that `wait` holds for moments, and a handler that interrupts
    the main thread just then waits for ever for the very thread that it runs in. `queue.SimpleQueue.put` is
    documented as reentrant, and nothing here takes another lock.
    """

    def __init__(self) -> None:
        self._set = False
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Tell everybody who asks or waits; may be called any number of times, from anywhere."""
        self._set = True
        self._wake.put(None)

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._set

    def wait(self, seconds: float) -> bool:
        """Wait for at most *seconds*; returns whether it was set. One thread waits at a time."""
        if not self._set:
            with contextlib.suppress(queue.Empty):
                self._wake.get(timeout=seconds)
        return self._set
