"""Dashboards as Grafana reads them: their panels, queries and variables."""

from collections.abc import Iterator, Mapping
from typing import Any


def panels(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every panel with queries, those inside of collapsed rows too."""
    for panel in document["panels"]:
        if panel["type"] == "row":
            yield from panels({"panels": panel.get("panels") or ()})
        else:
            yield panel


def queries(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the expression of every query."""
    for panel in panels(document):
        for target in panel["targets"]:
            yield target["expr"]


def variables(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the query of each variable that has one."""
    listed = document["templating"]["list"]
    return {each["name"]: each["query"] for each in listed if each["type"] == "query"}
