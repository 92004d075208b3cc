"""Asks whom nobody knows yet: within a limit of time, whatever comes back, or does not."""

from collections.abc import Callable
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final, TypeVar

T = TypeVar("T")

#: Beyond the limits of connecting and of the answer itself, for what this machine does meanwhile.
_GRACE: Final = timedelta(seconds=1)


def within(timeout: timedelta, ask: Callable[[], T]) -> T:
    """Return what *ask* returns, or raise what it raises; `TimeoutError` where it takes longer than connecting and an
    answer may, each limited by *timeout*.

    Clients limit the silence between two pieces of an answer's head, not the head: one that trickles would hold them
    for hours. The thread that is held goes with the process.
    """
    got: SimpleQueue[T | Exception] = SimpleQueue()

    def work() -> None:
        try:
            got.put(ask())
        except Exception as error:
            got.put(error)

    Thread(target=work, name="reach", daemon=True).start()
    try:
        answer = got.get(timeout=(2 * timeout + _GRACE).total_seconds())
    except Empty:
        raise TimeoutError("no whole answer in time") from None
    if isinstance(answer, Exception):
        raise answer
    return answer
