"""What is known of one victim as a fold over blocks of days: sums at a recorded linearisation, folded in order.

Each day's evidence is a block (`reduction.reduce`). The state is the sum of the blocks, in which old evidence gives
way to new evidence of the same pair and to change, and to nothing else: a pair that is kept apart stays known.
Folding the same blocks in the same order gives the same state.

Sources: Ljung, System Identification (1999), ch. 11 (recursive least squares with directional forgetting).
"""

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.blocks import Block, beforehand, information
from featurestore.interference.cholesky import mean
from featurestore.interference.evidence import Floats, Ints
from featurestore.interference.gaussian import inverse

#: Information (inverse variance) at which old evidence of a coefficient weighs half beside new: a standard error of
#: less than half a percent. Nobody needs to know a slowdown better, and a change is learned within about as much
#: evidence; the ends of runs (`interference.ends`) make as many runs tell a quarter more.
MEMORY = 50_000.0

#: Far beyond any log of a time and any slowdown. Where the evidence does not tell some coefficients apart (they ran
#: together), the correction to a full fit is a pull in a direction without information, which alone says anything.
_MOST_BELIEVED = 1000.0

#: What old evidence is worth beside that of a new version of the victim, or of nodes under another kernel.
RENEWED = 0.1


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
    types, columns, gram, pull, keep, left = _summed(_Sums(*_of(state)), _Sums(*_of(day)), memory)
    met, overlaps, activations = _met(
        state.met, state.overlaps, state.activations, day.met, day.overlaps, day.activations, columns, keep
    )
    kernels, under = _both(state, day, left)
    return Block(
        types=types,
        columns=columns,
        gram=gram,
        pull=pull,
        rows=state.rows + day.rows,
        met=met,
        overlaps=overlaps,
        activations=activations,
        version=day.version or state.version,
        gap=day.gap if day.weight else state.gap,
        weight=day.weight or state.weight,
        kernels=kernels,
        under=under,
    )


class _Sums(NamedTuple):
    """The sums of a block."""

    types: Ints
    columns: Ints
    gram: Floats
    pull: Floats


def _of(block: Block) -> tuple[Ints, Ints, Floats, Floats]:
    return block.types, block.columns, np.ascontiguousarray(block.gram), block.pull


@compiled
def _summed(state: _Sums, day: _Sums, memory: float) -> tuple[Ints, Ints, Floats, Floats, Floats, float]:
    """Return types, columns, gram and pull of both, what of the old evidence of each column stays [m], and the
    information about the slowdowns that does."""
    types, columns = _union(state.types, day.types), _union(state.columns, day.columns)
    kinds, m = len(types), len(columns)
    size = kinds + 2 * m
    gram, pull, keep = np.zeros((size, size)), np.zeros(size), np.ones(size)
    new, old = _places(day, types, columns), _places(state, types, columns)
    for row in range(len(new)):
        keep[new[row]] = 1.0 / np.sqrt(1.0 + max(day.gram[row, row], 0.0) / memory)
    believed = mean(state.gram, np.full(len(old), 1e-6), state.pull)
    if np.any(np.abs(believed) > _MOST_BELIEVED):
        belief = beforehand(len(state.types), len(state.columns))
        believed = mean(state.gram, belief, state.pull)
        for row in range(len(old)):  # what holds the belief beforehand back fades as what it belongs to
            pull[old[row]] += keep[old[row]] ** 2 * belief[row] * believed[row]
    _add_lasting(gram, pull, old, keep[old], state.gram, believed)
    left = 0.0
    for row in range(kinds, kinds + m):
        left += gram[row, row]
    _add(gram, pull, new, day.gram, day.pull)
    return types, columns, gram, pull, keep[kinds : kinds + m] ** 2, left


@compiled
def _met(
    known: Ints,
    overlaps: Floats,
    activations: Floats,
    more: Ints,
    more_overlaps: Floats,
    more_activations: Floats,
    columns: Ints,
    keep: Floats,
) -> tuple[Ints, Floats, Floats]:
    """Return all functions met, *known* and *more*, with their overlaps and activations; of the *columns* the share
    *keep* of the old overlaps stays."""
    met = _union(known, more)
    found, counted = np.zeros(len(met)), np.zeros(len(met))
    for row, place in enumerate(np.searchsorted(met, known)):
        found[place], counted[place] = overlaps[row], activations[row]
    for row, place in enumerate(np.searchsorted(met, columns)):
        if place < len(met) and met[place] == columns[row]:
            found[place] *= keep[row]
    for row, place in enumerate(np.searchsorted(met, more)):
        found[place] += more_overlaps[row]
        counted[place] += more_activations[row]
    return met, found, counted


@compiled
def _union(some: Ints, others: Ints) -> Ints:
    """Return the codes of both, each ascending and once."""
    found = np.empty(len(some) + len(others), np.int64)
    at = i = j = 0
    while i < len(some) or j < len(others):
        if j == len(others) or (i < len(some) and some[i] <= others[j]):
            j += j < len(others) and some[i] == others[j]
            found[at] = some[i]
            i += 1
        else:
            found[at] = others[j]
            j += 1
        at += 1
    return found[:at].copy()


@compiled
def _places(block: _Sums, types: Ints, columns: Ints) -> Ints:
    """Return where the parameters of *block* stand among [types, columns, columns], which contain its own."""
    kinds, width = len(block.types), len(block.columns)
    found = np.empty(kinds + 2 * width, np.int64)
    found[:kinds] = np.searchsorted(types, block.types)
    found[kinds : kinds + width] = len(types) + np.searchsorted(columns, block.columns)
    found[kinds + width :] = found[kinds : kinds + width] + len(columns)
    return found


@compiled
def _add_lasting(gram: Floats, pull: Floats, at: Ints, keep: Floats, old: Floats, believed: Floats) -> None:
    """Add what lasts of an *old* gram [k, k] to *gram* at *at* [k], and that times the *believed* [k] to *pull*."""
    for row in range(len(at)):
        for other in range(len(at)):
            lasting = old[row, other] * (keep[row] * keep[other])
            gram[at[row], at[other]] += lasting
            pull[at[row]] += lasting * believed[other]


@compiled
def _add(gram: Floats, pull: Floats, at: Ints, more: Floats, pulled: Floats) -> None:
    for row in range(len(at)):
        pull[at[row]] += pulled[row]
        for other in range(len(at)):
            gram[at[row], at[other]] += more[row, other]


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
    left = information(gram, kinds, len(state.columns)) / max(state.information, 1e-300)
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
