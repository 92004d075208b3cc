"""One learning run of a cluster: what is new copied out of the store, learned from, saved, and published.

`jobs.planning` says whether what is new is folded into the state or the window fitted in full. The store's file is
held for the copy and for the saving only, slice by slice; learning itself runs on the copy.
What activations used is kept along with the model, of those of which more is known than the last time; of a full fit
it is written while victims are fitted, and a large state while pairs are decided (`jobs.beside`).
"""

import contextlib
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from duckdb import DuckDBPyConnection

from featurestore.attribution.methods import TELLS, unplaced
from featurestore.engines.candidate import Inputs, Learned, Options
from featurestore.engines.increment import Carried, advance
from featurestore.engines.local import learn
from featurestore.snapshot import Snapshot
from featurestore.store import bodies, claims, followed, models, queries, states, windows
from featurestore.store.claims import Claim
from featurestore.store.duck import Store
from jobs import beside, memory, passing, planning, tracing
from jobs.config import Settings
from jobs.planning import Plan, micros
from jobs.saving import code_version, saved
from pipeline.records import Window


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a learning run found: counts of *activations*, of those that are *evidence*, of functions and pairs by
    status, of activations by method of *attribution*; *message* says in words what is missing, "" when nothing is.

    The window is that of the *model*, which is the one before where nothing is *changed*: then there was nothing new.
    *held_back* is why the model does not answer: chosen (another was, by hand), worse (on what was set aside), or "".
    """

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
    held_back: str = ""
    changed: bool = True


def run(
    settings: Settings,
    cluster: str,
    *,
    now: Callable[[], datetime],
    full: bool = False,
    store: Store | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Outcome:
    """Learn what is new of *cluster* in the store, save and promote the model, and publish the snapshot.

    A full fit is made where *full* says that a person asked for it, or where increments cannot go on; the model's
    reason says which. *progress* is told how many of how many functions are fitted. Without news there is no new
    model. Raises `BadInput` where the store or the snapshot cannot be written.
    """
    memory.lean()
    opened = store or Store(settings.store.path, settings.store.deadline)
    with opened.session() as held, tracing.span("learn", {"cluster": cluster, "full": full}) as tell:
        attempt = 0
        while True:
            attempt, began = attempt + 1, time.monotonic()
            with contextlib.suppress(claims.Outdated):  # another run was faster: learn what it has left
                _pass(held, settings, cluster, now, progress)
                found = _once(held, settings, cluster, now, full, progress)
                tell({"model": found.model, "activations": found.activations, "evidence": found.evidence})
                tell({"functions": found.functions, "snapshot": found.snapshot, "held_back": found.held_back})
                return found
            # Two that begin again at once would take the claim from each other for ever.
            time.sleep(random.uniform(0.0, attempt * (time.monotonic() - began)))


def _pass(
    held: Store,
    settings: Settings,
    cluster: str,
    now: Callable[[], datetime],
    progress: Callable[[int, int], None],
) -> None:
    """Learn, part by part, what is more than is learned from together, up to where the rest is not."""
    known = held.read(lambda con: states.head(con, cluster))
    closed, beyond = 0 if known is None else known.closed, None

    def following(con: DuckDBPyConnection) -> passing.Part | None:
        return passing.part(con, cluster, now(), settings, beyond)

    while (next_part := held.read(following)) is not None:
        _once(held, settings, cluster, now, False, progress, next_part)
        memory.release(cycles=True)
        passing.age(held, cluster, settings, planning.options(settings).memory)
        known = held.read(lambda con: states.head(con, cluster))
        # Blocks are cut by evidence, of which there is less than was counted: one may end an hour later.
        beyond = next_part.closed if known is None or known.closed <= closed else None
        closed = closed if known is None else known.closed


def _once(
    held: Store,
    settings: Settings,
    cluster: str,
    now: Callable[[], datetime],
    full: bool,
    progress: Callable[[int, int], None],
    part: passing.Part | None = None,
) -> Outcome:
    started = now()
    at, come = (started, None) if part is None else (part.until, started)

    def prepare(con: DuckDBPyConnection) -> tuple[Plan, windows.Copied]:
        made = planning.plan(con, cluster, at, settings, code_version(), full=full, come=come)
        return made, _begun(con, cluster, made)

    plan, begun = held.read(prepare)
    name = f"{at.astimezone(UTC):%Y%m%dT%H%M%S}{at.microsecond // 1000:03d}Z"
    plan, learned, claim = _learned(held, settings, cluster, plan, begun, name, progress)
    del begun
    return conclude(held, settings, cluster, plan, learned, name, (started, now()), claim)


def conclude(
    held: Store,
    settings: Settings,
    cluster: str,
    plan: Plan,
    learned: Learned,
    name: str,
    times: tuple[datetime, datetime],
    claim: Claim | None = None,
) -> Outcome:
    """Save and publish what any engine learned from one time to the other; return what is said of it. *claim*: see
    `saving.saved`."""
    model, promotion, snapshot = saved(held, settings, cluster, plan, learned, name, times, claim)
    outcome = _outcome(cluster, model, plan.span, learned, snapshot, (times[1] - times[0]).total_seconds())
    message = "; ".join(filter(None, (_stays(model, learned), outcome.message, promotion.message)))
    return replace(outcome, message=message, held_back=promotion.reason)


def _learned(
    held: Store,
    settings: Settings,
    cluster: str,
    plan: Plan,
    begun: windows.Copied,
    name: str,
    progress: Callable[[int, int], None],
) -> tuple[Plan, Learned, Claim | None]:
    """Return the candidate, the plan with the reason that turned out, and under which claim bodies of its state are
    written already: the one place where a model is made."""
    chosen = options(settings, name, plan)
    if plan.state is not None and plan.newest is not None and not plan.reason:
        carried = Carried(plan.tables, plan.newest.metrics)
        inputs = _inputs(held, cluster, plan, begun)
        found = advance(inputs, chosen, plan.state, carried, passing=plan.passing)
        if isinstance(found, Learned):
            reason = f"newer history: {_news(found, plan.newest)}"
            return replace(plan, reason=reason, state=plan.state.emptied()), found, None
        reason = found
        del inputs, carried

        def prepare(con: DuckDBPyConnection) -> tuple[Plan, windows.Copied]:
            made = planning.refit(con, cluster, plan, reason, settings)
            return made, _begun(con, cluster, made)

        plan, begun = held.read(prepare)
    inputs = _inputs(held, cluster, plan, begun)
    before = None
    try:
        before = None if plan.state is None else states.filled(held, cluster, plan.state)
    except bodies.Damaged as error:
        plan = replace(plan, reason=planning.lost(error))
    plan = replace(plan, state=None if before is None else before.emptied())
    unchanged = partial(states.unchanged, cluster=cluster, serial=plan.serial)
    with beside.writing(held, cluster) as keep, beside.Bodies(held, cluster, name, plan.state, unchanged) as ahead:
        learned = learn(inputs, options(settings, name, plan), progress, before, keep, ahead.begin)
        return plan, learned, ahead.claim()


def _begun(con: DuckDBPyConnection, cluster: str, plan: Plan) -> windows.Copied:
    return windows.begin(con, cluster, Window(plan.first, plan.span.until))


def _inputs(held: Store, cluster: str, plan: Plan, begun: windows.Copied) -> Inputs:
    tables = windows.rest(held, cluster, begun)
    memory.release(cycles=bool(plan.reason))  # what DuckDB needed to look through a long history, or an increment
    return Inputs(**tables, since=micros(plan.since), until=micros(plan.span.until), settled=micros(plan.settled))


def _news(learned: Learned, newest: models.Model) -> str:
    return f"{max(0, learned.metrics['evidence'] - newest.metrics['evidence'])} activations more"


def follow(store: Store, at: datetime) -> int:
    """Join decisions with the nodes that their pods got and how these fared; returns how many have a pod."""
    return store.write(lambda con: followed.follow(con, at))


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


def options(settings: Settings, name: str, plan: Plan) -> Options:
    return replace(
        planning.options(settings, holdout=plan.holdout),
        model=name,
        code_version=code_version(),
        use_since_us=None if plan.use_since is None else micros(plan.use_since),
    )


def _outcome(
    cluster: str, model: models.Model, span: Window, learned: Learned, snapshot: Snapshot, seconds: float
) -> Outcome:
    metrics = learned.metrics
    return Outcome(
        cluster=cluster,
        model=model.model,
        snapshot=snapshot.version,
        window_start=model.window_start or span.since,
        window_end=model.window_end or span.until,
        activations=metrics["activations"],
        evidence=metrics["evidence"],
        functions=metrics["functions"],
        pairs=metrics["pairs"],
        attribution=learned.attribution,
        message=_missing(learned),
        seconds=seconds,
        changed=learned.changed,
    )


def _stays(model: models.Model, learned: Learned) -> str:
    """Say that no model was made, "" where one was."""
    at = model.created.astimezone(UTC)
    return "" if learned.changed else f"nothing new since model {model.number} was learned, {at:%Y-%m-%d %H:%M} UTC"


def _missing(learned: Learned) -> str:
    """Say why nothing, or little, is known."""
    metrics = learned.metrics
    if not metrics["activations"]:
        return "no activations in the window: nothing is known"
    if not metrics["evidence"]:
        if without := unplaced(learned.attribution):
            return f"{without}: {TELLS}"
        return "no successful activation could be placed on a node: nothing is known of interference"
    if metrics["functions"] < 2:
        return "only one function ran: what can be known is of its runs beside each other alone"
    unfitted = metrics.get("unfitted", {})
    if not metrics["pairs"].get("observed") and sum(unfitted.values()) >= metrics["functions"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(unfitted.items()))
        return f"no function can be estimated (functions by reason: {reasons}): every pair is unknown"
    if not metrics["pairs"].get("observed"):
        return "no pair has been seen together long enough: every pair is unknown"
    differ = metrics.get("disagreements", [])
    if differ:
        first, more = differ[0], f" and {len(differ) - 1} more" if len(differ) > 1 else ""
        return (
            f"{first['function']}: its workflow declares {first['resource']} {first['declared']}, "
            f"measured is {first['measured']}{more}: the measured class is used"
        )
    return ""
