"""What a folded state says, in the form of a fit; the point that a full fit records, and the fold corrected to it."""

from dataclasses import replace

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.blocks import NO_CODES, Block, Linearisation, beforehand, valued
from featurestore.interference.cholesky import inverted, solved, squared
from featurestore.interference.evidence import Bools, Floats, Ints, Options, Told, VictimFit, sure, told


def linearise(fit: VictimFit | Told) -> Linearisation:
    """Return the point recorded from a full fit; slowdowns that it could not tell stand at zero there."""
    own = told(fit)
    types = np.array(sorted(own.base), np.int64)
    known = np.flatnonzero(np.isfinite(own.slowdown) & np.isfinite(own.se))
    return Linearisation(
        victim=own.victim,
        types=types,
        base=np.log(np.array([own.base[int(kind)] for kind in types])),
        columns=own.met[known],
        slowdown=np.maximum(own.slowdown[known], 0.0),
        widening=np.sqrt(own.inflation[known]),
        noise=own.noise,
        crowd=own.crowd,
        ends=own.ends,
    )


def moved_to(fit: VictimFit | Told, point: Linearisation) -> Linearisation:
    """Return *point* with the slowdowns that a folded state says now (*fit*).

    Those that it cannot tell stay as they are, and so do the bases: blocks are absolute, their levels their own.
    """
    now = linearise(fit)
    columns = np.union1d(point.columns, now.columns)

    def values(before: Floats, after: Floats) -> Floats:
        found = valued(now.columns, after, columns, np.nan)
        return np.where(np.isnan(found), valued(point.columns, before, columns, np.nan), found)

    return replace(
        point,
        columns=columns,
        slowdown=values(point.slowdown, now.slowdown),
        widening=values(point.widening, now.widening),
    )


def corrected(state: Block, fit: VictimFit | Told, point: Linearisation) -> tuple[Block, Linearisation]:
    """Return the block that makes the state say what the full *fit* over the same days says, and the point with the
    factors by which the fit's errors are wider.

    The day blocks lose a little against the one-shot fit, each having nuisance coefficients of its own. The block
    holds no information, only the pull that moves the solution; it fades with the evidence that it belongs to.
    """
    own = told(fit)
    kinds, m = len(state.types), len(state.columns)
    theta, variance = _posterior(state)
    wanted = theta.copy()
    base = np.array([own.base.get(int(kind), np.nan) for kind in state.types])
    slowdown, placebo, se = (
        valued(own.met, values, state.columns, np.nan) for values in (own.slowdown, own.placebo, own.se)
    )
    said = np.concatenate([np.log(base), slowdown, placebo])
    there = np.isfinite(said) & (np.diag(state.gram) > 0)
    wanted[there] = said[there]
    block = Block(
        types=state.types,
        columns=state.columns,
        gram=np.zeros_like(state.gram),
        pull=state.gram @ (wanted - theta) + beforehand(kinds, m) * (wanted - theta),
    )
    deviation = np.sqrt(np.maximum(variance[kinds : kinds + m], 1e-300))
    ratio = valued(state.columns, se / deviation, point.columns, np.nan)
    known = np.isfinite(ratio)
    usual = float(np.clip(np.median(ratio[known]), 0.5, 3.0)) if known.any() else 1.0
    widening = np.clip(np.where(known, ratio, usual), 0.25, 5.0)
    return block, replace(point, widening=widening, usual=usual)


def hung(correction: Block, state: Block) -> Block:
    """Return of a *correction* what concerns coefficients that *state* has evidence of.

    A correction holds no information: where there is none that it could move, its pull alone would say anything.
    """
    diagonal = np.diag(state.gram)
    kinds, m = len(state.types), len(state.columns)
    types = correction.types[np.isin(correction.types, state.types[diagonal[:kinds] > 0])]
    columns = correction.columns[np.isin(correction.columns, state.columns[diagonal[kinds : kinds + m] > 0])]
    placebo = valued(state.columns, diagonal[kinds + m :], columns, 0.0) > 0
    t, own = np.searchsorted(correction.types, types), np.searchsorted(correction.columns, columns)
    at = np.concatenate([t, len(correction.types) + own, len(correction.types) + len(correction.columns) + own])
    pull = correction.pull[at]
    pull[len(types) + len(columns) :] *= placebo
    return replace(correction, types=types, columns=columns, gram=np.zeros((len(pull),) * 2), pull=pull)


