"""Whether a pod that is asked about once more still has what it was given, though other nodes are the best by now."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rules.advice import fingerprint

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_CHANGEABLE: Final = ("/spec/affinity", "/metadata/annotations")


def unbroken(
    pod: Mapping[str, Any], affinity: Mapping[str, Any], patch: Iterable[Mapping[str, Any]], prefix: str
) -> bool:
    """Whether *pod* holds every term that its annotations say it was given, and what is stated now anyway.

    *affinity* is what it would become by *patch*. What nodes have to have, labels, and all but the affinity must not
    differ; wishes and rules about other pods may, since these follow a cluster that changes from pod to pod.
    """
    metadata = pod.get("metadata") or {}
    given = str((metadata.get("annotations") or {}).get(f"{prefix}/applied", ""))
    if not given or not all(each["path"].startswith(_CHANGEABLE) for each in patch):
        return False
    own = (pod.get("spec") or {}).get("affinity") or {}
    if _needs(own) != _needs(affinity):
        return False
    standing = {
        fingerprint(term)
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")
        for strength in (_REQUIRED, _PREFERRED)
        if (kind, strength) != ("nodeAffinity", _REQUIRED)
        for term in (own.get(kind) or {}).get(strength) or []
    }
    return standing.issuperset(given.split(","))


def _needs(affinity: Mapping[str, Any]) -> object:
    return (affinity.get("nodeAffinity") or {}).get(_REQUIRED)
