"""Blocks of days are the same, bit for bit, side by side or alone, by day or victim, and whatever else was swept."""

from dataclasses import fields, replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from featurestore import designs
from featurestore.engines import victims
from featurestore.engines.candidate import Inputs, Options, prepare
from featurestore.engines.folding import DAY, blocks, edges
from featurestore.exposure.sweep import OPEN
from featurestore.interference.blocks import Block
from featurestore.interference.reduction import LEAST_OVERLAP
from featurestore.interference.solution import linearise
from featurestore.interference.victim import fit_victim
from featurestore.states import Packed, Step, pack_blocks
from tests.support.history import BEGIN_US, history

HOUR = DAY // 24


@pytest.fixture(scope="module")
def given():
    made = history(slowdown=0.6)
    tables = (made.activations, made.placements, made.nodes, made.usage, made.declared, made.workflows)
    until = BEGIN_US + made.hours * HOUR
    runs = prepare(Inputs(*tables, BEGIN_US, until), Options()).fitted.runs
    points = {fit.victim: linearise(fit) for fit in fits_of(runs) if not fit.reason}
    cuts = list(pairwise(edges(runs.end[runs.evidence], BEGIN_US, until, 2_000)))
    assert len(cuts) > 3
    return runs, points, cuts


def fits_of(runs):
    return [fit_victim(each) for each, _ in designs.designs(runs, designs.expose(runs), LEAST_OVERLAP)]


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
    runs, points, cuts = given
    alone = list(blocks(runs, cuts, points, Options(threads=1)))
    assert sum(each.step.rows for each in alone) == runs.evidence.sum()
    same(alone, blocks(runs, cuts, points, Options(threads=threads)))


def by_victims(runs, cuts, points, threads=1):
    """The blocks as each victim's evidence says them, read once, of which those apart are left to others."""
    at = np.array([*(since for since, _ in cuts), OPEN])
    start, end = runs.start[runs.evidence], runs.end[runs.evidence]
    left = victims.apart(runs.start, runs.end, at, victims.firsts(start, end, at))
    counts = np.bincount(victims.placed(end, at), minlength=len(cuts))
    options = Options(threads=threads)
    given = victims.said(runs, designs.expose(runs), at, left, {}, options)
    shares = [share for _, share in victims.shared(given, 3)]
    days = victims.Days(victims.steps(counts, at, runs.kernels, shares), shares)
    others = blocks(runs, [(int(at[day]), int(at[day + 1])) for day in left], points, options)
    days = days.beside({day: found.step for day, found in zip(left.tolist(), others, strict=True)})
    return left, [days.whole(day) for day in range(len(cuts))]


def alike(steps, others):
    for step, other in zip(steps, others, strict=True):
        assert (step.since, step.until, step.rows) == (other.step.since, other.step.until, other.step.rows)
        assert dict(step.blocks).keys() == other.step.blocks.keys()
        for victim, block in step.blocks.items():
            for each in fields(block):
                np.testing.assert_array_equal(
                    getattr(block, each.name), getattr(other.step.blocks[victim], each.name)
                )


@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_by_victims_are_those_of_each_day(given, threads):
    runs, points, cuts = given
    open_ended = [*cuts[:-1], (cuts[-1][0], OPEN)]
    left, steps = by_victims(runs, cuts, points, threads)
    assert len(left) == 0
    assert len(steps[0].blocks) > 3  # so that they are of more than one share
    alike(steps, blocks(runs, open_ended, points, Options()))


def test_what_ran_for_more_than_a_day_counts_for_no_longer_though_all_runs_were_swept(given):
    runs, points, cuts = given
    open_ended = [*cuts[:-1], (cuts[-1][0], OPEN)]
    first = np.flatnonzero(runs.node >= 0)[0]
    end, evidence = runs.end.copy(), runs.evidence.copy()
    end[first], evidence[first] = runs.end.max(), False
    longer = replace(runs, end=end, evidence=evidence)
    left, steps = by_victims(longer, cuts, points)
    late = [day for day, (since, _) in enumerate(cuts) if since - runs.start[first] > DAY]
    assert 0 < len(late) < len(cuts)
    assert left.tolist() == late
    # As the points are those of these runs here, the days of each are compared at points of their own.
    own = {fit.victim: linearise(fit) for fit in fits_of(longer) if not fit.reason}
    _, steps = by_victims(longer, cuts, own)
    alike(steps, blocks(longer, open_ended, own, Options()))
    gone = longer.take(np.delete(np.arange(len(runs)), first))  # in late days it is as if it had not run
    alike(steps[late[0] :], blocks(gone, open_ended[late[0] :], own, Options()))


def test_a_block_is_apart_where_a_run_of_more_than_a_day_before_was_beside_its_evidence():
    draw = np.random.default_rng(7)
    for _ in range(30):
        start = draw.integers(0, 6 * DAY, 40)
        end = start + (draw.exponential(0.3, 40) * DAY).astype(np.int64)
        evidence = (end - start <= DAY) & (draw.random(40) < 0.7)
        at = np.array([0, DAY, DAY + HOUR, 3 * DAY, 4 * DAY, OPEN])
        wanted = []
        for day in range(len(at) - 1):
            own = evidence & (end >= at[day]) & (end < at[day + 1])
            if own.any() and np.any((start < at[day] - DAY) & (end >= start[own].min())):
                wanted.append(day)
        found = victims.apart(start, end, at, victims.firsts(start[evidence], end[evidence], at))
        assert found.tolist() == wanted


def test_few_blocks_are_packed_together_where_victims_have_many(monkeypatch):
    monkeypatch.setattr(victims, "_BLOCKS", 6)
    fits = [SimpleNamespace(victim=victim) for victim in range(5)]
    given = [(fit, {day: Block(rows=10.0 * fit.victim + day) for day in range(2)}) for fit in fits]
    found = list(victims.shared(iter(given), 4))
    assert [[fit.victim for fit in own] for own, _ in found] == [[0, 1, 2], [3, 4]]
    days = victims.Days([Step(0, 1, 0.0, {}), Step(1, 2, 0.0, {})], [share for _, share in found])
    assert {victim: block.rows for victim, block in days.whole(1).blocks.items()} == {
        0: 1,
        1: 11,
        2: 21,
        3: 31,
        4: 41,
    }


def test_days_found_elsewhere_are_put_beside_the_others_of_their_victims():
    share = {0: pack_blocks({4: Block(rows=1.0), 2: Block(rows=2.0)})}
    days = victims.Days([Step(0, 1, 3.0, {}), Step(1, 2, 0.0, {})], [share])
    found = days.beside({1: Step(1, 2, 7.0, {2: Block(rows=5.0), 9: Block(rows=6.0)}, ("k",))})
    assert {victim: block.rows for victim, block in found.whole(0).blocks.items()} == {2: 2.0, 4: 1.0}
    later = found.whole(1)
    assert {victim: block.rows for victim, block in later.blocks.items()} == {2: 5.0, 9: 6.0}
    assert (later.rows, later.running) == (7.0, ("k",))
    of = [{victim for parts in each.values() for victim in Packed(parts)} for each in found.shares]
    assert of == [{2, 4}, {9}]
