"""What is asked: one new pod, the function and workflow that it belongs to, and everything they demand."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from msgspec import structs

from pipeline.records import Action, Labels, Pod, PodSelection, Spread, Workflow
from rules import relations, shape, stated
from rules.disks.volumes import Volumes
from rules.functions import HIGH, LEVELS, MEDIUM, PERFORMANCE, RESOURCES, importance
from rules.hosts.podrules import PodRules, of_pod
from rules.identity import Identity, identify
from rules.labels import LONGEST_NAME, cut, label_value
from rules.misread import misread
from rules.owners import ITSELF, PROGRAM, prewarm
from rules.policy import Mode, Policy
from rules.view import View

Scalar = bool | int | float | str
Left = Literal["", "daemonset", "mirror", "pinned", "namespace", "prewarm", "ignored", "own"]

MIRROR: Final = "kubernetes.io/config.mirror"
#: What a performance profile calls the resources, in lower-case letters only.
_PROFILE_WORDS: Mapping[str, str] = {
    "cpu": "cpu", "processor": "cpu", "memory": "memory", "mem": "memory", "ram": "memory",
    "network": "network", "networktransmitted": "network", "networkreceived": "network", "net": "network",
    "networkio": "network", "bandwidth": "network", "disk": "disk", "io": "disk", "diskio": "disk",
    "diskread": "disk", "diskwritten": "disk", "diskwrite": "disk", "storage": "disk",
}  # fmt: skip

_WHY: Mapping[str, str] = {
    "daemonset": "a DaemonSet's pod has its node already: left alone",
    "mirror": "a mirror of a static pod, which its node has started already: left alone",
    "pinned": "pinned to a node by its own specification: left alone",
    "namespace": "pods of namespace {namespace} are left alone",
    "ignored": "labelled to be left alone",
    "own": "a pod of this product itself: left alone",
    "prewarm": "a pod started ahead of any function: nothing is known of what it will run",
}


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What stored intents ask of the pod, as the *consumers* with these paths.

    *wanted* and *withheld* name the requirements that hold and the wishes that do not; *amounts* is what a node needs
    for it, in whole millicores, bytes and items, *labels* what it has to carry. *operations* is the JSON Patch of the
    pod's resources and nodeSelector. With *conflict*, which says why, nothing is changed.
    """

    consumers: tuple[str, ...]
    wanted: tuple[str, ...] = ()
    amounts: Mapping[str, int] = field(default_factory=dict)
    labels: Labels = field(default_factory=dict)
    withheld: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    operations: tuple[Mapping[str, Any], ...] = ()
    conflict: str = ""

    @property
    def told(self) -> dict[str, Any]:
        """What a recommendation shows of it."""
        names = ("consumers", "wanted", "withheld", "warnings", "conflict")
        return {name: value for name in names if (value := getattr(self, name))}


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One pod to be placed.

    *pod* is the object as given, *requests* what the scheduler counts for it. *function* is its number in the view,
    -1 where it has no record, *function_name* its name, "" unknown. *importance* is 3, 2 or 1. *needs* and *wishes*
    are the workflow's extra resources. *profile* holds the declared level (0..2) by resource. *elsewhere* names the
    other cluster that the workflow is meant for, *left_alone* why the pod gets no rules at all. *beside*, *apart* and
    *spread* are its own required rules about other pods. Without *labelled* it gets none of one's own labels.
    *misread* has a sentence for each stated value that says nothing. *hpa* is what intents ask of it; *pod* and
    *requests* are then what they make of it. *hosts* is what it gets as a PE of a stream job, *disks* the volumes
    that it mounts, where disks are looked at.
    """

    pod: Mapping[str, Any]
    name: str
    namespace: str
    cluster: str
    mode: Mode
    requests: Mapping[str, float]
    tolerations: tuple[Mapping[str, object], ...] = ()
    labels: Labels = field(default_factory=dict)
    function: int = -1
    function_name: str = ""
    named_by: str = ""
    ambiguous: tuple[str, ...] = ()
    workflow: str = ""
    workflow_missing: bool = False
    goal: str = ""
    importance: int = MEDIUM
    needs: Mapping[str, Scalar] = field(default_factory=dict)
    wishes: Mapping[str, Scalar] = field(default_factory=dict)
    profile: Mapping[str, int] = field(default_factory=dict)
    groups: tuple[relations.Group, ...] = ()
    services: tuple[str, ...] = ()
    elsewhere: str = ""
    left_alone: Left = ""
    beside: tuple[PodSelection, ...] = ()
    apart: tuple[PodSelection, ...] = ()
    spread: tuple[Spread, ...] = ()
    labelled: bool = True
    misread: tuple[str, ...] = ()
    hpa: Asked | None = None
    hosts: PodRules | None = None
    disks: Volumes | None = None

    @property
    def strict(self) -> bool:
        """Whether its designer asked for performance, and held it highly important."""
        return self.goal == PERFORMANCE and self.importance == HIGH

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.pod.get("spec") or {}

    @property
    def affinity(self) -> Mapping[str, Any]:
        return self.spec.get("affinity") or {}

    def own_labels(self, policy: Policy) -> dict[str, str | None]:
        """Return one's own labels of the pod, None to remove; what it brought under these keys is never trusted."""
        workflow = self.workflow.rpartition("/")[2]
        return {
            policy.own(key): label_value(name) if name and self.labelled else None
            for key, name in (("function", self.function_name), ("workflow", workflow))
        }

    def why_left_alone(self) -> str:
        """Return the sentence for *left_alone*."""
        return _WHY[self.left_alone].format(namespace=self.namespace)


