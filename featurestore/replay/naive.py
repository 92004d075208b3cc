"""The obvious statistic, which a predecessor placed by: the mean time beside a function over the mean without it."""

import numpy as np

from featurestore.exposure.sweep import Exposure
from featurestore.replay.kernel import Floats, Ints


def naive_pairs(exposure: Exposure, function: Ints, execution: Floats, functions: int, above: float) -> Ints:
    """Return the pairs (k, 2) of victim and aggressor whose mean time together is *above* (fraction) that apart.

    *function* and *execution* are the runs' (n,). A pair that always or never met says nothing. No function is its
    own aggressor. O(non-zeros).
    """
    victim = np.repeat(function[exposure.rows], np.diff(exposure.indptr))
    taken = np.repeat(execution[exposure.rows], np.diff(exposure.indptr))
    cell = victim * functions + exposure.indices
    pair, row = np.unique(cell, return_inverse=True)
    beside, times = np.bincount(row, taken, len(pair)), np.bincount(row, minlength=len(pair))
    total = np.bincount(function, execution, functions)[pair // functions]
    runs = np.bincount(function, minlength=functions)[pair // functions]
    apart = runs > times
    flagged = np.zeros(len(pair), np.bool_)
    alone = (total[apart] - beside[apart]) / (runs[apart] - times[apart])
    flagged[apart] = beside[apart] / times[apart] > (1.0 + above) * alone
    flagged &= pair // functions != pair % functions
    found: Ints = np.stack((pair // functions, pair % functions), axis=1)[flagged].astype(np.int64)
    return found
