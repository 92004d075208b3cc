"""A full fit on Spark: which step runs where, and what the driver makes of the answers.

By function: attribution, and what needs one function's runs and its pods' samples. By node: exposure. By victim: the
fit. By block of days: the fold. The driver holds names, one row a function, node or pair, and 64 bytes a run for the
concurrency of the whole cluster.
"""

import pickle
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from featurestore import answers, details, profiles
from featurestore.attribution.attribute import CERTAIN, METHODS
from featurestore.columnar import distinct, integers
from featurestore.engines.beginning import points_of
from featurestore.engines.candidate import Inputs, Learned, Options, Prepared
from featurestore.engines.concluding import Found, conclude
from featurestore.engines.folding import DAY, HOUR, cuts
from featurestore.engines.past import Past
from featurestore.engines.spark import gathered, shared, work
from featurestore.engines.spark.reading import Export
from featurestore.engines.spark.rows import ROWS, ddl, runs_of, schema
from featurestore.engines.spark.tries import Tries
from featurestore.exposure.sweep import OPEN
from featurestore.interference.blocks import Linearisation
from featurestore.interference.concurrency import build
from featurestore.states import Step
from featurestore.used import USE
from pipeline.errors import BadInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: What `learn` tells that it has done.
STEPS = ("attribution", "fit", "fold")


@dataclass(frozen=True, slots=True)
class Asked:
    """Which *cluster* of the export at *place* is learned from: the last *window* (microseconds) up to *until*, None:
    up to its newest activation. Days that end *lag* before that are folded for good."""

    place: str
    cluster: str
    window: int
    until: int | None
    lag: int


def learn(
    spark: Any, asked: Asked, options: Options, progress: Callable[[str], None] = lambda step: None
) -> tuple[Learned, Inputs]:
    """Learn from the export in full, as `engines.local.learn` does without a state from before; also return the
    window and what is declared. *progress* is told the steps that are done.

    What single activations used is not in the answer. Raises `BadInput` where the export has no activations.
    """
    export, tries = Export(spark, asked.place, asked.cluster), Tries(spark)
    tries.step("attribution")
    given, inputs, activations, counted = _given(export, asked, options)
    placed = _placed(export, activations, given).persist()
    try:
        told = [pickle.loads(body) for body in _bodies(placed)]
        progress("attribution")
        tries.step("fit")
        runs = placed.filter("body IS NULL").drop("body")
        beside = _beside(runs, given)
        with tempfile.TemporaryDirectory(prefix="colocate-") as scratch:
            sent = _sent(spark, runs, given, Path(scratch))
            fits = beside.groupBy("function").applyInArrow(
                work.bound(work.fit, given=given, concurrency=partial(shared.sent, sent)), ddl(work.ANSWER)
            )
            victims = _answers(fits)
            progress("fit")
        tries.step("fold")
        found = [victims[code] for code in range(len(given.functions))]
        past = Past(inputs.since)
        days, folds = _days(runs, given, points_of([fit for fit, *_ in found], past))
        tries.step("rest")
        several = _several(runs)
        first, last = runs.filter("fitted").selectExpr("min(start)", "max(until)").first()
        again = tries.again()
        progress("fold")
    finally:
        placed.unpersist()
    everything = Found(
        fits=[fit for fit, *_ in found],
        days=days,
        several=several,
        measured=profiles.shared(*gathered.measured(told), given.specs, given.node_types),
        known=gathered.known(told, len(given.functions)),
        counted={key: value for each in told for key, value in each.counted.items()},
        tables={
            "latencies": gathered.ordered([each.latencies for each in told], ("node", "function", "node_type")),
            "company": answers.most_met(
                gathered.ordered([company for _, company, *_ in found], ("node", "function"))
            ),
            "busyness": gathered.ordered([each.busyness for each in told], ("node", "function")),
        },
        compared={
            name: pa.concat_tables([compared[name] for _, _, compared, *_ in found]).unify_dictionaries()
            for name in details.OF_FULL_FITS
        },
        ran=len(told),
        exposures=sum(exposures for *_, exposures, _ in found),
        first=first,
        last=last,
    )
    nowhere, _ = runs_of(schema(ROWS).empty_table(), given.functions, given.nodes, given.node_types)
    methods = gathered.methods(told)
    on_nodes = round(sum(methods[METHODS[code]] for code in CERTAIN))
    ready = Prepared(nowhere, inputs.usage, USE.empty_table(), methods, *counted, on_nodes, np.zeros(0, bool))
    with threadpool_limits(1, "blas"):
        learned = conclude(everything, ready, inputs, options, past, None)
    where = [each.where for each in told] + [each for *_, each in found] + folds
    return replace(learned, metrics={**learned.metrics, "engine": _engine(spark, where, again)}), inputs


