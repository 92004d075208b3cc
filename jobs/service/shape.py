"""What of a pod under admission decides about its answer: only that is decoded, and two pods alike in it are one.

Numbers and selectors are compared as the text in which they came: whoever creates many pods writes them alike.
"""

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from pipeline.objects import EPOCH
from pipeline.records import Pod
from rules.hosts.keys import JOB, PREFIX
from rules.hpa.admission import Index
from rules.identity import identify
from rules.owners import PROGRAM, prewarm
from rules.policy import Policy
from rules.request import MIRROR, uses_services
from rules.view import View

#: What is not there: a patch treats it otherwise than null.
_NONE = msgspec.Raw(b"")


class _Owner(msgspec.Struct, gc=False):
    kind: str | None = None
    name: str | None = None
    controller: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    generate_name: str | None = None
    labels: dict[str, str] | UnsetType | None = UNSET
    annotations: dict[str, str] | UnsetType | None = UNSET
    owner_references: list[_Owner] | None = None


class _Container(msgspec.Struct):
    name: str | None = None
    resources: msgspec.Raw = _NONE


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | UnsetType | None = UNSET
    affinity: msgspec.Raw = _NONE
    node_selector: msgspec.Raw = _NONE
    tolerations: msgspec.Raw = _NONE
    containers: list[_Container] | None = None
    init_containers: msgspec.Raw = _NONE
    overhead: msgspec.Raw = _NONE
    resources: msgspec.Raw = _NONE
    topology_spread_constraints: msgspec.Raw = _NONE
    volumes: msgspec.Raw = _NONE


class Admitted(msgspec.Struct):
    """A pod as far as it is looked at before its answer is known to be new."""

    metadata: _Metadata
    spec: _Spec

    @property
    def name(self) -> str:
        """Return the pod's name, or what it will begin with."""
        return self.metadata.name or self.metadata.generate_name or ""

    @property
    def claims(self) -> bool:
        """Whether it mounts claims, or has them made."""
        if self.spec.volumes is _NONE:
            return False
        volumes = bytes(self.spec.volumes)
        return b'"persistentVolumeClaim"' in volumes or b'"ephemeral"' in volumes


decode = msgspec.json.Decoder(Admitted).decode


@dataclass(frozen=True, slots=True)
class Names:
    """Keys of labels and annotations that matter, by `Policy`."""

    action: str
    space: str
    own: frozenset[str]
    labels: frozenset[str]
    annotations: frozenset[str]
    naming: frozenset[str]
    decision: str

    @classmethod
    def of(cls, policy: Policy) -> "Names":
        return cls(
            action=policy.function_labels[1],
            space=policy.function_labels[0],
            own=frozenset((policy.own("function"), policy.own("workflow"))),
            labels=frozenset((policy.own("function"), policy.own("workflow"), policy.own("ignore"), PROGRAM)),
            annotations=frozenset(
                (policy.own("applied"), policy.own("decision"), policy.own("expected"), policy.own("mode"), MIRROR)
            ),
            naming=frozenset(("workflow", policy.own("action"))),
            decision=policy.own("decision"),
        )


#: What an answer depends on: who the pod is, and all else.
Key = tuple[object, ...]


def apart(key: Key) -> tuple[Key, tuple[int, str, str, tuple[str, ...]] | None]:
    """Return what *key* says beside who the pod is, and the function as `rules.request.of_another` takes it.

    None where a workflow says more of the pod than which function it is.
    """
    who: Any = key[0]
    return key[1:], who[:4] if len(who) == _PLAIN and not who[4] else None


def of_function(function: int, name: str, named_by: str, rest: Key) -> Key:
    """Return the key of pods of that function, in no workflow, of which `apart` says *rest* beside."""
    return ((function, name, named_by, (), ""), *rest)


