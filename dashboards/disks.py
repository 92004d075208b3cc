"""Disks of bare metal: drives and their health, room, reservations, and how busy drives are."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.board import board, chosen, cluster
from dashboards.panels import Query, lines, listing, number

_C = 'cluster=~"$cluster"'
_BUSY = f'colocation_drive_busy_ratio{{{_C}, node=~"$node"}}'


def disks() -> Dashboard:
    """Build the dashboard."""
    room = (
        number("Drives", "As last listed.", Query(f"sum(colocation_drives{{{_C}}})"), width=6),
        number("Drives not well", "Of another health than GOOD.",
               Query(f'sum(colocation_drives{{{_C}, health!="GOOD"}}) or vector(0)'), width=6),
        number("Free", "Capacity that is available, of all classes.",
               Query(f"sum(colocation_disk_free_bytes{{{_C}}})"), unit="bytes", width=6),
        number("Volumes", "On these drives.", Query(f"sum(colocation_disk_volumes{{{_C}}})"), width=6),
        lines("Free by class", "Capacity that is available.",
              Query(f"sum by (storage_class) (colocation_disk_free_bytes{{{_C}}})", "{{storage_class}}"),
              unit="bytes", stacked=True),
        lines("Volumes by class", "Size of all volumes.",
              Query(f"sum by (storage_class) (colocation_disk_volumes_bytes{{{_C}}})", "{{storage_class}}"),
              unit="bytes", stacked=True),
        listing("Drives by type and health", "As last listed.",
                Query(f"sum by (cluster, type, health) (colocation_drives{{{_C}}})", "drives")),
        lines("Reservations", "By status.",
              Query(f"sum by (status) (colocation_disk_reservations{{{_C}}})", "{{status}}"), stacked=True),
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
