"""The body of POST /v1/recommendations: a Pod, or {"pod", "cluster", "mode"}; JSON or YAML."""

from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from jobs.service.routes import RecommendationRequest
from pipeline.errors import BadInput

#: Reading YAML is some hundred times slower than JSON; a pod is a few kilobytes.
_LONGEST_YAML = 1024 * 1024


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # which of the two is not known
    """YAML whose times stay text, as they are in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(body: bytes) -> RecommendationRequest:
    """Read the body; raises `BadInput` naming the field."""
    given = _mapping(body)
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


def _mapping(body: bytes) -> dict[str, Any]:
    try:
        given: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        given = _yaml(body)
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise BadInput("body: expected one object, in JSON or YAML")
    return given


def _yaml(body: bytes) -> Any:
    if len(body) > _LONGEST_YAML:
        raise BadInput(f"body: YAML longer than {_LONGEST_YAML} bytes; send JSON")
    try:
        # A few lines of aliases can stand for gigabytes.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(body, Loader=_Loader)):
            raise BadInput("body: YAML aliases are not accepted")
        return yaml.load(body, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BadInput(f"body: neither JSON nor YAML: {str(error).splitlines()[0]}") from None