def _given(export: Export, asked: Asked, options: Options) -> tuple[work.Given, Inputs, Any, tuple[int, int]]:
    """Return what all steps are given, the inputs without what is large, the activations, and how many there are,
    composites apart."""
    every = export.table("activations")
    [newest] = every.selectExpr("unix_micros(max(start))").first()
    if newest is None:
        raise BadInput(f"{asked.place}: no activations of cluster {asked.cluster!r} (colocate export parquet)")
    until = newest + 1_000_000 if asked.until is None or newest < asked.until - asked.window else asked.until
    since = until - asked.window
    near = export.table("activations", _day(since - DAY)).filter(
        f"start >= timestamp_micros({since - DAY}) AND start < timestamp_micros({until})"
    )
    first = since
    for _ in range(2):  # all that ended since, and all that they ran beside: as `store.states.reach` reads
        [begun] = (
            near.filter(
                "NOT composite AND unix_micros(coalesce(end, start)) + CASE WHEN end IS NULL THEN"
                f" coalesce(timeout_ms, 0) * 1000 ELSE 0 END >= {first}"
            )
            .selectExpr("unix_micros(min(start))")
            .first()
        )
        first = min(first, begun) if begun is not None else first
    activations = near.filter(f"start >= timestamp_micros({first - 2 * options.step_us})")
    count, composites = activations.selectExpr("count(*)", "count_if(composite)").first()
    if count == composites:
        raise BadInput(f"{asked.place}: no activations of cluster {asked.cluster!r} but those of compositions")
    activations = activations.filter("NOT composite")
    specs = export.small("nodes")
    own = activations.select("function", "node_type", "node").distinct().toArrow()
    there = export.table("placements").select("node").distinct().toArrow()
    given = work.Given(
        functions=distinct(own["function"]),
        nodes=distinct(specs["node"], own["node"], there["node"]),
        node_types=distinct(specs["node_type"], own["node_type"]),
        specs=specs,
        since=since,
        until=until,
        options=options,
    )
    none = pa.table({})
    inputs = Inputs(
        activations=none,
        placements=none,
        nodes=specs,
        usage=none,
        declared=export.small("declared"),
        workflows=export.small("workflows"),
        since=since,
        until=until,
        settled=until - asked.lag,
    )
    return given, inputs, activations, (count, composites)


def _placed(export: Export, activations: Any, given: work.Given) -> Any:
    """Return the `ROWS` of all functions: each function's activations, pods and samples meet in one place."""
    lives = export.table("placements").filter(
        f"started < timestamp_micros({given.until}) AND"
        f" coalesce(ended, timestamp_micros({given.until})) > timestamp_micros({given.since - 2 * DAY})"
        " AND function IS NOT NULL"
    )
    named = (
        activations.filter("pod IS NOT NULL AND node IS NULL")
        .selectExpr("function AS key", "pod")
        .distinct()
        .join(lives, "pod")
        .filter("key <> function")
    )
    pods = lives.selectExpr("function AS key", "*").unionByName(named)
    metrics = ", ".join(f"'{name}'" for name in sorted(_metrics()))
    samples = (
        export.table("usage", _day(given.since - 2 * DAY))
        .filter(f"metric IN ({metrics}) AND at < timestamp_micros({given.until})")
        .join(pods.selectExpr("key", "namespace", "pod AS name").distinct(), ["namespace", "name"])
    )
    together = activations.selectExpr("'activations' AS part", "function AS key", "*")
    for part, rows in (("placements", pods), ("usage", samples)):
        together = together.unionByName(rows.selectExpr(f"'{part}' AS part", "*"), allowMissingColumns=True)
    return together.groupBy("key").applyInArrow(work.bound(work.place, given=given), ddl(ROWS))


