"""What is switched on acts with its own role: each right to write is used on a real API server, and none beside.

The writer runs with the rights of its service account and all features; what it did stands in the audit log.
"""

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from jobs.demo.pes import Manner
from jobs.regions import paths, workload
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import SourceError
from tests.cluster.conftest import Running
from tests.support import installed
from tests.support.cluster import MERGE, NODES, PODS, wait_for
from tests.support.disk_cluster import CAPACITIES, CLAIMS, CRDS, RESERVATIONS, allow_rules, install
from tests.support.disks import ANNOTATIONS, capacity, claim, storage_classes
from tests.support.installed import NAME, WEBHOOK, Installed
from tests.support.intents import label, meta
from tests.support.region_operators import Served, simulated
from tests.support.region_world import Job, free_ports, free_udp_port
from tests.support.serving import PATIENCE, Serving

pytestmark = pytest.mark.cluster
FEATURES = ("hosts", "disks", "disk-reservations", "regions", "region-operators")
POOLS = "/apis/streams.ibm.com/v1alpha1/namespaces/default/hostpools"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
REGIONS = Path(__file__).parents[2] / "deploy" / "regions"
#: Where a served kind shows that it is there.
KINDS = {"hostpools": POOLS, "streamscrs": paths.regions("default"), "streamscros": paths.operators("default"),
         "streamspes": paths.elements("default"), "streamsjobs": paths.jobs("default")}  # fmt: skip


@pytest.fixture(scope="module")
def featured(installation: Installed) -> Installed:
    """All features, and the kinds that they are about; the kinds stay."""
    made = installation
    install(made.cluster)
    allow_rules(made.cluster)
    for (kind, name), each in made.objects.items():
        if kind == "CustomResourceDefinition":
            status, answer = made.cluster.call("POST", CRDS, each)
            assert status in (201, 409), (name, answer)
    for path in KINDS.values():
        wait_for(lambda path=path: made.cluster.call("GET", path)[0] == 200)
    names = {f"{NAME}-{each}" for each in (*FEATURES, "stream-jobs")}
    made.apply([each for key, each in made.objects.items() if key[1] in names])
    assert made.keep() == 3, "the webhook is not there to be told of the CA"
    return made


def writes(made: Installed, account: str, *roles: tuple[str, str]) -> set[tuple[str, str, str]]:
    """Account, verb and resource of every right to write that *roles* (kind and name) give, as committed."""
    return {
        (account, verb, resource)
        for role in roles
        for rule in made.objects[role]["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list", "watch")
    }


def did(running: Running, since: int) -> set[tuple[str, str, str]]:
    """What service accounts wrote after the first *since* requests; nothing may have been refused."""
    assert running.audit is not None
    assert installed.refused(running.audit, since) == []
    found = installed.asked(running.audit, since)
    reviews = ("selfsubjectaccessreviews", "tokenreviews")
    return {each for each in found if each[1] not in ("get", "list", "watch") and each[2] not in reviews}


@pytest.fixture
def since(running: Running) -> int:
    if running.audit is None:
        pytest.skip("this API server's audit log cannot be read")
    return installed.length(running.audit)


def alive(client: httpx.Client, served: Serving) -> bool:
    try:
        answer = client.get(f"{served.url}/readyz")
    except httpx.TransportError:
        return False
    return answer.status_code == 200 and bool(answer.json().get("live"))


@contextlib.contextmanager
def writing(made: Installed, **more: str) -> Iterator[tuple[httpx.Client, Serving]]:
    """The writer, with its own rights, and a client that has the installation's token."""
    with made.served("StatefulSet", NAME, **more) as writer, made.client() as client:
        made.reached(writer)
        wait_for(lambda: alive(client, writer), PATIENCE)
        yield client, writer


