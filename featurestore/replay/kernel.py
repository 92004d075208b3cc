"""Runs of functions on nodes, replayed event by event, compiled.

A run of function a needs *work* seconds alone where the hardware's factor is 1. On node k beside the runs j it
advances at 1 / (speed[a, type_k] * (1 + sum_j S[a, f_j])): the model that the slowdowns are learned by, S the longer
time beside one always-running neighbour. Runs do not queue: a pod serves all that come; company is what slows them.

A run goes to its own pod; where that has no node yet, to the function's living pods in turn; where there is none, it
waits for the first that gets a node. A pod that left takes no new runs of others; its own and those begun go on.

Ends are found in a tree of minima over the nodes; an event costs O(log nodes + runs on the node * log aggressors).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from featurestore.compiled import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: A time that never comes.
NEVER = 1e300
CPU, MEMORY = 0, 1


class Load(NamedTuple):
    """What is replayed: n runs by *arrival*, P pods, K nodes, F functions, T node types; times in seconds.

    *function*, *pod*, *arrival*, *work* (n,); *owner* (P,) the pods' functions, -1: of none, never a run's pod;
    *node_type* (K,); *speed* (F, T); *aggressor* and *slowdown* are the rows of S, those of victim a at
    first[a]..first[a + 1], aggressors ascending, slowdowns 0 or more; *cpu* (F,) cores that one run uses, *memory*
    (F,) bytes that a pod uses.
    """

    function: Ints
    pod: Ints
    arrival: Floats
    work: Floats
    owner: Ints
    node_type: Ints
    speed: Floats
    first: Ints
    aggressor: Ints
    slowdown: Floats
    cpu: Floats
    memory: Floats


class State(NamedTuple):
    """Where the replay stands; every array is changed in place.

    Results: *node*, *served* (the pod), *start*, *end* (n,), *node* -1 and times NaN for what did not happen.
    *use*, *use_seconds*, *use_squares* (K, 2): what a node uses of CPU and memory now, and its integrals; *busy*
    (P,): seconds of running, summed over the pod's runs. The integrals reach to *noted* and *pod_noted*.
    """

    node: Ints
    served: Ints
    start: Floats
    end: Floats
    left: Floats
    slow: Floats
    head: Ints
    after: Ints
    before: Ints
    settled: Floats
    due: Floats
    cursor: Ints
    pod_node: Ints
    ring: Ints
    ring_first: Ints
    ring_place: Ints
    ring_size: Ints
    ring_turn: Ints
    wait_head: Ints
    wait_tail: Ints
    use: Floats
    use_seconds: Floats
    use_squares: Floats
    noted: Floats
    running: Ints
    busy: Floats
    pod_noted: Floats


def begin(load: Load) -> State:
    """Return the state before anything happened."""
    n, pods, nodes, functions = len(load.arrival), len(load.owner), len(load.node_type), len(load.speed)
    leaves = 1
    while leaves < max(nodes, 1):
        leaves *= 2
    own = np.bincount(load.owner[load.owner >= 0], minlength=functions)
    none: Ints = np.full(n, -1, np.int64)
    return State(
        node=none.copy(),
        served=load.pod.copy(),
        start=np.full(n, np.nan),
        end=np.full(n, np.nan),
        left=np.zeros(n),
        slow=np.ones(n),
        head=np.full(nodes, -1, np.int64),
        after=none.copy(),
        before=none.copy(),
        settled=np.zeros(nodes),
        due=np.full(2 * leaves, NEVER),
        cursor=np.zeros(1, np.int64),
        pod_node=np.full(pods, -1, np.int64),
        ring=np.full(pods, -1, np.int64),
        ring_first=np.concatenate([[0], np.cumsum(own)]).astype(np.int64),
        ring_place=np.full(pods, -1, np.int64),
        ring_size=np.zeros(functions, np.int64),
        ring_turn=np.zeros(functions, np.int64),
        wait_head=np.full(functions, -1, np.int64),
        wait_tail=np.full(functions, -1, np.int64),
        use=np.zeros((nodes, 2)),
        use_seconds=np.zeros((nodes, 2)),
        use_squares=np.zeros((nodes, 2)),
        noted=np.zeros(nodes),
        running=np.zeros(pods, np.int64),
        busy=np.zeros(pods),
        pod_noted=np.zeros(pods),
    )


@compiled
def _slowdown(load: Load, victim: int, aggressor: int) -> float:
    low, high = load.first[victim], load.first[victim + 1]
    while low < high:
        middle = (low + high) // 2
        if load.aggressor[middle] < aggressor:
            low = middle + 1
        else:
            high = middle
    if low < load.first[victim + 1] and load.aggressor[low] == aggressor:
        return float(load.slowdown[low])
    return 0.0


@compiled
def _pace(load: Load, state: State, run: int) -> float:
    """Return the seconds that a second of a run's work takes now."""
    speed = load.speed[load.function[run], load.node_type[state.node[run]]]
    return float(speed * max(state.slow[run], 1.0))


@compiled
def _set_due(state: State, node: int, at: float) -> None:
    place = len(state.due) // 2 + node
    state.due[place] = at
    place //= 2
    while place >= 1:
        state.due[place] = min(state.due[2 * place], state.due[2 * place + 1])
        place //= 2


@compiled
def _note_node(state: State, node: int, at: float) -> None:
    gone = at - state.noted[node]
    for r in range(2):
        state.use_seconds[node, r] += state.use[node, r] * gone
        state.use_squares[node, r] += state.use[node, r] * state.use[node, r] * gone
    state.noted[node] = at


@compiled
def _note_pod(state: State, pod: int, at: float) -> None:
    state.busy[pod] += state.running[pod] * (at - state.pod_noted[pod])
    state.pod_noted[pod] = at


