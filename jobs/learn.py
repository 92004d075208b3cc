"""One learning run of a cluster: the window copied out of the store, learned from, saved, and published.

The store's file is held for the copy and for the saving only, slice by slice; learning itself runs on the copy.
What activations used is kept along with the model, of those of which more is known than the last time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from duckdb import DuckDBPyConnection

from featurestore.engines.local import Inputs, Learned, Options, learn
from featurestore.interference.evidence import Options as Estimation
from featurestore.snapshot import Snapshot
from featurestore.store import assemble, models, published, queries, use, windows
from featurestore.store.duck import Store
from jobs.config import Settings
from pipeline.errors import BadInput
from pipeline.records import Window

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Where a model's metrics say since when the use of activations may still change (microseconds).
_SETTLED = "use_settled_us"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a learning run found: counts of *activations*, of those that are *evidence*, of functions and pairs by
    status, of activations by method of *attribution*; *message* says in words what is missing, "" when nothing is."""

    cluster: str
    model: str
    snapshot: str
    window_start: datetime
    window_end: datetime
    activations: int
    evidence: int
    functions: int
    pairs: Mapping[str, int]
    attribution: Mapping[str, float]
    message: str
    seconds: float


def run(
    settings: Settings,
    cluster: str,
    *,
    now: Callable[[], datetime],
    full: bool = False,
    store: Store | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Outcome:
    """Learn from what the store holds of *cluster*, save and promote the model, and publish the snapshot.

    *progress* is told how many of how many functions are fitted. *full* says that a person asked for it, which the
    model's reason records. Raises `BadInput` where the store or the snapshot cannot be written.
    """
    held = store or Store(settings.store.path, settings.store.deadline)
    started = now()
    span, known, known_use, settled = held.read(lambda con: _read(con, cluster, started, settings))
    tables = windows.copy(held, cluster, span)
    learned = learn(
        Inputs(**tables, since=_micros(span.since), until=_micros(span.until)),
        _options(settings, None if full else known_use),
        progress,
    )
    parts = [learned.used.slice(at, use.PART) for at in range(0, max(1, learned.used.num_rows), use.PART)]
    for part in parts[:-1]:
        held.write(partial(use.write, cluster=cluster, rows=part))
    model = models.Model(
        model=f"{started.astimezone(UTC):%Y%m%dT%H%M%S}{started.microsecond // 1000:03d}Z",
        cluster=cluster,
        created=started,
        window_start=span.since,
        window_end=span.until,
        code_version=code_version(),
        reason="asked for in full" if full else "newer history" if known else "first model",
        metrics={**learned.metrics, _SETTLED: _micros(settled)},
    )
    finished = now()

    def save(con: DuckDBPyConnection) -> None:
        models.save(con, model, learned.tables)
        use.write(con, cluster, parts[-1])
        queries.record_run(con, queries.Run(cluster, "learn", started, finished, int(learned.metrics["activations"])))

    held.write(save)
    snapshot = publish(settings, held, finished)
    return _outcome(cluster, model, span, learned, snapshot, (finished - started).total_seconds())


def publish(settings: Settings, store: Store, at: datetime) -> Snapshot:
    """Make the snapshot of all that is known at *at* and put it where answers come from."""
    snapshot = store.read(lambda con: assemble.snapshot(con, at))
    try:
        published.write(snapshot, settings.store.snapshot)
    except OSError as error:
        raise BadInput(f"{settings.store.snapshot}: cannot be written: {error.strerror}") from error
    return snapshot


def retain(settings: Settings, store: Store, at: datetime) -> Mapping[str, int]:
    """Delete what is older than the settings keep; returns the number of rows by table."""
    kept = settings.store
    spans = queries.Retention(
        kept.retain_usage, kept.retain_activations, kept.retain_placements, kept.retain_decisions
    )
    return store.write(lambda con: queries.retain(con, at, spans))


def clusters(settings: Settings, store: Store) -> list[str]:
    """Return the clusters to learn from: those configured, and those of which there is imported history."""
    configured = [cluster.name for cluster in settings.clusters]
    known = store.read(windows.clusters)
    return configured + [name for name in known if name not in configured]


def code_version() -> str:
    """Return the version of the installed product."""
    try:
        return version("colocation-advisor")
    except PackageNotFoundError:
        return "unknown"


def _read(
    con: DuckDBPyConnection, cluster: str, now: datetime, settings: Settings
) -> tuple[Window, bool, int | None, datetime]:
    """Return the window, whether there is a model, from when on use may have changed, and from when on it yet may.

    The use of a run is known for good when its pod's series have come and an overlap has passed, in which
    placements and records still change. Of what was collected since the last model nothing is known.
    """
    span = windows.window(con, cluster, now, settings.learn.window)
    overlap = settings.schedule.overlap
    series = queries.watermark(con, cluster, "usage", "pod")
    settled = min(span.until, span.until if series is None else series) - overlap - 2 * settings.schedule.step
    before = models.saved(con, cluster)[:1]
    known = [_EPOCH + timedelta(microseconds=each.metrics[_SETTLED]) for each in before if _SETTLED in each.metrics]
    if known and (late := use.touched(con, cluster, before[0].created - overlap)) is not None:
        known.append(late)
    return span, bool(before), _micros(min(known)) if known else None, settled


def _options(settings: Settings, use_since: int | None) -> Options:
    return Options(
        skew_us=round(settings.learn.skew.total_seconds() * 1e6),
        step_us=round(settings.schedule.step.total_seconds() * 1e6),
        use_since_us=use_since,
        estimation=Estimation(min_overlaps=settings.learn.min_overlaps, min_effect=settings.learn.min_effect),
    )


def _micros(at: datetime) -> int:
    gone = at - _EPOCH
    return (gone.days * 86_400 + gone.seconds) * 1_000_000 + gone.microseconds


def _outcome(
    cluster: str, model: models.Model, span: Window, learned: Learned, snapshot: Snapshot, seconds: float
) -> Outcome:
    metrics = learned.metrics
    return Outcome(
        cluster=cluster,
        model=model.model,
        snapshot=snapshot.version,
        window_start=span.since,
        window_end=span.until,
        activations=metrics["activations"],
        evidence=metrics["evidence"],
        functions=metrics["functions"],
        pairs=metrics["pairs"],
        attribution=learned.attribution,
        message=_missing(learned),
        seconds=seconds,
    )


def _missing(learned: Learned) -> str:
    """Say why nothing, or little, is known."""
    metrics = learned.metrics
    if not metrics["activations"]:
        return "no activations in the window: nothing is known"
    if not metrics["evidence"]:
        return "no successful activation could be placed on a node: nothing is known of interference"
    if metrics["functions"] < 2:
        return "only one function ran: there is no pair to know of"
    if not metrics["pairs"].get("observed"):
        return "no pair has been seen together long enough: every pair is unknown"
    return ""
