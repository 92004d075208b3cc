"""Consistent regions of stream jobs: the eight metrics of each region, and its states over time."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.board import board, chosen
from dashboards.panels import Query, lines, listing, number, states, told

_R = 'cluster=~"$cluster", namespace=~"$namespace", stream_job=~"$job"'
_NAME = "{{stream_job}}/{{region}}"
_STATES = (
    ("started", "blue"), ("processing", "green"), ("unhealthy", "orange"), ("draining", "light-blue"),
    ("resetting", "yellow"), ("attempts used up", "red"), ("checkpoint pending", "purple"),
)  # fmt: skip


def _gauge(name: str) -> str:
    return told(f"colocation_region_{name}{{{_R}}}", "cluster", "namespace", "stream_job", "region")


def regions() -> Dashboard:
    """Build the dashboard."""
    now = (
        number("Regions", "As last listed.", Query(f"count({_gauge('state')})"), width=6),
        number("Processing", "Regions that do.", Query(f"count({_gauge('state')} == 1) or vector(0)"), width=6),
        number("Attempts used up", "Regions that nobody resets any more.",
               Query(f"count({_gauge('state')} == 5) or vector(0)"), width=6),
        number("Oldest consistent state", "Since the region with the oldest last drain completed it.",
               Query(f"time() - min({_gauge('last_consistent_state_time_milliseconds')} > 0) / 1000"), unit="s",
               width=6),
        states("States", "What each region was doing.", Query(_gauge("state"), _NAME), _STATES),
    )  # fmt: skip
    eight = (
        lines("Drain time", "Mean of the last ten.", Query(_gauge("average_drain_time_milliseconds"), _NAME),
              unit="ms"),
        lines("Reset time", "Mean of the last ten.", Query(_gauge("average_reset_time_milliseconds"), _NAME),
              unit="ms"),
        lines("Since the last drain", "That was completed.",
              Query(f"time() - ({_gauge('last_consistent_state_time_milliseconds')} > 0) / 1000", _NAME), unit="s"),
        lines("Since the last reset", "That was completed; none where there was none.",
              Query(f"time() - ({_gauge('last_reset_time_milliseconds')} > 0) / 1000", _NAME), unit="s"),
        lines("Last completed drain", "Its sequence id.", Query(_gauge("last_completed_drain_seq_id"), _NAME)),
        lines("Last completed reset", "Its sequence id.", Query(_gauge("last_completed_reset_seq_id"), _NAME)),
        lines("Reset attempts", "Since the last completed drain.",
              Query(_gauge("n_current_reset_attempts"), _NAME)),
        listing("All of each region", "The newest values.",
                *(Query(_gauge(name), column) for name, column in (
                    ("state", "state"), ("last_completed_seq_id", "checkpoint"),
                    ("n_current_reset_attempts", "attempts"), ("average_drain_time_milliseconds", "drain"),
                    ("average_reset_time_milliseconds", "reset"))),
                units={"drain": "ms", "reset": "ms"}),
    )  # fmt: skip
    variables = (
        chosen("cluster", "label_values(colocation_region_state, cluster)"),
        chosen("namespace", 'label_values(colocation_region_state{cluster=~"$cluster"}, namespace)'),
        chosen("job", 'label_values(colocation_region_state{namespace=~"$namespace"}, stream_job)'),
    )
    return board(
        "regions",
        "consistent regions",
        "The metrics of every consistent region, and its states over time.",
        variables,
        ("Now", now),
        ("Drains and resets", eight),
    )
