"""The body of POST /v1/recommendations: a Pod, or {"pod", "cluster", "mode"}; JSON or YAML."""

from typing import Any

import msgspec
import yaml

from jobs.service.routes import RecommendationRequest
from pipeline.errors import BadInput


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # which of the two is not known
    """YAML without aliases (a few lines of which can stand for gigabytes) and with JSON's scalars alone for times."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(body: bytes) -> RecommendationRequest:
    """Read the body; raises `BadInput` naming the field."""
    given = _mapping(body)
    if "pod" not in given or "kind" in given:
        return RecommendationRequest(pod=given)
    try:
        return msgspec.convert(given, RecommendationRequest, strict=True)
    except msgspec.ValidationError as error:
        raise BadInput(f"body: {error}") from None


def _mapping(body: bytes) -> dict[str, Any]:
    try:
        given: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        given = _yaml(body)
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise BadInput("body: expected one object, in JSON or YAML")
    return given


def _yaml(body: bytes) -> Any:
    try:
        return yaml.load(body, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BadInput(f"body: neither JSON nor YAML: {str(error).splitlines()[0]}") from None
