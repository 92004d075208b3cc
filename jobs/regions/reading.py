"""Regions as people look at them: rows for a list, one region whole, and requests to an operator."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from jobs.regions import paths
from jobs.regions.applying import Cluster
from jobs.regions.resources import read
from jobs.regions.rest import BASE
from pipeline.errors import BadInput, Permanent, SourceError, Temporary
from rules.regions.region import Region

#: Columns of a list, in its order.
COLUMNS = (
    *("job", "region", "trigger", "state", "healthy", "current_seq_id", "last_completed_seq_id", "reset_attempts"),
    *("max_reset_attempts", "average_drain_ms", "average_reset_ms", "pes", "namespace"),
)


def rows(cluster: Cluster, namespace: str | None, job: str | None) -> Iterator[dict[str, Any]]:
    """Yield a row a region, of all namespaces and jobs by default; one that cannot be read has only its name."""
    path = paths.regions(namespace) if namespace else paths.ALL_REGIONS
    selector = f"{paths.JOB}={job}" if job else ""
    for raw in cluster.list(path, label_selector=selector).items:
        meta = msgspec.json.decode(raw)["metadata"]
        where = {"job": (meta.get("labels") or {}).get(paths.JOB, ""), "namespace": meta.get("namespace", "")}
        try:
            region = read(raw).region
        except BadInput as error:
            yield {**dict.fromkeys(COLUMNS), **where, "region": meta["name"], "state": str(error)}
            continue
        yield {**_row(region), **where}


def _row(region: Region) -> dict[str, Any]:
    spec, status = region
    return {
        "region": spec.region_index,
        "trigger": spec.trigger.value,
        "state": status.state.value,
        "healthy": status.region_healthy,
        "current_seq_id": status.current_seq_id,
        "last_completed_seq_id": status.last_completed_seq_id,
        "reset_attempts": status.current_reset_attempt,
        "max_reset_attempts": status.current_max_reset_attempts,
        "average_drain_ms": status.avg_drain_time_metric,
        "average_reset_ms": status.avg_reset_time_metric,
        "pes": len(spec.pes_in_region),
    }


def one(cluster: Cluster, namespace: str, job: str, index: int) -> dict[str, Any]:
    """Return the resource of one region; raises `BadInput` where there is none."""
    try:
        found: dict[str, Any] = msgspec.json.decode(
            cluster.get(f"{paths.regions(namespace)}/{paths.region_name(job, index)}")
        )
    except SourceError as error:
        if error.reason == "status_404":
            raise BadInput(f"region {index} of job {job} in namespace {namespace}: no such region") from None
        raise
    found["metadata"].pop("managedFields", None)
    return found


def ask(cluster: Cluster, url: str | None, namespace: str, job: str, request: str, body: Mapping[str, Any]) -> None:
    """PUT *request* (``region/0/reset``) to the operator of *job*: at *url*, else through the API server.

    Raises `SourceError` where the operator cannot be reached or refuses.
    """
    encoded = msgspec.json.encode(body)
    if url is None:
        service = f"{quote(paths.service_name(job))}:sys-api"
        try:
            cluster.send("PUT", f"{paths.services(namespace)}/{service}/proxy{BASE}/{request}", encoded)
        except SourceError as error:
            if error.reason not in ("status_404", "status_503"):
                raise
            message = f"no operator of job {job} in namespace {namespace} answers ({error.reason}): does it run?"
            raise Temporary("operator", error.reason, message) from None
        return
    try:
        answer = httpx.put(
            f"{url.rstrip('/')}{BASE}/{request}",
            content=encoded,
            headers={"Content-Type": "application/json"},
            timeout=10.0,
            trust_env=False,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Temporary("operator", "connection", f"{url}: {type(error).__name__}: no answer") from None
    if answer.status_code != 204:
        raise Permanent("operator", f"status_{answer.status_code}", f"{url}: status {answer.status_code}")
