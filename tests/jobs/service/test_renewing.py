"""Answers of a former view stand until they are worked out anew, where that is safe, and no longer."""

import base64
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import jsonpatch
import msgspec
import pytest
from msgspec import structs

from jobs.service import review
from jobs.service.desk import Desk
from jobs.service.prepared import Spent
from jobs.service.renewing import Renewing
from jobs.service.reservations import Reservations
from jobs.service.state import Current
from pipeline.objects import pod_of
from pipeline.records import PodSelection, Requirement
from rules.changes import Changes, updated
from rules.policy import Policy
from rules.recommend import recommend
from rules.request import from_pod
from rules.standing import scoped
from rules.view import View
from tests.support.service import review as reviewed
from tests.support.worlds import NOW, World, node, running

WORLD = World(
    [node(f"n{each}", cpu=8) for each in range(4)],
    pods=[running("guest/batch", "n0", cpu=1.0)],
    slowdowns={("guest/hello", "guest/batch"): 0.8},
    known=("guest/hello", "guest/batch"),
)
POLICY = Policy(mode="prefer", namespaces={"strict": "require"})
POD: dict[str, Any] = {
    "metadata": {"name": "x", "labels": {"openwhisk/namespace": "guest", "openwhisk/action": "hello"}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}
SOON = NOW + timedelta(seconds=15)


class Shown:
    """A state with one view at a time, and a desk that answers from it."""

    cluster = "c1"

    def __init__(self) -> None:
        self.current: Current[View] = Current(WORLD.snapshot(), WORLD.view(), NOW, 0)
        self.desk = Desk(
            self, POLICY, Reservations(), now=lambda: NOW, renewing=Renewing(Spent(), pause=lambda _: None)  # type: ignore[arg-type]
        )  # fmt: skip
        self.asked = 0

    @property
    def view(self) -> View:
        return self.current.view

    def show(self, view: View) -> None:
        self.current = replace(self.current, view=view)

    def patched(self, namespace: str = "ow", *, dry_run: bool = True) -> Any:
        """The pod as the desk has it changed; its decision left out."""
        self.asked += 1
        uid = f"{self.asked:08d}-0000-4000-8000-000000000000"
        request = review.decode(msgspec.json.encode(reviewed(POD, uid=uid, namespace=namespace))).request
        answer = json.loads(self.desk.decide(request, NOW, dry_run=dry_run).answer(uid))["response"]
        return told(jsonpatch.apply_patch(POD, json.loads(base64.b64decode(answer["patch"]))))

    def expected(self, view: View, namespace: str = "ow") -> Any:
        """The same, worked out for the pod alone."""
        asking = from_pod(POD, pod_of(POD), view, namespace=namespace, cluster="c1", policy=POLICY)
        return told(jsonpatch.apply_patch(POD, list(recommend(asking, view, POLICY, decision="d", at=NOW).patch)))


def told(pod: Any) -> Any:
    del pod["metadata"]["annotations"]["colocation.internal/decision"]
    return pod


def crowded(view: View, **more: Any) -> View:
    """*view* once its function's disturber runs on every node but the last."""
    came = tuple(running("guest/batch", f"n{each}", each + 10, cpu=1.0) for each in range(3))
    return replace(updated(view, SOON, Changes(came=came)), **more)


def test_a_former_answer_stands_until_it_is_worked_out_anew() -> None:
    shown = Shown()
    former = shown.view
    assert shown.patched() == shown.expected(former)
    shown.show(crowded(former))
    assert shown.expected(former) != shown.expected(shown.view), "else this would tell nothing"
    assert shown.patched() == shown.expected(former)
    shown.desk.renew()
    assert shown.patched() == shown.patched() == shown.expected(shown.view)


@pytest.mark.parametrize(
    "more",
    [
        {"learned": replace(WORLD.view().learned)},
        {"pairs": replace(WORLD.view().pairs)},
        {"services": {("ow", "db"): {"app": "db"}}},
        {"hosts": {("ow", "job", "1"): None}},
        {"nodes": WORLD.view().nodes},
        {"standing": scoped(WORLD.view().standing, {"ow": {"team": "payments"}})},
    ],
    ids=lambda more: next(iter(more)),
)
def test_nothing_stands_where_more_than_pods_has_changed(more: dict[str, Any]) -> None:
    shown = Shown()
    shown.patched()
    shown.show(crowded(shown.view, **more))
    assert shown.patched() == shown.expected(shown.view)


def test_nothing_stands_once_a_pod_has_come_that_may_not_have_others_beside_it() -> None:
    """A former answer writes a label, by which such a pod keeps others off: they would wait for it to go."""
    shown = Shown()
    shown.patched()
    selection = PodSelection((Requirement("app", "In", ("web",)),), "kubernetes.io/hostname", ("ow",))
    averse = structs.replace(running("guest/batch", "n1", 9, cpu=1.0), apart=(selection,))
    shown.show(updated(shown.view, SOON, Changes(came=(averse,))))
    assert shown.patched() == shown.expected(shown.view)
    before = shown.view
    shown.show(updated(before, SOON, Changes(gone=(averse,))))
    assert shown.expected(shown.view) != shown.expected(before), "else this would tell nothing"
    assert shown.patched() == shown.expected(shown.view)


def test_what_holds_a_pod_to_nodes_is_worked_out_at_once() -> None:
    shown = Shown()
    shown.patched("strict")
    shown.show(crowded(shown.view))
    assert shown.patched("strict") == shown.expected(shown.view, "strict")


def test_an_answer_stands_for_half_a_minute_at_most() -> None:
    shown = Shown()
    first = shown.view
    shown.patched()
    shown.show(crowded(first))
    assert shown.patched() == shown.expected(first)
    shown.show(replace(updated(shown.view, NOW + timedelta(seconds=29), Changes())))
    assert shown.patched() == shown.expected(first), "carried twice, and never renewed"
    shown.show(replace(updated(shown.view, NOW + timedelta(seconds=31), Changes())))
    assert shown.patched() == shown.expected(shown.view)


def test_an_answer_that_was_given_to_enough_pods_does_not_stand() -> None:
    shown = Shown()
    for _ in range(3):  # as many as there are best nodes, all but that of the disturber
        shown.patched(dry_run=False)
    shown.show(crowded(shown.view))
    assert shown.patched() == shown.expected(shown.view)


def test_what_waited_for_a_former_view_is_not_worked_out_any_more() -> None:
    shown = Shown()
    shown.patched()
    shown.show(crowded(shown.view))
    shown.patched()
    shown.show(WORLD.view())
    shown.patched()
    made: list[View] = []
    prepare = shown.desk._prepare
    shown.desk._prepare = lambda key, review, view, at: made.append(view) or prepare(key, review, view, at)  # type: ignore[method-assign,assignment,func-returns-value]
    shown.desk.renew()
    assert made == []


class Prepared:
    """As much of an answer as renewing looks at."""

    left_out = False

    def __init__(self, at: int) -> None:
        self.view = replace(WORLD.view(), at=NOW + timedelta(seconds=at))


def waiting(
    spent: Spent, paused: list[float], ages: list[int], now: int = 20
) -> tuple[Renewing, dict[tuple[object, ...], Any]]:
    """Answers number 0, 1, ... of views at these seconds, all of which wait to be renewed from one at *now*."""
    renewing = Renewing(spent, pause=paused.append)
    answers: dict[tuple[object, ...], Any] = {(number,): Prepared(at) for number, at in enumerate(ages)}
    renewing.follow(answers)
    for number in range(len(ages)):
        request = review.decode(msgspec.json.encode(reviewed(POD, uid=str(number)))).request
        renewing.later((number,), request, Prepared(now).view)
    return renewing, answers


def test_the_oldest_answers_are_renewed_first_and_none_that_was_made_anew_meanwhile() -> None:
    renewing, answers = waiting(Spent(), [], [3, 1, 2, 0])
    answers[1,] = Prepared(9)
    asked: list[str] = []

    def prepare(key: object, request: review.AdmissionRequest, view: View) -> Any:
        asked.append(request.uid)
        return Prepared(20)

    renewing.work(prepare)
    assert asked == ["3", "2", "0"]
    assert [made.view.at - NOW for made in answers.values()] == [timedelta(seconds=s) for s in (20, 9, 20, 20)]


def test_renewing_takes_a_twentieth_of_the_time_and_rests_for_what_others_spend_on_answers_too() -> None:
    paused: list[float] = []
    spent = Spent()
    renewing, _ = waiting(spent, paused, [0, 1, 2])
    took = iter([0.002, 0.004, 0.0])

    def prepare(key: object, review: Any, view: View) -> Any:
        spent.seconds += next(took)
        return Prepared(20)

    renewing.work(prepare)
    assert paused == pytest.approx([0.038, 0.076, 0.01])  # 19 times as long, and a hundredth of a second at least


def test_what_is_nearly_too_old_is_not_made_to_wait() -> None:
    paused: list[float] = []
    spent = Spent()
    renewing, _ = waiting(spent, paused, [0, 4, 5, 9], now=27)

    def prepare(key: object, request: review.AdmissionRequest, view: View) -> Any:
        spent.seconds += 0.002
        return Prepared(20)

    renewing.work(prepare)
    assert paused == pytest.approx([0.01, 0.01, 0.038, 0.038])  # older than 22 seconds: two


def test_what_a_later_view_can_have_renewed_in_time_waits_for_it() -> None:
    spent = Spent()
    renewing, answers = waiting(spent, [], [0, 8, *[10] * 5])
    asked: list[str] = []

    def prepare(key: object, request: review.AdmissionRequest, view: View) -> Any:
        asked.append(request.uid)
        spent.seconds += 0.002
        return Prepared(20)

    renewing.work(prepare)
    renewing.work(prepare)
    assert asked == ["0"]  # twenty seconds old; the others are no more than twelve
    assert len(answers) == 7


def test_no_more_waits_for_a_later_view_than_a_twentieth_of_a_core_renews_in_eight_seconds() -> None:
    spent = Spent()
    renewing, _ = waiting(spent, [], [0, *range(8, 20)])
    asked: list[str] = []

    def prepare(key: object, request: review.AdmissionRequest, view: View) -> Any:
        asked.append(request.uid)
        spent.seconds += 0.95 if len(asked) == 1 else 0.1
        return Prepared(20)

    renewing.work(prepare)
    # The mean, which follows slowly, is nearly a tenth of a second: the last four of twelve would take .39 s.
    assert asked == [str(number) for number in range(9)]


def test_where_no_other_view_comes_the_young_ones_are_renewed_too() -> None:
    now = [0.0]
    renewing = Renewing(Spent(), pause=lambda _: None, clock=lambda: now[0])
    answers: dict[tuple[object, ...], Any] = {(): Prepared(10)}
    renewing.follow(answers)
    renewing.later((), review.decode(msgspec.json.encode(reviewed(POD))).request, Prepared(20).view)
    made = []
    for now[0] in (9.0, 10.0):
        renewing.work(lambda key, request, view: made.append(now[0]) or Prepared(20))  # type: ignore[func-returns-value,return-value]
    assert made == [10.0]
