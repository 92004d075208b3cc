"""What is known of one victim as a fold over blocks of days: sums at a recorded linearisation, folded in order.

A full fit (`victim.fit_victim`) gives the point around which the model is linear. Each day's evidence is then reduced
once to normal equations of what lasts (the base of each node type, the slowdowns, the placebos); what belongs to the
day alone (its level, drift, load, cold starts, nodes, older versions) is integrated out within it. The state is the
sum of the blocks, in which old evidence gives way to new evidence of the same pair and to change, and to nothing
else: a pair that is kept apart stays known. Folding the same blocks in the same order gives the same state.

Blocks are compact: they hold the functions that the victim met, by their codes in the cluster's list of names.
The parameters are absolute (not steps from the point), so that a block keeps its meaning as a Gaussian
approximation when a later full fit records another point.

Sources: Ljung, System Identification (1999), ch. 11 (recursive least squares with directional forgetting); the
integration over a day's own coefficients is the Schur complement of mixed model equations (Henderson 1975).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from featurestore.interference import controls
from featurestore.interference.concurrency import Concurrency
from featurestore.interference.evidence import Bools, Floats, Ints, Options, VictimDesign, VictimFit
from featurestore.interference.gaussian import inverse
from featurestore.interference.victim import overlaps

#: Information (inverse variance) at which old evidence of a coefficient weighs half beside new: a standard error of
#: half a percent. Nobody needs to know a slowdown better, and a change is learned within about as much evidence.
MEMORY = 40_000.0

#: What old evidence is worth beside that of a new version of the victim, or of nodes under another kernel.
RENEWED = 0.1

#: Beliefs about what lasts, so weak that only coefficients without any evidence feel them.
_BASE_SD = 10.0
#: Standard deviation of a block's own level: wide, since load and inputs change over a day. A tight one would read
#: what differs between days as slowdowns.
_LEVEL_SD = 0.3
#: That of the level of a usual day, against which drift is told.
_USUAL_SD = 0.1
#: Functions that a block met for less than this have no column in it: they are counted, and teach nothing.
_LEAST_OVERLAP = 0.5


@dataclass(frozen=True, slots=True)
class Linearisation:
    """The recorded point: log *base* [T] of the node *types* [T], *slowdown* [k] of the functions *columns* [k]
    (others: 0), and the *noise* of the log.

    *widening* [k] are the factors by which the full fit's errors exceed those of the folded blocks (clustered
    errors); *usual* is that of the others.
    """

    victim: int
    types: Ints
    base: Floats
    columns: Ints
    slowdown: Floats
    widening: Floats
    noise: float
    usual: float = 1.0


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Block:
    """Normal equations over [types T, slowdowns m, placebos m]: *gram* [p, p] and *pull* [p], p = T + 2 m.

    *columns* [m] are the functions, ascending. *met* [k] are all functions that ran beside the victim, *overlaps* [k]
    and *activations* [k] the sums of exposures and counts of runs that met each. *version* names the victim's version
    and limits at the block's end. *gap* over *weight* is the mean residual of its warm runs at the point. *under* [q]
    is how much of `information` came under each of the nodes' *kernels* [q] (ascending); the rest came under kernels
    that nobody named, or that no node runs any more.
    """

    types: Ints = field(default_factory=_none)
    columns: Ints = field(default_factory=_none)
    gram: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    pull: Floats = field(default_factory=lambda: np.zeros(0))
    rows: float = 0.0
    met: Ints = field(default_factory=_none)
    overlaps: Floats = field(default_factory=lambda: np.zeros(0))
    activations: Floats = field(default_factory=lambda: np.zeros(0))
    version: str = ""
    gap: float = 0.0
    weight: float = 0.0
    kernels: tuple[str, ...] = ()
    under: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def information(self) -> float:
        """Return the information about the slowdowns (inverse variances, summed)."""
        return _information(self.gram, len(self.types), len(self.columns))

    @property
    def drift(self) -> float:
        """Return the mean residual over what chance and a usual day's own level explain of it; NaN without runs."""
        if self.weight <= 0:
            return float("nan")
        return float(self.gap / self.weight / np.sqrt(1 / self.weight + _USUAL_SD**2))


