"""Takes apart what was worked out from former views, in small bits that nobody waits for.

A snapshot has tens of thousands of results with it. Freed at once, by whoever happened to let go of them last, they
would stop every thread for as long as that takes, and a pod might wait for it.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from rules.memo import Memo
from rules.view import View

#: So many results are freed at once, which takes well under a millisecond, and then so many seconds nothing is done.
_BIT: Final = 50
_PAUSE: Final = 0.005


class Retiring:
    """Takes views and dicts of answers that are done with; `work` is for a thread of its own."""

    def __init__(self, pause: Callable[[float], None] = time.sleep) -> None:
        self._pause = pause
        self._waiting: deque[Callable[[], bool]] = deque()

    def view(self, former: View, current: View) -> None:
        """Let go of what was worked out from *former* alone; *current* has taken its place.

        Whoever still asks *former* works it out again.
        """
        kept = {id(memo) for memo in _memos(current)}
        for memo in _memos(former):
            if id(memo) not in kept:
                self._waiting.append(lambda memo=memo: memo.drop(_BIT))  # type: ignore[misc]

    def answers(self, former: dict[Any, Any]) -> None:
        """Let go of *former*, which nobody else has any more."""
        self._waiting.append(lambda: _popped(former))

    def work(self) -> None:
        """Free what waits."""
        while self._waiting:
            more = self._waiting.popleft()
            while more():
                self._pause(_PAUSE)


def _memos(view: View) -> tuple[Memo, ...]:
    return view.memo, view.running.memo, view.pairs.memo, view.latencies.memo, view.nodes.memo


def _popped(items: dict[Any, Any]) -> bool:
    for _ in range(min(_BIT, len(items))):
        items.popitem()
    return bool(items)
