"""Policies that look at requests alone: what happened, and the least loaded node."""

from jobs.simulation.replay import Cluster, Measured
from jobs.simulation.world import Bools


class LeastLoaded:
    """The node of which least is requested with the pod, as the ordinary scheduler's LeastAllocated score has it; of
    equal ones that with the fewest pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def choose(self, pod: int, fits: Bools, at: float, /) -> int:
        return self._cluster.best(fits, *self._cluster.crowding(pod))

    def came(self, pod: int, node: int, /) -> None:
        """Nothing is remembered."""

    def went(self, pod: int, node: int, /) -> None:
        """Nothing is remembered."""

    def measured(self, now: Measured, /) -> None:
        """Nothing is remembered."""


class AsHappened(LeastLoaded):
    """The node that the pod really had, whether it seems to fit or not."""

    def choose(self, pod: int, fits: Bools, at: float, /) -> int:
        return int(self._cluster.world.pods.node[pod])
