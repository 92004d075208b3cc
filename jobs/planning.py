"""What a learning run is to do: fold what is new into the state, or fit the window in full, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.engines.candidate import Options, basis
from featurestore.engines.folding import MOST
from featurestore.interference.evidence import Options as Estimation
from featurestore.states import Head, State
from featurestore.store import bodies, heldout, models, queries, states, use, windows
from jobs.config import Settings
from pipeline.records import Window

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Where a model's metrics say since when the use of activations may still change (microseconds).
USE_SETTLED = "use_settled_us"

#: Records come when runs have ended; what a day's runs met is known for good when those have ended too.
_LASTING = timedelta(hours=1)
#: A source that is down holds up the closing of days for so long.
_MOST_LAG = timedelta(days=1)
#: Activations of days that are closed, of which so many ask for a full fit: a share of the evidence, and a number.
_LATE_SHARE, _LATE = 0.01, 50


@dataclass(frozen=True, slots=True)
class Plan:
    """*reason* says why the window is fitted in full ("": it is not); *state* and *newest* model are those so far,
    *tables* the model's, for an increment.

    Runs that ended at *since* or later are evidence, those that ended before *settled* for good; what started at
    *first* or later is to be read, within *span*, the learn window. *use_since* and *use_settled*: from when the use
    of activations may have changed (None: all of it) and from when it may change yet. *serial* is the state's;
    *holdout* says whether the history is long enough to set a part of it aside. *passing*: more is to come at once
    (`jobs.passing`).
    """

    reason: str
    span: Window
    first: datetime
    since: datetime
    settled: datetime
    use_since: datetime | None
    use_settled: datetime
    serial: int
    newest: models.Model | None
    state: State | None
    holdout: bool
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    passing: bool = False


def plan(
    con: DuckDBPyConnection,
    cluster: str,
    now: datetime,
    settings: Settings,
    code_version: str,
    *,
    full: bool,
    come: datetime | None = None,
) -> Plan:
    """Return what a run at *now* is to do; *full* says that a person asked for a full fit.

    The use of a run is known for good when its pod's series have come and an overlap has passed, in which
    placements and records still change. Of what was collected since the last model nothing is known. Of all this
    nothing is looked at that is older than as many activations as are learned from together.

    *come* is for parts of a long history, up to a *now* that is gone by: all that happened up to then has come.
    """
    span = windows.window(con, cluster, now, settings.learn.window, settings.learn.activations)
    overlap, step = settings.schedule.overlap, settings.schedule.step
    newest = next(iter(models.saved(con, cluster)), None)
    series = queries.watermark(con, cluster, "usage", "pod")
    margin = overlap + 2 * step
    use_settled = min(span.until, span.until if series is None else series) - margin
    known = [time(newest.metrics[USE_SETTLED])] if newest is not None and USE_SETTLED in newest.metrics else []
    if known and newest is not None and (touched := use.touched(con, cluster, newest.created - overlap)) is not None:
        known.append(max(touched, windows.FIRST))
    if span.until - span.since < settings.learn.window:  # it holds more than is learned from together
        known = [max(each, span.since) for each in known]
    came = min([span.until, *(mark for mark in (series, queries.oldest(con, cluster, "activations")) if mark)])
    settled = max(came, span.until - _MOST_LAG, *([min(come, span.until)] if come else [])) - lasting(settings)
    head, damaged = states.head(con, cluster), ""
    try:
        state = states.load(con, cluster)
    except bodies.Damaged as error:
        state, damaged = None, lost(error)
    made = Plan(
        reason=damaged or ("asked for in full" if full else ""),
        span=span,
        first=span.since,
        since=span.since,
        settled=settled,
        use_since=min(known, default=None),
        use_settled=use_settled,
        serial=0 if head is None else head.serial,
        newest=newest,
        state=state,
        holdout=heldout.enough(
            con, cluster, span, aside=state is not None and state.head.basis.get("holdout") == "True"
        ),
        passing=come is not None,
    )
    reason = made.reason or _reason(con, cluster, made, settings, code_version)
    if reason or state is None or newest is None:
        return refit(con, cluster, replace(made, use_since=None if full else made.use_since), reason, settings)
    closed = _closed(state.head, span)
    first = min(states.reach(con, cluster, min([closed, *known])), span.until - timedelta(hours=1)) - 2 * step
    tables = {name: models.table(con, newest, name) for name in models.LEARNED}
    return replace(made, first=first, since=closed, tables=tables)


def refit(con: DuckDBPyConnection, cluster: str, found: Plan, reason: str, settings: Settings) -> Plan:
    """Return the plan of a full fit for *reason*: of the window, of what is left of the block that it cuts, and of
    what was not folded when it left the window. The steps of its state are yet to be read (`states.filled`)."""
    try:
        state = states.outlined(con, cluster)
    except bodies.Damaged as error:
        state, reason = None, lost(error)
    since = micros(found.span.since)
    if state is not None:
        cut = [step.since for step in state.steps if step.since < since < step.until]
        since = min([since, state.head.closed, *cut])
    first = states.reach(con, cluster, time(since)) - 2 * settings.schedule.step
    return replace(found, reason=reason, state=state, since=time(since), first=first, tables={})


def lost(error: bodies.Damaged) -> str:
    """Return why a state that cannot be read is begun anew."""
    return f"{error}; what it knew from before the window is lost"


def _reason(con: DuckDBPyConnection, cluster: str, made: Plan, settings: Settings, code_version: str) -> str:
    """Return why increments cannot go on, "" where they can."""
    if made.newest is None:
        return "first model"
    if made.state is None:
        return "no state that increments could go on from"
    head = made.state.head
    if head.code_version != code_version:
        return f"made by version {head.code_version}, this is {code_version}"
    wanted = basis(options(settings, holdout=made.holdout))
    if changed := [name for name in wanted if head.basis.get(name) != wanted[name]]:
        name = changed[0]
        return f"setting {name} changed from {head.basis.get(name, 'none')} to {wanted[name]}"
    closed = _closed(head, made.span)
    if made.span.until - settings.learn.window > closed or made.span.until < closed:
        return "the history does not go on from where the state ends"
    # The first part of a long history counts those that came with it: what parts close is known by then.
    late = states.late(con, cluster, closed, max(made.newest.created, time(head.read)))
    if late >= max(_LATE, _LATE_SHARE * head.rows):
        return f"{late} activations came late, for days that were closed"
    if not made.passing and made.span.until - time(head.made) >= settings.learn.full_every:
        return f"the last full fit is of {time(head.made):%Y-%m-%d %H:%M}"
    return ""


def _closed(head: Head, span: Window) -> datetime:
    """Return up to when a state is folded for good: one without any evidence goes on from where the window begins."""
    closed = time(head.closed)
    return closed if head.rows or head.aged else max(closed, span.since)


def lasting(settings: Settings) -> timedelta:
    """Return how long after a block's end all of it, and all that it ran beside, is known."""
    return max(settings.schedule.overlap + 2 * settings.schedule.step, _LASTING)


def options(settings: Settings, *, holdout: bool = False) -> Options:
    """Return how learning is set up; *holdout* sets a part of the evidence aside, for the models that answer."""
    return Options(
        skew_us=round(settings.learn.skew.total_seconds() * 1e6),
        step_us=round(settings.schedule.step.total_seconds() * 1e6),
        holdout=holdout,
        most=min(Options().most, max(MOST, settings.learn.activations // 2)),
        estimation=Estimation(min_overlaps=settings.learn.min_overlaps, min_effect=settings.learn.min_effect),
    )


def micros(at: datetime) -> int:
    """Return microseconds since the epoch."""
    gone = at - _EPOCH
    return (gone.days * 86_400 + gone.seconds) * 1_000_000 + gone.microseconds


def time(us: int) -> datetime:
    """Return the time of microseconds since the epoch."""
    return _EPOCH + timedelta(microseconds=us)
