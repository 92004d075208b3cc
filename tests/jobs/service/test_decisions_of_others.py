"""A second replica learns of the first one's decisions by the pods that it watches."""

import base64
import json

import jsonpatch
import msgspec
import pytest

from jobs.service import review
from jobs.service.desk import Desk
from jobs.service.others import Others
from jobs.service.reservations import Reservations
from pipeline.objects import pod_of
from rules.policy import Policy
from rules.running import expected_by
from rules.view import learn
from tests.support.service import Fixed
from tests.support.service import review as reviewed
from tests.support.worlds import NOW, World, node, pod, running

POLICY = Policy(mode="prefer")
WORLD = World(
    [node(name, cpu=4) for name in "ABCD"], pods=[running("batch", "D")], slowdowns={("hello", "batch"): 0.8}
)


def admitted(number: int) -> dict:
    """The pod as it is after the first replica's patch, without a node yet."""
    manifest = pod("hello", requests={"cpu": "1"})
    uid = f"{number:08d}-0000-4000-8000-000000000000"
    desk = Desk(Fixed(WORLD), POLICY, Reservations(), now=lambda: NOW)
    request = review.decode(msgspec.json.encode(reviewed(manifest, uid=uid, namespace="ow"))).request
    response = json.loads(desk.decide(request, NOW, dry_run=False).answer(uid))["response"]
    patched: dict = jsonpatch.apply_patch(manifest, json.loads(base64.b64decode(response["patch"])))
    return patched


@pytest.fixture
def book() -> Reservations:
    return Reservations()


@pytest.fixture
def others(book: Reservations) -> Others:
    return Others(book, POLICY, WORLD.view().learned.owners.function_of)


def test_a_pod_that_waits_for_a_node_counts_where_it_is_expected(others: Others, book: Reservations) -> None:
    for number in range(30):
        others(pod_of(admitted(number)), True)
    current = book.current()
    assert len(current) == 30
    assert {each.function for each in current} == {"hello"}
    assert all(each.requests == {"pods": 1.0, "cpu": 1.0} for each in current)
    # Of the four nodes D disturbs; the pods are expected on the others, about as many on each.
    counts = {name: [each.node for each in current].count(name) for name in "ABCD"}
    assert counts["D"] == 0
    assert min(counts[name] for name in "ABC") >= 4


def test_it_counts_no_more_once_it_has_a_node_or_is_gone(others: Others, book: Reservations) -> None:
    waiting = pod_of(admitted(1))
    others(waiting, True)
    others(msgspec.structs.replace(waiting, node="A"), True)
    assert book.current() == []
    others(waiting, True)
    others(waiting, False)
    assert book.current() == []


def test_ones_own_decision_stays_where_it_was_expected(others: Others, book: Reservations) -> None:
    manifest = admitted(1)
    desk = Desk(Fixed(WORLD), POLICY, book, now=lambda: NOW)
    uid = manifest["metadata"]["annotations"]["colocation.internal/decision"]
    bare = pod("hello", requests={"cpu": "1"})
    request = review.decode(msgspec.json.encode(reviewed(bare, uid=uid, namespace="ow"))).request
    desk.decide(request, NOW, dry_run=False)
    [before] = book.current()
    others(pod_of(manifest), True)
    assert book.current() == [before]


def test_pods_that_were_not_decided_about_are_none_of_ours(others: Others, book: Reservations) -> None:
    others(pod_of(pod("hello")), True)
    forged = pod("hello", annotations={"colocation.internal/decision": "d", "colocation.internal/expected": ","})
    others(pod_of(forged), True)
    assert book.current() == []


def test_a_second_run_over_the_result_changes_nothing() -> None:
    manifest = admitted(1)
    assert len(manifest["metadata"]["annotations"]["colocation.internal/expected"].split(",")) == 3
    assert WORLD.advise(manifest).patch == ()


def test_every_decision_has_its_place_among_the_nodes() -> None:
    assert expected_by("d", "") == ""
    assert expected_by("d", "A") == "A"
    assert {expected_by(f"d{number}", "A,B,C") for number in range(30)} == {"A", "B", "C"}
    assert expected_by("d7", "A,B,C") == expected_by("d7", "A,B,C")


@pytest.mark.parametrize(("mode", "function"), [("prefer", "hello"), ("observe", "")])
def test_of_running_pods_is_kept_what_says_whether_their_own_label_is_ours(
    book: Reservations, mode: str, function: str
) -> None:
    """Where the installation observes and a pod states another mode, that mode alone says that it was labelled."""
    policy = Policy(mode="observe")
    owners = learn(WORLD.snapshot(), "c1", overwritten=policy.overwrites).owners
    others = Others(book, policy, owners.function_of)
    labelled = {
        "colocation.internal/mode": mode,
        "colocation.internal/decision": "d",
        "another/note": "x",
    }
    live = msgspec.structs.replace(
        running("hello", "A"),
        name="p",
        labels={"colocation.internal/function": "hello"},
        annotations={key: value for key, value in labelled.items() if key in others.annotations},
    )
    assert owners.function_of(live) == function
