"""How the sources fared: what was asked and given, run by run."""

from dataclasses import dataclass
from typing import Any

from duckdb import DuckDBPyConnection

from jobs.exporting.page import Page
from jobs.exporting.span import Span
from jobs.service.families import sources
from jobs.supervisor.status import SourceHealth


@dataclass(slots=True)
class _Source:
    success: float | None = None
    attempt: float | None = None
    outcome: str = ""
    reason: str = ""
    refused: int = 0
    rows: int = 0
    errors: int = 0


class Sources:
    """Adds the state of every source at the steps, from the runs until then."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Source] = {}

    def read(self, con: DuckDBPyConnection, span: Span) -> list[tuple[Any, ...]]:
        return con.execute(
            """
            SELECT epoch(finished), cluster, source, "rows", refused, outcome, reason FROM runs
            WHERE epoch(finished) >= $since AND epoch(finished) < $until ORDER BY finished, started
            """,
            {"since": span.since, "until": span.until},
        ).fetchall()

    def add(self, found: list[tuple[Any, ...]], span: Span, page: Page) -> None:
        def add(step: float) -> None:
            page.add(sources.sources([self._health(*key) for key in sorted(self._known)], step), [step])

        span.replay(found, self._ran, add)

    def _ran(self, at: float, cluster: str, source: str, count: int, refused: int, outcome: str, reason: str) -> None:
        known = self._known.setdefault((cluster, source), _Source())
        known.attempt, known.outcome, known.reason, known.refused = at, outcome, reason, refused
        known.rows += count
        if outcome != "failed":
            known.success = at
        if outcome != "ok":
            known.errors += 1

    def _health(self, cluster: str, source: str) -> SourceHealth:
        one = self._known[cluster, source]
        return SourceHealth(
            cluster,
            source,
            one.success,
            one.attempt,
            one.outcome,
            one.reason,
            one.refused,
            None,
            one.rows,
            one.errors,
        )
