"""The predecessor: required anti-affinity between functions whose mean time together is a tenth above that apart.

Such a term works both ways: the new pod may not stand beside what slows it, nor beside what it slows.
"""

import numpy as np

from jobs.simulation.policies.plain import LeastLoaded
from jobs.simulation.replay import Cluster
from jobs.simulation.world import Bools

#: How much longer the mean time together has to be than the mean apart.
THRESHOLD = 0.1


class Predecessor(LeastLoaded):
    """The least loaded of the nodes without any function of a naive pair with the pod's; else it waits."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._apart: list[set[int]] = [set() for _ in cluster.world.functions]
        for victim, aggressor in cluster.world.naive.tolist():
            self._apart[victim].add(aggressor)
            self._apart[aggressor].add(victim)

    def choose(self, pod: int, fits: Bools, at: float, /) -> int:
        company = self._cluster.company
        taken = [
            node for other in self._apart[int(self._cluster.world.pods.function[pod])] for node in company[other]
        ]
        allowed = fits.copy()
        allowed[np.array(taken, np.int64)] = False
        return super().choose(pod, allowed, at)
