"""Predicted classes: effects counted by hand, classes that follow from what is known, and none where nothing does."""

import numpy as np
import pytest
from scipy import sparse

from featurestore.classes import effects, predict

NONE = float("nan")


def test_effects_are_means_over_the_co_runners_of_a_resource():
    probability = np.array([[0.9, 0.2, NONE], [0.4, 0.9, 0.6], [0.8, NONE, 0.9]])
    at = np.nonzero(np.isfinite(probability))
    given = sparse.coo_matrix((probability[at], at), shape=(3, 3))
    found = effects(given, ["cpu", "cpu", "disk"])
    # suffers from cpu, memory, network, disk; does to cpu, memory, network, disk; itself never counts
    np.testing.assert_allclose(found[0], [0.2, NONE, NONE, NONE, 0.4, NONE, NONE, 0.8])
    np.testing.assert_allclose(found[1], [0.4, NONE, NONE, 0.6, 0.2, NONE, NONE, NONE])
    np.testing.assert_allclose(found[2], [0.8, NONE, NONE, NONE, 0.6, NONE, NONE, NONE])


def test_a_function_not_measured_gets_the_class_of_its_like():
    draw = np.random.default_rng(1)
    known = draw.normal(size=(60, 3))
    names = np.where(known[:, 0] > 0, "cpu", "disk").tolist()
    hidden = [0, 10, 20, 30, 40, 50]
    found = predict(known, {"dominant": ["" if i in hidden else name for i, name in enumerate(names)]})
    sure = [i for i in hidden if abs(known[i, 0]) > 0.3]
    assert [found.predicted["dominant"][i] for i in sure] == [names[i] for i in sure]
    assert found.predicted["dominant"][1] == ""  # what is measured is not predicted
    assert found.scores["dominant"]["macro_f1"] > 0.85
    assert found.scores["dominant"]["functions"] == 54


def test_the_majority_class_has_the_score_of_the_closed_form():
    names = ["cpu"] * 30 + ["disk"] * 10
    found = predict(np.random.default_rng(2).normal(size=(40, 2)), {"dominant": names})
    # F1 of cpu 2 * 30 / (40 + 30), of disk 0
    assert found.scores["dominant"]["majority"] == pytest.approx((60 / 70) / 2)


def test_nothing_is_stated_where_held_out_functions_are_told_no_better_than_by_the_majority():
    names = ["cpu", "disk"] * 20 + [""]
    constant = np.zeros((41, 2))
    found = predict(constant, {"dominant": names})
    assert found.scores["dominant"]["macro_f1"] <= 0.5
    assert found.predicted["dominant"] == [""] * 41


@pytest.mark.parametrize("names", [["cpu"] * 9 + ["disk"] * 10, ["cpu"] * 40, [""] * 40])
def test_too_few_functions_or_one_class_teach_nothing(names):
    found = predict(np.ones((len(names), 2)), {"dominant": names})
    assert found.scores == {}
    assert found.predicted["dominant"] == [""] * len(names)


def test_nothing_known_at_all():
    found = predict(np.full((30, 2), NONE), {"dominant": ["cpu", "disk"] * 15})
    assert found.scores == {}
