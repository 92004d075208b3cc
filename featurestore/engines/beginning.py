"""A state is begun: from the full fits of a window, its days, and what is known from before it.

The days are reduced at the `points` of the fits, by whichever engine has their runs (`folding.block`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from featurestore.engines.candidate import Options
from featurestore.engines.folding import in_turn
from featurestore.engines.past import Past
from featurestore.interference import solution
from featurestore.interference.blocks import Block, Linearisation
from featurestore.interference.evidence import Floats, Told
from featurestore.runs import Runs
from featurestore.states import Blocks, Packed, Points, Step, folded


@dataclass(frozen=True, slots=True)
class Begun:
    """*fits* are what is known now, from *rows* of evidence.

    *steps* are folded for good up to *closed*, and *current* is what they come to.
    *distance* tells how far the days folded at the new points lie from the full fits, in standard errors.
    """

    fits: Sequence[Told]
    rows: int
    points: Points
    current: Blocks
    steps: Sequence[Step]
    closed: int
    distance: Mapping[str, float]


def points_of(fits: Sequence[Told], past: Past) -> dict[int, Linearisation]:
    """Return the points at which days are reduced: those of the *fits*, else those from before."""
    return {**past.points, **{fit.victim: solution.linearise(fit) for fit in fits if not fit.reason}}


def begin(
    fits: Sequence[Told], days: Iterable[Step], several: Set[int], past: Past, settled: int, options: Options
) -> Begun:
    """Return the state that begins with *fits*; *days* (in order) that ended by *settled* are folded for good.

    A victim of one version, with no evidence under kernels that vanished, of which nothing is known from before says
    what its full fit says, and the fold is corrected to it; of the others, among them *several* (`renewed`), the fold
    says it, in which old evidence is a prior. A correction belongs to days that are folded for good: what these say
    nothing of is not corrected. Each day is folded as it comes and kept as the bytes that are stored: of all days'
    sums only one day's are at hand at once.
    """
    points = points_of(fits, past)
    held: Blocks = {}
    aged, known = past.aged, set(past.aged)
    done, young, named = list[Step](), list[Step](), list[Step]()
    rows = 0.0
    for day in days:
        rows += day.rows
        kept, day = replace(day, blocks=Packed.of(day.blocks)), replace(day, blocks=dict(day.blocks.items()))
        kernels = {victim: Block(kernels=own.kernels) for victim, own in day.blocks.items() if own.kernels}
        named.append(replace(day, blocks=kernels))
        if day.until <= settled:
            held = folded(held, [day], options.memory)
            aged = folded(aged, [day], options.memory) if known else aged
            done.append(kept)
        else:
            young.append(kept)
    closed = done[-1].until if done else past.since
    alone = folded(held, young, options.memory)
    several = several | _faded(named)
    corrections: dict[int, Block] = {}
    gaps = [np.zeros(0)]
    alike = [fit for fit in fits if not fit.reason and fit.victim not in several and fit.victim in alone]
    for fit, (gap, correction, point) in zip(
        alike, _corrected(alike, alone, points, len(fits), options), strict=True
    ):
        gaps.append(gap)
        points[fit.victim] = point
        if fit.victim in held:
            corrections[fit.victim] = solution.hung(correction, held[fit.victim])
    drift = {fit.victim: alone[fit.victim].drift for fit in alike if fit.victim not in known}
    del alone
    correcting = [Step(closed, closed, 0.0, corrections)] if corrections else []
    current = folded(aged if known else held, correcting, options.memory)
    del held, aged
    final = folded(
        _without(current, drift), [replace(day, blocks=_without(day.blocks, drift)) for day in young], options.memory
    )
    said = [
        replace(fit, drift=drift[fit.victim])
        if fit.victim in drift
        else _said(fit, final, points, len(fits), options)
        for fit in fits
    ]
    every = np.concatenate(gaps)
    distance = (
        {"largest": round(float(every.max()), 3), "typical": round(float(np.sqrt(np.mean(every**2))), 3)}
        if len(every)
        else {}
    )
    return Begun(said, round(rows), points, Packed.of(current), [*done, *correcting], closed, distance)


def _corrected(
    fits: Sequence[Told], states: Blocks, points: Mapping[int, Linearisation], functions: int, options: Options
) -> Iterator[tuple[Floats, Block, Linearisation]]:
    """Yield how far each victim's state lies from its fit, the correction to it, and the point with its errors."""

    def of(fit: Told) -> tuple[Floats, Block, Linearisation]:
        own, point = states[fit.victim], points[fit.victim]
        gap = solution.gaps(solution.solve(own, point, functions, options.estimation), fit)
        return gap, *solution.corrected(own, fit, point)

    return in_turn(of, iter(fits), options.threads)


def _without(blocks: Blocks, victims: Collection[int]) -> dict[int, Block]:
    return {victim: block for victim, block in blocks.items() if victim not in victims}


def _said(fit: Told, states: Blocks, points: Mapping[int, Linearisation], functions: int, options: Options) -> Told:
    """Return what the fold says of a victim; where it says nothing, what the fit does."""
    if fit.victim in states and fit.victim in points:
        return solution.solve(states[fit.victim], points[fit.victim], functions, options.estimation)
    return fit


def renewed(runs: Runs) -> set[int]:
    """Return the functions whose runs that are evidence are of several versions."""
    function, version = runs.function[runs.evidence], runs.version[runs.evidence]
    one = np.zeros(len(runs.functions), version.dtype)
    one[function] = version  # of each function any
    return set(np.flatnonzero(np.bincount(function[version != one[function]])).tolist())


def _faded(days: Sequence[Step]) -> set[int]:
    """Return the functions with evidence under a kernel that a later day, or its own, saw no node run any more."""
    under: dict[int, set[str]] = {}
    found: set[int] = set()
    for day in days:
        for victim, own in day.blocks.items():
            if own.kernels:
                under.setdefault(victim, set()).update(own.kernels)
        if day.running:
            found |= {victim for victim, kernels in under.items() if not kernels.issubset(day.running)}
    return found
