"""The action on manifests, against the worked cases: what is written, what stays, and what is refused whole."""

import copy
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.hpa import amounts, pods
from rules.hpa.action import apply
from rules.hpa.errors import Contradiction
from rules.hpa.model import Consumer
from rules.hpa.needs import Stated, Workload
from rules.templates import TEMPLATES
from tests.support.intents import allocatable, consumer, label

API = {"CronJob": "batch/v1", "Job": "batch/v1", "Pod": "v1", "ReplicationController": "v1"}


def manifest(kind: str = "Deployment", name: str = "web", *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """An object with pods of *containers* (default: one named main) and further fields of their specification."""
    pod = {"containers": list(containers) or [{"name": "main", "image": "x"}], **spec}
    labels = {"app": name}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": pod}
    template = {"metadata": {"labels": labels}, "spec": pod}
    inner: dict[str, Any] = {"template": template}
    if kind in ("Job", "CronJob"):
        pod["restartPolicy"] = "Never"
    elif kind != "ReplicationController":
        inner["selector"] = {"matchLabels": labels}
    if kind == "StatefulSet":
        inner["serviceName"] = name
    if kind == "CronJob":
        inner = {"schedule": "@daily", "jobTemplate": {"spec": inner}}
    return {"apiVersion": API.get(kind, "apps/v1"), "kind": kind, "metadata": {"name": name}, "spec": inner}


def pod_of(document: dict[str, Any]) -> dict[str, Any]:
    found: Any = document
    for step in (*TEMPLATES.get(document["kind"], ()), "spec"):
        found = found[step]
    return dict(found)


def everything(load: Workload) -> tuple[Stated, ...]:
    return load.optional


def nothing(load: Workload) -> tuple[Stated, ...]:
    return ()


def applied(document: dict[str, Any], *consumers: Consumer, chosen: Any = nothing) -> dict[str, Any]:
    """The pod of the one manifest after the action."""
    [changed] = apply([document], consumers, "A", chosen).manifests
    return pod_of(changed)


def main(pod: dict[str, Any]) -> dict[str, Any]:
    """The resources of its first container, as whole amounts."""
    return {
        side: {name: amounts.stated(name, amount, name) for name, amount in stated.items()}
        for side, stated in pod["containers"][0]["resources"].items()
    }


FWALL = (
    allocatable("cpu", 4, 4),
    allocatable("memory", 1000, 1000, units="MB"),
    {"mandatory": False, "weight": 9, "allocatable": True, "name": "nvidia.com/gpu", "limits": 1},
)


@pytest.mark.parametrize("has_gpu", [True, False])
def test_case_1_the_wish_is_written_only_where_the_cluster_has_it(has_gpu: bool) -> None:
    pod = applied(manifest(), consumer(*FWALL), chosen=everything if has_gpu else nothing)
    gpu = {"nvidia.com/gpu": 1} if has_gpu else {}
    both = {"cpu": 4000, "memory": 10**9, **gpu}
    assert main(pod) == {"requests": both, "limits": both}
    assert pods.exclusive(pod, "main")


@pytest.mark.parametrize("given", ["500m", 0.5, "0.5", "0.50"])
def test_case_4_a_fraction_of_a_core(given: object) -> None:
    assert main(applied(manifest(), consumer(allocatable("cpu", given)))) == {"requests": {"cpu": 500}}


@pytest.mark.parametrize(
    ("given", "units", "bytes_"),
    [
        (1000, "MB", 1_000_000_000),
        (1000, None, 1_000_000_000),
        (1000, "Mi", 1_048_576_000),
        (1000, "MiB", 1_048_576_000),
        (1, "k", 1000),
        (1, "kB", 1000),
        (1, "Ki", 1024),
        (1.5, "GB", 1_500_000_000),
        (1.5, "Gi", 1_610_612_736),
        (2, "T", 2 * 10**12),
        ("1e9", None, 1_000_000_000),
        ("1000M", None, 1_000_000_000),
        ("4", None, 4_000_000),
        ("128974848000m", None, 128_974_848),
    ],
)
def test_case_5_units_of_memory(given: object, units: str | None, bytes_: int) -> None:
    more = {"units": units} if units else {}
    assert main(applied(manifest(), consumer(allocatable("memory", given, **more))))["requests"] == {"memory": bytes_}


def test_case_6_limits_stand_for_requests_and_replace_the_charts() -> None:
    chart = manifest("Deployment", "web", {"name": "main", "resources": {"requests": {"cpu": 3}}})
    pod = applied(chart, consumer(allocatable("cpu", limits=2)))
    assert main(pod) == {"requests": {"cpu": 2000}, "limits": {"cpu": 2000}}


def test_case_7_a_label_becomes_a_node_selector_of_text() -> None:
    key = "feature.node.kubernetes.io/cpu-cpuid.AVX512F"
    pod = applied(manifest(nodeSelector={"zone": "z1"}), consumer(label(key, "true"), container=None))
    assert pod["nodeSelector"] == {"zone": "z1", key: "true"}


@pytest.mark.parametrize(("requests", "limits"), [(None, 1), (1, None), (1, 1)])
def test_case_17_extended_resources_are_written_on_both_sides(requests: object, limits: object) -> None:
    pod = applied(manifest(), consumer(allocatable("nvidia.com/gpu", requests, limits)))
    assert main(pod) == {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 1}}


