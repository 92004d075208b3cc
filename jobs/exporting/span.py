"""The part of the history that one file holds."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from duckdb import DuckDBPyConnection

from jobs.exporting.page import Page


@dataclass(frozen=True, slots=True)
class Span:
    """[since, until) in epoch seconds, and the *steps* in it at which what lasts is written."""

    since: float
    until: float
    steps: Sequence[float]

    def between(self, since: float, until: float) -> Sequence[float]:
        """Return the steps in [since, until)."""
        return self.steps[bisect_left(self.steps, since) : bisect_left(self.steps, until)]


class Part(Protocol):
    """Adds one kind of series to the page of a span; asked for the spans of a history in order, so it may count."""

    def __call__(self, con: DuckDBPyConnection, span: Span, page: Page) -> None: ...
