"""Quantiles within groups, each group sorted by itself."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from featurestore.arrays import Floats, Ints
from featurestore.compiled import compiled


def quantiles(group: npt.NDArray[np.integer], value: Floats, groups: int, levels: Sequence[float]) -> Floats:
    """Return the quantiles of *value* (n,) within each group code: (groups, levels), NaN for an empty group.

    Of a negative group nothing is told. Linear between order statistics (Hyndman and Fan's type 7); each group is
    sorted by itself.
    """
    first, ordered = _by_group(group.astype(np.int64), np.asarray(value, np.float64), groups)
    count = np.diff(first)
    found = np.full((groups, len(levels)), np.nan)
    some = count > 0
    for column, level in enumerate(levels):
        position = level * (count[some] - 1)
        low = np.floor(position).astype(np.int64)
        high = np.minimum(low + 1, count[some] - 1)
        share = position - low
        start = first[:-1][some]
        found[some, column] = (1 - share) * ordered[start + low] + share * ordered[start + high]
    return found


@compiled
def _by_group(group: Ints, value: Floats, groups: int) -> tuple[Ints, Floats]:
    """Return where each group begins (groups + 1,), and the values by group, ascending in each."""
    first = np.zeros(groups + 1, np.int64)
    for code in group:
        if code >= 0:
            first[code + 1] += 1
    for number in range(groups):
        first[number + 1] += first[number]
    at = first.copy()
    ordered = np.empty(first[groups])
    for i in range(len(value)):
        if group[i] >= 0:
            ordered[at[group[i]]] = value[i]
            at[group[i]] += 1
    for number in range(groups):
        if first[number + 1] - first[number] > 1:
            ordered[first[number] : first[number + 1]].sort()
    return first, ordered
