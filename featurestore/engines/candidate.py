"""What every learning run takes and gives, and the one place where the tables of a candidate model are made."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore import answers, details
from featurestore.attribution import use
from featurestore.attribution.attribute import DEFAULT_STEP, attribute, counts
from featurestore.chronological import by_start
from featurestore.columnar import flags
from featurestore.designs import pressed
from featurestore.held import set_aside
from featurestore.interference import calibration
from featurestore.interference.decision import OBSERVED, decide
from featurestore.interference.evidence import Options as Estimation
from featurestore.interference.evidence import Predictions, Told
from featurestore.interference.fold import MEMORY
from featurestore.interference.weighing import Weighed
from featurestore.runs import Bools, Runs, read
from featurestore.states import State


@dataclass(frozen=True, slots=True)
class Inputs:
    """Copies of one cluster's history up to *until* (microseconds): the columns of the store's tables.

    Runs that ended at *since* or later are evidence; earlier ones are there as those that ran beside them. What ended
    before *settled* is known for good. *usage* are pods' samples (namespace, name, metric, at, value); *nodes* the
    specifications with their validity.
    """

    activations: pa.Table
    placements: pa.Table
    nodes: pa.Table
    usage: pa.Table
    declared: pa.Table
    workflows: pa.Table
    since: int
    until: int
    settled: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    """*model*, *code_version* go into the state that is begun; *skew_us*: tolerated difference between clocks;
    *step_us*: how much time a usage sample speaks of; *use_since_us*: the use of activations that ended before is
    known already (microseconds, None: of none); *threads*: victims fitted at once; *memory*: see `fold.fold`;
    *holdout*: a part of the evidence is set aside (`interference.spared`), which no fit sees; *most*: a block of a
    history that is learned at once ends when it holds so many runs (`folding.cuts`); each costs by its victims."""

    model: str = ""
    code_version: str = ""
    skew_us: int = 1_000_000
    step_us: int = DEFAULT_STEP
    use_since_us: int | None = None
    threads: int = min(4, os.cpu_count() or 1)
    memory: float = MEMORY
    holdout: bool = False
    most: int = 2_000_000
    estimation: Estimation = field(default_factory=Estimation)


@dataclass(frozen=True, slots=True)
class Learned:
    """What one run learned, *changed* whether that differs from before.

    *tables* are pairs, functions, latencies, busyness (`featurestore.snapshot.TABLES` less the cluster), *used* what
    activations used (`used.USE`), *attribution* counts by method, *metrics* JSON values for the model's
    record, *state* the state where it is another one than before, *details* those that are new of
    `featurestore.detailed.DETAILS`.
    """

    tables: Mapping[str, pa.Table]
    used: pa.Table
    attribution: Mapping[str, float]
    metrics: Mapping[str, Any]
    state: State | None = None
    changed: bool = True
    details: Mapping[str, pa.Table] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Inputs as runs: *usage* without what is no number, what was *used*; *composites*, and how many runs were
    *placed* on a node, counted; *aside* [n] marks the runs that are kept from every fit."""

    runs: Runs
    usage: pa.Table
    used: pa.Table
    attribution: Mapping[str, float]
    activations: int
    composites: int
    placed: int
    aside: Bools

    @property
    def fitted(self) -> "Prepared":
        """The same with those that are set aside no evidence."""
        return replace(self, runs=replace(self.runs, evidence=self.runs.evidence & ~self.aside))


