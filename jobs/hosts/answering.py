"""The answer to a submitted job: what is to be created and changed, or why nothing is."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.hosts.reading import Seen
from jobs.hosts.solver import within
from rules.advice import Json
from rules.hosts.actions import NodeAction, wanted
from rules.hosts.cluster import Cluster
from rules.hosts.model import Conflict, Job
from rules.hosts.plan import Plan, plan
from rules.hosts.pods import manifest
from rules.hosts.pools import Kept


@dataclass(frozen=True, slots=True)
class Answer:
    """Either a *plan*, with its *pods* in the order of the PEs and the *actions* on nodes, or *conflicts*."""

    job: Job
    plan: Plan | None
    pods: tuple[Json, ...] = ()
    actions: tuple[NodeAction, ...] = ()
    conflicts: tuple[Conflict, ...] = ()

    @property
    def document(self) -> Mapping[str, Any]:
        """The answer as it is printed."""
        if self.plan is None:
            return {"refused": list(self.conflicts)}
        pods = [{"pe": pe.id, "manifest": pod} for pe, pod in zip(self.job.pes, self.pods, strict=True)]
        return {"pods": pods, "nodes": [each.json for each in self.actions]}

    def changes(self, seen: Seen) -> list[NodeAction]:
        """Return the actions on nodes that are not yet as they are to be."""
        nodes = {each.node.name: each.node for each in seen.nodes}
        return [each for each in self.actions if each.changes(nodes[each.name])]


def answer(job: Job, seen: Seen, limit: timedelta, before: Kept | None = None) -> Answer:
    """Answer *job* on the nodes that were *seen*; *limit* bounds what the search for a placement takes."""
    found = plan(job, Cluster(seen.nodes, seen.pods, job.name, job.namespace), within(limit), before)
    if not isinstance(found, Plan):
        return Answer(job, None, conflicts=found.conflicts)
    pods = tuple(manifest(job, pe, found.rules[pe.id]) for pe in job.pes)
    return Answer(job, found, pods, tuple(wanted(found, (each.node for each in seen.nodes))))
