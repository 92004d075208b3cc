"""The one way in which a pod is changed: what the user wrote stays, ours is added, and a second run changes nothing.

Required node terms are ORed and the expressions in one are ANDed, so our need is ANDed into each of the user's terms;
an added term would weaken their rule. A term without any requirement matches nothing and stays as it is: with ours in
it it would begin to match. Preferred terms go behind the user's own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rules.advice import Json, Rendered, fingerprint
from rules.affinity.emission import Additions

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PARTS: Final = ("matchExpressions", "matchFields")
#: Where in an affinity the lists of `Additions` belong.
_LISTS: Final = (
    ("nodeAffinity", _PREFERRED, "node_preferred"),
    ("podAffinity", _REQUIRED, "pod_required"),
    ("podAffinity", _PREFERRED, "pod_preferred"),
    ("podAntiAffinity", _REQUIRED, "anti_required"),
    ("podAntiAffinity", _PREFERRED, "anti_preferred"),
)


def merge(
    pod: Mapping[str, Any],
    added: Additions,
    *,
    prefix: str | None,
    decision: str = "",
    expected: str = "",
    raw: bool = False,
) -> Json:
    """Return *pod* with *added* in it; *pod* itself is not changed.

    The annotation ``{prefix}/applied`` holds the fingerprints of what was added, by which a later run takes its own
    earlier terms out again; ``{prefix}/decision`` names the decision, ``{prefix}/expected`` the nodes on one of which
    the pod is *expected*: both are kept where the run changes nothing. With *raw* our terms stand in it as JSON text,
    which is quicker, and good for encoding alone. *prefix* None leaves no note: what is added is the pod's own from
    then on.
    """
    metadata, spec = _object(pod, "metadata"), _object(pod, "spec")
    annotations, labels = _object(metadata, "annotations"), _object(metadata, "labels")
    earlier = frozenset(str(annotations.get(f"{prefix}/applied", "")).split(",")) - {""}
    affinity, ours = _affinity(_object(spec, "affinity"), added, earlier, raw)
    for key, value in added.labels.items():
        if value is None:
            labels.pop(key, None)
        else:
            labels[key] = value
    if prefix is None:
        pass
    elif ours or any(added.labels.values()) or added.alternatives:
        annotations[f"{prefix}/applied"] = ",".join(ours)
        annotations.setdefault(f"{prefix}/decision", decision)
        if expected:
            annotations.setdefault(f"{prefix}/expected", expected)
    else:
        for note in ("applied", "decision", "expected"):
            annotations.pop(f"{prefix}/{note}", None)
    merged = dict(pod)
    _put(metadata, "labels", labels)
    _put(metadata, "annotations", annotations)
    _put(spec, "affinity", affinity)
    if more := [each for each in added.tolerations if each not in (spec.get("tolerations") or [])]:
        spec["tolerations"] = [*(spec.get("tolerations") or []), *more]
    if added.node:
        spec["nodeName"] = added.node
    _put(merged, "metadata", metadata)
    _put(merged, "spec", spec)
    if merged == pod:
        return merged
    if prefix is not None and f"{prefix}/decision" in annotations:
        annotations[f"{prefix}/decision"] = decision
        if expected:
            annotations[f"{prefix}/expected"] = expected
        else:
            annotations.pop(f"{prefix}/expected", None)
    return merged


def _affinity(affinity: Json, added: Additions, earlier: frozenset[str], raw: bool) -> tuple[Json, list[str]]:
    """Return the merged affinity, and the fingerprints of our terms in it."""
    ours: list[str] = []
    if added.alternatives:
        node = _object(affinity, "nodeAffinity")
        node[_REQUIRED] = _required(node.get(_REQUIRED), added.alternatives)
        affinity["nodeAffinity"] = node
    for kind, strength, name in _LISTS:
        wanted: Sequence[Rendered] = getattr(added, name)
        part = _object(affinity, kind)
        standing: list[Json] = part.get(strength) or []
        if not wanted and not standing:
            continue
        kept = [term for term in standing if not earlier or fingerprint(term) not in earlier]
        new = [each for each in wanted if not kept or each.json not in kept]
        prints = [each.fingerprint for each in new]
        ours += prints
        if standing and sorted(map(fingerprint, standing)) == sorted([*map(fingerprint, kept), *prints]):
            continue  # all there already, wherever others have put theirs since
        if kept or new:
            part[strength] = [*kept, *(each.raw if raw else each.json for each in new)]
        else:
            del part[strength]
        _put(affinity, kind, part)
    return affinity, ours


def _required(standing: Mapping[str, Any] | None, ours: Sequence[Json]) -> Json:
    """Return the user's required node terms, each with each of our alternatives."""
    if standing is None:
        return {"nodeSelectorTerms": [dict(each) for each in ours]}
    terms: list[Any] = []
    for term in standing.get("nodeSelectorTerms") or []:
        own = {part: (term or {}).get(part) or [] for part in _PARTS}
        if not any(own.values()) or any(
            all(each in own[part] for part, wanted in alternative.items() for each in wanted) for alternative in ours
        ):
            terms.append(term)
            continue
        terms += [{**term, **_both(own, alternative)} for alternative in ours]
    return {**standing, "nodeSelectorTerms": terms}


def _both(own: Mapping[str, Sequence[Json]], ours: Mapping[str, Sequence[Json]]) -> Json:
    """Return the parts of a node term that asks for all that *own* and *ours* ask for."""
    return {part: [*own[part], *(each for each in wanted if each not in own[part])] for part, wanted in ours.items()}


def _object(parent: Mapping[str, Any], key: str) -> Json:
    return dict(parent.get(key) or {})


def _put(parent: Json, key: str, value: Json) -> None:
    """Set *key*, but leave out an empty object where there was none."""
    if value or parent.get(key):
        parent[key] = value
