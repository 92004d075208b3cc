"""An installation in a real cluster: its objects applied, and its pods' processes run here, with their own rights.

There is no kubelet: what it would do (tokens, mounted files, environment) is done here from the very manifests.
"""

import base64
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.cluster import Cluster, wait_for
from tests.support.processes import end
from tests.support.serving import PATIENCE, Serving

NAME, WEBHOOK, KEEPER = "colocation-advisor", "colocation-advisor-webhook", "colocation-advisor-bootstrap"
SYSTEM = "/api/v1/namespaces/colocation-system"
#: Where the objects of each kind are.
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": f"{SYSTEM}/configmaps",
    "Service": f"{SYSTEM}/services",
    "ServiceAccount": f"{SYSTEM}/serviceaccounts",
    "PersistentVolumeClaim": f"{SYSTEM}/persistentvolumeclaims",
    "StatefulSet": "/apis/apps/v1/namespaces/colocation-system/statefulsets",
    "Deployment": "/apis/apps/v1/namespaces/colocation-system/deployments",
    "CronJob": "/apis/batch/v1beta1/namespaces/colocation-system/cronjobs",
    "PodDisruptionBudget": "/apis/policy/v1beta1/namespaces/colocation-system/poddisruptionbudgets",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/colocation-system/networkpolicies",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/colocation-system/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/colocation-system/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
}


