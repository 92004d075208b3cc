"""What is known of one victim as a fold over blocks of days: sums at a recorded linearisation, folded in order.

A full fit (`victim.fit_victim`) gives the point around which the model is linear. Each day's
evidence is then reduced once to normal equations of what lasts (the base of each node type, the slowdowns, the
placebos); what belongs to the day alone (its drift, load, cold starts, nodes) is integrated out within it. The state
is the sum of the blocks, in which old evidence gives way to new evidence of the same pair and to nothing else: a pair
that is kept apart stays known. Folding the same blocks in the same order gives the same state.

Sources: Ljung, System Identification (1999), ch. 11 (recursive least squares with directional forgetting); the
integration over a day's own coefficients is the Schur complement of mixed model equations (Henderson 1975).
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from featurestore.interference import controls
from featurestore.interference.concurrency import Concurrency
from featurestore.interference.evidence import Bools, Floats, Ints, Options, VictimDesign, VictimFit
from featurestore.interference.gaussian import inverse
from featurestore.interference.victim import overlaps

#: Beliefs about what lasts, so weak that only coefficients without any evidence feel them.
_BASE_SD = 10.0


@dataclass(frozen=True, slots=True)
class Linearisation:
    """The recorded point: *slowdown* [F], log *base* [T] of the node *types* [T], and the *noise* of the log.

    *widening* [F] are the factors by which clustering widens the errors of the slowdowns.
    """

    victim: int
    types: Ints
    base: Floats
    slowdown: Floats
    noise: float
    widening: Floats


@dataclass(frozen=True, slots=True)
class Block:
    """Normal equations of some days over [types, slowdowns, placebos]: *gram* [p, p] and *pull* [p], p = T + 2 F.

    *overlaps* [F] and *activations* [F] are sums of exposures and counts of runs that met each function.
    """

    gram: Floats
    pull: Floats
    rows: float
    overlaps: Floats
    activations: Ints


def linearise(fit: VictimFit) -> Linearisation:
    """Return the point recorded from a full fit; slowdowns that it could not tell stand at zero there."""
    types = np.array(sorted(fit.base), np.int64)
    widening = np.ones(len(fit.slowdown))
    known = np.flatnonzero(np.isfinite(fit.se))
    return Linearisation(
        victim=fit.victim,
        types=types,
        base=np.log(np.array([fit.base[int(kind)] for kind in types])),
        slowdown=np.where(np.isfinite(fit.slowdown), np.maximum(fit.slowdown, 0.0), 0.0),
        noise=fit.noise,
        widening=np.where(np.isin(np.arange(len(widening)), known), np.sqrt(fit.inflation), 1.0),
    )


def empty(point: Linearisation) -> Block:
    """Return the state before any day."""
    functions = len(point.slowdown)
    size = len(point.types) + 2 * functions
    nothing = np.zeros(functions)
    return Block(np.zeros((size, size)), np.zeros(size), 0.0, nothing, nothing.astype(np.int64))


def reduce(
    day: VictimDesign, point: Linearisation, concurrency: Concurrency | None = None, options: Options | None = None
) -> Block:
    """Reduce the evidence of some days (one block) to its normal equations at *point*.

    Rows on node types that the point does not know take no part: they ask for a full fit.
    """
    options = options or Options()
    usable = np.isfinite(day.execution) & (day.execution >= 0) & np.isin(day.node_type, point.types)
    rows = np.flatnonzero(usable)
    effective, met = overlaps(day)
    blank = empty(point)
    if len(rows) == 0:
        return replace(blank, overlaps=effective, activations=met)
    functions, kinds = day.functions, len(point.types)
    shape = (len(day.indptr) - 1, functions)
    matrix = sparse.csr_matrix((day.values, day.indices, day.indptr), shape=shape)[rows]
    columns = np.flatnonzero(effective > 0)
    exposure = matrix[:, columns].toarray()
    known = controls.build(day, rows, np.asarray(matrix.sum(axis=1)).ravel(), columns, concurrency, options)
    kept = known.values.shape[1] - len(known.placebo)
    own, penalty = _passing(known, kept)

    stretched = 1.0 + point.slowdown[columns] * np.maximum(0.0, 1.0 - exposure if options.stretch else 0.0 * exposure)
    total = 1.0 + (exposure * point.slowdown[columns] / stretched).sum(axis=1)
    slope = exposure / stretched**2 / total[:, None]
    place = np.searchsorted(point.types, day.node_type[rows])
    y = np.log(np.maximum(day.execution[rows], controls.HALF_MILLISECOND))
    residual = y - point.base[place] - np.log(total)
    weight = np.minimum(1.0, options.huber * point.noise / np.maximum(np.abs(residual), 1e-300)) / point.noise**2

    lasting = np.concatenate([np.eye(kinds)[place], slope, known.values[:, kept:]], axis=1)
    target = residual + point.base[place] + slope @ point.slowdown[columns]
    weighed = lasting * weight[:, None]
    cross = weighed.T @ own
    inner = inverse((own * weight[:, None]).T @ own + np.diag(penalty))
    gram = weighed.T @ lasting - cross @ inner @ cross.T
    pull = weighed.T @ target - cross @ (inner @ ((own * weight[:, None]).T @ target))
    at = np.concatenate([np.arange(kinds), kinds + columns, kinds + functions + known.placebo])
    blank.gram[np.ix_(at, at)] = (gram + gram.T) / 2
    blank.pull[at] = pull
    return replace(blank, rows=float(len(rows)), overlaps=effective, activations=met)


def _passing(known: controls.Controls, kept: int) -> tuple[Floats, Floats]:
    """Return the columns of the day alone and the penalty of each: all controls but node types and placebos."""
    columns = np.arange(len(known.types), kept)
    group = known.group[columns]
    precision = np.where(group == 0, 1e-2, 1.0 / np.square(np.minimum(known.sd[group], 1e3)))
    return known.values[:, columns], precision


def fold(state: Block, day: Block, memory: float = 2500.0) -> Block:
    """Return the state after one more block.

    The old evidence of a coefficient weighs 1 / (1 + new / *memory*) of what it did, where new is the information
    (inverse variance) that the day brings for it: evidence gives way to evidence, never to age. *memory* 2,500 is
    what a standard error of 2 % is worth.
    """
    gain = np.maximum(np.diag(day.gram), 0.0)
    keep = 1.0 / np.sqrt(1.0 + gain / memory)
    old = state.gram * np.outer(keep, keep)
    believed = inverse(state.gram + np.diag(np.full(len(gain), 1e-6))) @ state.pull
    functions = len(state.overlaps)
    share = keep[-2 * functions : -functions] ** 2 if functions else np.zeros(0)
    return Block(
        old + day.gram,
        old @ believed + day.pull,
        state.rows + day.rows,
        state.overlaps * share + day.overlaps,
        state.activations + day.activations,
    )


def renewed(state: Block, keep: float = 0.1) -> Block:
    """Return the state for a new version of the victim: the old evidence as a prior worth *keep* of itself."""
    return replace(state, gram=state.gram * keep, pull=state.pull * keep, overlaps=state.overlaps * 0.0, rows=0.0)


def solve(state: Block, point: Linearisation, options: Options | None = None) -> VictimFit:
    """Return what the state says, in the form of a fit (for `featurestore.interference.pairs.learn`)."""
    options = options or Options()
    kinds, functions = len(point.types), len(point.slowdown)
    belief = np.concatenate(
        [
            np.full(kinds, _BASE_SD**-2.0),
            np.full(functions, options.prior_sd**-2.0),
            np.full(functions, controls.PLACEBO_SD**-2.0),
        ]
    )
    covariance = inverse(state.gram + np.diag(belief))
    theta = covariance @ state.pull
    slowdown = np.maximum(theta[kinds : kinds + functions], -0.5)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    se = deviation[kinds : kinds + functions] * point.widening
    columns = np.flatnonzero(state.overlaps >= options.column_overlaps)
    sure: Bools = np.isin(np.arange(functions), columns) & (se < 0.9 * options.prior_sd)
    shown: Bools = np.diag(state.gram)[kinds + functions :] > 0
    growth = (1.0 + slowdown[columns]) / point.widening[columns]
    precision = inverse(covariance[np.ix_(kinds + columns, kinds + columns)])
    return VictimFit(
        victim=point.victim,
        rows=int(state.rows),
        reason="" if state.rows else "too few activations",
        slowdown=np.where(sure, slowdown, np.nan),
        se=np.where(sure, se, np.nan),
        placebo=np.where(shown, theta[kinds + functions :], np.nan),
        placebo_se=np.where(shown, deviation[kinds + functions :], np.nan),
        effective_overlaps=state.overlaps,
        activations=state.activations,
        columns=columns,
        raw=np.log1p(slowdown[columns]),
        precision=precision * np.outer(growth, growth),
        inflation=point.widening**2,
        base={int(kind): float(np.exp(value)) for kind, value in zip(point.types, theta, strict=False)},
        noise=point.noise,
    )


def distance(folded: VictimFit, whole: VictimFit) -> float:
    """Return the largest difference of slowdowns between a folded state and a one-shot fit, in standard errors."""
    gap = np.abs(folded.slowdown - whole.slowdown) / whole.se
    return float(np.nanmax(gap)) if np.isfinite(gap).any() else float("nan")
