"""The manifests: least rights, one by one, and safe where a webhook can hurt."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from deploy import rights
from deploy.install import Install
from deploy.kustomize import OVERLAYS
from deploy.parts import BASE, CHOSEN, SETTINGS
from deploy.traffic import OF_REPLICAS, monitors, webhook
from jobs.config import Settings
from jobs.service import described
from jobs.service.counts import Tally
from jobs.service.families import admission, freshness, refusals, replica
from jobs.supervisor.status import WriterStatus
from pipeline.objects import workflow_texts
from rules.policy import Policy
from rules.recommend import recommend
from rules.view import prepare
from tests.support.worlds import NOW, World, node

DEPLOY = Path(__file__).parents[2] / "deploy"
INSTALL = Install()
PARTS = {
    "base": [document for build in BASE.values() for document in build(INSTALL)],
    **{name: part.build(INSTALL) for name, part in CHOSEN.items()},
}
DEFINITION = yaml.safe_load((DEPLOY / "workflows" / "crd.yaml").read_text(encoding="utf-8"))
FEATURES = {"disks", "disk-reservations", "hosts", "regions", "region-operators"}


def _of(kind: str, part: str = "base") -> list[dict[str, Any]]:
    return [document for document in PARTS[part] if document["kind"] == kind]


def _verbs(roles: Iterable[dict[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for rule in (rule for role in roles for rule in role["rules"]):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        for resource in rule["resources"]:
            found.setdefault(resource, set()).update(rule["verbs"])
    return found


SAMPLES = {file.stem: file.read_text(encoding="utf-8") for file in (DEPLOY / "samples").glob("*.yaml")}


@pytest.mark.parametrize("name", sorted(name for name in SAMPLES if name.startswith("workflow")))
def test_every_sample_of_a_workflow_is_one_by_its_definition_and_is_read(name: str) -> None:
    definition = DEFINITION
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
    schema = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
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


READ = {"get", "list", "watch"}


def test_the_core_and_its_replicas_only_read() -> None:
    roles = {role["metadata"]["name"]: role for role in _of("ClusterRole")}
    assert _of("Role") == []
    answering = ("namespaces", "nodes", "pods", "services", "workflows")
    for name in ("colocation-advisor", "colocation-advisor-webhook"):
        assert _verbs([roles[name]]) == dict.fromkeys(answering, READ)
    for each in _of("ClusterRoleBinding"):
        assert [each["roleRef"]["name"]] == [subject["name"] for subject in each["subjects"]]


#: What each feature may write, and on what: everything else of it is reading.
WRITES = {
    "disks": {},
    "disk-reservations": {
        "availablecapacityreservations": {"create", "update"}, "availablecapacities": {"patch"},
        "leases": {"create", "update"},
    },
    "hosts": {"nodes": {"patch"}, "hostpools": {"create", "patch", "delete"}},
    "regions": {},
    "region-operators": {each: {"create", "update", "delete"} for each in ("deployments", "services")},
}  # fmt: skip


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_each_feature_has_a_role_of_its_own_and_no_other_has_it(feature: str) -> None:
    bound = {each["roleRef"]["name"] for kind in ("ClusterRoleBinding", "RoleBinding") for each in _of(kind, feature)}
    assert bound == {f"colocation-advisor-{feature}"}
    roles = [*_of("ClusterRole", feature), *_of("Role", feature)]
    verbs = _verbs(role for role in roles if role["metadata"]["name"] in bound)
    assert {name: found - READ for name, found in verbs.items() if found - READ} == WRITES[feature]
    elsewhere = {document["metadata"]["name"] for name in set(PARTS) - {feature} for document in PARTS[name]}
    assert not bound & elsewhere


def test_replicas_get_no_more_than_reading_of_disks() -> None:
    for name in PARTS:
        accounts = {
            subject["name"]
            for kind in ("ClusterRoleBinding", "RoleBinding")
            for each in _of(kind, name)
            for subject in each["subjects"]
        }
        if "colocation-advisor-webhook" in accounts:
            assert name in ("base", "disks")


def test_whoever_submits_stream_jobs_is_bound_by_hand() -> None:
    roles = {role["metadata"]["name"] for role in _of("ClusterRole", "hosts")}
    assert roles == {"colocation-advisor-hosts", "colocation-advisor-stream-jobs"}


def test_what_keeps_certificates_sees_three_secrets_and_one_webhook() -> None:
    [role], [cluster_role] = _of("Role", "certificates"), _of("ClusterRole", "certificates")
    assert [rule.get("resourceNames") for rule in role["rules"] if "get" in rule["verbs"]] == [
        ["colocation-advisor-ca", "colocation-advisor-tls", "colocation-advisor-tokens"]
    ]
    assert [rule["verbs"] for rule in role["rules"] if "resourceNames" not in rule] == [["create"]]
    assert cluster_role["rules"] == list(rights.TRUSTED)
    assert cluster_role["rules"][0]["resourceNames"] == ["colocation-advisor"]
    assert not _of("ClusterRole", "cert-manager"), "cert-manager fills in the CA itself"


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_a_feature_is_switched_on_by_settings_that_exist(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def switched(*names: str) -> Settings:
        for name in names:
            [config] = _of("ConfigMap", name)
            for key, value in config["data"].items():
                monkeypatch.setenv(key, value)
        return Settings(**tomllib.loads(SETTINGS))

    on = {"disks": "disks.live", "disk-reservations": "disks.reserve", "hosts": "hosts.change_nodes",
          "regions": "regions.follow", "region-operators": "regions.manage"}[feature]  # fmt: skip
    group, _, field = on.partition(".")
    assert getattr(getattr(switched(), group), field) is False
    needs = {"disk-reservations": ["disks"], "region-operators": ["regions"]}.get(feature, [])
    assert getattr(getattr(switched(*needs, feature), group), field) is True


def test_a_webhook_that_is_down_locks_nothing() -> None:
    [asked] = webhook(INSTALL)["webhooks"]
    assert asked["failurePolicy"] == "Ignore"
    assert 1 <= asked["timeoutSeconds"] <= 3
    assert asked["sideEffects"] in ("None", "NoneOnDryRun")
    assert asked["reinvocationPolicy"] == "IfNeeded"
    [rule] = asked["rules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])


def test_namespaces_are_left_alone_by_name_by_label_and_by_the_service_itself() -> None:
    [asked] = webhook(INSTALL)["webhooks"]
    by_name, by_label = asked["namespaceSelector"]["matchExpressions"]
    assert {"kube-system", "colocation-system"} <= set(by_name["values"])
    assert by_label == {"key": "colocation.internal/ignore", "operator": "DoesNotExist"}
    assert asked["objectSelector"]["matchExpressions"][1] == by_label
    for name in ("colocation-advisor", "colocation-advisor-webhook"):
        settings = {each["name"]: each["value"] for each in _pods()[name]["spec"]["containers"][0]["env"]}
        assert set(by_name["values"]) == set(yaml.safe_load(settings["COLOCATE_ADVICE__EXCLUDED_NAMESPACES"]))


def test_the_settings_load_and_only_observe() -> None:
    [config] = _of("ConfigMap")
    settings = Settings(**tomllib.loads(config["data"]["colocate.toml"]))
    assert settings.advice.mode == "observe"
    assert settings.serve.token_file is not None
    assert settings.serve.replica_token_file is not None
    assert not (settings.disks.collect or settings.regions.follow or settings.hosts.change_nodes)


def _pods() -> dict[str, dict[str, Any]]:
    documents = [document for part in PARTS.values() for document in part]
    found = {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in documents
        if each["kind"] in ("Deployment", "StatefulSet")
    }
    found |= {
        each["metadata"]["name"]: each["spec"]["jobTemplate"]["spec"]["template"]
        for each in documents
        if each["kind"] == "CronJob"
    }
    return found


@pytest.mark.parametrize("name", ["colocation-advisor", "colocation-advisor-webhook"])
def test_every_file_that_the_settings_name_is_mounted(name: str) -> None:
    [container] = _pods()[name]["spec"]["containers"]
    mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
    settings = tomllib.loads(SETTINGS)
    named = [*settings["store"].values(), *(each for each in settings["serve"].values() if isinstance(each, str))]
    named += [each["value"] for each in container["env"] if each["name"].endswith("_FILE")]
    [config] = _of("ConfigMap", "client-certificates")
    named += [value for value in config["data"].values() if value.startswith("/")]
    for file in named:
        assert any(file.startswith(f"{path}/") for path in mounted), file
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in _pods()[name]["spec"]["volumes"]
    }


@pytest.mark.parametrize("name", sorted(_pods()))
def test_pods_pass_the_restricted_profile(name: str) -> None:
    """By the list of the Pod Security Standards, restricted; a read-only root file system beside it."""
    pod = _pods()[name]
    assert pod["metadata"]["labels"]["colocation.internal/ignore"] == "true"
    spec = pod["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(spec)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    kinds = {next(iter(set(volume) - {"name"})) for volume in spec["volumes"]}
    assert kinds <= {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert not any("hostPort" in port for port in container.get("ports", ()))


def test_two_replicas_are_spread_and_one_may_go_at_a_time() -> None:
    [deployment], [budget] = _of("Deployment"), _of("PodDisruptionBudget")
    labels = deployment["spec"]["selector"]["matchLabels"]
    assert deployment["spec"]["replicas"] == 2
    assert budget["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    spread = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert not any("persistentVolumeClaim" in volume for volume in deployment["spec"]["template"]["spec"]["volumes"])


def test_services_lead_to_the_pods_that_they_are_for() -> None:
    services = {each["metadata"]["name"]: each["spec"]["selector"] for each in _of("Service")}
    for name, selector in services.items():
        assert selector.items() <= _pods()[name]["metadata"]["labels"].items()
        others = [pod for other, pod in _pods().items() if other != name]
        assert not any(selector.items() <= pod["metadata"]["labels"].items() for pod in others)
    assert webhook(INSTALL)["webhooks"][0]["clientConfig"]["service"]["name"] in services


def test_one_writer_at_a_time_and_cron_beside_it() -> None:
    [writer], jobs = _of("StatefulSet"), _of("CronJob", "cronjobs")
    assert writer["spec"]["replicas"] == 1
    labels = writer["spec"]["template"]["metadata"]["labels"]
    for job in jobs:
        spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        [term] = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["labelSelector"]["matchLabels"].items() <= labels.items()
        assert job["spec"]["concurrencyPolicy"] == "Forbid"
    commands = [job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"][2:] for job in jobs]
    assert ["collect"] in commands and ["learn"] in commands
    [off] = _of("ConfigMap", "cronjobs")
    assert off["data"] == {"COLOCATE_SCHEDULE__BUILT_IN": "false"}
    used = [each["configMapRef"]["name"] for each in writer["spec"]["template"]["spec"]["containers"][0]["envFrom"]]
    assert off["metadata"]["name"] in used


def test_every_overlay_keeps_tokens_and_certificates() -> None:
    for _, components in OVERLAYS.values():
        assert len({"certificates", "cert-manager"} & set(components)) == 1


def test_of_replicas_prometheus_keeps_what_they_count_themselves_and_nothing_twice() -> None:
    """Dashboards sum over instances; what all of them know of the same snapshot is asked of the writer alone."""
    own = {
        described.name(family)
        for families in (
            admission.admission(Tally()), refusals.refusals(Counter()), freshness.snapshot(0.0, 0.0, 0, 0),
            freshness.watches((), 0.0), replica.replica(WriterStatus(), 0.0),
        )
        for family in families
    } | {"colocation_serving_restarts_total"}  # fmt: skip
    kept = re.compile("|".join(OF_REPLICAS))
    assert {name for family in described.families() if kept.fullmatch(name := described.name(family))} == own
    assert kept.fullmatch("colocation_webhook_duration_seconds_bucket")
    of_writer, of_replicas = monitors(INSTALL)
    assert of_replicas["spec"]["endpoints"][0]["metricRelabelings"][0]["regex"] == kept.pattern
    for each in (of_writer, of_replicas):
        selector = each["spec"]["selector"]["matchLabels"]
        [service] = [one for one in _of("Service") if selector.items() <= one["metadata"]["labels"].items()]
        assert each["spec"]["endpoints"][0]["tlsConfig"]["serverName"].startswith(f"{service['metadata']['name']}.")
