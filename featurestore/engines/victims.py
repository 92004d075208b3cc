"""All that the evidence of one victim says, read once: its fit, and its days reduced at the point of that fit.

What a day says is what `folding.block` says of it, bit for bit: which other days were read with it changes nothing.
Days of which that is not so (`apart`) are left to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from featurestore.designs import designs, taken
from featurestore.engines.candidate import Options
from featurestore.engines.folding import DAY, in_turn, reduced
from featurestore.exposure.kernels import Ints
from featurestore.exposure.sweep import OPEN, Exposure
from featurestore.interference.blocks import Block, Linearisation
from featurestore.interference.concurrency import Events
from featurestore.interference.evidence import Told, VictimDesign, told
from featurestore.interference.reduction import LEAST_OVERLAP
from featurestore.interference.solution import linearise
from featurestore.interference.victim import fit_victim
from featurestore.node_kernels import NodeKernels
from featurestore.runs import Runs
from featurestore.states import PART, Packed, Step, pack_blocks

#: So many victims are fitted ahead of the one that is told next: the largest takes a second, most a fiftieth of that.
_AHEAD = 16
#: Blocks of so many victims are packed together at most, and of fewer where each has many.
_BLOCKS = 10 * PART

#: What a victim's evidence says: its fit, and its blocks by the number of the day.
Said = tuple[Told, Mapping[int, Block]]
#: All blocks of some victims, packed (`states.pack_blocks`), by the number of the day.
Share = Mapping[int, Sequence[bytes]]


@dataclass(frozen=True, slots=True)
class Days:
    """The days of a window, reduced: the *steps* in order without their blocks, and these by some victims at a time:
    all that one says is in one of the *shares*."""

    steps: Sequence[Step]
    shares: Sequence[Share]

    def whole(self, day: int) -> Step:
        """Return one of the steps with its blocks."""
        return replace(self.steps[day], blocks=Packed([part for share in self.shares for part in share.get(day, ())]))

    def beside(self, found: Mapping[int, Step]) -> "Days":
        """Return these with days that were *found* elsewhere, in whose places nothing is yet."""
        steps, shares = list(self.steps), [dict(share) for share in self.shares]
        at = {
            victim: place
            for place, share in enumerate(shares)
            for parts in share.values()
            for victim in Packed(parts)
        }
        for day, step in found.items():
            steps[day] = replace(step, blocks={})
            own: dict[int, dict[int, Block]] = {}
            for victim, block in step.blocks.items():
                own.setdefault(at.setdefault(victim, len(shares)), {})[victim] = block
            shares += [{}] if len(shares) in own else []
            for place, blocks in own.items():
                shares[place][day] = pack_blocks(blocks)
        return Days(steps, shares)


def placed(end: Ints, edges: Ints) -> Ints:
    """Return in which block between *edges* (the last has no end) each run lies that ended at *end* [n]."""
    found: Ints = np.searchsorted(edges[1:-1], end, side="right")
    return found


def firsts(start: Ints, end: Ints, edges: Ints) -> Ints:
    """Return when the first of the runs from *start* to *end* [n] of each block between *edges* started; `OPEN` where
    a block has none."""
    found = np.full(len(edges) - 1, OPEN)
    np.minimum.at(found, placed(end, edges), start)
    return found


def apart(start: Ints, end: Ints, edges: Ints, first: Ints) -> Ints:
    """Return which blocks between *edges* say something else by themselves: those beside whose evidence, which began
    at *first* [blocks] (`firsts`), a run was that started more than a day before the block.

    *start* and *end* [n] are those of all runs, in any order.
    """
    latest = np.full(len(first) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, np.searchsorted(edges[:-1] - DAY, start, side="right"), end)
    return np.flatnonzero((np.maximum.accumulate(latest)[:-1] >= first) & (first < OPEN))


def steps(counts: Ints, edges: Ints, kernels: NodeKernels, shares: Sequence[Share]) -> list[Step]:
    """Return the steps between *edges* of so many runs each, *counts* [blocks], without their blocks: what these say
    is in *shares*."""
    found = []
    for day, rows in enumerate(counts.tolist()):
        since, until = int(edges[day]), int(edges[day + 1])
        told = until < OPEN and any(day in share for share in shares)
        found.append(Step(since, until, float(rows), {}, kernels.during(since, until) if told else ()))
    return found


def said(
    runs: Runs,
    exposure: Exposure,
    edges: Ints,
    left: Ints,
    points: Mapping[int, Linearisation],
    options: Options,
    every: bool = True,
    among: tuple[Events, Ints] | None = None,
) -> Iterator[Said]:
    """Yield the fit of each function in order, and its blocks between *edges* but those *left* to others.

    These are reduced at the point of the fit; where nothing is fitted at that of *points*, if there is one. *every*
    and *among* as in `designs.designs`.
    """
    # A block has columns for functions that were met less than those that a fit has columns for.
    least = min(options.estimation.column_overlaps, LEAST_OVERLAP)

    def one(given: tuple[VictimDesign, Ints]) -> Said:
        design, rows = given
        fit = told(fit_victim(design, options.estimation))
        point = points.get(design.victim) if fit.reason else linearise(fit)
        if point is None:
            return fit, {}
        day_of, found = placed(runs.end[rows], edges), {}
        for day in np.setdiff1d(day_of, left).tolist():
            own = np.flatnonzero(day_of == day)
            found[day] = reduced(taken(design, own), rows[own], runs, point, options)
        return fit, found

    return in_turn(one, designs(runs, exposure, least, every, among), options.threads, _AHEAD)


def shared(given: Iterator[Said], most: int = PART) -> Iterator[tuple[list[Told], Share]]:
    """Yield the fits and the share of some victims at a time, of *most* at most."""
    fits = list[Told]()
    blocks: dict[int, dict[int, Block]] = {}
    held = 0
    for fit, found in given:
        fits.append(fit)
        for day, block in found.items():
            blocks.setdefault(day, {})[fit.victim] = block
        held += len(found)
        if len(fits) >= most or held >= _BLOCKS:
            yield fits, {day: pack_blocks(own) for day, own in blocks.items()}
            fits, blocks, held = [], {}, 0
    if fits:
        yield fits, {day: pack_blocks(own) for day, own in blocks.items()}