def solve(state: Block, point: Linearisation, functions: int, options: Options | None = None) -> Told:
    """Return what the state says of *functions* functions, in the form of a fit (for `pairs.learn`).

    Its work follows what the victim met, however many functions there are.
    """
    options = options or Options()
    kinds, m = len(state.types), len(state.columns)
    theta, variance = _posterior(state)
    widening = valued(point.columns, point.widening, state.columns, point.usual)
    slowdown = np.maximum(theta[kinds : kinds + m], -0.5)
    deviation = np.sqrt(variance)
    se = deviation[kinds : kinds + m] * widening
    enough = valued(state.met, state.overlaps, state.columns, 0.0) >= options.column_overlaps
    said = enough & sure(slowdown, se, options)
    shown = np.diag(state.gram)[kinds + m :] > 0
    own = np.flatnonzero(enough)
    growth = (1.0 + slowdown[own]) / widening[own]
    precision = _marginal(state.gram, beforehand(kinds, m), kinds + own)
    runs = np.round(state.activations)
    counted = (state.overlaps > 0) | (runs > 0)
    met = np.union1d(state.met[counted], state.columns[enough | said | shown])

    def of_columns(values: Floats, there: Bools) -> Floats:
        return valued(state.columns, np.where(there, values, np.nan), met, np.nan)

    return Told(
        victim=point.victim,
        functions=functions,
        met=met,
        rows=int(state.rows),
        reason="" if state.rows else "too few activations",
        slowdown=of_columns(slowdown, said),
        se=of_columns(se, said),
        placebo=of_columns(theta[kinds + m :], shown),
        placebo_se=of_columns(deviation[kinds + m :], shown),
        effective_overlaps=valued(state.met, state.overlaps, met, 0.0),
        activations=valued(state.met, runs, met, 0.0).astype(np.int64),
        columns=state.columns[own],
        raw=np.log1p(slowdown[own]),
        precision=precision * np.outer(growth, growth),
        inflation=valued(state.columns, widening**2, met, point.usual**2),
        base={int(kind): float(np.exp(value)) for kind, value in zip(state.types, theta, strict=False)},
        noise=point.noise,
        drift=state.drift,
        crowd=point.crowd,
        ends=point.ends,
    )


def unknown(victim: int, functions: int) -> Told:
    """Return what is said of a victim that no full fit knew."""
    nothing = np.zeros(0)
    point = Linearisation(victim, NO_CODES, nothing, NO_CODES, nothing, nothing, float("nan"))
    return solve(Block(), point, functions)


def gaps(folded: VictimFit | Told, whole: VictimFit | Told) -> Floats:
    """Return how far a folded state's slowdowns lie from a one-shot fit's, in the latter's standard errors; only of
    pairs that both know."""
    some, other = told(folded), told(whole)
    gap = np.abs(valued(some.met, some.slowdown, other.met, np.nan) - other.slowdown) / other.se
    return gap[np.isfinite(gap)]


def moved(found: VictimFit | Told, point: Linearisation, options: Options | None = None) -> float:
    """Return by how much the log of any stretched time has moved from the point, beyond three standard errors.

    Only pairs with evidence enough to decide count. Around zero the linear model holds; at .1 and more it strays.
    """
    options, own = options or Options(), told(found)
    enough = np.flatnonzero((own.effective_overlaps >= options.min_overlaps) & np.isfinite(own.slowdown))
    before = np.log1p(valued(point.columns, point.slowdown, own.met[enough], 0.0))
    now = np.log1p(np.maximum(own.slowdown[enough], 0.0))
    beyond = np.abs(now - before) - 3 * own.se[enough] * np.exp(-before)
    return float(np.max(beyond, initial=0.0))


def _posterior(state: Block) -> tuple[Floats, Floats]:
    """Return the means [p] of the coefficients and their variances [p]."""
    factor, _ = inverted(np.ascontiguousarray(state.gram), beforehand(len(state.types), len(state.columns)))
    return solved(factor, state.pull), squared(factor)


@compiled
def _marginal(gram: Floats, belief: Floats, own: Ints) -> Floats:
    """Return the precision of *own* [k] of the coefficients, the others integrated out; *belief* [p] is added to the
    diagonal of *gram* [p, p]."""
    p, k = len(belief), len(own)
    chosen = np.zeros(p, np.bool_)
    chosen[own] = True
    others = np.flatnonzero(~chosen)
    found, cross, rest = np.empty((k, k)), np.empty((k, p - k)), np.empty((p - k, p - k))
    for row in range(k):
        for other in range(k):
            found[row, other] = gram[own[row], own[other]]
        found[row, row] += belief[own[row]]
        for other in range(p - k):
            cross[row, other] = gram[own[row], others[other]]
    for row in range(p - k):
        for other in range(p - k):
            rest[row, other] = gram[others[row], others[other]]
    factor, _ = inverted(rest, belief[others])
    half = cross @ factor
    found -= half @ half.T
    return found
