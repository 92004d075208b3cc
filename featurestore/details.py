"""What a fit knows besides the table of pairs, as tables that are saved with the model: the answer to "why".

Slowdowns are fractions; the columns of `comparisons` named after parts are differences of logs.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from featurestore.columnar import named
from featurestore.detailed import DETAILS
from featurestore.exposure.kernels import Floats, Ints
from featurestore.exposure.sweep import Exposure
from featurestore.interference.backwards import apart
from featurestore.interference.comparison import compare
from featurestore.interference.decision import PairTable
from featurestore.interference.evidence import Told
from featurestore.runs import Runs

#: What only a fit over whole runs tells: it stays with the models that are folded from it.
OF_FULL_FITS = ("controls", "comparisons")


def empty() -> dict[str, pa.Table]:
    """Return the details of one who knows nothing."""
    return {name: schema.empty_table() for name, schema in DETAILS.items()}


def fitted(functions: pa.Array, node_types: pa.Array, fits: Sequence[Told], table: PairTable) -> dict[str, pa.Table]:
    """Return `pair_evidence`, `fits` and `base_times` of *fits*, one a function in order, and the *table* of them."""
    if not fits:
        return {name: DETAILS[name].empty_table() for name in ("pair_evidence", "fits", "base_times")}
    fits = apart(fits)
    kept = np.flatnonzero(table.effective_overlaps > 0)  # of those that met, the same pairs in the same order
    met = np.concatenate([fit.effective_overlaps > 0 for fit in fits])

    def of_pairs(name: str) -> pa.Array:
        return _known(np.concatenate([getattr(fit, name) for fit in fits])[met])

    evidence = {
        "victim": named(table.victim[kept], functions),
        "aggressor": named(table.aggressor[kept], functions),
        "estimate": of_pairs("slowdown"),
        "error": of_pairs("se"),
        "inflation": of_pairs("inflation"),
        "discovered": pa.array(table.discovered[kept]),
        "placebo": _known(table.placebo[kept]),
        "placebo_error": _known(table.placebo_se[kept]),
    }
    each = {
        "function": named(np.array([fit.victim for fit in fits]), functions),
        "runs": pa.array([fit.rows for fit in fits]),
        "reason": pa.array([fit.reason for fit in fits]),
        "noise": _known(np.array([fit.noise for fit in fits])),
        "drift": _known(np.array([fit.drift for fit in fits])),
    }
    bases = [(fit.victim, kind, seconds) for fit in fits for kind, seconds in fit.base.items()]
    kinds = [*node_types.to_pylist(), ""]  # -1, of no known type, is the last
    base = {
        "function": named(np.array([victim for victim, _, _ in bases], np.int64), functions),
        "node_type": pa.array([kinds[kind] for _, kind, _ in bases], pa.string()),
        "base_ms": pa.array([1000 * seconds for _, _, seconds in bases], pa.float64()),
    }
    return {
        "pair_evidence": _table("pair_evidence", evidence),
        "fits": _table("fits", each),
        "base_times": _table("base_times", base),
    }


def compared(runs: Runs, exposure: Exposure, fits: Sequence[Told], threads: int = 1) -> dict[str, pa.Table]:
    """Return `controls` and `comparisons` of a full fit: *fits* of all functions of *runs*, in order; so many victims
    as *threads* are compared at once. What is said of a victim follows from its own fit alone, as it is: others may
    not be at hand."""
    f, kinds = len(runs.functions), len(runs.node_types)
    base = np.full((f, kinds + 1), np.nan)
    learned: list[tuple[Ints, Floats]] = [(np.zeros(0, np.int64), np.zeros(0))] * f
    for fit in fits:
        learned[fit.victim] = (fit.met, np.maximum(fit.slowdown, 0.0))
        for kind, seconds in fit.base.items():
            base[fit.victim, kind] = seconds  # -1, of no known type, is the last
    own = exposure.rows
    found = compare(
        runs.function[own].astype(np.int64),
        np.where(runs.evidence[own], runs.execution[own], np.nan),
        runs.node_type[own].astype(np.int64),
        runs.cold[own],
        (exposure.indptr, exposure.indices, exposure.values),
        learned,
        base,
        threads,
    )
    moved = [(fit.victim, name, float(by)) for fit in fits for name, by in fit.controls.items()]
    pairs = {
        "victim": named(found.victim, runs.functions),
        "aggressor": named(found.aggressor, runs.functions),
        "alone": pa.array(found.alone[found.victim]),
        **{name: _known(getattr(found, name)) for name in ("naive", "cold_beside", "cold_without")},
        **{f"{part}_part": _known(getattr(found, part)) for part in ("own", "others", "node_types", "rest")},
    }
    controls = {
        "function": named(np.array([victim for victim, _, _ in moved], np.int64), runs.functions),
        "control": pa.array([name for _, name, _ in moved], pa.string()),
        "moved": pa.array([by for _, _, by in moved], pa.float64()),
    }
    return {"controls": _table("controls", controls), "comparisons": _table("comparisons", pairs)}


def _known(values: Floats) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values))


def _table(name: str, columns: Mapping[str, object]) -> pa.Table:
    return pa.table(columns).select(DETAILS[name].names).cast(DETAILS[name])
