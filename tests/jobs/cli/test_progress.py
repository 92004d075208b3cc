"""What long work shows of its progress: a bar on a terminal, plain lines elsewhere, nothing where it is short."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console
from rich.progress import Progress

from jobs.cli.common import advance


def _bar(*, terminal: bool) -> tuple[Progress, io.StringIO]:
    shown = io.StringIO()
    return Progress(console=Console(file=shown, force_terminal=terminal), disable=not terminal), shown


def _moved(bar: Progress, at: Sequence[float]) -> None:
    """Finish one of as many functions as there are times at each of these seconds."""
    now = [0.0]
    moved = advance(bar, "learning c1", "functions", lambda: now[0])
    for done, second in enumerate(at, 1):
        now[0] = second
        moved(done, len(at))


def test_without_a_terminal_long_work_says_every_half_minute_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bar, _ = _bar(terminal=False)
    _moved(bar, [1, 29, 31, 45, 60.9, 61, 100])
    assert capsys.readouterr().err.splitlines() == [
        "learning c1: 3 of 7 functions",
        "learning c1: 6 of 7 functions",
        "learning c1: 7 of 7 functions",
    ]


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    bar, _ = _bar(terminal=False)
    _moved(bar, [1, 2, 3])
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_a_bar_and_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    bar, shown = _bar(terminal=True)
    with bar:
        _moved(bar, [40, 80])
    assert capsys.readouterr().err == ""
    assert "learning c1" in shown.getvalue()
    assert "100%" in shown.getvalue()
