"""Answers that are worked out before the first pod of their function comes, so that it does not wait for them.

Most pods of a cluster differ in their function alone. What an answer depends on beside the function, its shape, is
taken from those pods that were asked about, the commonest one; the functions come in the order of their running pods.

An answer holds for the view that it was made from. Once another took its place, where only pods came and went, it is
given for `LONGEST` more, and worked out anew before. Where views follow each other that takes a twentieth of a core,
which is enough for the busiest functions; where nothing changes a third, until there is one for each function.
Processes that answer beside each other share that: each gets a part of the pods, and what it has ready is worth that.
"""

import gc
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from jobs.service.prepared import Prepared, Spent
from jobs.service.renewing import LONGEST, Answers, alike
from jobs.service.shape import Key, of_function
from rules.request import Request, of_another
from rules.view import View
from rules.warm import busiest

#: At most so many functions have an answer at once: some 20 KB each.
_FUNCTIONS: Final = 10_000
#: So many shapes are counted; beyond, counting begins anew.
_SHAPES: Final = 64
#: A view that has stood for so many seconds stands where nothing changes: else another would have taken its place.
_SETTLED: Final = 10.0
#: So much of a core all processes together take, where views follow each other and where nothing changes; after each
#: answer nothing is done for so many seconds at most, times the processes.
_SHARE: Final = 1.0 / 20.0
_SHARE_SETTLED: Final = 1.0 / 3.0
_PAUSE: Final = 0.5
#: What is left after so many seconds comes at the next turn.
_TURN: Final = 1.0
_FROZEN: Final = 200
#: An answer of a view that ended no longer ago is not worked out anew ahead.
_RECENT: Final = timedelta(seconds=15)

Prepare = Callable[[Request, View, Spent], Prepared]


@dataclass(slots=True, eq=False)
class _Era:
    """The time of one view: the *answers* made from it, the functions that have one *done*, by shape, and whether
    these are all of that shape.
    """

    view: View
    began: float
    answers: Answers = field(default_factory=dict)
    done: dict[Key, set[int]] = field(default_factory=dict)
    whole: Key | None = None
    ended: datetime | None = None


class Ahead:
    """Keeps the answers; `asked` and `take` are for the thread that answers, `turn` for the one that changes views,
    `work` for one of its own.

    *retire* gets the answers that are done with. *spent* counts the seconds that all this took, *made* the answers.
    *workers* is the number of processes that answer beside each other, this one among them.
    """

    def __init__(
        self,
        retire: Callable[[Answers], None] = lambda former: None,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        workers: int = 1,
    ) -> None:
        self._workers = workers
        self.spent = Spent()
        self.made = 0
        self._retire = retire
        self._pause = pause
        self._clock = clock
        self._eras: tuple[_Era, ...] = ()  # the newest first
        self._shapes: Counter[Key] = Counter()
        self._like: tuple[Key, Request, object] | None = None

    def asked(self, rest: Key, request: Request, view: View) -> None:
        """Take note that the answer to *request*, of the shape *rest*, had to be worked out from *view*."""
        if rest not in self._shapes and len(self._shapes) >= _SHAPES:
            self._shapes.clear()
        self._shapes[rest] += 1
        like = self._like
        if like is None or like[0] == rest or self._shapes[rest] > self._shapes[like[0]]:
            # A shape is read by the labels that rules about other pods look at in its view.
            self._like = rest, request, view.standing.kinds.shunned

    def turn(self, former: View, view: View) -> None:
        """Go on from *view*, which has taken the place of *former*."""
        kept: tuple[_Era, ...] = ()
        if alike(former, view):
            for era in self._eras:
                era.ended = era.ended or view.at
            kept = tuple(era for era in self._eras if era.ended and view.at - era.ended <= LONGEST)
        gone = [era for era in self._eras if era not in kept]
        self._eras = (_Era(view, self._clock()), *kept)
        for era in gone:
            if era.answers:
                self._retire(era.answers)

    def take(self, key: Key, view: View, at: datetime) -> Prepared | None:
        """Return the answer to *key* that may be given in *view* at *at*, None where there is none."""
        for era in self._eras:
            found = era.answers.get(key)
            if found is None:
                continue
            if era.view is not view and not _stands(found, era, view, at):
                return None
            self._shapes[key[1:]] += 1  # else those that wait for their answers would seem the commonest
            return found
        return None

    def until(self, made: Prepared) -> datetime | None:
        """Return until when the view stood that an answer was *made* from; None where that is not known."""
        return next((era.ended for era in self._eras if era.view is made.view), None)

    def work(self, prepare: Prepare, at: datetime) -> None:
        """Work out at *at* what is missing for the commonest shape in the newest view, as far as one turn goes."""
        if not self._eras or (like := self._like) is None:
            return
        era, (rest, request, shunned) = self._eras[0], like
        if era.whole == rest or era.view.standing.kinds.shunned != shunned or len(era.answers) >= _FUNCTIONS:
            return
        done = era.done.setdefault(rest, set())
        settled = self._clock() - era.began >= _SETTLED
        have = set(done) if settled else self._recent(rest, at)
        until = self._clock() + _TURN
        for function in busiest(era.view, _FUNCTIONS):
            if function in have:
                continue
            paid = self.spent.seconds
            made = self._made(function, request, era.view, prepare)
            if not made.left_out and made.reason != "stale":
                era.answers[of_function(function, made.function, request.named_by, rest)] = made
            done.add(function)
            self.made += 1
            if self.made % _FROZEN == 0:
                gc.freeze()  # it lives as long as the view does: no collection is to walk over it
            idle = self._workers / (_SHARE_SETTLED if settled else _SHARE) - 1.0
            self._pause(min((self.spent.seconds - paid) * idle, _PAUSE * self._workers))
            if self._eras[0] is not era or self._like is not like or self._clock() >= until:
                return
        if settled:
            era.whole = rest

    def _recent(self, rest: Key, at: datetime) -> set[int]:
        """Return the functions whose answers of the shape *rest* need not be made anew yet."""
        recent = (era for era in self._eras if era.ended is None or at - era.ended <= _RECENT)
        return set().union(*(era.done.get(rest, ()) for era in recent))

    def _made(self, function: int, request: Request, view: View, prepare: Prepare) -> Prepared:
        asking = of_another(request, function, view.functions.names[function], request.named_by)
        with self.spent:
            made = prepare(asking, view, self.spent)
        made.render()
        return made


def _stands(found: Prepared, era: _Era, view: View, at: datetime) -> bool:
    """Whether what was made in a former *era* may be given in *view*."""
    if found.mode == "require" or found.spent or not alike(era.view, view):
        return False
    return era.ended is None or at - era.ended <= LONGEST
