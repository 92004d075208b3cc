"""Sets of candidates over interned names, and the one way in which the advice of many rules is combined.

A candidate is a node or a cluster; a rule knows it by its number in a universe of *size* names. This is the
representation of partition candidates: an allow or a deny list, whichever is shorter.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int32]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The numbers that are allowed (*allow*) or denied, ascending and unique, out of 0..*size*-1."""

    allow: bool
    ids: Ids
    size: int

    @classmethod
    def of(cls, mask: Mask) -> "Candidates":
        """Return the shorter form of the set that *mask* (bool, one a name) holds."""
        allowed = int(np.count_nonzero(mask))
        allow = allowed <= mask.size - allowed
        return cls(allow, np.flatnonzero(mask if allow else ~mask).astype(np.int32), mask.size)

    @classmethod
    def named(cls, allow: bool, ids: Iterable[int], size: int) -> "Candidates":
        """Return the set that allows or denies *ids*, in either order and however often each is given."""
        return cls(allow, np.unique(np.fromiter(ids, dtype=np.int32)), size)

    def mask(self) -> Mask:
        """Return one bool a name: whether it is in the set."""
        return self.denied() ^ True

    def denied(self) -> Mask:
        """Return one bool a name: whether it is out of the set."""
        denied = np.full(self.size, self.allow)
        denied[self.ids] = not self.allow
        return denied

    def __len__(self) -> int:
        return len(self.ids) if self.allow else self.size - len(self.ids)

    def names(self, universe: Sequence[str]) -> Iterator[str]:
        """Yield the listed names (allowed or denied) of *universe*, in its order."""
        return (universe[number] for number in self.ids)


class Opinion(Protocol):
    """What `combine` needs of a rule's advice.

    A *firm* set is always kept; one that is not gives way, whole, where too few would remain.
    """

    @property
    def rule(self) -> str: ...
    @property
    def candidates(self) -> Candidates | None: ...
    @property
    def scores(self) -> Scores | None: ...
    @property
    def firm(self) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """The one result: what all firm sets allow, narrowed by the others where enough remained, and the sum of scores.

    *emptied_by* names, when nothing is allowed, a smallest set of rules that together allow nothing (no rule of it
    could be left out); *gave_way* names the rules whose set was not applied.
    """

    allowed: Mask
    scores: Scores
    emptied_by: tuple[str, ...]
    gave_way: tuple[str, ...]

    def ranked(self, limit: int | None = None) -> npt.NDArray[np.intp]:
        """Return allowed numbers, the highest score first, equal ones in order of their number."""
        ids = np.flatnonzero(self.allowed)
        return ids[np.argsort(-self.scores[ids], kind="stable")][:limit]


def combine(opinions: Sequence[Opinion], size: int, remaining: int = 1) -> Combined:
    """Intersect the sets and add the scores of *opinions* over *size* names; their order does not matter.

    A set that is not firm is applied if at least *remaining* names are left; several are tried in order of their
    rules' names.
    """
    ordered = sorted(opinions, key=lambda opinion: opinion.rule)
    restricting = [one for one in ordered if one.candidates is not None and len(one.candidates) < size]
    allowed = np.ones(size, dtype=np.bool_)
    firm = [one for one in restricting if one.firm]
    for one in firm:
        _narrow(allowed, one.candidates)
    gave_way = []
    if not allowed.any():
        gave_way = [one.rule for one in restricting if not one.firm]
    else:
        for one in restricting:
            if one.firm:
                continue
            narrowed = allowed.copy()
            _narrow(narrowed, one.candidates)
            if np.count_nonzero(narrowed) >= remaining:
                allowed = narrowed
            else:
                gave_way.append(one.rule)
    scores = np.zeros(size)
    for one in ordered:
        if one.scores is not None:
            scores += one.scores
    emptied = () if allowed.any() else _conflict(firm, size)
    return Combined(allowed, scores, emptied, tuple(gave_way))


def _narrow(allowed: Mask, candidates: Candidates | None) -> None:
    if candidates is None:
        return
    if candidates.allow:
        allowed &= candidates.mask()
    else:
        allowed[candidates.ids] = False


def _conflict(firm: Sequence[Opinion], size: int) -> tuple[str, ...]:
    """Drop, in order of names, each rule without which the rest still allows nothing."""
    denials = {one.rule: one.candidates.denied() for one in firm if one.candidates is not None}
    counts = np.zeros(size, dtype=np.int32)
    for denied in denials.values():
        counts += denied
    kept = []
    for rule, denied in denials.items():
        without = counts - denied
        if size and (without > 0).all():
            counts = without
        else:
            kept.append(rule)
    return tuple(kept)
