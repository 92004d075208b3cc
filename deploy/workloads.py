"""What runs: one writer, replicas for the webhook, what keeps certificates, and collections by cron."""

from collections.abc import Sequence
from typing import Final

from deploy import pods
from deploy.features import settings_of
from deploy.install import KEEPER, NAME, PORT, WEBHOOK, Install, Manifest, labels, meta

_SERVE: Final = ("--config", pods.CONFIG, "serve")
_PORTS: Final = [{"name": "https", "containerPort": PORT}]
#: Features whose settings each kind of pod takes up where they are switched on.
_OF_WRITER: Final = (
    "disks",
    "disk-reservations",
    "hosts",
    "regions",
    "region-operators",
    "cronjobs",
    "client-certificates",
)
_OF_REPLICA: Final = ("disks", "client-certificates")

#: Collections and learning by cron: name, schedule, command.
CRON: Final[Sequence[tuple[str, str, tuple[str, ...]]]] = (
    ("placements", "* * * * *", ("collect", "placements")),
    ("collect", "*/5 * * * *", ("collect",)),
    ("learn", "*/15 * * * *", ("learn",)),
)


def _features(names: Sequence[str]) -> list[Manifest]:
    return [{"configMapRef": {"name": settings_of(name), "optional": True}} for name in names]


def _common(install: Install) -> list[Manifest]:
    return pods.env({"ADVICE__EXCLUDED_NAMESPACES": install.excluded()})


def claim(install: Install) -> Manifest:
    """Return the claim of the volume that holds the history: one node at a time."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta(NAME, install, "writer"),
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": install.storage}}},
    }


def writer(install: Install) -> Manifest:
    """Return the one writer: it collects, learns, publishes, and answers people.

    A StatefulSet, since that never runs two pods of one name.
    """
    container = {
        "ports": _PORTS,
        "env": _common(install),
        "envFrom": _features(_OF_WRITER),
        "resources": pods.resources("500m", "1Gi", "4Gi"),
        **pods.probes(install),
    }
    mounts = (
        pods.CLAIM, pods.SCRATCH, pods.SETTINGS, pods.CERTIFICATE, pods.TOKEN, pods.CLIENTS, pods.KEYS,
    )  # fmt: skip
    spec = {"terminationGracePeriodSeconds": 60}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta(NAME, install, "writer"),
        "spec": {
            "serviceName": NAME,
            "replicas": 1,
            "selector": {"matchLabels": labels("writer")},
            "template": pods.template(install, "writer", NAME, _SERVE, mounts, container=container, spec=spec),
        },
    }


def replicas(install: Install) -> Manifest:
    """Return what the API server asks: replicas without a history, that follow the writer."""
    follow = {
        "REPLICA__WRITER": f"https://{install.host(NAME)}:443",
        "REPLICA__TOKEN_FILE": "/etc/colocate/tokens/replica",
        "REPLICA__CA_FILE": "/etc/colocate/tls/ca.crt",
    }
    container = {
        "ports": _PORTS,
        "env": [*_common(install), *pods.env(follow)],
        "envFrom": _features(_OF_REPLICA),
        "resources": pods.resources("250m", "512Mi", "2Gi"),
        **pods.probes(install),
    }
    mounts = (
        pods.SPOOL, pods.SCRATCH, pods.SETTINGS, pods.CERTIFICATE, pods.TOKEN, pods.CLIENTS,
    )  # fmt: skip
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels("webhook")},
    }
    spec = {
        "terminationGracePeriodSeconds": 45,
        "topologySpreadConstraints": [spread, {**spread, "topologyKey": "topology.kubernetes.io/zone"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(WEBHOOK, install, "webhook"),
        "spec": {
            "replicas": install.replicas,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "selector": {"matchLabels": labels("webhook")},
            "template": pods.template(install, "webhook", WEBHOOK, _SERVE, mounts, container=container, spec=spec),
        },
    }


def budget(install: Install) -> Manifest:
    """Keep one replica while nodes are drained."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta(WEBHOOK, install, "webhook"),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels("webhook")}},
    }


def keeper(install: Install, *more: str) -> Manifest:
    """Return what makes tokens and certificates and renews these; *more* are arguments of ``colocate bootstrap``."""
    hosts = [host for name in (NAME, WEBHOOK) for host in ("--host", install.host(name))]
    arguments = ("bootstrap", "--namespace", install.namespace, *hosts, *more)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(KEEPER, install, "bootstrap"),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels("bootstrap")},
            "template": pods.template(
                install, "bootstrap", KEEPER, arguments, (pods.SCRATCH,),
                container={"resources": pods.resources("10m", "128Mi", "256Mi")}, spec={},
            ),
        },
    }  # fmt: skip


def cron_jobs(install: Install) -> list[Manifest]:
    """Return collections and learning by cron, on the node of the writer: its volume is mounted on one node only."""
    beside = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels("writer")}}
            ]
        }
    }
    mounts = (pods.CLAIM, pods.SCRATCH, pods.SETTINGS, pods.KEYS)
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": meta(f"{NAME}-{name}", install, "jobs"),
            "spec": {
                "schedule": schedule,
                "concurrencyPolicy": "Forbid",
                "startingDeadlineSeconds": 120,
                "successfulJobsHistoryLimit": 1,
                "failedJobsHistoryLimit": 3,
                "jobTemplate": {
                    "spec": {
                        "backoffLimit": 0,
                        "activeDeadlineSeconds": 600,
                        "template": pods.template(
                            install, "jobs", NAME, ("--config", pods.CONFIG, *command), mounts,
                            container={
                                "env": _common(install),
                                "envFrom": _features(_OF_WRITER),
                                "resources": pods.resources("250m", "512Mi", "4Gi"),
                            },
                            spec={"restartPolicy": "Never", "affinity": beside},
                        ),
                    }
                },
            },
        }
        for name, schedule, command in CRON
    ]  # fmt: skip
