"""Histories of a few functions on some nodes, worked out run by run: what slows what, and by how much, is known."""

import numpy as np

from benchmarks.simulator import Records
from benchmarks.worlds import designs

NODES, SPAN = 4, 2 * 86400.0


def one_by_one(draw, took, pause):
    """Return starts and ends of runs on one node, each after the one before and a *pause*; *took* gives each time."""
    many = int(2 * SPAN / sum(pause))
    took, pauses = took(many), draw.uniform(*pause, many)
    start = np.cumsum(pauses + np.append(0.0, took[:-1]))
    return start[start < SPAN], (start + took)[start < SPAN]


def evidence(runs):
    """Return the designs of functions that ran so: *runs* are function, node, starts and ends."""
    function = np.concatenate([np.full(len(start), f) for f, _, start, _ in runs])
    node = np.concatenate([np.full(len(start), n) for _, n, start, _ in runs])
    start, end = (np.concatenate([each[k] for each in runs]) for k in (2, 3))
    order = np.argsort(start, kind="stable")
    zero = np.zeros(len(start))
    records = Records(
        function[order], node[order], start[order], end[order], zero, zero, zero > 0, function * 0, zero, zero, node
    )
    return designs(records, np.zeros(NODES, np.int64), function.max() + 1)


def slowed(start, work, begun, ended, by):
    """Return how long *work* takes that begins at *start* and makes progress at 1 / *by* while others run."""
    found = np.empty(len(start))
    for k, (now, left) in enumerate(zip(start, work, strict=True)):
        other = np.searchsorted(ended, now, side="right")
        while left > 1e-12:
            inside = other < len(begun) and begun[other] <= now
            until = ended[other] if inside else begun[other] if other < len(begun) else np.inf
            step = min(until - now, left * (by if inside else 1.0))
            left -= step / (by if inside else 1.0)
            now += step
            other += inside and now >= until
        found[k] = now - start[k]
    return found
