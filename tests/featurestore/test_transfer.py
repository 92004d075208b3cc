"""Pairs never seen together: predicted from profiles where these say something, and from nothing else."""

import numpy as np

from featurestore.interference import transfer
from featurestore.interference.evidence import Evidence
from featurestore.interference.transfer import scaled


def town(seed, functions=30, seen=0.5):
    """Functions that demand resources and suffer from them: a pair interferes where both meet."""
    draw = np.random.default_rng(seed)
    demand = draw.gamma(0.6, 0.5, (functions, 4))
    suffers = draw.gamma(0.6, 0.5, (functions, 4))
    clash = suffers @ demand.T
    interferes = clash >= np.quantile(clash, 0.85)
    known = draw.random((functions, functions)) < seen
    odds = np.where(known, np.where(interferes, 4.0, -4.0), np.nan)
    return (odds, known.astype(float)), demand, interferes, known


def predict(odds, weight, profile, share):
    """The predictions of all pairs as a square, NaN where nothing is predicted; None where there are none at all."""
    found = transfer.predict(Evidence.of(odds, weight), profile, share)
    if found is None:
        return None
    victim, aggressor = np.indices(odds.shape).reshape(2, -1)
    return found.at(victim, aggressor).reshape(odds.shape)


def ranking(probability, truth):
    """The chance that an interfering pair ranks above a harmless one, counted pair by pair."""
    ones, zeros = probability[truth], probability[~truth]
    return np.mean(ones[:, None] > zeros[None])


def test_never_seen_pairs_are_ranked_by_what_the_functions_do_with_others():
    found = []
    for seed in range(4):
        evidence, demand, interferes, known = town(seed)
        probability = predict(*evidence, demand, 0.15)
        found.append(ranking(probability[~known], interferes[~known]))
    assert np.mean(found) > 0.85


def test_profiles_that_say_nothing_predict_worse_than_those_that_do():
    with_profiles, without = [], []
    for seed in range(4):
        evidence, demand, interferes, known = town(seed)
        for profile, found in ((demand, with_profiles), (None, without)):
            found.append(ranking(predict(*evidence, profile, 0.15)[~known], interferes[~known]))
    assert np.mean(with_profiles) > np.mean(without) + 0.05


def test_labels_without_a_pattern_give_predictions_near_the_share():
    draw = np.random.default_rng(5)
    odds = np.where(draw.random((30, 30)) < 0.15, 4.0, -4.0)
    odds[draw.random((30, 30)) < 0.5] = np.nan
    probability = predict(odds, np.isfinite(odds).astype(float), draw.gamma(1, 1, (30, 4)), 0.15)
    assert 0.1 < probability.mean() < 0.2
    assert np.quantile(probability, 0.95) < 0.5


def test_a_pair_does_not_teach_its_own_prediction():
    evidence, demand, _, known = town(6)
    victim, aggressor = np.argwhere(known)[17]
    turned = evidence[0].copy()
    turned[victim, aggressor] *= -1
    one, two = (predict(odds, evidence[1], demand, 0.15) for odds in (evidence[0], turned))
    assert abs(one[victim, aggressor] - two[victim, aggressor]) < 0.1


def test_the_same_twice():
    evidence, demand, _, _ = town(7)
    np.testing.assert_array_equal(predict(*evidence, demand, 0.15), predict(*evidence, demand, 0.15))


def test_too_little_is_known():
    odds = np.full((20, 20), np.nan)
    odds[0, :10] = -4.0
    assert predict(odds, np.isfinite(odds).astype(float), None, 0.12) is None


def test_a_function_of_which_nothing_is_known_has_no_prediction():
    evidence, demand, _, _ = town(8)
    odds, weight, profile = (np.array(part) for part in (*evidence, demand))
    odds[3, :] = odds[:, 3] = np.nan
    weight[3, :] = weight[:, 3] = 0
    profile[3] = np.nan
    probability = predict(odds, weight, profile, 0.15)
    assert np.isnan(probability[3]).all()
    assert np.isnan(probability[:, 3]).all()
    assert np.isfinite(np.delete(np.delete(probability, 3, 0), 3, 1)).all()


def test_profiles_are_scaled_by_resource_and_the_unknown_is_the_mean():
    made = scaled(np.array([[1e9, 0.1], [2e9, 0.2], [4e9, np.nan], [3e9, 0.3]]))
    np.testing.assert_allclose(made.mean(axis=0), 0, atol=1e-12)
    assert made[2, 1] == 0
    assert scaled(np.full((3, 2), np.nan)).shape == (3, 0)
