"""The exposure of some runs, taken from that of all: the same, bit for bit, whichever runs were swept together."""

from dataclasses import dataclass

import numpy as np

from featurestore.compiled import compiled
from featurestore.exposure.kernels import Codes, Floats, Ints
from featurestore.exposure.sweep import Exposure
from featurestore.runs import Bools


@dataclass(frozen=True, slots=True)
class Exposed:
    """The *exposure* of n runs, and at which of its rows each of them stands, *row* [n], -1 where at none."""

    exposure: Exposure
    row: Codes

    @classmethod
    def of(cls, exposure: Exposure, runs: int) -> "Exposed":
        """Return *exposure* with an index of so many *runs*."""
        row = np.full(runs, -1, np.int32)
        row[exposure.rows] = np.arange(len(exposure.rows), dtype=np.int32)
        return cls(exposure, row)

    def alone(self, runs: Ints, wanted: Bools) -> Exposure:
        """Return of some *runs* [k] the rows of those *wanted* [k], as an exposure of these k in their order.

        Within a row functions are in order of their code: that of a sweep depends on what ran long before.
        """
        all_of = self.exposure
        return Exposure(*_alone(self.row[runs], wanted, all_of.indptr, all_of.indices, all_of.values))


@compiled
def _alone(
    row: Codes, wanted: Bools, indptr: Ints, indices: Codes, values: Floats
) -> tuple[Codes, Ints, Codes, Floats]:
    """Return the *rows* of an exposure of those of its *row* [k] that are *wanted* [k] and there."""
    count = size = 0
    for k in range(len(row)):
        if wanted[k] and row[k] >= 0:
            count += 1
            size += indptr[row[k] + 1] - indptr[row[k]]
    rows, starts = np.empty(count, np.int32), np.zeros(count + 1, np.int64)
    codes, found = np.empty(size, np.int32), np.empty(size)
    r = at = 0
    for k in range(len(row)):
        if not wanted[k] or row[k] < 0:
            continue
        first = at
        for entry in range(indptr[row[k]], indptr[row[k] + 1]):
            code, to = indices[entry], at
            while to > first and codes[to - 1] > code:
                codes[to], found[to] = codes[to - 1], found[to - 1]
                to -= 1
            codes[to], found[to] = code, values[entry]
            at += 1
        rows[r] = k
        r += 1
        starts[r] = at
    return rows, starts, codes, found
