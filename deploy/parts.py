"""Every part of an installation, in one table: what is always there, and what is chosen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from deploy import features, rights, traffic, workloads
from deploy.install import NAME, WEBHOOK, Install, Manifest, config_map

Build = Callable[[Install], list[Manifest]]

#: The settings of a new installation, which a person changes.
SETTINGS: Final = """\
[store]
path = "/var/lib/colocate/colocation.duckdb"
control = "/var/lib/colocate/colocation.control.sqlite"
snapshot = "/var/lib/colocate/colocation.snapshot"
spool = "/var/lib/colocate/spool"

[advice]
mode = "observe"

[serve]
tls_cert = "/etc/colocate/tls/tls.crt"
tls_key = "/etc/colocate/tls/tls.key"
token_file = "/etc/colocate/tokens/token"
replica_token_file = "/etc/colocate/tokens/replica"
open_admission = true

# Switched on by features of the installation, which bring the rights that are needed.
[disks]
collect = false

[regions]
follow = false

[[clusters]]
name = "cluster"

[clusters.kubernetes]

[clusters.prometheus]
url = "http://prometheus.monitoring:9090"

# [clusters.openwhisk]
# url = "https://openwhisk.example.org"
#
# [[clusters.openwhisk.namespaces]]
# name = "guest"
# key_file = "/etc/colocate/openwhisk/guest"
"""


def _settings(install: Install) -> list[Manifest]:
    return [config_map(NAME, install, {"colocate.toml": install.settings or SETTINGS})]


def _services(install: Install) -> list[Manifest]:
    return [traffic.service(NAME, "writer", install), traffic.service(WEBHOOK, "webhook", install)]


def _cron(install: Install) -> list[Manifest]:
    off = config_map(features.settings_of("cronjobs"), install, {"COLOCATE_SCHEDULE__BUILT_IN": "false"})
    return [off, *workloads.cron_jobs(install)]


def _own_certificates(install: Install) -> list[Manifest]:
    rights_ = [*rights.keeper(install), *rights.trusted(install)]
    return [*rights_, workloads.keeper(install, "--webhook", NAME)]


def _cert_manager(install: Install) -> list[Manifest]:
    return [*traffic.certificates(install), *rights.keeper(install), workloads.keeper(install, "--tokens-only")]


def _client_certificates(install: Install) -> list[Manifest]:
    on = {"COLOCATE_SERVE__CLIENT_CA": "/etc/colocate/client-ca/ca.crt", "COLOCATE_SERVE__OPEN_ADMISSION": "false"}
    return [config_map(features.settings_of("client-certificates"), install, on)]


@dataclass(frozen=True)
class Part:
    """Manifests that come and go together; *chart* is the condition in Helm's words under which they are there.

    *crds* names directories of ``deploy`` with the kinds that the part needs, *needs* the part without which it does
    nothing: its ConfigMap has to be there.
    """

    title: str
    build: Build
    chart: str = ""
    crds: tuple[str, ...] = ()
    needs: str = ""


BASE: Final[Mapping[str, Build]] = {
    "rbac": rights.core,
    "settings": _settings,
    "writer": lambda install: [workloads.claim(install), workloads.writer(install)],
    "replicas": lambda install: [workloads.replicas(install), workloads.budget(install)],
    "services": _services,
}

CHOSEN: Final[Mapping[str, Part]] = {
    "certificates": Part("Tokens and certificates made and renewed by the product itself", _own_certificates,
                         'eq .Values.certificates "own"'),
    "cert-manager": Part("Certificates by cert-manager; tokens by the product", _cert_manager,
                         'eq .Values.certificates "certManager"'),
    "client-certificates": Part("Reviews only from who shows a certificate of the CA in colocation-advisor-client-ca",
                                _client_certificates, ".Values.clientCertificates"),
    "cronjobs": Part("Collect and learn by CronJobs instead of the built-in scheduler", _cron,
                     'eq .Values.schedule "cron"'),
    "network-policies": Part("Only the serving port can be reached", traffic.policies, ".Values.networkPolicies"),
    "service-monitor": Part("Scraped by the Prometheus operator", traffic.monitors,
                            ".Values.serviceMonitor"),
    "disks": Part("Disks: read csi-baremetal's objects", features.disks, ".Values.features.disks"),
    "disk-reservations": Part("Disks: make and settle reservations", features.disk_reservations,
                              ".Values.features.diskReservations", needs="disks"),
    "hosts": Part("Stream jobs: label and taint nodes for host pools", features.hosts, ".Values.features.hosts",
                  ("hosts",)),
    "regions": Part("Consistent regions: read", features.regions, ".Values.features.regions", ("regions",)),
    "region-operators": Part("Consistent regions: run their operators", features.region_operators,
                             ".Values.features.regionOperators", needs="regions"),
}  # fmt: skip
