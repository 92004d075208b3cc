"""The placement of applications on clusters: one rule over clusters, combined with others, told as candidates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rules import contention
from rules.advice import Advice
from rules.candidates import Candidates, Mask, Opinion, combine
from rules.hpa import sharing
from rules.hpa.fleet import Fleet
from rules.hpa.model import Group, Intents
from rules.hpa.needs import Stated, Workload, workloads
from rules.hpa.packing import YES
from rules.hpa.reasons import Unsatisfied, refusals
from rules.hpa.scoring import Scored, score, thing
from rules.partitions import Company, Partition, render

RULE: Final = "hpa"
GROUP: Final = "group"


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """One application of the answer: *key* names it, *opinion* is what its intents alone say of the clusters."""

    key: str
    name: str
    group: Group
    loads: tuple[Workload, ...]
    scored: Scored
    opinion: Advice


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where applications may go, in order of their names; *unsatisfied* says why some may go nowhere."""

    fleet: Fleet
    applications: tuple[Application, ...]
    partitions: tuple[Partition, ...]
    unsatisfied: tuple[Unsatisfied, ...]

    def candidates(self) -> dict[str, Any]:
        """Return ``{app: {"replication-count": n, "allow" | "deny": [clusters]}}``."""
        return {each.app: render(each, self.fleet.clusters) for each in self.partitions}

    def scores(self) -> dict[str, dict[str, int]]:
        """Return the score of each cluster that is left to each application."""
        return {
            each.app: {self.fleet.clusters[n]: int(each.combined.scores[n]) for n in each.combined.best.tolist()}
            for each in self.partitions
        }

    def chosen(self, cluster: str) -> dict[str, list[Stated]]:
        """Return the wishes that *cluster* grants to each application."""
        number = self.fleet.clusters.index(cluster)
        return {each.key: each.scored.chosen(number) for each in self.applications}


def advise(intents: Intents, fleet: Fleet) -> tuple[Application, ...]:
    """Return what the intents of each application say of the clusters, whatever others say."""
    several = {app for group, app in intents.apps if sum(name == app for _, name in intents.apps) > 1}
    found = []
    for group, app in intents.apps:
        loads = tuple(workloads(intents, group, app))
        scored = score(fleet, loads)
        mask: Mask = scored.answers == YES
        opinion = Advice(RULE, Candidates.of(mask), scored.scores if scored.wishes else None)
        key = f"{group}/{app}" if app in several else app
        found.append(Application(key, app, intents.groups[group], loads, scored, opinion))
    return tuple(sorted(found, key=lambda each: each.key))


def place(
    intents: Intents,
    fleet: Fleet,
    others: Mapping[str, Sequence[Opinion]] | None = None,
    company: Iterable[Company] = (),
) -> Placed:
    """Place every application of *intents*; *others* are the opinions of further rules over the clusters, by its key.

    *company* says which applications may share a cluster at all. Sets intersect, scores add up; an application whose
    group names clusters needs one of them, or all.
    """
    applications = advise(intents, fleet)
    partitions: list[Partition] = []
    unsatisfied: list[Unsatisfied] = []
    for each in applications:
        combined = combine([each.opinion, *_group(each.group, fleet), *(others or {}).get(each.key, ())], len(fleet))
        count = len(each.group.clusters) if each.group.every and each.group.clusters else 1
        partitions.append(Partition(each.key, combined, count))
        if len(combined.best) < count:
            unsatisfied += refusals(each.key, each.loads, fleet, each.scored, each.group, combined)
    refused = {each.app for each in unsatisfied}
    parted = contention.part([each for each in partitions if each.app not in refused], company)
    for apart in parted.unplaced:
        said = "undecided: " if apart.undecided else ""
        unsatisfied += [
            Unsatisfied(app, "", "", fleet.clusters, f"{said}no clusters for {', '.join(apart.apps)} apart")
            for app in apart.apps
        ]
    refused = {each.app for each in unsatisfied}
    shared = _shared(fleet, applications, [each for each in parted.partitions if each.app not in refused])
    for app in shared.short:
        said = "undecided: " if shared.undecided else ""
        others_ = ", ".join(other for other in shared.short if other != app) or "others"
        unsatisfied.append(
            Unsatisfied(app, "", "", fleet.clusters, f"{said}contends with {others_} for clusters that hold one")
        )
    left = tuple(_narrowed(each, shared.kept.get(each.app, each.combined.allowed)) for each in parted.partitions)
    return Placed(fleet, applications, left, tuple(unsatisfied))


def _group(group: Group, fleet: Fleet) -> list[Advice]:
    if group.clusters is None:
        return []
    index = {name: number for number, name in enumerate(fleet.clusters)}
    named = (index[name] for name in group.clusters if name in index)
    return [Advice(GROUP, Candidates.named(True, named, len(fleet)))]


def _shared(fleet: Fleet, applications: Iterable[Application], partitions: Sequence[Partition]) -> sharing.Shared:
    found = {each.key: each for each in applications}
    return sharing.share(
        fleet,
        [
            sharing.Claim(
                each.app,
                tuple(thing(fleet, load) for load in found[each.app].loads if load.mandatory),
                each.combined.allowed,
                each.combined.best.tolist(),
                each.count,
            )
            for each in partitions
        ],
    )


def _narrowed(partition: Partition, mask: Mask) -> Partition:
    combined = partition.combined
    if mask is combined.allowed:
        return partition
    return replace(partition, combined=replace(combined, allowed=mask, best=combined.best[mask[combined.best]]))
