"""The instance side: operators' Deployments and Services come and go with their resources."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from jobs.config import KubernetesSettings, RegionsSettings, load
from jobs.regions import paths, workload
from jobs.regions.managing import Managing
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import BadInput
from tests.support.kube_api import KubeApi, serving
from tests.support.region_world import Job, wait_for

REGIONS = RegionsSettings(manage=True, image="registry.example/colocation:1")
DEPLOYMENTS, SERVICES = paths.deployments("default"), paths.services("default")
DEPLOYMENT, SERVICE = "j-consistent-region-operator", "streams-j-consistentregion-api"
PERIODIC = {"regionIndex": 0, "trigger": "periodic", "period": 5, "pesInRegion": [0]}


@pytest.fixture
def api() -> Iterator[KubeApi]:
    with serving() as api:
        yield api


@pytest.fixture
def job(api: KubeApi, tmp_path: Path) -> Job:
    return Job(KubernetesClient(kubeconfig=api.kubeconfig(tmp_path)), "j", [PERIODIC], tmp_path)


def managing(tmp_path: Path, regions: RegionsSettings = REGIONS) -> Managing:
    made = Managing("c1", KubernetesSettings(kubeconfig=tmp_path / "kubeconfig"), regions)
    made.start()
    return made


def both(api: KubeApi) -> tuple[set[str], set[str]]:
    return set(api.all(DEPLOYMENTS)), set(api.all(SERVICES))


def test_they_are_made_as_the_resource_asks_and_removed_with_it(api: KubeApi, job: Job, tmp_path: Path) -> None:
    made = managing(tmp_path)
    try:
        job.apply()
        wait_for(lambda: both(api) == ({DEPLOYMENT}, {SERVICE}))
        service = api.get(f"{SERVICES}/{SERVICE}")
        assert service["spec"]["clusterIP"] == "None"
        assert [(port["name"], port["port"]) for port in service["spec"]["ports"]] == [
            ("sys-api", 10000),
            ("sys-metrics", 9696),
        ]
        deployment = api.get(f"{DEPLOYMENTS}/{DEPLOYMENT}")
        assert deployment["spec"]["replicas"] == 1
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "registry.example/colocation:1"
        environment = {each["name"]: each.get("value") for each in container["env"]}
        assert environment["STREAMS_JOB_NAME"] == "j"
        assert environment["NUM_CONSISTENT_REGIONS"] == "1"
        assert environment["STREAMS_JOB_ID"] == api.get(f"{paths.jobs('default')}/j")["metadata"]["uid"]
        assert {"STREAMS_LOG_LEVEL", "MY_POD_NAMESPACE", "STREAMS_GENERATION_ID"} <= set(environment)
        assert deployment["metadata"]["ownerReferences"][0]["kind"] == "ConsistentRegionOperator"
        api.delete(f"{paths.operators('default')}/{DEPLOYMENT}")
        wait_for(lambda: both(api) == (set(), set()))
    finally:
        made.close()


def test_a_changed_resource_changes_the_deployment_and_nothing_else_does(
    api: KubeApi, job: Job, tmp_path: Path
) -> None:
    job.apply()
    made = managing(tmp_path)
    try:
        wait_for(lambda: both(api) == ({DEPLOYMENT}, {SERVICE}))
        version = api.get(f"{SERVICES}/{SERVICE}")["metadata"]["resourceVersion"]
        operator = api.get(f"{paths.operators('default')}/{DEPLOYMENT}")
        operator["spec"] |= {"imagePullSecret": "registry", "logLevel": "debug"}
        api.put(paths.operators("default"), operator)

        def pod() -> dict[str, Any]:
            spec: dict[str, Any] = api.get(f"{DEPLOYMENTS}/{DEPLOYMENT}")["spec"]["template"]["spec"]
            return spec

        wait_for(lambda: pod().get("imagePullSecrets") == [{"name": "registry"}])
        assert {"name": "STREAMS_LOG_LEVEL", "value": "debug"} in pod()["containers"][0]["env"]
        assert api.get(f"{SERVICES}/{SERVICE}")["metadata"]["resourceVersion"] == version
    finally:
        made.close()


def test_what_was_left_behind_while_nobody_served_is_removed_and_what_is_not_ours_stays(
    api: KubeApi, job: Job, tmp_path: Path
) -> None:
    ours = {"metadata": {"name": "old-consistent-region-operator", "labels": dict(workload.MANAGED)}, "spec": {}}
    api.put(DEPLOYMENTS, ours)
    api.put(SERVICES, {"metadata": {"name": SERVICE, "labels": {"mine": "yes"}}, "spec": {"kept": True}})
    job.apply()
    made = managing(tmp_path)
    try:
        wait_for(lambda: set(api.all(DEPLOYMENTS)) == {DEPLOYMENT})
        assert api.get(f"{SERVICES}/{SERVICE}")["spec"] == {"kept": True}
    finally:
        made.close()


def test_an_operator_that_the_api_server_refuses_holds_up_no_other(api: KubeApi, job: Job, tmp_path: Path) -> None:
    refused = "a-consistent-region-operator"
    meta = {"name": refused, "namespace": "default", "uid": "a"}
    api.put(paths.operators("default"), {"metadata": meta, "spec": {"jobName": "a", "numRegions": 1}})
    api.fault = lambda method, path: 403 if "streams-a-" in path or refused in path else None
    job.apply()
    api.put(DEPLOYMENTS, {"metadata": {"name": "old", "labels": dict(workload.MANAGED)}, "spec": {}})
    made = managing(tmp_path)
    try:
        wait_for(lambda: {DEPLOYMENT} <= set(api.all(DEPLOYMENTS)) and "old" not in api.all(DEPLOYMENTS))
        assert SERVICE in api.all(SERVICES)
    finally:
        made.close()


@pytest.mark.parametrize(("name", "job"), [("another", "j"), ("x", "a/b"), ("x", "a" * 35)])
def test_an_operator_that_cannot_be_run_is_said_and_left_alone(name: str, job: str) -> None:
    with pytest.raises(BadInput, match=f"ConsistentRegionOperator {name}: "):
        workload.asked({"metadata": {"name": name}, "spec": {"jobName": job, "numRegions": 1}})


def test_the_objects_are_valid_without_unknown_fields() -> None:
    of = workload.Asked("x", "default", "u", "j", "job-uid", "3", 2, "info", "Always", "secret")
    for body in (workload.deployment(of, "image", "account"), workload.service(of)):
        kubernetes_validate.validate(body, "1.31", strict=True)


def test_managing_needs_an_image(tmp_path: Path) -> None:
    file = tmp_path / "colocate.toml"
    file.write_text("[regions]\nmanage = true\n")
    with pytest.raises(BadInput, match="regions: image: needed where manage is true"):
        load(file)
