"""What the functions' steps said, put together on the driver as the kernels say it of all functions at once."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore import profiles
from featurestore.attribution.attribute import METHODS
from featurestore.engines.spark.work import Placed


def measured(told: Sequence[Placed]) -> tuple[profiles.Profiles, np.ndarray[Any, Any]]:
    """Return the profiles of all functions in the order of `profiles.measure`, and the largest use seen."""
    own = _together([each.measured for each in told])
    order = np.lexsort((own.node_type, own.function, own.node_type >= 0))
    found = profiles.Profiles(*(getattr(own, field.name)[order] for field in fields(own)))
    return found, np.max([each.most for each in told], axis=0, initial=0.0)


def _together(parts: Sequence[profiles.Profiles]) -> profiles.Profiles:
    names = [field.name for field in fields(profiles.Profiles)]
    return profiles.Profiles(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def known(told: Sequence[Placed], functions: int) -> np.ndarray[Any, Any]:
    """Return the first of `unmeasured.facts` of all functions."""
    found = np.full((functions, len(told[0].known)), np.nan)
    for each in told:
        found[each.function] = each.known
    return found


def ordered(parts: Sequence[pa.Table], by: Sequence[str]) -> pa.Table:
    """Return the rows of all *parts* by the texts of some columns."""
    whole = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    keys = pa.table({name: whole[name].cast(pa.string()) for name in by})
    return whole.take(pc.sort_indices(keys, [(name, "ascending") for name in by]))


def methods(told: Sequence[Placed]) -> dict[str, float]:
    """Return what `attribution.attribute.counts` tells."""
    skew = np.concatenate([each.skew for each in told]) / 1000
    number = {name: float(sum(each.methods.get(name, 0) for each in told)) for name in METHODS}
    median = float(np.median(skew)) if len(skew) else 0.0
    return {**number, "skew_max_ms": float(skew.max(initial=0.0)), "skew_median_ms": median}
