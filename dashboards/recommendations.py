"""Recommendations: what was decided and why, whether it was followed, what came of it, and the webhook itself."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.board import board, cluster
from dashboards.panels import Query, lines, listing, number, told

_C = 'cluster=~"$cluster"'
_WENT, _NOT, _KNOWN = ', followed="yes"', ', followed="no"', ', followed!="unknown"'
_RATE = "[$__rate_interval]"
_BUCKETS = f"sum by (le) (rate(colocation_webhook_duration_seconds_bucket{_RATE}))"


def _became(name: str, more: str = "") -> str:
    return told(f"colocation_decided_{name}{{{_C}{more}}}", "cluster", "mode", "followed")


def recommendations() -> Dashboard:
    """Build the dashboard."""
    decided = (
        number("Decisions", "Since the service started.", Query("sum(colocation_decisions_total)")),
        number("Followed", "Pods that went to a node ranked first, of those where that is known.",
               Query(f"sum({_became('pods', _WENT)}) / sum({_became('pods', _KNOWN)})"), unit="percentunit"),
        number("Gain", "Run time of pods that followed over that of pods that did not, each beside what is usual for"
               " its function.",
               Query(f"avg({_became('latency_ratio', _WENT)}) / avg({_became('latency_ratio', _NOT)})"),
               unit="percentunit"),
        number("99 % answered within", "Of the last minutes.",
               Query(f"histogram_quantile(0.99, {_BUCKETS})"), unit="s"),
        number("Failed open", "Reviews that were admitted unchanged after an error, in an hour.",
               Query("sum(increase(colocation_webhook_errors_total[1h])) or vector(0)")),
        number("Not recorded", "Decisions that were not kept for the history, in an hour.",
               Query("sum(increase(colocation_decisions_dropped_total[1h]))")),
        lines("By mode and outcome", "Decisions a second.",
              Query(f"sum by (mode, outcome) (rate(colocation_decisions_total{_RATE}))", "{{mode}} {{outcome}}"),
              stacked=True),
        lines("By reason", "Why less than everything was advised; none is the rule.",
              Query(f"sum by (reason) (rate(colocation_decisions_total{_RATE}))", "{{reason}}"), stacked=True),
    )  # fmt: skip
    came_of_it = (
        lines("Followed or not", "Decided pods that were seen on a node.",
              Query(f"sum by (mode, followed) ({_became('pods')})", "{{mode}} followed: {{followed}}"),
              stacked=True),
        lines("Run time of pods that followed, and of those that did not",
              "Median over pods, beside what is usual for their functions: 1 is as usual.",
              Query(_became("latency_ratio"), "{{mode}} followed: {{followed}}"),
              unit="percentunit"),
        listing("By mode", "Pods and their run time beside what is usual.",
                Query(f"sum by (mode, followed) ({_became('pods')})", "pods"),
                Query(f"avg by (mode, followed) ({_became('latency_ratio')})", "run time"),
                units={"run time": "percentunit"}, width=24),
    )  # fmt: skip
    webhook = (
        lines("Latency", "Of answers to reviews.",
              *(Query(f"histogram_quantile({quantile}, {_BUCKETS})", f"{100 * quantile:g} %")
                for quantile in (0.5, 0.95, 0.99)), unit="s"),
        lines("Reviews a second", "All that were answered.",
              Query(f"sum(rate(colocation_webhook_duration_seconds_count{_RATE}))", "reviews")),
        lines("Errors by cause", "Reviews that were admitted unchanged after an error, and requests that held none"
              " (rejected), a second.",
              Query(f"sum by (cause) (rate(colocation_webhook_errors_total{_RATE}))", "{{cause}}"),
              Query(f"sum by (cause) (rate(colocation_webhook_rejected_total{_RATE}))", "rejected: {{cause}}")),
        lines("Rules left out", "Answers without a rule that was late or failed, a second.",
              Query(f"sum by (rule, cause) (rate(colocation_rules_left_out_total{_RATE}))", "{{rule}} {{cause}}")),
        lines("Requests without the right credentials", "A second.",
              Query(f"sum(rate(colocation_unauthorized_requests_total{_RATE}))", "refused")),
    )  # fmt: skip
    return board(
        "recommendations",
        "recommendations",
        "Decisions by mode and reason, whether pods followed them and how they fared, and the webhook.",
        (cluster(),),
        ("Decisions", decided),
        ("What came of them", came_of_it),
        ("Webhook", webhook),
    )