def test_hosts_disks_and_operators_are_written_with_the_rights_of_their_features(
    featured: Installed, running: Running, since: int, tmp_path: Path
) -> None:
    with writing(featured) as (client, writer):
        stream_job(featured, lambda *asked, **body: client.request(asked[0], f"{writer.url}{asked[1]}", **body))
        reservation(featured, lambda body: client.post(f"{writer.url}/extender/filter", json=body))
        operator(featured, tmp_path)
    roles = [("ClusterRole", f"{NAME}-{each}") for each in ("hosts", "disk-reservations", "region-operators")]
    assert did(running, since) == writes(featured, NAME, *roles, ("Role", f"{NAME}-disk-reservations"))


def stream_job(made: Installed, ask: Callable[..., httpx.Response]) -> None:
    """A job whose pool takes one node, then another size of the same pool, and its release."""
    job = made.cluster.prefix
    nodes = [made.cluster.node_with(f"pool-{each}", {"streams.ibm.com/hostpool": job}) for each in "ab"]

    def tainted() -> list[bool]:
        found = [made.cluster.call("GET", f"{NODES}/{each}")[1] for each in nodes]
        return [bool(each["spec"].get("taints")) for each in found]

    pe = {"id": 0, "operators": [{"name": "Op", "placement": "host(Own)"}]}
    for size in (1, 2):
        pools = {"Own": f'createPool({{size={size}u, tags=["{job}"]}}, Sys.Exclusive)'}
        answer = ask("POST", "/v1/host-constraints", json={"job": {"job": job, "pes": [pe], "hostPools": pools}})
        assert (answer.status_code, answer.json()["nodesChanged"]) == (200, 1), answer.text
        assert made.cluster.call("GET", f"{POOLS}/{job}-0")[1]["spec"]["hostpool"]["size"] == size
        assert sum(tainted()) == size
    answer = ask("DELETE", f"/v1/host-constraints/{job}")
    assert answer.status_code in (200, 204), answer.text
    assert tainted() == [False, False]
    assert made.cluster.call("GET", f"{POOLS}/{job}-0")[0] == 404


def reservation(made: Installed, filtered: Callable[[Mapping[str, Any]], httpx.Response]) -> None:
    """A pod that wants a disk of its own: asked for by the extender, settled, and the disk marked."""
    cluster, prefix = made.cluster, made.cluster.prefix
    for each in storage_classes():
        if each["metadata"]["name"] == "hddlvg":
            metadata = {"name": f"{prefix}-hddlvg"}
            cluster.create(CLASSES, {**each, "metadata": metadata, "volumeBindingMode": "WaitForFirstConsumer"})
    node = cluster.node("disk")
    uid = cluster.call("GET", f"{NODES}/{node}")[1]["metadata"]["uid"]
    cluster.create(CAPACITIES, capacity(f"ac-d-{node}", "HDDLVG", 100, node=uid))
    wanted = claim(f"{prefix}-own", f"{prefix}-hddlvg", 4)
    wanted["spec"]["accessModes"] = ["ReadWriteOnce"]
    del wanted["status"]
    cluster.create(CLAIMS, wanted)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"{prefix}-own"}}]
    pod = cluster.pod("own", {"volumes": volumes, "schedulerName": "nobody"}, labels={"app": "shop"},
                      annotations={ANNOTATIONS["DED"]: "true"})  # fmt: skip
    asked = {"pod": cluster.call("GET", f"{PODS}/{pod}")[1], "nodenames": [node]}
    last = ""

    def passes() -> bool:
        nonlocal last
        answer = filtered(asked)
        last = answer.text
        return answer.status_code == 200 and bool(answer.json().get("nodenames"))

    try:
        wait_for(passes, 120)
    except AssertionError:
        raise AssertionError(last) from None
    name = f"default-{pod}"
    assert cluster.call("GET", f"{RESERVATIONS}/{name}")[1]["spec"]["NodeRequests"]["Reserved"] == [uid]
    assert cluster.call("GET", f"{CAPACITIES}/ac-d-{node}")[1]["metadata"]["labels"]
    cluster.call("DELETE", f"{RESERVATIONS}/{name}")


