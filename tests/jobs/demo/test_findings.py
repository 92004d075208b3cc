"""Whether learned and measured slowdowns agree: by hand, and at the stated rate where both intervals are right."""

import numpy as np
import pytest
from scipy import stats

from jobs.demo.findings import Finding, consistent, covered
from rules.advice import Evidence


def finding(learned, measured):
    slowdown, low, high = learned
    told = Evidence(
        victim="a", aggressor="b", node_type="", status="observed", slowdown=slowdown, low=low, high=high,
        probability=1.0, effective_overlaps=99.0, window_start=None, window_end=None,
    )  # fmt: skip
    direct = None if measured is None else dict(zip(("slowdown", "low", "high"), measured, strict=True))
    return Finding(told, True, direct)


@pytest.mark.parametrize(
    ("learned", "measured", "agree"),
    [
        ((0.5, 0.4, 0.6), (0.55, 0.55, 0.55), True),
        ((0.5, 0.4, 0.6), (0.62, 0.62, 0.62), False),
        ((0.5, 0.4, 0.6), (0.62, 0.52, 0.72), True),  # the measurement's own error reaches into the interval
        ((0.5, 0.4, 0.6), (0.80, 0.70, 0.90), False),
        ((0.0, 0.0, 0.03), (-0.3, -0.4, -0.2), True),  # faster beside it: no slowdown
        ((0.2, 0.1, 0.3), (-0.3, -0.4, -0.2), False),
        ((0.5, 0.4, 0.6), None, None),
        ((float("nan"),) * 3, (0.5, 0.4, 0.6), None),
    ],
)
def test_by_hand(learned, measured, agree):
    assert consistent(finding(learned, measured)) is agree


def test_right_intervals_agree_nine_times_of_ten():
    draw = np.random.default_rng(4)
    z, trials = stats.norm.ppf(0.95), 4000

    def said(error):
        middle = 0.6 + draw.normal(0, error)
        return tuple(float(np.expm1(middle + shift * z * error)) for shift in (0, -1, 1))

    inside, compared = covered([finding(said(0.05), said(0.08)) for _ in range(trials)])
    assert compared == trials
    assert stats.binom.ppf(0.001, trials, 0.9) <= inside <= stats.binom.ppf(0.999, trials, 0.9)
