"""Where the function answered fastest so far, in the company that it would have there now.

For each node the first of these that is known:

1. the median of its runs on that node beside the very functions that run there now,
2. the same on nodes of that type,
3. the prediction: its base there, times one plus the slowdowns by what runs there now. The base is its median alone
   on the node or the type; where it was never alone, its median on the node (of enough runs), on the type, or at all.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from featurestore.company import ALONE
from rules.advice import Advice, Measure, Reason, silent
from rules.affinity.losses import met, sides
from rules.candidates import Ids, Scores, Sparse
from rules.digits import digits, percent
from rules.functions import Rows
from rules.nodes import Floats
from rules.policy import Policy
from rules.request import Request
from rules.scoring import graded
from rules.view import View

NAME = "fastest"
#: Fewer runs on one node say less of the node than the runs on all of its type.
_RUNS = 10
#: Less than this no person would call a slowdown.
_SLIGHT: Final = 0.005

Numbers = npt.NDArray[np.intp]
Kinds = npt.NDArray[np.int8]

#: How each time is known, by its number, and how that is said of a node.
_BESIDE_HERE, _BESIDE_ON_TYPE, _ALONE_HERE, _ALONE_ON_TYPE, _HERE, _ON_TYPE, _PREDICTED = range(7)
_SAID: Final[tuple[Callable[[float], str], ...]] = (
    lambda ms: f"median {digits(ms)} ms on this node beside what runs there now",
    lambda ms: f"median {digits(ms)} ms on this node type beside what runs there now",
    lambda ms: f"median {digits(ms)} ms alone on this node",
    lambda ms: f"median {digits(ms)} ms alone on this node type",
    lambda ms: f"median {digits(ms)} ms on this node",
    lambda ms: f"median {digits(ms)} ms on this node type",
    lambda ms: f"{digits(ms)} ms predicted beside what runs there now",
)


_NOWHERE: Final[tuple[Ids, Floats, Kinds]] = (np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int8))


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Times in ms, NaN where nothing is known, and how they are known: by number of node type, and on the nodes *at*
    of their own, in any order, some of them twice."""

    by_type: Floats
    type_kind: Kinds
    at: Numbers
    own: Floats
    own_kind: Kinds

    def on(self, nodes: Numbers, view: View) -> Iterator[tuple[float, int]]:
        """Yield the time on each of *nodes*, and how it is known."""
        place = np.full(len(view.nodes), -1)
        place[self.at] = np.arange(len(self.at))
        rows, of = place.take(nodes), view.nodes.type_of.take(nodes)
        for row, kind in zip(rows.tolist(), of.tolist(), strict=True):
            if row < 0:
                yield float(self.by_type[kind]), int(self.type_kind[kind])
            else:
                yield float(self.own[row]), int(self.own_kind[row])


_NO_TIMES: Final = np.zeros(0)
#: Of a function that never ran.
_UNKNOWN: Final = Times(_NO_TIMES, np.zeros(0, np.int8), np.zeros(0, np.intp), _NO_TIMES, np.zeros(0, np.int8))


def fastest(request: Request, view: View, policy: Policy) -> Advice:
    """Grade a node by the best time over its own; one of a type never run on counts with the overall median."""
    if request.function < 0:
        return silent(NAME)
    function, name = request.function, request.function_name
    base = base_of(function, view)
    if base is _UNKNOWN:
        return silent(NAME)
    times = _now(function, base, view)
    found = np.concatenate((times.by_type, times.own))
    best = float(np.fmin.reduce(found))
    overall = view.functions.p50[function]
    usual = float(overall) if overall > 0 else float(np.nanmedian(found))
    grades, types = _grades(found, best, usual), len(times.by_type)
    return Advice(
        NAME,
        scores=Sparse(grades[:types], times.at, grades[types:], view.nodes.type_of),
        reasons=lambda: (Reason(NAME, _said(name, times, view)),),
        measures=lambda nodes: _measures(list(times.on(nodes, view)), list(base.on(nodes, view)), usual),
    )


def base_of(function: int, view: View) -> Times:
    """Return the times of *function* without company, as `_base` finds them."""
    return view.latencies.memo.once(function, lambda: _base(function, view))


