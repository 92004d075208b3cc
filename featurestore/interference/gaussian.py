"""Inverses of positive definite matrices that may be singular, without warnings."""

import numpy as np
from scipy import linalg

from featurestore.interference.evidence import Floats


def inverse(matrix: Floats) -> Floats:
    """Return the inverse of a symmetric matrix [k, k] that is positive definite but for rounding.

    The matrix is scaled to a unit diagonal; a singular one gets the least ridge that makes it invertible, so that
    a direction of which nothing is known comes out with a very large variance.
    """
    size = np.sqrt(np.maximum(np.diag(matrix), 1e-12))
    scaled = matrix / np.outer(size, size)
    eye = np.eye(len(size))
    for ridge in (1e-11, 1e-8, 1e-5, 1e-2):
        try:
            factor = linalg.cho_factor(scaled + ridge * eye, check_finite=False)
        except linalg.LinAlgError:
            continue
        found: Floats = linalg.cho_solve(factor, eye, check_finite=False) / np.outer(size, size)
        return found
    return np.diag(1.0 / size**2)