def operator(made: Installed, directory: Path) -> None:
    """A job's operator is made, changed (its Service as by another version of ours), and removed."""
    admin = KubernetesClient(kubeconfig=made.cluster.kubeconfig)
    regions = [{"regionIndex": 0, "pesInRegion": [0], "trigger": "periodic", "period": 5}]
    job = Job(admin, f"job{uuid.uuid4().hex[:6]}", regions, directory)
    deployment = f"{paths.deployments('default')}/{paths.operator_name(job.name)}"
    service = f"{paths.services('default')}/{paths.service_name(job.name)}"
    asked = f"{paths.operators('default')}/{paths.operator_name(job.name)}"

    def found(path: str) -> dict[str, Any]:
        status, answer = made.cluster.call("GET", path)
        return dict(answer) if status == 200 else {}

    job.apply()
    wait_for(lambda: bool(found(deployment)) and bool(found(service)), PATIENCE)
    for path in (deployment, service):
        old = {"metadata": {"annotations": {workload.HASH: "of another version"}}}
        assert made.cluster.call("PATCH", path, old, MERGE)[0] == 200
    assert made.cluster.call("PATCH", asked, {"spec": {"logLevel": "debug"}}, MERGE)[0] == 200
    for path in (deployment, service):
        wait_for(lambda path=path: "another" not in found(path)["metadata"]["annotations"][workload.HASH], PATIENCE)
    job.send("DELETE", asked)
    wait_for(lambda: not found(deployment) and not found(service), PATIENCE)
    for path in (f"{paths.regions('default')}/{job.name}-cr0", f"{paths.jobs('default')}/{job.name}"):
        job.send("DELETE", path)


def test_hardware_intents_reach_pods_without_a_right_to_write(
    featured: Installed, running: Running, since: int
) -> None:
    """They are stored by the writer and answered by a replica: the API server changes the pod."""
    made = featured
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
    made.cluster.node_with("fast", {"speed": "high"})
    with writing(made) as (client, writer):
        prefer = {"COLOCATE_REPLICA__WRITER": writer.url, "COLOCATE_ADVICE__MODE": "prefer"}
        with made.served("Deployment", WEBHOOK, **prefer) as replica:
            made.webhook(made.reached(replica), advised=made.cluster.prefix)
            assert made.keep() == 0
            for path, body in bodies.items():
                assert client.post(f"{writer.url}{path}", json=body).status_code == 201
            owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
            references: Any = [{**owner, "uid": str(uuid.uuid4())}]

            def wanted() -> bool:
                name = made.cluster.pod(
                    f"web-{uuid.uuid4().hex[:6]}", labels={"advised": made.cluster.prefix}, ownerReferences=references
                )
                return bool(made.cluster.call("GET", f"{PODS}/{name}")[1]["spec"].get("nodeSelector"))

            wait_for(wanted, PATIENCE)
    assert [each for each in did(running, since) if each[0] == WEBHOOK] == []


def test_an_operator_of_regions_needs_no_more_than_its_role_in_the_namespace_of_its_job(
    featured: Installed, running: Running, since: int, tmp_path: Path
) -> None:
    cluster = featured.cluster
    collections = {"ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
                   "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
                   "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"}  # fmt: skip
    given = [each for each in yaml.safe_load_all((REGIONS / "rbac.yaml").read_text()) if each]
    for each in given:
        if each["kind"] == "RoleBinding":
            each["subjects"][0]["namespace"] = "default"  # as the file's head says
        cluster.create(collections[each["kind"]], each)
    admin = KubernetesClient(kubeconfig=cluster.kubeconfig)
    regions = [{"regionIndex": 0, "pesInRegion": [0, 1], "trigger": "periodic", "period": 0.4, "drainTimeout": 60}]
    job, port = Job(admin, f"job{uuid.uuid4().hex[:6]}", regions, tmp_path), free_udp_port()
    account = "colocation-regions"
    served = Served(featured.kubeconfig(account, "default"), job, port, free_ports(), tmp_path / "operator.log")
    try:
        job.apply()
        with simulated(job, served, port, Manner(poll=0.5)):
            job.wait(0, seconds=PATIENCE, state="STARTED")
            wait_for(served.listens, PATIENCE)
            job.run_pes()
            wait_for(lambda: job.status(0).get("lastCompletedSeqID", 0) >= 2, PATIENCE)
            assert job.has_started()
        assert served.stop() == 0
    finally:
        if served.process.poll() is None:
            served.kill()
        for pe in job.pes:
            for path in (f"{job.pod_path(pe)}?gracePeriodSeconds=0", job.element_path(pe)):
                with contextlib.suppress(SourceError):
                    admin.send("DELETE", path)
        for path in (
            f"{paths.regions('default')}/{job.name}-cr0",
            f"{paths.operators('default')}/{paths.operator_name(job.name)}",
            f"{paths.jobs('default')}/{job.name}",
        ):
            admin.send("DELETE", path)
    [role] = [each for each in given if each["kind"] == "Role"]
    rights = {
        (account, verb, resource)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list", "watch")
    }
    assert did(running, since) == rights


