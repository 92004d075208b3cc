"""Inverses of positive definite matrices by their Cholesky factors, compiled and without the interpreter's lock."""

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.evidence import Floats
from featurestore.interference.lapack import factored, invert


@compiled
def inverted(matrix: Floats, more: Floats) -> tuple[Floats, Floats]:
    """Return a factor [p, p] of the inverse of *matrix* [p, p] with *more* [p] on its diagonal, and the ridge [p].

    The inverse is ``factor @ factor.T``, *factor* an upper triangle with zeros below. As `gaussian.inverse`: the
    matrix is scaled to a unit diagonal and gets the least ridge that a Cholesky factor exists of; where none does,
    only the diagonal counts.
    """
    p = len(more)
    upper, size, ridge = _factor(matrix, more)
    invert(upper)
    added = np.empty(p)
    for row in range(p):
        added[row] = ridge * size[row] ** 2
        for other in range(row, p):
            upper[row, other] /= size[row]
    return upper, added


@compiled
def mean(matrix: Floats, more: Floats, pull: Floats) -> Floats:
    """Return the inverse of *matrix* [p, p] with *more* [p] on its diagonal times *pull* [p]: a third of the work of
    the inverse itself."""
    upper, size, _ = _factor(matrix, more)
    return _leaned(upper, size, pull)


@compiled
def conditional(matrix: Floats, more: Floats, pull: Floats, first: int) -> tuple[Floats, Floats]:
    """Return what `mean` does, and of the coefficients from *first* on the precision [p - first, p - first], all
    others integrated out: the product of the last rows of the Cholesky factor, without any inverse."""
    upper, size, _ = _factor(matrix, more)
    last = upper[first:, first:] * size[first:]
    return _leaned(upper, size, pull), last.T @ last


@compiled
def _leaned(upper: Floats, size: Floats, pull: Floats) -> Floats:
    """Return the *pull* [p] times the inverse of the matrix of which *upper* [p, p] and *size* [p] are the factor."""
    p = len(pull)
    found: Floats = pull / size
    for row in range(p):
        found[row] /= upper[row, row]
        for other in range(row + 1, p):
            found[other] -= upper[row, other] * found[row]
    for row in range(p - 1, -1, -1):
        for other in range(row + 1, p):
            found[row] -= upper[row, other] * found[other]
        found[row] /= upper[row, row]
    for row in range(p):
        found[row] /= size[row]
    return found


@compiled
def _factor(matrix: Floats, more: Floats) -> tuple[Floats, Floats, float]:
    """Return the factor [p, p] of the scaled matrix, the scale [p] and the ridge that it took.

    Where none did, the ridge is 0 and the factor that of the diagonal alone.
    """
    p = len(more)
    size = np.empty(p)
    for row in range(p):
        size[row] = np.sqrt(max(matrix[row, row] + more[row], 1e-12))
    upper = np.empty((p, p))
    for ridge in (1e-11, 1e-8, 1e-5, 1e-2):
        for row in range(p):
            for other in range(row):
                upper[row, other] = 0.0
            for other in range(row, p):
                upper[row, other] = matrix[row, other] / (size[row] * size[other])
            upper[row, row] = (matrix[row, row] + more[row]) / (size[row] * size[row]) + ridge
        if factored(upper):
            return upper, size, ridge
    return np.eye(p), size, 0.0


@compiled
def solved(factor: Floats, pull: Floats) -> Floats:
    """Return the inverse of which `inverted` gave the *factor* [p, p], times *pull* [p]."""
    p = len(pull)
    lean, found = np.zeros(p), np.zeros(p)
    for row in range(p):
        for other in range(row, p):
            lean[other] += factor[row, other] * pull[row]
    for row in range(p):
        for other in range(row, p):
            found[row] += factor[row, other] * lean[other]
    return found


@compiled
def squared(factor: Floats) -> Floats:
    """Return the diagonal [p] of the inverse of which `inverted` gave the *factor* [p, p]."""
    found = np.zeros(len(factor))
    for row in range(len(factor)):
        for other in range(row, len(factor)):
            found[row] += factor[row, other] ** 2
    return found
