"""What is worked out ahead of a function's first pod is what that pod alone would get, for as long as it holds."""

import base64
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import jsonpatch
import msgspec
import pytest

from jobs.service import review
from jobs.service.ahead import Ahead
from jobs.service.desk import Desk
from jobs.service.prepared import Spent
from jobs.service.renewing import Answers, Renewing
from jobs.service.reservations import Reservations
from pipeline.objects import pod_of
from pipeline.records import PodSelection, Requirement
from rules.changes import Changes, updated
from rules.policy import Policy
from rules.recommend import recommend
from rules.request import from_pod
from rules.view import View
from tests.support.service import Fixed
from tests.support.service import review as reviewed
from tests.support.worlds import NOW, World, node, running

WORLD = World(
    [node(f"n{each}", cpu=8) for each in range(4)],
    pods=[running("guest/batch", "n0", cpu=1.0), running("guest/batch", "n1", 1, cpu=1.0)],
    slowdowns={("guest/hello", "guest/batch"): 0.8, ("guest/world", "guest/batch"): 0.5},
    known=("guest/hello", "guest/batch", "guest/world"),
)
POLICY = Policy(mode="prefer", namespaces={"strict": "require"})
SOON = NOW + timedelta(seconds=5)


def pod(action: str, cpu: str = "1") -> dict[str, Any]:
    """A pod of that action, as all others but for it and what it asks for."""
    labels = {"openwhisk/namespace": "guest", "openwhisk/action": action, "app": action}
    return {
        "metadata": {"name": f"pod-of-{action}", "labels": labels},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }


def moved(view: View, at: Any = SOON, **more: Any) -> View:
    """*view* once another pod has come."""
    return replace(updated(view, at, Changes(came=(running("guest/batch", "n2", 7, cpu=1.0),))), **more)


class Served:
    """A desk that answers from one view at a time, the first of which has just come."""

    def __init__(self, workers: int = 1) -> None:
        self.seconds = 0.0
        self.now = NOW
        self.paused: list[float] = []
        self.retired: list[Answers] = []
        self.worked = 0
        self.ahead = Ahead(self.retired.append, self._pause, lambda: self.seconds, workers)
        self.state = Fixed(WORLD)
        self.desk = Desk(self.state, POLICY, Reservations(), now=lambda: self.now, ahead=self.ahead)  # type: ignore[arg-type]
        prepare = self.desk._prepare

        def prepared(*given: Any) -> Any:
            self.worked += 1
            return prepare(*given)

        self.desk._prepare = prepared  # type: ignore[method-assign]
        self.ahead.turn(self.view, self.view)
        self.asked = 0

    def _pause(self, seconds: float) -> None:
        self.paused.append(seconds)

    @property
    def view(self) -> View:
        return self.state.current.view

    def show(self, view: View) -> None:
        former = self.view
        self.state.show(view)
        self.ahead.turn(former, view)

    def begin(self, namespace: str = "ow") -> None:
        """Have two functions asked about, which tells the shape of pods, and the rest worked out ahead."""
        for action in ("batch", "world"):
            self.patched(pod(action), namespace)
        self.desk.prepare_ahead()
        self.worked = 0

    def patched(self, given: dict[str, Any], namespace: str = "ow") -> Any:
        """The pod as the desk has it changed; its decision left out."""
        self.asked += 1
        uid = f"{self.asked:08d}-0000-4000-8000-000000000000"
        request = review.decode(msgspec.json.encode(reviewed(given, uid=uid, namespace=namespace))).request
        answer = json.loads(self.desk.decide(request, self.now, dry_run=True).answer(uid))["response"]
        return told(jsonpatch.apply_patch(given, json.loads(base64.b64decode(answer.get("patch") or "W10="))))

    def expected(self, given: dict[str, Any], view: View, namespace: str = "ow") -> Any:
        """The same, worked out for the pod alone."""
        asking = from_pod(given, pod_of(given), view, namespace=namespace, cluster="c1", policy=POLICY)
        found = recommend(asking, view, POLICY, decision="d", at=self.now)
        return told(jsonpatch.apply_patch(given, list(found.patch)))


def told(changed: Any) -> Any:
    changed["metadata"].get("annotations", {}).pop("colocation.internal/decision", None)
    return changed


def test_the_first_pod_of_a_function_gets_what_it_would_alone_and_waits_for_nothing() -> None:
    served = Served()
    served.begin()
    assert served.patched(pod("hello")) == served.expected(pod("hello"), served.view) != pod("hello")
    assert served.worked == 0


def test_a_pod_that_asks_for_something_else_is_worked_out_by_itself() -> None:
    served = Served()
    served.begin()
    greedy = pod("hello", cpu="7.5")  # there is room for it on two nodes only
    assert served.patched(greedy) == served.expected(greedy, served.view)
    assert served.worked == 1


def test_what_the_history_keeps_is_that_of_the_pod_itself() -> None:
    served = Served()
    served.begin()
    request = review.decode(msgspec.json.encode(reviewed(pod("hello"), uid="u" * 36, namespace="ow"))).request
    kept = json.loads(msgspec.json.encode(served.desk.decide(request, NOW, dry_run=True).record().document))
    asking = from_pod(pod("hello"), pod_of(pod("hello")), served.view, namespace="ow", cluster="c1", policy=POLICY)
    alone = json.loads(msgspec.json.encode(recommend(asking, served.view, POLICY, decision="u" * 36, at=NOW)))
    assert served.worked == 0
    assert kept == alone


