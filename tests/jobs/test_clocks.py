"""Clocks are judged by what is sure: between two looks at the own one, and within what the server cuts off."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs import clocks

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("before", "server", "after", "resolution", "ahead"),
    [
        (0.0, 0.1, 0.2, 0.0, 0.0),
        (0.0, 5.0, 0.2, 0.0, 4.8),  # at the latest it looked at .2
        (10.0, 4.0, 10.5, 0.0, -6.0),  # at the earliest it looked at 10
        (0.9, 0.0, 1.0, 1.0, 0.0),  # any time from 0 to 1 is told as 0
        (10.5, 4.0, 10.6, 1.0, -5.5),
        (0.0, 3.0, 4.0, 0.0, 0.0),  # a slow answer proves nothing
    ],
)
def test_how_far_a_server_is_surely_ahead(
    before: float, server: float, after: float, resolution: float, ahead: float
) -> None:
    reading = clocks.Reading(at(before), at(server), at(after), timedelta(seconds=resolution))
    assert clocks.ahead(reading).total_seconds() == pytest.approx(ahead)


@pytest.mark.parametrize(("off", "verdict"), [(1.0, "ok"), (-1.0, "ok"), (1.001, "warning"), (-1.001, "warning")])
def test_the_limit_is_that_of_learning(off: float, verdict: str) -> None:
    reading = clocks.Reading(NOON, at(off), NOON, timedelta(0))
    [finding] = clocks.examine("c", "kubernetes", reading, timedelta(seconds=1))
    assert finding.verdict == verdict
    assert bool(finding.fix) == (verdict == "warning")


def test_a_clock_of_another_time_zone_is_told_in_seconds_and_no_exponent() -> None:
    reading = clocks.Reading(NOON, at(36_000), NOON, timedelta(0))
    [finding] = clocks.examine("c", "kubernetes", reading, timedelta(seconds=1))
    assert finding.said == "at least 36,000 s ahead of this machine's"


def test_a_server_that_tells_no_time_is_no_finding() -> None:
    assert clocks.read(lambda: None, lambda: NOON) is None
    assert list(clocks.examine("c", "kubernetes", None, timedelta(seconds=1))) == []
