"""Terms on OpenWhisk's labels: as few as say what is meant."""

import itertools

import pytest

from rules.affinity.pods import against
from rules.policy import Policy

KNOWN = frozenset({"a/x", "a/y", "b/y", "b/z", "c/w", "bare"})


def others(functions, weight):
    """The terms on OpenWhisk's labels."""
    _, *found = against(functions, Policy(), weight=weight, across=False, known=KNOWN.__contains__)
    return [{each.key: each.values for each in term.expressions} for term in found]


def meant(functions, weight):
    """The known functions whose pods, by OpenWhisk's labels alone, meet some term."""
    return {
        name
        for name in KNOWN
        for term in others(functions, weight)
        if name.rpartition("/")[2] in term["openwhisk/action"]
        and name.rpartition("/")[0] in term.get("openwhisk/namespace", (name.rpartition("/")[0],))
    }


def test_namespaces_without_each_others_actions_share_a_term():
    [term] = others(["a/x", "b/z"], 50)
    assert term == {
        "openwhisk/action": ("x", "z"),
        "openwhisk/namespace": ("a", "b"),
        "colocation.internal/function": (),
    }


def test_a_function_that_is_not_meant_keeps_them_apart():
    # a/y is known and not meant: x and y of a and b in one term would mean it.
    assert len(others(["a/x", "b/y"], 50)) == 2


@pytest.mark.parametrize("weight", [50, None])
@pytest.mark.parametrize("count", range(1, len(KNOWN) + 1))
def test_exactly_the_known_functions_are_meant(count, weight):
    for chosen in itertools.combinations(sorted(KNOWN - {"bare"}), min(count, 5)):
        assert meant(chosen, weight) == set(chosen)


def test_required_terms_mean_no_function_that_may_come():
    # d/x may be created tomorrow: a rule that has to hold would keep it out for good.
    assert len(others(["a/x", "c/w"], None)) == 2
