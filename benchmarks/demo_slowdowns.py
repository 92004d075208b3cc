"""Learned against measured slowdowns of the demo's recording: real contention on a real machine.

The recorder measured each ordered pair directly, alone against together within seconds. *naive* is the typical time
beside over that without, *constant* the same slowdown for every pair, the best there is (their median). What is
learned rests on the records of the same sessions and of others, three functions at a time and idle ones included.
"""

import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.figures import Figure
from featurestore.store import models
from featurestore.store.duck import Store
from jobs import config
from jobs.demo import recorded
from jobs.demo.findings import Finding, covered
from jobs.demo.replay import CLUSTER, replay
from jobs.demo.run import run as learned


def run(scale: float = 1.0) -> list[Figure]:
    """Return how often the learned intervals hold what was measured, and how far the slowdowns are apart."""
    recording = recorded.load(None)
    with tempfile.TemporaryDirectory() as home, replay(recording, Path(home)) as path:
        settings = config.load(path)
        found = [each for each in learned(recording, settings).findings if each.measured is not None]
        obvious = _obvious(Store(settings.store.path))
    inside, compared = covered(found)
    least = int(stats.binom.ppf(0.01, compared, 0.9))
    truth = np.log1p([_measured(each, "slowdown") for each in found])
    ours = np.log1p([each.evidence.slowdown for each in found])
    naive = np.log1p([obvious[each.evidence.victim, each.evidence.aggressor] for each in found])
    apart = {name: float(np.mean(np.abs(truth - told))) for name, told in (("ours", ours), ("naive", naive))}
    constant = float(np.mean(np.abs(truth - np.median(truth))))
    strict = sum(each.evidence.low <= _measured(each, "slowdown") <= each.evidence.high for each in found)
    return [
        Figure(
            "demo: slowdowns within their 90 % intervals of the measured",
            inside / compared,
            "",
            goal=f">= {least} of {compared} (1 % quantile at .90)",
            met=inside >= least,
            note=f"{inside} of {compared}; {strict} with the measurement taken as exact",
        ),
        Figure(
            "demo: mean distance of log(1 + slowdown) to the measured",
            apart["ours"],
            "",
            constant,
            apart["ours"] / constant,
            goal="< constant and naive",
            met=apart["ours"] < min(constant, apart["naive"]),
            note=f"naive {apart['naive']:.3f}, constant {constant:.3f}",
        ),
    ]


def _measured(each: Finding, name: str) -> float:
    """Return what was measured; a function that runs faster beside another is not slowed down."""
    assert each.measured is not None
    return max(0.0, float(each.measured[name]))


def _obvious(store: Store) -> dict[tuple[str, str], float]:
    """Return the slowdown of the obvious comparison of each pair."""
    model = store.read(lambda con: models.promoted(con, CLUSTER))
    assert model is not None
    rows = store.read(lambda con: models.table(con, model, "comparisons")).to_pylist()
    return {(row["victim"], row["aggressor"]): row["naive"] for row in rows}