def linearise(fit: VictimFit) -> Linearisation:
    """Return the point recorded from a full fit; slowdowns that it could not tell stand at zero there."""
    types = np.array(sorted(fit.base), np.int64)
    known = np.flatnonzero(np.isfinite(fit.slowdown) & np.isfinite(fit.se))
    return Linearisation(
        victim=fit.victim,
        types=types,
        base=np.log(np.array([fit.base[int(kind)] for kind in types])),
        columns=known,
        slowdown=np.maximum(fit.slowdown[known], 0.0),
        widening=np.sqrt(fit.inflation[known]),
        noise=fit.noise,
    )


def reduce(
    day: VictimDesign,
    point: Linearisation,
    concurrency: Concurrency | None = None,
    options: Options | None = None,
    version: str = "",
    ran: tuple[Sequence[str], Ints] | None = None,
) -> Block:
    """Reduce the evidence of some days (one block) to its normal equations at *point*.

    Rows on node types that the point does not know take no part: they ask for a full fit. *version* names the
    victim's version and limits, which are the same for all rows. *ran*, where kernels of nodes are known: their
    names, and the code [n] of the one that each row ran under, -1 where not known.
    """
    options = options or Options()
    rows = np.flatnonzero(np.isfinite(day.execution) & (day.execution >= 0) & np.isin(day.node_type, point.types))
    effective, runs = overlaps(day)
    met = np.flatnonzero(runs > 0)
    counted = Block(met=met, overlaps=effective[met], activations=runs[met].astype(np.float64), version=version)
    if len(rows) == 0:
        return counted
    columns = np.flatnonzero(effective >= _LEAST_OVERLAP)
    if len(columns) > options.max_columns:
        columns = np.sort(columns[np.argsort(-effective[columns], kind="stable")[: options.max_columns]])
    shape = (len(day.indptr) - 1, day.functions)
    matrix = sparse.csr_matrix((day.values, day.indices, day.indptr), shape=shape)[rows]
    exposure = matrix[:, columns].toarray()
    known = controls.build(day, rows, np.asarray(matrix.sum(axis=1)).ravel(), columns, concurrency, options)
    kept = known.values.shape[1] - len(known.placebo)
    own, penalty = _passing(known, kept)

    believed = _of(point.columns, point.slowdown, columns, 0.0)
    stretched = 1.0 + believed * (np.maximum(0.0, 1.0 - exposure) if options.stretch else 0.0)
    total = 1.0 + (exposure * believed / stretched).sum(axis=1)
    slope = exposure / stretched**2 / total[:, None]
    types, place = np.unique(day.node_type[rows], return_inverse=True)
    base = point.base[np.searchsorted(point.types, types)][place]
    y = np.log(np.maximum(day.execution[rows], controls.HALF_MILLISECOND))
    residual = y - base - np.log(total)
    cold = day.cold[rows]
    weight = _weights(residual, cold, options.huber * point.noise) / point.noise**2

    lasting = np.concatenate([np.eye(len(types))[place], slope, known.values[:, kept:]], axis=1)
    target = residual + base + slope @ believed
    every, k = np.concatenate([lasting, own], axis=1), lasting.shape[1]
    leaned = every.T @ (weight * target)
    every *= np.sqrt(weight)[:, None]
    product = every.T @ every
    cross = product[:k, k:]
    inner = inverse(product[k:, k:] + np.diag(penalty))
    gram = product[:k, :k] - cross @ inner @ cross.T
    pull = leaned[:k] - cross @ (inner @ leaned[k:])
    m = len(columns)
    at = np.concatenate([np.arange(len(types) + m), len(types) + m + np.searchsorted(columns, known.placebo)])
    whole, pulled = np.zeros((len(types) + 2 * m,) * 2), np.zeros(len(types) + 2 * m)
    whole[np.ix_(at, at)] = (gram + gram.T) / 2
    pulled[at] = pull
    plain = ~cold if not cold.all() else cold
    reduced = replace(
        counted,
        types=types.astype(np.int64),
        columns=columns.astype(np.int64),
        gram=whole,
        pull=pulled,
        rows=float(len(rows)),
        gap=float(weight[plain] @ residual[plain]),
        weight=float(weight[plain].sum()),
    )
    if ran is None:
        return reduced
    kernels, shares = _shares(*ran, rows, weight * np.square(slope).sum(axis=1))
    return replace(reduced, kernels=kernels, under=shares * reduced.information)


