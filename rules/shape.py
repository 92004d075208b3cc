"""Whether the parts of a pod that are changed have the shape that Kubernetes gives them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from pipeline.errors import BadInput


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """Only what is read or changed; other fields are left as they are."""


class _Requirement(_Wire):
    key: str
    operator: str
    values: list[str] | None = None


class _NodeTerm(_Wire):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _NodeRequired(_Wire):
    node_selector_terms: list[_NodeTerm | None] | None = None


class _NodePreference(_Wire):
    weight: int
    preference: _NodeTerm


class _NodeAffinity(_Wire):
    required_during_scheduling_ignored_during_execution: _NodeRequired | None = None
    preferred_during_scheduling_ignored_during_execution: list[_NodePreference] | None = None


class _PodAffinity(_Wire):
    required_during_scheduling_ignored_during_execution: list[dict[str, Any]] | None = None
    preferred_during_scheduling_ignored_during_execution: list[dict[str, Any]] | None = None


class _Affinity(_Wire):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _Toleration(_Wire):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _Spec(_Wire):
    affinity: _Affinity | None = None
    node_selector: dict[str, str] | None = None
    node_name: str | None = None
    tolerations: list[_Toleration] | None = None


class _Metadata(_Wire):
    name: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Pod(_Wire):
    metadata: _Metadata | None = None
    spec: _Spec | None = None


def check(pod: Mapping[str, Any], name: str) -> None:
    """Raise `BadInput` naming the field where *pod* has another shape."""
    try:
        msgspec.convert(pod, _Pod)
    except msgspec.ValidationError as error:
        raise BadInput(f"pod {name}: {str(error).replace('`$.', '`')}") from None
