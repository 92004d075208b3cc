"""Stored intents and the webhook on a real API server and scheduler."""

import uuid
from typing import Any

import pytest

from tests.support.cluster import PODS, wait_for
from tests.support.intents import label, meta
from tests.support.webhook_cluster import Advised

pytestmark = pytest.mark.cluster


def test_a_stored_intent_reaches_the_pods_of_its_object_and_the_scheduler_obeys(advised: Advised) -> None:
    advised.node("plain")
    fast = advised.node("fast", speed="high")
    group = "/v2/projects/p1/composite-apps/ca1/v1/deployment-intent-groups"
    consumers = f"{group}/dig1/hpa-intents/i1/hpa-resource-consumers"
    bodies = {
        "/v2/projects": {"metadata": {"name": "p1"}},
        "/v2/projects/p1/composite-apps": meta("ca1", compositeAppVersion="v1"),
        group: {"metadata": {"name": "dig1"}},
        f"{group}/dig1/hpa-intents": meta("i1", appName="shop"),
        consumers: meta("c1", consumer={"kind": "StatefulSet", "name": "web", "container-name": "c"}),
        f"{consumers}/c1/resource-requirements": meta("r1", **label("speed", "high")),
    }
    with advised.client() as client:
        for path, body in bodies.items():
            assert client.post(f"{advised.url}{path}", json=body).status_code == 201
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
    references: Any = [{**owner, "uid": str(uuid.uuid4())}]

    def wanted() -> bool:
        """Whether the service has taken up the intents by now."""
        name = advised.cluster.pod(
            f"web-{uuid.uuid4().hex[:6]}", advised.only(), labels=advised.labels, ownerReferences=references
        )
        status, pod = advised.cluster.call("GET", f"{PODS}/{name}")
        assert status == 200
        if "speed" not in pod["spec"]["nodeSelector"]:
            return False
        assert pod["spec"]["nodeSelector"] == {**advised.only()["nodeSelector"], "speed": "high"}
        assert advised.cluster.wait_bound(name) == fast
        return True

    wait_for(wanted)
