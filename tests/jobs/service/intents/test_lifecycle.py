"""The intent API through HTTP: the worked REST cases, one test each, and what else the interface promises."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from featurestore.store import tree
from featurestore.store.control import Control
from jobs import hpa
from rules.hpa import model
from tests.support.intents import GROUP, allocatable, example_documents, label, meta, parents, post_example
from tests.support.service import Fakes, running

P = "/v2/projects/p1/composite-apps/ca1/v1/deployment-intent-groups/dig1/hpa-intents"
CONSUMERS = f"{P}/i1/hpa-resource-consumers"
NEEDS = f"{CONSUMERS}/c1/resource-requirements"
INTENT = meta("i1", appName="fwall")
CONSUMER = meta(
    "c1", consumer={"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "core", "container-name": "c"}
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, Control]]:
    path = tmp_path_factory.mktemp("control") / "control.sqlite"
    with running(Fakes(control=path).parts()) as url, httpx.Client(base_url=url) as client:
        yield client, Control(path)


@pytest.fixture
def client(served: tuple[httpx.Client, Control]) -> httpx.Client:
    client, control = served
    control.write(lambda con: con.execute("DELETE FROM resources"))
    parents(client)
    return client


def _post(client: httpx.Client, path: str, body: object, status: int = 201) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture
def intent(client: httpx.Client) -> httpx.Client:
    _post(client, P, INTENT)
    return client


@pytest.fixture
def consumer(intent: httpx.Client) -> httpx.Client:
    _post(intent, CONSUMERS, CONSUMER)
    return intent


def _refused(answer: httpx.Response, status: int, said: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert said in answer.json()["detail"]


def test_case_22_1_an_empty_list(client: httpx.Client) -> None:
    answer = client.get(P)
    assert (answer.status_code, answer.text) == (200, "[]")


def test_case_22_2_a_valid_intent_is_created(client: httpx.Client) -> None:
    answer = client.post(P, json=INTENT)
    assert (answer.status_code, answer.headers["content-type"]) == (201, "application/json")
    assert answer.json() == INTENT


def test_case_22_3_the_same_again_is_refused(intent: httpx.Client) -> None:
    _refused(intent.post(P, json=INTENT), 409, "hpa-intents/i1: exists already")


def test_case_22_4_an_empty_body_is_refused(client: httpx.Client) -> None:
    _refused(client.post(P), 400, "body: empty")


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        (P, "{", "neither JSON nor YAML"),
        (P, "[1]", "expected one object"),
        (NEEDS, json.dumps(meta("r", **allocatable("cpu", True))), "spec.requests"),
        (NEEDS, json.dumps(meta("r", **allocatable("cpu", "four"))), "'four'"),
        (NEEDS, json.dumps(meta("r", allocatable="yes", name="cpu", requests=1)), "spec.allocatable"),
        (P, '{"metadata": {"name": 1}, "spec": {"appName": "a"}}', "metadata.name"),
        (P, '{"metadata": "i1", "spec": {"appName": "a"}}', "metadata"),
    ],
)
def test_case_22_5_what_cannot_be_decoded(consumer: httpx.Client, path: str, content: str, said: str) -> None:
    _refused(consumer.post(path, content=content), 422, said)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (meta("-bad", appName="a"), "metadata.name"),
        (meta("n" * 129, appName="a"), "metadata.name"),
        (meta("i1"), "spec.appName: missing"),
        ({"metadata": {"name": "i1"}}, "spec.appName: missing"),
        (meta("i1", appName="$$$"), "spec.appName"),
        ({"metadata": {"name": "i1", "description": "d" * 1025}, "spec": {"appName": "a"}}, "metadata.description"),
        ({"metadata": {"name": "i1", "userData1": "d" * 513}, "spec": {"appName": "a"}}, "metadata.userData1"),
        ({"metadata": {"name": "i1"}, "spec": {"appName": "a"}, "specs": {}}, "specs: no such field"),
        (meta("i1", appName="a", apName="b"), "spec.apName: no such field"),
        (meta("i1", appName="a", app="b"), "spec.app: differs"),
    ],
)
def test_case_22_6_a_violation_names_its_field(client: httpx.Client, body: object, said: str) -> None:
    _refused(client.post(P, json=body), 400, said)
    assert client.get(P).json() == []


def test_case_22_6_a_name_of_128_characters_is_none(client: httpx.Client) -> None:
    _post(client, P, meta("n" * 128, appName="a"))


@pytest.mark.parametrize("path", [P.replace("p1", "p2"), P.replace("dig1", "dig2"), f"{P}/i9/hpa-resource-consumers"])
def test_case_22_7_an_unknown_parent(client: httpx.Client, path: str) -> None:
    _refused(client.post(path, json=CONSUMER if "i9" in path else INTENT), 404, "does not exist")
    _refused(client.get(path), 404, "does not exist")


def test_case_22_8_a_name_that_is_not_the_paths(intent: httpx.Client) -> None:
    _refused(intent.put(f"{P}/i1", json=meta("i2", appName="fwall")), 400, "metadata.name: i2 is not i1")


def test_case_22_9_an_intent_without_consumers_is_replaced(intent: httpx.Client) -> None:
    assert intent.put(f"{P}/i1", json=meta("i1", appName="other")).status_code == 200
    assert intent.get(f"{P}/i1").json() == meta("i1", appName="other", resourceConsumers=[])


def test_case_22_10_an_intent_with_a_consumer_is_not_replaced(consumer: httpx.Client) -> None:
    _refused(consumer.put(f"{P}/i1", json=meta("i1", appName="other")), 409, "hpa-resource-consumers/c1")
    assert consumer.get(f"{P}/i1").json()["spec"]["appName"] == "fwall"


def test_case_22_11_what_is_not_there_is_not_replaced(client: httpx.Client) -> None:
    _refused(client.put(f"{P}/i1", json=INTENT), 404, "hpa-intents/i1: does not exist")
    assert client.get(P).json() == []


def test_case_22_12_an_intent_with_a_consumer_is_not_deleted(consumer: httpx.Client) -> None:
    _refused(consumer.delete(f"{P}/i1"), 409, "hpa-resource-consumers/c1")
    assert consumer.get(f"{CONSUMERS}/c1").status_code == 200


def test_case_22_13_an_allocatable_resource_needs_a_container(intent: httpx.Client) -> None:
    _post(intent, CONSUMERS, meta("c1", consumer={"kind": "Deployment", "name": "core"}))
    _refused(intent.post(NEEDS, json=meta("r", **allocatable("cpu", 1))), 400, "container-name")
    _post(intent, NEEDS, meta("r", **label("gpu", "true")))
    _refused(intent.put(f"{NEEDS}/r", json=meta("r", **allocatable("cpu", 1))), 400, "container-name")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (allocatable("cpu", 1, value="x"), "spec.value"),
        (allocatable("cpu", 1, key="cpu"), "spec.key"),
        (label("gpu", "true", requests=1), "spec.requests"),
        (label("gpu", "true", limits=1), "spec.limits"),
        (label("gpu", "true", units="MB"), "spec.units"),
        ({"allocatable": True, "name": "cpu"}, "spec.requests: missing"),
        ({"allocatable": False, "name": "gpu"}, "spec.value: missing"),
        ({"allocatable": True, "requests": 1}, "spec.name: missing"),
        ({"name": "cpu", "requests": 1}, "spec.allocatable: missing"),
    ],
)
def test_case_22_14_each_kind_has_its_own_fields(consumer: httpx.Client, spec: dict[str, Any], said: str) -> None:
    _refused(consumer.post(NEEDS, json=meta("r", **spec)), 400, said)


def test_case_22_15_everything_is_deleted_from_below(consumer: httpx.Client) -> None:
    _post(consumer, NEEDS, meta("r", **allocatable("cpu", 1)))
    _refused(consumer.delete(f"{CONSUMERS}/c1"), 409, "resource-requirements/r")
    _refused(consumer.put(f"{CONSUMERS}/c1", json=CONSUMER), 409, "resource-requirements/r")
    for path in (f"{NEEDS}/r", f"{CONSUMERS}/c1", f"{P}/i1"):
        answer = consumer.delete(path)
        assert (answer.status_code, answer.content) == (204, b"")
    for path in (f"{NEEDS}/r", f"{CONSUMERS}/c1", f"{P}/i1"):
        assert consumer.get(path).status_code == 404
        assert consumer.delete(path).status_code == 404


def test_case_22_16_a_collection_is_asked_for_one_item(consumer: httpx.Client) -> None:
    assert consumer.get(P, params={"intent": "i1"}).json() == consumer.get(f"{P}/i1").json()
    assert consumer.get(CONSUMERS, params={"consumer": "c1"}).json() == CONSUMER
    _refused(consumer.get(P, params={"intent": "zzz"}), 404, "hpa-intents/zzz")


def test_case_22_17_two_intents_for_one_application(intent: httpx.Client) -> None:
    _post(intent, P, meta("i2", appName="fwall"))
    assert [each["metadata"]["name"] for each in intent.get(P).json()] == ["i1", "i2"]


def test_case_22_18_names_are_unique_below_one_parent_only(consumer: httpx.Client) -> None:
    _post(consumer, CONSUMERS, {**CONSUMER, "metadata": {"name": "c2"}})
    for each in ("c1", "c2"):
        _post(consumer, f"{CONSUMERS}/{each}/resource-requirements", meta("r", **allocatable("cpu", 1)))


@pytest.mark.parametrize(
    ("spec", "status", "said"),
    [
        (allocatable("cpu", "0.0005"), 400, "less than 1 millicore"),  # case 4
        (allocatable("cpu", 1.0005), 400, "no whole number of millicores"),
        (allocatable("cpu", 0), 400, "spec.requests"),
        (allocatable("cpu", -1), 400, "spec.requests"),
        (allocatable("memory", 1, units="m"), 400, "spec.units"),  # case 5
        (allocatable("memory", 1, units="MX"), 400, "spec.units"),
        (allocatable("cpu", 1, units="MB"), 400, "spec.units"),
        (allocatable("nvidia.com/gpu", 1, units="k"), 400, "spec.units"),
        (allocatable("memory", "1Gi", units="MB"), 400, "spec.units"),
        (label("a", True), 422, "spec.value"),  # case 7
        (label("a", "not a value"), 400, "spec.value"),
        (allocatable("nvidia.com/gpu", 1, 2), 400, "spec.limits"),  # case 17
        (allocatable("nvidia.com/gpu", 0.5), 400, "less than 1"),
        (allocatable("nvidia.com/gpu", 1.5), 400, "no whole number"),
        (allocatable("cpu", 3, 2), 400, "spec.requests"),
        (allocatable("hugepages-2Mi", "3Mi"), 400, "no whole number of pages"),
        (allocatable("hugepages-2Mi", "4Mi", "6Mi"), 400, "spec.limits"),
        (allocatable("gpu", 1), 400, "spec.name"),
        (allocatable("cpu", 1, weight=0), 400, "spec.weight"),
        (allocatable("cpu", 1, weight=11), 400, "spec.weight"),
        (allocatable("cpu", 1, weight="5"), 422, "spec.weight"),
        (allocatable("cpu", 2**70), 400, "more than any node has"),
    ],
)
def test_amounts_units_and_weights_that_are_refused(
    consumer: httpx.Client, spec: dict[str, Any], status: int, said: str
) -> None:
    _refused(consumer.post(NEEDS, json=meta("r", **spec)), status, said)
    assert consumer.get(NEEDS).json() == []


def test_published_spellings_come_out_as_one(intent: httpx.Client) -> None:
    """The field names of EMCO 21.03 and of its later form, beside the canonical ones."""
    flat = meta(
        "c1", **{"api-version": "v1", "kind": "Deployment", "replicas": 2, "name": "d", "container-name": "c"}
    )
    assert _post(intent, CONSUMERS, flat)["spec"] == {
        "consumer": {"apiVersion": "v1", "kind": "Deployment", "replicas": 2, "name": "d", "container-name": "c"}
    }
    other = meta("c2", apiVersion="v1", kind="Deployment", name="d", container="c")
    assert _post(intent, CONSUMERS, other)["spec"]["consumer"]["container-name"] == "c"
    nested = meta(
        "r1", allocatable=True, mandatory=True, weight=1, resource={"name": "cpu", "requests": 4, "limits": 4}
    )
    assert _post(intent, NEEDS, nested)["spec"] == {
        "allocatable": True, "mandatory": True, "weight": 1, "name": "cpu", "requests": 4, "limits": 4,
    }  # fmt: skip
    keyed = meta("r2", allocatable=False, resource={"key": "feature.node.kubernetes.io/intel_qat", "value": "true"})
    assert _post(intent, NEEDS, keyed)["spec"] == {
        "allocatable": False, "name": "feature.node.kubernetes.io/intel_qat", "value": "true",
    }  # fmt: skip
    for spelling in ("app", "app-name"):
        assert _post(intent, P, meta(spelling, **{spelling: "fwall"}))["spec"] == {"appName": "fwall"}


@pytest.mark.parametrize("version", ["/v2", ""])
def test_the_usage_example_is_posted_as_it_is_written(tmp_path: Path, version: str) -> None:
    fakes = Fakes(control=tmp_path / "control.sqlite")
    with running(fakes.parts()) as url, httpx.Client(base_url=url) as client:
        post_example(client, version)
        shown = client.get(f"{GROUP.removeprefix('/v2')}/hpa-intents").json()
        assert shown == client.get(f"{GROUP}/hpa-intents").json()
        by_app = {each["spec"]["appName"]: each["spec"]["resourceConsumers"] for each in shown}
        assert {app: [each["metadata"]["name"] for each in found] for app, found in by_app.items()} == {
            "analytics": ["ai-model", "logger"], "fwall": ["api-server", "core-fwall"],
        }  # fmt: skip
        # What is stored is what the same documents say in files, so that both are placed and applied alike.
        kept = Control(tmp_path / "control.sqlite").read(lambda con: tree.below(con, ""))
        written = tmp_path / "intents.yaml"
        written.write_text("---\n".join(example_documents()))
        stored = model.intents((item.path, item.body) for item in kept)
        assert stored == hpa.read([written]).intents
        app = f"{GROUP.rpartition('/deployment')[0]}/apps/fwall"
        _refused(client.delete(app), 409, "hpa-intents/fwall-hpa-intent is for it")


def test_groups_say_where_their_applications_go(client: httpx.Client) -> None:
    groups = P.rpartition("/dig1")[0]
    body = meta("dig2", placement={"anyOf": ["c", "a"]}, compositeProfile="kept")
    assert _post(client, groups, body) == body
    for wrong in ({"anyOf": []}, {}, {"anyOf": ["a"], "allOf": ["a"]}, {"anyOf": ["a", "a"]}, {"oneOf": ["a"]}):
        _refused(client.post(groups, json=meta("dig3", placement=wrong)), 400, "spec.placement")
    _refused(client.post(groups, json=meta("dig3", placement={"anyOf": "a"})), 422, "spec.placement.anyOf")


def test_clusters_are_created_and_listed(client: httpx.Client) -> None:
    _post(client, "/v2/clusters", {"metadata": {"name": "edge"}})
    assert client.get("/clusters").json() == [{"metadata": {"name": "edge"}}]
    assert client.put("/v2/clusters/edge", json=meta("edge", region="north")).status_code == 200
    assert client.delete("/clusters/edge").status_code == 204


def test_of_writers_at_once_one_wins_and_no_child_is_orphaned(intent: httpx.Client) -> None:
    """Twelve clients create one consumer, and others delete its parent, all at once."""

    def create(_: int) -> int:
        return httpx.post(f"{intent.base_url}{CONSUMERS}", json=CONSUMER).status_code

    def delete(_: int) -> int:
        return httpx.delete(f"{intent.base_url}{P}/i1").status_code

    with ThreadPoolExecutor(16) as pool:
        created, deleted = pool.map(create, range(12)), pool.map(delete, range(4))
        made, gone = sorted(created), sorted(deleted)
    assert set(made) <= {201, 404, 409} and made.count(201) <= 1
    assert set(gone) <= {204, 404, 409} and gone.count(204) <= 1
    assert made.count(201) + gone.count(204) == 1
    assert intent.get(CONSUMERS).status_code == (200 if made.count(201) else 404)
