"""What a serving process has of the admitted cluster where it can be reached: watches, and who settles disks."""

import os
import socket
from collections.abc import Mapping

import structlog

from jobs import wire
from jobs.config import ClusterSettings, KubernetesSettings, Settings
from jobs.regions.lease import Lease
from jobs.service.disks.controller import Controller, Running
from jobs.service.disks.live import LiveDisks
from jobs.service.live import Live
from jobs.service.others import Others
from jobs.supervisor.status import WatchStatus
from pipeline import objects
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import ColocationError

_log = structlog.get_logger(__name__)


def live(settings: Settings, cluster: str, others: Others) -> Live | None:
    """Watch the admitted cluster where there is a way to reach it."""
    found = _reached(settings, cluster)
    if found is None:
        return None
    kubernetes, client = found
    return Live(
        client,
        annotations=others.annotations,
        node=lambda raw: objects.node(
            raw, bandwidth_label=kubernetes.bandwidth_label, disk_label=kubernetes.disk_label
        ),
        on_pod=others,
    )


def live_disks(settings: Settings, cluster: str) -> LiveDisks | None:
    """Watch the disks of the admitted cluster where the settings ask for it."""
    found = _reached(settings, cluster) if settings.disks.live else None
    return None if found is None else LiveDisks(found[1], cluster)


def controller(settings: Settings, disks: LiveDisks) -> Running:
    """Settle reservations from the live *disks*, in one process at a time."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{settings.disks.namespace}/leases"
    lease = Lease(disks.client, path, "colocation-disks", f"{socket.gethostname()}-{os.getpid()}")
    return Running(
        Controller(
            disks.client,
            lambda: disks.layout,
            sequential=settings.disks.sequential,
            symmetric=settings.disks.symmetric,
            acts=lease.held,
        ),
        lease,
    )


def _reached(settings: Settings, cluster: str) -> tuple[KubernetesSettings, KubernetesClient] | None:
    """Return the admitted cluster's client, None where there is no way to reach it."""
    of: ClusterSettings | None = next((each for each in settings.clusters if each.name == cluster), None)
    if of is None or of.kubernetes is None:
        return None
    try:
        return of.kubernetes, wire.kubernetes(of.kubernetes)
    except ColocationError as error:
        _log.error("the live cluster cannot be watched, the snapshot alone answers", error=str(error))
        return None


def watches(cluster: str, watching: Mapping[str, Live | LiveDisks | None], now: float) -> list[WatchStatus]:
    """Return how the watches of *cluster* are at *now*, by what they are for."""
    return [
        WatchStatus(cluster, resource, None if age is None else now - age, live.lists[resource], use=use)
        for use, live in watching.items()
        if live is not None
        for resource, age in live.staleness().items()
    ]
