"""The service's views: brought up to date by what changed, and the same as made anew."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from jobs.service.live import Live
from jobs.service.renewing import alike
from jobs.service.reservations import Reservations
from jobs.service.views import Views
from rules import changes
from rules.policy import Policy
from rules.view import Reservation, View
from tests.support.advised import (
    AGGRESSOR,
    AGGRESSOR_LABELS,
    VICTIM,
    learned,
    node_row,
    placement_row,
    workflow_row,
)
from tests.support.service import AT

NODES = [node_row("a"), node_row("b")]


class Source:
    """A live cluster whose lists and events the test gives itself."""

    def __init__(self) -> None:
        self.live = Live(self, annotations=())  # type: ignore[arg-type]

    def sync(self, pods: list[dict[str, Any]]) -> None:
        self.lists("nodes", [_node("a"), _node("b")])
        self.lists("pods", pods)
        for watcher in self.live._watchers.values():
            watcher.synced.set()

    def lists(self, kind: str, objects: list[dict[str, Any]]) -> None:
        getattr(self.live, f"_{kind}").replace([_raw(each) for each in objects])

    def event(self, kind: str, of: str, thing: Mapping[str, Any]) -> None:
        getattr(self.live, f"_{kind}").event(of, _raw(thing))


def _raw(thing: Mapping[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(thing))


def _node(name: str, **labels: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def _pod(name: str, node: str, cpu: str = "1") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ow", "uid": name, "labels": AGGRESSOR_LABELS},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def book() -> Reservations:
    return Reservations()


@pytest.fixture
def views(source: Source, book: Reservations) -> Views:
    return Views("c1", Policy(), book, lambda: source.live)


@pytest.fixture
def kept_current(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each view that was brought up to date rather than made anew."""
    made: list[int] = []
    real = changes.updated

    def counting(view: View, *args: Any) -> View:
        made.append(1)
        return real(view, *args)

    monkeypatch.setattr("jobs.service.views.updated", counting)
    return made


def _free(view: View) -> list[float]:
    return view.nodes.free["cpu"].tolist()


def _where(view: View) -> list[tuple[str, int]]:
    entries = view.running.of(view.functions.index[AGGRESSOR])
    return [(view.nodes.names[node], pods) for node, pods in zip(entries.node.tolist(), entries.pods, strict=True)]


def test_before_the_cluster_is_listed_the_snapshot_answers(views: Views) -> None:
    snapshot = learned(nodes=NODES, placements=[placement_row("p", "a", AGGRESSOR)])
    assert _where(views(snapshot, "c1", AT)) == [("a", 1)]


def test_pods_that_come_move_and_go_are_followed(views: Views, source: Source, kept_current: list[int]) -> None:
    snapshot = learned(nodes=NODES)
    source.sync([_pod("p", "a")])
    assert _where(views(snapshot, "c1", AT)) == [("a", 1)]
    source.event("pods", "ADDED", _pod("q", "b", "2"))
    source.event("pods", "MODIFIED", _pod("p", "a", "500m"))
    view = views(snapshot, "c1", AT)
    assert (_where(view), _free(view)) == ([("a", 1), ("b", 1)], [7.5, 6.0])
    source.event("pods", "DELETED", _pod("p", "a"))
    source.event("pods", "ADDED", _pod("short", "a"))
    source.event("pods", "DELETED", _pod("short", "a"))
    view = views(snapshot, "c1", AT)
    assert (_where(view), _free(view)) == ([("b", 1)], [8.0, 6.0])
    assert len(kept_current) == 2


def test_a_new_list_replaces_all(views: Views, source: Source) -> None:
    snapshot = learned(nodes=NODES)
    source.sync([_pod("p", "a")])
    views(snapshot, "c1", AT)
    source.lists("pods", [_pod("r", "b")])
    assert _where(views(snapshot, "c1", AT)) == [("b", 1)]


def test_a_changed_node_shows(views: Views, source: Source) -> None:
    snapshot = learned(nodes=NODES)
    source.sync([_pod("p", "a")])
    views(snapshot, "c1", AT)
    source.event("nodes", "MODIFIED", _node("b", disk="ssd"))
    source.event("pods", "ADDED", _pod("q", "b"))
    view = views(snapshot, "c1", AT)
    assert view.nodes.label("disk", 1) == "ssd"
    assert _where(view) == [("a", 1), ("b", 1)]


