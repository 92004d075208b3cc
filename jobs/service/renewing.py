"""Answers of a former view that stand until they are worked out anew, which no pod waits for.

Between two views only some pods have come and gone: what the former one said is at most a few seconds older than what
the new one would say. It stands where all that was learned, the nodes and what is stated are the same, and where it
holds no pod to anything.
"""

import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeGuard

from jobs.service.prepared import Prepared
from jobs.service.review import AdmissionRequest
from rules.view import View

#: An answer made from a view that is older than this is worked out before it is given.
LONGEST: Final = timedelta(seconds=30)
#: After each answer, of a millisecond or two, so many seconds nothing is done.
_PAUSE: Final = 0.01

Answers = dict[tuple[object, ...], Prepared]
Prepare = Callable[[AdmissionRequest, View], Prepared]


def alike(former: View | None, view: View) -> bool:
    """Whether only pods and reservations differ between two views."""
    return (
        former is not None
        and former.learned is view.learned
        and former.nodes.index is view.nodes.index
        and former.pairs is view.pairs
        and former.hosts is view.hosts
        and former.services == view.services
        and former.standing.kinds.scopes == view.standing.kinds.scopes
    )


def stands(former: Prepared | None, view: View) -> TypeGuard[Prepared]:
    """Whether *former* may be given once more while it is worked out from *view*."""
    return (
        former is not None and former.mode != "require" and not former.spent and view.at - former.view.at <= LONGEST
    )


class Renewing:
    """Takes the pods whose answers are of a former view; `work` is for a thread of its own."""

    def __init__(self, pause: Callable[[float], None] = time.sleep) -> None:
        self._pause = pause
        self._waiting: deque[tuple[Answers, tuple[object, ...], AdmissionRequest, View]] = deque()
        self._current: Answers = {}

    def follow(self, answers: Answers) -> None:
        """Renew nothing but *answers* from now on."""
        self._current = answers
        self._waiting.clear()

    def later(self, key: tuple[object, ...], review: AdmissionRequest, view: View) -> None:
        """Work the answer to *key*, that of the pod of *review*, out anew from *view*."""
        self._waiting.append((self._current, key, review, view))

    def work(self, prepare: Prepare) -> None:
        """Renew what waits."""
        while self._waiting:
            answers, key, review, view = self._waiting.popleft()
            if answers is not self._current:
                continue
            made = prepare(review, view)
            if not made.left_out:
                answers[key] = made
            self._pause(_PAUSE)
