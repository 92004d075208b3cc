"""One replay under one policy: pods come, are given a node or wait for one, serve and go.

As a scheduler does, pods are placed in the order of their coming; one that fits nowhere waits, and is tried again
when pods have gone, at most every `RETRY` seconds. Of waiting pods that are alike only the first is tried: where it
finds no node, the others find none.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from featurestore.replay import kernel
from featurestore.replay.kernel import Floats, Ints, State
from jobs.simulation.world import Bools, World

#: Seconds between two attempts to place what waits: the scheduler's longest pause after a failure.
RETRY = 10.0

#: A policy learns of the cluster's use at most so often in a replay.
_MEASURES = 200

#: What sums of requests in another order may differ by.
_DUST = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What was measured *at* a time since the last one, *lasted* seconds ago.

    *use* and *deviation* (K, 2) are of CPU (cores) and memory (bytes) on the nodes, *served* (P,) the seconds that
    runs took in each pod, all of them together.
    """

    at: float
    lasted: float
    use: Floats
    deviation: Floats
    served: Floats


@dataclass(slots=True, eq=False)
class Cluster:
    """What stands where now: *held* (K, 3) requests, *node* (P,) of the pods, -1 without one, and *company*: the
    number of pods by node of each function. *rank* (K,) decides between nodes that are as good."""

    world: World
    rank: Ints
    held: Floats
    node: Ints
    company: list[dict[int, int]]

    @property
    def free(self) -> Floats:
        return self.world.nodes.allocatable - self.held

    def best(self, allowed: Bools, *costs: Floats) -> int:
        """Return the allowed node of the least cost, by the first cost in which two differ, else by *rank*; or -1."""
        among = np.flatnonzero(allowed)
        for cost in (*costs, self.rank):
            if not among.size:
                return -1
            values = cost[among]
            among = among[values <= values.min() + _DUST]
        return int(among[0])

    def crowding(self, pod: int) -> tuple[Floats, Floats]:
        """Return what each node would have requested of it with *pod*: the mean share of CPU and memory, and pods.

        The first is what the ordinary scheduler's LeastAllocated score falls by.
        """
        share = (self.held + self.world.pods.requests[pod]) / self.world.nodes.allocatable
        return share[:, :2].mean(axis=1), self.held[:, 2]


class Policy(Protocol):
    """Chooses nodes; told of all that happens. One object serves one replay."""

    def choose(self, pod: int, fits: Bools, at: float, /) -> int:
        """Return a node out of *fits* (K,) for *pod*, or -1 to let it wait."""
        ...

    def came(self, pod: int, node: int, /) -> None:
        """Hear that *pod* stands on *node*."""
        ...

    def went(self, pod: int, node: int, /) -> None:
        """Hear that *pod* has left *node*."""
        ...

    def measured(self, now: Measured, /) -> None:
        """Hear what was measured."""
        ...


@dataclass(slots=True, eq=False)
class Replayed:
    """What came of it: *state* holds every run, *node* (P,) where pods stood last, -1 of those that never ran,
    *placed* (P,) since when (seconds, NaN), and *waited* which of them found no node at once."""

    state: State
    node: Ints
    placed: Floats
    waited: Bools