def key_of(pod: Admitted, namespace: str, view: View, policy: Policy, names: Names) -> Key:
    """Return what the answer to *pod* depends on, beside *view* and *policy* themselves.

    Raises what `rules.identity.identify` raises.
    """
    metadata, spec = pod.metadata, pod.spec
    labels, annotations = metadata.labels, metadata.annotations
    standing, noted = labels or {}, annotations or {}
    owner = _controller(metadata.owner_references) if metadata.owner_references else _NOBODY
    action = standing.get(names.action)
    if action and names.naming.isdisjoint(noted):  # then labels alone tell, and all pods of the same labels alike
        named = ("labelled", standing.get(names.space), action)
        who, uses = view.memo.found(named) or view.memo.once(
            named, partial(_known, _record(pod, standing, noted, owner), view, namespace, policy)
        )
    else:
        who, uses = _known(_record(pod, standing, noted, owner), view, namespace, policy)
    labelled = names.action in standing
    affinity, spread = spec.affinity, spec.topology_spread_constraints
    own = seen = stream = told = None  # what few pods have
    if not names.labels.isdisjoint(standing):
        own = tuple(each for each in standing.items() if each[0] in names.labels)
    if affinity is not _NONE or spread is not _NONE or view.standing.kinds.shunned:
        seen = _seen(bytes(affinity), bytes(spread), standing, namespace, view, names)
    if JOB in standing:
        stream = _stream(standing, namespace)
    if not names.annotations.isdisjoint(noted):
        told = tuple(item for item in noted.items() if item[0] in names.annotations)
    # No text of JSON holds the byte between them. One join is a third of as many copies: this runs for each pod.
    texts = (
        affinity,
        spread,
        spec.node_selector,
        spec.tolerations,
        spec.init_containers,
        spec.overhead,
        spec.resources,
    )
    return (
        who,
        owner.kind,
        spec.node_name if not spec.node_name else True,
        not labelled and prewarm(pod.name),
        labelled,
        policy.namespaces.get(namespace),
        namespace in policy.across,
        namespace if uses or namespace in policy.excluded_namespaces else None,
        None if labels is None else labels is UNSET,
        None if annotations is None else annotations is UNSET,
        own,
        seen,
        stream,
        told,
        b"\0".join((*texts, *map(_RESOURCES, spec.containers or ()))),
    )


_RESOURCES: Final = attrgetter("resources")


def _known(pod: Pod, view: View, namespace: str, policy: Policy) -> tuple[tuple[object, ...], bool]:
    """Say who *pod* is, and whether it uses services, which the namespace shows in.

    Workflow and action live as long as the view does, so that their identity stands for them.
    """
    known = identify(pod, view, namespace, policy)
    told = (known.function, known.name, known.named_by, known.ambiguous, known.workflow_name)
    if known.workflow is None:
        return told, False
    uses = known.action is not None and bool(uses_services(known.workflow, known.action))
    return (*told, id(known.workflow), id(known.action)), uses


def consumers_of(pod: Admitted, namespace: str, known: Index) -> tuple[object, ...]:
    """Return what stored intents make the answer depend on: which consumers *pod* is, and its containers' names."""
    metadata = pod.metadata
    owner = _controller(metadata.owner_references)
    containers = tuple(each.name for each in pod.spec.containers or ())
    found = known.matching(
        namespace, pod.name, (owner.kind or "", owner.name or ""), metadata.labels or {}, containers
    )
    return (known.version, found, containers) if found else ()


def _seen(
    affinity: bytes, spread: bytes, labels: dict[str, str], namespace: str, view: View, names: Names
) -> tuple[object, ...]:
    """Return the namespace and the labels that rules about other pods look at, where there are any such rules.

    A rule of the pod's own looks only at labels whose key stands in it.
    """
    shunned = view.standing.kinds.shunned
    asks = b"podA" in affinity
    if not shunned and not asks and spread in (b"", b"null"):
        return ()
    own = affinity + spread if asks else spread
    kept = [
        item
        for item in labels.items()
        if (item[0] in shunned or item[0].encode() in own or b"\\" in own) and item[0] not in names.own
    ]
    return (namespace, *kept)


def _stream(labels: dict[str, str], namespace: str) -> tuple[str | tuple[str, str], ...]:
    """Return what says which PE of which stream job a pod is, and which of its labels are there already."""
    return (namespace, *[item for item in labels.items() if item[0].startswith(PREFIX)])


#: So much is told of one who is in no workflow that is known.
_PLAIN: Final = 5


def _controller(owners: list[_Owner] | None) -> _Owner:
    for owner in owners or ():
        if owner.controller:
            return owner
    return owners[0] if owners else _NOBODY


_NOBODY = _Owner()


def _record(pod: Admitted, labels: dict[str, str], annotations: dict[str, str], owner: _Owner) -> Pod:
    return Pod(
        namespace="",
        name=pod.name,
        uid="",
        node=pod.spec.node_name or "",
        phase="Pending",
        labels=labels,
        annotations=annotations,
        requests={},
        limits={},
        created=EPOCH,
        owner_kind=owner.kind or "",
        owner_name=owner.name or "",
    )
