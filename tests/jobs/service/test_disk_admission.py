"""Pods with claims at the webhook: each is answered from the disks as they are now, all others as without disks."""

import base64
import json
import time
from collections.abc import Callable, Iterator

import jsonpatch
import msgspec
import pytest

from featurestore.snapshot import empty
from jobs.config import DiskSettings
from jobs.service import review
from jobs.service.desk import Desk
from jobs.service.disks.desk import DiskDesk
from jobs.service.disks.extender import ExtenderArgs, prioritized
from jobs.service.disks.live import LiveDisks
from jobs.service.reservations import Reservations
from jobs.service.routes import RecommendationRequest
from jobs.service.state import Current
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.collectors.disks import PATHS
from rules.policy import Policy
from tests.support.disks import capacity, claim, storage_classes
from tests.support.kube_api import KubeApi, serving
from tests.support.service import review as reviewed
from tests.support.worlds import NOW, World, node, pod, running

WORLD = World([node(name) for name in "ABC"], known=("guest/hello",))
CLAIMS = "/api/v1/namespaces/ow/persistentvolumeclaims"
POLICY = Policy(mode="prefer")


class Here:
    """A state of one view, as the desk reads it."""

    cluster = "c1"

    def __init__(self, world: World = WORLD) -> None:
        self.current = Current(world.snapshot(), world.view(), NOW, 0)

    def view_of(self, cluster: str):
        return self.current.view


@pytest.fixture(scope="module")
def api(tmp_path_factory) -> Iterator[tuple[KubeApi, LiveDisks]]:
    with serving() as api:
        for each in storage_classes():
            api.put(PATHS["StorageClass"], each)
        for name, gib in (("A", 5), ("B", 50), ("C", 500)):
            api.put(PATHS["AvailableCapacity"], capacity(f"ac-{name}", "HDD", gib, node=name))
        for name, gib in (("small", 10), ("large", 100), ("everywhere", 1)):
            api.put(CLAIMS, claim(name, "hdd", gib, namespace="ow"))
        live = LiveDisks(KubernetesClient(kubeconfig=api.kubeconfig(tmp_path_factory.mktemp("kube"))), "c1")
        live.start()
        try:
            until(lambda: live.layout is not None)
            yield api, live
        finally:
            live.close()


