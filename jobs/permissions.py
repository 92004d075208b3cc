"""The rights that what is switched on needs of a cluster's API server, and whether this account has them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from jobs.config import Settings
from jobs.finding import Finding
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import NOT_JSON, SourceError

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_READ: Final = ("get", "list", "watch")


class Right(NamedTuple):
    """May *verbs* be done to *resource* of the API group *group*."""

    group: str
    resource: str
    verbs: tuple[str, ...]


class Need(NamedTuple):
    """A feature that needs *rights* where *on* says so, *inside* a namespace; *off* tells how to do without it."""

    on: Callable[[Settings], bool]
    rights: tuple[Right, ...]
    off: str
    inside: Callable[[Settings], str] = lambda settings: ""


_CSI: Final = "csi-baremetal.dell.com"
_STREAMS: Final = "streams.ibm.com"
_CHANGE: Final = ("get", "list", "create", "update", "delete")

#: One line a feature; the same rights as the roles in deploy/, as a test compares.
NEEDS: Mapping[str, Need] = {
    "answering": Need(
        lambda settings: True,
        (
            *(Right("", each, _READ) for each in ("namespaces", "nodes", "pods", "services")),
            Right("wp5.physics-faas.eu", "workflows", _READ),
        ),
        "",
    ),
    "disks": Need(
        lambda settings: settings.disks.live or (settings.disks.collect and settings.replica.writer is None),
        (
            *(
                Right(_CSI, each, _READ)
                for each in (
                    *("availablecapacities", "availablecapacityreservations"),
                    *("drives", "volumes", "logicalvolumegroups"),
                )
            ),
            Right("", "persistentvolumeclaims", _READ),
            *(Right("storage.k8s.io", each, _READ) for each in ("storageclasses", "csinodes")),
        ),
        "set disks.collect and disks.live to false",
    ),
    "disk reservations": Need(
        lambda settings: settings.disks.reserve,
        (
            Right(_CSI, "availablecapacityreservations", ("create", "update")),
            Right(_CSI, "availablecapacities", ("patch",)),
        ),
        "set disks.reserve to false",
    ),
    "lease of disk reservations": Need(
        lambda settings: settings.disks.reserve,
        (Right("coordination.k8s.io", "leases", ("get", "create", "update")),),
        "set disks.reserve to false",
        lambda settings: settings.disks.namespace,
    ),
    "host pools": Need(
        lambda settings: settings.hosts.change_nodes,
        (
            Right("", "nodes", ("get", "list", "patch")),
            Right(_STREAMS, "hostpools", ("get", "list", "create", "patch", "delete")),
        ),
        "set hosts.change_nodes to false",
    ),
    "regions": Need(
        lambda settings: settings.regions.follow and settings.replica.writer is None,
        (Right(_STREAMS, "streamscrs", _READ),),
        "set regions.follow to false",
    ),
    "region operators": Need(
        lambda settings: settings.regions.manage,
        (
            *(Right(_STREAMS, each, _READ) for each in ("streamscrs", "streamscros")),
            Right("apps", "deployments", _CHANGE),
            Right("", "services", _CHANGE),
        ),
        "set regions.manage to false",
    ),
}


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


_ANSWERS = msgspec.json.Decoder(_Review)


def examine(client: KubernetesClient, cluster: str, settings: Settings) -> Iterator[Finding]:
    """Ask the server about each right that is needed (a SelfSubjectAccessReview each); one finding a feature."""
    for feature, need in NEEDS.items():
        if not need.on(settings):
            continue
        namespace = need.inside(settings)
        try:
            missing = [
                f"{verb} {right.resource}{f'.{right.group}' if right.group else ''}"
                for right in need.rights
                for verb in right.verbs
                if not _allowed(client, right, verb, namespace)
            ]
        except SourceError as error:
            said = f"could not be asked: {error}"
            yield Finding(cluster, "kubernetes", "permissions", "warning", said, "see the message")
            return
        where = f" in namespace {namespace}" if namespace else ""
        check = f"permissions: {feature}"
        if missing:
            fix = "bind the role of this feature to this account (deploy/README.md)"
            fix += f", or {need.off}" if need.off else ""
            yield Finding(cluster, "kubernetes", check, "failed", f"may not {', '.join(missing)}{where}", fix)
        else:
            count = sum(len(right.verbs) for right in need.rights)
            yield Finding(cluster, "kubernetes", check, "ok", f"{count} of {count} rights{where}")


def _allowed(client: KubernetesClient, right: Right, verb: str, namespace: str) -> bool:
    attributes = {"group": right.group, "resource": right.resource, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, **({"namespace": namespace} if namespace else {})}},
    }
    answer = client.send("POST", _REVIEWS, msgspec.json.encode(review))
    try:
        return _ANSWERS.decode(answer).status.allowed
    except NOT_JSON:
        raise SourceError("kubernetes", "not_json", f"{client.host}{_REVIEWS}: the answer is no review") from None
