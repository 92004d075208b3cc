"""Where the function answered fastest so far: its median on that node, else on nodes of that type."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rules.advice import Advice, Measure, Reason
from rules.candidates import Scores, Sparse
from rules.nodes import Floats
from rules.policy import Policy
from rules.request import Request
from rules.scoring import graded
from rules.view import View

NAME = "fastest"
#: Fewer runs on one node say less of the node than the runs on all of its type.
_RUNS = 10


@dataclass(frozen=True, slots=True, eq=False)
class _Medians:
    """A function's medians in ms, NaN where there is none: by number of node type, and on the nodes *at*."""

    by_type: Floats
    at: npt.NDArray[np.intp]
    own: Floats


def fastest(request: Request, view: View, policy: Policy) -> Advice:
    """Grade a node by the best median over its own; a node of a type never run on gets the function's overall one."""
    if request.function < 0:
        return Advice(NAME)
    return view.latencies.memo.once(request.function, lambda: _advice(request.function, request.function_name, view))


def _advice(function: int, name: str, view: View) -> Advice:
    medians = _medians(function, view)
    found = np.concatenate((medians.by_type, medians.own))
    if np.isnan(found).all():
        return Advice(NAME)
    best = float(np.nanmin(found))
    overall = view.functions.p50[function]
    usual = float(overall) if overall > 0 else float(np.nanmedian(_all(medians, view)))
    of_type = _grades(medians.by_type, best, usual)
    own = _grades(medians.own, best, usual)
    return Advice(
        NAME,
        scores=Sparse(of_type, medians.at, own, view.nodes.type_of),
        reasons=lambda: (Reason(NAME, _said(name, best, medians, view)),),
        measures=lambda: _measures(medians, view),
    )


def _medians(function: int, view: View) -> _Medians:
    lived = view.latencies
    rows = lived.of(function)
    node, kind, runs, p50 = lived.node[rows], lived.type_of[rows], lived.runs[rows], lived.p50[rows]
    by_type = np.full(max(len(view.nodes.types), 1), np.nan)
    general = (node < 0) & (kind >= 0) & (p50 > 0)
    by_type[kind[general]] = p50[general]
    own = dict(zip(*(each[(node >= 0) & (runs >= _RUNS) & (p50 > 0)].tolist() for each in (node, p50)), strict=True))
    at = np.array(sorted(own), dtype=np.intp)
    return _Medians(by_type, at, np.array([own[each] for each in at.tolist()]))


def _all(medians: _Medians, view: View) -> Floats:
    every: Floats = medians.by_type[view.nodes.type_of]
    every[medians.at] = medians.own
    return every


def _grades(medians: Floats, best: float, usual: float) -> Scores:
    return graded("speed", best / np.maximum(np.where(np.isnan(medians), usual, medians), best))


def _said(name: str, best: float, medians: _Medians, view: View) -> str:
    said = f"{name} answered fastest so far with a median of {best:.4g} ms"
    every = _all(medians, view)
    if best in medians.own:
        return f"{said}, on node {view.nodes.names[int(np.nanargmin(every))]}"
    return f"{said}, on nodes of type {view.nodes.types[view.nodes.type_of[int(np.nanargmin(every))]]}"


def _measures(medians: _Medians, view: View) -> Iterator[Measure]:
    own = np.full(len(view.nodes), np.nan)
    own[medians.at] = medians.own
    of_type = np.where(np.isnan(own), medians.by_type[view.nodes.type_of], np.nan)
    yield Measure("median {:.4g} ms on this node", own)
    yield Measure("median {:.4g} ms on this node type", of_type)
