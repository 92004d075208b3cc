"""Control columns made by hand, and the dense matrix that they stand for."""

import numpy as np

from featurestore.interference.normal import Columns


def columns_of(dense):
    """Return *dense* [n, q] as control columns without levels, and as it is."""
    dense = np.ascontiguousarray(dense, float)
    none = np.zeros((len(dense), 0))
    return Columns(none.astype(np.int32), none, np.zeros(0), 0, dense), dense


def mixed(draw, n, d, nodes):
    """Return control columns of two types, of a place between some *nodes* that is centred, and of *d* dense ones;
    and the matrix [n, 2 + nodes + d] that they stand for."""
    own, share = draw.integers(0, nodes - 1, n), draw.random(n)
    kind, rows = draw.integers(0, 2, n), np.arange(n)
    whole = np.zeros((n, 2 + nodes + d))
    whole[rows, kind] = 1.0
    whole[rows, 2 + own], whole[rows, 3 + own] = share, 1.0 - share
    whole[:, 2 : 2 + nodes] -= (mean := whole[:, 2 : 2 + nodes].mean(axis=0))
    whole[:, 2 + nodes :] = dense = draw.normal(size=(n, d))
    level = np.stack([kind, 2 + own, 3 + own], axis=1).astype(np.int32)
    shares = np.stack([np.ones(n), share, 1.0 - share], axis=1)
    return Columns(level, shares, np.concatenate([np.zeros(2), mean]), 2, dense.copy()), whole
