"""What a benchmark reports, and rounds that are interleaved so that a slow minute hits every side alike."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure: *value* in *unit*; *ratio* is value against *floor* (same unit) where one was measured.

    *spread* is the interquartile range of the rounds' values, relative to their median. *goal* says what the ratio
    or value has to reach, in words; *met* whether it did (None: no goal). *beside* are values of the measure that
    were reached otherwise, by name. *series* are the values that a picture is drawn of.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    ratio: float | None = None
    spread: float | None = None
    goal: str = ""
    met: bool | None = None
    note: str = ""
    beside: Mapping[str, float] = field(default_factory=dict)
    series: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one side over the rounds: the median and the relative interquartile range."""

    median: float
    spread: float
    seconds: tuple[float, ...]


def interleaved(sides: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, Timing]:
    """Time each side once a round, in turn, after one untimed round; wall seconds by `time.perf_counter`."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            gc.collect()
            began = time.perf_counter()
            side()
            if number:
                taken[name].append(time.perf_counter() - began)
    return {name: timing(seconds) for name, seconds in taken.items()}


def timing(seconds: Sequence[float]) -> Timing:
    """Summarise the seconds of several rounds."""
    low, middle, high = np.percentile(np.asarray(seconds), [25, 50, 75])
    return Timing(float(middle), float((high - low) / middle) if middle else 0.0, tuple(seconds))


def table(figures: Sequence[Figure]) -> str:
    """Render figures as a Markdown table, and below it what stands beside them."""
    rows = ["| figure | value | floor | ratio | spread | goal | met |", "|---|---|---|---|---|---|---|"]
    for figure in figures:
        cells = (
            f"{figure.name}{f' ({figure.note})' if figure.note else ''}",
            f"{figure.value:.4g} {figure.unit}",
            "" if figure.floor is None else f"{figure.floor:.4g} {figure.unit}",
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            "" if figure.spread is None else f"{figure.spread:.0%}",
            figure.goal,
            {None: "", True: "yes", False: "NO"}[figure.met],
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join([*rows, *_beside(figures)])


def _beside(figures: Sequence[Figure]) -> list[str]:
    """Return a table of the figures that have others beside them, a column for each of these."""
    told = [figure for figure in figures if figure.beside]
    names = list(dict.fromkeys(name for figure in told for name in figure.beside))
    if not names:
        return []
    rows = ["", f"| figure | value | {' | '.join(names)} |", "|---" * (2 + len(names)) + "|"]
    for figure in told:
        cells = [f"{figure.beside[name]:.3f}" if name in figure.beside else "" for name in names]
        rows.append(f"| {figure.name} | {figure.value:.3f} | {' | '.join(cells)} |")
    return rows
