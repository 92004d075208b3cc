"""The instance side: a Deployment and a Service for each ConsistentRegionOperator, as long as it is there."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import structlog

from jobs import wire
from jobs.config import KubernetesSettings, RegionsSettings
from jobs.regions import paths, workload
from jobs.regions.applying import Cluster
from jobs.regions.workload import Asked
from jobs.supervisor.watching import Reached
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.clients.watch import Watcher
from pipeline.errors import BadInput, Permanent, SourceError

_log = structlog.get_logger(__name__)

_ALL_DEPLOYMENTS, _ALL_SERVICES = "/apis/apps/v1/deployments", "/api/v1/services"
_OURS = ",".join(f"{name}={value}" for name, value in workload.MANAGED.items())


class Managing:
    """Keeps one cluster's operators as their resources ask; several instances may do so at once."""

    def __init__(self, name: str, settings: KubernetesSettings, regions: RegionsSettings) -> None:
        self._name, self._regions = name, regions
        self._login = threading.Lock()
        self._settings = settings
        self._client: KubernetesClient | None = None
        self._watcher = Watcher(
            Reached(self._cluster),
            paths.ALL_OPERATORS,
            on_replace=self._replace,
            on_event=self._event,
            on_error=self._failed,
        )

    def start(self) -> None:
        """Begin to watch."""
        self._watcher.start()

    def close(self) -> None:
        """Stop; what runs in the cluster goes on."""
        self._watcher.stop()

    def _cluster(self) -> KubernetesClient:
        with self._login:
            if self._client is None:
                self._client = wire.kubernetes(self._settings)
            return self._client

    def _replace(self, raws: Sequence[msgspec.Raw]) -> None:
        """Make what is missing, and remove what belongs to no resource any more.

        What the API server refuses is that operator's trouble and no other's. Where it cannot be reached, or where an
        object changed meanwhile, the failure is raised and all is looked at again.
        """
        wanted = list(_read(raws))
        cluster = self._cluster()
        for of in wanted:
            self._ensure(cluster, of)
        names = {(of.namespace, name) for of in wanted for name in _names(of)}
        for path in (_ALL_DEPLOYMENTS, _ALL_SERVICES):
            for raw in cluster.list(path, label_selector=_OURS).items:
                meta = msgspec.json.decode(raw)["metadata"]
                if (meta["namespace"], meta["name"]) not in names:
                    one = (paths.deployments if path is _ALL_DEPLOYMENTS else paths.services)(meta["namespace"])
                    self._delete(cluster, f"{one}/{meta['name']}")

    def _event(self, kind: str, raw: msgspec.Raw) -> None:
        for of in _read([raw]):
            if kind == "DELETED":
                for path in _paths(of):
                    self._remove(self._cluster(), path)
            else:
                self._ensure(self._cluster(), of)

    def _ensure(self, cluster: Cluster, of: Asked) -> None:
        image = self._regions.image
        assert image is not None
        service_account = self._regions.service_account
        made = (workload.service(of), workload.deployment(of, image, service_account))
        for body, path in zip(made, _paths(of), strict=True):
            try:
                self._put(cluster, path, body)
            except Permanent as error:
                if error.reason == "status_409":  # changed meanwhile
                    raise
                _log.error("operator of regions refused", cluster=self._name, path=path, error=str(error))

    def _put(self, cluster: Cluster, path: str, body: dict[str, Any]) -> None:
        found = _found(cluster, path)
        if found is None:
            try:
                cluster.send("POST", path.rpartition("/")[0], msgspec.json.encode(body))
                _log.info("made", cluster=self._name, path=path)
            except Permanent as error:
                if error.reason != "status_409":  # another instance was faster
                    raise
            return
        meta = found["metadata"]
        if not _is_ours(meta):
            _log.error("left alone: an object of that name is not ours", cluster=self._name, path=path)
            return
        if (meta.get("annotations") or {}).get(workload.HASH) == body["metadata"]["annotations"][workload.HASH]:
            return
        changed = {**body, "metadata": {**body["metadata"], "resourceVersion": meta["resourceVersion"]}}
        if body["kind"] == "Service":
            kept = {key: value for key, value in found["spec"].items() if key.startswith(("clusterIP", "ipFamil"))}
            changed["spec"] = {**kept, **body["spec"]}
        cluster.send("PUT", path, msgspec.json.encode(changed))
        _log.info("changed", cluster=self._name, path=path)

    def _remove(self, cluster: Cluster, path: str) -> None:
        found = _found(cluster, path)
        if found is not None and _is_ours(found["metadata"]):
            self._delete(cluster, path)

    def _delete(self, cluster: Cluster, path: str) -> None:
        try:
            options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
            cluster.send("DELETE", path, msgspec.json.encode(options))
            _log.info("removed", cluster=self._name, path=path)
        except SourceError as error:
            if error.reason != "status_404":
                raise

    def _failed(self, error: Exception) -> None:
        if getattr(error, "reason", "") != "status_404":  # a cluster that does not know the kind has no operators
            _log.warning("operators of regions not managed", cluster=self._name, error=str(error))


def _read(raws: Sequence[msgspec.Raw]) -> Iterator[Asked]:
    for raw in raws:
        try:
            yield workload.asked(msgspec.json.decode(raw))
        except BadInput as error:
            _log.error("operator of regions left alone", error=str(error))


def _names(of: Asked) -> tuple[str, str]:
    return paths.service_name(of.job), paths.operator_name(of.job)


def _paths(of: Asked) -> tuple[str, str]:
    service, deployment = _names(of)
    return f"{paths.services(of.namespace)}/{service}", f"{paths.deployments(of.namespace)}/{deployment}"


def _found(cluster: Cluster, path: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = msgspec.json.decode(cluster.get(path))
    except SourceError as error:
        if error.reason == "status_404":
            return None
        raise
    return found


def _is_ours(meta: dict[str, Any]) -> bool:
    labels = meta.get("labels") or {}
    return all(labels.get(name) == value for name, value in workload.MANAGED.items())
