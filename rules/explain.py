"""What was decided, in sentences for people, and the rows of the table of nodes."""

from collections.abc import Iterator

from rules.recommend import Recommendation
from rules.scoring import told


def text(recommendation: Recommendation) -> str:
    """Return the whole answer for a person: the outcome, a table of nodes, a sentence for each reason."""
    lines = [_headline(recommendation)]
    table = [("", "node", "score", "because"), *rows(recommendation)]
    if len(table) > 1:
        widths = [max(len(row[column]) for row in table) for column in range(3)]
        for rank, node, score, why in table:
            cells = (rank.rjust(widths[0]), node.ljust(widths[1]), score.rjust(widths[2]), why)
            lines.append("  ".join(cells).rstrip())
    lines += [f"- {reason.rule}: {reason.sentence}" for reason in recommendation.reasons]
    return "\n".join(lines)


def _headline(recommendation: Recommendation) -> str:
    pod = f"pod {recommendation.namespace}/{recommendation.pod}"
    done = {"patched": "gets rules", "unchanged": "is not changed", "left_alone": "is left alone"}
    said = f"{pod} {done[recommendation.outcome]} (mode {recommendation.mode}, snapshot {recommendation.snapshot})"
    return said if recommendation.satisfiable else f"{said}; no node can take it now"


def rows(recommendation: Recommendation) -> Iterator[tuple[str, str, str, str]]:
    """Yield (rank, node, score, reasons) of each ranked node, for a table."""
    for rank, node in enumerate(recommendation.nodes, start=1):
        yield str(rank), node.name, told(node.score), "; ".join(node.reasons)
