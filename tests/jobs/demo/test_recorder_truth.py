"""The direct measurement: against numbers worked by hand and against effects put in."""

import numpy as np
import pytest

from jobs.demo.recorder import truth


def _session(draw: np.random.Generator, factor: float, noise: float) -> dict[str, object]:
    """Two functions in turns, as the recorder plans: a takes 50 ms alone and *factor* of it beside b, b always 40."""
    turns = [(0,), (0, 1), (1,), (0, 1), (0,), (1,), (0, 1)]
    rows: list[list[list[int]]] = [[[0, 1_000]], [[0, 1_000]]]
    blocks: list[list[tuple[float, float]]] = [[], []]
    for number, running in enumerate(turns):
        for member in running:
            at = number * 2_000_000 + 10_000
            blocks[member].append((number * 2.0, 1.0))
            while at < number * 2_000_000 + 1_000_000:
                took = 50_000.0 * (factor if len(running) == 2 else 1.0) if member == 0 else 40_000.0
                end = at + round(took * float(np.exp(draw.normal(0, noise))))
                rows[member].append([at, end])
                at = end
    padded = [[[*row, *[0] * 9] for row in own] for own in rows]
    return {
        "kind": "pair",
        "members": ("n/a", "n/b"),
        "parts": [{"blocks": own} for own in blocks],
        "containers": [{"invocations": own} for own in padded],
    }


def test_without_noise_the_slowdown_is_exact() -> None:
    rows = truth.measured([_session(np.random.default_rng(0), 1.5, 0.0)])
    assert [(row["victim"], row["aggressor"]) for row in rows] == [("n/a", "n/b"), ("n/b", "n/a")]
    assert rows[0]["slowdown"] == pytest.approx(0.5, abs=1e-4)
    assert rows[1]["slowdown"] == pytest.approx(0.0, abs=1e-4)
    assert rows[0]["alone_ms"] == pytest.approx(50.0)
    assert rows[0]["alone"] == 40  # 20 of 50 ms begin in each of two seconds


def test_the_interval_covers_the_truth_about_nine_times_in_ten() -> None:
    covered = []
    for seed in range(300):
        draw = np.random.default_rng(seed)
        row = truth.measured([_session(draw, 1.3, 0.1), _session(draw, 1.3, 0.1)])[0]
        covered.append(row["low"] <= 0.3 <= row["high"])
    # 300 draws of probability .9: three standard deviations are .052
    assert np.mean(covered) == pytest.approx(0.9, abs=0.052)


def test_overlap_is_the_share_of_each_run() -> None:
    start, end = np.array([0.0, 10.0, 30.0]), np.array([10.0, 20.0, 40.0])
    shared = truth.overlap(start, end, np.array([5.0, 12.0]), np.array([11.0, 14.0]))
    assert shared.tolist() == [0.5, 0.3, 0.0]
