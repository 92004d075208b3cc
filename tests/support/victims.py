"""Evidence of one victim made by hand: dense exposures and times in, a design out."""

import numpy as np

from featurestore.interference.evidence import VictimDesign


def design(execution, exposure, *, victim=0, start=None, cold=None, node=None, node_type=None, **more):
    """Return the design of runs with *execution* [n] seconds and dense *exposure* [n, F]; one run a second."""
    execution, exposure = np.asarray(execution, float), np.asarray(exposure, float)
    n, functions = exposure.shape
    start = np.arange(n, dtype=float) if start is None else np.asarray(start, float)
    rows, columns = np.nonzero(exposure)
    node = np.arange(n) % 2 if node is None else np.asarray(node)
    return VictimDesign(
        victim=victim,
        functions=functions,
        execution=execution,
        start=start,
        end=start + execution,
        cold=np.zeros(n, bool) if cold is None else np.asarray(cold, bool),
        node=node.astype(np.int64),
        node_type=np.zeros(n, np.int64) if node_type is None else np.asarray(node_type, np.int64),
        indptr=np.searchsorted(rows, np.arange(n + 1)),
        indices=columns.astype(np.int64),
        values=exposure[rows, columns],
        **more,
    )


def stretched(exposure, slowdown):
    """Return time over undisturbed time [n]: each neighbour slows the progress while it is there."""
    exposure, slowdown = np.asarray(exposure, float), np.asarray(slowdown, float)
    return 1 + (exposure * slowdown / (1 + slowdown * np.maximum(0, 1 - exposure))).sum(axis=1)


def beside(draw, n, functions, share=0.3):
    """Return random exposures [n, functions]: mostly none, else a part of the run or all of it."""
    part = np.minimum(draw.uniform(0.1, 1.4, (n, functions)), 1.0)
    return np.where(draw.random((n, functions)) < share, part, 0.0)
