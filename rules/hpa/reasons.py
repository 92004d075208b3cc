"""Why clusters were refused, or are ranked as they are: worked out only when somebody asks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from rules.candidates import Combined, Mask
from rules.hpa.errors import Contradiction
from rules.hpa.fleet import Fleet
from rules.hpa.model import Group, Label
from rules.hpa.needs import Stated, Workload, needs
from rules.hpa.packing import NO, STATES, UNDECIDED, YES, pack
from rules.hpa.scoring import Scored, thing


class Unsatisfied(msgspec.Struct, frozen=True):
    """Why *app* may not use *clusters*; *consumer* and *requirement* are "" where no single one is to blame."""

    app: str
    consumer: str
    requirement: str
    clusters: tuple[str, ...]
    message: str


def refusals(
    app: str, loads: Sequence[Workload], fleet: Fleet, scored: Scored, group: Group, combined: Combined
) -> Iterator[Unsatisfied]:
    """Yield why *app* has too few clusters: each cluster under the first reason that holds for it."""
    names = set(fleet.clusters)
    told = False
    asked = [name for name in group.clusters or fleet.clusters if name in names]
    if unknown := tuple(name for name in group.clusters or () if name not in names):
        yield Unsatisfied(app, "", "", unknown, "nothing is known of these clusters")
        told = True
    index = {name: number for number, name in enumerate(fleet.clusters)}
    open_ = np.zeros(len(fleet), dtype=np.bool_)
    open_[[index[name] for name in asked]] = True
    for found in blamed(app, loads, fleet, scored, open_):
        told = True
        yield found
    if not told or (combined.emptied_by and combined.emptied_by != ("hpa",)):
        rules = ", ".join(combined.emptied_by)
        yield Unsatisfied(
            app, "", "", tuple(asked), f"no cluster is left by: {rules}" if rules else "no cluster is known"
        )


def blamed(app: str, loads: Sequence[Workload], fleet: Fleet, scored: Scored, among: Mask) -> Iterator[Unsatisfied]:
    """Yield what refuses the clusters *among* which intents refuse: a requirement, a consumer, or all together."""
    open_ = among & (scored.answers != YES)
    inhabited = fleet.sums(np.ones(fleet.nodes, dtype=np.bool_)) > 0
    for load in loads:
        if load.mandatory and (full := open_ & inhabited & (_alone(fleet, load, ()) == NO)).any():
            more = "another pod" if load.replicas == 1 else f"{load.replicas} more pods"
            yield Unsatisfied(app, load.consumers, "", _names(fleet, full), f"no room for {more} on its nodes")
            open_ &= ~full
    for load in loads:
        for stated in load.mandatory:
            consumer, requirement = stated
            alone = _alone(fleet, load, [stated])
            if (refused := open_ & (alone == NO)).any():
                word = "it" if isinstance(requirement.need, Label) else "it free"
                told = f"no node has {word}" if load.replicas == 1 else f"no nodes have it free {load.replicas} times"
                yield Unsatisfied(
                    app, consumer.name, requirement.name, _names(fleet, refused), f"{requirement}: {told}"
                )
                open_ &= ~refused
    for load in loads:
        try:
            needs(load.mandatory)
        except Contradiction as error:
            yield Unsatisfied(app, load.consumers, "", _names(fleet, open_), str(error))
            return
        if (refused := open_ & (_alone(fleet, load, load.mandatory) == NO)).any():
            wanted = ", ".join(str(requirement) for _, requirement in load.mandatory)
            times = "" if load.replicas == 1 else f" {load.replicas} times"
            yield Unsatisfied(app, load.consumers, "", _names(fleet, refused), f"no single node has {wanted}{times}")
            open_ &= ~refused
    if (refused := open_ & (scored.answers == NO)).any():
        yield Unsatisfied(app, "", "", _names(fleet, refused), "its consumers do not fit together on the nodes")
    if (unsure := open_ & (scored.answers == UNDECIDED)).any():
        said = (
            f"undecided: no packing was found, and there are more than {STATES} combinations of replicas to look at"
        )
        yield Unsatisfied(app, "", "", _names(fleet, unsure), said)


def _alone(fleet: Fleet, load: Workload, stated: Sequence[Stated]) -> Any:
    only = Workload(load.app, load.kind, load.namespace, load.name, load.replicas, tuple(stated), ())
    return pack(fleet, [thing(fleet, only)])


def _names(fleet: Fleet, mask: Mask) -> tuple[str, ...]:
    return tuple(fleet.clusters[number] for number in np.flatnonzero(mask).tolist())


def told(
    app: str, loads: Sequence[Workload], fleet: Fleet, scored: Scored, left: Combined
) -> Mapping[str, list[str]]:
    """Return sentences about every cluster: what it grants where it is left, what refuses it where it is not."""
    found: dict[str, list[str]] = {name: [] for name in fleet.clusters}
    for refusal in blamed(app, loads, fleet, scored, np.ones(len(fleet), dtype=np.bool_)):
        for name in refusal.clusters:
            at = ": ".join(filter(None, (refusal.consumer, refusal.requirement)))
            found[name].append(f"refused: {f'{at}: ' if at else ''}{refusal.message}")
    for number, name in enumerate(fleet.clusters):
        if left.allowed[number]:
            granted = scored.chosen(number)
            found[name] += [f"{consumer.name}: {each}: granted, {each.weight}" for consumer, each in granted]
            found[name] += [
                f"{consumer.name}: {each}: not there, left out"
                for _, (consumer, each) in scored.wishes
                if (consumer, each) not in granted
            ]
            if not found[name]:
                found[name].append("has all that is needed")
        elif scored.answers[number] == YES:
            found[name].append("has all that is needed, but other rules or applications have it")
    return found
