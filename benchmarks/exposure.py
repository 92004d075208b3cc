"""The sweep against one stable argsort of the same event times, one thread each, in interleaved rounds.

The activations come in no order: grouping them by node and sorting them is part of the sweep's time. The floor
sorts the same start and end times in the same order.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.figures import Figure, Timing, interleaved
from featurestore.exposure.kernels import Codes, Ints
from featurestore.exposure.sweep import Exposure, sweep

_NODES = 100
_FUNCTIONS = 40
_ROUNDS = 7
_MEGABYTE = 1e6


class _Work(NamedTuple):
    node: Codes
    start: Ints
    end: Ints
    function: Codes

    def sweep(self) -> Exposure:
        return sweep(self.node, self.start, self.end, self.function, functions=_FUNCTIONS)

    def argsort(self) -> Callable[[], object]:
        events = np.concatenate([self.start, self.end])
        return lambda: np.argsort(events, kind="stable")


def _work(n: int, running: float, seed: int) -> _Work:
    """Draw *n* runs of one second on average, Zipf-popular functions, *running* at once on each node."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, _FUNCTIONS + 1) ** 0.7
    start = rng.integers(0, max(1, int(1e6 * n / _NODES / running)), n)
    return _Work(
        rng.integers(0, _NODES, n).astype(np.int32),
        start,
        start + (1e6 * rng.exponential(1.0, n)).astype(np.int64),
        rng.choice(_FUNCTIONS, n, p=share / share.sum()).astype(np.int32),
    )


def _in_order(work: _Work) -> _Work:
    order = np.lexsort((work.start, work.node))
    return _Work(work.node[order], work.start[order], work.end[order], work.function[order])


def _resident(field: str) -> float:
    """Return VmRSS or VmHWM of this process in megabytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    [line] = [line for line in lines if line.startswith(field + ":")]
    return float(line.split()[1]) * 1024 / _MEGABYTE


def _memory(work: _Work) -> tuple[float, int]:
    """Return the peak of resident memory above what the input took, in megabytes, and the number of non-zeros."""
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak counts from here
    exposure = work.sweep()
    return _resident("VmHWM") - before, len(exposure.values)


def _figures(name: str, work: _Work, timing: dict[str, Timing], goal: bool) -> list[Figure]:
    swept, floor = timing[f"{name} sweep"], timing[f"{name} argsort"]
    ratio = swept.median / floor.median
    megabytes, non_zeros = _memory(work)
    allowed = 12 * non_zeros / _MEGABYTE + 200
    rate = f"{len(work.start) / swept.median / 1e6:.2g} M activations/s, {non_zeros / 1e6:.3g} M non-zeros"
    return [
        Figure(
            f"exposure, {len(work.start) / 1e6:g} M activations, {_NODES} nodes, {name}",
            swept.median,
            "s",
            floor.median,
            ratio,
            swept.spread,
            "ratio <= 1" if goal else "",
            ratio <= 1 if goal else None,
            rate,
        ),
        Figure(
            f"peak memory above the input, {name}",
            megabytes,
            "MB",
            allowed,
            megabytes / allowed,
            None,
            "ratio <= 1" if goal else "",
            megabytes <= allowed if goal else None,
            "floor: 12 bytes a non-zero and 200 MB",
        ),
    ]


def _all_at_once(n: int) -> Callable[[], object]:
    """Return the sweep of *n* runs on one node that all overlap: n * n pairs, n * functions non-zeros."""
    rng = np.random.default_rng(3)
    start = rng.integers(0, 1_000_000, n)
    end = start + rng.integers(2_000_000, 3_000_000, n)
    function = rng.integers(0, 4, n).astype(np.int32)
    return lambda: sweep(np.zeros(n, np.int32), start, end, function, functions=4)


def run(scale: float) -> list[Figure]:
    """Measure 10 million activations (times *scale*) at 2 and at 20 running a node, and that nothing is quadratic."""
    n = max(1000, int(10_000_000 * scale))
    figures: list[Figure] = []
    few = _work(n, 2, 1)
    works = {
        "2 running a node": (few, scale >= 1),  # the goal speaks of the full size
        "2 running, sorted by node and start": (_in_order(few), False),
        "20 running a node": (_work(n, 20, 2), False),
    }
    for name, (work, goal) in works.items():
        timing = interleaved({f"{name} sweep": work.sweep, f"{name} argsort": work.argsort()}, _ROUNDS)
        figures += _figures(name, work, timing, goal)
    once, more = _all_at_once(max(500, n // 50)), _all_at_once(4 * max(500, n // 50))
    timing = interleaved({"once": once, "more": more}, _ROUNDS)
    growth = timing["more"].median / timing["once"].median
    figures.append(
        Figure(
            "one node, every run beside every other: four times as many runs",
            timing["more"].median,
            "s",
            timing["once"].median,
            growth,
            timing["more"].spread,
            "ratio < 8 (quadratic: 16)",
            growth < 8,
        )
    )
    return [*figures, *usual(scale)]


def usual(scale: float = 1.0) -> list[Figure]:
    """Measure the exposures of 60,000 activations (times *scale*)."""
    small = _work(max(1000, int(60_000 * scale)), 2, 4)
    timing = interleaved({"sweep": small.sweep, "argsort": small.argsort()}, _ROUNDS)
    swept = timing["sweep"].median
    return [
        Figure(
            f"exposure, {len(small.start) / 1e3:g} k activations",
            swept,
            "s",
            timing["argsort"].median,
            swept / timing["argsort"].median,
            timing["sweep"].spread,
            "<= 0.1 s",
            swept <= 0.1,
        )
    ]
