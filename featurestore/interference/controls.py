"""What else may have slowed a run: the control columns of one victim's regression.

Groups are random effects (their variance is estimated, zero where the data show none) except ``fixed``.
"""

from dataclasses import dataclass

import numpy as np

from featurestore.interference.concurrency import Concurrency, mean
from featurestore.interference.evidence import Floats, Ints, Options, VictimDesign

#: The half of the records' resolution: what a duration of 0 ms stands for, seconds.
HALF_MILLISECOND = 5e-4
_DAY = 86400.0
#: Columns that are no nuisance: the base of each node type, and the neighbours' runs on other nodes.
NODE_TYPE, PLACEBO = "node type", "same neighbours on other nodes"
_CLUSTER = "load of the cluster"
#: Standard deviations beforehand of the groups' coefficients, in log time (the data move them).
LOAD_SD, TIME_SD, NODE_SD, PLACEBO_SD = 0.05, 0.05, 0.05, 0.007


@dataclass(frozen=True, slots=True)
class Controls:
    """Control columns *values* [n, q], the *group* of each [q], the groups' standard deviations beforehand *sd* [g],
    and the clusters of the errors [n].

    Group 0 (``fixed``) holds first one column per node type (*types*), then the others that are not penalised.
    *placebo* [P] are the functions whose cluster-wide concurrency are the last P columns. *name* [q] says in words
    what each column holds constant. *everywhere* [n] is how many activations ran in the whole cluster, where known.
    """

    values: Floats
    group: Ints
    sd: Floats
    types: Ints
    placebo: Ints
    cluster: Ints
    block: Ints
    name: tuple[str, ...] = ()
    everywhere: Floats | None = None


def _hats(position: Floats, knots: int) -> Floats:
    """Return piecewise linear basis columns [n, knots] over *position* in 0..1 (de Boor's order two)."""
    distance = np.abs(position[:, None] * (knots - 1) - np.arange(knots))
    return np.maximum(0.0, 1.0 - distance)


def _known(values: Floats | None, rows: Ints) -> Floats | None:
    """Return a 0..1 series with the unknown at its mean, or nothing when it never varies."""
    if values is None:
        return None
    part = values[rows]
    seen = np.isfinite(part)
    if not seen.any():
        return None
    filled = np.where(seen, part, part[seen].mean())
    return filled - filled.mean() if np.ptp(filled) > 1e-9 else None


def _one_hot(codes: Ints) -> tuple[Floats, Ints]:
    present, inverse = np.unique(codes, return_inverse=True)
    return np.eye(len(present))[inverse], present


