"""Designs come with the concurrency of the cluster; a fit by it is the fit by what is looked up."""

from dataclasses import replace

import numpy as np
import pytest

from featurestore import designs
from featurestore.engines.candidate import Inputs, Options, prepare
from featurestore.interference.concurrency import build
from featurestore.interference.victim import fit_victim
from tests.support.concurrency import around as looked_up
from tests.support.concurrency import mean
from tests.support.history import BEGIN_US, history

LEAST = Options().estimation.column_overlaps


@pytest.fixture(scope="module")
def runs():
    given = history(slowdown=0.6)
    tables = (given.activations, given.placements, given.nodes, given.usage, given.declared, given.workflows)
    return prepare(Inputs(*tables, BEGIN_US, BEGIN_US + given.hours * 3_600_000_000), Options()).fitted.runs


@pytest.mark.parametrize("values", [1, 10**9])  # each victim in a sweep of its own, and all in one
def test_concurrencies_are_those_that_are_looked_up(runs, monkeypatch, values):
    monkeypatch.setattr(designs, "_VALUES", values)
    monkeypatch.setattr(designs, "_VALUES_OF_RUN", 0)
    known = build(runs.function.astype(np.int64), runs.start / 1e6, runs.end / 1e6, len(runs.functions))
    told = 0
    for each, _ in designs.designs(runs, designs.expose(runs), LEAST):
        around = each.around
        everywhere = mean(known, np.array([known.functions]), each.start, each.end)[:, 0]
        np.testing.assert_allclose(around.everywhere, everywhere, atol=1e-6)
        np.testing.assert_allclose(around.beside, mean(known, around.columns, each.start, each.end), atol=1e-6)
        one, other = fit_victim(each), fit_victim(looked_up(replace(each, around=None), known))
        for name in ("slowdown", "se", "placebo", "placebo_se"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)
        told += not one.reason
    assert told > 1
