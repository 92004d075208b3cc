"""``colocate disks plan``: from files of a directory, and from what was collected into the store."""

import dataclasses
import json
from pathlib import Path

import msgspec
import pytest
import yaml

from featurestore.snapshot import TABLES as SNAPSHOT_TABLES
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs.cli import main
from jobs.config import Settings, StoreSettings
from jobs.disks.files import wanted
from jobs.disks.layout import beside, of_snapshot
from jobs.manifests import pods
from jobs.recommending import answer
from jobs.saving import publish
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.collectors import disks
from pipeline.collectors.disks import PATHS
from pipeline.columns import TABLES
from pipeline.objects import disks as wire
from pipeline.records import Batch
from rules.policy import Policy
from tests.support.disks import capacity, claim, pod, storage_classes, using
from tests.support.kube_server import KubeServer
from tests.support.stores import NOON, OVERLAP, select
from tests.support.worlds import NOW as WORLDS_NOW
from tests.support.worlds import World, node

NODE = {
    "kind": "Node",
    "metadata": {"name": "worker-1", "uid": "u1", "labels": {"nodes.csi-baremetal.dell.com/uuid": "n1"}},
}
BASE = [capacity("ac-d1", "HDDLVG", 12), capacity("ac-d2", "HDD", 100), capacity("ac-d3", "HDD", 200)]

#: The example of the proposal, with the claims and annotations that it has.
NGINX = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: nginx}}
  serviceName: nginx
  replicas: 3
  template:
    metadata:
      annotations: {ANNOTATIONS}
      labels: {app: nginx}
    spec:
      containers: [{name: nginx, image: nginx}]
  volumeClaimTemplates: [TEMPLATES]
