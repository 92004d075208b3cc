"""The documented commands that change a cluster's stream jobs, in their order, on an API that is written to."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from jobs.cli.main import main
from jobs.regions import paths
from pipeline.clients.kubernetes import KubernetesClient
from tests.support.documented import DOCUMENTED, ROOT, command
from tests.support.kube_api import KubeApi, serving
from tests.support.region_operators import Running
from tests.support.region_world import Job, free_udp_port
from tests.support.town import node

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
CONFIG = """
[[clusters]]
name = "edge"
[clusters.kubernetes]
kubeconfig = "kubeconfig"
"""


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeApi]:
    monkeypatch.chdir(tmp_path)
    with serving() as api:
        api.kubeconfig(tmp_path)
        Path("colocate.toml").write_text(CONFIG)
        yield api


def example(page: str, begins: str) -> str:
    """Return the block of YAML on a page that begins with *begins*."""
    found = re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    [text] = [each for each in found if each.startswith(begins)]
    return str(text)


def documented(name: str) -> list[list[str]]:
    """Return what is documented of a command, each once, in the order of the pages."""
    return [
        list(each) for each in dict.fromkeys(tuple(words) for _, words in DOCUMENTED if command(words)[0] == name)
    ]


def run(words: list[str]) -> None:
    assert main(words) == 0, words


def test_a_job_of_the_readme_is_planned_submitted_and_released(api: KubeApi) -> None:
    for name in ("n0", "n1"):
        tagged = node(name)
        tagged["metadata"]["labels"]["streams.ibm.com/hostpool"] = "ib"
        api.put(NODES, tagged)
    Path("job.yaml").write_text(example("README.md", "job: ex"))
    before = api.all(NODES)
    planned, submitted = documented("hosts apply")
    run(planned)
    assert (api.all(NODES), api.all(PODS)) == (before, {})
    run(submitted)
    [pod] = api.all(PODS).values()
    assert (pod["metadata"]["labels"]["streams.ibm.com/job"], api.all(NODES) == before) == ("ex", False)
    changed = api.all(NODES)
    released = documented("hosts release")
    assert len(released) == 2
    for words in sorted(released, key=len, reverse=True):  # the dry run first
        assert api.all(NODES) == changed
        run(words)
    given_back = api.all(NODES)
    for name, was in before.items():
        assert given_back[name]["metadata"]["labels"] == was["metadata"]["labels"]
        assert not given_back[name]["spec"].get("taints")


def test_regions_of_the_documentation_are_applied_shown_reset_and_drained(api: KubeApi) -> None:
    """Region 1 is made operator-driven, as the example says; the operator is reached by its URL."""
    document = yaml.safe_load(example("docs/consistent-regions.md", "apiVersion: streams.ibm.com/v1"))
    regions = document["spec"]["consistentRegions"]
    driven = {
        "regionIndex": 1,
        "trigger": "operatorDriven",
        "operatorsToTriggerMap": {"Src": True},
        "pesInRegion": [0],
    }
    job = Job(KubernetesClient(kubeconfig=Path("kubeconfig")), "j", [*regions, driven], Path())
    job.file.rename("job.yaml")
    [applied], [listed], [shown] = documented("regions apply"), documented("regions list"), documented("regions show")
    run(applied)
    assert set(api.all(paths.regions("default"))) == {"j-cr0", "j-cr1"}
    run(listed)
    own = {"JOB": "j", "REGION": "0"}
    run([own.get(each, each) for each in shown])
    running = Running(job.client, job, free_udp_port()).listening()
    try:
        for name, region in (("reset", 0), ("drain", 1)):
            [words] = documented(f"regions {name}")
            job.wait(region, state="STARTED")
            own = {"JOB": "j", "REGION": str(region)}
            run([*(own.get(each, each) for each in words), "--url", running.url])
            job.wait(region, mustReset=True)
    finally:
        running.stop()