def build(
    design: VictimDesign, rows: Ints, load: Floats, columns: Ints, concurrency: Concurrency | None, options: Options
) -> Controls:
    """Return the controls of *rows* of *design*; *load* [n] is the mean number of other runs on the node.

    The load column is what exceeds the upper third of loads: a linear load would be the sum of the exposures and
    would take the slowdown that all aggressors have in common.
    """
    start, end, node = design.start[rows], design.end[rows], design.node[rows]
    n = len(rows)
    types, present = _one_hot(design.node_type[rows])
    fixed = {NODE_TYPE: types}
    cold = design.cold[rows]
    if cold.any() and not cold.all():
        fixed["cold start"] = cold[:, None].astype(np.float64)
    if design.version is not None:
        fixed["version"] = _one_hot(design.version[rows])[0][:, 1:]
    for name, series in (("CPU throttling", design.throttled), ("memory pressure", design.pressure)):
        values = _known(series, rows)
        if values is not None:
            fixed[name] = values[:, None]
    window = float(np.ptp(start))
    position = (start - start.min()) / max(window, 1.0)
    block = np.minimum((position * options.blocks).astype(np.int64), options.blocks - 1)
    groups: list[tuple[str, Floats, float]] = []
    if np.ptp(load) > 1e-9:
        over = np.stack([np.maximum(0.0, load - knot) for knot in np.quantile(load, [0.6, 0.85, 0.95])], axis=1)
        groups.append(("load of the node", over, LOAD_SD))
    if window > 1.5 * _DAY:
        angle = 2 * np.pi * (start % _DAY) / _DAY
        harmonics = np.stack([f(k * angle) for k in (1, 2) for f in (np.sin, np.cos)], axis=1)
        groups.append(("time of day", harmonics, TIME_SD))
    groups.append(("slow change", _hats(position, int(np.clip(n // 25, 6, options.blocks))), TIME_SD))
    nodes, _ = _one_hot(node)
    if nodes.shape[1] > 1:
        groups.append(("node", nodes, NODE_SD))
    days = int(np.clip(n // (30 * nodes.shape[1]), 0, 12))
    if days > 1:
        groups.append(("spell of a node", _one_hot(node * days + block * days // options.blocks)[0], NODE_SD))
    placebo = np.zeros(0, np.int64)
    everywhere = None
    if concurrency is not None:
        everywhere = mean(concurrency, np.array([concurrency.functions]), start, end)[:, 0]
    if concurrency is not None and everywhere is not None and nodes.shape[1] > 1:
        groups.append((_CLUSTER, np.stack([everywhere, np.sqrt(everywhere)], axis=1) * _scales(everywhere), TIME_SD))
        placebo = columns
        groups.append((PLACEBO, mean(concurrency, placebo, start, end), PLACEBO_SD))
    values = np.concatenate([*fixed.values(), *(part - part.mean(axis=0) for _, part, _ in groups)], axis=1)
    sizes = [sum(part.shape[1] for part in fixed.values()), *(part.shape[1] for _, part, _ in groups)]
    names = [*fixed.items(), *((name, part) for name, part, _ in groups)]
    cluster = np.unique(node * options.blocks + block, return_inverse=True)[1]
    return Controls(
        values,
        np.repeat(np.arange(len(sizes)), sizes),
        np.array([np.inf, *(sd for _, _, sd in groups)]),
        present,
        placebo,
        cluster.astype(np.int64),
        block,
        tuple(name for name, part in names for _ in range(part.shape[1])),
        everywhere,
    )


def _scales(everywhere: Floats) -> Floats:
    """Return by what the load of the cluster and its root are multiplied [2], so that both move alike at its mean."""
    spread = max(float(everywhere.std()), 1e-6)
    return np.array([1.0, 2 * np.sqrt(everywhere.mean())]) / spread


def crowd(known: Controls, beta: Floats) -> Floats:
    """Return what the load of the cluster did to the log times by coefficients *beta* [q].

    In numbers [3] that hold for runs of other days too: by one more activation, by one of its root, and what both
    come to at the usual load.
    """
    at = [place for place, name in enumerate(known.name) if name == _CLUSTER]
    if known.everywhere is None or not at:
        return np.zeros(3)
    one, root = beta[at] * _scales(known.everywhere)
    return np.array([one, root, one * known.everywhere.mean() + root * np.sqrt(known.everywhere).mean()])


def crowded(known: Controls, did: Floats) -> Floats:
    """Return by how much the load of the cluster moved the log time of each run [n]; *did*: `crowd`."""
    if known.everywhere is None:
        return np.zeros(len(known.values))
    found: Floats = did[0] * known.everywhere + did[1] * np.sqrt(known.everywhere) - did[2]
    return found


def moved(known: Controls, beta: Floats) -> dict[str, float]:
    """Return by how much each control moved the log times: the standard deviation of what *beta* [q] makes of it.

    The node type is not among them (its levels are the base), nor are the neighbours on other nodes (the placebos).
    """
    names = [name for name in dict.fromkeys(known.name) if name not in (NODE_TYPE, PLACEBO)]
    columns = {name: [at for at, own in enumerate(known.name) if own == name] for name in names}
    return {name: float(np.std(known.values[:, at] @ beta[at])) for name, at in columns.items()}
