"""The committed manifests on a real API server, and the product run with its own service accounts' rights."""

import base64
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobs.bootstrap.keeping import Keeper, Objects
from pipeline.clients.kubernetes import KubernetesClient
from tests.cluster.conftest import Running
from tests.support import installed
from tests.support.cluster import Cluster, wait_for
from tests.support.installed import PATHS, Installed
from tests.support.renderers import kustomized
from tests.support.serving import PATIENCE, Serving

pytestmark = pytest.mark.cluster
NAME, WEBHOOK, KEEPER = "colocation-advisor", "colocation-advisor-webhook", "colocation-advisor-bootstrap"
OVERLAY = str(Path(__file__).parent / "kubernetes-1.20")
PODS = "/api/v1/namespaces/default/pods"
#: What each feature alone may do: method, path, body. Dry; rights are looked at before anything else.
WRITES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "regions": ("GET", "/apis/streams.ibm.com/v1/streamscrs", {}),
    "hosts": ("PATCH", "/api/v1/nodes/no-such-node", {"metadata": {"labels": {"a": "b"}}}),
    "disk-reservations": ("PATCH", "/apis/csi-baremetal.dell.com/v1/availablecapacities/none", {"metadata": {}}),
    "region-operators": (
        "POST", "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "x"}, "spec": {}},
    ),
    "disks": ("GET", "/apis/csi-baremetal.dell.com/v1/drives", {}),
}  # fmt: skip
#: What no feature may do: secrets, pods, roles, and a look into other namespaces' settings.
NEVER = [
    ("GET", "/api/v1/namespaces/colocation-system/secrets"),
    ("GET", "/api/v1/secrets"),
    ("GET", "/api/v1/configmaps"),
    ("DELETE", f"{PODS}/any"),
    ("DELETE", "/api/v1/nodes/any"),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
]


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    return kustomized(OVERLAY)


