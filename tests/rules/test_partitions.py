"""Partition candidates: their two forms, and disjoint clusters for apps that contend."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import BadInput
from rules.candidates import Candidates, Combined, combine
from rules.contention import part
from rules.partitions import Company, Partition, candidates, company, render
from tests.support.opinions import Opinion

CLUSTERS = ("A", "B", "C", "D")


def combined(*allowed: str, scores: tuple[float, ...] = (0.0,) * 4) -> Combined:
    ids = [CLUSTERS.index(name) for name in allowed]
    return combine([Opinion("sizes", Candidates.named(True, ids, 4), np.array(scores))], 4)


def partition(app: str, *allowed: str, count: int = 1, scores: tuple[float, ...] = (0.0,) * 4) -> Partition:
    return Partition(app, combined(*allowed, scores=scores), count)


def clusters(partition: Partition) -> set[str]:
    return {CLUSTERS[number] for number in partition.combined.best.tolist()}


def test_ranked_clusters_are_allowed_in_the_order_of_their_rank():
    """The published example: B with the optional device ranks before A, C lacks what is needed."""
    ranked = partition("fwall", "A", "B", scores=(0.0, 9.0, 0.0, 0.0))
    assert render(ranked, CLUSTERS) == {"replication-count": 1, "allow": ["B", "A"]}


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ("A", {"allow": ["A"]}),
        ("AB", {"allow": ["A", "B"]}),
        ("ABD", {"deny": ["C"]}),
        ("ABCD", {"deny": []}),
        ("", {"allow": []}),
    ],
)
def test_of_equal_clusters_the_shorter_list_is_written(allowed, expected):
    assert render(partition("a", *allowed, count=2), CLUSTERS) == {"replication-count": 2, **expected}


def test_the_only_cluster_is_said_by_its_name():
    found = combine([Opinion("sizes", Candidates.named(True, [0], 1), np.zeros(1))], 1)
    assert render(Partition("a", found), ("A",)) == {"replication-count": 1, "allow": ["A"]}


@given(st.sets(st.sampled_from(CLUSTERS)), st.booleans())
def test_both_forms_denote_the_same_set(names, ranked):
    written = partition("a", *sorted(names), scores=(1.0, 2.0, 3.0, 4.0) if ranked else (0.0,) * 4)
    [(count, read)] = candidates({"a": render(written, CLUSTERS)}, CLUSTERS).values()
    assert count == 1
    assert {CLUSTERS[number] for number in np.flatnonzero(read.mask()).tolist()} == names


def test_answers_of_several_controllers_intersect_and_an_empty_result_names_them():
    """Published: allow {A,B} and deny {B} out of the group [C,A,B] leave A; allow {A} and deny {A} leave nothing."""
    answers = {
        "hpa": {"a": {"replication-count": 1, "allow": ["A", "B"]}},
        "other": {"a": {"deny": ["B"]}},
        "group": {"a": {"allow": ["C", "A", "B"]}},
    }
    read = [Opinion(name, candidates(each, CLUSTERS)["a"][1]) for name, each in answers.items()]
    assert render(Partition("a", combine(read, 4)), CLUSTERS)["allow"] == ["A"]
    conflict = [Opinion(name, Candidates.named(allow, [0], 4)) for name, allow in (("hpa", True), ("other", False))]
    assert combine(conflict, 4).emptied_by == ("hpa", "other")


def test_a_name_that_is_no_cluster_changes_nothing():
    read = candidates({"a": {"allow": ["A", "gone"]}, "b": {"deny": ["gone"]}}, CLUSTERS)
    assert [len(found) for _, found in read.values()] == [1, 4]


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"a": ["A"]}, "a: is no object"),
        ({"a": {}}, "a: needs one of allow and deny"),
        ({"a": {"allow": [], "deny": []}}, "a: needs one of allow and deny"),
        ({"a": {"allow": "A"}}, "a: allow: is no list of names"),
        ({"a": {"deny": [1]}}, "a: deny: is no list of names"),
        ({"a": {"allow": ["A"], "replication-count": 0}}, "a: replication-count: 0 is no number of clusters"),
        ({"a": {"allow": ["A"], "replicas": 1}}, "a: replicas: no such field"),
    ],
)
def test_what_cannot_be_read_is_told_by_app_and_field(document, told):
    with pytest.raises(BadInput, match=told):
        candidates(document, CLUSTERS)


def test_the_form_of_apps_takes_no_count():
    with pytest.raises(BadInput, match="a: replication-count: no such field"):
        company({"a": {"allow": ["b"], "replication-count": 1}})


def test_an_allow_list_of_apps_admits_these_alone_and_a_deny_list_all_others():
    allowing, denying = company({"a": {"allow": ["b"]}, "c": {"deny": ["b"]}})
    assert [allowing.admits(name) for name in "bcd"] == [True, False, False]
    assert [denying.admits(name) for name in "abd"] == [True, False, True]


def test_apps_that_contend_get_disjoint_clusters():
    parted = part([partition("a", *"ABCD"), partition("b", *"ABCD")], company({"a": {"deny": ["b"]}}))
    a, b = map(clusters, parted.partitions)
    assert a and b and not a & b
    assert a | b == set("ABCD")
    assert parted.unplaced == ()


def test_apps_that_stand_each_other_keep_all_they_had():
    parted = part([partition("a", *"ABC"), partition("b", *"ABD")], company({"a": {"allow": ["b"]}}))
    assert [clusters(each) for each in parted.partitions] == [set("ABC"), set("ABD")]


def test_the_app_with_less_to_choose_from_is_served_first():
    """a ranks A first, but b can go nowhere else."""
    preferring = partition("a", "A", "B", scores=(9.0, 0.0, 0.0, 0.0))
    parted = part([preferring, partition("b", "A")], company({"b": {"deny": ["a"]}}))
    assert [clusters(each) for each in parted.partitions] == [{"B"}, {"A"}]


def test_too_few_clusters_are_told_with_the_apps_that_contend_for_them():
    three = [partition(app, "A", "B") for app in "abc"]
    alone = company({app: {"allow": []} for app in "abc"})
    [told] = part([*three, partition("d", "D")], alone).unplaced
    # d stands everybody, but the others do not stand it: it contends with them all the same.
    assert told.apps == ("a", "b", "c", "d")
    assert not told.undecided


def test_an_app_that_its_own_rules_leave_too_few_clusters_is_told_with_these():
    empty = combine(
        [Opinion("cpu", Candidates.named(True, [0], 4)), Opinion("gpu", Candidates.named(True, [1], 4))], 4
    )
    [told] = part([Partition("a", empty), partition("b", "A")], ()).unplaced
    assert (told.apps, told.rules) == (("a",), ("cpu", "gpu"))


@st.composite
def _contentions(draw):
    apps = [f"a{number}" for number in range(draw(st.integers(2, 4)))]
    parts = []
    for app in apps:
        names = draw(st.sets(st.sampled_from(CLUSTERS), min_size=1))
        scores = tuple(float(each) for each in draw(st.lists(st.integers(0, 2), min_size=4, max_size=4)))
        parts.append(partition(app, *sorted(names), count=draw(st.integers(1, len(names))), scores=scores))
    stated = {
        app: {draw(st.sampled_from(["allow", "deny"])): sorted(draw(st.sets(st.sampled_from(apps))))}
        for app in draw(st.sets(st.sampled_from(apps)))
    }
    return parts, company(stated)


def _contend(one: str, other: str, stated: tuple[Company, ...]) -> bool:
    said = {each.app: each for each in stated}
    return any(a in said and not said[a].admits(b) for a, b in ((one, other), (other, one)))


def _possible(parts: list[Partition], stated: tuple[Company, ...], chosen: tuple[set[str], ...] = ()) -> bool:
    """Whether there are clusters for all, by trying every choice."""
    if len(chosen) == len(parts):
        return True
    here = parts[len(chosen)]
    taken = set().union(
        *(held for other, held in zip(parts, chosen, strict=False) if _contend(here.app, other.app, stated))
    )
    choices = combinations(sorted(clusters(here) - taken), here.count)
    return any(_possible(parts, stated, (*chosen, set(each))) for each in choices)


@settings(max_examples=100, deadline=None)
@given(_contentions(), st.randoms(use_true_random=False))
def test_parting_agrees_with_trying_every_choice(drawn, shuffler):
    parts, stated = drawn
    parted = part(parts, stated)
    assert (parted.unplaced == ()) == _possible(parts, stated)
    shuffled = list(parts)
    shuffler.shuffle(shuffled)
    assert [clusters(each) for each in part(shuffled, stated).partitions] == [*map(clusters, parted.partitions)]
    if parted.unplaced:
        return
    kept = {each.app: clusters(each) for each in parted.partitions}
    for before in parts:
        after = kept[before.app]
        assert after <= clusters(before)
        assert len(after) >= before.count
        for other in parts:
            if other.app != before.app and _contend(before.app, other.app, stated):
                assert not after & kept[other.app]
        # Nothing is given away that no contender holds.
        for left in clusters(before) - after:
            assert any(left in kept[other.app] and _contend(before.app, other.app, stated) for other in parts)


def test_a_hundred_thousand_clusters_are_dealt_out_among_twenty_apps():
    """Half of them each, for two classes of apps that do not stand each other; every app still finds its best."""
    size, rng = 100_000, np.random.default_rng(0)
    parts = []
    for number in range(20):
        opinion = Opinion("r", Candidates.of(rng.random(size) < 0.9), rng.integers(0, 100, size).astype(float))
        parts.append(Partition(f"a{number:02}", combine([opinion], size), 3))
    odd = [each.app for each in parts[1::2]]
    parted = part(parts, company({each.app: {"deny": odd} for each in parts[::2]}))
    assert parted.unplaced == ()
    held = [np.zeros(size, dtype=bool) for _ in range(2)]
    for number, each in enumerate(parted.partitions):
        assert 40_000 < len(each.combined.best) < 60_000
        held[number % 2] |= each.combined.allowed
    assert not (held[0] & held[1]).any()
