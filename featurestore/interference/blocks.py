"""Blocks of evidence about one victim: what days are reduced to and states are made of, and the point of both.

Blocks are compact: they hold the functions that the victim met, by their codes in the cluster's list of names.
The parameters are absolute (not steps from the point), so that a block keeps its meaning as a Gaussian
approximation when a later full fit records another point.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.controls import PLACEBO_SD
from featurestore.interference.evidence import Floats, Ints, Options

#: Standard deviation of the level of a usual day, against which drift is told.
_USUAL_SD = 0.1

#: Beliefs about what lasts, so weak that only coefficients without any evidence feel them; those about neighbours on
#: other nodes as the fits have them.
_BASE_SD, _SLOWDOWN_SD = 10.0, Options().prior_sd

NO_CODES: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Linearisation:
    """The recorded point: log *base* [T] of the node *types* [T], *slowdown* [k] of the functions *columns* [k]
    (others: 0), and the *noise* of the log.

    *widening* [k] are the factors by which the full fit's errors exceed those of the folded blocks (clustered
    errors); *usual* is that of the others. *crowd* [3] is what the load of the cluster did (`controls.crowd`).
    *ends* tells whether blocks are reduced with who was there when runs ended.
    """

    victim: int
    types: Ints
    base: Floats
    columns: Ints
    slowdown: Floats
    widening: Floats
    noise: float
    usual: float = 1.0
    crowd: Floats = field(default_factory=lambda: np.zeros(3))
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Normal equations over [types T, slowdowns m, placebos m]: *gram* [p, p] and *pull* [p], p = T + 2 m.

    *columns* [m] are the functions, ascending. *met* [k] are all functions that ran beside the victim, *overlaps* [k]
    and *activations* [k] the sums of exposures and counts of runs that met each. *version* names the victim's version
    and limits at the block's end. *gap* over *weight* is the mean residual of its warm runs at the point. *under* [q]
    is how much of `information` came under each of the nodes' *kernels* [q] (ascending); the rest came under kernels
    that nobody named, or that no node runs any more.
    """

    types: Ints = field(default_factory=NO_CODES.copy)
    columns: Ints = field(default_factory=NO_CODES.copy)
    gram: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    pull: Floats = field(default_factory=lambda: np.zeros(0))
    rows: float = 0.0
    met: Ints = field(default_factory=NO_CODES.copy)
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
        return information(self.gram, len(self.types), len(self.columns))

    @property
    def drift(self) -> float:
        """Return the mean residual over what chance and a usual day's own level explain of it; NaN without runs."""
        if self.weight <= 0:
            return float("nan")
        return float(self.gap / self.weight / np.sqrt(1 / self.weight + _USUAL_SD**2))


@compiled
def beforehand(kinds: int, columns: int) -> Floats:
    """Return the precisions of what is believed beforehand [p] of the bases of so many *kinds* of nodes, of the
    slowdowns by so many *columns*, and of the placebos."""
    found = np.empty(kinds + 2 * columns)
    found[:kinds] = _BASE_SD**-2.0
    found[kinds : kinds + columns] = _SLOWDOWN_SD**-2.0
    found[kinds + columns :] = PLACEBO_SD**-2.0
    return found


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


def information(gram: Floats, kinds: int, columns: int) -> float:
    """Return the information about the slowdowns in *gram*, that of a block of so many *kinds* and *columns*."""
    return float(np.diag(gram)[kinds : kinds + columns].sum())


def valued(codes: Ints, values: Floats, wanted: Ints, missing: float) -> Floats:
    """Return the values [w] of the *wanted* codes, given those of *codes* [k] (ascending)."""
    found = np.full(len(wanted), missing)
    if len(codes):
        at = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        there = codes[at] == wanted
        found[there] = values[at[there]]
    return found
