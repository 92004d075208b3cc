"""The least loaded nodes: the larger used fraction of CPU and memory, in steps of five percent."""

import numpy as np

from rules.advice import Advice, Measure, silent
from rules.nodes import Floats
from rules.policy import Policy
from rules.request import Request
from rules.scoring import graded
from rules.view import View

NAME = "least_loaded"


def least_loaded(request: Request, view: View, policy: Policy) -> Advice:
    """Grade a node by what is not in use; where use is not known, as the middle of the nodes where it is."""
    return view.nodes.memo.once(NAME, lambda: _least_loaded(view.nodes.load))


def _least_loaded(load: Floats) -> Advice:
    if np.isnan(load).all():
        return silent(NAME)
    filled = np.where(np.isnan(load), np.nanmedian(load), load)
    return Advice(
        NAME,
        scores=graded("load", 1.0 - filled, step=0.05),
        measures=lambda nodes: (Measure(lambda used: f"load {used:.0%}", load[nodes]),),
    )