def test_case_17_huge_pages_need_cpu_or_memory_beside_them() -> None:
    pages = allocatable("hugepages-2Mi", "4Mi")
    [warning] = apply([manifest()], [consumer(pages)], "A", nothing).warnings
    assert "huge pages need a request of cpu or memory" in warning
    assert apply([manifest()], [consumer(pages, allocatable("memory", 100))], "A", nothing).warnings == ()


@pytest.mark.parametrize("kind", ["Pod", *TEMPLATES])
def test_case_18_each_kind_is_changed_where_its_pods_are(kind: str) -> None:
    sidecar = {"name": "side", "image": "y", "resources": {"requests": {"cpu": "10m"}}, "env": [{"name": "A"}]}
    target = {"name": "core", "image": "x", "resources": {"requests": {"cpu": 1, "memory": "2Gi"}}}
    before = manifest(kind, "core-fwall", target, sidecar, hostname="kept")
    kept = copy.deepcopy(before)
    who = consumer(allocatable("cpu", 4, 4), kind=kind, object="core-fwall", container="core")
    [after] = apply([before], [who], "A", nothing).manifests
    assert before == kept
    pod = pod_of(after)
    assert pod["containers"][0]["resources"] == {"requests": {"cpu": "4", "memory": "2Gi"}, "limits": {"cpu": "4"}}
    assert pod["containers"][1] == sidecar
    assert {**after, "spec": None} == {**before, "spec": None} and pod["hostname"] == "kept"
    assert apply([after], [who], "A", nothing).manifests == (after,)
    kubernetes_validate.validate(after, "1.31", strict=True)


def test_what_shares_an_object_with_the_container_is_not_changed() -> None:
    """As aliases of YAML do: requests with another container, and a template with another Deployment."""
    shared = {"requests": {"memory": "1Gi"}}
    web = manifest("Deployment", "web", {"name": "main", "resources": shared}, {"name": "side", "resources": shared})
    other = {**web, "metadata": {"name": "other"}}
    who = consumer(allocatable("cpu", 4, 4), label("fast", "yes"))
    [one, another] = apply([web, other], [who], "A", nothing).manifests
    resources = [each["resources"] for each in pod_of(one)["containers"]]
    assert resources == [{"requests": {"memory": "1Gi", "cpu": "4"}, "limits": {"cpu": "4"}}, shared]
    assert pod_of(one)["nodeSelector"] == {"fast": "yes"}
    assert another == other
    assert shared == {"requests": {"memory": "1Gi"}}


def test_case_18_lists_and_several_documents_are_opened() -> None:
    documents = [manifest("Service", "web"), {"kind": "List", "items": [manifest(), manifest("Job", "batch")]}]
    who = (consumer(allocatable("cpu", 1)), consumer(allocatable("cpu", 2), kind="Job", object="batch", name="c2"))
    service, listed = apply(documents, who, "A", nothing).manifests
    assert service == documents[0]
    assert [main(pod_of(each))["requests"]["cpu"] for each in listed["items"]] == [1000, 2000]


INITIAL = {"initContainers": [{"name": "setup", "image": "x"}]}


@pytest.mark.parametrize(
    ("document", "who", "said"),
    [
        (manifest(), consumer(allocatable("cpu", 1), container="mian"), "no container 'mian'; there are main"),
        (manifest(**INITIAL), consumer(allocatable("cpu", 1), container="setup"), "'setup' only initialises"),
        (manifest("StatefulSet"), consumer(allocatable("cpu", 1)), "Deployment web of application app for cluster A"),
        (manifest("Service"), consumer(allocatable("cpu", 1), kind="Service"), "kind Service has no pods"),
        (manifest(nodeSelector={"a": "x"}), consumer(label("a", "y")), "nodeSelector a is 'x' and has to be 'y'"),
        (
            manifest("Deployment", "web", {"name": "main", "resources": {"limits": {"cpu": "1500m"}}}),
            consumer(allocatable("cpu", 2)),
            "resources.limits.cpu 1500m is less than the request of 2",
        ),
    ],
)
def test_case_19_a_conflict_changes_nothing_at_all(document: dict[str, Any], who: Consumer, said: str) -> None:
    other = manifest("Job", "batch")
    documents = [other, document]
    before = copy.deepcopy(documents)
    with pytest.raises(Contradiction, match=said.replace("(", r"\(")):
        apply(documents, [consumer(allocatable("cpu", 1), kind="Job", object="batch"), who], "A", nothing)
    assert documents == before


