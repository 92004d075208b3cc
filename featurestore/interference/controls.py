"""What else may have slowed a run: the control columns of one victim's regression.

Groups are random effects (their variance is estimated, zero where the data show none) except ``fixed``.
"""

from dataclasses import dataclass

import numpy as np

from featurestore.interference import control_columns as layout
from featurestore.interference.ends import Ends
from featurestore.interference.evidence import Floats, Ints, Options, VictimDesign
from featurestore.interference.normal import Columns

#: The half of the records' resolution: what a duration of 0 ms stands for, seconds.
HALF_MILLISECOND = 5e-4
#: Columns that are no nuisance: the base of each node type, and the neighbours' runs on other nodes.
NODE_TYPE, PLACEBO = "node type", "same neighbours on other nodes"
_CLUSTER = "load of the cluster"
#: Standard deviations beforehand of the groups' coefficients, in log time (the data move them).
LOAD_SD, TIME_SD, NODE_SD, PLACEBO_SD, PACE_SD = 0.05, 0.05, 0.05, 0.007, 0.1

#: What each group holds constant, in words, and the standard deviation of each random one.
_NAMES = {
    layout.TYPE: NODE_TYPE,
    layout.COLD: "cold start",
    layout.VERSION: "version",
    layout.PACE: "pace of the node",
    layout.LOAD: "load of the node",
    layout.HOUR: "time of day",
    layout.SLOW: "slow change",
    layout.NODE: "node",
    layout.SPELL: "spell of a node",
    layout.CLUSTER: _CLUSTER,
    layout.BESIDE: PLACEBO,
}
_SD = {
    layout.PACE: PACE_SD,
    layout.LOAD: LOAD_SD,
    layout.HOUR: TIME_SD,
    layout.SLOW: TIME_SD,
    layout.NODE: NODE_SD,
    layout.SPELL: NODE_SD,
    layout.CLUSTER: TIME_SD,
    layout.BESIDE: PLACEBO_SD,
}
#: Precision of what is not penalised, where something must be said.
_FREE = 1e-2


@dataclass(frozen=True, slots=True)
class Controls:
    """Control *columns* [n, q], the *group* of each [q], the groups' standard deviations beforehand *sd* [g],
    and the clusters of the errors [n].

    Group 0 (``fixed``) holds those that are not penalised; first come those of the node types (*types*).
    *placebo* [P] are the functions whose cluster-wide concurrency are the last P columns. *name* [q] says in words
    what each column holds constant. *everywhere* [n] is how many activations ran in the whole cluster, where known.
    """

    columns: Columns
    group: Ints
    sd: Floats
    types: Ints
    placebo: Ints
    cluster: Ints
    block: Ints
    name: tuple[str, ...] = ()
    everywhere: Floats | None = None


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


def series(design: VictimDesign, rows: Ints) -> dict[str, Floats]:
    """Return by its name each control [r] of *rows* that stands as it is: what of the pod's pressure is known."""
    given = (("CPU throttling", design.throttled), ("memory pressure", design.pressure))
    return {name: found for name, values in given if (found := _known(values, rows)) is not None}


def precisions() -> Floats:
    """Return the precision beforehand of a coefficient of each of the groups; hardly any where it is free."""
    return np.array([1.0 / _SD[kind] ** 2 if kind in _SD else _FREE for kind in range(layout.GROUPS)])


def build(design: VictimDesign, rows: Ints, load: Floats, columns: Ints, options: Options) -> Controls:
    """Return the controls of *rows* of *design*; *load* [n] is the mean number of other runs on the node.

    The whole cluster's concurrency is the design's, which has all of *columns*, if it has any.

    The load columns are what exceeds the upper levels of how loaded the node was around a run, and not beside it: a
    run's own load is the sum of its exposures, and would take the slowdown that all aggressors have in common.
    """
    start, node = design.start[rows], design.node[rows]
    n = len(rows)
    known = series(design, rows)
    around, everywhere = design.around, np.zeros(0)
    if around is not None:
        everywhere = around.everywhere[rows]
    made = layout.laid_out(
        layout.Runs(
            start,
            node,
            design.node_type[rows],
            design.cold[rows],
            np.zeros(0, np.int64) if design.version is None else design.version[rows],
            np.stack(list(known.values()), axis=1) if known else np.zeros((n, 0)),
            load,
            np.ascontiguousarray(everywhere),
            design.end[rows],
            np.log(np.maximum(design.execution[rows], HALF_MILLISECOND)),
        ),
        options.blocks,
        len(columns),
    )
    sizes, dense = made.sizes.tolist(), made.columns.dense
    if around is not None and sizes[layout.BESIDE]:
        first = dense.shape[1] - len(columns)
        layout.copied(dense, first, around.beside, rows, np.searchsorted(around.columns, columns))
    layout.centred(dense, sizes[layout.SERIES])
    names, group, sd = list[str](), list[int](), [np.inf]
    for kind, size in enumerate(sizes):
        names += known if kind == layout.SERIES else [_NAMES[kind]] * size
        penalised = size and kind not in layout.FIXED
        sd += [_SD[kind]] if penalised else []
        group += [len(sd) - 1 if penalised else 0] * size
    return Controls(
        made.columns,
        np.array(group, np.int64),
        np.array(sd),
        made.types,
        columns if sizes[layout.CLUSTER] else np.zeros(0, np.int64),
        made.cluster,
        made.block,
        tuple(names),
        everywhere if len(everywhere) else None,
    )


def ends(known: Controls, number: Floats, more: Floats) -> Ends:
    """Return who was there when the runs [n] ended: the *number* of each neighbour, as the exposures stand, and how
    many *more* [n] there were than on average over the run, of all functions together.

    What runs on other nodes is taken to be at a run's end what it was over the run."""
    at = [place for place, name in enumerate(known.name) if name == _CLUSTER]
    if known.everywhere is None or not at:
        return Ends(True, number, np.zeros((len(more), 0)), 0, 0, 0)
    drift = layout.drifting(known.everywhere, more)
    return Ends(True, number, drift, at[0], len(known.group) - len(known.placebo), len(known.placebo))


def crowd(known: Controls, beta: Floats) -> Floats:
    """Return what the load of the cluster did to the log times by coefficients *beta* [q].

    In numbers [3] that hold for runs of other days too: by one more activation, by one of its root, and what both
    come to at the usual load.
    """
    at = [place for place, name in enumerate(known.name) if name == _CLUSTER]
    if known.everywhere is None or not at:
        return np.zeros(3)
    one, root = beta[at] * layout.scales(known.everywhere)
    return np.array([one, root, one * known.everywhere.mean() + root * np.sqrt(known.everywhere).mean()])


def crowded(known: Controls, did: Floats) -> Floats:
    """Return by how much the load of the cluster moved the log time of each run [n]; *did*: `crowd`."""
    if known.everywhere is None:
        return np.zeros(len(known.block))
    found: Floats = did[0] * known.everywhere + did[1] * np.sqrt(known.everywhere) - did[2]
    return found


def moved(known: Controls, beta: Floats) -> dict[str, float]:
    """Return by how much each control moved the log times: the standard deviation of what *beta* [q] makes of it.

    The node type is not among them (its levels are the base), nor are the neighbours on other nodes (the placebos).
    """
    names = [name for name in dict.fromkeys(known.name) if name not in (NODE_TYPE, PLACEBO)]
    own = np.array([names.index(name) if name in names else -1 for name in known.name], np.int64)
    found = layout.spreads(known.columns, beta, own, len(names))
    return dict(zip(names, found.tolist(), strict=True))
