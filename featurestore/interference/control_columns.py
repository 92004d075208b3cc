"""The control columns of one victim's runs, compiled: with some dozens of runs the calls took more than the columns.

Which columns there are is `controls.build`'s; here they are laid out, from plain arrays. Nothing holds
the interpreter's lock, so that victims are worked on side by side.
"""

from typing import NamedTuple

import numpy as np

from featurestore.compiled import compiled, summed
from featurestore.interference.evidence import Bools, Floats, Ints, Singles
from featurestore.interference.normal import Columns
from featurestore.interference.paces import pace

#: The groups of columns in their order: first the levels, in few of which a row is, the others are dense.
GROUPS = 12
(TYPE, COLD, VERSION, SLOW, NODE, SPELL, SERIES, PACE, LOAD, HOUR, CLUSTER, BESIDE) = range(GROUPS)
#: The groups that are not penalised.
FIXED = (TYPE, COLD, VERSION, SERIES)
_DAY = 86400.0
#: Levels of the load above which more of it counts.
_KNOTS = (0.6, 0.85, 0.95)


class Runs(NamedTuple):
    """What the columns of n runs are made of: *series* [n, s] that stand as they are, *everywhere* [n] (or [0]) how
    many ran in the whole cluster, *time* [n] the log of how long they took."""

    start: Floats
    node: Ints
    node_type: Ints
    cold: Bools
    version: Ints
    series: Floats
    load: Floats
    everywhere: Floats
    end: Floats
    time: Floats


class Layout(NamedTuple):
    """The *columns* [n, q]; how many of each of the `GROUPS` there are, *sizes*; the node *types* in order of their
    columns; the *cluster* of the errors and the time *block* of each run [n]."""

    columns: Columns
    sizes: Ints
    types: Ints
    cluster: Ints
    block: Ints