def prepare(
    inputs: Inputs, options: Options, functions: Sequence[str] = (), node_types: Sequence[str] = ()
) -> Prepared:
    """Attribute the activations and read them as runs; *functions* and *node_types* come first among the names."""
    activations = by_start(inputs.activations)
    usage = inputs.usage.filter(pc.is_finite(inputs.usage["value"]))
    cpu = usage.filter(pc.equal(usage["metric"], "cpu_cores"))
    attributed = attribute(activations, inputs.placements, cpu, skew_us=options.skew_us, step_us=options.step_us)
    with ThreadPoolExecutor(1) as beside:  # most of it holds no lock
        used = beside.submit(
            use.measure,
            activations,
            attributed,
            inputs.placements,
            usage,
            step_us=options.step_us,
            since_us=options.use_since_us,
        )
        runs = read(activations, attributed, inputs.nodes, inputs.placements, inputs.until, functions, node_types)
        runs = pressed(runs, usage, options.step_us)
        composites = int(flags(activations["composite"]).sum())
        apart = set_aside(runs) if options.holdout else np.zeros(len(runs), bool)
        placed = int((runs.node >= 0).sum())
    return Prepared(runs, usage, used.result(), counts(attributed), len(activations), composites, placed, apart)


@dataclass(frozen=True, slots=True)
class Known:
    """What a candidate's pairs are decided from: the *fits* of all functions in order, *predictions* or none,
    *first* and *last*, the span of the evidence (microseconds, None: there is none), and the *calibration* measured
    at the last full fit (`pairs.reliability`); *weighed* the fits, where they are weighed already."""

    fits: Sequence[Told]
    predictions: Predictions | None
    first: int | None
    last: int | None
    calibration: Mapping[str, Any] = field(default_factory=dict)
    weighed: Weighed | None = None


def candidate(
    ready: Prepared, known: Known, options: Options, tables: Mapping[str, pa.Table], metrics: Mapping[str, Any]
) -> Learned:
    """Decide over all pairs and return the candidate: *tables* are those beside the pairs, *metrics* what the way of
    learning adds. Full fits and increments end here."""
    observed = calibration.read(known.calibration.get(OBSERVED))
    table = decide(known.fits, options.estimation, known.predictions, observed, known.weighed)
    runs = ready.runs
    pairs = answers.pairs(runs.functions, table, known.first, known.last)
    return Learned(
        {"pairs": pairs, **tables},
        ready.used,
        ready.attribution,
        {**counted(ready, pairs), **told(runs, known.fits), "calibration": dict(known.calibration), **metrics},
        details=details.fitted(runs.functions, runs.node_types, known.fits, table),
    )


def counted(ready: Prepared, pairs: pa.Table) -> dict[str, Any]:
    """Return the metrics of what was read and of how many pairs are known."""
    status = pc.value_counts(pairs["status"].cast(pa.string())).to_pylist()
    return {
        "attribution": dict(ready.attribution),
        "activations": ready.activations,
        "composites": ready.composites,
        "placed": ready.placed,
        "pairs": {row["values"]: row["counts"] for row in status},
    }


def told(runs: Runs, fits: Sequence[Told]) -> dict[str, Any]:
    """Return the metrics of the fits: why victims are not fitted, and each victim's drift."""
    unfitted: dict[str, int] = {}
    drift: dict[str, float] = {}
    for fit in fits:
        if fit.reason:
            unfitted[fit.reason] = unfitted.get(fit.reason, 0) + 1
        elif fit.drift == fit.drift:  # not NaN
            drift[runs.functions[fit.victim].as_py()] = round(float(fit.drift), 3)
    return {"unfitted": unfitted, "drift": drift}


def basis(options: Options) -> dict[str, str]:
    """Return in words what the estimation is set to; a state holds for these settings."""
    own = {name: f"{getattr(options, name)}" for name in ("skew_us", "step_us", "memory", "holdout")}
    return {**own, **{each.name: f"{getattr(options.estimation, each.name)}" for each in fields(options.estimation)}}


def outside(inputs: Inputs) -> str:
    """Return a name of what is declared of functions, by files and by workflows."""
    digest = hashlib.blake2b(digest_size=8)
    columns = [name for name in inputs.declared.column_names if name != "seen"]
    digest.update(repr(inputs.declared.select(columns).to_pylist()).encode())
    digest.update(repr(inputs.workflows["document"].to_pylist()).encode())
    return digest.hexdigest()
