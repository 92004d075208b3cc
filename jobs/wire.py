"""The composition root: settings in, clients and collectors out; the only place where they meet."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from pydantic import SecretStr

from featurestore.store import disks as stored_disks
from featurestore.store import queries
from featurestore.store.duck import Store
from jobs.config import (
    ClusterSettings,
    KubernetesSettings,
    OpenWhiskNamespace,
    OpenWhiskSettings,
    PrometheusSettings,
    Settings,
)
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.clients.openwhisk import ATTEMPTS, OpenWhiskClient, read_key
from pipeline.clients.prometheus import PrometheusClient
from pipeline.collectors import (
    activations,
    disks,
    nodes,
    placements,
    regions,
    usage_drives,
    usage_nodes,
    usage_pods,
    workflows,
)
from pipeline.errors import BadInput
from pipeline.mangling import Index
from pipeline.records import Batch, Window
from rules.policy import Mode, Policy

Collector = Callable[[Window, Path], Batch]


@dataclass(frozen=True, slots=True)
class Source:
    """One thing to collect from one cluster: *client* opens the connection and gives the collector.

    *slice* is how much time one transaction covers at most; None where the answer is the present and not a history.
    """

    name: str
    scope: str
    slice: timedelta | None
    client: Callable[[], AbstractContextManager[Collector]]


#: Every source that ``colocate collect`` knows, in the order in which a first collection profits most.
SOURCES = ("nodes", "workflows", "placements", "disks", "regions", "usage", "activations")

#: History that one transaction covers at most.
_USAGE_SLICE = timedelta(hours=6)
_ACTIVATIONS_SLICE = timedelta(hours=1)


def sources(settings: Settings, cluster: ClusterSettings, store: Store) -> Iterator[Source]:
    """Yield what is configured to be collected from *cluster*, in the order of `SOURCES`.

    Nothing but the store is asked before a source's *client* is entered.
    """
    if cluster.kubernetes is not None:
        off = {"disks": not settings.disks.collect, "regions": not settings.regions.follow}
        for name, collector in _KUBERNETES.items():
            if off.get(name):
                continue
            client = partial(_kubernetes_source, cluster.kubernetes, collector, store, cluster.name)
            yield Source(name, "", None, client)
    if cluster.prometheus is not None:
        drives = store.read(lambda con: stored_disks.known(con, cluster.name))
        for scope, usage in _USAGE.items():
            if scope == "drive" and not drives:  # nothing would read it
                yield Source("usage", scope, None, _no_drives)
                continue
            opened = partial(_usage_source, cluster.prometheus, settings, usage, store, cluster.name)
            yield Source("usage", scope, _USAGE_SLICE, opened)
    if cluster.openwhisk is not None:
        for namespace in cluster.openwhisk.namespaces:
            pages = partial(_activations_source, cluster.openwhisk, namespace)
            yield Source("activations", namespace.name, _ACTIVATIONS_SLICE, pages)


def kubernetes(settings: KubernetesSettings) -> KubernetesClient:
    """Connect to a cluster's API server."""
    return KubernetesClient(
        kubeconfig=settings.kubeconfig, context=settings.context, page=settings.page, timeout=settings.timeout
    )


def kubernetes_of(settings: Settings, cluster: str) -> KubernetesClient:
    """Connect to the API server of *cluster*: as it is configured, and as usual where no cluster is."""
    given = next((each for each in settings.clusters if each.name == cluster), None)
    if given is None and settings.clusters:
        names = ", ".join(each.name for each in settings.clusters)
        raise BadInput(f"--cluster: {cluster!r} is not one of {names}")
    found = given.kubernetes if given is not None else KubernetesSettings()
    if found is None:
        raise BadInput(f"clusters.kubernetes: cluster {cluster} has none")
    return kubernetes(found)


def prometheus(settings: PrometheusSettings) -> PrometheusClient:
    """Connect to a Prometheus server."""
    return PrometheusClient(
        settings.url,
        token=_revealed(settings.token),
        token_file=settings.token_file,
        username=settings.username,
        password=_revealed(settings.password),
        ca_file=settings.ca_file,
        insecure=settings.insecure,
        headers={name: value.get_secret_value() for name, value in settings.headers.items()},
        replica_labels=settings.replica_labels,
        timeout=settings.timeout,
    )


def openwhisk(
    settings: OpenWhiskSettings, namespace: OpenWhiskNamespace, *, attempts: int = ATTEMPTS
) -> OpenWhiskClient:
    """Connect to one namespace of an OpenWhisk API host."""
    return OpenWhiskClient(
        settings.url,
        namespace.name,
        read_key(key=_revealed(namespace.key), file=namespace.key_file, variable=namespace.key_env),
        page=settings.page,
        ca_file=settings.ca_file,
        insecure=settings.insecure,
        timeout=settings.timeout,
        attempts=attempts,
    )


