"""Pictures of results, as SVG that any page shows, made of nothing but the figures: a line over days, bars of steps.

Each picture holds its numbers as JSON in its description, so that it can be drawn again and compared.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, log10
from typing import Final
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 320
#: Left, top, right and bottom of what lies within the axes.
BOX: Final = (64.0, 40.0, 740.0, 276.0)
#: Tones that are legible on a light and on a dark page.
_INK, _RULE, _FIRST, _SECOND = "#7d8590", "#7d859055", "#2f81f7", "#d29922"


def top(largest: float) -> float:
    """Return the round number that an axis ends with: 1, 2 or 5 times a power of ten, not below *largest* (> 0)."""
    power = 10.0 ** floor(log10(largest))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= largest * (1 - 1e-9))


def line(title: str, unit: str, values: Sequence[float], *, below: str, marks: Mapping[int, str]) -> str:
    """Draw *values* from 1 on, with an axis from 0; *below* names the steps, *marks* are words at some of them."""
    left, upper, right, lower = BOX
    most = top(max(values))

    def x(number: float) -> float:
        return left + (number - 1) / max(1, len(values) - 1) * (right - left)

    def y(value: float) -> float:
        return lower - value / most * (lower - upper)

    points = " ".join(f"{x(number):.1f},{y(value):.1f}" for number, value in enumerate(values, 1))
    parts = [*_axis(most, unit, y), f'<polyline fill="none" stroke="{_FIRST}" stroke-width="2" points="{points}"/>']
    shown = range(1, len(values) + 1, max(1, ceil(len(values) / 15)))
    parts += [_text(x(number), lower + 18, str(number), "middle") for number in shown]
    parts.append(_text((left + right) / 2, lower + 36, below, "middle"))
    for number, words in marks.items():
        parts.append(f'<path stroke="{_INK}" stroke-dasharray="4 3" d="M{x(number):.1f} {upper}V{lower}"/>')
        parts.append(_text(x(number) + 6, upper + 12, words, "start"))
    return _whole(title, parts, {"values": list(values)})


def bars(title: str, unit: str, steps: Mapping[str, tuple[float, float]], names: tuple[str, str]) -> str:
    """Draw two bars for each of *steps*, with an axis from 0; *names* say what the first and the second are."""
    left, upper, right, lower = BOX
    most = top(max(max(pair) for pair in steps.values()))
    room = (right - left) / len(steps)

    def y(value: float) -> float:
        return lower - value / most * (lower - upper)

    parts = _axis(most, unit, y)
    for number, (step, pair) in enumerate(steps.items()):
        middle = left + (number + 0.5) * room
        for side, (value, tone) in enumerate(zip(pair, (_FIRST, _SECOND), strict=True)):
            at = middle + (side - 1) * room * 0.3
            parts.append(
                f'<rect x="{at:.1f}" y="{y(value):.1f}" width="{room * 0.28:.1f}" height="{lower - y(value):.1f}" '
                f'fill="{tone}"/>'
            )
            parts.append(_text(at + room * 0.14, y(value) - 4, f"{value:.3g}", "middle"))
        parts.append(_text(middle, lower + 18, step, "middle"))
    for side, (words, tone) in enumerate(zip(names, (_FIRST, _SECOND), strict=True)):
        parts.append(f'<rect x="{left + 220 * side:.1f}" y="{lower + 26}" width="10" height="10" fill="{tone}"/>')
        parts.append(_text(left + 220 * side + 16, lower + 35, words, "start"))
    return _whole(title, parts, {"steps": {step: list(pair) for step, pair in steps.items()}})


def _axis(most: float, unit: str, y: Callable[[float], float]) -> list[str]:
    left, _, right, _ = BOX
    parts = []
    for part in range(6):
        value = most * part / 5
        parts.append(f'<path stroke="{_RULE}" d="M{left} {y(value):.1f}H{right}"/>')
        parts.append(_text(left - 8, y(value) + 4, f"{value:g}", "end"))
    parts.append(_text(left - 8, BOX[1] - 12, unit, "end"))
    return parts


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _whole(title: str, parts: Sequence[str], numbers: Mapping[str, object]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="12" '
    return "\n".join(
        [
            f'{head}font-family="system-ui, sans-serif" fill="{_INK}">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(json.dumps(numbers))}</desc>",
            _text(BOX[0], 20, title, "start"),
            *parts,
            "</svg>\n",
        ]
    )
