"""One victim's evidence of some days, reduced once to a block: normal equations at a recorded point.

A full fit (`victim.fit_victim`) gives the point around which the model is linear. What lasts stays (the base of each
node type, the slowdowns, the placebos); what belongs to the days alone is integrated out within them (their level,
drift, load, cold starts, nodes, older versions): the Schur complement of mixed model equations (Henderson 1975). What
the load of the cluster did by the full fit is taken off first, so that a day says by how much it differs: a day alone
would pull it towards nothing, and what is left of it would go to whoever ran beside the victim.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference import controls
from featurestore.interference.block_equations import LEVEL_SD, equations
from featurestore.interference.blocks import NO_CODES, Block, Linearisation
from featurestore.interference.control_columns import (
    BESIDE,
    CLUSTER,
    SERIES,
    TYPE,
    Runs,
    centred,
    copied,
    drifting,
    laid_out,
    ranked,
)
from featurestore.interference.controls import HALF_MILLISECOND
from featurestore.interference.ends import Ends
from featurestore.interference.evidence import (
    NO_ENDING,
    Bools,
    Counts,
    Floats,
    Ints,
    Options,
    Singles,
    VictimDesign,
)
from featurestore.interference.normal import Rows

#: Functions that a block met for less than this have no column in it: they are counted, and teach nothing.
LEAST_OVERLAP = 0.5


class _Day(NamedTuple):
    """The runs [n] of a design with their exposures as sparse rows; *version* [n], or [0] where there is one,
    and *ending* [values], or [0] where it is not known."""

    execution: Floats
    start: Floats
    end: Floats
    node: Ints
    node_type: Ints
    cold: Bools
    version: Ints
    indptr: Ints
    indices: Ints
    values: Floats
    ending: Counts


class _Around(NamedTuple):
    """An `evidence.Around`, its arrays empty where nothing is known of the cluster."""

    everywhere: Floats
    columns: Ints
    beside: Singles


class _Point(NamedTuple):
    """The arrays of a `blocks.Linearisation`."""

    types: Ints
    base: Floats
    columns: Ints
    slowdown: Floats
    crowd: Floats


class _Reduced(NamedTuple):
    """What a `Block` says, by the names that it has there; *there* [q] tells which kernels any of the *rows* ran
    under, and *under* [q] the share of their information of each."""

    met: Ints
    overlaps: Floats
    activations: Floats
    types: Ints
    columns: Ints
    gram: Floats
    pull: Floats
    rows: int
    gap: float
    weight: float
    there: Bools
    under: Floats


def reduce(
    day: VictimDesign,
    point: Linearisation,
    options: Options | None = None,
    version: str = "",
    ran: tuple[Sequence[str], Ints] | None = None,
) -> Block:
    """Reduce the evidence of some days (one block) to its normal equations at *point*.

    Rows on node types that the point does not know take no part: they ask for a full fit. *version* names the
    victim's version and limits, which are the same for all rows. *ran*, where kernels of nodes are known: their
    names, and the code [n] of the one that each row ran under, -1 where not known.
    """
    options = options or Options()
    rows = _taking_part(day.execution, day.node_type, point.types)
    series = controls.series(day, rows)
    names, ran_under = ran or ((), NO_CODES)
    found = _reduced(
        _Day(
            day.execution,
            day.start,
            day.end,
            day.node,
            day.node_type,
            day.cold,
            NO_CODES if day.version is None else day.version,
            day.indptr,
            day.indices,
            day.values,
            day.ending if point.ends and day.ending is not None else NO_ENDING,
        ),
        rows,
        _Around(np.zeros(0), NO_CODES, np.zeros((0, 0), np.float32))
        if day.around is None
        else _Around(day.around.everywhere, day.around.columns, day.around.beside),
        np.stack(list(series.values()), axis=1) if series else np.zeros((len(rows), 0)),
        _Point(point.types, point.base, point.columns, point.slowdown, point.crowd),
        (ran_under, len(names)),
        (options.huber * point.noise, point.noise),
        (options.stretch, options.max_columns, options.blocks),
        controls.precisions(),
    )
    kernels = sorted((names[code], code) for code in np.flatnonzero(found.there).tolist())
    block = Block(
        types=found.types,
        columns=found.columns,
        gram=found.gram,
        pull=found.pull,
        rows=float(found.rows),
        met=found.met,
        overlaps=found.overlaps,
        activations=found.activations,
        version=version,
        gap=found.gap,
        weight=found.weight,
        kernels=tuple(name for name, _ in kernels),
    )
    return replace(block, under=found.under[[code for _, code in kernels]] * block.information) if kernels else block


@compiled
def strangers(node_type: Ints, types: Ints) -> int:
    """Return how many rows [n] are of a *node_type* [n] that is none of *types* (ascending)."""
    found = 0
    for kind in node_type:
        at = np.searchsorted(types, kind)
        found += at == len(types) or types[at] != kind
    return found


@compiled
def _taking_part(execution: Floats, node_type: Ints, types: Ints) -> Ints:
    """Return the rows [r] of known times on node *types* (ascending) that the point knows."""
    found = np.empty(len(execution), np.int64)
    r = 0
    for row in range(len(execution)):
        if np.isfinite(execution[row]) and execution[row] >= 0:
            at = np.searchsorted(types, node_type[row])
            if at < len(types) and types[at] == node_type[row]:
                found[r] = row
                r += 1
    return found[:r].copy()


@compiled
def _reduced(
    day: _Day,
    rows: Ints,
    around: _Around,
    series: Floats,
    point: _Point,
    ran: tuple[Ints, int],
    huber_noise: tuple[float, float],
    chosen: tuple[bool, int, int],
    precisions: Floats,
) -> _Reduced:
    """Reduce the *rows* [r]; *series* [r, s] are controls that stand as they are, *chosen* the options stretch,
    max_columns and blocks, *precisions* those of `controls.precisions`."""
    stretch, most, blocks = chosen
    beside, place = ranked(day.indices)
    effective, runs = np.zeros(len(beside)), np.zeros(len(beside))
    for k in range(len(place)):
        effective[place[k]] += day.values[k]
        runs[place[k]] += day.values[k] > 0
    met = np.flatnonzero(runs > 0)
    counted = beside[met], effective[met], runs[met]
    there, under = np.zeros(ran[1], np.bool_), np.zeros(ran[1])
    if len(rows) == 0:
        codes = np.zeros(0, np.int64)
        nothing = np.zeros(0)
        return _Reduced(*counted, codes, codes.copy(), np.zeros((0, 0)), nothing, 0, 0.0, 0.0, there[:0], under)
    own = np.flatnonzero(effective >= LEAST_OVERLAP)
    if len(own) > most:
        own = np.sort(own[np.argsort(-effective[own], kind="mergesort")[:most]])
    columns, m = beside[own], len(own)
    at = np.full(len(beside), -1)
    at[own] = np.arange(m)
    load, last, indptr, indices, values, number = _exposures(rows, day.indptr, at[place], day.values, day.ending)
    everywhere = around.everywhere[rows] if len(around.everywhere) else np.zeros(0)
    cold = day.cold[rows]
    version = day.version[rows] if len(day.version) else day.version
    end = day.end[rows]
    taken = np.log(np.maximum(day.execution[rows], HALF_MILLISECOND))
    laid = laid_out(
        Runs(
            day.start[rows], day.node[rows], day.node_type[rows], cold, version, series, load, everywhere, end, taken
        ),
        blocks,
        m,
    )
    dense, sizes = laid.columns.dense, laid.sizes
    if sizes[BESIDE]:
        copied(dense, dense.shape[1] - m, around.beside, rows, np.searchsorted(around.columns, columns))
    centred(dense, sizes[SERIES])
    kinds, kept = sizes[TYPE], sizes.sum() - sizes[BESIDE]
    y, base = np.empty(len(rows)), np.empty(len(rows))
    for r in range(len(rows)):
        y[r] = np.log(max(day.execution[rows[r]], HALF_MILLISECOND))
        if len(everywhere):
            y[r] -= point.crowd[0] * everywhere[r] + point.crowd[1] * np.sqrt(everywhere[r]) - point.crowd[2]
        base[r] = point.base[np.searchsorted(point.types, day.node_type[rows[r]])]
    believed = np.zeros(m)
    for column in range(m):
        k = np.searchsorted(point.columns, columns[column])
        if k < len(point.columns) and point.columns[k] == columns[column]:
            believed[column] = point.slowdown[k]
    penalty = np.empty(1 + kept - kinds)
    penalty[0] = LEVEL_SD**-2.0
    p = 1
    for group in range(TYPE + 1, BESIDE):
        penalty[p : p + sizes[group]] = precisions[group]
        p += sizes[group]
    ends = Ends(len(day.ending) > 0, number, np.zeros((len(rows), 0)), 0, kept, m if sizes[BESIDE] else 0)
    if sizes[CLUSTER]:
        ends = Ends(
            ends.known, number, drifting(everywhere, last - load), kept - sizes[CLUSTER], kept, ends.neighbours
        )
    gram, pull, residual, weight, squares = equations(
        Rows(indptr, indices, values),
        ends,
        believed,
        stretch,
        base,
        y,
        cold,
        laid.columns,
        (kinds, kept),
        penalty,
        huber_noise,
    )
    size, k = kinds + 2 * m, len(pull)
    whole, pulled_whole = np.zeros((size, size)), np.zeros(size)
    for row in range(k):  # the placebos are those of all columns, or none
        pulled_whole[row] = pull[row]
        for other in range(k):
            whole[row, other] = (gram[row, other] + gram[other, row]) / 2
    warm = len(rows) - cold.sum()
    gap = heavy = total = 0.0
    for r in range(len(rows)):
        if not cold[r] or warm == 0:
            gap += weight[r] * residual[r]
            heavy += weight[r]
        told = weight[r] * squares[r]
        total += told
        code = ran[0][rows[r]] if len(ran[0]) else -1
        if code >= 0:
            there[code] = True
            under[code] += told
    return _Reduced(
        *counted, laid.types, columns, whole, pulled_whole, len(rows), gap, heavy, there, under / max(total, 1e-300)
    )


@compiled
def _exposures(
    rows: Ints, indptr: Ints, column: Ints, values: Floats, ending: Counts
) -> tuple[Floats, Floats, Ints, Ints, Floats, Floats]:
    """Return the sums [r] of *rows* of a sparse matrix, over the runs and, by *ending* (empty: not known), at their
    ends, and of these as sparse rows (indptr, indices, values, at the ends) what has a *column* [values], not -1."""
    found = 0
    for row in range(len(rows)):
        for k in range(indptr[rows[row]], indptr[rows[row] + 1]):
            found += column[k] >= 0
    load, last, starts = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows) + 1, np.int64)
    indices, kept, number = np.empty(found, np.int64), np.empty(found), np.zeros(found)
    at = 0
    for row in range(len(rows)):
        for k in range(indptr[rows[row]], indptr[rows[row] + 1]):
            load[row] += values[k]
            if len(ending):
                last[row] += ending[k]
            if column[k] >= 0:
                indices[at], kept[at] = column[k], values[k]
                if len(ending):
                    number[at] = ending[k]
                at += 1
        starts[row + 1] = at
    return load, last, starts, indices, kept, number
