"""Groups of parcels, each worked on by one task, and what the tasks answer."""

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from featurestore.engines.spark import work
from featurestore.engines.spark.rows import DDL, bodies

#: There are as many tasks a group as `_TASKS`, so that groups seldom share one, and `_MOST` at most but a group each.
_TASKS, _MOST = 4, 2_000


def worked(parcels: Any, number: int, function: Callable[..., pa.Table], **given: object) -> Any:
    """Return what *function* makes of each of so many groups of *parcels*, as parcels."""
    tasks = max(number, min(_TASKS * number, _MOST))
    return parcels.repartition(tasks, "key").groupBy("key").applyInArrow(work.bound(function, **given), DDL)


def told(answered: pa.Table) -> list[Any]:
    """Return what each group's task said to the driver."""
    return [pickle.loads(body) for body in bodies(answered, work.TOLD)]


def parts(answered: pa.Table, part: str) -> list[tuple[int, memoryview]]:
    """Return the keys and the bytes of the parcels of one part."""
    names = zip(answered["key"].to_pylist(), answered["part"].to_pylist(), strict=True)
    return list(zip((key for key, name in names if name == part), bodies(answered, part), strict=True))
