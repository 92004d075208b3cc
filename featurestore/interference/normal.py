"""Weighted normal equations of dense controls beside sparse exposures: each run meets few neighbours."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from featurestore.compiled import compiled
from featurestore.interference.evidence import Bools, Floats, Ints

#: Rows that are squared at once: they stay in the processor's cache.
_ROWS = 512


class Rows(NamedTuple):
    """Sparse rows: those of row i are indptr[i]:indptr[i + 1] of *indices* and *values*."""

    indptr: Ints
    indices: Ints
    values: Floats


class Equations:
    """n rows of *controls* [n, q] beside the slopes [n, m] that stand where *exposure* [n, m] is not zero.

    A slope is given as its values in the order of the exposure's.
    """

    def __init__(self, controls: Floats, exposure: sparse.csr_matrix) -> None:
        self.controls = np.ascontiguousarray(controls)
        self.columns = int(exposure.shape[1])
        kept = exposure.copy()
        kept.eliminate_zeros()
        self.exposure = Rows(kept.indptr.astype(np.int64), kept.indices.astype(np.int64), kept.data)

    def weighed(self, slope: Floats, level: Floats, inside: Bools, whole: Floats) -> Floats:
        """Return the gram [q + m, q + m] of those rows alone that are *inside* [n], of weights *level* [n].

        *whole* [q, q] is that of the controls of all rows: few are not inside, so that these are taken away from it.
        """
        weight = level * inside
        left = np.flatnonzero((level > 0) & ~inside)
        if 3 * len(left) > np.count_nonzero(level):
            some = np.flatnonzero(weight)
            return self._joined(square(self.controls[some], weight[some]), slope, weight)
        return self._joined(whole - square(self.controls[left], level[left]), slope, weight)

    def pull(self, slope: Floats, value: Floats) -> Floats:
        """Return the sums [q + m] of the rows by their *value* [n]."""
        exposure = self.exposure
        own = pulled(exposure.indptr, exposure.indices, slope, value, self.columns)
        return np.concatenate([value @ self.controls, own])

    def summed(self, slope: Floats, value: Floats, cluster: Ints, clusters: int) -> Floats:
        """Return the sums [clusters, q + m] of the rows of each cluster by their *value* [n]."""
        exposure = self.exposure
        return _summed(
            self.controls, exposure.indptr, exposure.indices, slope, value, cluster, clusters, self.columns
        )

    def _joined(self, own: Floats, slope: Floats, weight: Floats) -> Floats:
        exposure = self.exposure
        cross, square = crossed(self.controls, exposure.indptr, exposure.indices, slope, weight, self.columns)
        return np.block([[own, cross.T], [cross, square]])


@compiled
def square(rows: Floats, weight: Floats) -> Floats:
    """Return the weighted products [q, q] of *rows* [n, q] of *weight* [n], some rows at a time: no copy of all."""
    n, q = rows.shape
    found = np.zeros((q, q))
    rooted = np.empty((min(n, _ROWS), q))
    for first in range(0, n, _ROWS):
        part = min(_ROWS, n - first)
        for row in range(part):
            by = np.sqrt(weight[first + row])
            for at in range(q):
                rooted[row, at] = by * rows[first + row, at]
        found += rooted[:part].T @ rooted[:part]
    return found


@compiled
def squares(rows: Floats, part: Ints, parts: int) -> Floats:
    """Return the products [parts, q, q] of the *rows* [n, q] of each *part* [n]."""
    n, q = rows.shape
    found = np.zeros((parts, q, q))
    waiting = np.empty((parts, min(n, _ROWS), q))
    held = np.zeros(parts, np.int64)
    for row in range(n):
        own = part[row]
        for at in range(q):
            waiting[own, held[own], at] = rows[row, at]
        held[own] += 1
        if held[own] == _ROWS:
            found[own] += waiting[own].T @ waiting[own]
            held[own] = 0
    for own in range(parts):
        if held[own]:
            left = waiting[own, : held[own]]
            found[own] += left.T @ left
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
    controls: Floats, indptr: Ints, indices: Ints, slope: Floats, weight: Floats, columns: int
) -> tuple[Floats, Floats]:
    """Return the weighted products of the slopes with the controls [m, q] and with each other [m, m]."""
    q = controls.shape[1]
    cross = np.zeros((columns, q))
    square = np.zeros((columns, columns))
    for i in range(len(weight)):
        if weight[i] == 0.0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            by = weight[i] * slope[k]
            to = cross[indices[k]]
            own = controls[i]
            for c in range(q):
                to[c] += by * own[c]
            for other in range(indptr[i], indptr[i + 1]):
                square[indices[k], indices[other]] += by * slope[other]
    return cross, square


@compiled
def pulled(indptr: Ints, indices: Ints, slope: Floats, value: Floats, columns: int) -> Floats:
    found = np.zeros(columns)
    for i in range(len(value)):
        for k in range(indptr[i], indptr[i + 1]):
            found[indices[k]] += value[i] * slope[k]
    return found


@compiled
def _summed(
    controls: Floats,
    indptr: Ints,
    indices: Ints,
    slope: Floats,
    value: Floats,
    cluster: Ints,
    clusters: int,
    columns: int,
) -> Floats:
    q = controls.shape[1]
    found = np.zeros((clusters, q + columns))
    for i in range(len(value)):
        to = found[cluster[i]]
        own = controls[i]
        for c in range(q):
            to[c] += value[i] * own[c]
        for k in range(indptr[i], indptr[i + 1]):
            to[q + indices[k]] += value[i] * slope[k]
    return found