def from_pod(
    pod: Mapping[str, Any], record: Pod, view: View, *, namespace: str, cluster: str, policy: Policy
) -> Request:
    """Read what is asked for *pod*, of which *record* holds the quantities.

    *namespace* is the one that the pod is created in (the object itself may not say), *cluster* the one served.
    Raises `BadInput` where the pod's own affinity has no shape that could be read.
    """
    shape.check(pod, record.name or "without a name")
    if (placed := of_pod(view.hosts, namespace, record.labels)) is not None:
        record = placed.onto(record)
    identity = identify(record, view, namespace, policy)
    workflow, action = identity.workflow, identity.action
    elsewhere = workflow.cluster if workflow and workflow.cluster not in ("", cluster) else ""
    return Request(
        pod=pod,
        name=cut(record.name, LONGEST_NAME),
        namespace=namespace,
        cluster=cluster,
        mode=policy.mode_of(namespace, record.annotations.get(policy.own("mode"))),
        requests={"pods": 1.0, **{name: amount for name, amount in record.requests.items() if amount > 0}},
        tolerations=record.tolerations,
        labels=record.labels,
        function=identity.function,
        function_name=identity.name,
        named_by=identity.named_by,
        ambiguous=identity.ambiguous,
        workflow=identity.workflow_name,
        workflow_missing=bool(identity.workflow_name) and workflow is None,
        left_alone=_left_alone(pod, record, namespace, policy),
        beside=_within(record.beside, record.namespace, namespace),
        apart=_within(record.apart, record.namespace, namespace),
        spread=record.spread,
        elsewhere=elsewhere,
        misread=tuple(misread(record.annotations, identity, policy)),
        hosts=placed,
        **(_demands(workflow, action, identity) if workflow and action else {}),
    )


def of_another(request: Request, function: int, name: str, named_by: str, ambiguous: tuple[str, ...] = ()) -> Request:
    """Return *request* for a pod that differs in its function, as `Identity` tells it; neither has a workflow.

    What names the pod itself stays that of the one that was read.
    """
    return replace(request, function=function, function_name=name, named_by=named_by, ambiguous=ambiguous)


def _within(terms: tuple[PodSelection, ...], said: str, namespace: str) -> tuple[PodSelection, ...]:
    """Return *terms* of a pod that is created in *namespace*, whatever it *said* itself."""
    if said == namespace:
        return terms
    return tuple(
        structs.replace(each, namespaces=(namespace,))
        if each.namespaces == (said,) and each.namespace_requirements is None
        else each
        for each in terms
    )


def _demands(workflow: Workflow, action: Action, identity: Identity) -> dict[str, Any]:
    """Return what *action* of *workflow* states; importance and goal may stand on the whole workflow."""
    return {
        "goal": stated.goal(workflow, action),
        "importance": importance(stated.importance(workflow, action)),
        "needs": action.extra_resources,
        "wishes": action.preferred_resources,
        "profile": _profile(action.performance_profile),
        "groups": relations.groups(workflow, action),
        "services": uses_services(workflow, action),
    }


def uses_services(workflow: Workflow, action: Action) -> tuple[str, ...]:
    """Return the services that *action* uses, and those that all of *workflow* do."""
    whole = (name for value in stated.for_all(workflow, "usesService") for name in _names(value))
    return tuple(dict.fromkeys((*action.uses_service, *whole)))


def _names(given: object) -> list[str]:
    """Read names from a list, or from a text with commas between them."""
    listed = given.split(",") if isinstance(given, str) else given if isinstance(given, (list, tuple)) else ()
    return [name for each in listed if (name := str(each).strip())]


def _profile(declared: Mapping[str, str]) -> dict[str, int]:
    """Map each declared level to the resource that it speaks of, the highest where several speak of one."""
    levels: dict[str, int] = {}
    for word, level in declared.items():
        resource = _PROFILE_WORDS.get("".join(filter(str.isalpha, word)).lower())
        if resource in RESOURCES and level in LEVELS:
            levels[resource] = max(levels.get(resource, 0), LEVELS.index(level))
    return levels


def _left_alone(pod: Mapping[str, Any], record: Pod, namespace: str, policy: Policy) -> Left:
    if namespace in policy.excluded_namespaces:
        return "namespace"
    if policy.own("ignore") in record.labels:
        return "ignored"
    if record.labels.get(PROGRAM) == ITSELF:
        return "own"
    if MIRROR in record.annotations or record.owner_kind == "Node":
        return "mirror"
    if record.owner_kind == "DaemonSet":
        return "daemonset"
    if record.node or _pinned(pod.get("spec") or {}):
        return "pinned"
    if prewarm(record.name) and policy.function_labels[1] not in record.labels:
        return "prewarm"
    return ""


def _pinned(spec: Mapping[str, Any]) -> bool:
    """Whether every alternative of the required node affinity names one node."""
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    return bool(terms) and all(
        any(
            each.get("key") == "metadata.name" and each.get("operator") == "In"
            for each in (term or {}).get("matchFields") or []
        )
        for term in terms
    )
