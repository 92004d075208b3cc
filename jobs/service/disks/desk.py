"""Where plans of disks are asked for: by a person over HTTP, and by the scheduler as its extender."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

from featurestore.snapshot import Snapshot
from jobs.config import DiskSettings
from jobs.disks import layout
from jobs.service.disks.live import LiveDisks
from pipeline.disk_records import DiskPod
from pipeline.errors import BadInput
from pipeline.objects import disks as wire
from rules.disks.plan import Plan, plan
from rules.disks.state import Disks
from rules.disks.volumes import Volumes


class DiskDesk:
    """Plans from the live disks of *cluster* once they are known, else from the snapshot's, laid out when asked."""

    def __init__(
        self, settings: DiskSettings, cluster: str, snapshot: Callable[[], Snapshot], live: LiveDisks | None
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._snapshot = snapshot
        self._live = live
        self._laid: tuple[Snapshot, str, Disks] | None = None
        self._lock = Lock()

    def seen(self, snapshot: Snapshot) -> None:
        """Lay out what *snapshot* knows of disks, before anybody waits for it."""
        if len(snapshot["disks"]):
            self._laid_out(snapshot, self._cluster)

    def plan(
        self,
        pod: Mapping[str, Any],
        nodes: Sequence[str] | None = None,
        *,
        objects: Iterable[Mapping[str, Any]] = (),
        cluster: str | None = None,
    ) -> Plan:
        """Plan for *pod* on *nodes* (None: all), *objects* being claims and classes that do not exist yet.

        Raises `BadInput` for a pod or annotations that cannot be read.
        """
        read = wire.read({"kind": "Pod", **pod})
        if not isinstance(read, DiskPod):
            raise BadInput(f"kind {pod.get('kind')!r}: not a Pod")
        disks = layout.beside(self._layout(cluster or self._cluster, read), objects)
        return plan(read, disks, nodes, sequential=self._settings.sequential, symmetric=self._settings.symmetric)

    def volumes(self, pod: Mapping[str, Any], namespace: str, patience: float) -> Volumes | None:
        """Return what *pod* mounts in *namespace*, and the live disks; None without either.

        Waits at most *patience* seconds for claims that nobody has seen. Raises `BadInput` for a template that cannot
        be read.
        """
        read = layout.mounting(pod, namespace)
        if read is None or self._live is None or not self._live.current:
            return None
        disks = self._live.layout_for(read, patience)
        return None if disks is None else Volumes(read, disks, self._settings.symmetric)

    def _layout(self, cluster: str, pod: DiskPod) -> Disks:
        """Return the newest layout of *cluster*, with the claims of *pod* where they are known."""
        if self._live is not None and cluster == self._cluster and (live := self._live.layout_for(pod)) is not None:
            return live
        return self._laid_out(self._snapshot(), cluster)

    def _laid_out(self, snapshot: Snapshot, cluster: str) -> Disks:
        with self._lock:  # one lays out, the others wait for it
            laid = self._laid
            if laid is None or laid[0] is not snapshot or laid[1] != cluster:
                laid = self._laid = (snapshot, cluster, layout.of_snapshot(snapshot, cluster))
            return laid[2]
