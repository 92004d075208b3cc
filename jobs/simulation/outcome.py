"""What a policy came to, in figures."""

from dataclasses import dataclass

import numpy as np

from jobs.simulation.replay import Replayed
from jobs.simulation.world import World

#: A run is slowed when it takes more than this many times what it takes alone.
SLOWED = 1.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """Latencies are times what a run takes alone on its best hardware, from its arrival on.

    *mean* is over the runs that were served; in *p95*, *p99* and *slowed* (the share that took more than half as long
    again) a run that never was counts as endless. *pending* pods never got a node, *delayed* ones not at once;
    *nodes* had at least one pod.
    """

    policy: str
    mean: float
    p95: float
    p99: float
    slowed: float
    pending: int
    delayed: int
    unserved: int
    nodes: int
    runs: int
    pods: int


def outcome(policy: str, world: World, replayed: Replayed) -> Outcome:
    """Sum up one replay of *world*."""
    load, state = world.load, replayed.state
    taken = (state.end - load.arrival) / load.work
    served = np.isfinite(taken)
    endless = np.where(served, taken, np.inf)
    own = world.pods.function >= 0
    nowhere = own & (replayed.node < 0)
    p95, p99 = np.quantile(endless, (0.95, 0.99), method="higher") if len(endless) else (np.nan, np.nan)
    return Outcome(
        policy=policy,
        mean=float(taken[served].mean()) if served.any() else float("nan"),
        p95=float(p95),
        p99=float(p99),
        slowed=float((endless > SLOWED).mean()) if len(endless) else float("nan"),
        pending=int(nowhere.sum()),
        delayed=int((replayed.waited & ~nowhere & own).sum()),
        unserved=int((~served).sum()),
        nodes=len(np.unique(replayed.node[own & (replayed.node >= 0)])),
        runs=len(endless),
        pods=int(own.sum()),
    )
