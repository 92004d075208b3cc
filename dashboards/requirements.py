"""Hardware intents and host constraints: what could not be given, by cause."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.board import board
from dashboards.panels import Query, lines, listing, number, told

_READY = told('colocation_nodes{state="ready"}', "cluster", "node_type")
_TOTAL = "colocation_refusals_total"


def _refused(part: str) -> str:
    return f'{_TOTAL}{{part="{part}"}}'


def requirements() -> Dashboard:
    """Build the dashboard."""
    admitted = (
        number("Intents refused", "In an hour.", Query(f"sum(increase({_refused('hpa')}[1h]))"), width=6),
        number("Stream jobs refused", "In an hour.", Query(f"sum(increase({_refused('hosts')}[1h]))"), width=6),
        number("Pods without a node", "Reviews of an hour whose stated needs no node meets.",
               Query('sum(increase(colocation_decisions_total{reason="unsatisfiable"}[1h])) or vector(0)'), width=6),
        number("Nodes to choose from", "Ready and open to pods.",
               Query(f"sum({_READY})"), width=6),
    )  # fmt: skip
    causes = (
        lines("Hardware intents by cause", "Refused: invalid, unreadable, taken, or without the room or hardware.",
              Query(f"sum by (cause) (increase({_refused('hpa')}[$__rate_interval]))", "{{cause}}"), stacked=True),
        lines("Host constraints by cause", "Stream jobs that cannot be placed, by the conflict named.",
              Query(f"sum by (cause) (increase({_refused('hosts')}[$__rate_interval]))", "{{cause}}"), stacked=True),
        listing("All refusals", "Since the service started.", Query(f"sum by (part, cause) ({_TOTAL})", "refused"),
                width=24),
    )  # fmt: skip
    return board(
        "requirements",
        "HPA and host constraints",
        "Hardware intents and stream jobs that could not be served, by cause.",
        (),
        ("At a glance", admitted),
        ("Causes", causes),
    )
