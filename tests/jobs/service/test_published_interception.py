"""The published description's sentences about the interception itself, through the webhook's own handler."""

import base64
import json
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from jobs.service.admission import Admission
from jobs.service.counts import Tally
from jobs.service.decide import Decided
from jobs.service.desk import Desk
from jobs.service.reservations import Reservations
from rules.policy import Policy
from tests.support.service import Fixed, review
from tests.support.worlds import NOW, World, critical, flow, node, of_workflow

WORLD = World(
    [node("A", {"gpu": "yes"}), node("B")], workflows=[flow(critical("hello", extraResources={"gpu": True}))]
)


class Webhook:
    """The webhook over one view; it remembers what it decided."""

    def __init__(self, now: datetime = NOW) -> None:
        self.decided: list[Decided] = []
        self.tally = Tally()
        desk = Desk(Fixed(WORLD), Policy(mode="prefer"), Reservations(), now=lambda: now)  # type: ignore[arg-type]
        self._admission = Admission(desk.decide, self._keep, self.tally, lambda: now)

    def _keep(self, decided: Decided) -> bool:
        self.decided.append(decided)
        return True

    def post(self, pod: dict[str, Any], **changes: Any) -> list[Any]:
        body = review(pod, namespace="ow", **changes)
        response = json.loads(self._admission.answer(msgspec.json.encode(body)))["response"]
        assert response["allowed"]
        patch: list[Any] = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
        return patch


def test_data_collection_is_executed_each_time_a_pod_creation_is_intercepted() -> None:
    webhook = Webhook()
    for number in range(3):
        webhook.post(of_workflow("hello"), uid=f"u-{number}")
    assert [each.kept.decision for each in webhook.decided] == ["u-0", "u-1", "u-2"]
    assert {each.kept.function for each in webhook.decided} == {"hello"}


@pytest.mark.parametrize("other", [{"operation": "UPDATE"}, {"operation": "DELETE"}, {"subResource": "binding"}])
def test_and_only_then(other: dict[str, str]) -> None:
    webhook = Webhook()
    assert webhook.post(of_workflow("hello"), **other) == []
    assert webhook.decided == []


def test_it_receives_the_pod_object_whose_annotation_workflow_names_its_workflow() -> None:
    """What the workflow needs is written into the pod that names it, and into no other."""
    webhook = Webhook()
    said = json.dumps(webhook.post(of_workflow("hello")))
    assert '"gpu"' in said
    assert '"gpu"' not in json.dumps(webhook.post(of_workflow("hello", workflow="another")))


def test_r19_what_a_stale_snapshot_answered_is_counted() -> None:
    fresh, stale = Webhook(), Webhook(NOW + timedelta(hours=2))
    for webhook in (fresh, stale):
        assert '"gpu"' in json.dumps(webhook.post(of_workflow("hello")))
    assert fresh.tally.decisions == {("prefer", "patched", "none"): 1}
    assert stale.tally.decisions == {("prefer", "patched", "stale"): 1}
