"""Who may do what: reading for all, and a role of its own for each feature that writes or reads more."""

from collections.abc import Iterable
from typing import Any, Final

from deploy.install import KEEPER, NAME, TLS, TOKENS, WEBHOOK, Install, Manifest, meta

RBAC: Final = "rbac.authorization.k8s.io"
CA: Final = f"{NAME}-ca"
_READ: Final = ("get", "list", "watch")


def rule(group: str, resources: Iterable[str], verbs: Iterable[str], names: Iterable[str] = ()) -> Manifest:
    """Return one rule; *names* bounds it to objects of these names."""
    found: dict[str, Any] = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**found, "resourceNames": list(names)} if names else found


#: What answers are made of. Neither the webhook's replicas nor the writer need more than that.
ANSWERING: Final = (
    rule("", ("namespaces", "nodes", "pods", "services"), _READ),
    rule("wp5.physics-faas.eu", ("workflows",), _READ),
)
DISKS: Final = (
    rule(
        "csi-baremetal.dell.com",
        ("availablecapacities", "availablecapacityreservations", "drives", "volumes", "logicalvolumegroups"),
        _READ,
    ),
    rule("", ("persistentvolumeclaims",), _READ),
    rule("storage.k8s.io", ("storageclasses", "csinodes"), _READ),
)
RESERVING: Final = (
    rule("csi-baremetal.dell.com", ("availablecapacityreservations",), ("create", "update")),
    rule("csi-baremetal.dell.com", ("availablecapacities",), ("patch",)),
)
LEASES: Final = (rule("coordination.k8s.io", ("leases",), ("get", "create", "update")),)
NODE_CHANGES: Final = (
    rule("", ("nodes",), ("get", "list", "patch")),
    rule("streams.ibm.com", ("hostpools",), ("get", "list", "create", "patch", "delete")),
)
#: What pools need of nodes is not among them: who submits jobs with pools needs `NODE_CHANGES` as well.
STREAM_JOBS: Final = (
    rule("", ("nodes",), ("list",)),
    rule("", ("pods",), ("list", "create", "delete")),
    rule("", ("events",), ("create",)),
    rule("streams.ibm.com", ("jobs",), ("get",)),
    rule("streams.ibm.com", ("hostpools",), ("list",)),
)
REGIONS: Final = (rule("streams.ibm.com", ("streamscrs",), _READ),)
OPERATORS: Final = (
    rule("streams.ibm.com", ("streamscrs", "streamscros"), _READ),
    rule("apps", ("deployments",), ("get", "list", "create", "update", "delete")),
    rule("", ("services",), ("get", "list", "create", "update", "delete")),
)
#: Creating cannot be bound to names; what is there is read and changed by name alone.
KEEPING: Final = (
    rule("", ("secrets",), ("create",)),
    rule("", ("secrets",), ("get", "update"), (CA, TLS, TOKENS)),
)
TRUSTED: Final = (
    rule("admissionregistration.k8s.io", ("mutatingwebhookconfigurations",), ("get", "patch"), (NAME,)),
)


def account(name: str, install: Install) -> Manifest:
    """Return a service account; pods say themselves whether they need its token."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": meta(name, install),
        "automountServiceAccountToken": False,
    }


def role(name: str, rules: Iterable[Manifest], install: Install | None = None) -> Manifest:
    """Return a ClusterRole, or with *install* a Role of its namespace."""
    kind = "ClusterRole" if install is None else "Role"
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": meta(name, install), "rules": list(rules)}


def binding(name: str, accounts: Iterable[str], install: Install, *, inside: bool = False) -> Manifest:
    """Bind the role *name* to *accounts*: everywhere, or *inside* of the namespace alone."""
    kind = "RoleBinding" if inside else "ClusterRoleBinding"
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": meta(name, install if inside else None),
        "roleRef": {"apiGroup": RBAC, "kind": "Role" if inside else "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": each, "namespace": install.namespace} for each in accounts],
    }


def core(install: Install) -> list[Manifest]:
    """Return accounts and the roles that only read."""
    return [
        account(NAME, install),
        account(WEBHOOK, install),
        role(NAME, ANSWERING),
        binding(NAME, [NAME], install),
        role(WEBHOOK, ANSWERING),
        binding(WEBHOOK, [WEBHOOK], install),
    ]


def keeper(install: Install) -> list[Manifest]:
    """Return the rights of what keeps tokens and certificates."""
    return [
        account(KEEPER, install),
        role(KEEPER, KEEPING, install),
        binding(KEEPER, [KEEPER], install, inside=True),
    ]


def trusted(install: Install) -> list[Manifest]:
    """Return the right to say which CA the API server trusts at the webhook."""
    return [role(KEEPER, TRUSTED), binding(KEEPER, [KEEPER], install)]
