"""Interference: who slows down whom, how sure that is, how it changed, and whether what was said came true."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.board import board, cluster, function, namespace
from dashboards.panels import Query, lines, listing, matrix, number

_C = 'cluster=~"$cluster"'
_V = f'{_C}, victim=~"($namespace)/.*", victim=~"$function"'
_BY = "max by (cluster, victim, aggressor, status)"
_PAIR = "{{victim}} beside {{aggressor}}"


def _strongest(name: str) -> str:
    return f"{_BY} (colocation_pair_{name}{{{_V}}})"


def interference() -> Dashboard:
    """Build the dashboard."""
    pairs = (
        number("Pairs observed", "Pairs with enough meetings to tell.",
               Query(f'sum(colocation_pairs{{{_C}, status="observed"}}) or vector(0)')),
        number("Pairs predicted", "Pairs told of by their profiles, for want of meetings.",
               Query(f'sum(colocation_pairs{{{_C}, status="predicted"}}) or vector(0)')),
        number("Strongest slowdown", "Of the pairs shown.", Query(f"max({_strongest('slowdown_ratio')})"),
               unit="percentunit"),
        number("Interfering pairs", "Of the strongest: slowed by 5 % or more with a probability of .9 or more.",
               Query(f"count(colocation_pair_slowdown_ratio{{{_V}}} >= 0.05"
                     f" and colocation_pair_interference_probability_ratio{{{_V}}} >= 0.9) or vector(0)")),
        number("Most drifting", "Largest drift of a function, in deviations of a usual day.",
               Query(f"max(abs(colocation_function_drift{{{_C}}}))")),
        number("Held back", "Models that are newer than the one that answers.",
               Query(f"sum(colocation_model_held_back{{{_C}}}) or vector(0)")),
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
              Query(f"sum by (status) (colocation_pairs{{{_C}}})", "{{status}}"), stacked=True),
        lines("Drift", "Functions whose runs differ most from what the model expects; beyond 4 it is refitted.",
              Query(f"topk(10, abs(colocation_function_drift{{{_C}, function=~\"$function\"}}))", "{{function}}")),
    )  # fmt: skip
    told = (
        lines("Observed and predicted slowdown", "Mean over the strongest pairs, by what they were told of as.",
              Query(f"avg by (status) (colocation_pair_slowdown_ratio{{{_V}}})", "{{status}}"), unit="percentunit"),
        lines("Error of stated probabilities", "Mean distance of the stated probability and the share that did.",
              Query(f"colocation_model_calibration_error_ratio{{{_C}}}", "{{cluster}} {{status}}"),
              unit="percentunit"),
        listing("Predicted against observed", "Pairs left out, predicted, then looked at: by tenths of probability,"
                " the mean stated and the share found to interfere.",
                Query(f'colocation_model_stated_probability_ratio{{{_C}, status="predicted"}}', "stated"),
                Query(f'colocation_model_found_ratio{{{_C}, status="predicted"}}', "found"),
                units={"stated": "percentunit", "found": "percentunit"}),
        lines("Distance of increments to full fits", "In standard errors of the full fit.",
              Query(f"colocation_learning_distance{{{_C}}}", "{{cluster}} {{of}}")),
    )  # fmt: skip
    return board(
        "interference",
        "interference",
        "Which functions slow down which, on how much evidence, and whether predictions came true.",
        (cluster(), namespace(), function()),
        ("Pairs", pairs),
        ("Over time", over_time),
        ("Observed against predicted", told),
    )
