"""False-discovery control against its published example; the two groups against quadrature and their own promises."""

import numpy as np
import pytest
from scipy import integrate, stats

from featurestore.interference.groups import (
    FLOOR,
    GRID,
    TwoGroups,
    benjamini_hochberg,
    densities,
    likelihood,
    posterior,
    two_groups,
)

#: The fifteen p values of Benjamini and Hochberg (1995), section 3.2: at .05 the first four are discoveries.
PUBLISHED = (
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459,
    0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0,
)  # fmt: skip


def test_the_published_example_has_four_discoveries():
    found = benjamini_hochberg(np.array(PUBLISHED[::-1]), 0.05)
    assert found.tolist() == [False] * 11 + [True] * 4


def test_a_p_value_that_fails_its_own_step_is_saved_by_a_larger_one():
    # .03 > .05 / 3 but .05 <= .05: step-up, so all three are discoveries
    assert benjamini_hochberg(np.array([0.03, 0.04, 0.05]), 0.05).all()


def test_nan_is_no_discovery_and_does_not_count():
    assert benjamini_hochberg(np.array([np.nan, 0.04, np.nan]), 0.05).tolist() == [False, True, False]
    assert benjamini_hochberg(np.zeros(0), 0.05).tolist() == []


def groups(share=0.12):
    return TwoGroups(*densities(0.012, np.log(0.25), 0.45, 0.05), share, 1.0)


@pytest.mark.parametrize(
    ("estimate", "error", "prior"),
    [(0.3, 0.1, 0.12), (0.1, 0.1, 0.12), (0.0, 0.03, 0.5), (0.8, 0.4, 0.05), (np.log(1.123), 0.046 / 1.123, 0.2)],
)
def test_the_posterior_is_that_of_quadrature(estimate, error, prior):
    """Bayes' rule with the continuous densities, integrated by scipy, not on the grid."""
    null = stats.halfnorm(scale=0.012)
    slab = stats.lognorm(0.45, scale=0.25)

    def likely(s):
        return stats.norm.pdf(estimate, np.log1p(s), np.hypot(error, FLOOR))

    below = integrate.quad(lambda s: likely(s) * null.pdf(s), 0, 0.05)[0] / null.cdf(0.05)
    above = integrate.quad(lambda s: likely(s) * slab.pdf(s), 0.05, 8, limit=400)[0] / slab.sf(0.05)
    expected = prior * above / (prior * above + (1 - prior) * below)
    probability, _, _, _ = posterior(groups(), np.array([estimate]), np.array([error]), np.array([prior]), 0.9)
    assert probability[0] == pytest.approx(expected, abs=0.01)


def test_without_an_estimate_the_prior_stays():
    probability, middle, low, high = posterior(groups(), np.array([np.nan]), np.array([np.nan]), np.array([0.3]), 0.9)
    assert probability[0] == pytest.approx(0.3, abs=1e-6)
    assert low[0] <= middle[0] <= high[0]


def drawn(count, share, seed):
    draw = np.random.default_rng(seed)
    interferes = draw.random(count) < share
    null = np.minimum(np.abs(draw.normal(0, 0.012, count)), 0.049)
    slowdown = np.where(interferes, np.maximum(np.exp(draw.normal(np.log(0.25), 0.45, count)), 0.0501), null)
    error = draw.uniform(0.02, 0.12, count)
    return slowdown, interferes, np.log1p(slowdown) + draw.normal(0, np.hypot(error, FLOOR)), error


def test_the_groups_that_made_the_estimates_are_found_again():
    _, _, estimate, error = drawn(6000, 0.15, 1)
    found = two_groups(estimate, error, 0.05, np.full(6000, 0.12))
    assert found.share == pytest.approx(0.15, abs=0.02)
    middle = np.exp(np.sum(found.interfering * np.log(np.maximum(GRID, 1e-9))))
    assert middle == pytest.approx(0.25, rel=0.1)


def test_probabilities_and_intervals_keep_their_promise():
    slowdown, interferes, estimate, error = drawn(6000, 0.15, 2)
    found = two_groups(estimate, error, 0.05, np.full(6000, 0.12))
    probability, _, low, high = posterior(found, estimate, error, np.full(6000, found.share), 0.9)
    for first, last in ((0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.01)):
        chosen = (probability >= first) & (probability < last)
        assert interferes[chosen].mean() == pytest.approx(probability[chosen].mean(), abs=0.06)
    inside = (slowdown >= low - 0.005) & (slowdown <= high + 0.005)
    assert 0.88 <= inside.mean() <= 0.98  # a harmless one at the end of the scale is always inside


def test_understated_errors_are_widened():
    draw = np.random.default_rng(3)
    found = two_groups(draw.normal(0, 0.08, 2000), np.full(2000, 0.05), 0.05, np.full(2000, 0.12))
    assert found.widening == pytest.approx(np.sqrt(0.08**2 - FLOOR**2) / 0.05, abs=0.15)


def test_an_estimate_far_below_zero_has_a_likelihood_too():
    likely = likelihood(np.array([-5.0]), np.array([0.01]))
    assert likely[0, 0] == 1.0
    assert np.isfinite(likely).all()
