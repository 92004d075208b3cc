"""The plan of the recorder and the place of its sessions in a recording."""

from collections import Counter
from itertools import combinations, pairwise

import pytest

from jobs.demo.recorder import layout, plan
from jobs.demo.recorder.functions import FUNCTIONS

NAMES = list(FUNCTIONS)


@pytest.mark.parametrize("count", [2, 3, 6, 9])
def test_every_two_functions_meet_once_and_each_has_one_table_a_round(count: int) -> None:
    rounds = plan.tournament(NAMES[:count])
    met = Counter(frozenset(members) for tables in rounds for members in tables if len(members) == 2)
    assert met == {frozenset(two): 1 for two in combinations(NAMES[:count], 2)}
    for tables in rounds:
        seated = [name for members in tables for name in members]
        assert sorted(seated) == sorted(NAMES[:count])


def test_threes_of_nine_hold_every_two_once_and_fill_their_rounds() -> None:
    rounds = plan.triples(NAMES)
    met = Counter(frozenset(two) for tables in rounds for members in tables for two in combinations(members, 2))
    assert met == {frozenset(two): 1 for two in combinations(NAMES, 2)}
    assert all(sorted(name for members in tables for name in members) == sorted(NAMES) for tables in rounds)
    assert plan.triples(NAMES[:8]) == []


def test_in_a_pair_each_runs_alone_twice_and_both_run_together_three_times() -> None:
    session = plan.Session("pair-0-a+b", "pair", 0, 0, (NAMES[0], NAMES[1]))
    first, second = (set(part.blocks) for part in plan.parts(session, seed=1))
    assert len(first & second) == 3
    assert len(first - second) == len(second - first) == 2
    every = sorted(first | second)
    assert all(start + length <= later for (start, length), (later, _) in pairwise(every))
    assert plan.parts(session, seed=1) == plan.parts(session, seed=1)


def _session(round_: int, table: int, spawned: int) -> dict[str, object]:
    members = (NAMES[2 * table], NAMES[2 * table + 1])
    containers = [{"function": name, "spawned": spawned + 1000 * at} for at, name in enumerate(members)]
    return {"round": round_, "table": table, "members": members, "containers": containers}


def test_a_rounds_sessions_stand_side_by_side_and_start_just_before_a_scrape() -> None:
    sessions = [
        _session(round_, table, 77_000_000 * (3 * round_ + table)) for round_ in (0, 1) for table in (0, 1, 2)
    ]
    placed = layout.place(sessions)
    for round_ in (0, 1):
        here = [each for each in placed if each.session["round"] == round_]
        assert sorted(each.node for each in here) == [0, 1, 2]
        for each in here:
            began = each.session["containers"][0]["spawned"] + each.shift
            slot = layout.ANCHOR + round_ * layout.SLOT
            assert slot <= began < slot + layout.SCRAPE
            assert (began + layout.BEFORE_SCRAPE - layout.ANCHOR - layout.phase(each.node)) % layout.SCRAPE == 0
    assert [each.until for each in placed] == [layout.ANCHOR + layout.SLOT] * 3 + [None] * 3
    assert layout.end(placed) == layout.ANCHOR + 2 * layout.SLOT
