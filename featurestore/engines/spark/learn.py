"""A full fit on Spark: which step runs where, and what the driver makes of the answers.

By some functions: attribution, and what needs one function's runs and its pods' samples. By some nodes: exposure. By
some victims: the fits. By block of days: the fold. The driver holds names, one row a function, node or pair, and some
60 bytes a run for the concurrency of the whole cluster.
"""

import pickle
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from featurestore import answers, details, profiles
from featurestore.attribution.attribute import CERTAIN, METHODS
from featurestore.designs import design
from featurestore.engines.beginning import points_of
from featurestore.engines.candidate import Inputs, Learned, Options, Prepared
from featurestore.engines.concluding import Found, conclude
from featurestore.engines.folding import HOUR, cuts
from featurestore.engines.past import Past
from featurestore.engines.spark import gathered, shared, work
from featurestore.engines.spark.reading import Export
from featurestore.engines.spark.rows import DDL, bodies
from featurestore.engines.spark.tries import Tries
from featurestore.engines.spark.window import PLACED, Asked, given_of, groups, together
from featurestore.exposure.sweep import OPEN, Exposure
from featurestore.interference.blocks import Linearisation
from featurestore.interference.concurrency import events
from featurestore.interference.evidence import Told, told
from featurestore.interference.victim import fit_victim
from featurestore.runs import Runs
from featurestore.states import Packed, Step
from featurestore.used import USE

#: What `learn` tells that it has done.
STEPS = ("attribution", "fit", "fold")
#: Runs in a group of victims, about: what a task holds. There are as many tasks a group as `_TASKS`, so that groups
#: seldom share one, and `_MOST_TASKS` at most but a group each.
_FITTED, _TASKS, _MOST_TASKS = 400_000, 4, 2_000

_NO_EXPOSURE = Exposure(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))


def learn(
    spark: Any, asked: Asked, options: Options, progress: Callable[[str], None] = lambda step: None
) -> tuple[Learned, Inputs]:
    """Learn from the export in full, as `engines.local.learn` does without a state from before; also return the
    window and what is declared. *progress* is told the steps that are done.

    What single activations used is not in the answer. Raises `BadInput` where the export has no activations.
    """
    export, tries = Export(spark, asked.place, asked.cluster), Tries(spark)
    cores = spark.sparkContext.defaultParallelism
    tries.step("attribution")
    given, inputs, activations, counted = given_of(export, asked, options, cores)
    number = groups(counted[0], PLACED, cores)
    parcels = together(export, activations, given, number, cores)
    placed = _worked(parcels, number, work.place, given=given).persist()
    try:
        said = [each for _, each in _told(placed)]
        activations.unpersist()
        progress("attribution")
        tries.step("fit")
        fitted = _fitted(spark, placed, said, given, cores)
        progress("fit")
        tries.step("fold")
        fits, past = fitted.fits, Past(inputs.since)
        days, folds = _days(placed, said, given, points_of(fits, past))
        tries.step("rest")
        spark.range(1).count()
        again = tries.again()
        progress("fold")
    finally:
        placed.unpersist()
    everything = Found(
        fits=fits,
        days=days,
        several=set().union(*(each.several for each in said)),
        measured=profiles.shared(*gathered.measured(said), given.specs, given.node_types),
        known=gathered.known(said, len(given.functions)),
        counted={key: value for each in said for key, value in each.counted.items()},
        tables={
            "latencies": gathered.ordered([each.latencies for each in said], ("node", "function", "node_type")),
            "company": answers.most_met(gathered.ordered(fitted.company, ("node", "function"))),
            "busyness": gathered.ordered([each.busyness for each in said], ("node", "function")),
        },
        compared={
            name: pa.concat_tables([each[name] for each in fitted.compared]).unify_dictionaries()
            for name in details.OF_FULL_FITS
        },
        ran=sum(len(each.functions) for each in said),
        exposures=fitted.exposures,
        first=min((each.first for each in said if each.first is not None), default=None),
        last=max((each.last for each in said if each.last is not None), default=None),
    )
    methods = gathered.methods(said)
    on_nodes = round(sum(methods[METHODS[code]] for code in CERTAIN))
    nowhere = _nowhere(given)
    ready = Prepared(nowhere, inputs.usage, USE.empty_table(), methods, *counted, on_nodes, np.zeros(0, bool))
    with threadpool_limits(1, "blas"):
        learned = conclude(everything, ready, inputs, options, past, None)
    where = [*(each.where for each in said), *fitted.where, *folds]
    return replace(learned, metrics={**learned.metrics, "engine": _engine(spark, where, again)}), inputs


@dataclass(frozen=True, slots=True)
class _Fitted:
    """What the victims say: their *fits* in order, and of each group of them its tables."""

    fits: Sequence[Told]
    company: Sequence[pa.Table]
    compared: Sequence[Mapping[str, pa.Table]]
    exposures: int
    where: Sequence[Mapping[str, Any]]


