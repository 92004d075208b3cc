"""What is switched on one by one: a role, and settings in a ConfigMap that the pods read where it is there."""

from collections.abc import Mapping

from deploy import rights
from deploy.install import NAME, WEBHOOK, Install, Manifest, config_map


def settings_of(feature: str) -> str:
    """Return the name of the ConfigMap with the settings of *feature*."""
    return f"{NAME}-{feature}"


def _feature(
    install: Install, name: str, accounts: list[str], rules: tuple[Manifest, ...], on: Mapping[str, str]
) -> list[Manifest]:
    full = settings_of(name)
    return [
        config_map(full, install, {f"COLOCATE_{key}": value for key, value in on.items()}),
        rights.role(full, rules),
        rights.binding(full, accounts, install),
    ]


def disks(install: Install) -> list[Manifest]:
    """Read drives, volumes and claims: for the history, the webhook and the scheduler's extender."""
    on = {"DISKS__COLLECT": "true", "DISKS__LIVE": "true"}
    return _feature(install, "disks", [NAME, WEBHOOK], rights.DISKS, on)


def disk_reservations(install: Install) -> list[Manifest]:
    """Make and settle reservations of disks, in the writer alone; needs `disks`."""
    name = settings_of("disk-reservations")
    return [
        *_feature(
            install, "disk-reservations", [NAME], rights.RESERVING,
            {"DISKS__RESERVE": "true", "DISKS__NAMESPACE": install.namespace},
        ),
        rights.role(name, rights.LEASES, install),
        rights.binding(name, [NAME], install, inside=True),
    ]  # fmt: skip


def hosts(install: Install) -> list[Manifest]:
    """Label and taint nodes for the host pools of stream jobs; who submits jobs is bound by hand."""
    return [
        *_feature(install, "hosts", [NAME], rights.NODE_CHANGES, {"HOSTS__CHANGE_NODES": "true"}),
        rights.role(f"{NAME}-stream-jobs", rights.STREAM_JOBS),
    ]


def regions(install: Install) -> list[Manifest]:
    """Read consistent regions for the history and the metrics."""
    return _feature(install, "regions", [NAME], rights.REGIONS, {"REGIONS__FOLLOW": "true"})


def region_operators(install: Install) -> list[Manifest]:
    """Run an operator for each job with consistent regions; needs `regions`."""
    on = {"REGIONS__MANAGE": "true", "REGIONS__IMAGE": install.image}
    return _feature(install, "region-operators", [NAME], rights.OPERATORS, on)
