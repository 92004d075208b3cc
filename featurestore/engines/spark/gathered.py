"""What the functions' steps said, put together on the driver as the kernels say it of all functions at once."""

import heapq
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore import profiles
from featurestore.attribution.methods import METHODS
from featurestore.engines.spark.work import Placed
from featurestore.exposure.kernels import Ints
from featurestore.exposure.sweep import OPEN

#: As much as so many runs is what a function takes however few it has.
_EACH = 500


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
    found = np.full((functions, told[0].known.shape[1]), np.nan)
    for each in told:
        found[each.functions] = each.known
    return found


def runs(told: Sequence[Placed], functions: int) -> tuple[Ints, Ints, Ints]:
    """Return how many runs each function has [F], and start and end (microseconds) of all, function by function."""
    counts = np.zeros(functions, np.int64)
    for each in told:
        counts[each.functions] = each.runs
    offsets = np.concatenate([[0], np.cumsum(counts)])
    start, end = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
    for each in told:
        at = np.repeat(offsets[each.functions] - np.concatenate([[0], np.cumsum(each.runs)[:-1]]), each.runs)
        at += np.arange(len(at))
        start[at], end[at] = each.start, each.end
    return counts, start, end


def hours(told: Sequence[Placed]) -> tuple[Ints, Ints, Ints]:
    """Return the hours in which fitted runs ended, in order, how many, and when the first of these started."""
    found, hour = np.unique(np.concatenate([each.hours for each in told]), return_inverse=True)
    count, begun = np.zeros(len(found), np.int64), np.full(len(found), OPEN)
    np.add.at(count, hour, np.concatenate([each.ended for each in told]))
    np.minimum.at(begun, hour, np.concatenate([each.begun for each in told]))
    return found, count, begun


def chunks(counts: Ints, number: int) -> Ints:
    """Return for each function, of so many runs each [F], one of so many groups that have about as many runs."""
    found, held = np.zeros(len(counts), np.int64), [(0, group) for group in range(number)]
    for code in np.argsort(-counts, kind="stable").tolist():
        runs, found[code] = heapq.heappop(held)
        heapq.heappush(held, (runs + int(counts[code]) + _EACH, int(found[code])))
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
