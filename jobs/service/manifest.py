"""The body of POST /v1/recommendations: a Pod, or {"pod", "cluster", "mode"}; JSON or YAML."""

from collections.abc import Mapping
from typing import Any

import msgspec

from jobs.service import text
from jobs.service.routes import RecommendationRequest
from pipeline.errors import BadInput


def parse(body: bytes) -> RecommendationRequest:
    """Read the body; raises `BadInput` naming the field."""
    given = text.mapping(body)
    if "pod" not in given or "kind" in given:
        request = RecommendationRequest(pod=given)
    else:
        try:
            request = msgspec.convert(given, RecommendationRequest, strict=True)
        except msgspec.ValidationError as error:
            raise BadInput(f"body: {error}") from None
    _check(request.pod)
    return request


def _check(pod: Mapping[str, Any]) -> None:
    kind = pod.get("kind", "Pod")
    if kind != "Pod":
        raise BadInput(f"body: kind {kind!r}: not a Pod")
    if not isinstance(pod.get("spec"), Mapping):
        raise BadInput("body: no Pod: spec is missing or no object")
