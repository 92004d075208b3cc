"""Pictures of results: drawn to scale, and those in the docs are what the code draws of their numbers."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import cycle, pictures, retention
from benchmarks.figures import Figure

_SVG = "{http://www.w3.org/2000/svg}"


def _numbers(text: str) -> Mapping[str, object]:
    found: dict[str, object] = json.loads(ElementTree.fromstring(text).findtext(f"{_SVG}desc", ""))
    return found


@pytest.mark.parametrize(
    ("largest", "end"), [(0.7, 1.0), (1.0, 1.0), (1.2, 2.0), (11.76, 20.0), (21.0, 50.0), (300.0, 500.0)]
)
def test_an_axis_ends_with_a_round_number(largest: float, end: float) -> None:
    assert pictures.top(largest) == pytest.approx(end)


def test_a_line_is_to_scale() -> None:
    drawn = ElementTree.fromstring(pictures.line("<file>", "MB", [5.0, 10.0, 0.0], below="day", marks={}))
    polyline = drawn.find(f"{_SVG}polyline")
    assert polyline is not None
    left, upper, right, lower = pictures.BOX
    middle = (left + right) / 2
    wanted = [(left, (upper + lower) / 2), (middle, upper), (right, lower)]  # of an axis to 10
    points = [tuple(map(float, point.split(","))) for point in polyline.attrib["points"].split()]
    assert points == [pytest.approx(point, abs=0.051) for point in wanted]
    assert drawn.findtext(f"{_SVG}title") == "<file>"


def test_bars_are_as_high_as_their_values() -> None:
    drawn = ElementTree.fromstring(pictures.bars("t", "s", {"a": (4.0, 1.0), "b": (2.0, 5.0)}, ("x", "y")))
    _, upper, _, lower = pictures.BOX
    heights = [float(each.attrib["height"]) / (lower - upper) for each in drawn.findall(f"{_SVG}rect")[:4]]
    assert heights == pytest.approx([0.8, 0.2, 0.4, 1.0], abs=0.001)  # of an axis to 5


def test_the_growth_plot_in_the_docs_is_drawn_of_the_results(repository: Path) -> None:
    text = (repository / "docs/pictures/retention.svg").read_text(encoding="utf-8")
    values = _numbers(text)["values"]
    assert isinstance(values, list)
    assert len(values) == retention.DAYS
    assert retention.picture([Figure("", 0.0, "", series=values)]) == text
    section = _section(repository, "retention, soak, scale 0.1")
    [after, before] = re.findall(r"\| ([\d.]+) MB \| ([\d.]+) MB \|", section)[0]
    assert (float(f"{max(values[-10:]):.4g}"), float(f"{max(values[7:14]):.4g}")) == (float(after), float(before))


def test_the_cycle_profile_in_the_docs_is_drawn_of_the_results(repository: Path) -> None:
    text = (repository / "docs/pictures/cycle.svg").read_text(encoding="utf-8")
    steps = _numbers(text)["steps"]
    assert isinstance(steps, dict)
    assert list(steps) == list(cycle.STEPS)
    title = ElementTree.fromstring(text).findtext(f"{_SVG}title", "").replace("medians of", "the slowest of")
    figures = [Figure(name, 0.0, "", series=pair) for name, pair in steps.items()]
    assert cycle.picture([*figures, Figure(title, 0.0, "")]) == text
    section = _section(repository, "cycle, soak")
    assert title in section
    for name, (wall, _) in steps.items():
        assert re.search(rf"\| {name} of a cycle .*\| {re.escape(f'{wall:.4g}')} s \|", section), name


def _section(repository: Path, name: str) -> str:
    text = (repository / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
    return text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
