"""What one pod needs, out of all the consumers that speak of its object: they hold at once.

Of several requirements of one resource in one container the largest request and the smallest limit count; containers
of one pod add up; of labels each has to hold.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rules.hpa.amounts import mirrored
from rules.hpa.errors import Contradiction
from rules.hpa.model import Consumer, Intents, Label, Requirement

Stated = tuple[Consumer, Requirement]


@dataclass(frozen=True, slots=True)
class Needs:
    """*amounts* per container (*least*, *most*) by resource, and *labels* of the node."""

    containers: Mapping[str, Mapping[str, tuple[int, int | None]]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def total(self) -> dict[str, int]:
        """Return what the scheduler counts for one pod."""
        total: dict[str, int] = {}
        for resources in self.containers.values():
            for resource, (least, _) in resources.items():
                total[resource] = total.get(resource, 0) + least
        return total


def needs(stated: Iterable[Stated]) -> Needs:
    """Bring requirements of one object together; raises `Contradiction` where they cannot hold at once."""
    containers: dict[str, dict[str, tuple[int, int | None]]] = {}
    labels: dict[str, str] = {}
    for consumer, requirement in stated:
        need = requirement.need
        if isinstance(need, Label):
            if labels.setdefault(need.key, need.value) != need.value:
                raise Contradiction(
                    f"{consumer.kind} {consumer.object}: {need.key} has to be {labels[need.key]!r} "
                    f"and, by {requirement.name}, {need.value!r}"
                )
            continue
        resources = containers.setdefault(consumer.container, {})
        least, most = resources.get(need.resource, (0, None))
        if mirrored(need.resource):  # its limit only repeats the request
            amount = max(least, need.least)
            resources[need.resource] = (amount, amount)
            continue
        least, most = max(least, need.least), _smaller(most, need.most)
        if most is not None and least > most:
            raise Contradiction(
                f"{consumer.kind} {consumer.object}: container {consumer.container}: {need.resource}: "
                f"what one intent requests is more than another's limit ({requirement.name})"
            )
        resources[need.resource] = (least, most)
    return Needs(containers, labels)


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods of one object: *replicas* of them, each of which needs all that is *mandatory*."""

    app: str
    kind: str
    namespace: str
    name: str
    replicas: int
    mandatory: tuple[Stated, ...]
    optional: tuple[Stated, ...]

    @property
    def consumers(self) -> str:
        """The names of its consumers."""
        return ", ".join(sorted({consumer.name for consumer, _ in (*self.mandatory, *self.optional)}))


def workloads(intents: Intents, group: str, app: str) -> Iterator[Workload]:
    """Yield the workloads of an application, in order of their objects."""
    found: dict[tuple[str, str, str], list[Consumer]] = {}
    for consumer in intents.consumers:
        if consumer.app == app and intents.group_of(consumer) == group:
            found.setdefault((consumer.kind, consumer.namespace, consumer.object), []).append(consumer)
    for (kind, namespace, name), consumers in sorted(found.items()):
        yield workload(app, kind, namespace, name, consumers)


def workload(app: str, kind: str, namespace: str, name: str, consumers: Iterable[Consumer]) -> Workload:
    """Bring the consumers of one object together."""
    listed = list(consumers)
    stated = sorted(
        ((each, requirement) for each in listed for requirement in each.requirements),
        key=lambda pair: (pair[0].where, pair[0].name, pair[1].name),
    )
    return Workload(
        app=app,
        kind=kind,
        namespace=namespace,
        name=name,
        replicas=max(each.replicas for each in listed),
        mandatory=tuple(pair for pair in stated if pair[1].mandatory),
        optional=tuple(pair for pair in stated if not pair[1].mandatory),
    )
