"""Load-variation-aware scoring: Trimaran's LoadVariationRiskBalancing beside the scheduler's LeastAllocated.

The risk of a node is, for CPU and memory each, ``(mean + margin * deviation ** (1 / sensitivity)) / 2``: the mean
use with the pod's request and the standard deviation, both as shares of the node between 0 and 1; the score is 100
times what the larger risk leaves of 1, a whole number. Source: the README of the plugin in
kubernetes-sigs/scheduler-plugins (``pkg/trimaran/loadvariationriskbalancing``), with its defaults: margin 1,
sensitivity 1. Its example enables it beside the default plugins, so that both scores, 0 to 100 each, add up. Before
the first measurement the plugin scores all nodes alike.
"""

import numpy as np

from featurestore.replay.kernel import Floats
from jobs.simulation.policies.plain import LeastLoaded
from jobs.simulation.replay import Cluster, Measured
from jobs.simulation.world import Bools

MARGIN, SENSITIVITY = 1.0, 1.0


def score(used: Floats, deviation: Floats, asked: Floats, capacity: Floats) -> Floats:
    """Return the plugin's score (K,) of nodes by *used* and *deviation* (K, 2), for a pod that *asked* (2,)."""
    mean = np.clip((np.clip(used, 0.0, capacity) + asked) / capacity, 0.0, 1.0)
    spread = np.clip(MARGIN * (np.clip(deviation, 0.0, capacity) / capacity) ** (1.0 / SENSITIVITY), 0.0, 1.0)
    scores: Floats = np.floor((1.0 - (mean + spread) / 2.0) * 100.0 + 0.5).min(axis=1)
    return scores


class LoadVariation(LeastLoaded):
    """The node of the highest sum of both scores."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._now: Measured | None = None

    def choose(self, pod: int, fits: Bools, at: float, /) -> int:
        share, pods = self._cluster.crowding(pod)
        least_allocated = np.floor(100.0 * (1.0 - share))
        risk = np.zeros(len(share))
        if self._now is not None:
            nodes, asked = self._cluster.world.nodes, self._cluster.world.pods.requests[pod, :2]
            risk = score(self._now.use, self._now.deviation, asked, nodes.allocatable[:, :2])
        return self._cluster.best(fits, -(risk + least_allocated), pods)

    def measured(self, now: Measured, /) -> None:
        self._now = now
