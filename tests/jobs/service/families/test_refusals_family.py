"""Refusals: counted where they happen, over all serving processes, by part and cause."""

from pathlib import Path

import httpx

from featurestore.store.control import Control
from jobs.service import counts
from jobs.service.counts import Tally
from jobs.service.families.refusals import refusals
from tests.support.metrics import key, samples
from tests.support.service import Fakes, running

JOB = {
    "job": "ex",
    "namespace": "default",
    "pes": [{"id": 0, "operators": [{"name": "A", "placement": "host(\"nowhere\")"}]}],
}  # fmt: skip
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {}, "status": {}}


def test_what_http_refuses_is_counted_by_part_and_cause(tmp_path: Path) -> None:
    control = tmp_path / "c.sqlite"
    Control(control)
    fakes = Fakes(control=control)
    with running(fakes.parts()) as url, httpx.Client(base_url=url) as client:
        assert client.post("/v2/projects", json={"metadata": {"name": "p"}}).status_code == 201
        assert client.post("/v2/projects", json={"metadata": {"name": "p"}}).status_code == 409
        assert client.post("/v2/projects", content=b"[]").status_code == 422
        assert client.get("/v2/projects/nowhere").status_code == 404
        assert client.post("/v1/host-constraints", json={"job": JOB, "nodes": [NODE]}).status_code == 422
    counted = samples(refusals(fakes.tally.refusals))
    assert counted == {
        key("refusals_total", part="hpa", cause="taken"): 1,
        key("refusals_total", part="hpa", cause="unreadable"): 1,
        key("refusals_total", part="hosts", cause="no-such-node"): 1,
    }


def test_processes_add_up_and_a_new_one_goes_on_counting(tmp_path: Path) -> None:
    one, other = Tally(), Tally()
    one.turned_down("hpa", "taken")
    other.turned_down("hpa", "taken")
    other.turned_down("disks", "waits")
    counts.write(other, tmp_path / "serving-1.json")
    whole = counts.total([one, counts.read(tmp_path / "serving-1.json")])
    assert dict(whole.refusals) == {("hpa", "taken"): 2, ("disks", "waits"): 1}
