"""Profiles: shares, the dominant resource, and limits between classes, against values worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from featurestore.profiles import dominant, levels, thresholds
from featurestore.quantiles import quantiles

NONE = float("nan")


@pytest.mark.parametrize(
    ("share", "name"),
    [
        ([0.3, 0.2, 0, 0], "cpu"),  # exactly 1.5 times the second
        ([0.29, 0.2, 0, 0], "mixed"),
        ([0.1, 0.1, 0.4, 0.1], "network"),
        ([NONE, 0.1, NONE, NONE], "memory"),  # the only one known
        ([NONE, NONE, NONE, NONE], ""),
        ([0, 0, 0, 0], ""),
        ([0, 0, 0, 0.01], "disk"),
    ],
)
def test_dominant_is_one_and_a_half_times_the_second(share, name):
    assert dominant(share) == name


def test_limits_lie_in_the_gaps_between_the_groups():
    """Three clear groups in cpu; the limits are the geometric means of the values beside each gap."""
    cpu = np.array([0.01, 0.011, 0.012, 0.1, 0.11, 0.8, 0.9])
    share = np.full((len(cpu), 4), np.nan)
    share[:, 0] = cpu
    limits = thresholds(share)
    assert limits[0] == pytest.approx([np.sqrt(0.012 * 0.1), np.sqrt(0.11 * 0.8)])
    assert limits[1] == pytest.approx([0.1, 1 / 3])  # nothing is known of memory
    assert [levels(row, limits)[0] for row in share] == ["low"] * 3 + ["medium"] * 2 + ["high"] * 2


def test_what_is_not_known_has_no_class():
    assert levels(np.array([0.2, NONE, 0.01, 0.5]), thresholds(np.empty((0, 4)))) == ["medium", "", "low", "high"]


def cost(groups):
    return sum(np.sum((np.array(group) - np.mean(group)) ** 2) for group in groups)


@given(st.lists(st.integers(-40, 0), min_size=3, max_size=12, unique=True))
def test_no_other_cut_into_three_is_better(exponents):
    values = np.sort(np.exp(np.array(exponents) / 8))
    share = np.full((len(values), 4), np.nan)
    share[:, 0] = values
    low, high = thresholds(share)[0]
    logs = np.log(values)
    found = [logs[values <= low], logs[(values > low) & (values <= high)], logs[values > high]]
    assert all(len(group) for group in found)
    n = len(values)
    best = min(cost([logs[:a], logs[a:b], logs[b:]]) for a in range(1, n - 1) for b in range(a + 1, n))
    assert cost(found) == pytest.approx(best, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-5, 5)), max_size=40))
def test_quantiles_by_group_are_those_of_each_group(rows):
    group = np.array([row[0] for row in rows], np.int64)
    value = np.array([row[1] for row in rows], float)
    found = quantiles(group, value, 4, (0.5, 0.95))
    for code in range(4):
        mine = value[group == code]
        expected = np.percentile(mine, [50, 95]) if len(mine) else np.full(2, np.nan)
        assert found[code] == pytest.approx(expected, nan_ok=True)
