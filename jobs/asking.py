"""Rules held to a deadline: side by side for people, in turn where a pod waits.

A rule's work is arithmetic over frozen columns, a few microseconds of it where what was learned is prepared. To hand
that to another thread takes longer than to do it, so for a pod the rules are asked in turn, in one thread, and their
common deadline is looked at before each. The facts and what a pod states come first and are never left out: the first
cost little, and a pod without the second would go where it cannot run.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Thread
from typing import Final

import structlog

from pipeline.errors import ColocationError
from rules.advice import Advice
from rules.asking import Asked, Calls, Cause
from rules.table import RULES

#: Told of each rule that was left out, and why.
Told = Callable[[str, Cause], None]
#: A pod under admission waits no longer for its rules, a person does (seconds).
ADMISSION: Final = 0.25
PATIENCE: Final = 10.0
#: So many rules may be at work beside each other, those that missed their deadline and run on included.
_BESIDE: Final = 64
_FIRST: Final = frozenset(name for name, (ground, _) in RULES.items() if ground in ("fact", "stated"))
_log = structlog.get_logger(__name__)


class InTurn:
    """Asks the rules one after the other; once *seconds* have passed, those that are not needed are left out."""

    def __init__(self, told: Told, seconds: float = ADMISSION, clock: Callable[[], float] = time.monotonic) -> None:
        self._told = told
        self._seconds = seconds
        self._clock = clock

    def __call__(self, calls: Calls) -> Asked:
        """Ask *calls*; an error in a rule that is not needed costs only this rule."""
        until = self._clock() + self._seconds
        found: dict[str, Advice] = {}
        left: dict[str, Cause] = {}
        for name, call in calls.items():
            if name in _FIRST:
                found[name] = call()
            elif self._clock() >= until:
                left[name] = "deadline"
                self._told(name, "deadline")
            else:
                try:
                    found[name] = call()
                except Exception as error:
                    left[name] = "error"
                    _failed(name, error, self._told)
        return Asked(found, left)


class Beside:
    """Asks each rule in a thread of its own; one that takes longer than *seconds* is left out, and ends by itself."""

    def __init__(self, told: Told = lambda name, cause: None, seconds: float = PATIENCE) -> None:
        self._told = told
        self._seconds = seconds
        self._room = BoundedSemaphore(_BESIDE)

    def __call__(self, calls: Calls) -> Asked:
        """Ask *calls*; raises what a rule says of a bad input, any other error costs only that rule."""
        until = time.monotonic() + self._seconds
        answers: SimpleQueue[tuple[str, Advice | Exception]] = SimpleQueue()
        for name, call in calls.items():
            if self._room.acquire(timeout=max(until - time.monotonic(), 0.0)):
                Thread(target=self._work, args=(name, call, answers), name=f"rule {name}", daemon=True).start()
        got: dict[str, Advice | Exception] = {}
        with suppress(Empty):
            while len(got) < len(calls):
                name, answer = answers.get(timeout=max(until - time.monotonic(), 0.0))
                got[name] = answer
        return self._sorted(calls, got)

    def _work(
        self, name: str, call: Callable[[], Advice], answers: "SimpleQueue[tuple[str, Advice | Exception]]"
    ) -> None:
        try:
            answers.put((name, call()))
        except Exception as error:
            answers.put((name, error))
        finally:
            self._room.release()

    def _sorted(self, calls: Calls, got: dict[str, Advice | Exception]) -> Asked:
        found: dict[str, Advice] = {}
        left: dict[str, Cause] = {}
        for name in calls:
            answer = got.get(name)
            if answer is None:
                left[name] = "deadline"
                self._told(name, "deadline")
            elif isinstance(answer, ColocationError):
                raise answer
            elif isinstance(answer, Exception):
                left[name] = "error"
                _failed(name, answer, self._told)
            else:
                found[name] = answer
        return Asked(found, left)


def _failed(name: str, error: Exception, told: Told) -> None:
    told(name, "error")
    _log.error("rule left out after an error", rule=name, error=f"{type(error).__name__}: {error}")