def _shares(names: Sequence[str], code: Ints, rows: Ints, information: Floats) -> tuple[tuple[str, ...], Floats]:
    """Return the kernels [q] that the *rows* [r] ran under, ascending, and the share of their *information* [r] of
    each."""
    own = code[rows]
    kernels = sorted({(names[each], each) for each in np.unique(own[own >= 0]).tolist()})
    total = max(float(information.sum()), 1e-300)
    shares = np.array([information[own == each].sum() / total for _, each in kernels], np.float64)
    return tuple(name for name, _ in kernels), shares


def _weights(residual: Floats, cold: Bools, limit: float) -> Floats:
    """Return Huber's weights [n] of residuals about the medians of cold and of warm runs: a block has its own level,
    and so have cold starts."""
    centred = residual.copy()
    for kind in (cold, ~cold):
        if kind.any():
            centred[kind] -= np.median(residual[kind])
    return np.minimum(1.0, limit / np.maximum(np.abs(centred), 1e-300))


def _passing(known: controls.Controls, kept: int) -> tuple[Floats, Floats]:
    """Return the columns of the day alone and the penalty of each: its level, and all controls but node types and
    placebos."""
    columns = np.arange(len(known.types), kept)
    group = known.group[columns]
    precision = np.where(group == 0, 1e-2, 1.0 / np.square(np.minimum(known.sd[group], 1e3)))
    level = np.ones((len(known.values), 1))
    return np.concatenate([level, known.values[:, columns]], axis=1), np.append(_LEVEL_SD**-2.0, precision)


def fold(state: Block, day: Block, memory: float = MEMORY) -> Block:
    """Return the state after one more block.

    The old evidence of a coefficient weighs 1 / (1 + new / *memory*) of what it did, where new is the information
    (inverse variance) that the day brings for it: evidence gives way to evidence, never to age. Where the day is of
    another version of the victim, the old evidence is `renewed` first. What of it came under each kernel shrinks with
    it.
    """
    if not len(state.met) and not len(state.pull):
        return day
    if day.version and state.version and day.version != state.version:
        state = renewed(state)
    types, columns = np.union1d(state.types, day.types), np.union1d(state.columns, day.columns)
    met = np.union1d(state.met, day.met)
    old_gram, old_pull = _spread(state, types, columns)
    new_gram, new_pull = _spread(day, types, columns)
    gain = np.maximum(np.diag(new_gram), 0.0)
    keep = 1.0 / np.sqrt(1.0 + gain / memory)
    lasting = old_gram * np.outer(keep, keep)
    believed = inverse(old_gram + np.diag(np.full(len(gain), 1e-6))) @ old_pull
    kernels, under = _both(state, day, _information(lasting, len(types), len(columns)))
    share = np.ones(len(met))
    share[np.isin(met, columns)] = keep[len(types) + np.searchsorted(columns, np.intersect1d(met, columns))] ** 2
    return Block(
        types=types,
        columns=columns,
        gram=lasting + new_gram,
        pull=lasting @ believed + new_pull,
        rows=state.rows + day.rows,
        met=met,
        overlaps=_of(state.met, state.overlaps, met, 0.0) * share + _of(day.met, day.overlaps, met, 0.0),
        activations=_of(state.met, state.activations, met, 0.0) + _of(day.met, day.activations, met, 0.0),
        version=day.version or state.version,
        gap=day.gap if day.weight else state.gap,
        weight=day.weight or state.weight,
        kernels=kernels,
        under=under,
    )


def _both(state: Block, day: Block, left: float) -> tuple[tuple[str, ...], Floats]:
    """Return the kernels of *state* and *day* and the information that came under each, where *left* is what stays of
    that of the state."""
    kernels = tuple(sorted({*state.kernels, *day.kernels}))
    under = np.zeros(len(kernels))
    if state.kernels:
        under[np.searchsorted(kernels, state.kernels)] = state.under * (left / max(state.information, 1e-300))
    if day.kernels:
        under[np.searchsorted(kernels, day.kernels)] += day.under
    return kernels, under


def renewed(state: Block, keep: float = RENEWED) -> Block:
    """Return the state for a new version of the victim: the old evidence as a prior worth *keep* of itself.

    How long the new version takes undisturbed is another matter: what was known of the base is integrated out.
    """
    kinds = len(state.types)
    gram, pull = np.zeros_like(state.gram), np.zeros_like(state.pull)
    if kinds:
        own = inverse(state.gram[:kinds, :kinds])
        cross = state.gram[kinds:, :kinds]
        inner = state.gram[kinds:, kinds:] - cross @ own @ cross.T
        gram[kinds:, kinds:] = (inner + inner.T) / 2 * keep
        pull[kinds:] = (state.pull[kinds:] - cross @ (own @ state.pull[:kinds])) * keep
    else:
        gram, pull = state.gram * keep, state.pull * keep
    left = _information(gram, kinds, len(state.columns)) / max(state.information, 1e-300)
    return replace(
        state,
        gram=gram,
        pull=pull,
        overlaps=state.overlaps * keep,
        rows=state.rows * keep,
        under=state.under * left,
    )


