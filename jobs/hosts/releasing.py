"""``hosts release``: the nodes of a job's pools are given back, its HostPools and what is stored of it removed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from featurestore.store.control import Control
from jobs.hosts import changing, hostpools, reading, stored
from jobs.hosts.changing import Change, Ledger
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import Temporary
from rules.hosts.actions import NodeAction, released

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Released:
    """What was given back: *actions* on nodes; *known* whether the job was stored; *running* PEs of it."""

    actions: Sequence[NodeAction]
    known: bool
    running: int


def release(client: KubernetesClient, store: Control, cluster: str, job: str, *, dry: bool = False) -> Released:
    """Give back what *job* holds; with *dry* only the server is asked whether it could be."""
    for tries in range(1, _TRIES + 1):
        seen = reading.live(client)
        actions = released(job, (each.node for each in seen.nodes))
        known = stored.get(store, cluster, job)
        changes = changing.nodes(client, actions, seen)
        if known is not None:
            changes += _pools(client, known.namespace, job)
        try:
            if dry:
                for change in changes:
                    change.do(True)
            else:
                Ledger().carry_out(changes)
        except Temporary as error:
            if error.reason != "changed" or tries == _TRIES:
                raise
            continue
        if not dry:
            stored.forget(store, cluster, job)
        return Released(actions, known is not None, sum(pod.job == job for pod in seen.pods))
    raise AssertionError("unreachable")


def _pools(client: KubernetesClient, namespace: str, job: str) -> Iterator[Change]:
    for given in (hostpools.standing(client, namespace, job) or {}).values():
        yield hostpools.removal(client, namespace, given)
