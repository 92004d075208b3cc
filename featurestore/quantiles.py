"""Quantiles within groups: each group's order statistics are selected, not sorted for."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from featurestore.arrays import Floats
from featurestore.compiled import compiled


def quantiles(group: npt.NDArray[np.integer], value: Floats, groups: int, levels: Sequence[float]) -> Floats:
    """Return the quantiles of *value* (n,) within each group code: (groups, levels), NaN for an empty group.

    Of a negative group nothing is told. Linear between order statistics (Hyndman and Fan's type 7), which are found
    by Hoare's selection (Commun. ACM 4 (1961) 321); O(n).
    """
    return _selected(group, np.asarray(value, np.float64), groups, np.array(levels, np.float64))


@compiled
def _selected(group: npt.NDArray[np.integer], value: Floats, groups: int, levels: Floats) -> Floats:
    first = np.zeros(groups + 1, np.int64)
    for code in group:
        if code >= 0:
            first[code + 1] += 1
    for number in range(groups):
        first[number + 1] += first[number]
    at = first.copy()
    held = np.empty(first[groups])
    for i in range(len(value)):
        if group[i] >= 0:
            held[at[group[i]]] = value[i]
            at[group[i]] += 1
    found = np.full((groups, len(levels)), np.nan)
    for number in range(groups):
        own = held[first[number] : first[number + 1]]
        if len(own):
            for column in range(len(levels)):
                position = levels[column] * (len(own) - 1)
                low = int(np.floor(position))
                share = position - low
                below = _select(own, 0, low)
                above = _select(own, low + 1, low + 1) if low + 1 < len(own) else below
                found[number, column] = (1 - share) * below + share * above
    return found


@compiled
def _select(value: Floats, first: int, place: int) -> float:
    """Return what would stand at *place* were *value* in order from *first* on; what comes before is less anyway.

    *value* is moved about: what is less comes to stand before the place, what is more behind it.
    """
    low, high = first, len(value) - 1
    while low < high:
        one, middle, other = value[low], value[(low + high) // 2], value[high]
        pivot = max(min(one, middle), min(max(one, middle), other))
        i, j = low, high
        while i <= j:
            while value[i] < pivot:
                i += 1
            while value[j] > pivot:
                j -= 1
            if i <= j:
                value[i], value[j] = value[j], value[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return float(value[place])
