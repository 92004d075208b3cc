"""The part of the history that one file holds."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from duckdb import DuckDBPyConnection

from jobs.exporting.page import Page


@dataclass(frozen=True, slots=True)
class Span:
    """[since, until) in epoch seconds, and the *steps* in it at which what lasts is written."""

    since: float
    until: float
    steps: Sequence[float]

    def range(self, since: float, until: float) -> range:
        """Return the numbers of the steps in [since, until)."""
        return range(bisect_left(self.steps, since), bisect_left(self.steps, until))

    def between(self, since: float, until: float) -> Sequence[float]:
        """Return the steps in [since, until)."""
        found = self.range(since, until)
        return self.steps[found.start : found.stop]

    def replay(
        self, rows: Sequence[tuple[Any, ...]], happen: Callable[..., None], add: Callable[[float], None]
    ) -> None:
        """Let *rows*, which begin with their time, *happen* in order, and *add* each step after those up to it.

        The time of a row is the first argument of *happen*. Rows after the last step happen at the end.
        """
        left = deque(rows)
        for step in self.steps:
            while left and left[0][0] <= step:
                happen(*left.popleft())
            add(step)
        for row in left:
            happen(*row)


F = TypeVar("F")


class Part(Protocol[F]):
    """One kind of series: `read` copies what it needs of a span while the store is open, `add` makes series of it.

    Asked for the spans of a history in order, so that it may count.
    """

    def read(self, con: DuckDBPyConnection, span: Span) -> F: ...

    def add(self, found: F, span: Span, page: Page) -> None: ...
