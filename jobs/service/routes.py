"""Every route in one literal table; the application and its OpenAPI document are made from it."""

from typing import Any, Literal

import msgspec

from jobs.service.disks.operations import DISKS
from jobs.service.hostbodies import HostConstraints, HostConstraintsRequest, ReleasedJob
from jobs.service.intents.operations import INTENTS
from jobs.service.known import KNOWN
from jobs.service.operation import Operation
from jobs.service.page.operations import PAGE
from jobs.service.replication.operations import REPLICATION
from jobs.service.review import AdmissionAnswer, AdmissionReview
from jobs.service.tables import Page
from jobs.service.words import WORDS
from rules.policy import Mode


class RecommendationRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Pod, with the cluster to run it in and the mode to answer in."""

    pod: dict[str, Any]
    cluster: str | None = None
    mode: Mode | None = None


class Readiness(msgspec.Struct, frozen=True):
    """Whether requests can be answered, and from which snapshot."""

    status: Literal["ready", "starting"]
    snapshot: str
    live: bool


_PAGING = {"format": "json (default) or csv", "limit": "rows at most", "offset": "rows to leave out"}


def _words(parameter: str) -> str:
    return f": one of {', '.join(WORDS[parameter])}" if parameter in WORDS else ""


def _known(name: str) -> Operation:
    known = KNOWN[name]
    parameters = {name: f"only rows whose {column} is this{_words(name)}" for name, column in known.filters.items()}
    parameters |= {name: f"only rows whose {column} is at least this" for name, column in known.least.items()}
    return Operation("GET", f"/v1/{name}", name, known.summary, answer=Page, parameters={**parameters, **_PAGING})


ROUTES: tuple[Operation, ...] = (
    Operation("POST", "/mutate", "mutate", "Admission webhook for pods", (AdmissionReview,), AdmissionAnswer),
    Operation(
        "POST",
        "/v1/recommendations",
        "recommendations",
        "Where a pod should run: affinity, patch, ranked nodes and reasons; the body is JSON or YAML",
        (RecommendationRequest, dict[str, Any]),
        parameters={"cluster": "where to run it, unless the body says so", "mode": "observe, prefer or require"},
        yaml=True,
    ),
    Operation(
        "POST",
        "/v1/host-constraints",
        "host_constraints",
        "Submit a stream job: its pods and node changes, or every reason why it cannot be placed; JSON or YAML",
        (HostConstraintsRequest, dict[str, Any]),
        HostConstraints,
        problems=(422,),
    ),
    Operation(
        "DELETE",
        "/v1/host-constraints/{job}",
        "host_release",
        "Release a stream job: the nodes of its pools are given back",
        answer=ReleasedJob,
        problems=(404,),
    ),
    _known("functions"),
    _known("interference"),
    _known("nodes"),
    _known("regions"),
    Operation(
        "GET",
        "/v1/decisions",
        "decisions",
        "Decisions about pods, the newest first",
        answer=Page,
        parameters={
            "cluster": "only of this cluster",
            "namespace": "only of this namespace",
            "function": "only of this function",
            "mode": f"only in this mode{_words('mode')}",
            "outcome": f"only with this outcome{_words('outcome')}",
            **_PAGING,
        },
    ),
    *PAGE,
    *DISKS,
    *INTENTS,
    *REPLICATION,
    Operation("GET", "/metrics", "metrics", "Metrics for Prometheus", media="text/plain"),
    Operation("GET", "/healthz", "healthz", "Whether the process answers", media="text/plain", open=True),
    Operation("GET", "/readyz", "readyz", "Whether answers can be given", answer=Readiness, open=True),
    Operation("GET", "/openapi.json", "openapi", "This interface as an OpenAPI document"),
)
