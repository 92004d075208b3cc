"""Disks of bare metal: drives and volumes as last listed, what is free, what is reserved, and how busy drives are."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from featurestore.snapshot import Snapshot
from featurestore.snapshot import rows as rows_of
from jobs.service.families.counted import gauge


class _Document(msgspec.Struct):
    """What the metrics need of a record of `pipeline.disk_records`, whichever kind it is."""

    storage_class: str = ""
    size: int = 0
    type: str = ""
    health: str = ""
    status: str = ""


_KINDS = pa.array(["Drive", "Volume", "AvailableCapacity", "AvailableCapacityReservation"])
_decoder = msgspec.json.Decoder(_Document)


def disks(snapshot: Snapshot, most: int) -> Iterator[Metric]:
    """Yield sums by class, and the *most* busiest drives of *snapshot*."""
    yield busy(rows_of(snapshot["drives"].sort_by([("busy_ratio", "descending")]).slice(0, most)))
    drives: Counter[tuple[str, ...]] = Counter()
    held: Counter[tuple[str, ...]] = Counter()
    sizes: Counter[tuple[str, ...]] = Counter()
    free: Counter[tuple[str, ...]] = Counter()
    waiting: Counter[tuple[str, ...]] = Counter()
    table = snapshot["disks"].select(["cluster", "kind", "document"])
    for row in rows_of(table.filter(pc.is_in(table["kind"].cast("string"), value_set=_KINDS))):
        cluster, kind = row["cluster"], row["kind"]
        found = _decoder.decode(row["document"])
        if kind == "Drive":
            drives[cluster, found.type, found.health] += 1
        elif kind == "Volume":
            held[cluster, found.storage_class] += 1
            sizes[cluster, found.storage_class] += found.size
        elif kind == "AvailableCapacity":
            free[cluster, found.storage_class] += found.size
        else:
            waiting[cluster, found.status] += 1
    by = ("cluster", "storage_class")
    yield gauge("colocation_drives", "Drives by type and health", ("cluster", "type", "health"), drives)
    yield gauge("colocation_disk_volumes", "Volumes by storage class", by, held)
    yield gauge("colocation_disk_volumes_bytes", "Size of all volumes by storage class", by, sizes)
    yield gauge("colocation_disk_free_bytes", "Capacity that is available by storage class", by, free)
    yield gauge("colocation_disk_reservations", "Reservations of capacity", ("cluster", "status"), waiting)


def busy(rows: Iterable[Mapping[str, Any]]) -> Metric:
    """Return how busy the drives of *rows* were when last measured."""
    family = GaugeMetricFamily(
        "colocation_drive_busy_ratio",
        "Share of time that the drive was busy when last measured; the busiest only",
        labels=("cluster", "node", "device"),
    )
    for row in rows:
        family.add_metric((row["cluster"], row["node"], row["device"]), row["busy_ratio"])
    return family
