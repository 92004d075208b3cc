"""``colocate export openmetrics``: the stored history in files of a day each, oldest first.

A day a file, since promtool reads a whole file again for each block of two hours that it makes of it; days are cut in
UTC, as blocks are, so that no two files share one. Days of which nothing is known have none: one run dated years ago
does not mean a thousand files.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from featurestore.store.duck import Store
from jobs.exporting.alone import alone
from jobs.exporting.decided import Decisions, Outcomes
from jobs.exporting.models import Latencies, Models
from jobs.exporting.page import Page
from jobs.exporting.regions import Regions
from jobs.exporting.sources import Sources
from jobs.exporting.span import Part, Span
from jobs.exporting.usage import Drives, Load, Sizes
from pipeline.errors import BadInput

_DAY = 86400
_ENDING = ".openmetrics"
#: Where the year 9999 ends, which is the last that a day can be of.
_ENDS = 253_402_300_800.0

#: When anything was known; on a day of which nothing is known there was nobody to tell what lasts.
_KNOWN = """
SELECT floor(epoch("at") / $day)::BIGINT AS day, epoch(min("at")), epoch(max("at")) FROM (
    SELECT "at" FROM usage UNION ALL SELECT "end" FROM activations UNION ALL SELECT finished FROM runs
    UNION ALL SELECT created FROM models UNION ALL SELECT "at" FROM decisions UNION ALL SELECT ended FROM region_spans
    UNION ALL SELECT valid_from FROM node_specs
) WHERE "at" IS NOT NULL GROUP BY day ORDER BY day
"""


class Written(NamedTuple):
    """One file and the samples that it holds."""

    path: Path
    samples: int


def parts(most: int) -> Sequence[Part[Any]]:
    """Return what is exported, one line a kind; at most *most* pairs and functions."""
    return (
        Load(),
        Sizes(),
        Drives(),
        Latencies(most),
        Models(most),
        Decisions(),
        Outcomes(),
        Sources(),
        Regions(),
    )


def export(
    store: Store,
    directory: Path,
    *,
    most: int,
    step: timedelta,
    since: datetime | None = None,
    until: datetime | None = None,
    told: Callable[[Written], None] = lambda _: None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Written]:
    """Write the history of *store* to *directory*, what lasts every *step*; return the files.

    It begins with the day (UTC) of *since*, or of the oldest record, and ends at *until*, or with the newest record.

    Raises `BadInput` where there is no history, or *directory* cannot be written or is being written by another
    export. *told* hears of each file, *progress* of how many of how many days are done.
    """
    if not store.path.exists():
        raise BadInput(f"{store.path}: no history yet (colocate collect)")
    known = store.read(lambda con: con.execute(_KNOWN, {"day": _DAY}).fetchall())
    if not known:
        raise BadInput(f"{store.path}: the history is empty")
    seconds = step.total_seconds()
    first, last = known[0][1], min(known[-1][2] + seconds, _ENDS)
    begin = max(first, since.timestamp()) if since is not None else first
    begin = begin // _DAY * _DAY
    end = min(last, until.timestamp()) if until is not None else last
    asked, written = parts(most), list[Written]()
    days = sorted({day for day, *_ in known} | {int(-(-last // _DAY)) - 1})  # what lasts does so into the last step
    days = [day for day in days if day * _DAY < end] if begin < end else []  # none where nothing is to be written
    try:
        with alone(directory), store.session() as held:
            for left in directory.glob(f".*{_ENDING}"):  # of one that was killed
                left.unlink(missing_ok=True)
            for done, day in enumerate(days):
                progress(done, len(days))
                span = _span(day, begin, end, seconds)
                page = Page()
                for part in asked:  # days before *since* count, and are not written
                    part.add(held.read(partial(part.read, span=span)), span, page)
                if span.since < begin or not page.samples:
                    continue
                path = directory / f"{datetime.fromtimestamp(day * _DAY, UTC):%Y-%m-%d}{_ENDING}"
                page.write(path)
                written.append(Written(path, page.samples))
                told(written[-1])
    except OSError as error:
        raise BadInput(f"{error.filename or directory}: {error.strerror}") from error
    progress(len(days), len(days))
    return written


def _span(day: int, begin: float, end: float, step: float) -> Span:
    """Return *day* (since the epoch) up to *end*; before *begin* there are no steps, for what only counts."""
    since, until = float(day * _DAY), min(float((day + 1) * _DAY), end)
    if since < begin:
        return Span(since, until, ())
    numbers = range(int(-(-since // step)), int(-(-until // step)))
    return Span(since, until, [number * step for number in numbers])
