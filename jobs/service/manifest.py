"""The body of POST /v1/recommendations: a Pod, or {"pod", "cluster", "mode"}; JSON or YAML.

Cluster and mode may stand in the query instead, for a Pod that is sent as it is.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from jobs.service import text, words
from jobs.service.routes import RecommendationRequest
from pipeline.errors import BadInput

#: Query parameters that say beside a Pod what the other form says around it.
PARAMETERS = ("cluster", "mode")
_FIELDS = RecommendationRequest.__struct_fields__


def parse(body: bytes, query: Mapping[str, str] | None = None) -> RecommendationRequest:
    """Read the body, and from *query* what it does not say; raises `BadInput` naming the field."""
    query = query or {}
    words.check(query, PARAMETERS)
    given = text.mapping(body)
    if "pod" not in given or "kind" in given:
        request = _converted({"pod": given, **query}, "query")
    else:
        for name in given:
            if name not in _FIELDS:
                raise BadInput(f"body: {name!r:.60}: no such field; there are {', '.join(_FIELDS)}")
        if given.get("mode") is not None:
            words.check({"mode": given["mode"]}, PARAMETERS)
        request = _converted({**query, **given}, "body")
    _check(request.pod)
    return request


def _converted(given: Mapping[str, Any], where: str) -> RecommendationRequest:
    try:
        return msgspec.convert(given, RecommendationRequest, strict=True)
    except msgspec.ValidationError as error:
        raise BadInput(f"{where}: {error}") from None


def _check(pod: Mapping[str, Any]) -> None:
    kind = pod.get("kind", "Pod")
    if kind != "Pod":
        raise BadInput(f"body: kind {str(kind)[:60]!r}: not a Pod")
    if not isinstance(pod.get("spec"), Mapping):
        raise BadInput("body: no Pod: spec is missing or no object")
