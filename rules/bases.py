"""How much longer each function takes on each node type, company apart.

A median tells little of it: where a function's neighbours differ by type, so do its medians. The fits have taken
company and load out, so what a run takes alone comes from them. What the types usually differ by stands in for a type
on which a function never ran, and counts for as much as `RUNS` runs there beside what its own say.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rules.candidates import Ids
from rules.functions import Floats, Rows

#: Functions differ in their factor by a standard deviation of some .13 of the log, single runs of one by some .45,
#: and a difference has the errors of two types: 2 * (.45 / .13)^2, and somewhat more where weights are unequal.
RUNS: Final = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class Bases:
    """Rows *start*[f]..*start*[f+1] are function f's: the log of how much longer it takes on type *type_of* than the
    types' *usual* (T,), itself the log of what they differ by."""

    start: Rows
    type_of: Ids
    longer: Floats
    usual: Floats

    def of(self, function: int) -> slice:
        """Return the rows of *function*, none of one that was not learned from."""
        if function + 1 >= len(self.start):
            return slice(0, 0)
        return slice(int(self.start[function]), int(self.start[function + 1]))


def drawn(function: Ids, type_of: Ids, alone: Floats, runs: Floats, functions: int, types: int) -> Bases:
    """Return what rows sorted by *function* say: *alone* (ms) is its time on that type, of so many *runs* there."""
    level = np.log(alone)
    several = np.bincount(function, minlength=functions)
    mean = np.bincount(function, level, functions) / np.maximum(several, 1)
    usual = _medians(type_of, level - mean[function], several[function] > 1, types)
    apart, weight = level - usual[type_of], np.maximum(runs, 1.0)
    middle = np.bincount(function, apart * weight, functions) / np.maximum(
        np.bincount(function, weight, functions), 1.0
    )
    longer = (apart - middle[function]) * weight / (weight + RUNS)
    return Bases(np.searchsorted(function, np.arange(functions + 1)), type_of, longer, usual)


def _medians(type_of: Ids, values: Floats, kept: npt.NDArray[np.bool_], types: int) -> Floats:
    """Return the median of the *kept* values of each type, 0 where it has none."""
    order = np.lexsort((values, type_of))
    order = order[kept[order]]
    bound = np.searchsorted(type_of[order], np.arange(types + 1))
    first, count = bound[:-1], np.diff(bound)
    middle = np.zeros(types)
    some = count > 0
    low, high = (order[first[some] + at] for at in ((count[some] - 1) // 2, count[some] // 2))
    middle[some] = (values[low] + values[high]) / 2.0
    return middle
