"""From runs to the blocks that states are folded from: where days are cut, and one block reduced, all its victims.

A run belongs to the block in which it ended: its record comes when it has ended, so that a block is whole once the
records up to its end have come. What a block says depends on nothing but the runs that ended in it and those they
ran beside, however much more was read: the same block comes out the same, bit for bit.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from featurestore.columnar import numbered
from featurestore.designs import designs, expose, taken
from featurestore.engines.candidate import Options
from featurestore.exposure.kernels import Ints
from featurestore.exposure.sweep import OPEN
from featurestore.interference.blocks import Block, Linearisation
from featurestore.interference.concurrency import SHORTEST
from featurestore.interference.evidence import Bools, VictimDesign
from featurestore.interference.fold import fold
from featurestore.interference.reduction import LEAST_OVERLAP, reduce, strangers
from featurestore.runs import Runs
from featurestore.states import Packed, Step

HOUR = 3_600_000_000
DAY = 24 * HOUR

#: A block ends at a full hour when it holds as many runs as this, else with its day (UTC): the block that has not
#: ended is reduced anew in each increment. Where a history is learned at once it is `Options.most`.
MOST = 50_000

T = TypeVar("T")
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Reduced:
    """A block of all victims as a *step* of the fold; *strange* are its runs on node types that no point knows, and
    *pointless* those of victims without a point: what asks for a full fit."""

    step: Step
    strange: int = 0
    pointless: int = 0


def edges(end: Ints, since: int, until: int, most: int = MOST) -> list[int]:
    """Return where the runs that ended at *end* (microseconds, any order) are cut into blocks, *since* to *until*.

    At midnights, and at full hours where a block holds *most* runs; the first is *since*, the last *until*.
    """
    hours, hour = numbered(end[(end >= since) & (end < until)] // HOUR)
    return cuts(hours, np.bincount(hour, minlength=len(hours)), since, until, most)


def cuts(hours: Ints, counts: Ints, since: int, until: int, most: int = MOST) -> list[int]:
    """Return the `edges` of runs of which so many, *counts*, ended in each of *hours* (since the epoch, in order)."""
    found, held = [since], 0
    for hour, count in zip(hours.tolist(), counts.tolist(), strict=True):
        midnight = hour * HOUR // DAY * DAY
        if held and midnight > found[-1]:
            found.append(midnight)
            held = 0
        held += count
        if held >= most and (hour + 1) * HOUR < until:
            found.append((hour + 1) * HOUR)
            held = 0
    last = until // DAY * DAY
    if held and found[-1] < last < until:
        found.append(last)
    return [*found, until]


def members(runs: Runs, since: int, until: int) -> Bools:
    """Return which runs are evidence of the block from *since* to *until*."""
    found: Bools = runs.evidence & (runs.end >= since) & (runs.end < until)
    return found


def blocks(
    runs: Runs, cuts: Sequence[tuple[int, int]], points: Mapping[int, Linearisation], options: Options
) -> Iterator[Reduced]:
    """Yield the `block` from each time to another of *cuts*, packed, in order, as many at once as there are threads.

    Where there are fewer than threads, the others reduce victims.
    """
    beside = max(1, min(options.threads, len(cuts)))
    each = replace(options, threads=max(1, options.threads // beside))

    def packed(cut: tuple[int, int]) -> Reduced:
        found = block(runs, *cut, points, each)
        return replace(found, step=replace(found.step, blocks=Packed.of(found.step.blocks)))

    return in_turn(packed, iter(cuts), beside)


def block(runs: Runs, since: int, until: int, points: Mapping[int, Linearisation], options: Options) -> Reduced:
    """Reduce the runs that ended from *since* to *until*.

    A block that has ended tells which kernels the nodes of the cluster ran in it.
    """
    # Evidence is of runs of a day at most; what runs for longer is a co-runner for so long as one can rely on.
    # What started right after is beside those that are taken to be a little longer than they were.
    low, high = np.searchsorted(runs.start, [since - DAY, min(until, OPEN - SHORTEST) + SHORTEST])
    evidence, start, end = runs.evidence[low:high], runs.start[low:high], runs.end[low:high]
    own = evidence & (end >= since) & (end < until)
    rows = int(own.sum())
    if rows == 0:
        return Reduced(Step(since, until, 0.0, {}))
    near = np.flatnonzero(end >= start[own].min())
    part = replace(runs.take(low + near), evidence=own[near])
    strange = pointless = 0

    def wanted() -> Iterator[tuple[VictimDesign, Ints]]:
        nonlocal strange, pointless
        for design, rows in designs(part, expose(part), LEAST_OVERLAP, every=False):
            if design.victim not in points:
                pointless += len(design.execution)
                continue
            strange += strangers(design.node_type, points[design.victim].types)
            yield design, rows

    def one(given: tuple[VictimDesign, Ints]) -> tuple[int, Block]:
        design, rows = given
        return design.victim, reduced(design, rows, part, points[design.victim], options)

    found = dict(in_turn(one, wanted(), options.threads))
    running = part.kernels.during(since, until) if found and until < OPEN else ()
    return Reduced(Step(since, until, float(rows), found, running), strange, pointless)


def reduced(design: VictimDesign, rows: Ints, runs: Runs, point: Linearisation, options: Options) -> Block:
    """Reduce one victim's evidence of a block, that of the *rows* of *runs*.

    Where it had several versions in it, each is reduced by itself, and what they say folded (`fold.fold`).
    """
    found = Block()
    for version, own, evidence in _by_version(design, runs.version[rows]):
        under = None
        if runs.kernels.names:
            mine = rows[own]
            under = runs.kernels.names, runs.kernels.at(runs.node[mine], runs.start[mine])
        found = fold(
            found, reduce(evidence, point, options.estimation, runs.versions[version], under), options.memory
        )
    return found


def in_turn(work: Callable[[Given], T], given: Iterator[Given], threads: int, ahead: int = 1) -> Iterator[T]:
    """Yield what *work* makes of each one *given*, in order; only as many exist at once as are worked on, and so many
    *ahead* for the threads that are ready first."""
    if threads == 1:
        yield from map(work, given)
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for each in given:
            waiting.append(pool.submit(work, each))
            if len(waiting) >= threads + ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _by_version(design: VictimDesign, version: Ints) -> Iterator[tuple[int, Ints, VictimDesign]]:
    """Yield each version of the victim, its rows and its evidence by itself; the version that ran last comes last."""
    if np.all(version == version[0]):
        yield int(version[0]), np.arange(len(version)), replace(design, version=None)
        return
    present, last = np.unique(version[::-1], return_index=True)
    for code in present[np.argsort(-last)].tolist():
        rows = np.flatnonzero(version == code)
        yield code, rows, replace(taken(design, rows), version=None)