@compiled
def _settle(load: Load, state: State, node: int, at: float) -> None:
    """Let the runs on *node* advance to *at*."""
    gone = at - state.settled[node]
    if gone > 0:
        i = state.head[node]
        while i >= 0:
            state.left[i] -= gone / _pace(load, state, i)
            i = state.after[i]
    state.settled[node] = at


@compiled
def _foresee(load: Load, state: State, node: int) -> None:
    first = NEVER
    i = state.head[node]
    while i >= 0:
        first = min(first, state.settled[node] + max(state.left[i], 0.0) * _pace(load, state, i))
        i = state.after[i]
    _set_due(state, node, first)


@compiled
def _start(load: Load, state: State, run: int, pod: int, at: float) -> None:
    node, f = state.pod_node[pod], load.function[run]
    _settle(load, state, node, at)
    slow = 1.0
    i = state.head[node]
    while i >= 0:
        slow += _slowdown(load, f, load.function[i])
        state.slow[i] += _slowdown(load, load.function[i], f)
        i = state.after[i]
    state.node[run], state.start[run] = node, at
    state.left[run], state.slow[run] = load.work[run], slow
    state.before[run], state.after[run] = -1, state.head[node]
    if state.head[node] >= 0:
        state.before[state.head[node]] = run
    state.head[node] = run
    state.served[run] = pod
    _note_node(state, node, at)
    state.use[node, 0] += load.cpu[f]
    _note_pod(state, pod, at)
    state.running[pod] += 1
    _foresee(load, state, node)


@compiled
def _finish(load: Load, state: State, run: int, node: int, at: float) -> None:
    f, pod = load.function[run], state.served[run]
    state.end[run] = at
    ahead, behind = state.before[run], state.after[run]
    if ahead >= 0:
        state.after[ahead] = behind
    else:
        state.head[node] = behind
    if behind >= 0:
        state.before[behind] = ahead
    i = state.head[node]
    while i >= 0:
        state.slow[i] -= _slowdown(load, load.function[i], f)
        i = state.after[i]
    _note_node(state, node, at)
    state.use[node, 0] -= load.cpu[f]
    _note_pod(state, pod, at)
    state.running[pod] -= 1


@compiled
def _end(load: Load, state: State) -> None:
    """Finish what is due first: the run that has least left, and those that end with it."""
    at, place = state.due[1], 1
    while place < len(state.due) // 2:
        place = 2 * place if state.due[2 * place] <= at else 2 * place + 1
    node = place - len(state.due) // 2
    _settle(load, state, node, at)
    least, nearest = NEVER, -1
    i = state.head[node]
    while i >= 0:
        if state.left[i] * _pace(load, state, i) < least:
            least, nearest = state.left[i] * _pace(load, state, i), i
        i = state.after[i]
    dust = max(least, 0.0) + 1e-9 + 1e-14 * at
    i = state.head[node]
    while i >= 0:
        following = state.after[i]
        if i == nearest or state.left[i] * _pace(load, state, i) <= dust:
            state.left[i] = 0.0
            _finish(load, state, i, node, at)
        i = following
    _foresee(load, state, node)


@compiled
def _arrive(load: Load, state: State, run: int, at: float) -> None:
    pod, f = load.pod[run], load.function[run]
    if state.pod_node[pod] < 0:
        size = state.ring_size[f]
        if size == 0:
            if state.wait_tail[f] >= 0:
                state.after[state.wait_tail[f]] = run
            else:
                state.wait_head[f] = run
            state.wait_tail[f] = run
            return
        pod = state.ring[state.ring_first[f] + state.ring_turn[f] % size]
        state.ring_turn[f] += 1
    _start(load, state, run, pod, at)


@compiled
def advance(load: Load, state: State, until: float) -> None:
    """Let everything happen that happens up to *until*; ends come before arrivals of the same moment."""
    while True:
        run = state.cursor[0]
        arrival = load.arrival[run] if run < len(load.arrival) else NEVER
        if min(state.due[1], arrival) > until or min(state.due[1], arrival) >= NEVER:
            return
        if state.due[1] <= arrival:
            _end(load, state)
        else:
            state.cursor[0] += 1
            _arrive(load, state, run, arrival)


@compiled
def place(load: Load, state: State, pod: int, node: int, at: float) -> None:
    """Give *pod*, which has none, a *node* at *at*, up to which the replay has advanced; waiting runs start there."""
    f = load.owner[pod]
    state.pod_node[pod] = node
    spot = state.ring_first[f] + state.ring_size[f]
    state.ring[spot], state.ring_place[pod] = pod, spot
    state.ring_size[f] += 1
    state.pod_noted[pod] = at
    _note_node(state, node, at)
    state.use[node, 1] += load.memory[f]
    run = state.wait_head[f]
    state.wait_head[f] = state.wait_tail[f] = -1
    while run >= 0:
        following = state.after[run]
        _start(load, state, run, pod, at)
        run = following


@compiled
def leave(load: Load, state: State, pod: int, at: float) -> None:
    """Take a placed *pod* out of service at *at*."""
    f, spot = load.owner[pod], state.ring_place[pod]
    state.ring_size[f] -= 1
    last = state.ring[state.ring_first[f] + state.ring_size[f]]
    state.ring[spot], state.ring_place[last] = last, spot
    _note_node(state, state.pod_node[pod], at)
    state.use[state.pod_node[pod], 1] -= load.memory[f]


@compiled
def note(state: State, at: float) -> None:
    """Bring all integrals up to *at*."""
    for node in range(len(state.noted)):
        _note_node(state, node, at)
    for pod in range(len(state.pod_noted)):
        _note_pod(state, pod, at)