def _fitted(spark: Any, placed: Any, said: Sequence[work.Placed], given: work.Given, cores: int) -> _Fitted:
    """Sweep the nodes and fit the victims, in groups of about as many runs each."""
    counts, start, end = gathered.runs(said, len(given.functions))
    number = min(groups(len(start), _FITTED, cores), len(counts))
    beside = _worked(
        placed.filter(f"part = '{work.RUNS}' AND key < {given.swept}"),
        given.swept,
        work.beside,
        given=given,
        chunks=gathered.chunks(counts, number),
    )
    with tempfile.TemporaryDirectory(prefix="colocate-") as scratch:
        path = Path(scratch) / f"events-{uuid.uuid4().hex}"
        function = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        every = events(function, start, end, len(counts))
        shared.write(every, np.cumsum(counts) - counts, path)
        del every, function, start, end
        spark.sparkContext.addFile(str(path))
        found = [
            each
            for _, each in _told(
                _worked(beside, number, work.fit, given=given, events=partial(shared.sent, path.name))
            )
        ]
    fits = {fit.victim: fit for own, *_ in found for fit in own}
    nowhere = _nowhere(given)
    for code in set(range(len(counts))) - fits.keys():  # of no evidence at all
        nothing = design(code, nowhere, _NO_EXPOSURE, _NO_EXPOSURE.rows)
        fits[code] = told(fit_victim(nothing, given.options.estimation))
    return _Fitted(
        [fits[code] for code in range(len(counts))],
        [company for _, company, *_ in found],
        [compared for _, _, compared, *_ in found],
        sum(exposures for *_, exposures, _ in found),
        [where for *_, where in found],
    )


def _days(
    placed: Any, said: Sequence[work.Placed], given: work.Given, points: Mapping[int, Linearisation]
) -> tuple[list[Step], list[Mapping[str, Any]]]:
    """Reduce the blocks of days, each where its runs are; in order, and who did it."""
    hours, count, begun = gathered.hours(said)
    edges = np.array(cuts(hours, count, given.since, given.until, given.options.most))
    edges[-1] = OPEN
    firsts = np.full(len(edges) - 1, OPEN)
    np.minimum.at(firsts, np.searchsorted(edges[1:-1], hours * HOUR, side="right"), begun)
    near = placed.filter(f"part = '{work.RUNS}'").mapInArrow(
        work.bound(work.near, given=given, edges=edges, firsts=firsts), DDL
    )
    answered = _worked(near, len(firsts), work.fold, given=given, edges=edges, points=points).toArrow()
    steps = {key: pickle.loads(body) for key, body in zip(*_parcels(answered, work.TOLD), strict=True)}
    blocks: dict[int, list[bytes]] = {key: [] for key in steps}
    for key, body in zip(*_parcels(answered, work.BLOCKS), strict=True):
        blocks[key].append(bytes(body))
    nothing = [Step(int(since), int(until), 0.0, {}) for since, until in pairwise(edges)]
    days = [
        replace(steps[key][0], blocks=Packed(blocks[key])) if key in steps else step
        for key, step in enumerate(nothing)
    ]
    return days, [where for _, where in steps.values()]


def _worked(parcels: Any, number: int, function: Callable[..., pa.Table], **given: object) -> Any:
    """Return what *function* makes of each of so many groups of *parcels*, as parcels."""
    tasks = max(number, min(_TASKS * number, _MOST_TASKS))
    return parcels.repartition(tasks, "key").groupBy("key").applyInArrow(work.bound(function, **given), DDL)


def _told(frame: Any) -> list[tuple[int, Any]]:
    """Return what each group's step said to the driver, by the groups' keys."""
    table = frame.filter(f"part = '{work.TOLD}'").toArrow()
    keys, found = _parcels(table, work.TOLD)
    return [(key, pickle.loads(body)) for key, body in zip(keys, found, strict=True)]


def _parcels(table: pa.Table, part: str) -> tuple[list[int], list[memoryview]]:
    """Return the keys and the bytes of the parcels of one part."""
    own = [key for key, name in zip(table["key"].to_pylist(), table["part"].to_pylist(), strict=True) if name == part]
    return own, list(bodies(table, part))


def _nowhere(given: work.Given) -> Runs:
    """Return no runs, under the names of the cluster."""
    code, time, flag = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, bool)
    return Runs(
        functions=given.functions,
        nodes=given.nodes,
        node_types=given.node_types,
        pods=pa.array([], pa.string()),
        versions=(),
        function=code,
        node=code,
        node_type=code,
        pod=code,
        start=time,
        end=time,
        execution=np.zeros(0),
        cold=flag,
        version=time,
        evidence=flag,
    )


def _engine(spark: Any, where: Sequence[Mapping[str, Any]], again: Mapping[str, int]) -> dict[str, Any]:
    """Return for the model's record who ran each step: processes, the largest peak of their memory so far (MB), and
    how many tasks were tried again."""
    steps: dict[str, Any] = {
        name: {"parts": 0, "retried": number, "processes": [], "peak_mb": 0.0} for name, number in again.items()
    }
    for each in where:
        step = steps[each["step"]]
        step["parts"] += each["parts"]
        step["peak_mb"] = max(step["peak_mb"], each["peak_mb"])
        if (process := f"{each['host']}:{each['pid']}") not in step["processes"]:
            step["processes"].append(process)
    return {"name": "spark", "version": spark.version, "steps": steps}
