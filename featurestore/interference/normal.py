"""Weighted normal equations of dense controls beside sparse exposures: each run meets few of a victim's neighbours.

What the weights change little is not summed again: the controls are the same at each turn, and of robust weights
nearly all are one, so that only the rows whose weight is less are taken away from the sum over all.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from featurestore.compiled import compiled
from featurestore.interference.evidence import Floats, Ints


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
        self._level: Floats | None = None
        self._whole = np.zeros((0, 0))

    def gram(self, slope: Floats, weight: Floats, ratio: Floats) -> Floats:
        """Return the gram [q + m, q + m] of the rows over *ratio* [n], of *weight* [n] of at most one each."""
        level = 1.0 / ratio**2
        less = np.flatnonzero(weight < 1.0)
        if 3 * len(less) > len(weight):
            return self.weighed(slope, weight * level)
        if self._level is None or not np.array_equal(level, self._level):
            self._level, self._whole = level, _square(self.controls, level)
        own = self._whole - _square(self.controls[less], ((1.0 - weight) * level)[less])
        return self._joined(own, slope, weight * level)

    def weighed(self, slope: Floats, weight: Floats) -> Floats:
        """Return the gram [q + m, q + m] of rows of any *weight* [n], summed anew."""
        some = np.flatnonzero(weight)
        return self._joined(_square(self.controls[some], weight[some]), slope, weight)

    def pull(self, slope: Floats, value: Floats) -> Floats:
        """Return the sums [q + m] of the rows by their *value* [n]."""
        exposure = self.exposure
        own = _pulled(exposure.indptr, exposure.indices, slope, value, self.columns)
        return np.concatenate([value @ self.controls, own])

    def summed(self, slope: Floats, value: Floats, cluster: Ints, clusters: int) -> Floats:
        """Return the sums [clusters, q + m] of the rows of each cluster by their *value* [n]."""
        exposure = self.exposure
        return _summed(
            self.controls, exposure.indptr, exposure.indices, slope, value, cluster, clusters, self.columns
        )

    def _joined(self, own: Floats, slope: Floats, weight: Floats) -> Floats:
        exposure = self.exposure
        cross, square = _crossed(self.controls, exposure.indptr, exposure.indices, slope, weight, self.columns)
        return np.block([[own, cross.T], [cross, square]])


def _square(rows: Floats, weight: Floats) -> Floats:
    rooted = rows * np.sqrt(weight)[:, None]
    found: Floats = rooted.T @ rooted  # a matrix by itself: half of the work
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
def _crossed(
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
def _pulled(indptr: Ints, indices: Ints, slope: Floats, value: Floats, columns: int) -> Floats:
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
