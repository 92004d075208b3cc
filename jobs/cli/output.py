"""How answers are written: a table for people, JSON, YAML or CSV for programs; what is not finite is null."""

import csv
import io
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text


class Format(StrEnum):
    """The forms of ``-o``; *patch* only where a pod is changed, *csv* only for lists."""

    table = "table"
    json = "json"
    yaml = "yaml"
    csv = "csv"
    patch = "patch"


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
    """Render *records* with just *columns*, in their order, in any form for lists; a table leaves out empty ones."""
    chosen = [{column: plain(record.get(column)) for column in columns} for record in records]
    if form in (Format.json, Format.yaml):
        return document(chosen, form)
    if form is Format.csv:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(
            ["" if (cell := record[column]) is None else cell for column in columns] for record in chosen
        )
        return text.getvalue()
    if not chosen:
        return f"{title}: none\n" if title else "none\n"
    shown = [column for column in columns if any(record[column] not in (None, "") for record in chosen)]
    grid = Table(title=Text(title) if title else None, title_justify="left")
    for column in shown:
        numeric = any(isinstance(record[column], int | float) for record in chosen)
        grid.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for record in chosen:
        grid.add_row(*(Text(_cell(record[column])) for column in shown))
    return rendered(grid)


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
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
    return line(str(value))


def line(text: str) -> str:
    """Make *text* one line that a terminal only shows: names of others can hold line ends and control sequences."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
