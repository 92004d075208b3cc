"""Whether the panels of dashboards have something to show, asked of a real Prometheus."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from tests.support.dashboards import panels, variables

#: What Grafana would put in for its own variables, for a server that scrapes every two seconds.
_OWN = {"__rate_interval": "15s", "__interval": "2s", "__range": "10m"}


class Asking:
    """Asks the Prometheus at *url*, now or at *at* (epoch seconds)."""

    def __init__(self, url: str, at: float | None = None) -> None:
        self._client = httpx.Client(base_url=url, timeout=30)
        self._at = {} if at is None else {"time": str(at)}

    def series(self, query: str) -> list[Mapping[str, Any]]:
        """Return the series that *query* gives; an expression that does not parse fails the test."""
        answer = self._client.get("/api/v1/query", params={"query": query, **self._at})
        assert answer.status_code == 200, f"{query}: {answer.text}"
        found: list[Mapping[str, Any]] = answer.json()["data"]["result"]
        return found

    def empty(self, document: Mapping[str, Any], given: Mapping[str, str] | None = None) -> Iterator[str]:
        """Yield the title of every panel of *document* of which a query gives no series, all variables at All.

        Values of Grafana's own variables that are *given* replace the usual ones.
        """
        values = {**_OWN, **(given or {}), **dict.fromkeys(variables(document), ".*")}
        for panel in panels(document):
            for target in panel["targets"]:
                query = re.sub(r"\$(\w+)", lambda found: values[found[1]], target["expr"])
                found = self.series(query)
                assert not any("instance" in each["metric"] for each in found), f"by replica: {query}"
                if not found:
                    yield panel["title"]
                    break

    def choices(self, document: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return what each variable of *document* offers, with those before it at All."""
        found: dict[str, list[str]] = {}
        for name, query in variables(document).items():
            told = re.fullmatch(r"label_values\((.*), (\w+)\)", query)
            assert told is not None, query
            selector = re.sub(r"\$\w+", ".*", told[1])
            found[name] = sorted({each["metric"][told[2]] for each in self.series(selector)})
        return found