@compiled
def laid_out(rows: Runs, blocks: int, beside: int) -> Layout:
    """Return the columns of *rows*, in so many time *blocks* over their window.

    The last *beside* are empty, for the neighbours' runs in the whole cluster; these and the other dense columns are
    still to be centred (`centred`). There are none where all runs are of one node.
    """
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
    sizes[SLOW] = min(max(n // 25, 6), blocks)
    sizes[NODE] = len(nodes) if len(nodes) > 1 else 0
    sizes[SPELL] = len(spells) if days > 1 else 0
    sizes[SERIES] = rows.series.shape[1]
    begun, ended = np.argsort(rows.start, kind="mergesort"), np.argsort(rows.end, kind="mergesort")
    load = _lasting(rows.start, rows.end, node_of, len(nodes), rows.load, begun, ended)
    kind = 2 * type_of + rows.cold
    about = pace(rows.time, rows.start, rows.end, node_of, len(nodes), kind, begun, ended)
    sizes[PACE] = 1 if about.max() - about.min() > 1e-9 else 0
    sizes[LOAD] = len(_KNOTS) if load.max() - load.min() > 1e-9 else 0
    sizes[HOUR] = 4 if window > 1.5 * _DAY else 0
    sizes[CLUSTER] = 2 if clustered else 0
    sizes[BESIDE] = beside if clustered else 0
    at = np.zeros(GROUPS + 1, np.int64)
    for group in range(GROUPS):
        at[group + 1] = at[group] + sizes[group]
    levels = at[SERIES]
    own = np.zeros(SERIES + 1, np.int64)  # where a row's levels of each group stand: two knots, one of the others
    for group in range(SERIES):
        own[group + 1] = own[group] + (min(sizes[group], 1) if group != SLOW else 2)
    level, share = np.zeros((n, own[SERIES]), np.int32), np.zeros((n, own[SERIES]))
    dense = np.empty((n, at[GROUPS] - levels), np.float32)
    by = scales(rows.everywhere) if clustered else np.ones(2)
    knots = np.zeros(0)
    if sizes[LOAD]:
        ordered = np.sort(load)
        knots = np.array([_quantile(ordered, each) for each in _KNOTS])
    for row in range(n):
        level[row, own[TYPE]], share[row, own[TYPE]] = at[TYPE] + type_of[row], 1.0
        if sizes[COLD] and rows.cold[row]:
            level[row, own[COLD]], share[row, own[COLD]] = at[COLD], 1.0
        if sizes[VERSION] and version_of[row] > 0:
            level[row, own[VERSION]], share[row, own[VERSION]] = at[VERSION] + version_of[row] - 1, 1.0
        along = position[row] * (sizes[SLOW] - 1)
        low = min(int(along), sizes[SLOW] - 1)
        level[row, own[SLOW]], share[row, own[SLOW]] = at[SLOW] + low, 1.0 - (along - low)
        if low + 1 < sizes[SLOW]:
            level[row, own[SLOW] + 1], share[row, own[SLOW] + 1] = at[SLOW] + low + 1, along - low
        if sizes[NODE]:
            level[row, own[NODE]], share[row, own[NODE]] = at[NODE] + node_of[row], 1.0
        if sizes[SPELL]:
            level[row, own[SPELL]], share[row, own[SPELL]] = at[SPELL] + spell_of[row], 1.0
        for column in range(sizes[SERIES]):
            dense[row, column] = rows.series[row, column]
        if sizes[PACE]:
            dense[row, at[PACE] - levels] = about[row]
        for column in range(sizes[LOAD]):
            dense[row, at[LOAD] - levels + column] = max(0.0, load[row] - knots[column])
        if sizes[HOUR]:
            angle = 2 * np.pi * (rows.start[row] % _DAY) / _DAY
            sine, cosine = np.sin(angle), np.cos(angle)
            hour = dense[row, at[HOUR] - levels :]
            hour[0], hour[1] = sine, cosine  # once a day, then twice
            hour[2], hour[3] = 2 * sine * cosine, 1.0 - 2 * sine**2
        if clustered:
            dense[row, at[CLUSTER] - levels] = rows.everywhere[row] * by[0]
            dense[row, at[CLUSTER] - levels + 1] = np.sqrt(rows.everywhere[row]) * by[1]
    mean = np.zeros(levels)
    for row in range(n):
        for column in range(own[SLOW], own[SERIES]):
            mean[level[row, column]] += share[row, column] / n
    mean[: at[SLOW]] = 0.0
    columns = Columns(level, share, mean, len(types), dense)
    return Layout(columns, sizes, types, ranked(rows.node * blocks + block)[1], block)


@compiled
def _lasting(start: Floats, end: Floats, node: Ints, nodes: int, load: Floats, begun: Ints, ended: Ints) -> Floats:
    """Return how loaded each run's [n] node was around it: the mean *load* of the last run there that had ended
    before it began, and of the next that began once it had ended; *begun* and *ended* [n] are the rows by that.

    Its own load is not what is to be held constant. What it was beside is what is asked about, and where few ever run
    at once one neighbour is all of the load. And the longer a run takes, for whatever reason, the nearer to the mean
    is its own load, and the higher that of runs beside it: whatever follows that would be taken for an effect.
    """
    n = len(start)
    total, number, last = np.zeros(n), np.zeros(n), np.full(nodes, -1)
    at = 0
    for row in begun:
        while at < n and end[ended[at]] <= start[row] and ended[at] != row:
            last[node[ended[at]]] = ended[at]
            at += 1
        before = last[node[row]]
        if before >= 0:
            total[row] += load[before]
            number[row] += 1.0
    last[:] = -1
    at = n - 1
    for place in range(n - 1, -1, -1):
        row = ended[place]
        while at >= 0 and start[begun[at]] >= end[row] and begun[at] != row:
            last[node[begun[at]]] = begun[at]
            at -= 1
        after = last[node[row]]
        if after >= 0:
            total[row] += load[after]
            number[row] += 1.0
    usual = load.mean()
    for row in range(n):
        total[row] = total[row] / number[row] if number[row] > 0 else usual
    return total


@compiled
def scales(everywhere: Floats) -> Floats:
    """Return by what the load of the cluster and its root are multiplied [2], so that both move alike at its mean."""
    spread = max(float(np.std(everywhere)), 1e-6)
    return np.array([1.0 / spread, 2 * np.sqrt(np.mean(everywhere)) / spread])


@compiled
def drifting(everywhere: Floats, more: Floats) -> Floats:
    """Return by how much more the two columns of the cluster's load are [n, 2] at the ends of runs than over them,
    where so many *more* [n] ran then than over them. The run itself is among *everywhere* [n]."""
    one, root = scales(everywhere)
    found = np.empty((len(more), 2))
    for row in range(len(more)):
        found[row, 0] = one * more[row]
        found[row, 1] = root * more[row] / (2.0 * np.sqrt(max(everywhere[row], 1.0)))
    return found


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
def copied(dense: Singles, first: int, given: Singles, rows: Ints, place: Ints) -> None:
    """Put *rows* of the columns *place* of what is *given* [any, c] into *dense* [n, d] from column *first* on."""
    places = place.astype(np.uint64)  # what cannot be negative is not looked at for that
    for row in range(len(rows)):
        own, to = given[rows[row]], dense[row, first:]
        for column in range(len(places)):
            to[column] = own[places[column]]


@compiled
def centred(dense: Singles, first: int) -> None:
    """Take from each of the *dense* columns [n, d] from the *first* on its mean."""
    n, d = dense.shape
    mean = np.zeros(d)
    for row in range(n):
        for column in range(d):
            mean[column] += dense[row, column]
    mean /= n
    mean[:first] = 0.0
    for row in range(n):
        for column in range(d):
            dense[row, column] -= mean[column]


@summed
def spreads(columns: Columns, beta: Floats, own: Ints, number: int) -> Floats:
    """Return the standard deviation over the rows of what *beta* [q] makes of the columns of each of so many kinds;
    *own* [q] is the kind of each column, -1: none."""
    level, share, values = columns.level, columns.share, columns.dense
    n, h = len(values), len(columns.mean)
    edges = np.flatnonzero(np.diff(own[h:])) + 1  # columns of one kind stand together
    edges = np.concatenate((np.zeros(1, np.int64), edges, np.full(1, len(own) - h)))
    total, square, each = np.zeros(number), np.zeros(number), np.zeros(number)
    for row in range(n):
        each[:] = 0.0
        for k in range(level.shape[1]):
            column = level[row, k]
            if own[column] >= 0:
                each[own[column]] += beta[column] * share[row, k]
        for k in range(len(edges) - 1):
            first, last, did = edges[k], edges[k + 1], 0.0
            if first < last and own[h + first] >= 0:
                by, much = beta[h + first : h + last], values[row, first:last]
                for column in range(last - first):
                    did += by[column] * much[column]
                each[own[h + first]] += did
        for kind in range(number):
            total[kind] += each[kind]
            square[kind] += each[kind] ** 2
    return np.sqrt(np.maximum(square / n - (total / n) ** 2, 0.0))
