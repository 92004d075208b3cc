"""``colocate learn --engine spark``: a full fit on a Spark cluster out of exported tables, saved like any other."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from featurestore.engines.spark import learn as engine
from featurestore.engines.spark.session import session
from featurestore.engines.spark.window import Asked
from featurestore.store import windows
from featurestore.store.duck import Store
from jobs import learn, planning
from jobs.config import Settings
from jobs.learn import Outcome
from jobs.planning import micros, time
from jobs.saving import code_version
from pipeline.records import Window


def run(
    settings: Settings,
    cluster: str,
    *,
    master: str,
    tables: str,
    now: Callable[[], datetime],
    store: Store | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Outcome:
    """Learn *cluster* at the Spark *master* from the export *tables*, a path or URL, save the model and publish.

    A state begins anew with it, from which increments on this machine go on. What single activations used is left to
    those. Raises `BadInput` where pyspark or Java is not installed or *tables* hold nothing of the cluster,
    `Permanent` where Spark fails.
    """
    held = store or Store(settings.store.path, settings.store.deadline)
    with session(master) as spark:
        return run_in(spark, settings, cluster, tables=tables, now=now, store=held, progress=progress)


def run_in(
    spark: Any,
    settings: Settings,
    cluster: str,
    *,
    tables: str,
    now: Callable[[], datetime],
    store: Store,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Outcome:
    """Do what `run` does in a session that is open."""
    started = now()
    plan = store.read(lambda con: planning.plan(con, cluster, started, settings, code_version(), full=True))
    name = f"{started.astimezone(UTC):%Y%m%dT%H%M%S}{started.microsecond // 1000:03d}Z"
    asked = Asked(
        tables,
        cluster,
        window=round(settings.learn.window.total_seconds() * 1e6),
        until=micros(started),
        lag=micros(plan.span.until) - micros(plan.settled),
        first=micros(windows.FIRST),
    )

    def told(step: str) -> None:
        progress(engine.STEPS.index(step) + 1, len(engine.STEPS))

    learned, inputs = engine.learn(spark, asked, learn.options(settings, name, plan), told)
    metrics = {} if plan.newest is None else plan.newest.metrics
    made = replace(
        plan,
        reason=f"asked for on Spark, from {tables}",
        span=Window(time(inputs.since), time(inputs.until)),
        use_settled=time(metrics[planning.USE_SETTLED]) if planning.USE_SETTLED in metrics else plan.use_settled,
    )
    return learn.conclude(store, settings, cluster, made, learned, name, (started, now()))
