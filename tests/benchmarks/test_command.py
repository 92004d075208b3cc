"""The command that runs benchmarks: what one misses or breaks on is told, and the others run all the same."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as command
from benchmarks.figures import Figure


def _fails(scale: float) -> list[Figure]:
    raise AssertionError("3 rows, not 4")


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three benchmarks: one breaks, one meets its goal, one misses it."""
    runs = {
        "breaks": _fails,
        "meets": lambda scale: [Figure("speed", 2.0 * scale, "/s", goal=">= 1", met=True)],
        "misses": lambda scale: [Figure("memory", 9.0 * scale, "MB", goal="<= 5", met=False)],
    }
    for name, run in runs.items():
        monkeypatch.setitem(sys.modules, f"benchmarks.{name}", SimpleNamespace(run=run))
    monkeypatch.setattr(command, "BENCHMARKS", tuple(runs))


@pytest.mark.usefixtures("benchmarks")
def test_after_one_that_breaks_the_others_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--all"]) == 1
    printed = capsys.readouterr().out
    assert "3 rows, not 4" in printed
    assert "| speed | 2 /s |" in printed
    assert printed.endswith("\nmissed: memory\n\nbroken: breaks\n")


@pytest.mark.usefixtures("benchmarks")
@pytest.mark.parametrize(("name", "code"), [("meets", 0), ("misses", 1), ("breaks", 1)])
def test_a_goal_that_is_missed_and_a_benchmark_that_breaks_fail_the_command(name: str, code: int) -> None:
    assert command.main([name]) == code


@pytest.mark.usefixtures("benchmarks")
def test_results_of_another_scale_have_a_section_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path / "RESULTS.md")
    for arguments in (["meets"], ["meets", "--scale", "10"], ["meets", "--scale", "0.5"]):
        command.main([*arguments, "--results"])
    kept = (tmp_path / "RESULTS.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in kept if line.startswith("## ")] == [
        "## meets",
        "## meets, scale 0.5",
        "## meets, scale 10",
    ]
    assert sum(line.startswith("| speed | 20 /s |") for line in kept) == 1


@pytest.mark.usefixtures("benchmarks")
def test_a_benchmark_that_is_left_out_keeps_the_results_of_the_last_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path / "RESULTS.md")
    command.main(["meets", "--results"])
    before = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    monkeypatch.setitem(sys.modules, "benchmarks.meets", SimpleNamespace(run=lambda scale: []))
    command.main(["meets", "--results"])
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8") == before
