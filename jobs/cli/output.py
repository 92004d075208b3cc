"""How answers are written: a table for people, JSON, YAML or CSV for programs; what is not finite is null."""

import csv
import io
import math
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec
import yaml
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

#: Numbers nearer to nothing are shown as less than this.
_LEAST = 0.0001


class Format(StrEnum):
    """The forms of ``-o``."""

    table = "table"
    json = "json"
    yaml = "yaml"
    csv = "csv"


def plain(value: object) -> Any:
    """Turn *value* into what JSON can say: structs to mappings, times to RFC 3339, NaN and infinities to null."""
    return _finite(msgspec.to_builtins(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def document(value: object, form: Format) -> str:
    """Render one *value* as JSON or YAML."""
    ready = plain(value)
    if form is Format.yaml:
        return yaml.safe_dump(ready, sort_keys=False, allow_unicode=True)
    return msgspec.json.format(msgspec.json.encode(ready), indent=2).decode() + "\n"


def rows(columns: Sequence[str], records: Iterable[Mapping[str, object]], form: Format, title: str = "") -> str:
    """Render *records* with just *columns*, in their order, in any form for lists.

    A table leaves out empty columns, and where it is too wide, names under it what is the same in every row.
    """
    kept = list(records)
    if form is Format.table:
        return _table(columns, kept, title)
    chosen = [{column: plain(record.get(column)) for column in columns} for record in kept]
    if form is not Format.csv:
        return document(chosen, form)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_field(record[column]) for column in columns] for record in chosen)
    return text.getvalue()


def _field(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value


def _table(columns: Sequence[str], records: Sequence[Mapping[str, object]], title: str) -> str:
    if not records:
        return f"{title}: none\n" if title else "none\n"
    cells = {column: [_cell(record.get(column)) for record in records] for column in columns}
    shown = [column for column in columns if any(cell not in ("", "-") for cell in cells[column])]
    numeric = {column for column in shown if any(isinstance(record.get(column), int | float) for record in records)}
    width = _width()
    whole = _grid(title, {column: cells[column] for column in shown}, numeric, width)
    if len(records) == 1 or Console(width=10_000).measure(whole).maximum <= width:
        return rendered(whole, width)
    same = [column for column in shown if len(set(cells[column])) == 1]
    kept = _grid(title, {column: cells[column] for column in shown if column not in same}, numeric, width)
    everywhere = "".join(f"{column}: {cells[column][0]}\n" for column in same)
    return f"{rendered(kept, width)}{everywhere}"


def _grid(title: str, cells: Mapping[str, Sequence[str]], numeric: Set[str], width: int) -> Table:
    least = {column: max(map(len, column_cells)) for column, column_cells in cells.items()}
    roomy = sum(least.values()) + 3 * len(least) < width  # then only headings are folded
    grid = Table(title=Text(title) if title else None, title_justify="left")
    for column in cells:
        justify: JustifyMethod = "right" if column in numeric else "left"
        grid.add_column(column, justify=justify, overflow="fold", min_width=least[column] if roomy else None)
    for row in zip(*cells.values(), strict=True):
        grid.add_row(*map(Text, row))
    return grid


def rendered(renderable: object, width: int | None = None) -> str:
    """Render something of rich's to text: with colours only where standard output is a terminal."""
    console = Console(file=io.StringIO(), width=width or _width(), force_terminal=sys.stdout.isatty())
    console.print(renderable)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def _width() -> int:
    return Console().width if sys.stdout.isatty() else 200


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    value = plain(value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if 0 < abs(value) < _LEAST:
            return f"<{_LEAST:g}" if value > 0 else f">-{_LEAST:g}"
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
    return line(str(value))


def line(text: str) -> str:
    """Make *text* one line that a terminal only shows: names of others can hold line ends and control sequences."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
