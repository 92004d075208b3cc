"""One answer for one job: the nodes of its pools and what each pod gets, or every reason why it cannot be placed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rules.hosts import conflicts, contradictions
from rules.hosts.cluster import Cluster
from rules.hosts.marks import labels
from rules.hosts.model import Conflict, Job, Pe, PeId, conflict, told
from rules.hosts.podrules import PodRules
from rules.hosts.pods import emitted
from rules.hosts.pools import Kept, candidates, kept, preferred, settled
from rules.hosts.problem import Places, Solve, solved
from rules.hosts.search import by_turns
from rules.hosts.units import Unit, pools_of, units, users_of

#: So many tokens are left out in turn to find which are to blame; with more all are told.
_BLAMED = 40
#: Kinds of conflicts that say nothing of where a PE could be.
_OF_TOKENS = ("illegal-token", "colocated-and-exlocated", "isolation-and-colocation")


@dataclass(frozen=True, slots=True)
class Plan:
    """*pools* are the nodes chosen for each, in order; *rules* is what each pod gets, in the order of the PEs."""

    job: Job
    pools: Mapping[str, tuple[str, ...]]
    rules: Mapping[PeId, PodRules]

    @property
    def order(self) -> list[PeId]:
        """The order in which to create the pods: those with the fewest nodes to go to first."""
        return [pe for pe, _ in sorted(self.rules.items(), key=lambda each: each[1].freedom)]


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the job cannot be placed."""

    conflicts: tuple[Conflict, ...]


def plan(job: Job, cluster: Cluster, solve: Solve, before: Kept | None = None) -> Plan | Refused:
    """Place *job* on *cluster*.

    *before* are the nodes that pools had when the job was submitted last; without it the nodes' labels tell. Exact:
    what is planned has a placement, what is refused has none, but for ``undecided``, where *solve* ran out of time.
    """
    users = users_of(job)
    open_to = {pool.name: candidates(cluster, pool, users.get(pool.name, ())) for pool in job.pools.values()}
    spots, wrong = conflicts.spots(job, cluster, open_to)
    found = [*conflicts.of_operators(job), *conflicts.of_pools(job, cluster, open_to, users), *wrong]
    placed = units(job, cluster, spots)
    marks = labels(job, placed)
    found += contradictions.with_others(job, cluster, placed, marks)
    homeless = {pe for each in found if each.conflict not in _OF_TOKENS for pe in each.pes}
    for unit in placed:
        found += contradictions.within(job, unit, homeless)
    sound = [unit for unit in placed if unit.nodes]
    found += contradictions.between(cluster, sound)
    found += contradictions.crowded(job, sound, found)
    if found:
        return Refused(tuple(dict.fromkeys(found)))
    chosen = _chosen(job, cluster, {pool.name: open_to[pool.name] for pool in pools_of(job)}, before, placed, solve)
    if isinstance(chosen, Refused):
        return chosen
    places = settled(job, chosen).items()
    names = {name: tuple(cluster.names[node] for node in nodes) for name, nodes in places}
    return Plan(job, names, emitted(job, cluster, placed, marks))


def _chosen(
    job: Job, cluster: Cluster, open_to: Mapping[str, int], before: Kept | None, placed: Sequence[Unit], solve: Solve
) -> Mapping[str, Sequence[int]] | Refused:
    pools = pools_of(job)
    wanted = preferred(job, cluster, open_to, before if before is not None else kept(job, cluster), placed)
    whole = all(len(wanted[pool.name]) == pool.size for pool in pools)
    if whole and by_turns(placed, wanted, [pool.name for pool in pools if pool.exclusive]):
        return wanted
    places = Places(tuple(pools), open_to, wanted)
    answer = solved(placed, places, solve)
    if answer == "undecided":
        message = "whether there is a placement could not be decided in time"
        return Refused((conflict("undecided", job.pes, _tokens(placed), message),))
    if isinstance(answer, str):
        return Refused((_blamed(job, placed, places, solve),))
    return answer


def _blamed(job: Job, placed: Sequence[Unit], places: Places, solve: Solve) -> Conflict:
    """Leave out each token and each isolation without which there is still no placement; the rest are to blame."""
    tokens = _tokens(placed)
    isolated = tuple(dict.fromkeys(name for unit in placed for name in unit.isolated))
    for each in (*tokens, *isolated) if len(tokens) + len(isolated) <= _BLAMED else ():
        fewer = tuple(token for token in tokens if token != each), tuple(name for name in isolated if name != each)
        if solved(_only(placed, *fewer), places, solve) == "impossible":
            tokens, isolated = fewer
    pes: Sequence[Pe] = contradictions.involved(placed, tokens, isolated) or job.pes
    causes = [f'hostExlocation("{token}")' for token in tokens] + [f"hostIsolation of {name}" for name in isolated]
    causes += [f"pool {pool.name}" for pool in places.pools]
    message = f"no placement meets all of {', '.join(causes) or 'the hosts'} for {told(pes)}"
    return conflict("infeasible", pes, tokens, message)


def _only(placed: Sequence[Unit], tokens: Sequence[str], isolated: Sequence[str]) -> list[Unit]:
    return [
        replace(
            unit,
            exlocations=tuple(each for each in unit.exlocations if each in tokens),
            isolated=tuple(each for each in unit.isolated if each in isolated),
        )
        for unit in placed
    ]


def _tokens(placed: Sequence[Unit]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(token for unit in placed for token in unit.exlocations))
