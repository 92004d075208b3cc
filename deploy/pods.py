"""Pods of the product: one container, no privileges, a read-only file system, and what it needs mounted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from deploy.install import CLIENT_CA, IGNORE, NAME, OPENWHISK, TLS, TOKENS, Install, Manifest, labels

_USER: Final = 10001
HISTORY: Final = "/var/lib/colocate"
CONFIG: Final = "/etc/colocate/settings/colocate.toml"

SECURITY: Final[Manifest] = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "fsGroup": _USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONFINED: Final[Manifest] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True)
class Mount:
    """One volume and where it is mounted."""

    name: str
    path: str
    source: Mapping[str, Any]
    read_only: bool = True


SETTINGS: Final = Mount("settings", "/etc/colocate/settings", {"configMap": {"name": NAME}})
SCRATCH: Final = Mount("scratch", "/tmp", {"emptyDir": {}}, read_only=False)  # noqa: S108
CLAIM: Final = Mount("history", HISTORY, {"persistentVolumeClaim": {"claimName": NAME}}, read_only=False)
#: What a replica fetched and has to hand back: it survives the container, not the pod.
SPOOL: Final = Mount("history", HISTORY, {"emptyDir": {"sizeLimit": "2Gi"}}, read_only=False)
CERTIFICATE: Final = Mount("tls", "/etc/colocate/tls", {"secret": {"secretName": TLS}})
TOKEN: Final = Mount("tokens", "/etc/colocate/tokens", {"secret": {"secretName": TOKENS}})
CLIENTS: Final = Mount("client-ca", "/etc/colocate/client-ca", {"configMap": {"name": CLIENT_CA, "optional": True}})
KEYS: Final = Mount("openwhisk", "/etc/colocate/openwhisk", {"secret": {"secretName": OPENWHISK, "optional": True}})


def probes(install: Install) -> Manifest:
    """Return the probes of a serving container: it may take a minute to start."""

    def probe(path: str, **more: int) -> Manifest:
        return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, "timeoutSeconds": 5, **more}

    return {
        "startupProbe": probe("/healthz", periodSeconds=5, failureThreshold=24),
        "readinessProbe": probe("/readyz", periodSeconds=5),
        "livenessProbe": probe("/healthz", periodSeconds=20),
    }


def env(values: Mapping[str, str]) -> list[Manifest]:
    """Return environment variables that are settings."""
    return [{"name": f"COLOCATE_{name}", "value": value} for name, value in values.items()]


def resources(cpu: str, memory: str, limit: str) -> Manifest:
    """Return what a container asks for; the CPU has no limit, since a throttled webhook is a late one."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": limit}}


def template(
    install: Install,
    component: str,
    account: str,
    arguments: Sequence[str],
    mounts: Sequence[Mount],
    *,
    container: Mapping[str, Any],
    spec: Mapping[str, Any],
) -> Manifest:
    """Return the template of a pod with one container; *container* and *spec* add to what all pods have."""
    return {
        "metadata": {"labels": {**labels(component), IGNORE: "true"}},
        "spec": {
            "serviceAccountName": account,
            "automountServiceAccountToken": True,
            "securityContext": SECURITY,
            "containers": [
                {
                    "name": component,
                    "image": install.image,
                    "args": list(arguments),
                    **container,
                    "securityContext": CONFINED,
                    "volumeMounts": [
                        {"name": each.name, "mountPath": each.path, **({"readOnly": True} if each.read_only else {})}
                        for each in mounts
                    ],
                }
            ],
            "volumes": [{"name": each.name, **each.source} for each in mounts],
            **spec,
        },
    }
