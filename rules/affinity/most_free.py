"""The nodes with most free: allocatable minus requested CPU and memory, beside the most that any node has."""

from collections.abc import Callable
from typing import Final

import numpy as np

from rules.advice import Advice, Measure
from rules.digits import digits
from rules.nodes import Nodes
from rules.policy import Policy
from rules.request import Request
from rules.scoring import graded
from rules.view import View

NAME = "most_free"
_GIB = 2.0**30
_SHOWN: Final[tuple[tuple[str, Callable[[float], str], float], ...]] = (
    ("cpu", lambda cores: f"{digits(cores)} cores free", 1.0),
    ("memory", lambda amount: f"{digits(amount)} GiB free", _GIB),
)


def most_free(request: Request, view: View, policy: Policy) -> Advice:
    """Grade a node by the mean of its free CPU and free memory, each over the largest of all nodes."""
    return view.memo.once(NAME, lambda: _most_free(view.nodes))


def _most_free(nodes: Nodes) -> Advice:
    grades, shown = np.zeros(len(nodes)), []
    for resource, sentence, unit in _SHOWN:
        free = np.maximum(nodes.free.get(resource, np.zeros(len(nodes))), 0.0)
        most = float(free.max(initial=0.0))
        if most > 0:
            grades += free / most / 2.0
        shown.append((sentence, free / unit))
    return Advice(
        NAME,
        scores=graded("free", grades),
        measures=lambda nodes: [Measure(sentence, free[nodes]) for sentence, free in shown],
    )
