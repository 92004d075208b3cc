"""What former views and answers leave behind is freed in bits, and nothing that is still in use."""

from datetime import timedelta
from pathlib import Path

import msgspec

from jobs.service import review
from jobs.service.desk import Desk
from jobs.service.reservations import Reservations
from jobs.service.retiring import Retiring
from jobs.service.state import State
from rules.changes import Changes, updated
from rules.policy import Policy
from rules.running import Reservation
from rules.view import View
from rules.warm import warm
from tests.support.service import Fixed
from tests.support.service import review as reviewed
from tests.support.worlds import NOW, World, node, running

WORLD = World(
    [node("A"), node("B")],
    pods=[running("batch", "A", 0), running("hello", "B")],
    slowdowns={("hello", "batch"): 0.8},
    known=("hello", "batch"),
)
POLICY = Policy(mode="prefer")
POD = {"metadata": {"name": "x", "labels": {"openwhisk/action": "hello"}}, "spec": {"containers": []}}


def asked(number: int) -> review.AdmissionRequest:
    body = reviewed(POD, uid=f"{number:08d}-0000-4000-8000-000000000000", namespace="ow")
    return review.decode(msgspec.json.encode(body)).request


def results(view: View) -> int:
    return len(view.pairs.memo._kept) + len(view.latencies.memo._kept)


def used(view: View) -> View:
    list(warm(view, POLICY, 10))
    assert results(view)
    return view


def test_a_former_snapshots_results_are_freed_and_the_new_ones_stay() -> None:
    former, view, retiring = used(WORLD.view()), used(WORLD.view()), Retiring(pause=lambda _: None)
    before = results(view)
    retiring.view(former, view)
    assert results(former) == before, "who answers hands over, and frees nothing"
    retiring.work()
    assert (results(former), results(view)) == (0, before)


def test_results_that_an_updated_view_still_uses_stay() -> None:
    former, retiring = used(WORLD.view()), Retiring(pause=lambda _: None)
    former.memo.once("of this view alone", lambda: 1)
    view = updated(former, NOW, Changes(reserved=(Reservation("d", "A", "batch", {"cpu": 1.0}),)))
    before = results(view)
    retiring.view(former, view)
    retiring.work()
    assert results(view) == before
    assert not former.memo._kept


def test_no_bit_is_so_large_that_others_have_to_wait() -> None:
    freed: list[int] = []
    items = dict.fromkeys(range(1000))
    retiring = Retiring(pause=lambda _: freed.append(1000 - len(items)))
    retiring.answers(items)
    retiring.work()
    assert not items
    assert max(after - before for before, after in zip([0, *freed], [*freed, 1000], strict=True)) <= 50


def test_a_view_whose_results_are_gone_answers_as_before() -> None:
    view, retiring = WORLD.view(), Retiring(pause=lambda _: None)
    desks = [Desk(Fixed(WORLD, view), POLICY, Reservations(), now=lambda: NOW) for _ in range(2)]  # type: ignore[arg-type]
    first = desks[0].decide(asked(1), NOW, dry_run=True)
    retiring.view(view, WORLD.view())
    retiring.work()
    again = desks[1].decide(asked(1), NOW, dry_run=True)
    assert first.answer(first.kept.decision) == again.answer(again.kept.decision)


def test_the_desk_hands_over_the_answers_of_a_former_view() -> None:
    state, gone = Fixed(WORLD), []
    desk = Desk(state, POLICY, Reservations(), now=lambda: NOW, retire=gone.append)  # type: ignore[arg-type]
    desk.decide(asked(1), NOW, dry_run=True)
    gone.clear()
    state.show(WORLD.view())
    desk.decide(asked(2), NOW, dry_run=True)
    [former] = gone
    assert len(former) == 1


def test_the_state_tells_which_view_took_the_place_of_which(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    made, changes = iter(range(100)), iter(range(100))
    state: State[int] = State(
        tmp_path / "none",
        "c1",
        lambda snapshot, cluster, at: next(made),
        changes=lambda: next(changes),
        now=lambda: NOW + timedelta(seconds=1),
        retire=lambda former, view: told.append((former, view)),
    )
    told.clear()
    before = state.current.view
    state._earliest = 0.0
    assert state.refresh()
    assert told == [(before, before + 1)]