def test_where_only_pods_came_it_stands_for_half_a_minute_after_its_view() -> None:
    served = Served()
    served.begin()
    first = served.view
    served.show(moved(first, NOW + timedelta(minutes=30)))  # it was right until then
    assert served.expected(pod("hello"), first) != served.expected(pod("hello"), served.view), "else it tells nothing"
    served.now = NOW + timedelta(minutes=30, seconds=30)
    assert served.patched(pod("hello")) == served.expected(pod("hello"), first)
    assert served.worked == 0
    later = Served()
    later.begin()
    later.show(moved(later.view, NOW + timedelta(minutes=30)))
    later.now = NOW + timedelta(minutes=30, seconds=31)
    assert later.patched(pod("hello")) == later.expected(pod("hello"), later.view)
    assert later.worked == 1


def test_it_is_as_old_as_its_view_is_gone_however_long_that_stood() -> None:
    """Half an hour in which nothing changed makes no answer old: renewing it waits for a view, or for ten seconds."""
    served = Served()
    served.desk._renewing = Renewing(Spent(), pause=lambda _: None, clock=lambda: served.seconds)
    served.begin()
    served.show(moved(served.view, NOW + timedelta(minutes=30)))
    served.now = NOW + timedelta(minutes=30)
    served.patched(pod("hello"))
    served.desk.renew()
    assert served.worked == 0
    served.seconds += 10.0
    served.desk.renew()
    assert served.worked == 1
    assert served.patched(pod("hello")) == served.expected(pod("hello"), served.view)


@pytest.mark.parametrize(
    "more", [{"learned": replace(WORLD.view().learned)}, {"nodes": WORLD.view().nodes}], ids=["learned", "nodes"]
)
def test_it_does_not_stand_where_more_than_pods_has_changed(more: dict[str, Any]) -> None:
    served = Served()
    served.begin()
    served.show(moved(served.view, **more))
    assert served.patched(pod("hello")) == served.expected(pod("hello"), served.view)
    assert served.worked == 1
    assert len(served.retired) == 1


def test_what_holds_a_pod_to_nodes_does_not_outlive_its_view() -> None:
    served = Served()
    served.begin("strict")
    assert served.patched(pod("hello"), "strict") == served.expected(pod("hello"), served.view, "strict")
    assert served.worked == 0
    served = Served()
    served.begin("strict")
    served.show(moved(served.view))
    assert served.patched(pod("hello"), "strict") == served.expected(pod("hello"), served.view, "strict")
    assert served.worked == 1


def test_answers_are_let_go_of_half_a_minute_after_their_view() -> None:
    served = Served()
    served.begin()
    for second, gone in ((0, 0), (30, 0), (31, 1)):
        served.show(updated(served.view, NOW + timedelta(seconds=second), Changes()))
        assert len(served.retired) == gone


def test_pods_whose_labels_newly_matter_are_not_taken_for_others() -> None:
    served = Served()
    served.begin()
    shunning = msgspec.structs.replace(
        running("guest/batch", "n3", 9),
        apart=(PodSelection((Requirement("app", "In", ("hello",)),), "kubernetes.io/hostname", ("ow",)),),
    )
    served.show(updated(served.view, SOON, Changes(came=(shunning,))))
    made = served.ahead.made
    served.desk.prepare_ahead()
    assert served.ahead.made == made
    assert served.patched(pod("hello")) == served.expected(pod("hello"), served.view)


def test_of_a_snapshot_that_is_too_old_nothing_is_given_and_nothing_made() -> None:
    served = Served()
    served.begin()
    made = served.ahead.made
    served.now = NOW + POLICY.stale_after + timedelta(seconds=1)
    served.desk.prepare_ahead()
    assert served.ahead.made == made
    assert served.patched(pod("hello")) == served.expected(pod("hello"), served.view)
    assert served.worked == 1


@pytest.mark.parametrize(
    ("stood", "workers", "times"), [(0.0, 1, 19.0), (10.0, 1, 2.0), (0.0, 2, 39.0), (10.0, 4, 11.0)]
)
def test_processes_take_a_twentieth_of_a_core_together_and_a_third_where_nothing_changes(
    stood: float, workers: int, times: float
) -> None:
    served = Served(workers)
    for action in ("batch", "world"):
        served.patched(pod(action))
    served.seconds = stood
    spent: list[float] = []
    paused: list[float] = []
    served.ahead._pause = lambda seconds: (spent.append(served.ahead.spent.seconds), paused.append(seconds))[0]  # type: ignore[func-returns-value]
    served.desk.prepare_ahead()
    each = [after - before for before, after in zip([0.0, *spent], spent, strict=False)]
    assert paused == pytest.approx([min(seconds * times, 0.5 * workers) for seconds in each])
    assert served.ahead.made == len(paused) == 3


def test_each_function_is_worked_out_once_a_view_and_anew_in_the_next_once_nothing_changes() -> None:
    served = Served()
    served.begin()
    assert served.ahead.made == 3
    served.desk.prepare_ahead()
    assert served.ahead.made == 3
    served.show(moved(served.view))
    served.now = SOON
    served.desk.prepare_ahead()
    assert served.ahead.made == 3, "a few seconds old: nothing to be done yet"
    served.seconds = 10.0
    served.desk.prepare_ahead()
    assert served.ahead.made == 6
    assert served.patched(pod("hello")) == served.expected(pod("hello"), served.view)


def test_what_is_nearly_too_old_is_worked_out_anew_though_views_follow_each_other() -> None:
    served = Served()
    served.begin()
    served.show(moved(served.view))
    for second, made in ((20, 3), (21, 6)):
        served.now = NOW + timedelta(seconds=second)
        served.desk.prepare_ahead()
        assert served.ahead.made == made
