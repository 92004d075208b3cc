"""What pools ask of nodes: labels of members and indices, taints of exclusive ones; and what is left of a job's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pipeline.records import Node
from rules.advice import Json
from rules.hosts import keys
from rules.hosts.plan import Plan


@dataclass(frozen=True, slots=True)
class NodeAction:
    """What node *name* is to carry, whether it does already or not, and the *stale* keys of labels that are to go.

    *untaint* says that the job's exclusive taint is to go.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    stale: tuple[str, ...] = ()
    untaint: bool = False

    @property
    def json(self) -> Json:
        """The action as it is printed."""
        shown: Json = {"name": self.name, "labels": dict(self.labels), "taints": list(self.taints)}
        if self.stale or self.untaint:
            shown["remove"] = {"labels": list(self.stale), "taints": [keys.EXCLUSIVE] if self.untaint else []}
        return shown

    def inverse(self, node: Node) -> "NodeAction":
        """Return what makes *node* again of what the action made of it."""
        touched = (*self.labels, *self.stale)
        taints = tuple(
            {"key": each.key, "value": each.value, "effect": each.effect}
            for each in node.taints
            if each.key == keys.EXCLUSIVE
        )
        return NodeAction(
            self.name,
            labels={key: node.labels[key] for key in touched if key in node.labels},
            taints=taints if self.untaint or self.taints else (),
            stale=tuple(key for key in touched if key not in node.labels),
            untaint=bool(self.taints) and not taints,
        )

    def changes(self, node: Node) -> bool:
        """Whether *node* is not yet as it is to be."""
        if any(node.labels.get(key) != value for key, value in self.labels.items()):
            return True
        if any(key in node.labels for key in self.stale):
            return True
        mine = [taint for taint in node.taints if taint.key == keys.EXCLUSIVE]
        wanted = [taint["value"] for taint in self.taints]
        return (self.untaint and bool(mine)) or any(value not in [each.value for each in mine] for value in wanted)


def wanted(plan: Plan, nodes: Iterable[Node]) -> list[NodeAction]:
    """Return what the pools of *plan* ask of *nodes*; labels of the job that nobody asks for any more are stale."""
    job = plan.job
    indices = {(host.pool, host.index) for pe in job.pes for host in pe.hosts if host.index is not None}
    labels: dict[str, dict[str, str]] = {}
    exclusive: set[str] = set()
    for name, members in plan.pools.items():
        for index, node in enumerate(members):
            mine = labels.setdefault(node, {})
            mine[keys.member(job.name, name)] = job.name
            if (name, index) in indices:
                mine[keys.member(job.name, name, index)] = job.name
            if job.pools[name].exclusive:
                exclusive.add(node)
    found = []
    for each in sorted(nodes, key=lambda node: node.name):
        ours = labels.get(each.name, {})
        taints = (
            ({"key": keys.EXCLUSIVE, "value": job.name, "effect": "NoSchedule"},) if each.name in exclusive else ()
        )
        stale = tuple(key for key in _labels_of(each, job.name) if key not in ours)
        untaint = not taints and _tainted(each, job.name)
        if ours or stale or untaint:
            found.append(NodeAction(each.name, ours, taints, stale, untaint))
    return found


def released(job: str, nodes: Iterable[Node]) -> list[NodeAction]:
    """Return what is to go from *nodes* when *job* goes."""
    found = []
    for each in sorted(nodes, key=lambda node: node.name):
        stale, tainted = tuple(_labels_of(each, job)), _tainted(each, job)
        if stale or tainted:
            found.append(NodeAction(each.name, stale=stale, untaint=tainted))
    return found


def _labels_of(node: Node, job: str) -> list[str]:
    return [key for key, value in node.labels.items() if key.startswith(keys.MEMBER) and value == job]


def _tainted(node: Node, job: str) -> bool:
    return any(taint.key == keys.EXCLUSIVE and taint.value == job for taint in node.taints)
