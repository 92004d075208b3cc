"""Answers of a former view that stand until they are worked out anew, which no pod waits for.

Between two views only some pods have come and gone: what the former one said is at most a few seconds older than what
the new one would say. It stands where all that was learned, the nodes and what is stated are the same, and where it
holds no pod to anything.

Renewing takes a twentieth of a core: it makes way for answers that are worked out while a pod waits. The oldest come
first; those that a later view can have renewed in time wait for it, which saves half of them, and those that would be
too old at one of the next views are not made to wait: pods would wait for them.
"""

import heapq
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Final, TypeGuard

from jobs.service.prepared import Prepared, Spent
from jobs.service.review import AdmissionRequest
from jobs.service.shape import Key
from rules.view import View

#: An answer made from a view that is older than this is worked out before it is given.
LONGEST: Final = timedelta(seconds=30)
#: After each answer nothing is done for so many times as long as was spent on answers since the last one, and for so
#: many seconds at least, and at most.
_REST: Final = 19.0
_PAUSE: Final = 0.01
_LONGEST: Final = 0.5
#: Answers are renewed from this age on, views being no more than ten seconds apart: at the next view there is as much
#: time left again. Younger ones are only where there are more than so many seconds of work, which is what a twentieth
#: of a core does until then.
_YOUNG: Final = timedelta(seconds=12)
_IN_TIME: Final = 0.4
#: A view that has stood for so many seconds has no next one that would be in time.
_STANDS: Final = 10.0
#: Older answers than this are renewed one after the other.
_OLD: Final = timedelta(seconds=22)
#: By so much of itself the mean of what an answer takes follows the last one.
_FOLLOWS: Final = 0.1
#: So many answers are worked out in one go, which may take a second or two; closing waits for it.
_BIT: Final = 20

Answers = dict[Key, Prepared]
#: Until when an answer was up to date, a number that tells equal ones apart, the answer and where it is, its key, a
#: pod that it is for, and the view that it is to be made from.
_Waiting = tuple[datetime, int, Prepared, Answers, Key, AdmissionRequest, View]
Prepare = Callable[[Key, AdmissionRequest, View], Prepared]


def alike(former: View | None, view: View) -> bool:
    """Whether only reservations, and pods that have nothing against others, differ between two views."""
    return (
        former is not None
        and former.learned is view.learned
        and former.nodes.index is view.nodes.index
        and former.pairs is view.pairs
        and former.hosts is view.hosts
        and former.services == view.services
        and former.standing.kinds.scopes == view.standing.kinds.scopes
        and former.standing.aversions is view.standing.aversions  # it may shun the label that a former answer writes
    )


def stands(former: Prepared | None, view: View) -> TypeGuard[Prepared]:
    """Whether *former* may be given once more while it is worked out from *view*."""
    return (
        former is not None and former.mode != "require" and not former.spent and view.at - former.view.at <= LONGEST
    )


class Renewing:
    """Takes the pods whose answers are of a former view; `work` is for a thread of its own.

    *spent* knows the seconds that answers took, all together.
    """

    def __init__(
        self,
        spent: Spent,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spent = spent
        self._pause = pause
        self._clock = clock
        self._followed = clock()
        self._number = count()
        self._waiting: deque[_Waiting] = deque()
        self._sorted: list[_Waiting] = []
        self._current: Answers = {}
        self._usual = 0.0  # seconds that an answer takes

    def follow(self, answers: Answers) -> None:
        """Renew nothing but *answers* from now on."""
        self._current = answers
        self._followed = self._clock()
        self._waiting.clear()

    def later(self, key: Key, review: AdmissionRequest, view: View, until: datetime | None = None) -> None:
        """Work the answer to *key*, that of the pod of *review*, out anew from *view*.

        It was up to date *until* then: when its view was made, where that is all that is known.
        """
        answers = self._current
        former = answers[key]
        self._waiting.append((until or former.view.at, next(self._number), former, answers, key, review, view))

    def work(self, prepare: Prepare) -> None:
        """Renew the oldest of what waits, as far as that cannot wait for a later view."""
        paid = self._spent.seconds
        for _ in range(_BIT):
            if (oldest := self._oldest()) is None:
                return
            at, _, _, answers, key, review, view = oldest
            age = view.at - at
            if self._can_wait(age):
                heapq.heappush(self._sorted, oldest)
                return
            made = prepare(key, review, view)
            if not made.left_out:
                answers[key] = made
            took = self._spent.seconds - paid
            paid += took
            self._usual += (took - self._usual) * _FOLLOWS
            self._pause(min(max(0.0 if age > _OLD else took * _REST, _PAUSE), _LONGEST))

    def _can_wait(self, age: timedelta) -> bool:
        """Whether the oldest answer, of this *age*, and all others can be renewed in time from the next view."""
        few = (len(self._sorted) + 1) * self._usual <= _IN_TIME
        return age <= _YOUNG and few and self._clock() - self._followed < _STANDS

    def _oldest(self) -> _Waiting | None:
        """Return the oldest answer that is still given, None where there is none."""
        while self._waiting:
            heapq.heappush(self._sorted, self._waiting.popleft())
        while self._sorted:
            oldest = heapq.heappop(self._sorted)
            _, _, former, answers, key, _, _ = oldest
            if answers is self._current and answers[key] is former:
                return oldest
        return None
