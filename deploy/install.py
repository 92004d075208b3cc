"""What differs between installations, and what all objects of one have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Manifest = dict[str, Any]

NAME: Final = "colocation-advisor"
#: The replicas that answer the API server, and what keeps tokens and certificates.
WEBHOOK, KEEPER = f"{NAME}-webhook", f"{NAME}-bootstrap"
TLS, TOKENS, OPENWHISK, CLIENT_CA = f"{NAME}-tls", f"{NAME}-tokens", f"{NAME}-openwhisk", f"{NAME}-client-ca"
#: Keeps pods and namespaces out of the webhook.
IGNORE: Final = "colocation.internal/ignore"
PORT: Final = 8443


@dataclass(frozen=True)
class Install:
    """The values that a person chooses; for Helm they are expressions that `deploy.chart` writes unquoted."""

    namespace: str = "colocation-system"
    image: str = f"{NAME}:0.1.0"
    settings: str = ""
    storage: str = "20Gi"
    replicas: Any = 2

    def host(self, service: str) -> str:
        """Return the name that *service* has inside of the cluster."""
        return f"{service}.{self.namespace}.svc"

    def excluded(self) -> str:
        """Return the namespaces that the service itself leaves alone, as the JSON of a setting."""
        return f'["kube-system", "kube-public", "kube-node-lease", "{self.namespace}"]'


def labels(component: str) -> dict[str, str]:
    """Return the labels that tell the objects of *component* (writer, webhook, jobs, bootstrap)."""
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": component}


def meta(name: str, install: Install | None, component: str = "", **more: Any) -> Manifest:
    """Return the metadata of an object; *install* None for those of no namespace."""
    known = {"app.kubernetes.io/name": NAME, **({"app.kubernetes.io/component": component} if component else {})}
    where = {"namespace": install.namespace} if install is not None else {}
    return {"name": name, **where, "labels": known, **more}


def config_map(name: str, install: Install, data: Mapping[str, str]) -> Manifest:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name, install), "data": dict(data)}
