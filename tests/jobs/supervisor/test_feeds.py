"""What watches see becomes batches: the last of each object, with the moments that only a watch knows."""

import copy
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from jobs.supervisor.feeds import Nodes, OverflowingError, Part, Pods
from pipeline import objects
from pipeline.collectors.placements import FUNCTION_LABELS
from pipeline.mangling import Index
from tests.support import kube_objects

T0 = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
LABELS = {"openwhisk/namespace": "guest", "openwhisk/action": "hello"}
STARTED = datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def raw(thing: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(thing).encode())


def pod(name: str = "p", **labels: str) -> dict[str, Any]:
    return kube_objects.pod(name, "n1", **labels)


def rows(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [row for part in parts if part.batch.rows is not None for row in part.batch.rows.to_pylist()]


@pytest.fixture
def pods() -> Pods:
    return Pods(FUNCTION_LABELS)


def test_a_whole_life_between_two_writes_is_one_row(pods: Pods) -> None:
    pods.event("ADDED", raw(pod()), at(0))
    pods.event("MODIFIED", raw(pod(**LABELS)), at(1))
    pods.event("MODIFIED", raw(pod(other="label", **LABELS)), at(2))
    pods.event("DELETED", raw(pod(other="label", **LABELS)), at(3))
    [part] = pods.take()
    assert (part.at, part.batch.table, part.batch.whole) == (at(3), "placements", False)
    [row] = rows([part])
    assert (row["uid"], row["node"], row["function"]) == ("uid-openwhisk-p", "n1", "guest/hello")
    assert (row["started"], row["function_from"], row["ended"]) == (STARTED, at(1), at(3))
    assert pods.take() == []


def test_a_label_that_was_there_at_first_sight_is_not_dated(pods: Pods) -> None:
    pods.event("ADDED", raw(pod(**LABELS)), at(0))
    pods.replace([raw(pod(**LABELS)), raw(pod("q"))], at(1))
    pods.event("MODIFIED", raw(pod(**LABELS, more="x")), at(2))
    assert {row["function_from"] for row in rows(pods.take())} == {None}


def test_a_function_that_the_name_tells_later_is_not_dated_either(pods: Pods) -> None:
    named = "wsk-00-1-guest-hello"
    pods.event("ADDED", raw(pod(named)), at(0))
    pods.known = Index(["guest/hello"])
    pods.event("MODIFIED", raw(pod(named, more="x")), at(1))
    [row] = rows(pods.take())
    assert (row["function"], row["named"], row["function_from"]) == ("guest/hello", True, None)


def test_a_change_of_nothing_that_is_kept_makes_no_row(pods: Pods) -> None:
    pods.replace([raw(pod())], at(0))
    assert len(rows(pods.take())) == 1
    beating = pod()
    beating["metadata"]["resourceVersion"] = "901"
    beating["status"]["conditions"][0]["lastProbeTime"] = "2026-01-01T00:10:01Z"
    pods.event("MODIFIED", raw(beating), at(1))
    assert pods.take() == []


def test_a_pod_that_finished_ended_when_it_says_and_not_when_it_was_deleted(pods: Pods) -> None:
    done = pod()
    done["status"]["phase"] = "Succeeded"
    done["status"]["containerStatuses"][0]["state"] = {"terminated": {"finishedAt": "2026-01-01T00:09:30Z"}}
    pods.event("DELETED", raw(done), at(0))
    assert rows(pods.take())[0]["ended"] == at(-30)


def test_what_waits_when_the_pods_are_listed_anew_is_written_before_the_list(pods: Pods) -> None:
    pods.replace([raw(pod("a")), raw(pod("b"))], at(0))
    pods.event("ADDED", raw(pod("c")), at(1))
    pods.event("DELETED", raw(pod("c")), at(2))
    pods.event("MODIFIED", raw(pod("b", **LABELS)), at(3))
    pods.replace([raw(pod("b", **LABELS))], at(4))
    pods.event("ADDED", raw(pod("d")), at(5))
    before, listed, after = pods.take()
    known = {row["pod"]: (row["ended"], row["function_from"]) for row in rows([before])}
    assert known == {"a": (None, None), "b": (None, at(3)), "c": (at(2), None)}
    assert [(part.batch.whole, part.at) for part in (before, listed, after)] == [
        (False, at(3)), (True, at(4)), (False, at(5))
    ]  # fmt: skip
    assert [row["pod"] for row in rows([listed, after])] == ["b", "d"]


def test_an_odd_pod_costs_only_itself(pods: Pods) -> None:
    odd = pod("odd")
    odd["spec"]["containers"][0]["resources"] = {"requests": {"memory": "16g"}}
    pods.replace([raw(odd), raw(pod("a"))], at(0))
    pods.event("MODIFIED", raw(odd), at(1))
    pods.event("DELETED", raw(odd), at(1))
    pods.event("ADDED", msgspec.Raw(b"[]"), at(1))
    pods.event("ADDED", raw(pod("b")), at(2))
    parts = pods.take()
    assert [row["pod"] for row in rows(parts)] == ["a", "b"]
    assert [refusal.what for refusal in parts[0].batch.refused] == ["pods/openwhisk/odd"]
    assert (pods.refused(), pods.refused()) == (4, 0)


def test_too_much_that_waits_is_dropped_and_asks_for_a_list() -> None:
    small = Pods(FUNCTION_LABELS, limit=2)
    for name in ("a", "b"):
        small.event("ADDED", raw(pod(name)), at(0))
    small.event("DELETED", raw(pod("a")), at(1))
    with pytest.raises(OverflowingError):
        small.event("ADDED", raw(pod("c")), at(2))
    assert (small.waiting(), small.take()) == (0, [])
    small.replace([raw(pod("c"))], at(3))
    assert [row["pod"] for row in rows(small.take())] == ["c"]


@pytest.fixture
def nodes() -> Nodes:
    nodes = Nodes(objects.node)
    nodes.replace([raw(kube_objects.node("n1")), raw(kube_objects.node("n2"))], at(0))
    [part] = nodes.take()
    assert (part.batch.whole, part.at, len(rows([part]))) == (True, at(0), 2)
    return nodes


def test_only_nodes_that_changed_are_told_and_a_heartbeat_is_no_change(nodes: Nodes) -> None:
    beating = kube_objects.node("n1")
    for condition in beating["status"]["conditions"]:
        condition["lastHeartbeatTime"] = "2026-01-01T00:10:00Z"
    beating["metadata"]["resourceVersion"] = "901"
    nodes.event("MODIFIED", raw(beating), at(1))
    assert nodes.take() == []
    nodes.event("MODIFIED", raw(kube_objects.node("n2", disk="ssd")), at(2))
    unready = copy.deepcopy(beating)
    unready["status"]["conditions"][3]["status"] = "Unknown"
    nodes.event("MODIFIED", raw(unready), at(3))
    [part] = nodes.take()
    assert part.batch.whole is False
    assert {(row["node"], row["ready"], row["at"]) for row in rows([part])} == {
        ("n1", False, at(3)), ("n2", True, at(2))
    }  # fmt: skip


def test_a_node_that_is_gone_makes_a_whole_list_of_the_moment(nodes: Nodes) -> None:
    nodes.event("DELETED", raw(kube_objects.node("n1")), at(1))
    [part] = nodes.take()
    assert (part.batch.whole, part.at) == (True, at(1))
    assert [(row["node"], row["at"]) for row in rows([part])] == [("n2", at(1))]
    nodes.event("DELETED", raw(kube_objects.node("n2")), at(2))
    [empty] = nodes.take()
    assert (empty.batch.whole, empty.at, rows([empty])) == (True, at(2), [])


def test_an_odd_node_is_not_gone(nodes: Nodes) -> None:
    odd = kube_objects.node("n1")
    odd["status"]["capacity"] = {"cpu": "many"}
    nodes.event("MODIFIED", raw(odd), at(1))
    nodes.event("ADDED", raw(odd | {"metadata": {"name": "n3"}}), at(1))
    nodes.event("DELETED", raw(kube_objects.node("n2")), at(2))
    [part] = nodes.take()
    assert [row["node"] for row in rows([part])] == ["n1"]
    assert [refusal.what for refusal in part.batch.refused] == ["nodes/n1", "nodes/n3"]
    assert nodes.refused() == 2
