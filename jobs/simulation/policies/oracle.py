"""The oracle: knows the true slowdowns and how often each function will run, and takes the node that costs least.

The cost of a node is what the pod's runs would take there, over what they take alone on the best hardware, times how
many there are; and by how much the runs of its neighbours would grow longer, in the same measure.
"""

import numpy as np

from jobs.simulation.policies.plain import LeastLoaded
from jobs.simulation.replay import Cluster
from jobs.simulation.world import Bools, by_victim


class Oracle(LeastLoaded):
    """Greedy, pod by pod: an upper mark for what is placed one after the other, not the best of all placements."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        world, load = cluster.world, cluster.world.load
        size = len(world.functions)
        own = world.pods.function >= 0
        life = np.minimum(world.pods.went, world.length)[own] - world.pods.came[own]
        lived = np.maximum(np.bincount(world.pods.function[own], life, size), 1e-9)
        self._rate = np.bincount(load.function, minlength=size) / lived
        self._busy = np.bincount(load.function, load.work, size) / lived
        victim = np.repeat(np.arange(size), np.diff(load.first))
        self._first, self._victim, self._caused = by_victim(load.aggressor, victim, load.slowdown, size)

    def choose(self, pod: int, fits: Bools, at: float, /) -> int:
        world, load = self._cluster.world, self._cluster.world.load
        f = int(world.pods.function[pod])
        suffered, caused = np.zeros(len(fits)), np.zeros(len(fits))
        for row in range(load.first[f], load.first[f + 1]):
            other = int(load.aggressor[row])
            for node, pods in self._cluster.company[other].items():
                suffered[node] += load.slowdown[row] * self._busy[other] * pods
        for row in range(self._first[f], self._first[f + 1]):
            other = int(self._victim[row])
            for node, pods in self._cluster.company[other].items():
                caused[node] += self._caused[row] * self._rate[other] * pods
        speed = load.speed[f, load.node_type]
        cost = speed * (self._rate[f] * (1.0 + suffered) + self._busy[f] * caused)
        return self._cluster.best(fits, cost, *self._cluster.crowding(pod))