def test_labels_of_namespaces_reach_the_view(views: Views, source: Source, kept_current: list[int]) -> None:
    snapshot = learned(nodes=NODES)
    source.lists("namespaces", [{"metadata": {"name": "ow", "labels": {"tier": "gold"}}}])
    source.sync([])
    assert views(snapshot, "c1", AT).standing.kinds.scopes == {"ow": {"tier": "gold"}}
    source.event("namespaces", "MODIFIED", {"metadata": {"name": "ow", "labels": {"tier": "iron"}}})
    assert views(snapshot, "c1", AT).standing.kinds.scopes == {"ow": {"tier": "iron"}}
    assert kept_current == [1]


def _workflow(name: str, importance: str = "High") -> dict[str, Any]:
    said = {"optimizationGoal": "Performance", "importance": importance}
    return {
        "metadata": {"name": name, "namespace": "ow"},
        "spec": {"actions": [{"name": "hello", "annotations": said}]},
    }


def test_workflows_are_those_of_now_and_not_those_that_the_snapshot_saw(
    views: Views, source: Source, kept_current: list[int]
) -> None:
    snapshot = learned(nodes=NODES, workflows=[workflow_row("old", "ow", {"name": "hello", "importance": "low"})])
    hello = lambda view: view.functions.index[VICTIM]  # noqa: E731
    source.sync([])
    first = views(snapshot, "c1", AT)  # they are not listed yet
    assert (list(first.workflows), first.functions.importance[hello(first)]) == ([("ow", "old")], 1)
    source.lists("workflows", [_workflow("new")])
    second = views(snapshot, "c1", AT)
    assert (list(second.workflows), second.functions.importance[hello(second)]) == ([("ow", "new")], 3)
    assert second.functions.strict[hello(second)]
    assert second.pairs.memo is not first.pairs.memo, "what pairs cost rests on importance"
    assert not alike(first, second), "no answer that was worked out before it stands"
    source.event("workflows", "MODIFIED", _workflow("new", "Medium"))
    third = views(snapshot, "c1", AT)
    assert (third.functions.importance[hello(third)], third.functions.strict[hello(third)]) == (2, False)
    assert kept_current == []
    source.event("pods", "ADDED", _pod("q", "b"))
    assert list(views(snapshot, "c1", AT).workflows) == [("ow", "new")]
    assert kept_current == [1], "pods that come do not lay it out anew"
    assert list(views(learned(nodes=NODES, version="v2"), "c1", AT).workflows) == [("ow", "new")]
    source.event("workflows", "DELETED", _workflow("new"))
    assert not views(snapshot, "c1", AT).workflows


def test_a_new_snapshot_is_laid_out_beside_the_same_cluster(views: Views, source: Source) -> None:
    source.sync([_pod("p", "a")])
    first = views(learned(nodes=NODES), "c1", AT)
    second = views(learned(nodes=NODES, version="v2"), "c1", AT)
    assert (first.version, second.version) == ("v1", "v2")
    assert _where(second) == [("a", 1)]


def test_reservations_count_and_are_given_back(views: Views, source: Source, book: Reservations) -> None:
    snapshot = learned(nodes=NODES)
    source.sync([])
    views(snapshot, "c1", AT)
    book.add(Reservation("d1", "a", AGGRESSOR, {"cpu": 3.0, "pods": 1.0}))
    view = views(snapshot, "c1", AT)
    assert (_free(view), _where(view)) == ([5.0, 8.0], [("a", 1)])
    book.seen("d1")
    source.event("pods", "ADDED", _pod("p", "b", "3"))
    view = views(snapshot, "c1", AT)
    assert (_free(view), _where(view)) == ([8.0, 5.0], [("b", 1)])


def test_after_an_error_the_view_is_kept_current(
    views: Views, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = learned(nodes=NODES)
    source.sync([_pod("p", "a")])
    views(snapshot, "c1", AT)

    def fail(*_: Any) -> View:
        raise RuntimeError("lost")

    source.event("pods", "ADDED", _pod("q", "b"))
    with monkeypatch.context() as patching:
        patching.setattr("jobs.service.views.updated", fail)
        with pytest.raises(RuntimeError):
            views(snapshot, "c1", AT)
    assert _where(views(snapshot, "c1", AT)) == [("a", 1), ("b", 1)]


def test_many_changes_at_once_come_to_the_same(views: Views, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = learned(nodes=NODES)
    source.sync([])
    views(snapshot, "c1", AT)
    monkeypatch.setattr("jobs.service.views._MANY", 3)
    for number in range(5):
        source.event("pods", "ADDED", _pod(f"p{number}", "ab"[number % 2], "100m"))
    view = views(snapshot, "c1", AT)
    np.testing.assert_allclose(_free(view), [7.7, 7.8])
    assert _where(view) == [("a", 3), ("b", 2)]
