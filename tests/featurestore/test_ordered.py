"""The ordered probit against quadrature, against a fit without the pair, and against what made the data."""

import numpy as np
import pytest
from scipy import integrate, sparse, special, stats

from featurestore.interference import ordered


@pytest.mark.parametrize("mean", [-3.0, -0.2, 1.5, 7.0])
def test_moments_are_those_of_quadrature(mean):
    limits = np.array([-np.inf, 0.0, 0.8, np.inf])
    likely = np.array([0.3, 1.0, 0.6])

    def weighed(power):
        def inside(a, b):
            return integrate.quad(lambda u: u**power * stats.norm.pdf(u, mean, 1.3), a, b, limit=200, points=[mean])[
                0
            ]

        return likely @ [inside(-30.0, 0.0), inside(0.0, 0.8), inside(0.8, 40.0)]

    total, first, second = (weighed(power) for power in range(3))
    centre, width = ordered.moments(np.array([mean]), np.array([1.69]), limits, likely[None])
    assert centre[0] == pytest.approx(first / total, abs=1e-6)
    assert width[0] == pytest.approx(second / total - (first / total) ** 2, abs=1e-6)


def test_the_classes_above_zero_are_equally_likely():
    limits = ordered.edges(-1.0, 1.5, 4)
    mass = np.diff(stats.norm.cdf(limits, -1.0, 1.5))
    np.testing.assert_allclose(mass[1:], (1 - stats.norm.cdf(0, -1.0, 1.5)) / 4, rtol=1e-9)


def drawn(seed, n=400):
    draw = np.random.default_rng(seed)
    columns = np.concatenate([np.ones((n, 1)), draw.normal(size=(n, 6))], axis=1)
    theta = np.array([-1.2, 0.9, -0.6, 0.4, 0.0, 0.2, -0.3])
    harmful = columns @ theta + draw.normal(size=n) > 0
    measured = harmful + draw.normal(0, 0.5, n)
    likely = np.exp(-2 * np.square(measured[:, None] - np.array([0.0, 1.0])))
    return sparse.csr_matrix(columns), theta, harmful, likely


GROUP, SD = np.zeros(6, np.int64), np.array([0.7])


def test_the_coefficients_that_made_the_data_are_found_again():
    columns, theta, _, likely = drawn(1, 4000)
    found = ordered.fit(columns, GROUP, SD, likely, 0.15)
    np.testing.assert_allclose(found.theta, theta, atol=0.15)


def test_a_pair_alone_is_what_a_fit_without_it_predicts():
    columns, _, _, likely = drawn(2)
    whole = ordered.fit(columns, GROUP, SD, likely, 0.15)
    for row in (0, 17, 201):
        others = np.delete(np.arange(400), row)
        without = ordered.fit(columns[others], GROUP, SD, likely[others], 0.15)
        mean, variance = without.predict(columns[[row]])
        assert whole.alone[row] == pytest.approx(mean[0], abs=0.03)
        assert whole.doubt[row] == pytest.approx(variance[0], rel=0.1)


def test_probabilities_of_new_pairs_are_kept():
    columns, theta, _, likely = drawn(3, 4000)
    found = ordered.fit(columns, GROUP, SD, likely, 0.15)
    new = sparse.csr_matrix(
        np.concatenate([np.ones((4000, 1)), np.random.default_rng(4).normal(size=(4000, 6))], axis=1)
    )
    p, truth = ordered.chance(*found.predict(new)), special.ndtr(new @ theta)
    assert np.abs(p - truth).mean() < 0.06


def test_evidence_that_says_nothing_leaves_the_share():
    columns, _, _, likely = drawn(5)
    found = ordered.fit(columns, GROUP, np.array([0.05]), np.ones_like(likely), 0.12)
    assert ordered.chance(found.alone, found.doubt).mean() == pytest.approx(0.12, abs=0.04)