@pytest.fixture(scope="module")
def installation(
    running: Running, documents: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    """The default overlay's objects; the webhook's own are left to the test that has somebody to ask."""
    cluster = Cluster(running.kubeconfig, f"t{uuid.uuid4().hex[:8]}")
    made = Installed(cluster, documents, tmp_path_factory.mktemp("installed"))
    base = {(each["kind"], each["metadata"]["name"]) for each in kustomized("overlays/default")}
    made.apply(
        [each for key, each in made.objects.items() if key in base and key[0] != "MutatingWebhookConfiguration"]
    )
    yield made
    cluster.clean()


def _write(made: Installed, account: str, method: str, path: str, body: object = None) -> int:
    """The status of a dry request with the rights of *account*."""
    config = Cluster(made.kubeconfig(account), "none")
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    status, _ = config.call(method, f"{path}?dryRun=All" if method != "GET" else path, body, kind)
    return status


def _keep(made: Installed) -> int:
    """Run the keeper once, with the arguments of its own pod, and for the name by which a test can reach the pods."""
    arguments = [*made.container("Deployment", KEEPER)["args"], "--host", "localhost", "--once"]
    environment = made.environment("Deployment", KEEPER, made.directory)
    return subprocess.run([sys.executable, "-m", "jobs.cli", *arguments], env=environment, check=False).returncode


def _webhook(made: Installed, url: str) -> None:
    """Put up the webhook as committed, but for where it is asked: there is no network of services here."""
    document = made.objects["MutatingWebhookConfiguration", NAME]
    [asked] = document["webhooks"]
    made.cluster.create(
        PATHS["MutatingWebhookConfiguration"],
        {**document, "webhooks": [{**asked, "clientConfig": {"url": f"{url}/mutate"}}]},
    )


def _decided(client: httpx.Client, served: Serving) -> list[str]:
    answer = client.get(f"{served.url}/v1/decisions")
    assert answer.status_code == 200, answer.text
    return [row["pod"] for row in answer.json()["items"]]


def _listens(served: Serving) -> str:
    """Wait until it listens; return its URL, with the host that the certificate is for."""
    wait_for(lambda: served.address() is not None, PATIENCE)
    served.url = f"https://localhost:{served.address()}"
    return served.url


def test_writer_and_replica_do_all_they_do_with_their_own_rights_and_nothing_is_refused(
    installation: Installed, running: Running
) -> None:
    if running.audit is None:
        pytest.skip("this API server's audit log cannot be read")
    made, before = installation, installed.length(running.audit)
    node = made.cluster.node("a")
    made.objects["MutatingWebhookConfiguration", NAME]["webhooks"][0]["objectSelector"]["matchLabels"] = {
        "deployed": made.cluster.prefix
    }
    assert _keep(made) == 3, "the webhook is not there to be told of the CA"
    tokens = made.secret("colocation-advisor-tokens")
    _webhook(made, "https://localhost:1")
    assert _keep(made) == 0
    assert made.secret("colocation-advisor-tokens") == tokens

    with made.served("StatefulSet", NAME) as writer:
        url = _listens(writer)
        with made.client() as client, made.served("Deployment", WEBHOOK, COLOCATE_REPLICA__WRITER=url) as replica:
            _listens(replica)
            for served in (writer, replica):
                wait_for(lambda served=served: _ready(client, served).get("live", False), PATIENCE)
            for task in ("nodes", "workflows", "placements", "learn"):
                wait_for(
                    lambda task=task: writer.metric(
                        "colocation_job_runs_total", client=client, task=task, outcome="ok"
                    ) is not None, PATIENCE,
                )  # fmt: skip
            wait_for(
                lambda: _ready(client, replica)["snapshot"] == _ready(client, writer)["snapshot"] != "", PATIENCE
            )
            assert node in {row["node"] for row in client.get(f"{replica.url}/v1/nodes").json()["items"]}

            # The API server asks the replica, trusting the CA that it was told of; the decision reaches the writer.
            path = f"{PATHS['MutatingWebhookConfiguration']}/{NAME}"
            change = [{"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": f"{replica.url}/mutate"}]
            status, answer = made.cluster.call("PATCH", path, change, "application/json-patch+json")
            assert status == 200 and answer["webhooks"][0]["clientConfig"]["caBundle"], answer
            pods = [
                made.cluster.pod(f"asked-{number}", labels={"deployed": made.cluster.prefix}) for number in range(3)
            ]
            wait_for(lambda: set(pods) & set(_decided(client, replica)) != set(), PATIENCE)
            seen = set(_decided(client, replica))
            wait_for(lambda: seen <= set(_decided(client, writer)), PATIENCE)
            for served in (writer, replica):
                watched = served.metric("colocation_watch_staleness_seconds", client=client, resource="services")
                assert watched is not None
    assert installed.refused(running.audit, before) == []
    did = installed.asked(running.audit)
    for account in (NAME, WEBHOOK):
        for resource in ("nodes", "pods", "services"):
            assert {(account, "list", resource), (account, "watch", resource)} <= did
    assert (NAME, "list", "workflows") in did
    assert {(KEEPER, "create", "secrets"), (KEEPER, "patch", "mutatingwebhookconfigurations")} <= did


def test_certificates_are_renewed_in_time_and_what_is_trusted_is_told_first(installation: Installed) -> None:
    """Looks at a later and later clock, with the keeper's own rights; written by hand against 90 and 1,825 days."""
    made = installation
    arguments = made.container("Deployment", KEEPER)["args"]
    hosts = [value for option, value in pairwise(arguments) if option == "--host"]
    client = KubernetesClient(kubeconfig=made.kubeconfig(KEEPER))

    def look(days: float) -> dict[str, bytes]:
        at = datetime.now(UTC) + timedelta(days=days)
        Keeper(client, Objects("colocation-system", [*hosts, "localhost"], NAME), lambda: at).turn()
        tls = made.secret("colocation-advisor-tls")
        _, webhook = made.cluster.call("GET", f"{PATHS['MutatingWebhookConfiguration']}/{NAME}")
        if webhook.get("webhooks"):
            assert base64.b64decode(webhook["webhooks"][0]["clientConfig"]["caBundle"]) == tls["ca.crt"]
        return tls

    first = look(0)
    assert look(59) == first
    renewed = look(61)
    assert (renewed["ca.crt"], renewed["tls.crt"] == first["tls.crt"]) == (first["ca.crt"], False)
    followed = look(1218)
    assert followed["ca.crt"].startswith(first["ca.crt"]) and followed["ca.crt"].count(b"BEGIN") == 2
    promoted = look(1219.5)
    assert promoted["ca.crt"].count(b"BEGIN") == 2 and not promoted["ca.crt"].startswith(first["ca.crt"])
    assert {"ca.crt", "tls.crt", "tls.key"} == set(promoted)


def _ready(client: httpx.Client, served: Serving) -> dict[str, Any]:
    try:
        answer = client.get(f"{served.url}/readyz")
    except httpx.TransportError:
        return {}
    return answer.json() if answer.status_code == 200 else {}


def _version(client: httpx.Client, served: Serving) -> str:
    return str(_ready(client, served).get("snapshot", ""))


@pytest.mark.parametrize("feature", list(WRITES))
def test_what_a_feature_does_is_refused_before_it_is_switched_on_and_not_afterwards(
    installation: Installed, feature: str
) -> None:
    made = installation
    method, path, body = WRITES[feature]
    assert _write(made, NAME, method, path, body) == 403
    added = [each for key, each in made.objects.items() if key[1] == f"{NAME}-{feature}"]
    assert {each["kind"] for each in added} >= {"ConfigMap", "ClusterRole", "ClusterRoleBinding"}
    made.apply(added)
    wait_for(lambda: _write(made, NAME, method, path, body) != 403)
    assert _write(made, NAME, method, path, body) in (200, 201, 404, 422)
    if feature != "disks":
        assert _write(made, WEBHOOK, method, path, body) == 403


def test_with_all_features_there_are_things_that_stay_refused(installation: Installed) -> None:
    for account in (NAME, WEBHOOK):
        for method, path in NEVER:
            assert _write(installation, account, method, path, {}) == 403, (account, path)
    assert _write(installation, KEEPER, "GET", "/api/v1/namespaces/colocation-system/secrets") == 403
    assert _write(installation, KEEPER, "GET", "/api/v1/namespaces/default/secrets/any") == 403


def test_every_object_of_every_feature_is_taken_by_the_server(
    installation: Installed, documents: list[dict[str, Any]]
) -> None:
    made = installation
    for each in documents:
        path = PATHS[each["kind"]]
        status, answer = made.cluster.call("POST", f"{path}?dryRun=All", each)
        assert status in (201, 409), (each["kind"], each["metadata"]["name"], answer)
