"""Inverses of positive definite matrices that may be singular, without warnings."""

import functools

import numpy as np
from scipy.linalg import lapack

from featurestore.interference.evidence import Bools, Floats


def inverse(matrix: Floats) -> Floats:
    """Return the inverse of a symmetric matrix [k, k] that is positive definite but for rounding.

    The matrix is scaled to a unit diagonal; a singular one gets the least ridge that makes it invertible, so that
    a direction of which nothing is known comes out with a very large variance. By LAPACK's potrf and potri, whose
    wrappers with checks would take longer than the small matrices themselves.
    """
    k = len(matrix)
    if k == 0:
        return np.zeros((0, 0))  # LAPACK would complain on standard output
    size = np.sqrt(np.maximum(matrix.diagonal(), 1e-12))
    outer = size[:, None] * size
    for ridge in (1e-11, 1e-8, 1e-5, 1e-2):
        scaled = matrix / outer
        scaled.ravel()[:: k + 1] += ridge
        factor, failed = lapack.dpotrf(scaled.T, lower=0, clean=0, overwrite_a=1)  # symmetric: no copy
        if failed:
            continue
        half, _ = lapack.dpotri(factor, lower=0, overwrite_c=1)
        found: Floats = np.where(_upper(k), half, half.T) / outer
        return found
    return np.diag(1.0 / size**2)


@functools.lru_cache(64)
def _upper(k: int) -> Bools:
    """Return where the upper triangle of a matrix [k, k] is."""
    return np.triu(np.ones((k, k), bool))
