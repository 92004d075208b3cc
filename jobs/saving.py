"""How a candidate becomes a model: judged, saved with its state, and published for those who answer."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version

import pyarrow as pa
import structlog
from duckdb import DuckDBPyConnection

from featurestore.detailed import DETAILS
from featurestore.engines.candidate import Learned
from featurestore.snapshot import Column, Snapshot
from featurestore.store import assemble, bodies, claims, models, published, queries, states, use
from featurestore.store.claims import Claim
from featurestore.store.duck import Store
from jobs import planning
from jobs.config import Settings
from jobs.planning import Plan, micros
from jobs.promotion import Promotion, Standing, consider, look, unmoved
from pipeline.errors import BadInput
from rules.publishing import columns

_log = structlog.get_logger(__name__)

#: Runs set aside and pairs, together, and bytes of the state, up to which a model is judged, saved and copied for the
#: snapshot in one transaction: opening the file once more takes longer than that. Of more, the file is given free in
#: between, and what is saved is written in parts.
_AT_ONCE, BYTES_AT_ONCE = 50_000, 4_000_000


def saved(
    held: Store,
    settings: Settings,
    cluster: str,
    plan: Plan,
    learned: Learned,
    name: str,
    times: tuple[datetime, datetime],
    begun: Claim | None = None,
) -> tuple[models.Model, Promotion, Snapshot]:
    """Write what was learned, all or nothing of the model and the state, and publish: the one place where a
    candidate becomes a model. Return the model that was learned, or stays, whether it answers, and the snapshot.

    *begun* is the claim under which the long bodies of the state were written already (`beside.Bodies`)."""
    started, finished = times
    *parts, last = use.parts(learned.used)
    held.write_each(partial(use.write, cluster=cluster, rows=part) for part in parts)
    rows = [] if learned.state is None else states.laid(learned.state, plan.state)
    tables = {**learned.tables, **learned.details} if learned.changed else {}

    def unchanged(con: DuckDBPyConnection) -> None:
        states.unchanged(con, cluster, plan.serial)

    def save(
        con: DuckDBPyConnection, promotion: Promotion, claim: Claim | None, left: Mapping[str, pa.Table]
    ) -> models.Model:
        unchanged(con)
        if claim is not None:
            claims.check(con, claim)
        model = _model(cluster, plan, learned, name, promotion, started)
        if learned.changed:
            models.save(con, model, left)
            models.carry(con, cluster, model.model, [each for each in DETAILS if each not in learned.details])
        if learned.state is not None:
            known = replace(learned.state.head, read=micros(started))
            states.save(con, cluster, known, rows, 0 if claim is None else claim.first)
        count = int(learned.metrics["activations"])
        run = queries.Run(cluster, "learn", started, finished, count, outcome=promotion.outcome)
        queries.record_run(con, replace(run, reason=promotion.reason, message=promotion.message))
        claims.end(con, cluster)
        return model

    def judged(found: Standing) -> Promotion:
        return consider(found, learned.tables["pairs"], aside=plan.holdout) if learned.changed else unmoved(found)

    def finish(con: DuckDBPyConnection) -> Standing | tuple[models.Model, Promotion, Snapshot]:
        use.write(con, cluster, last)
        found = look(con, cluster, plan.span, aside=plan.holdout, carried=_answered(plan))
        little = found.rows + learned.tables["pairs"].num_rows <= _AT_ONCE
        if begun is not None or not little or sum(map(len, bodies.long(rows))) > BYTES_AT_ONCE:
            return found
        promotion = judged(found)
        return save(con, promotion, None, tables), promotion, assemble.snapshot(con, finished)

    done = held.write(finish)
    if isinstance(done, Standing):
        verdict = judged(done)
        # A model of this name that is known already would lose its rows before the new one has all of its own.
        known = done.newest is not None and done.newest.model == name
        claim = begun
        if claim is not None and not known:
            claims.fill(held, claim, tables)
        elif not known:
            claim = claims.in_parts(held, cluster, name, bodies.long(rows), tables, unchanged)
        model = held.write(lambda con: save(con, verdict, claim, tables if known else {}))
        done = model, verdict, held.read(lambda con: assemble.snapshot(con, finished))
    model, promotion, snapshot = done
    put(settings, snapshot)
    return (plan.newest if not learned.changed and plan.newest is not None else model), promotion, snapshot


def _answered(plan: Plan) -> tuple[str, pa.Table] | None:
    """Return the newest model and its pairs where the plan has read them."""
    return (plan.newest.model, plan.tables["pairs"]) if plan.newest is not None and "pairs" in plan.tables else None


def _model(
    cluster: str, plan: Plan, learned: Learned, name: str, promotion: Promotion, started: datetime
) -> models.Model:
    return models.Model(
        model=name,
        cluster=cluster,
        created=started,
        window_start=plan.span.since,
        window_end=plan.span.until,
        code_version=code_version(),
        reason=plan.reason,
        promoted=promotion.promoted,
        metrics={
            **learned.metrics,
            planning.USE_SETTLED: micros(plan.use_settled),
            "holdout": dict(promotion.holdout),
        },
    )


def publish(settings: Settings, store: Store, at: datetime) -> Snapshot:
    """Make the snapshot of all that is known at *at* and put it where answers come from."""
    snapshot = store.read(lambda con: assemble.snapshot(con, at))
    put(settings, snapshot)
    return snapshot


def put(settings: Settings, snapshot: Snapshot) -> None:
    """Put *snapshot* where answers come from."""
    try:
        published.write(snapshot, settings.store.snapshot, _laid)
    except OSError as error:
        raise BadInput(f"{settings.store.snapshot}: cannot be written: {error.strerror}") from error


def _laid(snapshot: Snapshot) -> Mapping[str, Mapping[str, Column]]:
    """Lay out what all processes that answer would; what cannot be laid out is published all the same."""
    try:
        return columns(snapshot)
    except Exception as error:
        _log.error("columns not laid out, each process has its own", error=f"{type(error).__name__}: {error}")
        return {}


@cache
def code_version() -> str:
    """Return the version of the installed product."""
    try:
        return version("colocation-advisor")
    except PackageNotFoundError:
        return "unknown"
