"""What was learned of each function, worked out before its first pod comes; it holds for as long as the snapshot."""

from collections.abc import Iterator

import numpy as np

from rules.affinity import interference, speed
from rules.policy import Policy
from rules.request import Request
from rules.view import View


def busiest(view: View, limit: int) -> list[int]:
    """Return the numbers of at most *limit* functions that something was learned of, most running pods first."""
    function, entries = view.running.all()
    pods = np.bincount(function, entries.pods, len(view.functions))[: len(view.learned.functions)]
    first: list[int] = np.argsort(-pods, kind="stable")[:limit].tolist()
    return first


def warm(view: View, policy: Policy, limit: int) -> Iterator[int]:
    """Work out what the rules keep of the `busiest` functions, one at each step, which yields its number."""
    for function in busiest(view, limit):
        request = Request(
            pod={},
            name="",
            namespace="",
            cluster=view.cluster,
            mode=policy.mode,
            requests={},
            function=function,
            function_name=view.functions.names[function],
            importance=int(view.functions.importance[function]),
        )
        interference.learned(request, view, policy)
        speed.hardware(function, view)
        yield function
