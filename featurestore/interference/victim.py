"""Who disturbs whom: the joint regression of one victim on all its co-runners (plain arrays, no clock, no database).

How an engine uses it, for the functions 0..F-1 of one cluster::

    designs = featurestore.designs.designs(runs, exposure, options.column_overlaps)  # with the cluster's concurrency
    fits = [fit_victim(design, options) for design, _ in designs]  # one per victim, any order, anywhere
    table = featurestore.interference.pairs.learn(fits, profiles, options)  # a decision.PairTable

A `VictimDesign` holds only evidence: successful activations on a known node, no sequences or conductors. Their
exposure counts every co-runner on the node, also failed ones. All times are seconds, all slowdowns fractions
(.25 = 25 % longer beside one always-running aggressor).

Model, for activation i of victim a on a node of type k::

    log(execution_i) = base[a, k] + controls_i + log(1 + sum_b g(E_ib, S_ab)) + noise
    g(E, S) = S E / (1 + S max(0, 1 - E))

E_ib is the time-averaged number of other activations of b on the node while i ran. A neighbour that slows the
victim's progress to 1 / (1 + S) stretches the very time that is averaged over; g is S E corrected for this
stretch (equal to it at E = 1 and to first order in S). What a longer run meets more of is made up for by who ran at
its end (`featurestore.interference.ends`). Controls: cold start, node load and pace around a run, time of day and
slow drift, node and time block, cluster-wide concurrency (linear and square root), each neighbour's concurrency in
the whole cluster (the placebo), throttling and memory pressure where given.

Sources: Huber, Robust Statistics (1981), ch. 7, for the weights; MacKay, Neural Computation 4 (1992) 415, for
the variances of the groups of random controls; Liang and Zeger, Biometrika 73 (1986) 13, for the clustered errors.
"""

import numpy as np
from scipy import sparse

from featurestore.compiled import compiled
from featurestore.interference import controls as control
from featurestore.interference.evidence import NO_ENDING, Counts, Floats, Ints, Options, VictimDesign, VictimFit, sure
from featurestore.interference.regression import Problem, fit

__all__ = ["Options", "VictimDesign", "VictimFit", "fit_victim", "overlaps"]

#: Standard errors beyond this say nothing that a person could use.
_WIDEST = 10.0


def overlaps(design: VictimDesign) -> tuple[Floats, Ints]:
    """Return effective overlaps [F] (sums of exposures) and the number of runs [F] that met each function."""
    met = design.values > 0
    effective = np.bincount(design.indices, weights=design.values, minlength=design.functions).astype(np.float64)
    return effective, np.bincount(design.indices[met], minlength=design.functions).astype(np.int64)


def fit_victim(design: VictimDesign, options: Options | None = None) -> VictimFit:
    """Fit one victim. Poor evidence never raises or warns: `VictimFit.reason` says why nothing is known.

    Without the whole cluster's concurrency (`VictimDesign.around`), or on a single node, there is no placebo (NaN).
    Deterministic. Time O(n (q + r) (q + m)) for m aggressors, q controls and r aggressors beside
    one run, memory O(n (q + r)).
    """
    options = options or Options()
    effective, met = overlaps(design)
    rows = np.flatnonzero(np.isfinite(design.execution) & (design.execution >= 0))
    runs = len(rows)
    if runs > options.max_rows:
        rows = rows[np.linspace(0, len(rows) - 1, options.max_rows).astype(np.int64)]
    columns = np.flatnonzero(effective >= options.column_overlaps)
    if len(columns) > options.max_columns:
        columns = np.sort(columns[np.argsort(-effective[columns], kind="stable")[: options.max_columns]])
    y = np.log(np.maximum(design.execution[rows], control.HALF_MILLISECOND))
    reason = _hopeless(y, columns, options)
    if reason:
        return _nothing(design, reason, runs, effective, met)
    place = np.full(design.functions, -1, np.int64)
    place[columns] = np.arange(len(columns))
    ending = design.ending
    load, last, indptr, indices, values, number, width = _exposures(
        rows,
        design.indptr,
        place[design.indices],
        design.values,
        NO_ENDING if ending is None else ending,
        len(columns),
    )
    exposure = sparse.csr_matrix((values, indices, indptr), shape=(len(rows), width))
    known = control.build(design, rows, load, columns, options)
    kind = design.cold[rows].astype(np.int64)
    ends = None if ending is None else control.ends(known, number, last - load)
    found = fit(
        Problem(y, known.columns, known.group, known.sd, exposure, known.cluster, kind, known.block % 2, ends),
        options,
    )
    m, q = len(columns), len(known.group)
    if not np.all(np.isfinite(found.slowdown)):
        return _nothing(design, "the fit did not converge", runs, effective, met)
    wider = found.inflation[:m]
    se = np.sqrt(found.variance[q : q + m] * wider)
    growth = (1.0 + found.slowdown[:m]) / np.sqrt(wider)
    information = np.diag(found.precision)[:m]
    known_well = sure(found.slowdown[:m], se, options) & (se < _WIDEST) & (information > 0)
    fitted = _nothing(design, "", runs, effective, met)
    fitted.slowdown[columns] = np.where(known_well, found.slowdown[:m], np.nan)
    fitted.se[columns] = np.where(known_well, se, np.nan)
    fitted.inflation[columns] = wider
    first = q - len(known.placebo)
    fitted.placebo[known.placebo] = found.beta[first:]
    fitted.placebo_se[known.placebo] = np.sqrt(found.variance[first:q])
    base = {int(kind): float(np.exp(value)) for kind, value in zip(known.types, found.beta, strict=False)}
    return VictimFit(
        design.victim,
        runs,
        "",
        fitted.slowdown,
        fitted.se,
        fitted.placebo,
        fitted.placebo_se,
        effective,
        met,
        columns,
        np.log1p(found.slowdown[:m]),
        found.precision[:m, :m] * np.outer(growth, growth),
        fitted.inflation,
        base,
        found.noise,
        _drift(found.residual, known.block),
        control.moved(known, found.beta),
        control.crowd(known, found.beta),
        tuple(_half(own[:m], found.slowdown[:m], known[:m, :m], growth) for own, known in found.halves),
        found.ends,
    )


