"""Sums over the grid of slowdowns, cell by cell: likelihoods, moments and quantiles of a pair's slowdown.

Compiled, with an exponential that a processor takes of several cells at once: these sums are most of what deciding
over all pairs takes. Cells that are less likely than the best by `NEXT_TO_NONE` count for nothing (1e-26).
"""

import numpy as np

from featurestore.compiled import compiled, summed
from featurestore.interference.evidence import Floats, Ints

#: The log of the likelihood of a cell, less that of the best, from which on it counts.
NEXT_TO_NONE = -60.0


@summed
def exponential(level: float) -> float:
    """Return e to the power of *level*, `NEXT_TO_NONE` to 0, within 2e-13 of itself.

    The power of a thousandth, by eight terms of its series, squared ten times: no branch and no table.
    """
    y = level * (1.0 / 1024)
    p = 1 + y * (1 / 6) * (1 + y * (1 / 7) * (1 + y * (1 / 8)))
    p = 1 + y * (1 + y * (1 / 2) * (1 + y * (1 / 3) * (1 + y * (1 / 4) * (1 + y * (1 / 5) * p))))
    for _ in range(10):
        p *= p
    return p


@summed
def likelihoods(estimate: Floats, variance: Floats, grid: Floats) -> Floats:
    """Return the likelihood [k, G] of each cell of *grid*, ascending, under normal *estimate* [k], *variance* [k].

    Scaled to a row maximum of 1.
    """
    found = np.empty((len(estimate), len(grid)))
    for k in range(len(estimate)):
        _likelihood(estimate[k], variance[k], grid, found[k])
    return found


@compiled
def quantiles(
    estimate: Floats,
    variance: Floats,
    chance: Floats,
    null: Floats,
    interfering: Floats,
    grid: Floats,
    levels: Floats,
) -> tuple[Floats, Ints]:
    """Return of the slowdown of each pair [k] the probability of interfering [k], and the cell [k, levels] of *grid*
    up to which its mass is at least each of *levels*.

    *chance* [k] is the pair's prior, *null* and *interfering* [G] are the masses of both groups.
    """
    inside = np.zeros(len(estimate))
    place = np.zeros((len(estimate), len(levels)), np.int64)
    mass = np.empty(len(grid))
    for k in range(len(estimate)):
        _likelihood(estimate[k], variance[k], grid, mass)
        total, above = _weighed(mass, chance[k], null, interfering)
        inside[k] = above / max(total, 1e-300)
        for column in range(len(levels)):
            cell, held = 0, mass[0]
            while held < levels[column] * total and cell < len(grid) - 1:
                cell += 1
                held += mass[cell]
            place[k, column] = cell
    return inside, place


@summed
def tilted(middle: float, precision: float, prior: Floats, grid: Floats) -> tuple[float, float]:
    """Return mean and mean square of *prior* [G] on *grid* [G], ascending, times a normal likelihood."""
    nearest = _nearest(middle, grid)
    reach = np.sqrt(nearest - 2 * NEXT_TO_NONE / precision)
    first, last = np.searchsorted(grid, middle - reach), np.searchsorted(grid, middle + reach)
    total, mean, square = 0.0, 0.0, 0.0
    for cell in range(first, last):
        left = middle - grid[cell]
        mass = exponential(-0.5 * precision * (left * left - nearest)) * prior[cell]
        total += mass
        mean += mass * grid[cell]
        square += mass * grid[cell] * grid[cell]
    total = max(total, 1e-300)
    return mean / total, square / total


@summed
def _likelihood(estimate: float, variance: float, grid: Floats, found: Floats) -> None:
    nearest, each = _nearest(estimate, grid), -0.5 / variance
    for cell in range(len(grid)):
        left = estimate - grid[cell]
        level = each * (left * left - nearest)
        found[cell] = exponential(max(level, NEXT_TO_NONE)) if level > NEXT_TO_NONE else 0.0


@summed
def _weighed(mass: Floats, chance: float, null: Floats, interfering: Floats) -> tuple[float, float]:
    """Weigh the likelihoods *mass* [G] by the prior; return their sum and that of the interfering."""
    total, above = 0.0, 0.0
    for cell in range(len(mass)):
        mass[cell] *= chance * interfering[cell] + (1 - chance) * null[cell]
        total += mass[cell]
        above += mass[cell] if interfering[cell] > 0 else 0.0
    return total, above


@compiled
def _nearest(middle: float, grid: Floats) -> float:
    """Return the squared distance of *middle* to the nearest cell of *grid*, ascending."""
    at = np.searchsorted(grid, middle)
    nearest = np.inf
    if at < len(grid):
        nearest = (middle - grid[at]) ** 2
    if at > 0:
        nearest = min(nearest, (middle - grid[at - 1]) ** 2)
    return nearest
