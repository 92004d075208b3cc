"""Works out in the background what a new snapshot says of each function, in small bits that nobody waits for."""

import gc
import time
from collections.abc import Callable
from typing import Final

from rules.policy import Policy
from rules.view import View
from rules.warm import warm

_FUNCTIONS: Final = 10_000
#: So many functions are worked out, which takes a few milliseconds, and then so many seconds nothing is done.
_BIT: Final = 10
_PAUSE: Final = 0.01
_FROZEN: Final = 200


class Warming:
    """Follows *current*; `work` is for a thread of its own."""

    def __init__(
        self, current: Callable[[], View], policy: Policy, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._current = current
        self._policy = policy
        self._pause = pause
        self._done: object = None

    def work(self) -> None:
        """Work out what is not yet; stops where another snapshot was taken up meanwhile."""
        view = self._current()
        if view.pairs is self._done:
            return
        for number, _ in enumerate(warm(view, self._policy, _FUNCTIONS), start=1):
            if number % _BIT == 0:
                self._pause(_PAUSE)
                if self._current().pairs is not view.pairs:
                    return
            if number % _FROZEN == 0:
                gc.freeze()  # it lives as long as the snapshot: no collection is to walk over it
        self._done = view.pairs
        gc.freeze()
