"""Why an aim is out of reach: what methods that know more reach on the same pairs."""

from collections.abc import Sequence

from benchmarks.figures import Figure

#: What is told of each method, the one that knows most first.
_KNOWS = {
    "latent": "every demand and sensitivity known, no run seen",
    "informed": "the same evidence weighed by Bayes' rule, the law of the world, demands and sensitivities known",
    "oracle": "each run's input size known; of pairs never seen, the truth of every other pair",
    "kept": "truths drawn from our own probabilities: what chance alone leaves, and what these can tell at most",
}


def short_of_aim(figures: Sequence[Figure]) -> list[str]:
    """Return lines that set every figure short of its aim beside what those reach who know more; none, no lines."""
    rows = []
    for figure in figures:
        less = figure.goal.startswith("<=")
        aim = figure.beside.get("aim")
        if aim is None or (figure.value <= aim if less else figure.value >= aim):
            continue
        known = [name for name in _KNOWS if name in figure.beside]
        reach = [name for name in known if (figure.beside[name] <= aim if less else figure.beside[name] >= aim)]
        told = ", ".join(f"{name} {figure.beside[name]:.3f}" for name in known)
        whom = f"reached by {', '.join(reach)}" if reach else "reached by none of them"
        rows.append(
            f"- {figure.name}: {figure.value:.3f}, aim {aim:.2f}; {told or 'nobody knows more'}; the aim is {whom}"
        )
    if not rows:
        return []
    legend = [f"- {name}: {meaning}" for name, meaning in _KNOWS.items()]
    return [
        "",
        "Short of the aim, and what those reach who know what nobody can know of a real cluster:",
        *rows,
        "",
        *legend,
    ]
