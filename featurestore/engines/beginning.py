"""A state is begun: from the full fits of a window, its days, and what is known from before it.

The days are reduced at the points of the fits, by whichever engine has their runs (`victims.said`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from featurestore.engines.candidate import Options
from featurestore.engines.folding import in_turn
from featurestore.engines.past import Past
from featurestore.engines.victims import Days, Share
from featurestore.interference import solution
from featurestore.interference.blocks import Block, Linearisation
from featurestore.interference.evidence import Floats, Told
from featurestore.runs import Runs
from featurestore.states import PART, Blocks, Packed, Points, Step, folded, pack_blocks, unpack_blocks


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


def begin(fits: Sequence[Told], days: Days, several: Set[int], past: Past, settled: int, options: Options) -> Begun:
    """Return the state that begins with *fits*; *days* that ended by *settled* are folded for good.

    A victim of one version, with no evidence under kernels that vanished, of which nothing is known from before says
    what its full fit says, and the fold is corrected to it; of the others, among them *several* (`renewed`), the fold
    says it, in which old evidence is a prior. A correction belongs to days that are folded for good: what these say
    nothing of is not corrected. Some victims are folded at a time, as their days are packed.
    """
    points = points_of(fits, past)
    done = sum(step.until <= settled for step in days.steps)
    closed = days.steps[done - 1].until if done else past.since
    given = _Given({fit.victim: fit for fit in fits}, days.steps, done, closed, points, several, len(fits), options)
    found = list(in_turn(given.folded, _with_past(days.shares, past), options.threads))
    corrections = Packed([part for each in found for part in each.corrections])
    correcting = [Step(closed, closed, 0.0, corrections)] if corrections.parts else []
    said = {victim: fit for each in found for victim, fit in each.said.items()}
    every = np.concatenate([np.zeros(0), *(gap for each in found for gap in each.gaps)])
    return Begun(
        fits=[said.get(fit.victim, fit) for fit in fits],
        rows=round(sum(step.rows for step in days.steps)),
        points={**points, **{victim: point for each in found for victim, point in each.points.items()}},
        current=Packed([part for each in found for part in each.current]),
        steps=[*(days.whole(day) for day in range(done)), *correcting],
        closed=closed,
        distance={"largest": round(float(every.max()), 3), "typical": round(float(np.sqrt(np.mean(every**2))), 3)}
        if len(every)
        else {},
    )


def _with_past(shares: Sequence[Share], past: Past) -> Iterator[tuple[Share, dict[int, Block]]]:
    """Yield each share with what is known of its victims from before, and then the other victims of which it is.

    Both come in order of victims, or nearly: few of those of before wait unpacked.
    """
    given, waiting, any_known = iter(past.aged.items()), dict[int, Block](), bool(past.aged.parts)
    for share in shares:
        victims = {victim for parts in share.values() for victim in Packed(parts)} if any_known else set[int]()
        newest = max(waiting, default=-1)
        while newest < max(victims, default=-1) and (known := next(given, None)) is not None:
            newest, waiting[known[0]] = known
        yield share, {victim: waiting.pop(victim) for victim in sorted(victims & waiting.keys())}
    waiting.update(given)
    while waiting:
        yield {}, {victim: waiting.pop(victim) for victim in sorted(waiting)[:PART]}


@dataclass(frozen=True, slots=True)
class _Folded:
    """What some victims say: packed blocks, the *said* fits and moved *points* by victim, and *gaps* (`Begun`)."""

    current: list[bytes]
    corrections: list[bytes]
    said: Mapping[int, Told]
    points: Points
    gaps: list[Floats]


@dataclass(frozen=True, slots=True)
class _Given:
    """What folding some victims needs: *steps* without blocks, of which those *done* are folded for good, up to
    *closed*; of so many *functions*."""

    fits: Mapping[int, Told]
    steps: Sequence[Step]
    done: int
    closed: int
    points: Points
    several: Set[int]
    functions: int
    options: Options

    def folded(self, given: tuple[Share, Blocks]) -> _Folded:
        """Fold a share of the victims, and what is known of them from before. Each day is unpacked as its turn comes:
        of all days' sums only one day's are at hand at once."""
        share, aged = given
        memory, known = self.options.memory, set(aged)
        held: Blocks = {}
        young, named = list[Step](), list[Step]()
        for day, head in enumerate(self.steps):
            step = replace(head, blocks=unpack_blocks(share.get(day, ())))
            kernels = {victim: Block(kernels=own.kernels) for victim, own in step.blocks.items() if own.kernels}
            named.append(replace(step, blocks=kernels))
            if day < self.done:
                held = folded(held, [step], memory)
                aged = folded(aged, [step], memory) if known else aged
            else:
                young.append(step)
        alone = folded(held, young, memory)
        several = self.several | _faded(named)
        alike = [fit for victim in alone if victim not in several and not (fit := self.fits[victim]).reason]
        corrected = {fit.victim: self._corrected(fit, alone[fit.victim]) for fit in alike}
        points = {victim: point for victim, (_, _, point) in corrected.items()}
        corrections = {
            victim: solution.hung(correction, held[victim])
            for victim, (_, correction, _) in corrected.items()
            if victim in held
        }
        gaps = [gap for gap, _, _ in corrected.values()]
        drift = {fit.victim: alone[fit.victim].drift for fit in alike if fit.victim not in known}
        del alone, corrected
        correcting = [Step(self.closed, self.closed, 0.0, corrections)] if corrections else []
        # Of those of whom nothing is known from before what is folded for good is all that is known.
        current = folded({**held, **aged}, correcting, memory)
        left = [replace(day, blocks=_without(day.blocks, drift)) for day in young]
        final = folded(_without(current, drift), left, memory)
        said = {victim: replace(self.fits[victim], drift=own) for victim, own in drift.items()}
        for victim in final.keys() & self.fits.keys():
            if (moved := points.get(victim, self.points.get(victim))) is not None:
                said[victim] = solution.solve(final[victim], moved, self.functions, self.options.estimation)
        return _Folded(pack_blocks(current), pack_blocks(corrections), said, points, gaps)

    def _corrected(self, fit: Told, alone: Block) -> tuple[Floats, Block, Linearisation]:
        """Return how far the days *alone* lie from the *fit*, the correction to it, and the point with its errors."""
        point = self.points[fit.victim]
        gap = solution.gaps(solution.solve(alone, point, self.functions, self.options.estimation), fit)
        return gap, *solution.corrected(alone, fit, point)


def _without(blocks: Blocks, victims: Collection[int]) -> dict[int, Block]:
    return {victim: block for victim, block in blocks.items() if victim not in victims}


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
