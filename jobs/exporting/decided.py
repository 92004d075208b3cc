"""Decisions as they added up, and what became of those made until then."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from duckdb import DuckDBPyConnection

from featurestore.store import followed
from jobs.exporting.page import Page
from jobs.exporting.span import Span
from jobs.service.families import admission, outcomes
from jobs.supervisor.status import OutcomeStatus

_HOUR = 3600
_HOURS = 'SELECT DISTINCT floor(epoch("at") / 3600) FROM decision_outcomes WHERE epoch("at") < $until'


class Decisions:
    """Adds the number of decisions by mode, outcome and reason, counted from the oldest that is stored."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def read(self, con: DuckDBPyConnection, span: Span) -> list[tuple[Any, ...]]:
        return con.execute(
            """
            SELECT epoch("at"), mode, outcome, coalesce(nullif(json_extract_string(document, '$.cause'), ''), 'none')
            FROM decisions WHERE epoch("at") >= $since AND epoch("at") < $until ORDER BY "at"
            """,
            {"since": span.since, "until": span.until},
        ).fetchall()

    def add(self, found: list[tuple[Any, ...]], span: Span, page: Page) -> None:
        span.replay(found, self._made, lambda step: page.add([admission.decisions(self._counts)], [step]))

    def _made(self, at: float, mode: str, outcome: str, reason: str) -> None:
        self._counts[mode, outcome, reason] += 1


class Outcomes:
    """Adds, for each hour, what became of the decisions made before it."""

    def read(self, con: DuckDBPyConnection, span: Span) -> list[tuple[float, list[OutcomeStatus]]]:
        made = {hour for (hour,) in con.execute(_HOURS, {"until": span.until}).fetchall()}
        found: list[tuple[float, list[OutcomeStatus]]] = []
        for hour in sorted({step // _HOUR for step in span.steps}):
            if not found or hour - 1 in made:
                table = followed.summary(con, datetime.fromtimestamp(hour * _HOUR, UTC))
                known = [OutcomeStatus(**row) for row in table.to_pylist()]
            else:
                known = found[-1][1]
            found.append((hour, known))
        return found

    def add(self, found: list[tuple[float, list[OutcomeStatus]]], span: Span, page: Page) -> None:
        for hour, known in found:
            page.add(outcomes.outcomes(known), span.between(hour * _HOUR, (hour + 1) * _HOUR))
