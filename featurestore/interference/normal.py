"""Weighted normal equations of control columns beside sparse exposures: each run meets few neighbours.

A run is on one node, in one spell of it, between two knots of a slow change: of most control columns all but few rows
are zero. These are kept as levels and only multiplied where a row is in one.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from featurestore.compiled import compiled
from featurestore.interference.evidence import Bools, Codes, Floats, Ints

#: Rows that are squared at once: they stay in the processor's cache.
_ROWS = 128


class Columns(NamedTuple):
    """n rows of q = h + d control columns: h levels, in few of which a row is, then d that are *dense* [n, d].

    Row i has *share* [n, s] in the columns *level* [n, s], less the *mean* [h] of each. Every row is in one of the
    first *types* levels, whose means are zero.
    """

    level: Codes
    share: Floats
    mean: Floats
    types: int
    dense: Floats


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
        kept = exposure.copy()
        kept.eliminate_zeros()
        self.exposure = Rows(kept.indptr.astype(np.int64), kept.indices.astype(np.int64), kept.data)

    def weighed(self, slope: Floats, level: Floats, inside: Bools, whole: Floats) -> Floats:
        """Return the gram [q + m, q + m] of those rows alone that are *inside* [n], of weights *level* [n].

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
        cross, inner = crossed(self.columns, exposure.indptr, exposure.indices, slope, weight, self.aggressors)
        return joined(own, cross, inner, self.columns)

    def pull(self, slope: Floats, value: Floats) -> Floats:
        """Return the sums [q + m] of the rows by their *value* [n]."""
        exposure = self.exposure
        own = pulled(exposure.indptr, exposure.indices, slope, value, self.aggressors)
        return np.concatenate([along(self.columns, value), own])

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
        root = np.sqrt(by)
        for c in range(d):
            waiting[own, held[own], c] = root * dense[row, c]
        held[own] += 1
        if held[own] == _ROWS:
            inner[own] += waiting[own].T @ waiting[own]
            held[own] = 0
        for k in range(each):
            much = by * share[row, k]
            if much != 0.0:
                to = outer[own, level[row, k]]
                for other in range(each):
                    to[level[row, other]] += much * share[row, other]
                for c in range(d):
                    to[h + c] += much * dense[row, c]
    found = np.empty((parts, h + d, h + d))
    for own in range(parts):
        if held[own]:
            left = waiting[own, : held[own]]
            inner[own] += left.T @ left
        found[own, :h] = outer[own]
        found[own, h:, :h] = outer[own, :, h:].T
        found[own, h:, h:] = inner[own]
    return found


@compiled
def along(columns: Columns, value: Floats) -> Floats:
    """Return the sums [q] of the rows by their *value* [n]."""
    level, share, mean = columns.level, columns.share, columns.mean
    h = len(mean)
    found = np.zeros(width(columns))
    if len(found) > h:
        found[h:] = value @ columns.dense
    for row in range(len(value)):
        for k in range(level.shape[1]):
            found[level[row, k]] += value[row] * share[row, k]
    one = found[: columns.types].sum()
    for k in range(h):
        found[k] -= mean[k] * one
    return found


@compiled
def product(columns: Columns, beta: Floats) -> Floats:
    """Return what coefficients *beta* [q] make of each row [n]."""
    level, share, mean, dense = columns.level, columns.share, columns.mean, columns.dense
    h = len(mean)
    found = np.zeros(len(dense))
    if len(beta) > h:
        found += dense @ beta[h:]
    found -= np.sum(mean * beta[:h])
    for row in range(len(found)):
        for k in range(level.shape[1]):
            found[row] += share[row, k] * beta[level[row, k]]
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
            by = 1.0 + slowdown[indices[k]] * max(0.0, 1.0 - exposure[k]) if stretch else 1.0
            found += exposure[k] / by * slowdown[indices[k]]
            slope[k] = exposure[k] / by / by
        total[i] = max(found, least)
        for k in range(indptr[i], indptr[i + 1]):
            slope[k] /= total[i]
    return total, slope


@compiled
def crossed(
    columns: Columns, indptr: Ints, indices: Ints, slope: Floats, weight: Floats, aggressors: int
) -> tuple[Floats, Floats]:
    """Return the weighted products of the slopes with the controls [m, q], their means not yet taken off, and with
    each other [m, m]."""
    level, share, dense = columns.level, columns.share, columns.dense
    h, d = len(columns.mean), dense.shape[1]
    cross = np.zeros((aggressors, h + d))
    inner = np.zeros((aggressors, aggressors))
    for i in range(len(weight)):
        if weight[i] == 0.0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            by = weight[i] * slope[k]
            to = cross[indices[k]]
            for own in range(level.shape[1]):
                to[level[i, own]] += by * share[i, own]
            for c in range(d):
                to[h + c] += by * dense[i, c]
            for other in range(indptr[i], indptr[i + 1]):
                inner[indices[k], indices[other]] += by * slope[other]
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
            found[indices[k]] += value[i] * slope[k]
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
        for k in range(level.shape[1]):
            to[level[i, k]] += value[i] * share[i, k]
        for c in range(d):
            to[h + c] += value[i] * dense[i, c]
        for k in range(indptr[i], indptr[i + 1]):
            to[h + d + indices[k]] += value[i] * slope[k]
    centre(found, columns)
    return found
