"""Sets of candidates over interned names, and the one way in which the advice of many rules is combined.

A candidate is a node or a cluster; a rule knows it by its number in a universe of *size* names. This is the
representation of partition candidates: an allow or a deny list, whichever is shorter.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from rules.memo import Memo

Mask = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int32]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The numbers that are allowed (*allow*) or denied, ascending and unique, out of 0..*size*-1.

    *bits* are the allowed ones, packed eight a byte, where that is shorter than the list.
    """

    allow: bool
    ids: Ids
    size: int
    bits: npt.NDArray[np.uint8] | None = None

    @classmethod
    def of(cls, mask: Mask) -> "Candidates":
        """Return the shorter form of the set that *mask* (bool, one a name) holds."""
        allowed = int(np.count_nonzero(mask))
        allow = allowed <= mask.size - allowed
        ids = np.flatnonzero(mask if allow else ~mask).astype(np.int32)
        return cls(allow, ids, mask.size, np.packbits(mask) if ids.nbytes * 8 > mask.size else None)

    @classmethod
    def named(cls, allow: bool, ids: Iterable[int], size: int) -> "Candidates":
        """Return the set that allows or denies *ids*, in either order and however often each is given."""
        return cls(allow, np.unique(np.fromiter(ids, dtype=np.int32)), size)

    def mask(self) -> Mask:
        """Return one bool a name: whether it is in the set."""
        if self.bits is not None:
            return np.unpackbits(self.bits, count=self.size).view(np.bool_)
        mask = np.full(self.size, not self.allow)
        mask[self.ids] = self.allow
        return mask

    def denied(self) -> Mask:
        """Return one bool a name: whether it is out of the set."""
        return ~self.mask()

    def __len__(self) -> int:
        return len(self.ids) if self.allow else self.size - len(self.ids)

    def names(self, universe: Sequence[str]) -> Iterator[str]:
        """Yield the listed names (allowed or denied) of *universe*, in its order."""
        return (universe[number] for number in self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """Scores that are *usual* but for the names *ids* (each once), which have *values*.

    With *group_of*, a number for each name, *usual* has a score for each group of names.
    """

    usual: float | Scores
    ids: npt.NDArray[np.intp]
    values: Scores
    group_of: Ids | None = None

    def dense(self, size: int) -> Scores:
        """Return one score a name."""
        scores = np.zeros(size)
        _add(scores, self)
        return scores


class Opinion(Protocol):
    """What `combine` needs of a rule's advice.

    A *firm* set is always kept; one that is not gives way, whole, where too few would remain.
    """

    @property
    def rule(self) -> str: ...
    @property
    def candidates(self) -> Candidates | None: ...
    @property
    def scores(self) -> "Scores | Sparse | None": ...
    @property
    def firm(self) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """The one result: what all firm sets allow, narrowed by the others where enough remained, and the sum of scores.

    *emptied_by* names, when nothing is allowed, a smallest set of rules that together allow nothing (no rule of it
    could be left out); *gave_way* names the rules whose set was not applied. *best* lists what is allowed, the
    highest score first, equal ones as the shared scores rank them, else in order of their number; *falling* are
    their scores.
    """

    allowed: Mask
    scores: Scores
    emptied_by: tuple[str, ...]
    gave_way: tuple[str, ...]
    best: npt.NDArray[np.intp]
    falling: Scores

    def ranked(self, limit: int | None = None) -> npt.NDArray[np.intp]:
        """Return allowed numbers, the highest score first, equal ones in order of their number."""
        return self.best[:limit]


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """What opinions that many combinations have in common come to; *best* is as in `Combined`.

    *memo* keeps *best* by group, for each order of the groups that was asked for, and the groups themselves.
    """

    opinions: tuple[Opinion, ...]
    allowed: Mask
    scores: Scores
    best: npt.NDArray[np.intp]
    memo: Memo = field(default_factory=Memo)


def share(opinions: Iterable[Opinion], size: int) -> Shared:
    """Combine *opinions* as far as they do not depend on any other; those that are not firm do."""
    kept = tuple(opinions)
    allowed, scores = np.ones(size, dtype=np.bool_), np.zeros(size)
    for one in kept:
        if one.firm:
            _narrow(allowed, one.candidates)
        _add(scores, one.scores)
    allowed.setflags(write=False)
    return Shared(kept, allowed, scores, _sorted(np.flatnonzero(allowed), scores)[0])


@lru_cache(maxsize=8)
def _nothing(size: int) -> Shared:
    nothing = share((), size)
    nothing.best.setflags(write=False)
    return nothing


def combine(opinions: Sequence[Opinion], size: int, remaining: int = 1, shared: Shared | None = None) -> Combined:
    """Intersect the sets and add the scores of *opinions* over *size* names; their order does not matter.

    A set that is not firm is applied if at least *remaining* names are left; several are tried in order of their
    rules' names. *shared* holds further opinions, combined before.
    """
    shared = shared or _nothing(size)
    allowed, changed = shared.allowed, False
    mine = [one for one in opinions if one.candidates is not None and len(one.candidates) < size]
    if any(one.firm for one in mine):
        allowed, changed = allowed.copy(), True
        for one in mine:
            if one.firm:
                _narrow(allowed, one.candidates)
    gave_way = []
    loose = sorted((one for one in (*mine, *shared.opinions) if not one.firm), key=lambda one: one.rule)
    hopeless = not allowed.any()
    for one in loose:
        if one.candidates is None:
            continue
        narrowed = allowed.copy()
        _narrow(narrowed, one.candidates)
        if not hopeless and np.count_nonzero(narrowed) >= remaining:
            allowed, changed = narrowed, True
        elif len(one.candidates) < size:
            gave_way.append(one.rule)
    groups = _by_group(opinions)
    firm = [one for one in (*mine, *shared.opinions) if one.firm]
    emptied = _conflict(firm, size) if hopeless and size else ()
    best = shared.best[allowed[shared.best]] if changed else shared.best
    for usual, of in groups:
        often = best is shared.best and bool(shared.opinions) and len(usual) <= _FEW
        best = _grouped(best, usual, of, shared if often else None)
    scores = _summed(shared, opinions, groups)
    return Combined(allowed, scores, emptied, tuple(gave_way), *_sorted(best, scores))


#: So many groups have few orders: twenty-four.
_FEW: Final = 4
#: Scores of groups, and the group of each name.
_Groups = list[tuple[Scores, Ids]]


def _by_group(opinions: Iterable[Opinion]) -> _Groups:
    """Return what all *opinions* together usually give to each group, for each way of grouping."""
    groups: dict[int, tuple[Scores, Ids]] = {}
    for one in opinions:
        if isinstance(one.scores, Sparse) and (of := one.scores.group_of) is not None:
            usual = np.asarray(one.scores.usual)
            groups[id(of)] = (usual + groups[id(of)][0] if id(of) in groups else usual, of)
    return list(groups.values())


def _summed(shared: Shared, opinions: Iterable[Opinion], groups: _Groups) -> Scores:
    """Return the sum of all scores: whole numbers, so that it is exact in any order."""
    scores = shared.scores.copy() if not groups else shared.scores
    for usual, of in groups:
        scores = scores + usual.take(_words(of, shared))
    for one in sorted(opinions, key=lambda one: one.rule):
        more = one.scores
        if isinstance(more, Sparse) and more.group_of is not None:
            scores[more.ids] += more.values - np.asarray(more.usual)[more.group_of[more.ids]]
        elif more is not None:
            _add(scores, more)
    return scores


def _words(group_of: Ids, shared: Shared) -> npt.NDArray[np.intp]:
    """Return *group_of* in whole machine words, by which numpy indexes several times as fast."""
    # The groups are kept beside the result, so that no other ones can have the same identity.
    return shared.memo.once(id(group_of), lambda: (group_of.astype(np.intp), group_of))[0]


def _grouped(ids: npt.NDArray[np.intp], scores: Scores, group_of: Ids, shared: Shared | None) -> npt.NDArray[np.intp]:
    """Bring together the *ids* of each group, those of the highest score first: most are then where they belong.

    Where *ids* are the best of *shared*, that is kept.
    """
    order = sorted(range(len(scores)), key=(-scores).tolist().__getitem__)

    def made() -> tuple[npt.NDArray[np.intp], Ids]:
        rank = np.empty(len(scores), dtype=np.uint16)  # of so few bits that sorting takes time by their number only
        rank[order] = np.arange(len(scores))
        return ids[np.argsort(rank[group_of[ids]], kind="stable")], group_of

    # The groups are kept beside the result, so that no other ones can have the same identity.
    return (shared.memo.once((id(group_of), *order), made) if shared is not None else made())[0]


def _sorted(ids: npt.NDArray[np.intp], scores: Scores) -> tuple[npt.NDArray[np.intp], Scores]:
    """Sort *ids* by score, the highest first; a stable sort of what is nearly in order is quick.

    Returns their scores too.
    """
    falling = scores.take(ids)
    order = np.negative(falling).argsort(kind="stable")
    return ids.take(order), falling.take(order)


def _add(scores: Scores, more: Scores | Sparse | None) -> None:
    if isinstance(more, Sparse):
        before = scores[more.ids]
        scores += more.usual if more.group_of is None else np.asarray(more.usual)[more.group_of]
        scores[more.ids] = before + more.values
    elif more is not None:
        scores += more


def _narrow(allowed: Mask, candidates: Candidates | None) -> None:
    if candidates is None:
        return
    if candidates.allow or candidates.bits is not None:
        allowed &= candidates.mask()
    else:
        allowed[candidates.ids] = False


def _conflict(firm: Sequence[Opinion], size: int) -> tuple[str, ...]:
    """Drop, in order of names, each rule without which the rest still allows nothing."""
    ordered = sorted(firm, key=lambda one: one.rule)
    denials = {one.rule: one.candidates.denied() for one in ordered if one.candidates is not None}
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