def _base(function: int, view: View) -> Times:
    """Return the times without company: a median alone comes before any, one on a node before that of its type."""
    lived, medians = view.latencies, view.medians
    by_type = [np.nan] * max(len(view.nodes.types), 1)
    type_kind = [_ON_TYPE] * len(by_type)
    own: dict[int, tuple[float, int]] = {}
    rows = lived.of(function)  # few: plain numbers take less than passes over columns
    columns = (each[rows].tolist() for each in (lived.node, lived.type_of, lived.runs, lived.p50))
    for where, of, runs, median in zip(*columns, strict=True):
        if median > 0 and where >= 0 and runs >= _RUNS:
            own[where] = (median, _HERE)
        elif median > 0 and where < 0 <= of:
            by_type[of] = median
    rows = medians.of(function)
    columns = (each[rows].tolist() for each in (medians.node, medians.type_of, medians.company, medians.p50))
    for where, of, company, median in zip(*columns, strict=True):
        if company == ALONE and median > 0 and where >= 0:
            own[where] = (median, _ALONE_HERE)
        elif company == ALONE and median > 0:
            by_type[of], type_kind[of] = median, _ALONE_ON_TYPE
    for where in [where for where, (_, known) in own.items() if known == _HERE]:
        if type_kind[view.nodes.type_of[where]] == _ALONE_ON_TYPE:
            del own[where]
    if not any(time == time for time in (*by_type, *(median for median, _ in own.values()))):
        return _UNKNOWN
    at = sorted(own)
    return Times(
        np.array(by_type),
        np.array(type_kind, dtype=np.int8),
        np.array(at, dtype=np.intp),
        np.array([own[each][0] for each in at], dtype=np.float64),
        np.array([own[each][1] for each in at], dtype=np.int8),
    )


def _now(function: int, base: Times, view: View) -> Times:
    """Return the times beside what runs on each node now."""
    slowed, lost = _slowed(function, view)
    rows = view.medians.of(function)
    met_at, seen, met_kind = _NOWHERE if rows.start == rows.stop else _met(rows, view)
    if not slowed.size and not met_at.size:
        return base
    at = slowed
    if base.at.size or met_at.size:
        at = np.unique(np.concatenate((base.at, slowed, met_at)))
    of = view.nodes.type_of[at]
    own, kinds = base.by_type[of], base.type_kind[of]
    if base.at.size:
        mine = np.searchsorted(at, base.at)
        own[mine], kinds[mine] = base.own, base.own_kind
    if slowed.size:
        mine = np.arange(len(slowed)) if at is slowed else np.searchsorted(at, slowed)
        overall = view.functions.p50[function]
        if overall > 0 and np.isnan(own).any():
            own[mine] = np.where(np.isnan(own[mine]), overall, own[mine])
        own[mine] *= 1.0 + lost
        kinds[mine] = _PREDICTED
    if met_at.size:
        mine = np.searchsorted(at, met_at)
        own[mine], kinds[mine] = seen, met_kind
    return Times(base.by_type, base.type_kind, at, own, kinds)


def _slowed(function: int, view: View) -> tuple[Numbers, Floats]:
    """Return the nodes, some of them twice, on which the function would be slowed, and by how much."""
    beside = met(view, function)
    nodes = beside.node[: beside.suffered]
    if not len(nodes):
        return nodes, _NO_TIMES
    lost = beside.suffers(sides(view, function).cost, len(view.nodes)).take(nodes)
    if lost.min() <= _SLIGHT:
        nodes, lost = nodes[lost > _SLIGHT], lost[lost > _SLIGHT]
    return nodes, lost


