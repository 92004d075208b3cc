"""The levels of the intent API, in one literal table: paths, bodies and what may not be changed beside what."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from rules.hpa import bodies, wire
from rules.hpa.bodies import Body, Read


@dataclass(frozen=True, slots=True)
class Level:
    """One kind of item.

    *above* is the level of its parent, "" for none. *parts* names what its own part of a path is made of. With
    *settled* an item cannot be replaced while it has children. *filter* names the query parameters that ask a
    collection for one item.
    """

    segment: str
    above: str
    parts: tuple[str, ...]
    read: Read
    wire: type[Struct]
    title: str
    settled: bool = False
    filter: tuple[str, ...] = ()

    def name_of(self, body: Body) -> str:
        """Return what stands in a path for the item with this *body*."""
        name = str(body["metadata"]["name"])
        return f"{name}/{body['spec']['compositeAppVersion']}" if len(self.parts) > 1 else name


#: By the name of the level.
LEVELS: Final[Mapping[str, Level]] = {
    "project": Level("projects", "", ("project",), bodies.parent, wire.Parent, "project"),
    "composite_app": Level(
        "composite-apps", "project", ("composite_app", "version"), bodies.composite_app, wire.CompositeApp,
        "composite application",
    ),
    "app": Level("apps", "composite_app", ("app",), bodies.parent, wire.Parent, "application"),
    "group": Level(
        "deployment-intent-groups", "composite_app", ("group",), bodies.group, wire.Group, "deployment intent group"
    ),
    "intent": Level(
        "hpa-intents", "group", ("intent",), bodies.intent, wire.Intent, "HPA intent", True, ("intent",)
    ),
    "consumer": Level(
        "hpa-resource-consumers", "intent", ("consumer",), bodies.consumer, wire.Consumer, "resource consumer",
        True, ("consumer",),
    ),
    "requirement": Level(
        "resource-requirements", "consumer", ("requirement",), bodies.requirement, wire.Requirement,
        "resource requirement", False, ("requirement", "resource"),
    ),
    "cluster": Level("clusters", "", ("cluster",), bodies.parent, wire.Parent, "cluster"),
}  # fmt: skip


def chain(name: str) -> Iterator[Level]:
    """Yield the levels from the topmost parent down to *name*."""
    level = LEVELS[name]
    if level.above:
        yield from chain(level.above)
    yield level


def template(name: str) -> str:
    """Return the path of a collection with a ``{field}`` for each part that varies, without leading slash."""
    *above, level = chain(name)
    return "/".join([*(_item(each) for each in above), level.segment])


def item_template(name: str) -> str:
    """Return the path of one item, as `template`."""
    return f"{template(name)}/{'/'.join(map(_varying, LEVELS[name].parts))}"


def _varying(part: str) -> str:
    return f"{{{part}}}"


def _item(level: Level) -> str:
    return "/".join([level.segment, *map(_varying, level.parts)])


def locate(path: str) -> tuple[str, dict[str, str]] | None:
    """Return the level of the collection at *path* and what stands for its varying parts; None for another path.

    A leading slash and ``v2`` may stand before it.
    """
    steps = path.strip().strip("/").split("/")
    if steps[0] == "v2":
        del steps[0]
    for name in LEVELS:
        found = _matched(template(name).split("/"), steps)
        if found is not None:
            return name, found
    return None


def _matched(wanted: list[str], steps: list[str]) -> dict[str, str] | None:
    if len(wanted) != len(steps) or not all(steps):
        return None
    found: dict[str, str] = {}
    for want, step in zip(wanted, steps, strict=True):
        if want.startswith("{"):
            found[want[1:-1]] = step
        elif want != step:
            return None
    return found


def check_consumer(requirement: Mapping[str, Any], consumer: Mapping[str, Any]) -> str:
    """Return what is wrong with posting *requirement* under *consumer*, "" for nothing."""
    if requirement["spec"]["allocatable"] and not consumer["spec"]["consumer"].get("container-name"):
        return "spec.allocatable: the consumer names no container-name, which would be given the resource"
    return ""
