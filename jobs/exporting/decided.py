"""Decisions as they added up, and what became of those made until then."""

from collections import Counter
from datetime import UTC, datetime

from duckdb import DuckDBPyConnection

from featurestore.store import followed
from jobs.exporting.page import Page
from jobs.exporting.span import Span
from jobs.service.families import admission, outcomes
from jobs.supervisor.status import OutcomeStatus


class Decisions:
    """Adds the number of decisions by mode, outcome and reason, counted from the oldest that is stored."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def __call__(self, con: DuckDBPyConnection, span: Span, page: Page) -> None:
        rows = con.execute(
            """
            SELECT epoch("at"), mode, outcome, coalesce(nullif(json_extract_string(document, '$.cause'), ''), 'none')
            FROM decisions WHERE epoch("at") >= $since AND epoch("at") < $until ORDER BY "at" DESC
            """,
            {"since": span.since, "until": span.until},
        ).fetchall()
        for step in span.steps:
            while rows and rows[-1][0] <= step:
                _, *key = rows.pop()
                self._counts[key[0], key[1], key[2]] += 1
            page.add([admission.decisions(self._counts)], [step])
        for _, *key in rows:
            self._counts[key[0], key[1], key[2]] += 1


class Outcomes:
    """Adds, for each hour, what became of the decisions made before it."""

    def __call__(self, con: DuckDBPyConnection, span: Span, page: Page) -> None:
        hours = sorted({step // 3600 for step in span.steps})
        rows = con.execute(
            'SELECT DISTINCT floor(epoch("at") / 3600) FROM decision_outcomes WHERE epoch("at") < $until',
            {"until": span.until},
        ).fetchall()
        made = {hour for (hour,) in rows}
        known: list[OutcomeStatus] = []
        for number, hour in enumerate(hours):
            if number == 0 or hour - 1 in made:
                table = followed.summary(con, datetime.fromtimestamp(hour * 3600, UTC))
                known = [OutcomeStatus(**row) for row in table.to_pylist()]
            page.add(outcomes.outcomes(known), span.between(hour * 3600, (hour + 1) * 3600))
