"""Activations in order of their start, those that started at the same moment in order of their id.

What is learned must not depend on the order in which rows were read. Rows that are so already, as those of the store
are, cost one look at their starts; ids are looked at of those alone that started with others.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.arrays import Codes
from featurestore.columnar import micros
from featurestore.exposure.kernels import sorted_order


def by_start(activations: pa.Table) -> pa.Table:
    """Return *activations* (activation_id, start and any others) in order; as they lie where they are so already."""
    found = order(activations)
    return activations if found is None else activations.take(pa.array(found))


def order(activations: pa.Table) -> Codes | None:
    """Return the rows of *activations* in their order, int32 (n,), or None where they are in order already."""
    start = micros(activations["start"])
    found: Codes | None = None
    if np.any(start[1:] < start[:-1]):
        found = sorted_order(start)
        start = start[found]
    same = start[1:] == start[:-1]
    if same.any():
        among = np.append(same, False) | np.append(False, same)
        tied = np.flatnonzero(among)
        rows = tied if found is None else found[tied]
        ids = activations["activation_id"]
        # To take rows of several chunks copies all of them into one first.
        own = ids.filter(pa.array(among)) if found is None else ids.take(pa.array(rows))
        keys = pa.table({"start": start[tied], "id": own})
        by_id = pc.sort_indices(keys, [("start", "ascending"), ("id", "ascending")]).to_numpy()
        if np.any(by_id[1:] < by_id[:-1]):
            found = np.arange(len(start), dtype=np.int32) if found is None else found
            found[tied] = rows[by_id]
    return found
