"""A function without records: alone if possible, so that it can be measured; else beside its complements.

A node with other functions is graded .99 / (1 + clash): the clash sums over its functions, by how busy they are, the
product of both profiles (low 0, medium .5, high 1; not known .5) over CPU, memory, network and disk. A declared
profile comes before a predicted one.
"""

import numpy as np
import numpy.typing as npt

from rules.advice import Advice, Expression, Measure, PodTerm, Reason, Term
from rules.candidates import Scores
from rules.functions import RESOURCES, Functions
from rules.policy import Policy
from rules.request import Request
from rules.scoring import graded
from rules.view import View

NAME = "unknown"
_WEIGHT = 50


def has_record(function: int, view: View) -> bool:
    """Whether anything was learned of how *function* behaves."""
    if function < 0:
        return False
    lived = view.latencies.of(function)
    if view.functions.runs[function] > 0 or lived.stop > lived.start:
        return True
    rows = np.concatenate((view.pairs.suffered_by(function), view.pairs.caused_by(function)))
    return bool(view.pairs.known[rows].any())


def unknown(request: Request, view: View, policy: Policy) -> Advice:
    """Prefer empty nodes, then those whose functions want other resources than this one."""
    if has_record(request.function, view):
        return Advice(NAME)
    demand, declared = _demand(request, view)
    pods, scores = view.memo.once((NAME, *demand.tolist()), lambda: _scored(view, demand))
    who = request.function_name or "the pod's function"
    said = f"nothing is known yet of {who}: best alone, nodes without functions come first"
    if declared:
        profile = ", ".join(f"{name} {level}" for name, level in declared.items())
        said += f", then those whose functions complement its profile ({profile})"
    return Advice(
        NAME,
        scores=scores,
        terms=_alone(request, policy),
        reasons=lambda: (Reason(NAME, said),),
        measures=lambda nodes: (_beside(pods[nodes]),),
    )


def _beside(pods: Scores) -> Measure:
    return Measure(
        lambda count: f"{count:.0f} {'pod' if count == 1 else 'pods'} of functions there",
        np.where(pods > 0, pods, np.nan),
    )


def _scored(view: View, demand: Scores) -> tuple[Scores, Scores]:
    """Return the number of functions' pods on each node, and its score."""
    function, entries = view.running.all()
    pods = np.bincount(entries.node, entries.pods, len(view.nodes)).astype(np.float64)
    clash = np.bincount(entries.node, entries.busy * (_appetites(view.functions)[function] @ demand), len(view.nodes))
    return pods, graded("company", np.where(pods == 0, 1.0, 0.99 / (1.0 + clash)))


def _demand(request: Request, view: View) -> tuple[npt.NDArray[np.float64], dict[str, str]]:
    levels = {name: level / 2.0 for name, level in request.profile.items()}
    if not levels and request.function >= 0:
        learned = view.functions.levels[request.function]
        levels = {name: level / 2.0 for name, level in zip(RESOURCES, learned.tolist(), strict=True) if level >= 0}
    words = {0.0: "low", 0.5: "medium", 1.0: "high"}
    declared: dict[str, str] = {name: words[levels[name]] for name in RESOURCES if name in levels}
    return np.array([levels.get(name, 0.5) for name in RESOURCES]), declared


def _appetites(functions: Functions) -> npt.NDArray[np.float64]:
    """Return float64[m, 4] in 0..1; where only the dominant resource is known, it is high and the others low."""
    levels = functions.levels
    known = levels >= 0
    appetites = np.where(known, levels / 2.0, 0.5)
    told = np.flatnonzero(~known.any(axis=1) & (functions.dominant >= 0))
    appetites[told] = np.eye(len(RESOURCES))[functions.dominant[told]]
    return appetites


def _alone(request: Request, policy: Policy) -> tuple[Term, ...]:
    key, across = policy.own("function"), request.namespace in policy.across
    action = policy.function_labels[1]
    return (
        PodTerm(True, (Expression(key, "Exists"),), policy.topology_key, _WEIGHT, across),
        PodTerm(
            True,
            (Expression(action, "Exists"), Expression(key, "DoesNotExist")),
            policy.topology_key,
            _WEIGHT,
            across,
        ),
    )
