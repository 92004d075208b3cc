"""The fits of all victims on Spark and their days, reduced: by some victims; what that leaves by block of days."""

import pickle
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from featurestore import node_kernels
from featurestore.designs import design
from featurestore.engines.folding import HOUR, cuts
from featurestore.engines.spark import gathered, shared, tasks, work
from featurestore.engines.spark.rows import DDL
from featurestore.engines.spark.window import groups
from featurestore.engines.victims import Days, apart, firsts, placed, steps
from featurestore.exposure.kernels import Ints
from featurestore.exposure.sweep import OPEN, Exposure
from featurestore.interference.blocks import Linearisation
from featurestore.interference.concurrency import events
from featurestore.interference.evidence import NO_ENDING, Told, told
from featurestore.interference.victim import fit_victim
from featurestore.runs import Runs
from featurestore.states import Packed

#: Runs in a group of victims, about: what a task holds.
_FITTED = 400_000

_NO_EXPOSURE = Exposure(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0), NO_ENDING)


@dataclass(frozen=True, slots=True)
class Fitted:
    """What the victims say: their *fits* in order, of each group of them its tables, and the *days* between *edges*
    but those that are *left*; *first* [blocks] as `victims.firsts` has it."""

    fits: Sequence[Told]
    company: Sequence[pa.Table]
    compared: Sequence[Mapping[str, pa.Table]]
    exposures: int
    where: Sequence[Mapping[str, Any]]
    days: Days
    edges: Ints
    left: Ints
    first: Ints


def fitted(spark: Any, runs: Any, said: Sequence[work.Placed], given: work.Given, cores: int) -> Fitted:
    """Sweep the nodes, fit the victims and reduce their days, in groups of about as many of the *runs* each."""
    counts, start, end = gathered.runs(said, len(given.functions))
    hours, ended, begun = gathered.hours(said)
    edges = np.array([*cuts(hours, ended, given.since, given.until, given.options.most)[:-1], OPEN])
    first = firsts(begun, hours * HOUR, edges)
    left = apart(start, end, edges, first)
    number = min(groups(len(start), _FITTED, cores), len(counts))
    swept = tasks.worked(
        runs.filter(f"part = '{work.RUNS}' AND key < {given.swept}"),
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
        whole = partial(shared.sent, path.name)
        answered = tasks.worked(swept, number, work.fit, given=given, events=whole, edges=edges, left=left).toArrow()
    found = tasks.told(answered)
    fits = {fit.victim: fit for own, *_ in found for fit in own}
    for code in set(range(len(counts))) - fits.keys():  # of no evidence at all
        nothing = design(code, nowhere(given), _NO_EXPOSURE, _NO_EXPOSURE.rows)
        fits[code] = told(fit_victim(nothing, given.options.estimation))
    return Fitted(
        [fits[code] for code in range(len(counts))],
        [company for _, company, *_ in found],
        [compared for _, _, compared, *_ in found],
        sum(exposures for *_, exposures, _ in found),
        [where for *_, where in found],
        _days(answered, given, edges, hours, ended),
        edges,
        left,
        first,
    )


def _days(answered: pa.Table, given: work.Given, edges: Ints, hours: Ints, ended: Ints) -> Days:
    """Return the days between *edges* of which the blocks are *answered*; in each of *hours* so many runs *ended*."""
    shares: dict[int, dict[int, list[bytes]]] = {}
    for key, body in tasks.parts(answered, work.BLOCKS):
        share, day = divmod(key, len(edges) - 1)
        shares.setdefault(share, {}).setdefault(day, []).append(bytes(body))
    own = [shares[share] for share in sorted(shares)]
    counts = np.bincount(placed(hours * HOUR, edges), weights=ended, minlength=len(edges) - 1)
    return Days(steps(counts, edges, node_kernels.read(given.specs, given.nodes), own), own)


def beside(
    runs: Any, given: work.Given, found: Fitted, points: Mapping[int, Linearisation]
) -> tuple[Days, list[Mapping[str, Any]]]:
    """Reduce the blocks of days that were left, each where its *runs* are; return all days, and who did it."""
    if not len(found.left):
        return found.days, []
    first = np.full(len(found.first), OPEN)
    first[found.left] = found.first[found.left]
    near = runs.filter(f"part = '{work.RUNS}'").mapInArrow(
        work.bound(work.near, given=given, edges=found.edges, firsts=first), DDL
    )
    answered = tasks.worked(near, len(first), work.fold, given=given, edges=found.edges, points=points).toArrow()
    said = {day: pickle.loads(body) for day, body in tasks.parts(answered, work.TOLD)}
    blocks: dict[int, list[bytes]] = {day: [] for day in said}
    for day, body in tasks.parts(answered, work.BLOCKS):
        blocks[day].append(bytes(body))
    reduced = {day: replace(step, blocks=Packed(blocks[day])) for day, (step, _) in said.items()}
    return found.days.beside(reduced), [where for _, where in said.values()]


def nowhere(given: work.Given) -> Runs:
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
