"""Sets of candidates and their one combination."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.candidates import Candidates, Sparse, combine, share
from tests.support.opinions import Opinion


def allow(rule: str, *ids: int, size: int = 4, firm: bool = True) -> Opinion:
    return Opinion(rule, Candidates.named(True, ids, size), firm=firm)


def deny(rule: str, *ids: int, size: int = 4, firm: bool = True) -> Opinion:
    return Opinion(rule, Candidates.named(False, ids, size), firm=firm)


def allowed(combined) -> list[int]:
    return np.flatnonzero(combined.allowed).tolist()


@given(st.lists(st.booleans(), max_size=40))
def test_the_shorter_list_is_kept_and_means_the_same(flags):
    mask = np.array(flags, dtype=bool)
    found = Candidates.of(mask)
    assert found.mask().tolist() == flags
    assert found.denied().tolist() == [not flag for flag in flags]
    assert len(found) == sum(flags)
    assert len(found.ids) == min(sum(flags), len(flags) - sum(flags))


def test_listed_names_come_from_the_universe():
    assert list(Candidates.named(False, [2, 0, 2], 3).names(("a", "b", "c"))) == ["a", "c"]


def test_allow_meets_allow_and_deny_takes_away():
    """The published combination: allow {A,B}, deny {B}, out of [C,A,B] leaves A."""
    a, b, c = 0, 1, 2
    combined = combine([allow("hpa", a, b, size=3), deny("other", b, size=3), allow("group", c, a, b, size=3)], 3)
    assert allowed(combined) == [a]
    assert combined.emptied_by == ()


def test_scores_add_and_rank_what_is_allowed():
    speed = Opinion("speed", scores=np.array([3.0, 1.0, 2.0, 9.0]))
    room = Opinion("room", scores=np.array([0.0, 5.0, 1.0, 0.0]))
    combined = combine([speed, room, deny("full", 3)], 4)
    assert combined.ranked().tolist() == [1, 0, 2]  # 6, 3, 3: equal ones by number
    assert combined.ranked(1).tolist() == [1]


def test_an_empty_result_names_a_smallest_set_of_rules():
    opinions = [allow("a", 0, 1), allow("b", 2, 3), deny("c", 0)]
    assert combine(opinions, 4).emptied_by == ("a", "b")
    alone = [allow("z"), allow("a", 0), allow("b", 1)]
    assert combine(alone, 4).emptied_by in [("z",), ("a", "b")]
    three = [deny("x", 0, 1), deny("y", 2), deny("z", 3), deny("w", 2, 0)]
    assert set(combine(three, 4).emptied_by) <= {"w", "x", "y", "z"}
    assert {"x", "z"} <= set(combine(three, 4).emptied_by)


@pytest.mark.parametrize(("remaining", "left", "gave_way"), [(1, [1], ()), (2, [0, 1], ("soft",))])
def test_a_set_that_is_not_firm_gives_way_whole(remaining, left, gave_way):
    combined = combine([allow("firm", 0, 1), allow("soft", 1, 2, firm=False)], 4, remaining)
    assert allowed(combined) == left
    assert combined.gave_way == gave_way


def test_nothing_that_is_not_firm_ever_empties_the_result():
    combined = combine([allow("firm", 0), deny("soft", 0, firm=False)], 4)
    assert allowed(combined) == [0]
    assert combined.emptied_by == ()


@st.composite
def _opinions(draw):
    size = draw(st.integers(1, 6))
    ids = st.lists(st.integers(0, size - 1), max_size=size)
    rules = draw(st.lists(st.tuples(st.booleans(), ids, st.booleans()), max_size=5))
    return size, [
        Opinion(f"r{i}", Candidates.named(allow, ids, size), np.arange(size) * (i + 0.1), firm)
        for i, (allow, ids, firm) in enumerate(rules)
    ]


@given(_opinions(), st.randoms(use_true_random=False))
def test_order_does_not_matter_and_sets_mean_what_they_say(given_opinions, shuffler):
    size, opinions = given_opinions
    combined = combine(opinions, size)
    shuffled = list(opinions)
    shuffler.shuffle(shuffled)
    again = combine(shuffled, size)
    assert combined.allowed.tolist() == again.allowed.tolist()
    assert combined.scores.tolist() == again.scores.tolist()
    assert (combined.emptied_by, combined.gave_way) == (again.emptied_by, again.gave_way)

    def members(opinion):
        listed = set(opinion.candidates.ids.tolist())
        return listed if opinion.candidates.allow else set(range(size)) - listed

    expected = set(range(size))
    for opinion in opinions:
        if opinion.firm or opinion.rule not in combined.gave_way:
            expected &= members(opinion)
    assert set(allowed(combined)) == expected
    if not expected:
        named = [members(each) for each in opinions if each.rule in combined.emptied_by]
        assert named and not set.intersection(*named)
        for left_out in range(len(named)):
            rest = named[:left_out] + named[left_out + 1 :]
            assert not rest or set.intersection(*rest)


def test_scores_by_group_add_up_to_one_score_a_name_and_rank_all_that_is_left():
    rng = np.random.default_rng(5)
    size = 60
    group_of = rng.integers(0, 3, size).astype(np.int32)
    room, full = rng.integers(0, 4, size).astype(float), deny("full", *range(0, size, 7), size=size)
    shared = share([Opinion("room", scores=room), full], size)
    for usual in ([5.0, 1.0, 9.0], [1.0, 5.0, 9.0], [5.0, 1.0, 9.0], [2.0, 2.0, 2.0]):
        told = []
        for name in ("company", "speed"):
            ids = rng.choice(size, 8, replace=False)
            told.append(
                Opinion(name, scores=Sparse(np.array(usual), ids, rng.integers(0, 12, 8).astype(float), group_of))
            )
        every = room.copy()
        for each in told:
            dense = np.array(usual)[group_of]
            dense[each.scores.ids] = each.scores.values
            every += dense
        combined = combine(told, size, shared=shared)
        assert combined.scores.tolist() == every.tolist()
        left = [number for number in range(size) if number % 7]
        assert sorted(combined.best.tolist()) == left
        assert every[combined.best].tolist() == sorted(every[left], reverse=True)
