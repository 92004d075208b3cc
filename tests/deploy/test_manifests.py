"""The manifests: valid by the API's own schemas, and safe where a webhook can hurt."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from jobs.config import Settings
from pipeline.objects import workflow_texts
from rules.policy import Policy
from rules.recommend import recommend
from rules.view import prepare
from tests.support.worlds import NOW, World, node

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCUMENTS = [
    (file.name, document)
    for file in sorted(DEPLOY.glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]


def _of(kind: str) -> Iterator[dict[str, Any]]:
    return (document for _, document in DOCUMENTS if document["kind"] == kind)


@pytest.mark.parametrize(
    "document", [document for _, document in DOCUMENTS], ids=lambda each: each["metadata"]["name"]
)
@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_every_manifest_is_valid_without_unknown_fields(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


SAMPLES = {file.stem: file.read_text(encoding="utf-8") for file in (DEPLOY / "samples").glob("*.yaml")}


@pytest.mark.parametrize("name", sorted(name for name in SAMPLES if name.startswith("workflow")))
def test_every_sample_of_a_workflow_is_one_by_its_definition_and_is_read(name: str) -> None:
    [definition] = _of("CustomResourceDefinition")
    [version] = definition["spec"]["versions"]
    sample = yaml.safe_load(SAMPLES[name])
    group = definition["spec"]["group"]
    assert (sample["apiVersion"], sample["kind"]) == (
        f"{group}/{version['name']}",
        definition["spec"]["names"]["kind"],
    )
    jsonschema.validate(sample, version["schema"]["openAPIV3Schema"])
    [read] = workflow_texts(SAMPLES[name], name)
    assert [each.name for each in read.actions] == [each["name"] for each in sample["spec"]["actions"]]
    stated = {field for each in sample["spec"]["actions"] for field in each}
    described = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["actions"]["items"][
        "properties"
    ]
    assert stated - {"description", "version", "runtime", "code"} <= set(described)


def test_a_definition_refuses_what_is_no_workflow() -> None:
    [definition] = _of("CustomResourceDefinition")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    with pytest.raises(jsonschema.ValidationError, match="name"):
        jsonschema.validate({"spec": {"actions": [{"id": "1"}]}}, schema)
    with pytest.raises(jsonschema.ValidationError, match="boolean"):
        jsonschema.validate({"spec": {"native": "yes"}}, schema)


def test_the_sample_of_a_pod_is_advised_as_its_workflow_says() -> None:
    nodes = [node("A", {"gpu": "yes", "disktype": "ssd"}), node("B", {"gpu": "yes"})]
    workflows = [yaml.safe_load(SAMPLES[name]) for name in SAMPLES if name.startswith("workflow")]
    pod = yaml.safe_load(SAMPLES["pod"])
    kubernetes_validate.validate(pod, "1.37", strict=True)
    world = World(nodes, workflows=workflows)
    policy = Policy(mode="prefer")
    view = prepare(world.snapshot(), "c1", NOW)
    # The sample names a cluster of its own: elsewhere its needs stay, and nothing is learned.
    answer = recommend(world.request(pod, policy, view), view, policy, decision="d")
    assert (answer.function, answer.cause) == ("hello", "other_cluster")
    assert [each.name for each in answer.nodes] == ["A"]


def test_all_kinds_are_there() -> None:
    assert {document["kind"] for _, document in DOCUMENTS} == {
        "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "PersistentVolumeClaim",
        "Service", "Deployment", "MutatingWebhookConfiguration", "CustomResourceDefinition", "CronJob",
    }  # fmt: skip


def test_the_role_only_reads() -> None:
    [role] = _of("ClusterRole")
    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
    resources = {resource for rule in role["rules"] for resource in rule["resources"]}
    disks = {"availablecapacities", "availablecapacityreservations", "drives", "volumes", "logicalvolumegroups"}
    claims = {"persistentvolumeclaims", "storageclasses", "csinodes"}
    assert resources == {"nodes", "pods", "services", "workflows", "streamscrs", *disks, *claims}


def test_a_webhook_that_is_down_locks_nothing() -> None:
    [configuration] = _of("MutatingWebhookConfiguration")
    [webhook] = configuration["webhooks"]
    assert webhook["failurePolicy"] == "Ignore"
    assert 1 <= webhook["timeoutSeconds"] <= 3
    assert webhook["sideEffects"] in ("None", "NoneOnDryRun")
    [rule] = webhook["rules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])
    by_name = next(each for each in webhook["namespaceSelector"]["matchExpressions"] if each["operator"] == "NotIn")
    assert {"kube-system", "colocation-system"} <= set(by_name["values"])
    assert webhook["objectSelector"]["matchExpressions"]


def test_the_settings_load_and_only_observe() -> None:
    [config] = _of("ConfigMap")
    settings = Settings(**tomllib.loads(config["data"]["colocate.toml"]))
    assert settings.advice.mode == "observe"
    assert settings.serve.client_ca is not None
    assert settings.serve.token_file is not None


def test_every_file_that_the_settings_name_is_mounted() -> None:
    [config] = _of("ConfigMap")
    [deployment] = _of("Deployment")
    mounted = [
        mount["mountPath"] for mount in deployment["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    ]
    settings = tomllib.loads(config["data"]["colocate.toml"])
    named = [*settings["store"].values(), *settings["serve"].values()]
    named += [each["key_file"] for each in settings["clusters"][0]["openwhisk"]["namespaces"]]
    for file in named:
        assert any(file.startswith(f"{path}/") for path in mounted), file


def test_containers_run_without_privileges() -> None:
    templates = [each["spec"]["template"] for each in _of("Deployment")]
    templates += [each["spec"]["jobTemplate"]["spec"]["template"] for each in _of("CronJob")]
    assert len(templates) == 5
    for template in templates:
        assert template["spec"]["securityContext"]["runAsNonRoot"] is True
        for container in template["spec"]["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_cron_jobs_cover_every_source_and_learning() -> None:
    commands = [
        each["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"][2:]
        for each in _of("CronJob")
    ]
    collected = {source for command in commands if command[0] == "collect" for source in command[1:]}
    assert collected == {"nodes", "workflows", "placements", "usage", "activations"}
    assert ["learn"] in commands
