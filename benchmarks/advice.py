"""Combining rules over many names, making the view of a large cluster, and one answer from it without any cache."""

from dataclasses import dataclass

import numpy as np

from benchmarks.figures import Figure, interleaved
from benchmarks.webhook_world import CLUSTER, function, snapshot
from pipeline.objects import pod_of
from rules.candidates import Candidates, Scores, combine
from rules.policy import Policy
from rules.recommend import recommend
from rules.request import Request, from_pod
from rules.view import View, prepare

_NAMES, _RULES, _COMBINED = 100_000, 10, 0.010
_PREPARED = 2.0
_ANSWERS = 20


@dataclass(frozen=True, slots=True, eq=False)
class _Opinion:
    rule: str
    candidates: Candidates
    scores: Scores
    firm: bool


def _opinions(names: int, kept: float, seed: int) -> list[_Opinion]:
    """Ten rules that keep a share of the names each and score all of them."""
    rng = np.random.default_rng(seed)
    return [
        _Opinion(f"rule{number}", Candidates.of(rng.random(names) < kept), rng.random(names), number % 3 > 0)
        for number in range(_RULES)
    ]


def _requests(view: View, policy: Policy, functions: int) -> list[Request]:
    made = []
    for number in np.random.default_rng(1).integers(0, functions, _ANSWERS).tolist():
        namespace, action = function(number).split("/")
        labels = {"openwhisk/namespace": namespace, "openwhisk/action": action}
        pod = {"metadata": {"name": "new", "labels": labels}, "spec": {"containers": []}}
        record = pod_of(pod)
        made.append(from_pod(pod, record, view, namespace="openwhisk", cluster=CLUSTER, policy=policy))
    return made


def run(scale: float) -> list[Figure]:
    """Measure with 5,000 nodes, 50,000 pods, 10,000 functions and 200,000 pairs at scale 1."""
    names = max(100, int(_NAMES * scale))
    half, emptied = _opinions(names, 0.5, 0), _opinions(names, 0.05, 0)
    nodes, pods, functions, pairs = (max(50, int(each * scale)) for each in (5_000, 50_000, 10_000, 200_000))
    known = snapshot(nodes, pods, functions, pairs)
    view = prepare(known, CLUSTER, known.created)
    policy = Policy(mode="prefer")
    requests = _requests(view, policy, functions)
    times = interleaved(
        {
            "half": lambda: combine(half, names),
            "emptied": lambda: combine(emptied, names),
            "prepare": lambda: prepare(known, CLUSTER, known.created),
            "answer": lambda: [recommend(each, view, policy, decision="d") for each in requests],
        }
    )
    combined = {name: times[name].median for name in ("half", "emptied")}
    figures = [
        Figure(
            f"{_RULES} rules over {names:,} names, {told}", 1e3 * combined[name], "ms", spread=times[name].spread,
            goal=f"< {1e3 * _COMBINED:.0f} ms", met=combined[name] < _COMBINED,
        )
        for name, told in (("half", "some left"), ("emptied", "none left, rules named"))
    ]  # fmt: skip
    prepared = times["prepare"]
    figures.append(
        Figure(
            f"view of {nodes:,} nodes and {pods:,} pods", prepared.median, "s", spread=prepared.spread,
            goal=f"< {_PREPARED:.0f} s", met=prepared.median < _PREPARED,
        )
    )  # fmt: skip
    answer = times["answer"]
    figures.append(Figure("one answer, uncached", 1e3 * answer.median / _ANSWERS, "ms", spread=answer.spread))
    return figures
