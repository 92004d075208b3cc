"""Weighted normal equations of control columns beside sparse exposures: each run meets few neighbours.

A run is on one node, in one spell of it, between two knots of a slow change: of most control columns all but few rows
are zero. These are kept as levels and only multiplied where a row is in one.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from featurestore.compiled import compiled, summed
from featurestore.interference.evidence import Bools, Codes, Floats, Ints, Singles
from featurestore.interference.lapack import add_square

#: Rows that are squared at once: those of all parts stay in the processor's cache.
_ROWS = 128


class Columns(NamedTuple):
    """n rows of q = h + d control columns: h levels, in few of which a row is, then d that are *dense* [n, d].

    Row i has *share* [n, s] in the columns *level* [n, s], less the *mean* [h] of each. Every row is in one of the
    first *types* levels, whose means are zero. What takes the time of most passes over the rows is to fetch the dense
    columns from memory: they are kept in single precision, centred, and all sums over them are in double.
    """

    level: Codes
    share: Floats
    mean: Floats
    types: int
    dense: Singles


class Rows(NamedTuple):
    """Sparse rows: those of row i are indptr[i]:indptr[i + 1] of *indices* and *values*."""

    indptr: Ints
    indices: Ints
    values: Floats


class Equations:
    """n rows of control *columns* [n, q] beside the slopes [n, m] that stand where *exposure* [n, m] is not zero.

    A slope is given as its values in the order of the exposure's.
    """

    def __init__(self, columns: Columns, exposure: sparse.csr_matrix) -> None:
        self.columns = columns
        self.aggressors = int(exposure.shape[1])
        self.exposure = Rows(exposure.indptr.astype(np.int64), exposure.indices.astype(np.int64), exposure.data)

    def weighed(
        self, slope: Floats, level: Floats, inside: Bools, whole: Floats, drifts: Floats, much: float
    ) -> Floats:
        """Return the gram [q + m, q + m] of those rows alone that are *inside* [n], of weights *level* [n], with so
        *much* of the products of the slopes' *drifts* (`crossed`).

        *whole* [q, q] is that of the controls of all rows as `squares` has it: few rows are not inside, so that these
        are taken away from it.
        """
        weight = level * inside
        left = np.flatnonzero((level > 0) & ~inside)
        if 3 * len(left) > np.count_nonzero(level):
            own = square(self.columns, np.flatnonzero(weight), weight)
        else:
            own = whole - square(self.columns, left, level)
        exposure = self.exposure
        cross, inner = crossed(
            self.columns, exposure.indptr, exposure.indices, slope, weight, self.aggressors, drifts, much
        )
        return joined(own, cross, inner, self.columns)

    def summed(self, slope: Floats, value: Floats, cluster: Ints, clusters: int) -> Floats:
        """Return the sums [clusters, q + m] of the rows of each cluster by their *value* [n]."""
        return _summed(self.columns, self.exposure, slope, value, cluster, clusters, self.aggressors)


@compiled
def width(columns: Columns) -> int:
    """Return the number of columns q."""
    found: int = len(columns.mean) + columns.dense.shape[1]
    return found


@compiled
def square(columns: Columns, rows: Ints, weight: Floats) -> Floats:
    """Return the products [q, q] of some *rows* of *weight* [n], their means not yet taken off (`joined`)."""
    found: Floats = squares(columns, rows, weight, np.zeros(len(weight), np.int64), 1)[0]
    return found


@compiled
def squares(columns: Columns, rows: Ints, weight: Floats, part: Ints, parts: int) -> Floats:
    """Return the products [parts, q, q] of the *rows* of each *part* [n], of *weight* [n], their means not yet taken
    off: those of the dense columns some rows at a time."""
    level, share, dense = columns.level, columns.share, columns.dense
    h, d, each = len(columns.mean), dense.shape[1], level.shape[1]
    inner, outer = np.zeros((parts, d, d)), np.zeros((parts, h, h + d))
    waiting = np.empty((parts, min(len(rows), _ROWS), d))
    held = np.zeros(parts, np.int64)
    for row in rows:
        own, by = part[row], weight[row]
        root, given = np.sqrt(by), dense[row]
        kept = waiting[own, held[own]]
        for c in range(d):
            kept[c] = root * given[c]
        held[own] += 1
        if held[own] == _ROWS:
            add_square(waiting[own], inner[own])
            held[own] = 0
        for k in range(each):
            much = by * share[row, k]
            if much != 0.0:
                to = outer[own, np.uint64(level[row, k])]
                for other in range(each):
                    to[np.uint64(level[row, other])] += much * share[row, other]
                rest = to[h:]
                for c in range(d):
                    rest[c] += much * given[c]
    found = np.empty((parts, h + d, h + d))
    for own in range(parts):
        add_square(waiting[own, : held[own]], inner[own])
        found[own, :h] = outer[own]
        found[own, h:, :h] = outer[own, :, h:].T
        for row in range(d):
            for c in range(row + 1):
                found[own, h + row, h + c] = found[own, h + c, h + row] = inner[own, row, c]
    return found


@compiled
def along(columns: Columns, value: Floats) -> Floats:
    """Return the sums [q] of the rows by their *value* [n]."""
    level, share, mean, dense = columns.level, columns.share, columns.mean, columns.dense
    h, d = len(mean), dense.shape[1]
    found = np.zeros(h + d)
    rest = found[h:]
    for row in range(len(value)):
        for k in range(level.shape[1]):
            found[np.uint64(level[row, k])] += value[row] * share[row, k]
        for c in range(d):
            rest[c] += value[row] * dense[row, c]
    one = found[: columns.types].sum()
    for k in range(h):
        found[k] -= mean[k] * one
    return found


@summed
def product(columns: Columns, beta: Floats) -> Floats:
    """Return what coefficients *beta* [q] make of each row [n]."""
    level, share, mean, dense = columns.level, columns.share, columns.mean, columns.dense
    h = len(mean)
    found = np.empty(len(dense))
    rest, off = beta[h:], np.sum(mean * beta[:h])
    d = len(rest) if rest.any() else 0  # where a fit begins the dense columns do nothing yet
    for row in range(len(found)):
        total = -off
        for k in range(level.shape[1]):
            total += share[row, k] * beta[np.uint64(level[row, k])]
        for c in range(d):
            total += dense[row, c] * rest[c]
        found[row] = total
    return found


@compiled
def stretched(
    indptr: Ints, indices: Ints, exposure: Floats, slowdown: Floats, stretch: bool, least: float
) -> tuple[Floats, Floats]:
    """Return the stretched times [n] (1: undisturbed), *least* at least, and the slopes of their logs."""
    total = np.empty(len(indptr) - 1)
    slope = np.empty(len(exposure))
    for i in range(len(total)):
        found = 1.0
        for k in range(indptr[i], indptr[i + 1]):
            own = slowdown[np.uint64(indices[k])]
            by = 1.0 / (1.0 + own * max(0.0, 1.0 - exposure[k])) if stretch else 1.0
            found += exposure[k] * by * own
            slope[k] = exposure[k] * by * by
        total[i] = max(found, least)
        by = 1.0 / total[i]
        for k in range(indptr[i], indptr[i + 1]):
            slope[k] *= by
    return total, slope


@compiled
def crossed(
    columns: Columns,
    indptr: Ints,
    indices: Ints,
    slope: Floats,
    weight: Floats,
    aggressors: int,
    drifts: Floats,
    much: float,
) -> tuple[Floats, Floats]:
    """Return the weighted products of the slopes with the controls [m, q], their means not yet taken off, and with
    each other [m, m], these with so *much* of the products of their *drifts* (`ends.drifts`) in rows of any weight. A
    row has each of its *aggressors* once."""
    level, share, dense = columns.level, columns.share, columns.dense
    h, d, each = len(columns.mean), dense.shape[1], level.shape[1]
    cross = np.zeros((aggressors, h + d))
    inner = np.zeros((aggressors, aggressors))
    places, shares = np.empty(each, np.uint64), np.empty(each)  # what cannot be negative is not looked at for that
    for i in range(len(weight)):
        if weight[i] == 0.0:
            continue
        given = dense[i]
        for own in range(each):
            places[own], shares[own] = np.uint64(level[i, own]), weight[i] * share[i, own]
        for k in range(indptr[i], indptr[i + 1]):
            by = weight[i] * slope[k]
            to, beside = cross[np.uint64(indices[k])], inner[np.uint64(indices[k])]
            drift = much * drifts[k]
            for own in range(each):
                to[places[own]] += shares[own] * slope[k]
            rest = to[h:]
            for c in range(d):
                rest[c] += by * given[c]
            for other in range(indptr[i], k + 1):
                beside[np.uint64(indices[other])] += by * slope[other] + drift * drifts[other]
    for row in range(aggressors):  # of each two neighbours of a run one place has their product
        for c in range(row):
            inner[row, c] = inner[c, row] = inner[row, c] + inner[c, row]
    return cross, inner


@compiled
def joined(own: Floats, cross: Floats, inner: Floats, columns: Columns) -> Floats:
    """Return the gram [q + m, q + m] of the products of the controls *own* [q, q], of the slopes with them *cross*
    [m, q] and with each other *inner* [m, m], the means of the levels taken off."""
    q, m, mean = len(own), len(inner), columns.mean
    found = np.empty((q + m, q + m))
    found[:q, :q] = own
    found[q:, :q] = cross
    centre(found[:, :q], columns)
    found[:q, q:] = found[q:, :q].T
    for k in range(columns.types, len(mean)):
        for row in range(columns.types):
            for c in range(q):
                found[k, c] -= mean[k] * found[row, c]
    found[q:, q:] = inner
    return found


@compiled
def centre(sums: Floats, columns: Columns) -> None:
    """Take off from *sums* [any, q] over the columns what the means of the levels make of them."""
    mean, types = columns.mean, columns.types
    for row in range(len(sums)):
        one = 0.0
        for k in range(types):
            one += sums[row, k]
        for k in range(types, len(mean)):
            sums[row, k] -= mean[k] * one


@compiled
def pulled(indptr: Ints, indices: Ints, slope: Floats, value: Floats, columns: int) -> Floats:
    found = np.zeros(columns)
    for i in range(len(value)):
        for k in range(indptr[i], indptr[i + 1]):
            found[np.uint64(indices[k])] += value[i] * slope[k]
    return found


@compiled
def _summed(
    columns: Columns, exposure: Rows, slope: Floats, value: Floats, cluster: Ints, clusters: int, aggressors: int
) -> Floats:
    level, share, dense = columns.level, columns.share, columns.dense
    indptr, indices = exposure.indptr, exposure.indices
    h, d = len(columns.mean), dense.shape[1]
    found = np.zeros((clusters, h + d + aggressors))
    for i in range(len(value)):
        to = found[cluster[i]]
        rest, beside = to[h : h + d], to[h + d :]
        for k in range(level.shape[1]):
            to[np.uint64(level[i, k])] += value[i] * share[i, k]
        for c in range(d):
            rest[c] += value[i] * dense[i, c]
        for k in range(indptr[i], indptr[i + 1]):
            beside[np.uint64(indices[k])] += value[i] * slope[k]
    centre(found, columns)
    return found
