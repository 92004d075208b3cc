"""Who disturbs whom in a simulator that is not the project's own: a world that nothing was tuned on.

It is no part of the repository; where it is not there, these tests skip and say so.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from benchmarks import simulator
from benchmarks.measures import Pairs, auroc, calibration_error, f1, never_pairs, often_pairs, precision, seen_pairs
from benchmarks.methods import learned, naive
from benchmarks.worlds import fits
from tests.conftest import SHARED

#: Worlds of 20,000 activations; the specification's floors are of means over worlds.
SEEDS = (3, 4)


@pytest.fixture(scope="module")
def told():
    """What the estimator, and the obvious statistic, say of all pairs of each world."""
    path = SHARED / "tools" / "cosim.py"
    if not path.is_file():
        pytest.skip(f"the other simulator is not at {path} (set COLOCATION_SHARED)")
    cosim = _module(path)
    return [_told(cosim, seed) for seed in SEEDS]


def _told(cosim, seed):
    world = cosim.make_world(seed)
    records = _records(cosim.simulate(world, cosim.arrivals(world, 20_000)[0]))
    functions, kinds = int(world["F"]), world["ntype"].astype(np.int64)
    table = learned(fits(records, kinds, functions), np.exp(world["prof"]))
    interferes = world["lab"][table.victim, table.aggressor]
    ours = Pairs(table.probability, interferes, table.effective_overlaps)
    return ours, Pairs(naive(records, kinds, functions), interferes, table.effective_overlaps)


def test_pairs_seen_often_are_told_apart(told):
    assert np.mean([f1(ours, often_pairs(ours)) for ours, _ in told]) >= 0.90
    assert np.mean([f1(obvious, often_pairs(obvious)) for _, obvious in told]) < 0.50


def test_who_is_told_surely_does_interfere(told):
    assert np.mean([precision(ours, seen_pairs(ours)) for ours, _ in told]) >= 0.97


def test_pairs_never_seen_are_ranked(told):
    assert np.mean([auroc(ours, never_pairs(ours)) for ours, _ in told]) >= 0.87


@pytest.mark.parametrize("chosen", [seen_pairs, never_pairs])
def test_probabilities_are_kept(told, chosen):
    assert np.mean([calibration_error(ours, chosen(ours)) for ours, _ in told]) <= 0.04


def _module(path: Path):
    found = importlib.util.spec_from_file_location("cosim", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _records(runs):
    """The runs as the project's own simulator gives them."""
    n = len(runs)

    def whole(name):
        return runs[name].to_numpy().astype(np.int64)

    def real(name):
        return runs[name].to_numpy().astype(float)

    return simulator.Records(
        function=whole("f"),
        node=whole("node"),
        start=real("start"),
        end=real("end"),
        initialisation=real("init"),
        wait=real("wait"),
        cold=runs["cold"].to_numpy().astype(bool),
        version=np.zeros(n, np.int64),
        throttled=np.zeros(n),
        work=real("work"),
        true_node=whole("node"),
    )