"""


def example(annotations, storage_class, *names):
    templates = [
        {
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": storage_class,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        for name in names
    ]
    text = NGINX.replace("{ANNOTATIONS}", json.dumps(annotations))
    return text.replace("[TEMPLATES]", json.dumps(templates))


AFFINITY, ANTI = "affinity.volumes.csi-baremetal.dell.com/", "antiaffinity.volumes.csi-baremetal.dell.com/"


@pytest.fixture
def state(tmp_path):
    directory = tmp_path / "state"
    directory.mkdir()
    (directory / "a.json").write_text(json.dumps({"kind": "List", "items": [*BASE, NODE]}))
    (directory / "b.yaml").write_text(yaml.safe_dump_all(storage_classes()))
    return directory


def run(capsys, *arguments):
    code = main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_first_example_of_the_proposal_lies_on_one_disk(state, tmp_path, capsys):
    """One disk for each pod, away from two other applications where that can be."""
    annotations = {
        f"{AFFINITY}types": "pod-bound-required",
        f"{ANTI}types": "pod-label-preferred",
        f"{ANTI}labels": "app=ecs-cluster-ss:default,app=ecs-cluster-pvg:default",
    }
    file = tmp_path / "web.yaml"
    file.write_text(example(annotations, "hddlvg", "www-1", "www-2"))
    users = using(pod("ss-0", labels={"app": "ecs-cluster-ss"}), "d1")
    (state / "users.json").write_text(json.dumps({"items": [*users, {"kind": "List", "items": []}]}))
    code, out, _ = run(capsys, "disks", "plan", "-f", file, "--state", state, "-o", "json")
    found = json.loads(out)
    assert code == 0
    assert set(found) == {"status", "plan", "denied", "violated", "taint", "scores", "failed"}
    assert found["plan"] == {"worker-1": {"www-1-web-0": "ac-d2", "www-2-web-0": "ac-d2"}}
    assert (found["status"], found["violated"], found["taint"]) == ("RESERVED", {}, {})


def test_the_second_example_of_the_proposal_dedicates_a_disk(tmp_path, capsys):
    directory = tmp_path / "ssds"
    directory.mkdir()
    objects = [capacity("ac-s1", "SSD", 400), capacity("ac-s2", "SSD", 400), NODE, *storage_classes()]
    (directory / "all.json").write_text(json.dumps({"kind": "List", "items": objects}))
    file = tmp_path / "web.yaml"
    file.write_text(example({f"{AFFINITY}dedicated": "true"}, "ssdlvg", "www-1"))
    code, out, _ = run(capsys, "disks", "plan", "-f", file, "--state", directory, "-o", "yaml")
    found = yaml.safe_load(out)
    assert (code, found["plan"]) == (0, {"worker-1": {"www-1-web-0": "ac-s1"}})
    assert found["taint"] == {"ac-s1": "app=nginx:default"}


def test_a_refusal_exits_with_1_and_says_why(state, tmp_path, capsys):
    file = tmp_path / "pod.yaml"
    given = [pod(claims=["big"]), claim("big", "hddlvg", 500)]
    file.write_text(yaml.safe_dump_all(given))
    code, out, _ = run(capsys, "disks", "plan", "-f", file, "--state", state, "-o", "json")
    assert code == 1
    assert json.loads(out)["failed"] == {
        "worker-1": "No available capacity found on the node worker-1: capacity: big needs 500 GiB of HDDLVG,"
        " largest usable 199.99 GiB"
    }


def test_a_refusal_says_that_no_disk_is_known(tmp_path, capsys):
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump_all([pod(claims=["a"]), claim("a", "hdd", 1), *storage_classes()]))
    config = tmp_path / "colocate.toml"
    config.write_text(f"[store]\npath = '{tmp_path}/s.duckdb'\nsnapshot = '{tmp_path}/snapshot'\n")
    code, out, _ = run(capsys, "--config", config, "disks", "plan", "-f", file, "-o", "csv")
    assert (code, out.splitlines()[1]) == (1, "web-0,,,REJECTED,no node with disks is known")


def test_a_claim_that_nobody_knows_is_waited_for(state, tmp_path, capsys):
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(pod(claims=["later"])))
    code, out, _ = run(capsys, "disks", "plan", "-f", file, "--state", state)
    assert code == 0 and "REQUEUE" in out and "waits for claim default/later" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\nmetadata: {name: p, annotations: {a: 1}}\nspec: {containers: []}", "yaml: Pod p: annotations"),
        ("kind: Service\nmetadata: {name: s}", "pod.yaml: no pod or workload in it"),
        ("a: [", "pod.yaml, line"),
        ("kind: StatefulSet\nmetadata: {name: s}\nspec: {template: {spec: {}}, volumeClaimTemplates: [1]}",
         "volumeClaimTemplates"),
        (json.dumps(pod(claims=["c"], TYPES="pod-bond")),
         f"pod.yaml: pod web-0: annotation {AFFINITY}types: unsupported affinity type 'pod-bond'"),
        (yaml.safe_dump_all([pod(claims=["c"]), {"kind": "PersistentVolumeClaim", "metadata": {"name": 1}}]),
         "pod.yaml: PersistentVolumeClaim 1: metadata.name is missing"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_line_and_exit_2(state, tmp_path, capsys, text, said):
    file = tmp_path / "pod.yaml"
    file.write_text(text)
    code, out, err = run(capsys, "disks", "plan", "-f", file, "--state", state)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err and "Traceback" not in err


@pytest.mark.parametrize(("make", "said"), [(False, "no such directory"), (True, "no file of .json")])
def test_a_bad_directory_is_one_line(tmp_path, capsys, make, said):
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(pod()))
    if make:
        (tmp_path / "nothing").mkdir()
    code, _, err = run(capsys, "disks", "plan", "-f", file, "--state", tmp_path / "nothing")
    assert code == 2 and said in err and err.count("\n") == 1


KINDS = {path: kind for kind, path in PATHS.items()}


def served(objects):
    """A cluster that holds *objects*, as lists give them: without their kind."""
    collections = {path: [] for path in PATHS.values()}
    for each in objects:
        if path := PATHS.get(each["kind"]):
            collections[path].append({key: value for key, value in each.items() if key != "kind"})
    return KubeServer(collections)


@pytest.fixture
def cluster():
    objects = [*BASE, NODE, *storage_classes(), *using(pod("ss-0", labels={"app": "ss"}), "d1"), pod("plain")]
    drive = {"kind": "Drive", "metadata": {"name": "d3"}, "spec": {"NodeId": "n1", "Path": "/dev/sdc", "Type": "HDD"}}
    server = served([*objects, drive])
    yield server
    server.close()


def client_of(server, tmp_path):
    config = tmp_path / "kubeconfig"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    return KubernetesClient(kubeconfig=config)


def collected(server, tmp_path, settings):
    store = Store(settings.store.path)
    batch = disks.collect(client_of(server, tmp_path).list, NOON)
    written = ingest(store, "c1", batch, collected=NOON, overlap=OVERLAP)
    return store, batch, written


def test_what_was_collected_is_planned_from(cluster, tmp_path, capsys):
    settings = Settings(store=StoreSettings(path=tmp_path / "s.duckdb", snapshot=tmp_path / "snapshot"))
    store, batch, written = collected(cluster, tmp_path, settings)
    assert not batch.refused and written.rows == batch.rows.num_rows
    names = {(row["kind"], row["name"]) for row in batch.rows.to_pylist()}
    assert ("Pod", "ss-0") in names and ("Pod", "plain") not in names
    assert collected(cluster, tmp_path, settings)[2].rows == 0
    columns = TABLES["usage"]
    busy = dict(zip(columns.names, ("drive", "worker-1", "sdc", "busy_ratio", NOON, 0.9), strict=True))
    usage = Batch("usage", rows=columns.empty_table().from_pylist([busy], schema=columns), scope="drive")
    ingest(store, "c1", usage, collected=NOON, overlap=OVERLAP)
    publish(settings, store, NOON)
    config = tmp_path / "colocate.toml"
    config.write_text(f"[store]\npath = '{settings.store.path}'\nsnapshot = '{settings.store.snapshot}'\n")
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump_all([pod(claims=["a"]), claim("a", "hdd", 50)]))
    code, out, _ = run(capsys, "--config", config, "disks", "plan", "-f", file, "-o", "json")
    assert code == 0 and json.loads(out)["plan"] == {"worker-1": {"a": "ac-d2"}}
    # A drive as large as the busy one, and quiet, is taken before it.
    cluster.put(PATHS["AvailableCapacity"], [capacity("ac-d3", "HDD", 200), capacity("ac-d4", "HDD", 200)])
    collected(cluster, tmp_path, settings)
    publish(settings, store, NOON)
    code, out, _ = run(capsys, "--config", config, "disks", "plan", "-f", file, "-o", "json")
    assert code == 0 and json.loads(out)["plan"] == {"worker-1": {"a": "ac-d4"}}


def test_a_cluster_without_the_driver_has_nothing_to_collect(tmp_path):
    server = KubeServer({"/api/v1/pods": [], "/api/v1/nodes": []})
    try:
        batch = disks.collect(client_of(server, tmp_path).list, NOON)
    finally:
        server.close()
    assert batch.rows.num_rows == 0 and batch.refused == ()
    assert [path for path, _ in server.requests] == [PATHS["AvailableCapacity"]]


def test_an_object_that_cannot_be_read_is_told_and_not_taken_for_deleted(cluster, tmp_path):
    settings = Settings(store=StoreSettings(path=Path(tmp_path / "s.duckdb")))
    store, _, _ = collected(cluster, tmp_path, settings)
    odd = {"metadata": {"name": "ac-d1"}, "spec": {"Size": "big"}}
    cluster.put(PATHS["AvailableCapacity"], [odd, capacity("ac-d2", "HDD", 100)])
    _, batch, _ = collected(cluster, tmp_path, settings)
    assert [each.what for each in batch.refused] == ["AvailableCapacity/ac-d1"]
    kept = select(store, "SELECT name FROM disks WHERE kind = 'AvailableCapacity' ORDER BY name")
    assert kept == [("ac-d1",), ("ac-d2",)]


def knowing(*objects):
    """A snapshot of two nodes and *objects* about their disks: 5 GiB on the first, 50 on the second."""
    snapshot = World([node("worker-1"), node("worker-2")]).snapshot()
    held = [capacity("ac-a", "HDD", 5, node="n1"), capacity("ac-b", "HDD", 50, node="n2"), *storage_classes()]
    known = [{"kind": "Node", "metadata": {"name": f"worker-{i}", "uid": f"n{i}"}} for i in (1, 2)]
    records = [(each["kind"], wire.read(each)) for each in (*held, *known, *objects)]
    rows = [
        {"cluster": "c1", "kind": kind, "namespace": getattr(record, "namespace", ""), "name": wire.name_of(record),
         "document": msgspec.json.encode(record).decode()}
        for kind, record in records
        if record is not None
    ]  # fmt: skip
    table = snapshot["disks"].from_pylist(rows, schema=SNAPSHOT_TABLES["disks"])
    return dataclasses.replace(snapshot, tables={**snapshot.tables, "disks": table})


def recommended(given, snapshot, **more):
    more = {"cluster": "c1", "namespace": None, "at": WORLDS_NOW, **more}
    return answer(given, snapshot, Policy(mode="prefer"), **more).recommendation


def test_a_recommendation_counts_the_disks_that_were_collected(tmp_path):
    [manifest] = pods(tmp_path / "p.json", json.dumps(pod(claims=["data"], namespace="ow")))
    found = recommended(manifest, knowing(claim("data", "hdd", 10, namespace="ow")))
    assert [each.name for each in found.nodes] == ["worker-2"]
    assert found.disks is not None and found.disks["plan"] == {"worker-2": {"data": "ac-b"}}


def test_a_recommendation_counts_the_claims_of_the_pods_own_file(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump_all([pod(claims=["data"]), claim("data", "hdd", 10)]))
    [given] = wanted(file)
    assert recommended(given, knowing()).disks["plan"] == {"worker-2": {"data": "ac-b"}}
    # Of the cluster's claim of that name, which is for a smaller disk, another namespace knows nothing.
    [elsewhere] = wanted(file, namespace="ow")
    found = recommended(elsewhere, knowing(claim("data", "hdd", 1)), namespace="ow")
    assert found.disks["plan"] == {"worker-2": {"data": "ac-b"}}


def test_a_claim_that_exists_stands_whatever_the_file_says_of_it(state, tmp_path, capsys):
    """The set is planned again: www-1 of its first replica is bound on d3, and its disk binds the pod."""
    held = using(pod("web-0", labels={"app": "nginx"}), "d3", name="www-1-web-0", gib=1)
    (state / "held.json").write_text(json.dumps({"kind": "List", "items": held}))
    file = tmp_path / "web.yaml"
    file.write_text(example({f"{AFFINITY}types": "pod-bound-required"}, "hddlvg", "www-1", "www-2"))
    code, out, _ = run(capsys, "disks", "plan", "-f", file, "--state", state, "-o", "json")
    assert (code, json.loads(out)["plan"]) == (0, {"worker-1": {"www-2-web-0": "ac-d3"}})
    new = claim("www-1-web-0", "hddlvg", 1)
    known = of_snapshot(knowing(*held), "c1", [new])
    for held_by in (known, beside(known, [new]), beside(known, [new, *storage_classes()])):
        assert held_by.claims["default", "www-1-web-0"].volume == "pvc-default-www-1-web-0"


def test_a_recommendation_counts_the_claims_of_a_stateful_sets_templates(tmp_path):
    file = tmp_path / "web.yaml"
    file.write_text(example({}, "hdd", "www-1").replace('"1Gi"', '"10Gi"'))
    [given] = wanted(file)
    assert recommended(given, knowing()).disks["plan"] == {"worker-2": {"www-1-web-0": "ac-b"}}


def test_where_asked_for_a_recommendation_keeps_off_drives_whose_users_want_to_be_apart(tmp_path):
    """Case 5c: ss-1 says nothing itself; who lies on the only drive that holds its volume wants to be apart."""
    apart = pod("web-0", ATYPES="pod-label-required", ALABELS="app=ecs-cluster-ss:default")
    held = [capacity("ac-d9", "HDDLVG", 50, node="n2"), *using(apart, "d9", node="n2")]
    file = tmp_path / "p.yaml"
    file.write_text(
        yaml.safe_dump_all([pod("ss-1", ["www-1"], labels={"app": "ecs-cluster-ss"}), claim("www-1", "hddlvg", 45)])
    )
    [given] = wanted(file)
    known = knowing(*held)
    assert recommended(given, known).disks["plan"] == {"worker-2": {"www-1": "ac-d9"}}
    assert recommended(given, known, symmetric=True).disks["plan"] == {"worker-2": {"www-1": "ac-b"}}
