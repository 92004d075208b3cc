"""Blocks of days are the same, bit for bit, side by side or alone, and whatever else was swept."""

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest

from featurestore import designs
from featurestore.engines.candidate import Inputs, Options, prepare
from featurestore.engines.folding import DAY, blocks, edges
from featurestore.interference.solution import linearise
from featurestore.interference.victim import fit_victim
from tests.support.history import BEGIN_US, history

HOUR = DAY // 24


@pytest.fixture(scope="module")
def given():
    made = history(slowdown=0.6)
    tables = (made.activations, made.placements, made.nodes, made.usage, made.declared, made.workflows)
    until = BEGIN_US + made.hours * HOUR
    runs = prepare(Inputs(*tables, BEGIN_US, until), Options()).fitted.runs
    exposure = designs.expose(runs)
    fits = [fit_victim(each) for each in designs.designs(runs, exposure, 2.0)]
    points = {fit.victim: linearise(fit) for fit in fits if not fit.reason}
    cuts = list(pairwise(edges(runs.end[runs.evidence], BEGIN_US, until, 2_000)))
    assert len(cuts) > 3
    return runs, exposure, points, cuts


def same(some, others):
    some, others = list(some), list(others)
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert (one.strange, one.pointless) == (other.strange, other.pointless)
        assert (one.step.since, one.step.until, one.step.rows) == (
            other.step.since,
            other.step.until,
            other.step.rows,
        )
        assert one.step.blocks.keys() == other.step.blocks.keys()
        for victim, block in one.step.blocks.items():
            for each in fields(block):
                np.testing.assert_array_equal(
                    getattr(block, each.name), getattr(other.step.blocks[victim], each.name)
                )


@pytest.mark.parametrize("threads", [2, 3, 64])
def test_blocks_side_by_side_are_those_one_after_the_other(given, threads):
    runs, _, points, cuts = given
    alone = list(blocks(runs, cuts, points, Options(threads=1)))
    assert sum(each.step.rows for each in alone) == runs.evidence.sum()
    same(alone, blocks(runs, cuts, points, Options(threads=threads)))


def test_blocks_of_the_exposure_of_all_runs_are_those_of_their_own(given):
    runs, exposure, points, cuts = given
    same(blocks(runs, cuts, points, Options()), blocks(runs, cuts, points, Options(), exposure))


def test_what_ran_for_more_than_a_day_counts_for_no_longer_though_all_runs_were_swept(given):
    runs, _, points, cuts = given
    first = np.flatnonzero(runs.node >= 0)[0]
    end, evidence = runs.end.copy(), runs.evidence.copy()
    end[first], evidence[first] = runs.end.max(), False
    longer = replace(runs, end=end, evidence=evidence)
    same(blocks(longer, cuts, points, Options()), blocks(longer, cuts, points, Options(), designs.expose(longer)))
    late = cuts[-1:]  # more than a day after it started: as if it had not run
    gone = longer.take(np.delete(np.arange(len(runs)), first))
    assert late[0][0] - runs.start[first] > DAY
    same(blocks(longer, late, points, Options(), designs.expose(longer)), blocks(gone, late, points, Options()))
