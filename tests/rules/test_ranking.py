"""The ranking as preferred terms: what the scheduler is told, and what it has to look at for it."""

import itertools

import numpy as np
import pytest

from rules.affinity.ranking import ranking, scored
from rules.candidates import combine
from rules.nodes import columns
from rules.policy import Policy
from rules.scoring import PERCENT
from tests.support.opinions import Opinion
from tests.support.worlds import node

#: What `scored` times a term's values may come to, as the module documents it.
LOOKS = 2000


def ranked(count, scores, labels=lambda number: {}):
    nodes = columns([node(f"n{number:04d}", labels(number)) for number in range(count)], {})
    opinion = Opinion("one", None, np.array(scores, dtype=np.float64) * PERCENT)
    return nodes, ranking(nodes, combine([opinion], count), Policy(mode="prefer"))


def told(nodes, found, number):
    """What the terms add up to on a node."""
    return sum(
        term.weight
        for term in found.terms
        if all(
            (nodes.names[number] in each.values) == (each.operator == "In")
            if each.field
            else (nodes.labels[each.key].values[nodes.labels[each.key].codes[number]] in each.values)
            == (each.operator == "In")
            for each in term.expressions
        )
    )


@pytest.mark.parametrize(
    ("nodes", "seen"), [(1, 1), (99, 99), (100, 100), (150, 100), (400, 188), (1000, 420), (5000, 500), (6250, 312)]
)
def test_so_many_nodes_are_scored(nodes, seen):
    """By its documentation: all below 100 nodes, else 50 % less a 125th of their number, at least 5 % and 100."""
    assert scored(nodes) == seen


@pytest.mark.parametrize("count", [20, 99, 400, 1000, 3000])
def test_what_the_scheduler_looks_at_is_bounded(count):
    _, found = ranked(count, np.random.default_rng(count).permutation(count) / count * 100)
    values = sum(len(each.values) for term in found.terms for each in term.expressions)
    assert 1 <= len(found.terms) <= 5
    # Five at least; two that are denied cost what one does that is allowed.
    assert values <= max(2 * LOOKS / scored(count), 2 * 5)
    assert values <= 50 * 5


def test_the_best_few_are_named_each_in_a_field():
    scores = np.zeros(1000)
    scores[[7, 70, 700]] = 50
    _, found = ranked(1000, scores)
    assert [[(each.key, each.values) for each in term.expressions] for term in found.terms] == [
        [("metadata.name", (f"n{number:04d}",))] for number in (7, 70, 700)
    ]
    assert {term.weight for term in found.terms} == {50}
    assert set(found.top[:3].tolist()) == {7, 70, 700}


def test_a_better_node_never_weighs_less():
    draw = np.random.default_rng(1)
    for count, distinct in itertools.product((5, 30, 120, 1000), (False, True)):
        scores = draw.permutation(count) if distinct else draw.integers(0, 40, count)
        nodes, found = ranked(count, scores, lambda number: {"kind": f"k{number % 3}"})
        weights = np.array([told(nodes, found, number) for number in range(count)])
        order = np.argsort(scores)
        assert (np.diff(weights[order]) >= 0).all()
        if distinct or count < 100:  # of many that are alike nothing tells the best
            assert weights[scores.argmax()] > weights[scores.argmin()]


def test_a_label_tells_a_half_of_a_large_cluster_from_the_other():
    scores = [10 if number % 2 else 90 for number in range(1000)]
    _, found = ranked(1000, scores, lambda number: {"kind": f"k{number % 2}"})
    [term] = found.terms
    assert [(each.key, each.operator, each.values) for each in term.expressions] == [("kind", "In", ("k0",))]
    assert term.weight == 80


def test_where_the_scheduler_may_pass_over_the_best_the_next_are_expected_too():
    scores = np.zeros(1000)
    scores[3], scores[4:20] = 90, 80
    _, found = ranked(1000, scores)
    # .58 ** 5 = .066 and .58 ** 6 = .038: of six it sees one in more than 95 of 100 cases.
    assert len(found.top) == 6
    assert found.top[0] == 3
    _, small = ranked(50, scores[:50])
    assert small.top.tolist() == [3]


@pytest.mark.parametrize(("count", "operators"), [(1000, {"In"}), (20, {"In", "NotIn"})])
def test_what_tells_little_in_a_large_cluster_is_not_said(count, operators):
    """One node at 100, three at 40, the rest at 50. Of 1,000 nodes the best one tells .42 * 50 points on the average
    (.42 is its chance to be seen), the 997 that are not worst 10 * 3 / 1,000: too little. Of 20 nodes it is 1.9."""
    scores = np.full(count, 50.0)
    scores[7], scores[[2, 3, 5]] = 100.0, 40.0
    _, found = ranked(count, scores)
    assert {term.expressions[0].operator for term in found.terms} == operators
