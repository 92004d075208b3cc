"""One application over all clusters: where its mandatory needs fit, and which of its wishes fit beside them.

A cluster's score is the largest sum of weights of wishes that fit together. It is exact for up to `WISHES` wishes; of
more, those that fit are taken one after another, the heaviest first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from rules.candidates import Mask, Scores
from rules.hpa.errors import Contradiction
from rules.hpa.fleet import Fleet
from rules.hpa.needs import Stated, Workload, needs
from rules.hpa.packing import NO, YES, Answers, Thing, pack

#: Up to so many wishes of one application every combination is looked at.
WISHES: Final = 10


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """*answers* says of each cluster whether the mandatory needs fit (`packing`), *scores* what the wishes come to.

    *granted* holds for each cluster the wishes that it is scored for, as bits of *wishes*.
    """

    answers: Answers
    scores: Scores
    wishes: tuple[tuple[Workload, Stated], ...]
    granted: np.ndarray[tuple[int], np.dtype[np.int64]]

    def chosen(self, cluster: int) -> list[Stated]:
        """Return the wishes that *cluster* is scored for."""
        bits = int(self.granted[cluster])
        return [stated for number, (_, stated) in enumerate(self.wishes) if bits >> number & 1]


def thing(fleet: Fleet, workload: Workload, wishes: Sequence[Stated] = ()) -> Thing:
    """Return what has to be packed for *workload* with some of its *wishes*; raises `Contradiction`."""
    wanted = needs((*workload.mandatory, *wishes))
    ok = np.ones(fleet.nodes, dtype=np.bool_)
    for key, value in wanted.labels.items():
        ok &= fleet.has(key, value)
    return Thing(workload.replicas, {"pods": 1, **wanted.total()}, ok)


def score(fleet: Fleet, workloads: Sequence[Workload]) -> Scored:
    """Score every cluster for one application; a workload that needs and wishes nothing is no constraint."""
    loads = [each for each in workloads if each.mandatory or each.optional]
    wishes = tuple((load, stated) for load in loads for stated in load.optional)
    weights = [requirement.weight for _, (_, requirement) in wishes]
    answers = _packed(fleet, [each for each in loads if each.mandatory], {})
    scored = Scored(answers, np.zeros(len(fleet)), wishes, np.zeros(len(fleet), dtype=np.int64))
    if wishes:
        _grant(fleet, loads, scored, weights)
    return scored


def _grant(fleet: Fleet, loads: Sequence[Workload], scored: Scored, weights: Sequence[int]) -> None:
    """Fill in scores and granted wishes, all clusters with the same possible wishes at once."""
    known: dict[int, Answers] = {}

    def packed(bits: int) -> Answers:
        if bits not in known:
            known[bits] = _with(fleet, loads, scored, bits)
        return known[bits]

    possible = np.zeros(len(fleet), dtype=np.int64)
    there = scored.answers == YES
    for number in range(len(weights)):
        alone = packed(1 << number)
        possible |= np.where(there & (alone == YES), 1 << number, 0)
    for pattern in np.unique(possible).tolist():
        open_: Mask = there & (possible == pattern)
        for bits in subsets(pattern, weights):
            if not bits or not open_.any():
                break
            fits = open_ & (packed(bits) == YES)
            scored.granted[fits] = bits
            scored.scores[fits] = sum(weight for number, weight in enumerate(weights) if bits >> number & 1)
            open_ &= ~fits


def subsets(pattern: int, weights: Sequence[int]) -> Iterator[int]:
    """Yield the combinations of the wishes in *pattern*, the largest sum of weights first."""
    members = [number for number in range(len(weights)) if pattern >> number & 1]
    if len(members) > WISHES:
        # The whole, then what is left when the lightest are taken away, one after another.
        ordered = sorted(members, key=lambda number: -weights[number])
        for count in range(len(ordered), 0, -1):
            yield sum(1 << number for number in ordered[:count])
        return
    every = [chosen for count in range(len(members), 0, -1) for chosen in combinations(members, count)]
    every.sort(key=lambda chosen: -sum(weights[number] for number in chosen))
    for chosen in every:
        yield sum(1 << number for number in chosen)


def _with(fleet: Fleet, loads: Sequence[Workload], scored: Scored, bits: int) -> Answers:
    wanted: dict[int, list[Stated]] = {}
    for number, (load, stated) in enumerate(scored.wishes):
        if bits >> number & 1:
            wanted.setdefault(id(load), []).append(stated)
    return _packed(fleet, [each for each in loads if each.mandatory or id(each) in wanted], wanted)


def _packed(fleet: Fleet, loads: Sequence[Workload], wishes: dict[int, list[Stated]]) -> Answers:
    try:
        return pack(fleet, [thing(fleet, load, wishes.get(id(load), ())) for load in loads])
    except Contradiction:
        return np.full(len(fleet), NO, dtype=np.int8)
