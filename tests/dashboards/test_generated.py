"""The committed dashboards are what the code builds, and each shows what it is for."""

import json
import re
from typing import Any

import pytest
import yaml

from dashboards.generate import DIRECTORY, documents
from dashboards.table import DASHBOARDS
from jobs.service import described
from jobs.service.families import pairs
from tests.support.dashboards import panels, queries, variables

BUILT: dict[str, dict[str, Any]] = {name: json.loads(text) for name, text in documents().items()}

#: What each dashboard must show: metrics that some panel of it asks for, and kinds of panels.
SHOWS = {
    "overview": {"nodes", "node_cpu_used_cores", "node_memory_used_bytes", "source_last_success_timestamp_seconds",
                 "source_errors_total", "job_runs_total"},
    "interference": {"pair_slowdown_ratio", "pair_effective_overlaps", "pairs", "model_found_ratio",
                     "model_stated_probability_ratio"},
    "functions": {"function_class_info", "function_cpu_used_cores", "function_latency_seconds"},
    "recommendations": {"decisions_total", "decided_pods", "decided_latency_ratio",
                        "webhook_duration_seconds_bucket", "webhook_errors_total", "webhook_rejected_total"},
    "requirements": {"refusals_total"},
    "disks": {"drives", "disk_free_bytes", "drive_busy_ratio"},
    "regions": {"region_average_drain_time_milliseconds", "region_average_reset_time_milliseconds",
                "region_last_consistent_state_time_milliseconds", "region_last_reset_time_milliseconds",
                "region_last_completed_drain_seq_id", "region_last_completed_reset_seq_id", "region_state",
                "region_n_current_reset_attempts"},
}  # fmt: skip


def test_the_committed_files_are_what_the_code_builds() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in DIRECTORY.glob("*.json")}
    assert committed == documents()


def test_every_dashboard_is_tested_here() -> None:
    assert set(SHOWS) == set(DASHBOARDS)


@pytest.mark.parametrize("name", SHOWS)
def test_it_shows_what_it_is_for(name: str) -> None:
    asked = {metric for query in queries(BUILT[f"{name}.json"]) for metric in re.findall(r"colocation_(\w+)", query)}
    assert SHOWS[name] <= asked


def named(query: str) -> set[str]:
    """Return the metrics that a query asks for."""
    return {re.sub(r"_(bucket|count|sum)$", "", metric) for metric in re.findall(r"\bcolocation_\w+", query)}


def unknown(name: str) -> dict[str, set[str]]:
    """Return the metrics that the code has none of, by the query of dashboard *name* that asks for them."""
    known = {described.name(family) for family in described.families()}
    document = BUILT[f"{name}.json"]
    found = {query: named(query) - known for query in (*queries(document), *variables(document).values())}
    return {query: metrics for query, metrics in found.items() if metrics}


@pytest.mark.parametrize("name", SHOWS)
def test_it_asks_for_metrics_of_the_reference_alone(name: str) -> None:
    assert unknown(name) == {}


def test_a_metric_that_is_renamed_in_the_code_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    [heat_map] = [panel for panel in panels(BUILT["interference.json"]) if panel["title"] == "Victim by aggressor"]
    monkeypatch.setattr(pairs, "_VALUES", tuple((column, f"{name}s", text) for column, name, text in pairs._VALUES))
    assert unknown("interference")[heat_map["targets"][0]["expr"]] == {"colocation_pair_slowdown_ratio"}


#: Queries that show a zero where there is no series, by dashboard: a real Prometheus cannot tell them renamed.
ZEROS = [(name, query) for name in SHOWS for query in queries(BUILT[f"{name}.json"]) if "vector(0)" in query]


@pytest.mark.parametrize(("name", "query"), ZEROS, ids=[f"{name}-{query[:40]}" for name, query in ZEROS])
def test_a_zero_in_place_of_nothing_hides_no_metric_that_is_renamed(
    name: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {described.name(family): family for family in described.families()}
    assert named(query)
    for metric in named(query):
        left = [family for known, family in there.items() if known != metric]
        assert len(left) == len(there) - 1
        monkeypatch.setattr(described, "families", lambda left=left: left)
        assert unknown(name)[query] == {metric}


def test_victims_by_aggressors_are_a_heat_map_and_states_a_timeline() -> None:
    [matrix] = [panel for panel in panels(BUILT["interference.json"]) if panel["title"] == "Victim by aggressor"]
    [grouped] = [each["options"] for each in matrix["transformations"] if each["id"] == "groupingToMatrix"]
    assert (grouped["rowField"], grouped["columnField"]) == ("victim", "aggressor")
    [timeline] = [panel for panel in panels(BUILT["regions.json"]) if panel["type"] == "state-timeline"]
    assert "colocation_region_state" in timeline["targets"][0]["expr"]
    words = timeline["fieldConfig"]["defaults"]["mappings"][0]["options"]
    assert [words[str(number)]["text"] for number in range(7)][5] == "attempts used up"


@pytest.mark.parametrize("name", SHOWS)
def test_panels_and_dashboards_are_told_apart_and_explained(name: str) -> None:
    document = BUILT[f"{name}.json"]
    titles = [panel["title"] for panel in panels(document)]
    assert len(titles) == len(set(titles))
    assert all(panel["description"] and panel["targets"] for panel in panels(document))
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels(document))
    numbers = [panel["id"] for panel in document["panels"]]
    assert len(numbers) == len(set(numbers)) and 0 not in numbers
    assert len({each["uid"] for each in BUILT.values()}) == len(BUILT)


def test_there_are_variables_for_cluster_namespace_function_and_node() -> None:
    of = {name: set(variables(document)) for name, document in BUILT.items()}
    assert {"cluster", "node"} <= of["overview.json"]
    assert {"cluster", "namespace", "function"} <= of["interference.json"] & of["functions.json"]
    for name, document in BUILT.items():
        for query in queries(document):
            assert set(re.findall(r"\$(\w+)", query)) <= of[name] | {"__rate_interval"}, query


def test_provisioning_names_a_source_and_a_directory_of_dashboards() -> None:
    provisioning = DIRECTORY.parent / "provisioning"
    [source] = yaml.safe_load((provisioning / "datasources" / "colocation.yaml").read_text())["datasources"]
    assert (source["type"], source["access"]) == ("prometheus", "proxy")
    [provider] = yaml.safe_load((provisioning / "dashboards" / "colocation.yaml").read_text())["providers"]
    assert (provider["type"], provider["allowUiUpdates"]) == ("file", False)
    assert provider["options"]["path"] in (DIRECTORY.parents[2] / "docs" / "dashboards.md").read_text()