def test_case_19_a_required_affinity_that_forbids_the_label_is_a_conflict() -> None:
    def terms(operator: str, *values: str) -> dict[str, Any]:
        expression = {"key": "gpu", "operator": operator, **({"values": list(values)} if values else {})}
        required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}

    who = consumer(label("gpu", "yes"))
    for operator, values in (("NotIn", ("yes",)), ("In", ("no",)), ("DoesNotExist", ())):
        with pytest.raises(Contradiction, match="required node affinity forbids gpu=yes"):
            applied(manifest(**terms(operator, *values)), who)
    for operator, values in (("In", ("yes", "no")), ("Exists", ()), ("NotIn", ("no",))):
        assert applied(manifest(**terms(operator, *values)), who)["nodeSelector"] == {"gpu": "yes"}


GUARANTEED = (allocatable("cpu", 4, 4), allocatable("memory", 1000, 1000))


@pytest.mark.parametrize(
    ("needs", "sidecar", "warned"),
    [
        (GUARANTEED, None, []),
        (GUARANTEED, {"name": "side", "image": "y"}, ["exclusive cores not granted"]),
        (GUARANTEED[:1], None, ["exclusive cores not granted"]),
        ((allocatable("cpu", 1.5, 1.5), GUARANTEED[1]), None, ["shared pool"]),
        ((allocatable("cpu", 1, 2), GUARANTEED[1]), None, []),
    ],
)
def test_case_21_exclusive_cores(needs: Any, sidecar: dict[str, Any] | None, warned: list[str]) -> None:
    containers = [{"name": "main", "image": "x"}, *([sidecar] if sidecar else [])]
    found = apply([manifest("Deployment", "web", *containers)], [consumer(*needs)], "A", nothing)
    assert [said for said in warned if not any(said in each for each in found.warnings)] == []
    assert len(found.warnings) == len(warned)
    assert pods.exclusive(pod_of(found.manifests[0]), "main") is (needs is GUARANTEED and sidecar is None)


def test_case_22_17_intents_of_one_object_hold_together() -> None:
    """The largest request, the smallest limit; what cannot hold at once is a conflict."""
    one, other = consumer(allocatable("cpu", 1, 4)), consumer(allocatable("cpu", 2, 3), name="c2")
    assert main(applied(manifest(), one, other)) == {"requests": {"cpu": 2000}, "limits": {"cpu": 3000}}
    with pytest.raises(Contradiction, match="more than another's limit"):
        applied(manifest(), consumer(allocatable("cpu", 4, 4)), other)
    with pytest.raises(Contradiction, match="a has to be 'x' and, by r0, 'y'"):
        applied(manifest(), consumer(label("a", "x")), consumer(label("a", "y"), name="c2"))


def test_more_replicas_than_room_is_looked_for_are_told() -> None:
    document = manifest()
    document["spec"]["replicas"] = 3
    [warning] = apply([document], [consumer(allocatable("cpu", 1))], "A", nothing).warnings
    assert "has 3 replicas" in warning
    assert apply([document], [consumer(allocatable("cpu", 1), replicas=3)], "A", nothing).warnings == ()


_CPU = st.integers(1, 8000)
_SPECS = st.one_of(
    st.builds(lambda least, more: allocatable("cpu", f"{least}m", f"{least + more}m"), _CPU, _CPU),
    st.builds(
        lambda amount, unit: allocatable("memory", amount, units=unit), _CPU, st.sampled_from(["MB", "Mi", "k"])
    ),
    st.builds(lambda amount: allocatable("nvidia.com/gpu", limits=amount), st.integers(1, 8)),
    st.builds(lambda key, value: label(key, value), st.sampled_from("ab"), st.sampled_from("xy")),
)
_RESOURCES = st.fixed_dictionaries(
    {}, optional={
        "requests": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "500m", "2Gi"])),
        "limits": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["9", "9000m", "1e9"])),
    }
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(_SPECS, min_size=1, max_size=4), _RESOURCES, st.sampled_from(["Deployment", "CronJob", "Pod"]))
def test_the_action_is_idempotent_and_changes_nothing_else(
    specs: list[dict[str, Any]], resources: dict[str, Any], kind: str
) -> None:
    side = {"name": "side", "image": "y", "resources": copy.deepcopy(resources)}
    document = manifest(kind, "web", {"name": "main", "image": "x", "resources": resources}, side, hostname="h")
    who = [consumer(*specs, kind=kind)]
    try:
        once = apply([document], who, "A", everything)
    except Contradiction:
        return
    assert apply(once.manifests, who, "A", everything).manifests == once.manifests
    before, after = pod_of(document), pod_of(once.manifests[0])
    assert after["containers"][1] == side
    for pod in (before, after):
        pod.pop("nodeSelector", None)
        pod["containers"] = [{**pod["containers"][0], "resources": None}]
    assert before == after
