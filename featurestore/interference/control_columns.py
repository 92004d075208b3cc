"""The control columns of one victim's runs, compiled: with some dozens of runs the calls took more than the columns.

Which columns there are is `controls.build`'s; here they are laid out and centred, from plain arrays. Nothing holds
the interpreter's lock, so that victims are worked on side by side.
"""

from typing import NamedTuple

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.evidence import Bools, Floats, Ints

#: The groups of columns in their order: those that are not penalised first.
GROUPS = 12
(TYPE, COLD, VERSION, SERIES, LOAD, HOUR, SLOW, NODE, SPELL, CLUSTER, BESIDE, _) = range(GROUPS)
_FIXED = LOAD
_DAY = 86400.0
#: Levels of the load above which more of it counts.
_KNOTS = (0.6, 0.85, 0.95)


class Rows(NamedTuple):
    """What the columns of n runs are made of: *series* [n, s] that stand as they are, *everywhere* [n] (or [0]) how
    many ran in the whole cluster, *beside* [n, m] the neighbours' runs there (or [n, 0])."""

    start: Floats
    node: Ints
    node_type: Ints
    cold: Bools
    version: Ints
    series: Floats
    load: Floats
    everywhere: Floats
    beside: Floats


class Columns(NamedTuple):
    """*values* [n, q]; how many of each of the `GROUPS` there are, *sizes*; the node *types* in order of their
    columns; the *cluster* of the errors and the time *block* of each run [n]."""

    values: Floats
    sizes: Ints
    types: Ints
    cluster: Ints
    block: Ints


@compiled
def laid_out(rows: Rows, blocks: int) -> Columns:
    """Return the columns of *rows*, in so many time *blocks* over their window."""
    n = len(rows.start)
    types, type_of = ranked(rows.node_type)
    nodes, node_of = ranked(rows.node)
    versions, version_of = ranked(rows.version)
    first, last = rows.start.min(), rows.start.max()
    window = last - first
    width = max(window, 1.0)
    position = (rows.start - first) / width
    block = np.empty(n, np.int64)
    for row in range(n):
        block[row] = min(int(position[row] * blocks), blocks - 1)
    cold = 0
    for row in range(n):
        cold += rows.cold[row]
    days = min(max(n // (30 * len(nodes)), 0), 12)
    spells, spell_of = ranked(rows.node * days + block * days // blocks) if days > 1 else (nodes, node_of)
    clustered = len(rows.everywhere) > 0 and len(nodes) > 1
    sizes = np.zeros(GROUPS, np.int64)
    sizes[TYPE] = len(types)
    sizes[COLD] = 1 if 0 < cold < n else 0
    sizes[VERSION] = max(len(versions) - 1, 0)
    sizes[SERIES] = rows.series.shape[1]
    sizes[LOAD] = len(_KNOTS) if rows.load.max() - rows.load.min() > 1e-9 else 0
    sizes[HOUR] = 4 if window > 1.5 * _DAY else 0
    sizes[SLOW] = min(max(n // 25, 6), blocks)
    sizes[NODE] = len(nodes) if len(nodes) > 1 else 0
    sizes[SPELL] = len(spells) if days > 1 else 0
    sizes[CLUSTER] = 2 if clustered else 0
    sizes[BESIDE] = rows.beside.shape[1] if clustered else 0
    at = np.zeros(GROUPS + 1, np.int64)
    for group in range(GROUPS):
        at[group + 1] = at[group] + sizes[group]
    values = np.zeros((n, at[GROUPS]))
    by = scales(rows.everywhere) if clustered else np.ones(2)
    knots = np.zeros(0)
    if sizes[LOAD]:
        ordered = np.sort(rows.load)
        knots = np.array([_quantile(ordered, level) for level in _KNOTS])
    for row in range(n):
        own = values[row]
        own[at[TYPE] + type_of[row]] = 1.0
        if sizes[COLD]:
            own[at[COLD]] = 1.0 if rows.cold[row] else 0.0
        if sizes[VERSION] and version_of[row] > 0:
            own[at[VERSION] + version_of[row] - 1] = 1.0
        for column in range(sizes[SERIES]):
            own[at[SERIES] + column] = rows.series[row, column]
        for column in range(sizes[LOAD]):
            own[at[LOAD] + column] = max(0.0, rows.load[row] - knots[column])
        if sizes[HOUR]:
            angle = 2 * np.pi * (rows.start[row] % _DAY) / _DAY
            for column in range(2):
                own[at[HOUR] + 2 * column] = np.sin((column + 1) * angle)
                own[at[HOUR] + 2 * column + 1] = np.cos((column + 1) * angle)
        along = position[row] * (sizes[SLOW] - 1)
        low = int(along)
        for knot in range(low, min(low + 2, sizes[SLOW])):
            own[at[SLOW] + knot] = max(0.0, 1.0 - abs(along - knot))
        if sizes[NODE]:
            own[at[NODE] + node_of[row]] = 1.0
        if sizes[SPELL]:
            own[at[SPELL] + spell_of[row]] = 1.0
        if clustered:
            own[at[CLUSTER]] = rows.everywhere[row] * by[0]
            own[at[CLUSTER] + 1] = np.sqrt(rows.everywhere[row]) * by[1]
            for column in range(sizes[BESIDE]):
                own[at[BESIDE] + column] = rows.beside[row, column]
    _centre(values, at[_FIXED])
    return Columns(values, sizes, types, ranked(rows.node * blocks + block)[1], block)


@compiled
def scales(everywhere: Floats) -> Floats:
    """Return by what the load of the cluster and its root are multiplied [2], so that both move alike at its mean."""
    spread = max(float(np.std(everywhere)), 1e-6)
    return np.array([1.0 / spread, 2 * np.sqrt(np.mean(everywhere)) / spread])


@compiled
def ranked(codes: Ints) -> tuple[Ints, Ints]:
    """Return the different *codes* [n] in order and which of them each is [n]; codes lie close together."""
    if len(codes) == 0:
        return codes, codes
    least = codes.min()
    there = np.zeros(codes.max() - least + 1, np.int64)
    for code in codes:
        there[code - least] = 1
    present = np.flatnonzero(there) + least
    for place in range(len(present)):
        there[present[place] - least] = place
    found = np.empty(len(codes), np.int64)
    for row in range(len(codes)):
        found[row] = there[codes[row] - least]
    return present, found


@compiled
def _quantile(ordered: Floats, level: float) -> float:
    """Return a quantile of *ordered* values, linear between order statistics."""
    position = level * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    share = position - low
    step: float = ordered[high] - ordered[low]
    found: float = ordered[low] + step * share if share < 0.5 else ordered[high] - step * (1.0 - share)
    return found


@compiled
def _centre(values: Floats, first: int) -> None:
    """Take from each column from the *first* on its mean."""
    n, q = values.shape
    mean = np.zeros(q - first)
    for row in range(n):
        for column in range(first, q):
            mean[column - first] += values[row, column]
    mean /= n
    for row in range(n):
        for column in range(first, q):
            values[row, column] -= mean[column - first]
