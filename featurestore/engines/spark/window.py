"""What of an export a fit on Spark learns from: the window, who is in it, and what is attributed together."""

import pickle
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from featurestore import profiles
from featurestore.columnar import distinct
from featurestore.engines.candidate import Inputs, Options
from featurestore.engines.folding import DAY
from featurestore.engines.spark import files, work
from featurestore.engines.spark.reading import Export
from featurestore.engines.spark.rows import DDL, bodies
from pipeline.errors import BadInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Runs in a group of functions and of nodes, about: what a task holds. There are as many groups a core as `_SPREAD`
#: even where that makes them smaller.
PLACED, _SWEPT = 250_000, 500_000
_SPREAD = 4
#: So many keys a core are given to functions before it is known how many activations there are.
_FINE = 64


@dataclass(frozen=True, slots=True)
class Asked:
    """Which *cluster* of the export at *place* is learned from: the last *window* (microseconds) up to *until*, None:
    up to its newest activation. Days that end *lag* before that are folded for good. What started before *first* is
    of a clock that was centuries behind."""

    place: str
    cluster: str
    window: int
    until: int | None
    lag: int
    first: int


def groups(runs: int, each: int, cores: int) -> int:
    """Return into how many groups of about *each* so many *runs* are put."""
    return max(_SPREAD * cores, -(-runs // each))


def given_of(
    export: Export, asked: Asked, options: Options, cores: int
) -> tuple[work.Given, Inputs, Any, tuple[int, int]]:
    """Return what all steps are given, the inputs without what is large, the activations, and how many there are,
    composites apart. The activations are parcels, read once and kept (`unpersist`): files are many and small."""
    until = _until(export, asked)
    since = until - asked.window
    first = since
    for _ in range(2):  # all that ended since, and all that they ran beside: as `store.states.reach` reads
        [begun] = (
            export.table("activations", _day(since - DAY), _day(first))
            .filter(
                f"start >= timestamp_micros({since - DAY}) AND start < timestamp_micros({min(first, until)}) AND"
                " NOT composite AND unix_micros(coalesce(end, start)) + CASE WHEN end IS NULL THEN"
                f" coalesce(timeout_ms, 0) * 1000 ELSE 0 END >= {first}"
            )
            .selectExpr("unix_micros(min(start))")
            .first()
        )
        first = min(first, begun) if begun is not None else first
    low = max(first - 2 * options.step_us, since - DAY)
    small, large = export.files("activations", _day(low))
    within = f"start >= timestamp_micros({low}) AND start < timestamp_micros({until})"
    large = large.filter(within).selectExpr(f"{files.group('function', _FINE * cores)} AS key", "*")
    activations = (
        small.mapInArrow(work.bound(files.activations, since=low, until=until, groups=_FINE * cores), DDL)
        .unionByName(large.mapInArrow(work.bound(work.pack, part="activations"), DDL))
        .persist()
    )
    said = [pickle.loads(body) for body in bodies(activations.filter(f"part = '{work.TOLD}'").toArrow(), work.TOLD)]
    count, composites = (sum(each[name] for each in said) for name in ("count", "composites"))
    if count == composites:
        raise BadInput(f"{asked.place}: no activations of cluster {asked.cluster!r} but those of compositions")
    names = {name: pa.chunked_array([each[name] for each in said]) for name in work.NAMES}
    specs = export.small("nodes")
    there = export.table("placements").select("node").distinct().toArrow()
    given = work.Given(
        functions=distinct(names["function"]),
        nodes=distinct(specs["node"], names["node"], there["node"]),
        node_types=distinct(specs["node_type"], names["node_type"]),
        specs=specs,
        since=since,
        until=until,
        options=options,
        swept=groups(count, _SWEPT, cores),
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


def _until(export: Export, asked: Asked) -> int:
    """Return where the window ends: as *asked*, or after the newest activation where that is older than the window.

    Newest is sought among the last days first, which is a part of the export. What started later than asked is of a
    clock that is ahead, and must not hide a history that ended long ago.
    """
    told = f"start >= timestamp_micros({asked.first})"
    told += "" if asked.until is None else f" AND start <= timestamp_micros({asked.until})"
    for days in [None] if asked.until is None else [_day(asked.until - DAY), None]:
        [newest] = export.table("activations", days).filter(told).selectExpr("unix_micros(max(start))").first()
        if newest is not None:
            break
    if newest is None:
        raise BadInput(f"{asked.place}: no activations of cluster {asked.cluster!r} (colocate export parquet)")
    if asked.until is None or newest < asked.until - asked.window:
        return int(newest) + 1_000_000
    return asked.until


def together(export: Export, activations: Any, given: work.Given, number: int, cores: int) -> Any:
    """Return parcels of the *activations*, pods and samples of the functions, put into so many groups."""
    lives = export.table("placements").filter(
        f"started < timestamp_micros({given.until}) AND"
        f" coalesce(ended, timestamp_micros({given.until})) > timestamp_micros({given.since - 2 * DAY})"
        " AND function IS NOT NULL"
    )
    key = f"{files.group('function', _FINE * cores)} % {number}"
    lives = lives.selectExpr(f"{key} AS key", "*")
    named = (
        export.table("activations", _day(given.since - DAY))
        .filter(f"NOT composite AND pod IS NOT NULL AND node IS NULL AND start < timestamp_micros({given.until})")
        .selectExpr(f"{key} AS of", "pod")
        .distinct()
        .join(lives, "pod")
        .filter("key <> of")
        .drop("key")
        .withColumnRenamed("of", "key")
    )
    pods = lives.unionByName(named)
    metrics = ", ".join(f"'{name}'" for name in sorted(_metrics()))
    samples = (
        export.table("usage", _day(given.since - 2 * DAY))
        .filter(f"metric IN ({metrics}) AND at < timestamp_micros({given.until})")
        .join(pods.selectExpr("key", "namespace", "pod AS name").distinct(), ["namespace", "name"])
    )
    packed = activations.filter(f"part <> '{work.TOLD}'").selectExpr(f"key % {number} AS key", "part", "body")
    for part, rows in (("placements", pods), ("usage", samples)):
        packed = packed.unionByName(rows.mapInArrow(work.bound(work.pack, part=part), DDL))
    return packed


def _metrics() -> set[str]:
    return {metric for own in profiles.METRICS.values() for metric in own} | {"cpu_throttled", "memory_pressure"}


def _day(us: int) -> str:
    return f"{_EPOCH + timedelta(microseconds=us):%Y-%m-%d}"
