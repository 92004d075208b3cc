"""Whether a new model tells the times of runs better or worse than the one before, on runs that neither has seen.

Runs in the blocks that are set aside (`spared`) are told from the
slowdowns alone: each victim's usual time on each node, cold and warm apart, and its scatter are taken from the
hold-out itself, the same way for every model, so that what is compared is what was learned of interference. The score
of a run is its log predictive density under Student's t (4 degrees of freedom: a few runs are far off, as the fit
allows too); differences are taken run by run and their error from the blocks, within which runs go together.

Sources: Gneiting and Raftery, J. Am. Statist. Assoc. 102 (2007) 359, for the score; Lange, Little and Taylor, J. Am.
Statist. Assoc. 84 (1989) 881, for the t; Diebold and Mariano, J. Bus. Econ. Statist. 13 (1995) 253, for the paired
comparison.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse, special, stats

from featurestore.columnar import combinations
from featurestore.interference.evidence import Bools, Floats, Ints
from featurestore.quantiles import quantiles

#: Fewer blocks or runs in the hold-out compare nothing.
LEAST_BLOCKS, LEAST_RUNS = 6, 200
#: Runs of a victim on a node below which their usual time is not known.
_LEAST_GROUP = 5
#: A candidate is worse only beyond this one-sided level, and by more than this share of what the model before gains
#: over knowing of no interference, and this much of a log density at all.
LEVEL, _MARGIN, _LEAST_MARGIN = 0.01, 0.05, 0.001
#: What holds in the newest part of the hold-out at this one-sided level is a change, not a mistake.
_NEWEST, _CHANGED = 0.25, 0.05
_FREEDOM = 4.0
_LEAST_SCALE = 0.01

BETTER, LEVEL_WITH, WORSE, CHANGED, NONE = "better", "level", "worse", "changed", "none"


@dataclass(frozen=True, slots=True)
class Held:
    """The hold-out: n runs of F functions. *victim*, *node*, *block* [n] codes, *hour* [n] ascending with time,
    *cold* [n]; *execution* [n] positive seconds; *exposure* CSR [n, F]."""

    victim: Ints
    node: Ints
    block: Ints
    hour: Ints
    cold: Bools
    execution: Floats
    exposure: sparse.csr_matrix


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a candidate did on *runs* in *blocks*: mean log densities of *candidate*, model *before*, and *constant*
    (no interference); *difference* (candidate less before) with its standard *error*; *word* better, level, worse,
    changed (worse, but better of late), or none (nothing could be compared)."""

    word: str
    blocks: int = 0
    runs: int = 0
    candidate: float = float("nan")
    before: float = float("nan")
    constant: float = float("nan")
    difference: float = float("nan")
    error: float = float("nan")


def judge(held: Held, candidate: sparse.csr_matrix, before: sparse.csr_matrix) -> Verdict:
    """Compare two models' slowdowns [F, F] (victim by aggressor, what is not known counts as none) on *held*.

    The candidate is worse where the mean difference is below zero at `LEVEL` (one-sided t over blocks) and by more
    than the margin; where it is nevertheless better in the newest quarter of the hold-out, the cluster has changed.
    """
    group, usable = _groups(held)
    constant = _centred(np.log(held.execution), group)
    scale = _scales(constant, held.victim, usable)
    density = [_density(_centred(_left(held, s), group), scale)[usable] for s in (candidate, before)]
    nothing = _density(constant, scale)[usable]
    block, hour = held.block[usable], held.hour[usable]
    runs, blocks = int(usable.sum()), len(np.unique(block))
    if blocks < LEAST_BLOCKS or runs < LEAST_RUNS:
        return Verdict(NONE, blocks, runs)
    gap = density[0] - density[1]
    difference, error, chance = paired(gap, block)
    margin = max(_LEAST_MARGIN, _MARGIN * float(np.mean(density[1] - nothing)))
    word = LEVEL_WITH
    if difference < -margin and chance < LEVEL:
        late = hour >= np.quantile(np.unique(hour), 1 - _NEWEST)
        word = CHANGED if 1 - paired(gap[late], block[late])[2] < _CHANGED else WORSE
    elif difference > 0 and 1 - chance < LEVEL:
        word = BETTER
    mine, other, none = (float(np.mean(part)) for part in (density[0], density[1], nothing))
    return Verdict(word, blocks, runs, mine, other, none, difference, error)


def paired(gap: Floats, block: Ints) -> tuple[float, float, float]:
    """Return the mean of *gap* [n], its standard error clustered by *block* [n], and the one-sided chance of a mean
    as low as this where there is no difference (Student's t); no error and .5 where blocks are too few to tell."""
    if len(gap) == 0:
        return float("nan"), float("nan"), 0.5
    present, code = np.unique(block, return_inverse=True)
    mean = float(np.mean(gap))
    b = len(present)
    if b < 3:
        return mean, float("nan"), 0.5
    sums = np.bincount(code, weights=gap - mean)
    error = float(np.sqrt(np.sum(sums**2) * b / (b - 1)) / len(gap))
    if error == 0:
        return mean, 0.0, 0.5 if mean == 0 else float(mean > 0)
    return mean, error, float(stats.t.cdf(mean / error, b - 1))


def _left(held: Held, slowdown: sparse.csr_matrix) -> Floats:
    """Return the log times [n] less what *slowdown* says that the neighbours added."""
    rows = np.repeat(np.arange(len(held.victim)), np.diff(held.exposure.indptr))
    share = np.nan_to_num(np.asarray(slowdown[held.victim[rows], held.exposure.indices]).ravel(), nan=0.0)
    met = held.exposure.data
    added = share * met / (1.0 + share * np.maximum(0.0, 1.0 - met))
    total = 1.0 + np.bincount(rows, weights=added, minlength=len(held.victim))
    found: Floats = np.log(held.execution) - np.log(np.maximum(total, 0.2))
    return found


def _groups(held: Held) -> tuple[Ints, Bools]:
    """Return the group of each run (victim, node, cold or not), and whether its group is large enough."""
    _, group = combinations(held.victim, held.node, held.cold.astype(np.int64))
    counts = np.bincount(group)
    return group, counts[group] >= _LEAST_GROUP if len(group) else np.zeros(0, bool)


def _centred(values: Floats, group: Ints) -> Floats:
    """Return *values* less the median of their group."""
    middle = quantiles(group, values, int(group.max(initial=-1)) + 1, (0.5,))[:, 0]
    found: Floats = values - middle[group]
    return found


def _scales(residual: Floats, victim: Ints, usable: Bools) -> Floats:
    """Return each run's scale [n]: the median absolute residual of its victim as that of a t distribution."""
    functions = int(victim.max(initial=-1)) + 1
    middle = quantiles(victim[usable], np.abs(residual[usable]), functions, (0.5,))[:, 0]
    size = np.fmax(middle / float(special.stdtrit(_FREEDOM, 0.75)), _LEAST_SCALE)
    found: Floats = size[victim]
    return found


def _density(residual: Floats, scale: Floats) -> Floats:
    found: Floats = stats.t.logpdf(residual / scale, _FREEDOM) - np.log(scale)
    return found