@compiled
def _exposures(
    rows: Ints, indptr: Ints, column: Ints, values: Floats, ending: Counts, columns: int
) -> tuple[Floats, Floats, Ints, Ints, Floats, Floats, int]:
    """Return the load [r] of *rows* of a sparse matrix, over the runs and, by *ending* (empty: not known), at their
    ends, and of it as sparse rows (indptr, indices, values, at the ends) the *columns* that have one of their own
    (*column* [values], -1: none) and, where it varies, one more with the rest; and how many these are."""
    n = len(rows)
    load, rest, last, others = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    found, known = 0, len(ending) > 0
    for row in range(n):
        own = 0.0
        for k in range(indptr[rows[row]], indptr[rows[row] + 1]):
            load[row] += values[k]
            last[row] += ending[k] if known else 0
            if column[k] >= 0:
                own += values[k]
                found += 1
            elif known:
                others[row] += ending[k]
        rest[row] = load[row] - own
    more = rest.max() - rest.min() > 1e-9
    starts = np.zeros(n + 1, np.int64)
    indices, kept, number = np.empty(found + n, np.int64), np.empty(found + n), np.empty(found + n)
    at = 0
    for row in range(n):
        for k in range(indptr[rows[row]], indptr[rows[row] + 1]):
            if column[k] >= 0:
                indices[at], kept[at], number[at] = column[k], values[k], ending[k] if known else 0
                at += 1
        if more and rest[row] != 0.0:
            indices[at], kept[at], number[at] = columns, rest[row], others[row]
            at += 1
        starts[row + 1] = at
    width = columns + 1 if more else columns
    return load, last, starts, indices[:at].copy(), kept[:at].copy(), number[:at].copy(), width


def _hopeless(y: Floats, columns: Ints, options: Options) -> str:
    """Return why no estimate can be made, or nothing."""
    if len(y) < options.min_rows:
        return "too few activations"
    if float(np.ptp(y)) < 1e-9:
        return "constant duration"
    if len(columns) == 0:
        return "never ran beside another"
    return ""


def _nothing(design: VictimDesign, reason: str, rows: int, effective: Floats, met: Ints) -> VictimFit:
    def unknown() -> Floats:
        return np.full(design.functions, np.nan)

    return VictimFit(
        design.victim,
        rows,
        reason,
        unknown(),
        unknown(),
        unknown(),
        unknown(),
        effective,
        met,
        np.zeros(0, np.int64),
        np.zeros(0),
        np.zeros((0, 0)),
        np.ones(design.functions),
    )


def _half(own: Floats, whole: Floats, precision: Floats, growth: Floats) -> tuple[Floats, Floats]:
    """Return what half of the evidence says on the scale of log(1 + slowdown), taken linear about the *whole*."""
    return np.log1p(whole) + (own - whole) / (1.0 + whole), precision * np.outer(growth, growth)


def _drift(residual: Floats, block: Ints) -> float:
    """Return the mean residual of the newest time block over its standard error."""
    newest = residual[block == block.max()]
    spread = float(np.std(residual))
    return float(np.mean(newest) / spread * np.sqrt(len(newest))) if spread > 0 else 0.0
