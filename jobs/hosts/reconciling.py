"""``hosts reconcile``: nodes and HostPools are brought back to what the stored jobs ask for."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from featurestore.store.control import Control
from jobs.hosts import changing, hostpools, reading, stored
from jobs.hosts.answering import answer
from jobs.hosts.changing import Ledger
from jobs.hosts.stored import StoredJob
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import ColocationError
from rules.hosts import job as jobs


@dataclass(frozen=True, slots=True)
class Reconciled:
    """How it went with one *job*: ``ok``, ``changed``, ``refused`` or ``failed``, and in one line why."""

    job: str
    outcome: str
    nodes: int = 0
    why: str = ""


def reconcile(
    client: KubernetesClient, store: Control, cluster: str, at: datetime, limit: timedelta
) -> Iterator[Reconciled]:
    """Yield how it went with each job of *cluster*; one that cannot be met any more is left as it is.

    A node that left a pool's job is replaced; nodes that are usable stay.
    """
    for each in stored.every(store, cluster):
        try:
            yield _reconciled(client, store, each, at, limit)
        except ColocationError as error:
            yield Reconciled(each.job, "failed", why=str(error))


def _reconciled(
    client: KubernetesClient, store: Control, known: StoredJob, at: datetime, limit: timedelta
) -> Reconciled:
    job = jobs.read(known.document, f"job {known.job}")
    seen = reading.live(client)
    found = answer(job, seen, limit, known.pools)
    if found.plan is None:
        return Reconciled(known.job, "refused", why="; ".join(each.message for each in found.conflicts))
    actions = found.changes(seen)
    nodes = changing.nodes(client, actions, seen)
    pools = hostpools.changes(client, found.plan) or []
    storing = stored.change(store, known.cluster, found.plan, known.document, at, known, again=True)
    Ledger().carry_out([*nodes, *pools, storing])  # stored last: who released the job meanwhile is not undone
    return Reconciled(known.job, "changed" if nodes or pools else "ok", len(nodes))
