"""Whether a pod would pass the API server: the published schema, and what the schema does not say."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import kubernetes_validate

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_OPERATORS = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False, "Gt": True, "Lt": True}


def check(pod: Mapping[str, Any]) -> None:
    """Raise AssertionError, or the validator's error, where the API server would reject *pod*."""
    whole = {"apiVersion": "v1", "kind": "Pod", **pod}
    kubernetes_validate.validate(whole, "1.31", strict=True)
    for key, value in (pod["metadata"].get("labels") or {}).items():
        assert len(value) <= 63 and _VALUE.fullmatch(value), f"label {key}: {value!r}"
    affinity = pod["spec"].get("affinity") or {}
    node = affinity.get("nodeAffinity") or {}
    if REQUIRED in node:
        assert node[REQUIRED]["nodeSelectorTerms"], "no node selector terms"
    for term in node.get(PREFERRED) or []:
        assert 1 <= term["weight"] <= 100
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind) or {}
        for term in part.get(PREFERRED) or []:
            assert 1 <= term["weight"] <= 100
        for term in [*(part.get(REQUIRED) or []), *(each["podAffinityTerm"] for each in part.get(PREFERRED) or [])]:
            assert term["topologyKey"], "empty topologyKey"
            assert term.get("labelSelector"), "a term that selects by nothing"
    for expression in _expressions(affinity):
        operator, values = expression["operator"], expression.get("values") or []
        assert operator in _OPERATORS, operator
        assert bool(values) == _OPERATORS[operator], f"{operator} with {len(values)} values"
        for value in values:
            assert isinstance(value, str) and len(value) <= 63 and _VALUE.fullmatch(value), value


def _expressions(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "matchExpressions":
                yield from inner
            else:
                yield from _expressions(inner)
    elif isinstance(value, list):
        for each in value:
            yield from _expressions(each)