def until(said: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def desk(live: LiveDisks | None) -> Desk:
    disks = DiskDesk(DiskSettings(), "c1", lambda: empty(NOW), live)
    volumes = disks.volumes if live is not None else None
    return Desk(Here(), POLICY, Reservations(), deadline=60.0, now=lambda: NOW, volumes=volumes)


def mounting(*claims: str, **given):
    """A pod of one function, of whatever name, with *claims*."""
    return pod("guest/hello", spec={"volumes": [volume(each) for each in claims], **given.pop("spec", {})}, **given)


def volume(name: str):
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def preferred(asked: Desk, manifest, number: int) -> list[list[str]]:
    """The nodes that each term of weight 100 names in the admitted pod."""
    return [term["preference"]["matchExpressions"][0]["values"] for term in wishes(admitted(asked, manifest, number))]


def wishes(manifest):
    node_affinity = manifest["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    return [each for each in terms if each["weight"] == 100]


def admitted(asked: Desk, manifest, number: int):
    uid = f"{number:08d}-0000-4000-8000-000000000000"
    body = msgspec.json.encode(reviewed(manifest, uid=uid, namespace="ow"))
    answer = json.loads(asked.decide(review.decode(body).request, NOW, dry_run=True).answer(uid))["response"]
    assert answer["allowed"]
    patch = json.loads(base64.b64decode(answer["patch"])) if "patch" in answer else []
    return jsonpatch.apply_patch(manifest, patch)


def test_each_watch_tells_how_current_it_is_and_a_kind_that_is_not_there_tells_nothing(tmp_path):
    with serving() as api:
        api.put(PATHS["AvailableCapacity"], capacity("ac-A", "HDD", 5, node="A"))
        for each in storage_classes():
            api.put(PATHS["StorageClass"], each)
        live = LiveDisks(KubernetesClient(kubeconfig=api.kubeconfig(tmp_path)), "c1")
        assert live.staleness() == {path.rpartition("/")[2]: None for path in PATHS.values()}
        live.start()
        try:
            until(lambda: live.synced)
            told = live.staleness()
            assert set(told) == {"availablecapacities", "storageclasses", "pods"}
            assert all(age is not None and age < 60 and live.lists[name] == 1 for name, age in told.items())
        finally:
            live.close()


def test_pods_of_one_function_get_each_the_nodes_of_their_own_claims(api):
    _, live = api
    asked = desk(live)
    assert preferred(asked, mounting("small"), 1) == [["B", "C"]]
    assert preferred(asked, mounting("large"), 2) == [["C"]]
    assert preferred(asked, mounting("everywhere"), 3) == []
    assert preferred(asked, mounting("small"), 4) == [["B", "C"]]


def test_pods_without_claims_share_their_answer_as_ever(api):
    _, live = api
    asked, off = desk(live), desk(None)
    token = {"name": "token", "projected": {"sources": []}}
    plain = mounting(spec={"volumes": [token]})
    preferred(asked, mounting("large"), 1)
    assert admitted(asked, plain, 2) == admitted(off, plain, 2)
    assert len(asked._prepared) == 1
    admitted(asked, mounting(spec={"volumes": []}), 3)
    assert len(asked._prepared) == 1, "what else it mounts tells no pod apart"


def test_with_the_disks_off_claims_change_nothing(api):
    off = desk(None)
    with_claim, without = admitted(off, mounting("large"), 1), admitted(off, mounting(), 1)
    assert with_claim["spec"].get("affinity") == without["spec"].get("affinity")
    assert len(off._prepared) == 1


def test_a_claim_that_nobody_has_seen_advises_nothing(api):
    assert preferred(desk(api[1]), mounting("never-made"), 1) == []


def test_a_disk_that_is_taken_counts_for_the_next_pod_at_once(api):
    server, live = api
    asked = desk(live)
    server.put(PATHS["AvailableCapacity"], capacity("ac-C", "HDD", 0, node="C"))
    try:
        until(lambda: preferred(asked, mounting("small"), 1) == [["B"]])
    finally:
        server.put(PATHS["AvailableCapacity"], capacity("ac-C", "HDD", 500, node="C"))
        until(lambda: preferred(asked, mounting("small"), 2) == [["B", "C"]])


def test_generic_ephemeral_volumes_of_pods_without_a_name_yet(api):
    _, live = api
    template = {"spec": {"storageClassName": "hdd", "resources": {"requests": {"storage": "100Gi"}}}}
    manifest = mounting(spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]})
    del manifest["metadata"]["name"]
    manifest["metadata"]["generateName"] = "hello-"
    assert preferred(desk(live), manifest, 1) == [["C"]]


def test_a_person_is_shown_the_plan(api):
    _, live = api
    found = desk(live).recommend(RecommendationRequest(mounting("large")))
    assert found.disks is not None
    assert (found.disks["status"], found.disks["plan"]) == ("RESERVED", {"C": {"large": "ac-C"}})
    assert [each.name for each in found.nodes] == ["C"]
    assert "ac-A" not in str(found.disks["plan"]) and set(found.disks["failed"]) == {"A", "B"}
    assert desk(live).recommend(RecommendationRequest(mounting())).disks is None


def test_the_scheduler_s_priorities_count_company_where_that_is_asked_for():
    """One batch on A, always running, makes hello 80 % longer: A's company is worth 1 / 1.8 of B's."""
    slowed = {("guest/hello", "guest/batch"): 0.8}
    world = World([node("A"), node("B")], pods=[running("guest/batch", "A")], slowdowns=slowed)
    asked = Desk(Here(world), POLICY, Reservations(), now=lambda: NOW)
    plans = DiskDesk(DiskSettings(), "c1", lambda: empty(NOW), None).plan

    def scores(manifest, names, company=asked.company):
        question = ExtenderArgs({**manifest, "kind": "Pod"}, nodenames=names)
        return {each.host: each.score for each in prioritized(question, plans, company)}

    found = scores(mounting(), ["A", "B", "new"])
    assert found == {"A": round((10 + 10 / 1.8) / 2), "B": 10, "new": 10}
    assert scores(mounting(), ["A", "B"], None) == {"A": 10, "B": 10}, "off, as it is by default"
    assert scores(pod("guest/never-seen"), ["A", "B"]) == {"A": 10, "B": 10}
