"""One collection: every source of every cluster, each on its own, so that a dead one costs only itself.

Safe to run at any time, any number at once: what is already known is not added again, and the watermark of a source
moves in the same transaction as its rows.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from duckdb import DuckDBPyConnection

from featurestore.store import decisions, ingest, queries
from featurestore.store.duck import Store
from featurestore.store.ingest import Written
from jobs import pages, tracing
from jobs.config import ClusterSettings, Settings
from jobs.wire import SOURCES, Source, sources
from pipeline.errors import BadInput, ColocationError, SourceError
from pipeline.records import Batch, Window

_log = structlog.get_logger(__name__)

#: Sources collected at once; they wait for others' servers most of the time.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one source's collection ended: *outcome* is ok, partial or failed; *message* one line, "" when ok."""

    cluster: str
    source: str
    scope: str
    rows: int
    duplicates: int
    refused: int
    outcome: str
    reason: str
    message: str
    seconds: float


def run(
    settings: Settings,
    *,
    now: Callable[[], datetime],
    only: Sequence[str] = (),
    clusters: Sequence[str] = (),
    store: Store | None = None,
    progress: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Collect the sources named in *only* (default all) of *clusters* (default all), up to *now*.

    Raises `BadInput` for a name that is none, where nothing is configured, and where the store cannot be used;
    what a source does wrong is in its outcome and in the store's ``runs``.
    """
    for name in only:
        if name not in SOURCES:
            raise BadInput(f"source {name!r}: not one of {', '.join(SOURCES)}")
    chosen = _chosen(settings, clusters)
    held = store or Store(settings.store.path, settings.store.deadline)
    held.read(lambda con: None)  # a file that cannot be used is said once, before any source is asked
    pages.prepare(settings.store.spool)
    work = [
        (cluster, source)
        for cluster in chosen
        for source in sources(settings, cluster, held)
        if not only or source.name in only
    ]
    if only and not work:
        raise BadInput(f"clusters: none of {', '.join(only)} is configured")
    with ThreadPoolExecutor(_AT_ONCE) as pool:

        def one(item: tuple[ClusterSettings, Source]) -> Outcome:
            outcome = _traced(settings, item[0].name, item[1], held, now)
            progress(outcome)
            return outcome

        started = now()
        outcomes = list(pool.map(one, work))
    _remember(held, outcomes, started, now())
    decisions.flush(held, settings.store.spool)  # also where no supervisor does
    return outcomes


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 where everything was collected, else 3: some of the work failed and the rest was done."""
    return 0 if all(outcome.outcome == "ok" for outcome in outcomes) else 3


def windows(
    known: datetime | None, now: datetime, first: timedelta, overlap: timedelta, slice_: timedelta
) -> Iterator[Window]:
    """Cut [*known* - *overlap*, *now*) into windows of *slice_* at most, oldest first.

    Each window is one transaction with its own watermark, so that a collection that dies goes on where it was. A
    *known* after *now* (a clock was put back) gives one window of the overlap.
    """
    since = now - first if known is None else min(known, now) - overlap
    while since < now:
        until = min(since + slice_, now)
        yield Window(since, until)
        since = until


def _chosen(settings: Settings, names: Sequence[str]) -> list[ClusterSettings]:
    if not settings.clusters:
        raise BadInput("clusters: none is configured; name one in colocate.toml as [[clusters]]")
    known = {cluster.name: cluster for cluster in settings.clusters}
    for name in names:
        if name not in known:
            raise BadInput(f"cluster {name!r}: not configured; there are {', '.join(known)}")
    return [known[name] for name in names] if names else list(settings.clusters)


def _traced(settings: Settings, cluster: str, source: Source, store: Store, now: Callable[[], datetime]) -> Outcome:
    about = {"cluster": cluster, "source": source.name, "scope": source.scope}
    with tracing.span(f"collect {source.name}", about) as tell:
        outcome = _collect(settings, cluster, source, store, now)
        counts = {"rows": outcome.rows, "duplicates": outcome.duplicates, "refused": outcome.refused}
        tell({**counts, "outcome": outcome.outcome, "reason": outcome.reason})
        return outcome


def _collect(settings: Settings, cluster: str, source: Source, store: Store, now: Callable[[], datetime]) -> Outcome:
    started = now()
    told = _Told()
    try:
        with pages.directory(settings.store.spool, source.name) as spool, source.client() as collector:
            windows_ = list(_planned(settings, cluster, source, store, started))
            for window in windows_:
                batch = collector(window, spool)
                told.batch(batch, last=window is windows_[-1])
                told.written(
                    ingest.ingest(
                        store,
                        cluster,
                        batch,
                        collected=started,
                        overlap=settings.schedule.overlap,
                        source=source.name,
                    )
                )
                for path in batch.files:
                    path.unlink(missing_ok=True)
                if batch.failures and batch.watermark is None:
                    break  # the next collection goes on from here, so that nothing is skipped
    except SourceError as error:
        told.failed(error.reason, str(error))
    except ColocationError as error:
        told.failed("input", str(error))
    except OSError as error:  # what the network does is a SourceError
        told.failed("spool", f"{error.filename or settings.store.spool}: {error.strerror}")
    except Exception as error:  # a fault of ours in one source must not cost the others their collection
        _log.exception("collector failed", cluster=cluster, source=source.name)
        told.failed("internal", f"{type(error).__name__} in collector {source.name}")
    return Outcome(
        cluster, source.name, source.scope, told.rows, told.duplicates, told.refused, told.outcome, told.reason,
        told.message, (now() - started).total_seconds(),
    )  # fmt: skip


class _Told:
    """What is to be said of one source's collection, window after window."""

    def __init__(self) -> None:
        self.rows = self.duplicates = self.refused = 0
        self.outcome, self.reason, self.message = "ok", "", ""

    def batch(self, batch: Batch, *, last: bool) -> None:
        # A server that is younger than the history that is asked for has nothing to say of its first windows.
        failures = [each for each in batch.failures if last or each.reason != "empty"]
        self.refused += len(batch.refused)
        if failures:
            self.outcome, self.reason, self.message = "partial", failures[0].reason, str(failures[0])
        elif batch.refused and not self.message:
            self.message = f"{batch.refused[0].what}: {batch.refused[0].why}"

    def written(self, written: Written) -> None:
        self.rows += written.rows
        self.duplicates += written.duplicates
        self.refused += written.refused

    def failed(self, reason: str, message: str) -> None:
        self.outcome, self.reason, self.message = "partial" if self.rows else "failed", reason, message


def _remember(store: Store, outcomes: Sequence[Outcome], started: datetime, finished: datetime) -> None:
    """Record one run a source: failed where all of it failed, partial where some did."""
    by_source: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        by_source.setdefault((outcome.cluster, outcome.source), []).append(outcome)
    runs = []
    for (cluster, source), parts in by_source.items():
        bad = [part for part in parts if part.outcome != "ok"]
        whole = "ok" if not bad else "failed" if all(part.outcome == "failed" for part in parts) else "partial"
        rows, refused = sum(part.rows for part in parts), sum(part.refused for part in parts)
        reason, message = (bad[0].reason, bad[0].message) if bad else ("", "")
        runs.append(queries.Run(cluster, source, started, finished, rows, refused, whole, reason, message))

    def record(con: DuckDBPyConnection) -> None:
        for run_ in runs:
            queries.record_run(con, run_)

    if runs:
        store.write(record)


def _planned(settings: Settings, cluster: str, source: Source, store: Store, now: datetime) -> Iterator[Window]:
    if source.slice is None:
        yield Window(now, now)
        return
    schedule = settings.schedule
    known = store.read(lambda con: queries.watermark(con, cluster, source.name, source.scope))
    yield from windows(known, now, schedule.first_window, schedule.overlap, source.slice)


def utc_now() -> datetime:
    """Return the time, aware, in UTC: what commands hand in as *now*."""
    return datetime.now(UTC)
