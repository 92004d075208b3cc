"""What the recording itself says about each two functions: directly measured alone and together. Pure.

In every pair session each ran alone and beside the other, by turns, within seconds. A block of such invocations is
the unit: blocks of one session are compared with each other, so that what drifts between sessions cancels.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from jobs.demo.recorder.worker import COLUMNS

Array = npt.NDArray[np.float64]

#: An invocation counts as together when the other ran for this much of it, and as alone at none of it.
TOGETHER = 0.95
#: The interval holds the true slowdown with this probability.
CONFIDENCE = 0.90


def measured(sessions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row an ordered pair: mean log times, slowdown (.25 = 25 % longer) with its 90 % interval, counts.

    The interval is Welch's t on block means: the variance of blocks alone is pooled over all of the victim's pair
    sessions, that of blocks together over the sessions of the pair.
    """
    alone: dict[tuple[str, str], list[list[Array]]] = defaultdict(list)
    beside: dict[tuple[str, str], list[list[Array]]] = defaultdict(list)
    for session in sessions:
        if session["kind"] == "pair":
            for own, other in ((0, 1), (1, 0)):
                pair = (session["members"][own], session["members"][other])
                quiet, disturbed = blocks(session, own, other)
                if quiet and disturbed:
                    alone[pair].append(quiet)
                    beside[pair].append(disturbed)
    rows = []
    for pair in sorted(alone):
        every = [blocks_ for key, sessions_ in alone.items() if key[0] == pair[0] for blocks_ in sessions_]
        rows.append(_row(pair, alone[pair], beside[pair], every))
    return rows


def blocks(session: Mapping[str, Any], own: int, other: int) -> tuple[list[Array], list[Array]]:
    """Return the log seconds of member *own*'s warm invocations, a block each: alone, and beside *other*."""
    start, end = _times(session, own)
    shared = overlap(start, end, *_times(session, other))
    logs = np.log((end - start) / 1e6)
    begins = [at for at, _ in session["parts"][own]["blocks"]]
    began = start[0] - begins[0] * 1e6
    block = np.searchsorted(np.array(begins) * 1e6 + began - 1000, start, "right") - 1
    quiet: list[Array] = []
    disturbed: list[Array] = []
    for number in range(len(begins)):
        for kept, into in ((shared == 0, quiet), (shared >= TOGETHER, disturbed)):
            chosen = logs[(block == number) & kept]
            if chosen.size >= 3:
                into.append(chosen)
    return quiet, disturbed


def overlap(start: Array, end: Array, other_start: Array, other_end: Array) -> Array:
    """Return the fraction of each [start, end] during which one of the (successive) others ran."""
    shared = np.minimum(end[:, None], other_end) - np.maximum(start[:, None], other_start)
    return np.asarray(np.clip(shared, 0, None).sum(axis=1) / (end - start))


def _times(session: Mapping[str, Any], member: int) -> tuple[Array, Array]:
    rows = np.array(session["containers"][member]["invocations"][1:], dtype=float)
    return rows[:, COLUMNS.index("start")], rows[:, COLUMNS.index("end")]


def _row(
    pair: tuple[str, str], alone: list[list[Array]], beside: list[list[Array]], every: list[list[Array]]
) -> dict[str, Any]:
    count = len(alone)
    differences = [_mean(b) - _mean(a) for a, b in zip(alone, beside, strict=True)]
    difference = float(np.mean(differences))
    variance, freedom = 0.0, 0.0
    for sessions, pool in ((alone, every), (beside, beside)):
        spread, degrees = _pooled(pool)
        part = spread * sum(1 / len(blocks_) for blocks_ in sessions) / count**2
        variance += part
        freedom += part**2 / degrees if degrees else float("inf")
    degrees_all = variance**2 / freedom if freedom else float("inf")
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, degrees_all)) * variance**0.5 if degrees_all else float("nan")
    return {
        "victim": pair[0],
        "aggressor": pair[1],
        "alone_ms": round(1e3 * float(np.exp(np.mean([_mean(a) for a in alone]))), 3),
        "alone_mean_log_s": round(float(np.mean([_mean(a) for a in alone])), 5),
        "together_mean_log_s": round(float(np.mean([_mean(b) for b in beside])), 5),
        "slowdown": round(float(np.expm1(difference)), 4),
        "low": round(float(np.expm1(difference - half)), 4),
        "high": round(float(np.expm1(difference + half)), 4),
        "alone": sum(block.size for blocks_ in alone for block in blocks_),
        "together": sum(block.size for blocks_ in beside for block in blocks_),
        "sessions": count,
    }


def _mean(blocks_: list[Array]) -> float:
    return float(np.mean([block.mean() for block in blocks_]))


def _pooled(sessions: list[list[Array]]) -> tuple[float, int]:
    """Return the variance of block means within their session, and its degrees of freedom."""
    degrees = sum(len(blocks_) - 1 for blocks_ in sessions)
    squares = sum(sum((float(block.mean()) - _mean(blocks_)) ** 2 for block in blocks_) for blocks_ in sessions)
    return (squares / degrees if degrees else float("nan")), degrees
