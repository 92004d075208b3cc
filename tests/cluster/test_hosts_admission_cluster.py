"""A stored stream job and the webhook on a real API server and scheduler."""

from typing import Any

import pytest

from tests.support.cluster import PODS, wait_for
from tests.support.webhook_cluster import Advised

pytestmark = pytest.mark.cluster


def test_pods_of_a_stored_job_get_their_constraints_at_admission_and_the_scheduler_obeys(advised: Advised) -> None:
    job = advised.cluster.prefix
    names = [advised.node(name) for name in "ac"]
    tagged = advised.node("b", **{"streams.ibm.com/hostpool": job})
    placements = (
        'host(Tagged), hostExlocation("apart")',
        'hostExlocation("apart"), hostColocation("together")',
        'hostColocation("together")',
        "hostIsolation",
    )
    document = {
        "job": job,
        "hostPools": {"Tagged": f'createPool({{tags=["{job}"]}}, Sys.Shared)'},
        "template": {"spec": advised.only()},
        "pes": [
            {"id": at, "operators": [{"name": f"Op{at}", "placement": each}]} for at, each in enumerate(placements)
        ],
    }
    with advised.client() as client:
        answer = client.post(f"{advised.url}/v1/host-constraints", json=document)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["stored"], answer.json()["nodes"]) == (True, [])

    def labels(pe: int) -> dict[str, str]:
        return {**advised.labels, "streams.ibm.com/job": job, "streams.ibm.com/pe": f"{job}-{pe}"}

    def taken_up() -> bool:
        probe: Any = {"metadata": {"name": f"{job}-probe", "labels": labels(0)}}
        probe["spec"] = {**advised.only(), "containers": [{"name": "c", "image": "x"}]}
        status, pod = advised.cluster.call("POST", f"{PODS}?dryRun=All", probe)
        assert status == 201, pod
        return any("hostexlocation" in key for key in pod["metadata"]["labels"])

    wait_for(taken_up)
    bound = [
        advised.cluster.wait_bound(advised.cluster.pod(str(pe), advised.only(), labels=labels(pe)))
        for pe in range(len(placements))
    ]
    assert bound[0] == tagged
    assert bound[1] == bound[2]
    assert sorted({bound[1], bound[3]}) == sorted(names)