def _metrics() -> set[str]:
    return {metric for own in profiles.METRICS.values() for metric in own} | {"cpu_throttled", "memory_pressure"}


def _beside(runs: Any, given: work.Given) -> Any:
    """Return the runs with their exposures; those on no known node as they are."""
    columns = {name: kind for name, kind in ROWS.items() if name != "body"}
    swept = runs.filter("node >= 0").groupBy("node").applyInArrow(work.bound(work.beside, given=given), ddl(columns))
    return swept.unionByName(runs.filter("node < 0"))


def _sent(spark: Any, runs: Any, given: work.Given, scratch: Path) -> str:
    """Build the concurrency of the whole cluster and send it to all workers; return its name there."""
    every = runs.select("function", "start", "until").toArrow()
    function, start, end = (integers(every[name], 0) for name in ("function", "start", "until"))
    path = scratch / f"concurrency-{uuid.uuid4().hex}"
    shared.write(build(function, start / 1e6, end / 1e6, len(given.functions)), path)
    spark.sparkContext.addFile(str(path))
    return path.name


def _days(
    runs: Any, given: work.Given, points: Mapping[int, Linearisation]
) -> tuple[list[Step], list[Mapping[str, Any]]]:
    """Reduce the blocks of days, each where its runs are; in order, and who did it."""
    hours = runs.filter("fitted").selectExpr(f"until div {HOUR} AS hour").groupBy("hour").count().toArrow()
    hours = hours.sort_by("hour")
    hour, count = (integers(hours[name], 0) for name in ("hour", "count"))
    edges = np.array(cuts(hour, count, given.since, given.until, given.options.most))
    edges[-1] = OPEN
    begun = runs.mapInArrow(partial(work.begins, edges=edges), "block int, start long").groupBy("block").min("start")
    firsts = np.full(len(edges) - 1, OPEN)
    for block, first in begun.collect():
        firsts[block] = first
    near = runs.drop("indices", "values").mapInArrow(
        partial(work.near, edges=edges, firsts=firsts), ddl({**work.CARRIED, "block": "int"})
    )
    work_of = work.bound(work.fold, given=given, edges=edges, points=points)
    said = _answers(near.groupBy("block").applyInArrow(work_of, ddl(work.ANSWER)))
    nothing = [Step(int(since), int(until), 0.0, {}) for since, until in pairwise(edges)]
    days = [said[block][0] if block in said else step for block, step in enumerate(nothing)]
    return days, [where for _, where in said.values()]


def _bodies(placed: Any) -> list[bytes]:
    found: list[bytes] = placed.filter("body IS NOT NULL").select("body").toArrow()["body"].to_pylist()
    return found


def _answers(frame: Any) -> dict[int, Any]:
    """Return what each key's step said."""
    table = frame.toArrow()
    keys, bodies = (table[name].to_pylist() for name in ("key", "body"))
    return {key: pickle.loads(body) for key, body in zip(keys, bodies, strict=True)}


def _several(runs: Any) -> set[int]:
    found = runs.filter("fitted").select("function", "version").distinct().groupBy("function").count()
    return set(found.filter("count > 1").toArrow()["function"].to_pylist())


def _engine(spark: Any, where: Sequence[Mapping[str, Any]], again: Mapping[str, int]) -> dict[str, Any]:
    """Return for the model's record who ran each step: processes, and how many tasks were tried again."""
    steps: dict[str, Any] = {name: {"parts": 0, "retried": number, "processes": []} for name, number in again.items()}
    for each in where:
        step = steps[each["step"]]
        step["parts"] += 1
        if (process := f"{each['host']}:{each['pid']}") not in step["processes"]:
            step["processes"].append(process)
    return {"name": "spark", "version": spark.version, "steps": steps}


def _day(us: int) -> str:
    return f"{_EPOCH + timedelta(microseconds=us):%Y-%m-%d}"
