"""The resources of one job as the operator reads and writes them: whole statuses, held to a version."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from jobs.regions import paths
from pipeline.errors import NOT_JSON, BadInput, Permanent, SourceError
from rules.regions.region import Region, RegionSpec, RegionStatus
from rules.regions.resource import API_VERSION, OPERATOR, REGION, region_of, wire

_UNREADABLE: tuple[type[Exception], ...] = (*NOT_JSON, KeyError, TypeError)


class Api(Protocol):
    """What is needed of `pipeline.clients.kubernetes.KubernetesClient`."""

    def get(self, path: str, **parameters: str) -> bytes: ...

    def send(self, method: str, path: str, body: bytes | None = None, kind: str = ...) -> bytes: ...


class Resource(NamedTuple):
    """One region's resource at one version; *run_before* says that it has a status."""

    name: str
    version: str
    region: Region
    run_before: bool


class Started(NamedTuple):
    """What the operator's own resource says; *has_started*: an operator ran for the job before.

    *job_id* is the uid of the job, *generation* that of the job when it was applied; "" where it does not say.
    """

    regions: int
    has_started: bool
    version: str
    job_id: str = ""
    generation: str = ""


class Conflict(SourceError):
    """The resource is at another version than the one that was to be replaced."""


def read(raw: bytes | msgspec.Raw) -> Resource:
    """Read a region's resource; raises `BadInput` in one line where it is none that can be run."""
    try:
        body: dict[str, Any] = msgspec.json.decode(raw)
        meta = body["metadata"]
        name, version = str(meta["name"]), str(meta["resourceVersion"])
    except _UNREADABLE:
        raise BadInput("a ConsistentRegion that is no object with a name and a version") from None
    region, run_before = region_of(body, f"ConsistentRegion {name}")
    return Resource(name, version, region, run_before)


class Resources:
    """Reads and writes the resources of *job* in *namespace*."""

    def __init__(self, api: Api, namespace: str, job: str) -> None:
        self._api, self._namespace, self._job = api, namespace, job

    def region(self, name: str) -> Resource:
        """Read a region's resource as it is now."""
        return read(self._api.get(f"{paths.regions(self._namespace)}/{name}"))

    def write(self, name: str, version: str, spec: RegionSpec, status: RegionStatus) -> str:
        """Replace the status of a region at *version*; return the new version.

        Raises `Conflict` where the resource is at another version, `SourceError` otherwise; after a `Temporary`
        nobody knows whether it was written.
        """
        path = f"{paths.regions(self._namespace)}/{name}/status"
        parts = {"spec": wire(spec), "status": wire(status)}
        return _version(self._replace(path, REGION, name, version, parts))

    def operator(self) -> Started:
        """Read the operator's own resource; raises `Permanent` (``status_404``) where the job has none."""
        path = f"{paths.operators(self._namespace)}/{paths.operator_name(self._job)}"
        try:
            body = _decoded(self._api.get(path), path)
        except Permanent as error:
            if error.reason != "status_404":
                raise
            where = f"job {self._job} in namespace {self._namespace}"
            message = f"{where} has no {OPERATOR}: apply its regions first"
            raise Permanent(error.source, error.reason, message) from None
        spec, status = body.get("spec") or {}, body.get("status") or {}
        regions = spec.get("numRegions")
        if not isinstance(regions, int) or regions < 0:
            raise BadInput(f"{OPERATOR} {paths.operator_name(self._job)}: spec.numRegions: {regions!r} is no number")
        meta = body["metadata"]
        return Started(
            regions,
            status.get("hasStarted") is True,
            str(meta["resourceVersion"]),
            str(spec.get("jobId") or ""),
            str((meta.get("labels") or {}).get(paths.GENERATION, "")),
        )

    def mark_started(self, started: Started) -> None:
        """Note that an operator runs: whatever runs after it starts again. Raises `Conflict`, `SourceError`."""
        name = paths.operator_name(self._job)
        path = f"{paths.operators(self._namespace)}/{name}/status"
        parts = {
            "spec": {"jobName": self._job, "numRegions": started.regions},
            "status": {"hasStarted": True},
        }
        self._replace(path, OPERATOR, name, started.version, parts)

    def _replace(self, path: str, kind: str, name: str, version: str, parts: Mapping[str, Any]) -> Mapping[str, Any]:
        meta = {"name": name, "namespace": self._namespace, "resourceVersion": version}
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, **parts}
        try:
            return _decoded(self._api.send("PUT", path, msgspec.json.encode(body)), path)
        except Permanent as error:
            if error.reason == "status_409":
                raise Conflict(error.source, error.reason, str(error)) from None
            raise


def _version(body: Mapping[str, Any]) -> str:
    return str(body["metadata"]["resourceVersion"])


def _decoded(raw: bytes, path: str) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(raw)
    except NOT_JSON:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        raise Permanent("kubernetes", "not_json", f"{path}: the answer is no object")
    return body
