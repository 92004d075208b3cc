"""The routes of the page, and of what it shows beside the tables of `jobs.service.known`."""

from datetime import datetime
from typing import Any, Final

import msgspec

from jobs.service.operation import Operation
from jobs.service.tables import Page


class Source(msgspec.Struct, frozen=True):
    """How one source fares; *staleness_s* is the age of what is known from it, in seconds; None for never."""

    source: str
    outcome: str
    reason: str
    last_success: datetime | None
    last_attempt: datetime | None
    watermark: datetime | None
    staleness_s: float | None
    refused: int
    rows_total: int
    errors_total: int
    cluster: str


class Sources(msgspec.Struct, frozen=True):
    """The snapshot that answers are given from, its age, and every source; *stale* beyond *stale_after_s* seconds.

    *models* is the promoted model by cluster.
    """

    snapshot: str
    created: datetime
    age_s: float
    stale: bool
    stale_after_s: float
    clusters: tuple[str, ...]
    models: dict[str, str]
    total: int
    items: list[Source]


class HeatMap(msgspec.Struct, frozen=True):
    """The strongest of a cluster, each in falling order of its strongest slowdown; *cells* are their pairs.

    The totals count all victims and aggressors that match.
    """

    snapshot: str
    cluster: str
    victims: list[str]
    aggressors: list[str]
    victims_total: int
    aggressors_total: int
    cells: list[dict[str, Any]]


_CLUSTER: Final = {"cluster": "only of this cluster"}

PAGE: Final = (
    Operation("GET", "/", "page", "The page for people", media="text/html", open=True),
    Operation(
        "GET",
        "/page/{file}",
        "page_file",
        "What the page is made of: its style sheet and modules",
        media="*/*",
        open=True,
        problems=(404,),
    ),
    Operation("GET", "/v1/sources", "sources", "Health of the sources, and age of the snapshot", answer=Sources),
    Operation(
        "GET",
        "/v1/loads",
        "loads",
        "Nodes, the busiest first: shares of CPU and memory in use, and the functions that have pods there",
        answer=Page,
        parameters={
            **_CLUSTER,
            "search": "only nodes whose name, or the name of a function there, contains this",
            "limit": "rows at most",
            "offset": "rows to leave out",
        },
    ),
    Operation(
        "GET",
        "/v1/heat-map",
        "heat_map",
        "The strongest victims by the strongest aggressors of a cluster",
        answer=HeatMap,
        parameters={
            "cluster": "needed where there are several",
            "search": "only pairs in which a function's name contains this",
            "size": "victims, and aggressors, at most",
        },
    ),
    Operation(
        "GET",
        "/v1/evidence",
        "evidence",
        "Why a pair is told as it is: evidence, what was held constant, placebo, and what is missing to know more",
        answer=Page,
        parameters={
            "victim": "needed",
            "aggressor": "needed",
            **_CLUSTER,
            "node_type": "only of this node type, where one is told apart",
        },
        problems=(503,),
    ),
    Operation(
        "GET",
        "/v1/decisions/{decision}",
        "decision",
        "One decision: the whole recommendation with its reasons, and what became of it",
        answer=dict[str, Any],
        problems=(404, 503),
    ),
)