def policy(settings: Settings, cluster: str, mode: Mode | None = None) -> Policy:
    """Return the rules' limits for *cluster*; *mode* stands for the configured ones, everywhere."""
    advice = settings.advice
    given = next((each.kubernetes for each in settings.clusters if each.name == cluster), None)
    return Policy(
        mode=mode or advice.mode,
        namespaces={} if mode else advice.namespaces,
        probability=advice.probability,
        min_overlaps=settings.learn.min_overlaps,
        min_slowdown=settings.learn.min_effect,
        topology_key=advice.topology_key,
        label_prefix=advice.label_prefix,
        function_labels=(given or KubernetesSettings()).function_labels,
        stale_after=advice.stale_after,
        excluded_namespaces=advice.excluded_namespaces,
        across=frozenset(advice.across_namespaces),
    )


_Listed = Callable[[KubernetesClient, KubernetesSettings, datetime, Store, str], Batch]


def _nodes(client: KubernetesClient, settings: KubernetesSettings, at: datetime, store: Store, cluster: str) -> Batch:
    return nodes.collect(client.list, at, bandwidth_label=settings.bandwidth_label, disk_label=settings.disk_label)


def _placements(
    client: KubernetesClient, settings: KubernetesSettings, at: datetime, store: Store, cluster: str
) -> Batch:
    known = Index(store.read(lambda con: queries.functions(con, cluster)))
    return placements.collect(client.list, at, function_labels=settings.function_labels, known=known)


def _workflows(
    client: KubernetesClient, settings: KubernetesSettings, at: datetime, store: Store, cluster: str
) -> Batch:
    return workflows.collect(client.list, at)


def _disks(client: KubernetesClient, settings: KubernetesSettings, at: datetime, store: Store, cluster: str) -> Batch:
    return disks.collect(client.list, at)


def _regions(
    client: KubernetesClient, settings: KubernetesSettings, at: datetime, store: Store, cluster: str
) -> Batch:
    return regions.collect(client.list, at)


#: One line a collector that lists Kubernetes objects.
_KUBERNETES: Mapping[str, _Listed] = {
    "nodes": _nodes,
    "workflows": _workflows,
    "placements": _placements,
    "disks": _disks,
    "regions": _regions,
}


@contextmanager
def _kubernetes_source(
    settings: KubernetesSettings, collect: _Listed, store: Store, cluster: str
) -> Iterator[Collector]:
    client = kubernetes(settings)
    yield lambda window, spool: collect(client, settings, window.until, store, cluster)


_Usage = Callable[[PrometheusClient, PrometheusSettings, Window, timedelta, Mapping[str, str]], Batch]


def _by_address(collect: Callable[..., Batch]) -> _Usage:
    """Hand a collector of node_exporter's series what names their nodes."""

    def usage(
        client: PrometheusClient,
        settings: PrometheusSettings,
        window: Window,
        step: timedelta,
        addresses: Mapping[str, str],
    ) -> Batch:
        return collect(
            client,
            window,
            step=step,
            queries=settings.queries,
            match=settings.match,
            addresses=addresses,
            node_labels=settings.node_label,
        )

    return usage


def _usage_of_pods(
    client: PrometheusClient,
    settings: PrometheusSettings,
    window: Window,
    step: timedelta,
    addresses: Mapping[str, str],
) -> Batch:
    return usage_pods.collect(client, window, step=step, queries=settings.queries, match=settings.match)


#: One line a collector of usage, by the scope of its rows.
_USAGE: Mapping[str, _Usage] = {
    "node": _by_address(usage_nodes.collect),
    "pod": _usage_of_pods,
    "drive": _by_address(usage_drives.collect),
}


@contextmanager
def _usage_source(
    settings: PrometheusSettings, everything: Settings, collect: _Usage, store: Store, cluster: str
) -> Iterator[Collector]:
    client = prometheus(settings)
    try:
        addresses = store.read(lambda con: queries.addresses(con, cluster))
        step = everything.schedule.step

        def collector(window: Window, spool: Path) -> Batch:
            batch = collect(client, settings, window, step, addresses)
            return replace(batch, refused=batch.refused + client.take_refused())

        yield collector
    finally:
        client.close()


@contextmanager
def _no_drives() -> Iterator[Collector]:
    """Stand for the usage of drives where none of the cluster is known: up to now there is nothing to be had."""
    yield lambda window, spool: Batch("usage", watermark=window.until, scope="drive")


@contextmanager
def _activations_source(settings: OpenWhiskSettings, namespace: OpenWhiskNamespace) -> Iterator[Collector]:
    with openwhisk(settings, namespace) as client:
        yield lambda window, spool: activations.collect(client, window, spool, scope=namespace.name)


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