def test_who_submits_stream_jobs_needs_no_more_than_the_roles_that_are_named_for_it(
    featured: Installed, running: Running, since: int, tmp_path: Path
) -> None:
    """`colocate hosts apply --create` and `release`: by one role, and with pools by that of the feature too."""
    cluster, account = featured.cluster, f"{featured.cluster.prefix}-submitter"
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    cluster.create(
        "/api/v1/namespaces/default/serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}},
    )

    def bind(role: str) -> None:
        group = "rbac.authorization.k8s.io"
        cluster.create(bindings, {
            "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": f"{account}-{role}"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": f"{NAME}-{role}"},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
        })  # fmt: skip

    def write(job: str, placement: str, **more: Any) -> str:
        pe = {"id": 0, "operators": [{"name": "Op", "placement": placement}]}
        template = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
        (tmp_path / f"{job}.yaml").write_text(yaml.safe_dump({"job": job, "pes": [pe], "template": template, **more}))
        return f"{job}.yaml"

    def run(*words: str) -> int:
        command = [sys.executable, "-m", "jobs.cli", "hosts", *words]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode in (0, 1), done.stderr
        return done.returncode

    def pods(job: str) -> list[str]:
        found = cluster.call("GET", f"{PODS}?labelSelector=streams.ibm.com/job={job}")[1]["items"]
        return [each["metadata"]["name"] for each in found]

    (tmp_path / "colocate.toml").write_text("[[clusters]]\nname = 'c1'\n[clusters.kubernetes]\n")
    environment = {**os.environ, "KUBECONFIG": str(featured.kubeconfig(account, "default"))}
    job = f"{cluster.prefix}own"
    node = cluster.node_with("submitted", {"streams.ibm.com/hostpool": job})
    bind("stream-jobs")
    assert run("apply", "-f", write(f"{job}none", 'host("nowhere")'), "--create") == 1
    for name, placement, roles in (
        (f"{job}plain", 'hostExlocation("apart")', ("stream-jobs",)),
        (job, "host(Own)", ("stream-jobs", "hosts")),
    ):
        pooled: dict[str, Any] = {}
        if "hosts" in roles:
            bind("hosts")
            pooled = {"hostPools": {"Own": f'createPool({{size=1u, tags=["{job}"]}}, Sys.Exclusive)'}}
        change = ["--change-nodes"] if pooled else []
        assert run("apply", "-f", write(name, placement, **pooled), "--create", *change) == 0
        [pod] = pods(name)
        assert bool(cluster.call("GET", f"{NODES}/{node}")[1]["spec"].get("taints")) == bool(pooled)
        cluster.call("DELETE", f"{PODS}/{pod}?gracePeriodSeconds=0", {"gracePeriodSeconds": 0})
        wait_for(lambda name=name: pods(name) == [], PATIENCE)
        assert run("release", name) == 0
        assert not cluster.call("GET", f"{NODES}/{node}")[1]["spec"].get("taints")
        made = did(running, since)
        given = writes(featured, account, *(("ClusterRole", f"{NAME}-{role}") for role in roles))
        # Pods are deleted where a later one of the same job is refused; a pool is changed when its job comes again.
        unused = {(account, "delete", "pods"), (account, "patch", "hostpools")}
        assert {each for each in made if each[0] == account} == given - unused