def faded(state: Block, running: Collection[str], keep: float = RENEWED) -> Block:
    """Return the state when of all kernels only those *running* still run on a node of the cluster.

    A Gaussian cannot be parted by kernel afterwards. The share v of its information that came under the others is
    taken for evidence of the same slowdowns at another base, as in `renewed`: a part v of the state has its base
    integrated out and is worth *keep* of itself, the rest stays. What is known of the slowdowns (the marginal)
    becomes (1 - v) + v *keep* of itself at the same mean, what is known of the base 1 - v. What faded belongs to no
    kernel any more, and never fades again for one. Where nothing is known to run, nothing is known to have vanished.
    """
    there = np.array([name in running for name in state.kernels], bool)
    if not running or there.all():
        return state
    lost = min(1.0, float(state.under[~there].sum()) / max(state.information, 1e-300))
    old, left = renewed(state, keep), 1.0 - lost + lost * keep
    return replace(
        state,
        gram=(1.0 - lost) * state.gram + lost * old.gram,
        pull=(1.0 - lost) * state.pull + lost * old.pull,
        overlaps=state.overlaps * left,
        rows=state.rows * left,
        kernels=tuple(name for name in state.kernels if name in running),
        under=state.under[there],
    )


def _information(gram: Floats, kinds: int, columns: int) -> float:
    return float(np.diag(gram)[kinds : kinds + columns].sum())


def corrected(state: Block, fit: VictimFit, point: Linearisation) -> tuple[Block, Linearisation]:
    """Return the block that makes the state say what the full *fit* over the same days says, and the point with the
    factors by which the fit's errors are wider.

    The day blocks lose a little against the one-shot fit, each having nuisance coefficients of its own. The block
    holds no information, only the pull that moves the solution; it fades with the evidence that it belongs to.
    """
    kinds, m = len(state.types), len(state.columns)
    covariance, theta = _posterior(state)
    wanted = theta.copy()
    base = np.array([fit.base.get(int(kind), np.nan) for kind in state.types])
    told = np.concatenate([np.log(base), fit.slowdown[state.columns], fit.placebo[state.columns]])
    sure = np.isfinite(told) & (np.diag(state.gram) > 0)
    wanted[sure] = told[sure]
    block = Block(
        types=state.types,
        columns=state.columns,
        gram=np.zeros_like(state.gram),
        pull=(state.gram + np.diag(_belief(state))) @ (wanted - theta),
    )
    deviation = np.sqrt(np.maximum(np.diag(covariance)[kinds : kinds + m], 1e-300))
    ratio = _of(state.columns, fit.se[state.columns] / deviation, point.columns, np.nan)
    known = np.isfinite(ratio)
    usual = float(np.clip(np.median(ratio[known]), 0.5, 3.0)) if known.any() else 1.0
    widening = np.clip(np.where(known, ratio, usual), 0.25, 5.0)
    return block, replace(point, widening=widening, usual=usual)


def solve(state: Block, point: Linearisation, functions: int, options: Options | None = None) -> VictimFit:
    """Return what the state says of *functions* functions, in the form of a fit (for `pairs.learn`)."""
    options = options or Options()
    kinds, m = len(state.types), len(state.columns)
    covariance, theta = _posterior(state)
    widening = _of(point.columns, point.widening, state.columns, point.usual)
    slowdown = np.maximum(theta[kinds : kinds + m], -0.5)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    se = deviation[kinds : kinds + m] * widening
    told = _of(state.met, state.overlaps, state.columns, 0.0) >= options.column_overlaps
    sure = told & (se < 0.9 * options.prior_sd)
    shown = np.diag(state.gram)[kinds + m :] > 0

    def spread(values: Floats, missing: float) -> Floats:
        found = np.full(functions, missing)
        found[state.columns] = values
        return found

    own = np.flatnonzero(told)
    growth = (1.0 + slowdown[own]) / widening[own]
    precision = inverse(covariance[np.ix_(kinds + own, kinds + own)])
    effective, runs = np.zeros(functions), np.zeros(functions, np.int64)
    effective[state.met], runs[state.met] = state.overlaps, np.round(state.activations).astype(np.int64)
    return VictimFit(
        victim=point.victim,
        rows=int(state.rows),
        reason="" if state.rows else "too few activations",
        slowdown=spread(np.where(sure, slowdown, np.nan), np.nan),
        se=spread(np.where(sure, se, np.nan), np.nan),
        placebo=spread(np.where(shown, theta[kinds + m :], np.nan), np.nan),
        placebo_se=spread(np.where(shown, deviation[kinds + m :], np.nan), np.nan),
        effective_overlaps=effective,
        activations=runs,
        columns=state.columns[own],
        raw=np.log1p(slowdown[own]),
        precision=precision * np.outer(growth, growth),
        inflation=spread(widening**2, point.usual**2),
        base={int(kind): float(np.exp(value)) for kind, value in zip(state.types, theta, strict=False)},
        noise=point.noise,
        drift=state.drift,
    )


