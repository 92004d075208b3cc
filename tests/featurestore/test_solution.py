"""What a state says is the posterior of a dense Gaussian: means, errors, and the precision of some of it."""

import numpy as np
import pytest

from featurestore.interference.blocks import Block, Linearisation
from featurestore.interference.evidence import Options
from featurestore.interference.solution import corrected, moved_to, solve

KINDS, M = 2, 4


def test_a_state_is_solved_as_the_inverse_of_its_gram():
    draw = np.random.default_rng(11)
    size = KINDS + 2 * M
    root = draw.normal(size=(40, size)) * 20
    pull = root.T @ draw.normal(0.2, 1, 40)
    columns = np.array([3, 5, 8, 9])
    overlaps = np.array([50.0, 0.9, 40.0, 7.0])  # the second rarely met: its column is integrated out
    state = Block(
        types=np.arange(KINDS), columns=columns, gram=root.T @ root, pull=pull, rows=40.0,
        met=columns, overlaps=overlaps, activations=np.ceil(overlaps),
    )  # fmt: skip
    widening = np.array([1.5, 1.0, 2.0, 1.0])
    point = Linearisation(1, np.arange(KINDS), np.zeros(KINDS), columns, np.zeros(M), widening, 0.3)

    belief = np.diag([1e-2] * KINDS + [Options().prior_sd ** -2] * M + [0.007**-2] * M)
    covariance = np.linalg.inv(root.T @ root + belief)
    theta = covariance @ pull
    found = solve(state, point, 20)
    slowdown = np.maximum(theta[KINDS : KINDS + M], -0.5)
    enough = np.array([True, False, True, True])
    np.testing.assert_array_equal(found.met, columns)
    np.testing.assert_allclose(found.slowdown[enough], slowdown[enough], rtol=1e-8)
    errors = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.se[enough], (errors[KINDS : KINDS + M] * widening)[enough], rtol=1e-8)
    np.testing.assert_allclose(found.placebo, theta[KINDS + M :], rtol=1e-8)
    np.testing.assert_allclose(found.placebo_se, errors[KINDS + M :], rtol=1e-8)
    at = KINDS + np.flatnonzero(enough)
    growth = (1 + slowdown[enough]) / widening[enough]
    np.testing.assert_allclose(
        found.precision, np.linalg.inv(covariance[np.ix_(at, at)]) * np.outer(growth, growth), rtol=1e-7
    )

    more, _ = corrected(state, found, point)  # what it says itself needs no correction, but where it was cut off
    moved = np.linalg.solve(root.T @ root + belief, pull + more.pull) - theta
    wanted = np.zeros(size)
    wanted[KINDS : KINDS + M] = np.where(enough, slowdown - theta[KINDS : KINDS + M], 0)
    np.testing.assert_allclose(moved, wanted, atol=1e-9)


def test_a_point_moves_where_the_state_tells_and_stays_where_it_cannot():
    """After a new version of the victim a state knows little of old neighbours, and nothing of bases."""
    columns = np.array([3, 5, 8])
    size = KINDS + 2 * len(columns)
    gram, pull = np.zeros((size, size)), np.zeros(size)
    for at, (information, slowdown) in enumerate([(1e4, 0.8), (1.0, 0.9), (1e4, -0.2)], start=KINDS):
        gram[at, at], pull[at] = information, information * slowdown
    state = Block(
        types=np.arange(KINDS), columns=columns, gram=gram, pull=pull, rows=9.0,
        met=columns, overlaps=np.full(3, 50.0), activations=np.full(3, 60.0),
    )  # fmt: skip
    base, known = np.array([0.4, 1.7]), np.array([5, 7, 8])
    widening = np.array([1.5, 1.25, 2.0])
    point = Linearisation(1, np.arange(KINDS), base, known, np.array([0.3, 0.2, 0.6]), widening, 0.3, usual=1.1)
    found = moved_to(solve(state, point, 20), point)
    assert found.columns.tolist() == [3, 5, 7, 8]
    # 3 is told, 5 hardly (its error is .7), 7 was not met, 8 helps: that is taken for nothing.
    np.testing.assert_allclose(found.slowdown, [0.8, 0.3, 0.2, 0.0], atol=1e-4)
    np.testing.assert_allclose(found.widening, [1.1, 1.5, 1.25, 2.0])
    assert found.base is base, "the state says nothing of bases: they would be a second"
    assert (found.noise, found.usual) == (point.noise, point.usual)


@pytest.mark.parametrize(("slowdown", "error", "told"), [(0.1, 0.4, True), (4.0, 0.6, False), (6.0, 0.6, True)])
def test_an_estimate_is_said_where_its_error_is_small_or_far_less_than_it(slowdown, error, told):
    """Half of what is believed beforehand (1), or an eighth of the estimate itself; after what is believed pulled."""
    kinds, m = 1, 1
    size = kinds + 2 * m
    gram, pull = np.diag([1e6, error**-2 - 1.0, 1e6]), np.zeros(size)
    pull[kinds] = slowdown * error**-2
    columns = np.array([4])
    state = Block(
        types=np.arange(kinds), columns=columns, gram=gram, pull=pull, rows=90.0,
        met=columns, overlaps=np.full(m, 50.0), activations=np.full(m, 60.0),
    )  # fmt: skip
    point = Linearisation(1, np.arange(kinds), np.zeros(kinds), columns, np.zeros(m), np.ones(m), 0.3)

    found = solve(state, point, 9)

    wanted = [slowdown, error] if told else [np.nan, np.nan]
    np.testing.assert_allclose([found.slowdown[0], found.se[0]], wanted, rtol=1e-9)
