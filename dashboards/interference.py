"""Interference: who slows down whom, how sure that is, how it changed, and whether what was said came true."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.board import board, cluster, function, namespace
from dashboards.panels import Query, lines, listing, matrix, number, told

_C = 'cluster=~"$cluster"'
_V = f'{_C}, victim=~"($namespace)/.*", victim=~"$function"'
_OBSERVED, _PREDICTED = ', status="observed"', ', status="predicted"'
_DRIFT = told(f'abs(colocation_function_drift{{{_C}, function=~"$function"}})', "cluster", "function")
_PAIR = "{{victim}} beside {{aggressor}}"


def _strongest(name: str) -> str:
    return told(f"colocation_pair_{name}{{{_V}}}", "cluster", "victim", "aggressor", "status")


def _pairs(more: str = "") -> str:
    return told(f"colocation_pairs{{{_C}{more}}}", "cluster", "status")


def _calibrated(name: str) -> str:
    return told(f'colocation_model_{name}_ratio{{{_C}, status="predicted"}}', "cluster", "status", "bin")


def interference() -> Dashboard:
    """Build the dashboard."""
    pairs = (
        number("Pairs observed", "Pairs with enough meetings to tell.",
               Query(f"sum({_pairs(_OBSERVED)}) or vector(0)")),
        number("Pairs predicted", "Pairs told of by their profiles, for want of meetings.",
               Query(f"sum({_pairs(_PREDICTED)}) or vector(0)")),
        number("Strongest slowdown", "Of the pairs shown.", Query(f"max({_strongest('slowdown_ratio')})"),
               unit="percentunit"),
        number("Interfering pairs", "Of the strongest: slowed by 5 % or more with a probability of .9 or more.",
               Query(f"count({_strongest('slowdown_ratio')} >= 0.05"
                     f" and {_strongest('interference_probability_ratio')} >= 0.9) or vector(0)")),
        number("Most drifting", "Largest drift of a function, in deviations of a usual day.",
               Query(f"max(abs(colocation_function_drift{{{_C}}}))")),
        number("Held back", "Models that are newer than the one that answers.",
               Query(f"sum({told(f'colocation_model_held_back{{{_C}}}', 'cluster', 'reason')}) or vector(0)")),
        matrix("Victim by aggressor", "How much longer the victim (row) takes beside one always-running aggressor"
               " (column).", Query(f"max by (victim, aggressor) (colocation_pair_slowdown_ratio{{{_V}}})"),
               row="victim", column="aggressor", unit="percentunit"),
        listing("Strongest pairs", "With the 90 % interval and what it rests on.",
                Query(_strongest("slowdown_ratio"), "slowdown"),
                Query(_strongest("slowdown_low_ratio"), "low"),
                Query(_strongest("slowdown_high_ratio"), "high"),
                Query(_strongest("interference_probability_ratio"), "probability"),
                Query(_strongest("effective_overlaps"), "overlaps"),
                units=dict.fromkeys(("slowdown", "low", "high", "probability"), "percentunit"), width=24),
    )  # fmt: skip
    over_time = (
        lines("Slowdown over time", "The ten strongest pairs.",
              Query(f"topk(10, {_strongest('slowdown_ratio')})", _PAIR), unit="percentunit"),
        lines("Evidence", "Independent meetings of the ten pairs with most.",
              Query(f"topk(10, {_strongest('effective_overlaps')})", _PAIR)),
        lines("Pairs by what is known of them", "Observed pairs replace predicted and unknown ones with time.",
              Query(f"sum by (status) ({_pairs()})", "{{status}}"), stacked=True),
        lines("Drift", "Functions whose runs differ most from what the model expects; beyond 4 it is refitted.",
              Query(f"topk(10, {_DRIFT})", "{{function}}")),
    )  # fmt: skip
    came_true = (
        lines("Observed and predicted slowdown", "Mean over the strongest pairs, by what they were told of as.",
              Query(f"avg by (status) ({_strongest('slowdown_ratio')})", "{{status}}"), unit="percentunit"),
        lines("Error of stated probabilities", "Mean distance of the stated probability and the share that did.",
              Query(told(f"colocation_model_calibration_error_ratio{{{_C}}}", "cluster", "status"),
                    "{{cluster}} {{status}}"),
              unit="percentunit"),
        listing("Predicted against observed", "Pairs left out, predicted, then looked at: by tenths of probability,"
                " the mean stated and the share found to interfere.",
                Query(_calibrated("stated_probability"), "stated"),
                Query(_calibrated("found"), "found"),
                units={"stated": "percentunit", "found": "percentunit"}),
        lines("Distance of increments to full fits", "In standard errors of the full fit.",
              Query(told(f"colocation_learning_distance{{{_C}}}", "cluster", "of"), "{{cluster}} {{of}}")),
    )  # fmt: skip
    return board(
        "interference",
        "interference",
        "Which functions slow down which, on how much evidence, and whether predictions came true.",
        (cluster(), namespace(), function()),
        ("Pairs", pairs),
        ("Over time", over_time),
        ("Observed against predicted", came_true),
    )
