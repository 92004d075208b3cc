"""The event loop of the simulated cluster: arrivals, starts and ends, and the rates between them, compiled."""

import numpy as np
from numpy.typing import NDArray

from featurestore.compiled import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@compiled
def _choose(
    f: int,
    policy: int,
    hosts: Bools,
    count: Floats,
    total: Floats,
    capacity: int,
    believed: Floats,
    speed: Floats,
    node_type: Ints,
    chance: float,
) -> int:
    """Return the node for a run of *f*: any, the least loaded, or the one with the least believed harm.

    *total* [K] counts the runs that each node was given, whether they run or still wait there.
    """
    nodes = len(node_type)
    best, least = -1, 1e300
    offset = int(chance * nodes)
    for turn in range(nodes):
        k = (turn + offset) % nodes
        if not hosts[f, k]:
            continue
        if policy == 0:
            cost = (k * 0.7548776662 + chance * 97.0) % 1.0
        elif policy == 1:
            cost = total[k]
        else:
            cost = 0.5 * (speed[f, node_type[k]] - 1.0) + 0.06 * total[k]
            cost += 1.2 * max(0.0, (total[k] - 0.6 * capacity) / capacity) + (2.0 if total[k] >= capacity else 0.0)
            for b in range(count.shape[1]):
                if count[k, b] > 0:
                    cost += count[k, b] * (believed[f, b] + believed[b, f])
        if cost < least - 1e-12:
            best, least = k, cost
    return best


@compiled
def _rate(
    k: int,
    capacity: int,
    running: Ints,
    busy: Ints,
    function: Ints,
    count: Floats,
    total: Floats,
    slowdown: Floats,
    multiplicative: bool,
    speed: Floats,
    crowding: Floats,
    node_type: Ints,
    sharing: Bools,
    backend: float,
    noise: float,
    left: Floats,
    rates: Floats,
) -> float:
    """Set the rates of the runs on node *k* and return the seconds until the first of them ends."""
    first = 1e300
    over = 2.0 * max(0.0, (total[k] - 0.6 * capacity) / capacity)
    for slot in range(busy[k]):
        i = running[k, slot]
        f = function[i]
        slow = 1.0
        for other in range(busy[k]):
            if other != slot:
                s = slowdown[f, function[running[k, other]]]
                slow = slow * (1.0 + s) if multiplicative else slow + s
        rate = 1.0 / (speed[f, node_type[k]] * slow * (1.0 + crowding[f] * over) * noise)
        if sharing[f]:
            rate /= backend
        rates[i] = rate
        first = min(first, max(left[i], 0.0) / rate)
    return first


@compiled
def simulate(
    function: Ints,
    arrival: Floats,
    work: Floats,
    slowdown: Floats,
    multiplicative: bool,
    speed: Floats,
    crowding: Floats,
    initialisation: Floats,
    hosts: Bools,
    node_type: Ints,
    sharing: Bools,
    backend: float,
    noisy: Floats,
    day: float,
    capacity: int,
    keep: float,
    policy: int,
    believed: Floats,
    jitter: Floats,
    init_jitter: Floats,
    chance: Floats,
) -> tuple[Ints, Floats, Floats, Bools, Floats]:
    """Run all events in order of time; one pass over the nodes finds the next end.

    Arrays [n] by arrival, [F] by function, [K] by node; times in seconds. Gives node, start, end, whether cold, and
    initialisation of each activation.
    """
    n, nodes, functions = len(function), len(node_type), slowdown.shape[0]
    node = np.full(n, -1, np.int64)
    start, end = np.zeros(n), np.zeros(n)
    cold, init = np.zeros(n, np.bool_), np.zeros(n)
    left, rates = np.zeros(n), np.zeros(n)
    running = np.full((nodes, capacity), -1, np.int64)
    busy = np.zeros(nodes, np.int64)
    count, total, given = np.zeros((nodes, functions)), np.zeros(nodes), np.zeros(nodes)
    last, due = np.zeros(nodes), np.full(nodes, 1e300)
    warm = np.full((nodes, functions), -1e300)
    head, tail = np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64)
    after = np.full(n, -1, np.int64)
    users = sharing.sum()
    in_backend = 0
    pressed = 1.0
    arrived = 0
    while True:
        k = int(np.argmin(due))
        t = due[k]
        ending = True
        if arrived < n and arrival[arrived] <= t:
            t = arrival[arrived]
            ending = False
        elif t >= 1e300:
            break
        started = -1
        if ending:
            for slot in range(busy[k]):
                left[running[k, slot]] -= rates[running[k, slot]] * (t - last[k])
            last[k] = t
            slot = 0
            while slot < busy[k]:
                i = running[k, slot]
                if left[i] <= 1e-9 + rates[i] * t * 1e-12:  # what a sum of times near t can resolve
                    f = function[i]
                    end[i] = t
                    count[k, f] -= 1
                    total[k] -= 1
                    given[k] -= 1
                    warm[k, f] = t
                    in_backend -= int(sharing[f])
                    busy[k] -= 1
                    running[k, slot] = running[k, busy[k]]
                else:
                    slot += 1
        else:
            i = arrived
            arrived += 1
            f = function[i]
            k = _choose(f, policy, hosts, count, given, capacity, believed, speed, node_type, chance[i, 0])
            node[i] = k
            given[k] += 1
            if tail[k] >= 0:
                after[tail[k]] = i
            else:
                head[k] = i
            tail[k] = i
        while head[k] >= 0 and busy[k] < capacity:
            i = head[k]
            head[k] = after[i]
            if head[k] < 0:
                tail[k] = -1
            if started < 0 and not ending:
                for slot in range(busy[k]):
                    left[running[k, slot]] -= rates[running[k, slot]] * (t - last[k])
                last[k] = t
            started = i
            f = function[i]
            cold[i] = t - warm[k, f] > keep and count[k, f] == 0
            left[i] = work[i] * jitter[i]
            if cold[i]:
                init[i] = initialisation[f] * init_jitter[i]
                left[i] = left[i] * 1.08 + init[i] / speed[f, node_type[k]]
            start[i] = t
            warm[k, f] = t
            count[k, f] += 1
            total[k] += 1
            in_backend += int(sharing[f])
            running[k, busy[k]] = i
            busy[k] += 1
        now = 1.0
        if users > 0:
            now = 1.0 + (backend - 1.0) * min(1.0, max(0.0, (in_backend - 0.25 * users) / (0.5 * users)))
        for other in range(nodes):
            if (other == k and (ending or started >= 0)) or (now != pressed and busy[other] > 0):
                for slot in range(busy[other]):
                    left[running[other, slot]] -= rates[running[other, slot]] * (t - last[other])
                last[other] = t
                noise = noisy[other, min(int(t / day), noisy.shape[1] - 1)]
                until = _rate(
                    other,
                    capacity,
                    running,
                    busy,
                    function,
                    count,
                    total,
                    slowdown,
                    multiplicative,
                    speed,
                    crowding,
                    node_type,
                    sharing,
                    now,
                    noise,
                    left,
                    rates,
                )
                due[other] = t + until if busy[other] > 0 else 1e300
        pressed = now
    return node, start, end, cold, init