@dataclass(slots=True, eq=False)
class _Run:
    world: World
    cluster: Cluster
    policy: Policy
    state: State
    placed: Floats
    waiting: dict[int, None] = field(default_factory=dict)  #: in the order of their coming

    def try_to_place(self, pod: int, at: float) -> bool:
        pods = self.world.pods
        if pods.function[pod] < 0:
            node = int(pods.node[pod])
        else:
            asked = pods.requests[pod]
            fits = self.world.nodes.usable & (self.cluster.free >= asked - _DUST * np.abs(asked)).all(axis=1)
            node = self.policy.choose(pod, fits, at)
        if node < 0:
            return False
        self.cluster.held[node] += pods.requests[pod]
        self.cluster.node[pod] = node
        self.placed[pod] = at
        function = int(pods.function[pod])
        if function >= 0:
            company = self.cluster.company[function]
            company[node] = company.get(node, 0) + 1
            kernel.place(self.world.load, self.state, pod, node, at)
        self.policy.came(pod, node)
        return True

    def remove(self, pod: int, at: float) -> None:
        node, function = int(self.cluster.node[pod]), int(self.world.pods.function[pod])
        if node < 0:
            del self.waiting[pod]
            return
        self.cluster.held[node] -= self.world.pods.requests[pod]
        if function >= 0:
            company = self.cluster.company[function]
            company[node] -= 1
            if not company[node]:
                del company[node]
            kernel.leave(self.world.load, self.state, pod, at)
        self.policy.went(pod, node)

    def retry(self, at: float) -> None:
        """Try what waits, in order, one of each kind until it fails."""
        hopeless: set[tuple[int, ...]] = set()
        for pod in list(self.waiting):
            kind = (int(self.world.pods.function[pod]), *self.world.pods.requests[pod].tolist())
            if kind in hopeless or not self.try_to_place(pod, at):
                hopeless.add(kind)
            else:
                del self.waiting[pod]


class Make(Protocol):
    """Make the policy of one replay."""

    def __call__(self, cluster: Cluster, /) -> Policy: ...


def replay(world: World, make: Make, *, seed: int = 0, step: float = 300.0) -> Replayed:
    """Replay *world* under the policy that *make* makes; the same *seed* gives the same.

    *seed* decides between nodes that a policy holds equal. Use is measured every *step* seconds, less often in a long
    history.
    """
    pods, nodes = world.pods, world.nodes
    held = np.zeros((len(nodes), 3))
    rank = np.random.default_rng(seed).permutation(len(nodes)).astype(np.int64)
    cluster = Cluster(world, rank, held, np.full(len(pods), -1, np.int64), [{} for _ in world.functions])
    run = _Run(world, cluster, make(cluster), kernel.begin(world.load), np.full(len(pods), np.nan))
    meter = _Meter(run.state, max(step, world.length / _MEASURES))
    waited = np.zeros(len(pods), np.bool_)
    came, went = np.argsort(pods.came, kind="stable"), np.argsort(pods.went, kind="stable")
    retried, freed, i, j = -RETRY, False, 0, 0
    while True:
        next_came = pods.came[came[i]] if i < len(came) else np.inf
        next_went = pods.went[went[j]] if j < len(went) else np.inf
        next_retry = retried + RETRY if freed and run.waiting else np.inf
        at = min(next_came, next_went, next_retry, meter.due)
        if at > world.length:
            break
        kernel.advance(world.load, run.state, at)
        if at == next_went:
            run.remove(int(went[j]), at)
            freed, j = True, j + 1
        elif at == meter.due:
            run.policy.measured(meter.read(at))
        elif at == next_retry:
            run.retry(at)
            retried, freed = at, False
        else:
            pod = int(came[i])
            i += 1
            if not run.try_to_place(pod, at):
                waited[pod] = True
                run.waiting[pod] = None
        if freed and run.waiting and retried + RETRY < at:
            retried = at - RETRY
    kernel.advance(world.load, run.state, kernel.NEVER)
    return Replayed(run.state, cluster.node, run.placed, waited)


class _Meter:
    """Reads the integrals of the replay, one interval after the other."""

    def __init__(self, state: State, step: float) -> None:
        self._state, self._step, self._last = state, step, 0.0
        self.due = step
        self._seconds, self._squares = state.use_seconds.copy(), state.use_squares.copy()
        self._busy = state.busy.copy()

    def read(self, at: float) -> Measured:
        """Return what happened since the last reading."""
        state, gone = self._state, at - self._last
        kernel.note(state, at)
        use = (state.use_seconds - self._seconds) / gone
        squares = (state.use_squares - self._squares) / gone
        served = state.busy - self._busy
        self._seconds, self._squares = state.use_seconds.copy(), state.use_squares.copy()
        self._busy = state.busy.copy()
        self._last, self.due = at, at + self._step
        return Measured(at, gone, use, np.sqrt(np.maximum(squares - use**2, 0.0)), served)
