"""The disks of the live cluster while serving: every kind that plans are made from, kept current by watches."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite
from threading import Lock
from typing import Any

import msgspec
import structlog

from featurestore.snapshot import Snapshot
from jobs.disks.layout import lay_out_records, learned, with_claims
from jobs.service.live import Held, full_name
from jobs.service.periodic import Periodic
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.clients.watch import Watcher
from pipeline.collectors.disks import PATHS, decode
from pipeline.disk_records import Claim, DiskPod
from pipeline.errors import BadInput
from pipeline.objects import disks as wire
from rules.disks.state import Disks

_log = structlog.get_logger(__name__)
_Key = tuple[str, str]

#: How often changes are taken up, in seconds.
_EVERY = 0.5
#: Laying out takes no more than this part of the time, however often something changes.
_SHARE = 0.25
#: How long a question waits for claims that nobody has seen yet, in seconds.
_PATIENCE = 1.0
#: What a watch without a proof of life for so many seconds showed is advised to no pod; a quiet one ends sooner.
_OLD = 600.0


class LiveDisks:
    """Holds the newest layout; readers take it without waiting. None before everything was listed once.

    A kind that the cluster does not know counts as listed, and empty.
    """

    def __init__(self, client: KubernetesClient, cluster: str) -> None:
        self.client = client
        self.layout: Disks | None = None
        self._cluster = cluster
        self._snapshot: Snapshot | None = None
        self._laid: tuple[int, object] = (-1, None)
        self._changes = 0
        self._earliest = 0.0
        self._absent: set[str] = set()
        #: Lists made of each resource.
        self.lists = {_resource(path): 0 for path in PATHS.values()}
        self._lock = Lock()
        self._held: Mapping[str, Held[_Key, wire.Record]] = {
            kind: Held(kind, partial(_read, kind), full_name, self._changed) for kind in PATHS
        }
        self._watchers = {kind: self._watcher(client, kind, path) for kind, path in PATHS.items()}
        self._thread = Periodic("disks", _EVERY, self.refresh)

    def seen(self, snapshot: Snapshot) -> None:
        """Take what is learned of disks and functions from *snapshot*."""
        self._snapshot = snapshot

    @property
    def synced(self) -> bool:
        """Whether every kind was listed, or is none of this cluster's."""
        return all(kind in self._absent or each.synced.is_set() for kind, each in self._watchers.items())

    def refresh(self) -> None:
        """Lay out anew where anything changed, unless that was done a moment ago."""
        if not self.synced:
            return
        with self._lock:
            now = (self._changes, self._snapshot)
            began = time.monotonic()
            if now != self._laid and began >= self._earliest:
                records = [record for held in self._held.values() for record in list(held.items.values())]
                busy, heavy = learned(self._snapshot, self._cluster, records) if self._snapshot else ({}, frozenset())
                self.layout = lay_out_records(records, busy, heavy)
                self._laid = now
                self._earliest = time.monotonic() + (time.monotonic() - began) / _SHARE

    @property
    def current(self) -> bool:
        """Whether no watch was without a proof of life for long."""
        return all(kind in self._absent or each.staleness() < _OLD for kind, each in self._watchers.items())

    def staleness(self) -> dict[str, float | None]:
        """Return for each watch the seconds since it was last known to be current, None before its first list; of a
        kind that the cluster does not know nothing."""
        there = {PATHS[kind]: each for kind, each in self._watchers.items() if kind not in self._absent}
        ages = {_resource(path): each.staleness() for path, each in there.items()}
        return {name: age if isfinite(age) else None for name, age in ages.items()}

    def layout_for(self, pod: DiskPod, patience: float = _PATIENCE) -> Disks | None:
        """Return the newest layout with the claims of *pod*, which is often asked about as they are made.

        Waits at most *patience* seconds for claims that were not seen yet: a scheduler that is told to try again may
        take a minute.
        """
        disks = self.layout
        made = {each.name for each in pod.templates}
        names = [name for name in pod.claims if name not in made]
        end = time.monotonic() + patience
        while disks is not None:
            claims = self._held["PersistentVolumeClaim"].items
            fresh = {
                (pod.namespace, name): claims.get((pod.namespace, name))
                for name in names
                if (pod.namespace, name) not in disks.claims
            }
            if all(fresh.values()) or time.monotonic() >= end:
                return with_claims(disks, [each for each in fresh.values() if isinstance(each, Claim)])
            time.sleep(0.02)
            disks = self.layout
        return None

    def start(self) -> None:
        """Begin to watch."""
        for watcher in self._watchers.values():
            watcher.start()
        self._thread.start()

    def close(self) -> None:
        """End the watches."""
        self._thread.close()
        for watcher in self._watchers.values():
            watcher.stop()

    def _watcher(self, source: KubernetesClient, kind: str, path: str) -> Watcher:
        held = self._held[kind]

        def failed(error: Exception) -> None:
            if getattr(error, "reason", "") == "status_404":
                self._absent.add(kind)
                if held.items:
                    held.replace(())
            else:
                _log.warning("watch failed", resource=kind, error=str(error).splitlines()[0])

        def replace(raws: Sequence[msgspec.Raw]) -> None:
            self._absent.discard(kind)
            self.lists[_resource(path)] += 1
            held.replace(raws)

        return Watcher(source, path, on_replace=replace, on_event=held.event, on_error=failed)

    def _changed(self) -> None:
        self._changes += 1


def _resource(path: str) -> str:
    return path.rpartition("/")[2]


def _read(kind: str, raw: msgspec.Raw) -> tuple[_Key, wire.Record]:
    record: Any = decode(kind, raw)
    if record is None:
        raise BadInput(f"{kind}: not an object")
    if isinstance(record, DiskPod) and not record.claims:
        record = msgspec.structs.replace(record, labels={}, annotations={})  # only that it is there matters
    return (getattr(record, "namespace", ""), wire.name_of(record)), record
