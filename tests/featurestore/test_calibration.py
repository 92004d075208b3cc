"""Calibration against closed forms and against probabilities whose error is known."""

import numpy as np
import pytest
from scipy import special

from featurestore.interference.calibration import LEAST_PAIRS, calibrate, share
from tests.support.silence import silent


def test_evidence_that_decides_leaves_the_counted_share():
    assert share(np.array([50.0] * 3 + [-50.0] * 7)) == pytest.approx(0.3, abs=1e-4)


def test_two_pairs_have_the_share_of_the_closed_form():
    # (4 s + 1 - s)(s / 2 + 1 - s) is largest where 3 / (1 + 3 s) = .5 / (1 - .5 s): s = 5/6
    assert share(np.log([4.0, 0.5])) == pytest.approx(5 / 6, abs=1e-6)


def test_evidence_against_all_leaves_none():
    assert share(np.log([0.5, 0.2])) == pytest.approx(0.0, abs=1e-9)


def test_bins_hold_the_stated_and_the_found_share_and_their_weighed_distance():
    probability = np.array([0.05] * 4 + [0.95] * 4)
    ratio = np.array([-40.0, -40, -40, 40, 40, 40, 40, 40])
    found = calibrate(probability, ratio)
    assert found.pairs.tolist() == [4, 0, 0, 0, 0, 0, 0, 0, 0, 4]
    assert found.found[0] == pytest.approx(0.25, abs=1e-4)
    assert found.found[9] == pytest.approx(1.0, abs=1e-4)
    assert found.error == pytest.approx((0.2 + 0.05) / 2, abs=1e-3)
    assert [row["pairs"] for row in found.document()["bins"]] == [4, 4]


def evidence(draw, truth):
    """Log likelihood ratios of a normal measurement: mean 1 where true, 0 where not, standard deviation .6."""
    x = draw.normal(truth.astype(float), 0.6)
    return (x - 0.5) / 0.36


def test_stated_odds_that_are_off_are_moved_back():
    """Truth drawn from p, stated with log odds that are too far apart and too low."""
    draw = np.random.default_rng(1)
    odds = draw.normal(-1.5, 1.5, 8000)
    truth = draw.random(8000) < special.expit(odds)
    found = calibrate(special.expit(1.4 * odds - 0.5), evidence(draw, truth))
    kept = found.applied(special.expit(1.4 * odds - 0.5))
    assert (
        np.abs(kept - special.expit(odds)).mean()
        < 0.25 * np.abs(special.expit(1.4 * odds - 0.5) - special.expit(odds)).mean()
    )
    assert kept.mean() == pytest.approx(truth.mean(), abs=0.015)


def test_probabilities_that_are_kept_stay():
    draw = np.random.default_rng(2)
    odds = draw.normal(-1.5, 1.5, 8000)
    found = calibrate(special.expit(odds), evidence(draw, draw.random(8000) < special.expit(odds)))
    assert found.intercept == pytest.approx(0.0, abs=0.15)
    assert found.slope == pytest.approx(1.0, abs=0.1)


def test_few_pairs_move_nothing():
    few = LEAST_PAIRS - 1
    found = calibrate(np.full(few, 0.2), np.full(few, 9.0))
    assert (found.intercept, found.slope) == (0.0, 1.0)
    assert found.applied(np.array([0.2, np.nan]))[0] == pytest.approx(0.2)


def test_nothing_known_is_no_curve_and_no_warning():
    with silent():
        found = calibrate(np.full(3, np.nan), np.zeros(3))
        assert found.document() == {"intercept": 0.0, "slope": 1.0, "error": None, "bins": []}
