"""The benchmark of Spark, without Spark: what becomes of its parts where one fails, in whatever way."""

import math
import os
import resource
import time
from typing import Any

import numpy as np
import pytest

from benchmarks.spark import Fit, _apart, _figures

STEPS = {"steps": {"fit": {"parts": 2, "retried": 0, "processes": ["a:1", "a:2"], "peak_mb": 400.0}}}


def _works(seconds: float) -> Fit:
    return Fit(seconds, peak=3.0, pid=os.getpid())


def _starves(_: float) -> Fit:
    resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, resource.RLIM_INFINITY))
    return Fit(float(np.ones(1 << 30).sum()))


def _aborts(_: float) -> Fit:
    os.abort()


def _hangs(_: float) -> Fit:
    time.sleep(600)
    return Fit()


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (_starves, "MemoryError: Unable to allocate"),
        (_aborts, "the process ended with -6"),
        (_hangs, "the process did nothing more in 5 s"),
    ],
)
def test_a_part_that_cannot_go_on_says_so(work: Any, said: str) -> None:
    assert _apart(work, 2.5, patience=5.0 if work is _hangs else None).failed.startswith(said)


def test_what_a_part_says_comes_from_a_process_of_its_own() -> None:
    found = _apart(_works, 2.5, patience=60.0)
    assert (found.seconds, found.peak, found.failed) == (2.5, 3.0, "")
    assert found.pid != os.getpid()


def test_each_part_is_told_where_another_failed() -> None:
    local, spark = Fit(100.0, peak=800.0, pid=7), Fit(150.0, start=9.0, peak=500.0, pid=8)
    bounded = Fit(failed="MemoryError: ")
    whole = {each.name: each for each in _figures("1 activation", 10, (local, spark, bounded), STEPS, 0.0)}
    learning, last = (
        "learning on Spark, two workers",
        "the local engine fails where its process has no more than the larger of these",
    )
    assert (whole[learning].value, whole[learning].floor, whole[learning].ratio) == (150.0, 100.0, 1.5)
    assert whole["peak memory of Spark's largest worker, in Python"].value == 400.0
    assert all(each.met is not False for each in whole.values())
    assert whole[last].met

    broken = Fit(failed="Permanent: spark")
    part = {each.name: each for each in _figures("1 activation", 10, (local, broken, Fit()), {"steps": {}}, math.nan)}
    assert part["peak memory of the local engine"].value == 800.0
    assert part[learning].met is False
    assert part[learning].note == "Spark: Permanent: spark"
    assert part[last].met is False
