"""The committed manifests on a real API server, and the product run with its own service accounts' rights."""

import base64
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import httpx
import pytest

from jobs.bootstrap.keeping import Keeper, Objects
from pipeline.clients.kubernetes import KubernetesClient
from tests.cluster.conftest import Running
from tests.support import installed
from tests.support.cluster import Cluster, wait_for
from tests.support.installed import KEEPER, NAME, PATHS, WEBHOOK, Installed
from tests.support.serving import PATIENCE, Serving

pytestmark = pytest.mark.cluster
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


def _write(made: Installed, account: str, method: str, path: str, body: object = None) -> int:
    """The status of a dry request with the rights of *account*."""
    config = Cluster(made.kubeconfig(account), "none")
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    status, _ = config.call(method, f"{path}?dryRun=All" if method != "GET" else path, body, kind)
    return status


def _decided(client: httpx.Client, served: Serving) -> list[str]:
    answer = client.get(f"{served.url}/v1/decisions")
    assert answer.status_code == 200, answer.text
    return [row["pod"] for row in answer.json()["items"]]


def test_writer_and_replica_do_all_they_do_with_their_own_rights_and_nothing_is_refused(
    installation: Installed, running: Running
) -> None:
    if running.audit is None:
        pytest.skip("this API server's audit log cannot be read")
    made, before = installation, installed.length(running.audit)
    node = made.cluster.node("a")
    assert made.keep() == 3, "the webhook is not there to be told of the CA"
    tokens = made.secret("colocation-advisor-tokens")
    made.webhook("https://localhost:1", deployed=made.cluster.prefix)
    assert made.keep() == 0
    assert made.secret("colocation-advisor-tokens") == tokens

    with made.served("StatefulSet", NAME) as writer:
        url = made.reached(writer)
        with made.client() as client, made.served("Deployment", WEBHOOK, COLOCATE_REPLICA__WRITER=url) as replica:
            made.reached(replica)
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