def _met(rows: slice, view: View) -> tuple[Ids, Floats, Kinds]:
    """Return the nodes whose company of now a function had before by its *rows*, on the node or else on its type."""
    medians = view.medians
    node, kind, company, p50 = medians.node[rows], medians.type_of[rows], medians.company[rows], medians.p50[rows]
    told = (company != ALONE) & (p50 > 0)
    ids, times, kinds = [np.zeros(0, dtype=np.int32)], [np.zeros(0)], [np.zeros(0, dtype=np.int8)]
    general = np.flatnonzero(told & (node < 0))
    if general.size:
        order, ordered = view.memo.once("companies", lambda: _companies(view.company))
        first = np.searchsorted(ordered, company[general], side="left")
        last = np.searchsorted(ordered, company[general], side="right")
        for row, start, end in zip(general.tolist(), first.tolist(), last.tolist(), strict=True):
            here = order[start:end]
            here = here[view.nodes.type_of[here] == kind[row]]
            ids.append(here.astype(np.int32))
            times.append(np.full(len(here), p50[row]))
            kinds.append(np.full(len(here), _BESIDE_ON_TYPE, dtype=np.int8))
    own = np.flatnonzero(told & (node >= 0))
    own = own[view.company[node[own]] == company[own]]
    ids.append(node[own])
    times.append(p50[own])
    kinds.append(np.full(len(own), _BESIDE_HERE, dtype=np.int8))
    # What stands last of a node counts: its own median comes behind that of its type.
    every = np.concatenate(ids)[::-1]
    nodes, place = np.unique(every, return_index=True)
    return nodes, np.concatenate(times)[::-1][place], np.concatenate(kinds)[::-1][place]


def _companies(company: Rows) -> tuple[Numbers, Rows]:
    order = np.argsort(company, kind="stable")
    return order, company[order]


def _grades(times: Floats, best: float, usual: float) -> Scores:
    return graded("speed", best / np.maximum(np.where(np.isnan(times), usual, times), best))


def _said(name: str, times: Times, view: View) -> str:
    known = [*_best(times)]
    for time, kind, first in zip(
        times.by_type.tolist(), times.type_kind.tolist(), _first_elsewhere(times.at, view), strict=False
    ):
        if first >= 0:
            known.append((time, first, kind))
    known = [each for each in known if each[0] == each[0]]
    if not known:
        return f"{name} never ran on a node of these types"
    best, first, kind = min(known)
    told = _SAID[kind](best)
    return (
        f"{name} answers fastest on node {view.nodes.names[first]} by what is known so far: {told};"
        " it orders nodes whose company is level, so that others may come first"
    )


def _best(times: Times) -> Iterator[tuple[float, int, int]]:
    """Yield the best time on a node of its own, the first such node, and how that is known; nothing where none is."""
    if times.own.size and (best := float(np.fmin.reduce(times.own))) == best:
        rows = np.flatnonzero(times.own == best)
        row = int(rows[times.at[rows].argmin()])
        yield best, int(times.at[row]), int(times.own_kind[row])


def _first_elsewhere(at: Numbers, view: View) -> list[int]:
    """Return the first node of each type that is none of *at*, -1 where there is none."""
    of_types = view.nodes.memo.once("by type", lambda: _by_type(view.nodes.type_of))
    taken = np.zeros(len(view.nodes), dtype=np.bool_)
    taken[at] = True
    return [next((node for node in nodes if not taken[node]), -1) for nodes in of_types]


def _by_type(type_of: Ids) -> list[list[int]]:
    """Return the nodes of each type, in order."""
    order = np.argsort(type_of, kind="stable")
    start = np.searchsorted(type_of[order], np.arange(int(type_of.max(initial=-1)) + 2)).tolist()
    return [order[first:last].tolist() for first, last in itertools.pairwise(start)]


def _measures(
    found: Sequence[tuple[float, int]], base: Sequence[tuple[float, int]], usual: float
) -> Iterator[Measure]:
    """Yield the times that were *found*, of the predicted ones with those without company that they rest on."""
    for kind in sorted({each for _, each in found}):
        notes = [
            _above(now, before if before == before else usual) if each == _PREDICTED and now == now else ""
            for (now, each), (before, _) in zip(found, base, strict=True)
        ]
        yield Measure(
            _SAID[kind],
            np.array([time if each == kind else np.nan for time, each in found]),
            notes if kind == _PREDICTED else (),
        )


def _above(now: float, before: float) -> str:
    return f": {percent(now / before - 1.0)} more than the {digits(before)} ms without"
