"""Disks of bare metal: drives and their health, room, reservations, and how busy drives are."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.board import board, chosen, cluster
from dashboards.panels import Query, lines, listing, number, told

_C = 'cluster=~"$cluster"'
_UNWELL = ', health!="GOOD"'
_WAITING = told(f"colocation_disk_reservations{{{_C}}}", "cluster", "status")
_BUSY = told(f'colocation_drive_busy_ratio{{{_C}, node=~"$node"}}', "cluster", "node", "device")


def _drives(more: str = "") -> str:
    return told(f"colocation_drives{{{_C}{more}}}", "cluster", "type", "health")


def _class(name: str) -> str:
    return told(f"colocation_disk_{name}{{{_C}}}", "cluster", "storage_class")


def disks() -> Dashboard:
    """Build the dashboard."""
    room = (
        number("Drives", "As last listed.", Query(f"sum({_drives()})"), width=6),
        number("Drives not well", "Of another health than GOOD.",
               Query(f"sum({_drives(_UNWELL)}) or vector(0)"), width=6),
        number("Free", "Capacity that is available, of all classes.",
               Query(f"sum({_class('free_bytes')})"), unit="bytes", width=6),
        number("Volumes", "On these drives.", Query(f"sum({_class('volumes')})"), width=6),
        lines("Free by class", "Capacity that is available.",
              Query(f"sum by (storage_class) ({_class('free_bytes')})", "{{storage_class}}"),
              unit="bytes", stacked=True),
        lines("Volumes by class", "Size of all volumes.",
              Query(f"sum by (storage_class) ({_class('volumes_bytes')})", "{{storage_class}}"),
              unit="bytes", stacked=True),
        listing("Drives by type and health", "As last listed.",
                Query(_drives(), "drives")),
        lines("Reservations", "By status.",
              Query(f"sum by (status) ({_WAITING})", "{{status}}"), stacked=True),
    )  # fmt: skip
    use = (
        lines("Busy drives", "The ten busiest: share of time.", Query(f"topk(10, {_BUSY})", "{{node}} {{device}}"),
              unit="percentunit"),
        lines("Plans refused", "Plans of volumes that were rejected or put off, in an hour.",
              Query('sum by (cause) (increase(colocation_refusals_total{part="disks"}[1h]))', "{{cause}}")),
    )  # fmt: skip
    nodes = chosen("node", f"label_values(colocation_drive_busy_ratio{{{_C}}}, node)")
    return board(
        "disks",
        "disks",
        "Drives, volumes and room of csi-baremetal, and how busy drives are.",
        (cluster(), nodes),
        ("Room", room),
        ("Use", use),
    )