def unknown(victim: int, functions: int) -> VictimFit:
    """Return what is said of a victim that no full fit knew."""
    nothing = np.zeros(0)
    return solve(Block(), Linearisation(victim, _none(), nothing, _none(), nothing, nothing, float("nan")), functions)


def gaps(folded: VictimFit, whole: VictimFit) -> Floats:
    """Return how far a folded state's slowdowns lie from a one-shot fit's, in the latter's standard errors; only of
    pairs that both know."""
    gap = np.abs(folded.slowdown - whole.slowdown) / whole.se
    return gap[np.isfinite(gap)]


def moved(found: VictimFit, point: Linearisation, options: Options | None = None) -> float:
    """Return by how much the log of any stretched time has moved from the point, beyond three standard errors.

    Only pairs with evidence enough to decide count. Around zero the linear model holds; at .1 and more it strays.
    """
    options = options or Options()
    enough = np.flatnonzero((found.effective_overlaps >= options.min_overlaps) & np.isfinite(found.slowdown))
    before = np.log1p(_of(point.columns, point.slowdown, enough, 0.0))
    now = np.log1p(np.maximum(found.slowdown[enough], 0.0))
    beyond = np.abs(now - before) - 3 * found.se[enough] * np.exp(-before)
    return float(np.max(beyond, initial=0.0))


def relabelled(block: Block, functions: Ints, types: Ints) -> Block:
    """Return the block under other codes: what was function f is *functions* [f], type t is *types* [t]."""
    t, m = np.argsort(types[block.types]), np.argsort(functions[block.columns])
    met, kinds, width = np.argsort(functions[block.met]), len(block.types), len(block.columns)
    at = np.concatenate([t, kinds + m, kinds + width + m])
    return replace(
        block,
        types=types[block.types][t],
        columns=functions[block.columns][m],
        gram=block.gram[np.ix_(at, at)],
        pull=block.pull[at],
        met=functions[block.met][met],
        overlaps=block.overlaps[met],
        activations=block.activations[met],
    )


def _posterior(state: Block) -> tuple[Floats, Floats]:
    covariance = inverse(state.gram + np.diag(_belief(state)))
    theta: Floats = covariance @ state.pull
    return covariance, theta


def _belief(state: Block, prior_sd: float = Options().prior_sd) -> Floats:
    """Return the precisions of what is believed beforehand [p]."""
    m = len(state.columns)
    belief = (_BASE_SD**-2.0, prior_sd**-2.0, controls.PLACEBO_SD**-2.0)
    return np.repeat(belief, [len(state.types), m, m])


def _of(codes: Ints, values: Floats, wanted: Ints, missing: float) -> Floats:
    """Return the values [w] of the *wanted* codes, given those of *codes* [k] (ascending)."""
    found = np.full(len(wanted), missing)
    if len(codes):
        at = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        there = codes[at] == wanted
        found[there] = values[at[there]]
    return found


def _spread(block: Block, types: Ints, columns: Ints) -> tuple[Floats, Floats]:
    """Return gram and pull over [types, columns, columns], which contain the block's own."""
    t, m = len(types), len(columns)
    own = np.searchsorted(columns, block.columns)
    at = np.concatenate([np.searchsorted(types, block.types), t + own, t + m + own])
    gram, pull = np.zeros((t + 2 * m,) * 2), np.zeros(t + 2 * m)
    gram[np.ix_(at, at)] = block.gram
    pull[at] = block.pull
    return gram, pull
