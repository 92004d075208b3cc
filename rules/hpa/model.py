"""Intents as frozen values: what each object of an application needs, in whole amounts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rules.hpa import amounts
from rules.hpa.levels import item_template

#: Of an object that does not say: what Kubernetes assumes for the namespace, and the kind that is meant most often.
NAMESPACE: Final = "default"
KIND: Final = "Deployment"


@dataclass(frozen=True, slots=True)
class Allocatable:
    """At least *least* of *resource* for a container, at most *most* (None: no bound), as `amounts.amount` counts."""

    resource: str
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Label:
    """A label that the node has to carry, with just this value."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """One need of a consumer; *weight* 1..10 counts where it is not *mandatory*."""

    name: str
    mandatory: bool
    weight: int
    need: Allocatable | Label

    def __str__(self) -> str:
        need = self.need
        if isinstance(need, Label):
            return f"{need.key}={need.value}"
        return f"{need.resource} {amounts.text(need.resource, need.least)}"


@dataclass(frozen=True, slots=True)
class Consumer:
    """One container (*container* "": none named) of the pods of one object; *namespace* "" where it names none.

    *where* is the path of the intent that it belongs to.
    """

    name: str
    app: str
    kind: str
    object: str
    container: str
    namespace: str
    replicas: int
    requirements: tuple[Requirement, ...]
    where: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Where the applications of a deployment intent group may go; *clusters* None: one of all that there are."""

    path: str
    clusters: tuple[str, ...] | None = None
    every: bool = False


@dataclass(frozen=True, slots=True)
class Intents:
    """All intents of some groups: the consumers in order of their paths, and what each group says of clusters.

    *apps* holds (group's path, application) also for intents that have no consumers.
    """

    groups: Mapping[str, Group]
    apps: tuple[tuple[str, str], ...]
    consumers: tuple[Consumer, ...]

    def group_of(self, consumer: Consumer) -> str:
        """Return the path of the group that *consumer* belongs to."""
        return consumer.where.rsplit("/", 2)[0]


def requirement(body: Mapping[str, Any]) -> Requirement:
    """Make a requirement of its body, which `bodies.requirement` has read."""
    spec = body["spec"]
    name, units = spec["name"], spec.get("units")
    need: Allocatable | Label
    if spec["allocatable"]:
        least, most = (
            amounts.amount(name, spec[field], units, f"spec.{field}") if spec.get(field) is not None else None
            for field in ("requests", "limits")
        )
        if least is None:
            least = most
        if most is None and amounts.mirrored(name):
            most = least
        assert least is not None
        need = Allocatable(name, least, most)
    else:
        need = Label(name, spec["value"])
    return Requirement(body["metadata"]["name"], spec.get("mandatory", False), spec.get("weight", 1), need)


def consumer(
    body: Mapping[str, Any], app: str, requirements: Iterable[Requirement] = (), where: str = ""
) -> Consumer:
    """Make a consumer of its body, which `bodies.consumer` has read."""
    target = body["spec"]["consumer"]
    return Consumer(
        name=body["metadata"]["name"],
        app=app,
        kind=target.get("kind", KIND),
        object=target["name"],
        container=target.get("container-name", ""),
        namespace=target.get("namespace", ""),
        replicas=target.get("replicas", 1),
        requirements=tuple(requirements),
        where=where,
    )


def intents(items: Iterable[tuple[str, Mapping[str, Any]]]) -> Intents:
    """Make intents of (path, body), parents before their children, as the store lists them.

    A path is that of an item (`levels.item_template`), without leading slash.
    """
    groups: dict[str, Group] = {}
    apps: dict[str, str] = {}
    heads: dict[str, Mapping[str, Any]] = {}
    needs: dict[str, list[Requirement]] = {}
    for path, body in items:
        match _DEPTHS.get(path.count("/")), path.split("/")[-2]:
            case "group", "deployment-intent-groups":
                groups[path] = _group(path, body)
            case "intent", "hpa-intents":
                apps[path] = body["spec"]["appName"]
            case "consumer", "hpa-resource-consumers":
                heads[path] = body
                needs[path] = []
            case "requirement", "resource-requirements":
                needs[path.rsplit("/", 2)[0]].append(requirement(body))
    above = {path: path.rsplit("/", 2)[0] for path in apps}
    return Intents(
        groups={group: groups.get(group, Group(group)) for group in sorted({*groups, *above.values()})},
        apps=tuple(sorted({(above[path], app) for path, app in apps.items()})),
        consumers=tuple(
            consumer(body, apps[where], needs[path], where)
            for path, body in sorted(heads.items())
            for where in (path.rsplit("/", 2)[0],)
        ),
    )


_DEPTHS: Final = {
    item_template(name).count("/"): name for name in ("group", "intent", "consumer", "requirement")
}  # fmt: skip


def _group(path: str, body: Mapping[str, Any]) -> Group:
    placement = (body.get("spec") or {}).get("placement") or {}
    for field, every in (("anyOf", False), ("allOf", True)):
        if placement.get(field):
            return Group(path, tuple(placement[field]), every)
    return Group(path)