class Installed:
    """The objects of an installation by kind and name, and the files of its pods below *directory*."""

    def __init__(self, cluster: Cluster, documents: Sequence[dict[str, Any]], directory: Path) -> None:
        self.cluster, self.directory = cluster, directory
        self.objects = {(each["kind"], each["metadata"]["name"]): each for each in documents}

    def apply(self, documents: Sequence[dict[str, Any]]) -> None:
        """Create objects; kinds and the namespace may be there already. The namespace stays, as nobody empties it."""
        for each in documents:
            path, name = PATHS[each["kind"]], each["metadata"]["name"]
            if each["kind"] == "Namespace":
                status, answer = self.cluster.call("POST", path, each)
                assert status in (201, 409), (name, answer)
            elif each["kind"] != "CustomResourceDefinition" or self.cluster.call("GET", f"{path}/{name}")[0] == 404:
                self.cluster.create(path, each)

    def container(self, kind: str, name: str) -> dict[str, Any]:
        """Return the container of a workload's pods."""
        found: dict[str, Any] = self.objects[kind, name]["spec"]["template"]["spec"]["containers"][0]
        return found

    def token(self, account: str, namespace: str = "colocation-system") -> str:
        """Return a token of a service account, as the kubelet asks for one."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        status, answer = self.cluster.call("POST", f"{accounts}/{account}/token", body)
        assert status == 201, answer
        return str(answer["status"]["token"])

    def kubeconfig(self, account: str, namespace: str = "colocation-system") -> Path:
        """Write a kubeconfig that has the rights of a service account, and no others."""
        given = yaml.safe_load(self.cluster.kubeconfig.read_text())
        given["users"] = [{"name": account, "user": {"token": self.token(account, namespace)}}]
        for each in given["contexts"]:
            each["context"]["user"] = account
        file = self.directory / f"{account}.kubeconfig"
        file.write_text(yaml.safe_dump(given))
        return file

    def secret(self, name: str) -> dict[str, bytes]:
        """Return what a Secret holds."""
        status, answer = self.cluster.call("GET", f"{SYSTEM}/secrets/{name}")
        assert status == 200, answer
        return {key: base64.b64decode(value) for key, value in answer["data"].items()}

    def mounted(self, name: str) -> Path:
        """Write the files of a pod's volumes below a directory of its own, and return that."""
        root = self.directory / name
        for volume, secret in (("tls", "colocation-advisor-tls"), ("tokens", "colocation-advisor-tokens")):
            for key, value in self.secret(secret).items():
                file = root / "etc" / "colocate" / volume / key
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(value)
        (root / "var" / "lib" / "colocate").mkdir(parents=True, exist_ok=True)
        return root

    def environment(self, kind: str, name: str, root: Path, **more: str) -> dict[str, str]:
        """Return the environment of a container whose files lie below *root*, of features that are applied too."""
        container = self.container(kind, name)
        found = {
            key: value
            for source in container.get("envFrom", ())
            for key, value in self._data(source["configMapRef"]["name"]).items()
        }
        found |= {each["name"]: _below(root, each["value"]) for each in container.get("env", ())}
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig(self._account(kind, name))), **found, **more}

    def _account(self, kind: str, name: str) -> str:
        return str(self.objects[kind, name]["spec"]["template"]["spec"]["serviceAccountName"])

    def _data(self, config_map: str) -> Mapping[str, str]:
        status, answer = self.cluster.call("GET", f"{PATHS['ConfigMap']}/{config_map}")
        return answer["data"] if status == 200 else {}

    @contextmanager
    def served(self, kind: str, name: str, **more: str) -> Iterator[Serving]:
        """Run a serving pod's process, on a free loopback port, without the Prometheus that is not there."""
        root = self.mounted(name)
        text = _below(root, self._data("colocation-advisor")["colocate.toml"])
        text = re.sub(r"\[clusters\.prometheus\]\nurl = .*\n", "", text)
        config = root / "colocate.toml"
        config.write_text(text)
        environment = self.environment(
            kind, name, root, COLOCATE_SERVE__HOST="127.0.0.1", COLOCATE_SERVE__PORT="0", **more
        )
        log = root / "log"
        assert self.container(kind, name)["args"][2:] == ["serve"]
        with log.open("wb") as stderr:
            command = [sys.executable, "-m", "jobs.cli", "--config", str(config), "serve"]
            process = subprocess.Popen(command, env=environment, stderr=stderr, stdout=subprocess.DEVNULL)
        try:
            yield Serving(process, log)
        finally:
            end(process)

    def keep(self) -> int:
        """Run the keeper once, as its own pod does, and for the name by which a test can reach the pods."""
        arguments = [*self.container("Deployment", KEEPER)["args"], "--host", "localhost", "--once"]
        environment = self.environment("Deployment", KEEPER, self.directory)
        command = [sys.executable, "-m", "jobs.cli", *arguments]
        return subprocess.run(command, env=environment, check=False).returncode

    def webhook(self, url: str, **labels: str) -> None:
        """Put up the webhook as committed, but for where it is asked: there is no network of services here."""
        document = self.objects["MutatingWebhookConfiguration", NAME]
        [asked] = document["webhooks"]
        found = {**asked, "clientConfig": {"url": f"{url}/mutate"}}
        if labels:
            found["objectSelector"] = {**asked["objectSelector"], "matchLabels": labels}
        self.cluster.create(PATHS["MutatingWebhookConfiguration"], {**document, "webhooks": [found]})

    def reached(self, served: Serving) -> str:
        """Wait until it listens; return its URL, with the host that the certificate is for."""
        wait_for(lambda: served.address() is not None, PATIENCE)
        served.url = f"https://localhost:{served.address()}"
        return served.url

    def client(self) -> httpx.Client:
        """Return a client that trusts the installation's CA and has its token."""
        ca = self.secret("colocation-advisor-tls")["ca.crt"].decode()
        token = self.secret("colocation-advisor-tokens")["token"].decode()
        return httpx.Client(
            verify=ssl.create_default_context(cadata=ca),
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
        )


def _below(root: Path, text: str) -> str:
    return re.sub(r"/(etc|var/lib)/colocate\b", lambda found: f"{root}{found[0]}", text)


def length(audit: Path) -> int:
    """Return how many requests an audit log holds now."""
    return len(audit.read_text().splitlines()) if audit.exists() else 0


def refused(audit: Path, since: int) -> list[str]:
    """Return what service accounts of the installation asked for in vain, after the first *since* requests."""
    return [
        f"{each['user']['username'].rpartition(':')[2]}: {each['verb']} {each['requestURI']}"
        for line in audit.read_text().splitlines()[since:]
        if (each := json.loads(line)).get("responseStatus", {}).get("code") in (401, 403)
    ]


def asked(audit: Path, since: int = 0) -> set[tuple[str, str, str]]:
    """Return account, verb and resource of what was answered of service accounts, after the first *since* requests.

    A part of an object is written as in roles: ``streamscrs/status``.
    """
    found = set()
    for line in audit.read_text().splitlines()[since:]:
        each = json.loads(line)
        if each.get("responseStatus", {}).get("code", 200) < 300 and "objectRef" in each:
            account, of = each["user"]["username"].rpartition(":")[2], each["objectRef"]
            found.add((account, each["verb"], "/".join(filter(None, (of["resource"], of.get("subresource"))))))
    return found
