"""How a process ends: what a signal handler sets, and a limit for what is done after it."""

import contextlib
import faulthandler
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable

#: How long closing may take in seconds; Kubernetes kills a container 30 s after it asked.
LIMIT = 25.0


def on_signals(stop: Callable[[], None], limit: float = LIMIT) -> None:
    """Call *stop* at SIGTERM, SIGINT and SIGHUP, in the main thread, from which this is called too.

    A process that has not ended *limit* seconds after the first of them prints where each of its threads is, on
    standard error, and ends with exit code 1: an end that hangs is said and not waited for. What was promised is on
    disk before. Without a standard error there is no limit.
    """
    limited = False

    def asked(*_: object) -> None:
        nonlocal limited
        stop()
        if not limited:  # asked again, it has no longer
            limited = True
            with contextlib.suppress(RuntimeError, OSError, ValueError):
                faulthandler.dump_traceback_later(limit, exit=True)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, asked)


def orderly(work: Callable[[], int]) -> int:
    """Return the exit code that *work* returns; where it left threads behind, end the process with it.

    A thread that is inside of DuckDB or Arrow when the interpreter is taken down aborts the process: what was not
    waited for any longer must not make an end in order one that is not.
    """
    before = set(threading.enumerate())
    code = work()
    if set(threading.enumerate()) - before:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


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
