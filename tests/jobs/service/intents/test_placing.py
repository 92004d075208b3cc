"""Where the applications of a stored group may go: asked over HTTP, answered from the snapshot."""

import json
from pathlib import Path
from typing import Any

import httpx

from tests.support.advised import node_row, placement_row
from tests.support.intents import allocatable, meta, parents
from tests.support.service import AT, Fakes, running
from tests.support.snapshots import snapshot

GROUP = "/v2/projects/p1/composite-apps/ca1/v1/deployment-intent-groups/dig1"


def _node(cluster: str, name: str, **more: Any) -> dict[str, Any]:
    row = node_row(name, cluster)
    return {**row, "allocatable": json.dumps({**json.loads(row["allocatable"]), **more})}


def test_a_group_is_placed_by_what_the_snapshot_last_saw(tmp_path: Path) -> None:
    """Of eight cores each: pods hold some of c2, the node of c3 is cordoned, nothing is known of c4; c5 has a GPU.

    c6 has one too, which a pod holds that requests no cpu.
    """
    gpu = {"nvidia.com/gpu": 1.0}
    nodes = [
        _node("c1", "n1"),
        _node("c2", "n1"),
        {**_node("c3", "n1"), "schedulable": False},
        _node("c5", "n1", **gpu),
        _node("c6", "n1", **gpu),
    ]
    holds = {**placement_row("q", "n1", "f", "c6"), "cpu_request_cores": 0.0, "other_requests": json.dumps(gpu)}
    rows = {"nodes": nodes, "placements": [placement_row("p", "n1", "f", "c2"), holds]}
    fakes = Fakes(snapshot(AT, rows, clusters=("c1", "c2", "c3", "c5", "c6")), control=tmp_path / "control.sqlite")
    with running(fakes.parts()) as url, httpx.Client(base_url=url) as client:
        parents(client)
        client.post("/v2/clusters", json={"metadata": {"name": "c4"}})
        assert client.get(f"{GROUP}/hpa-placement").json() == {"candidates": {}, "scores": {}, "unsatisfied": []}
        below = f"{GROUP}/hpa-intents/i1/hpa-resource-consumers"
        wish = {**allocatable("nvidia.com/gpu", limits=1), "mandatory": False, "weight": 7}
        for path, body in (
            (f"{GROUP}/hpa-intents", meta("i1", appName="web")),
            (below, meta("c1", consumer={"name": "web", "container-name": "main"})),
            (f"{below}/c1/resource-requirements", meta("r1", **allocatable("cpu", 8))),
            (f"{below}/c1/resource-requirements", meta("r2", **wish)),
        ):
            assert client.post(path, json=body).status_code == 201
        answer = client.get(f"{GROUP}/hpa-placement").json()
        assert answer["candidates"] == {"web": {"replication-count": 1, "allow": ["c5", "c1", "c6"]}}
        assert answer["scores"] == {"web": {"c5": 7, "c1": 0, "c6": 0}}
        assert client.put(GROUP, json=meta("dig1", placement={"allOf": ["c1", "c4"]})).status_code == 200
        refused = client.get(f"{GROUP}/hpa-placement").json()
        assert refused["candidates"] == {}
        assert [(each["requirement"], each["clusters"]) for each in refused["unsatisfied"]] == [("r1", ["c4"])]
        assert client.get(f"{GROUP.replace('dig1', 'dig9')}/hpa-placement").status_code == 404
