"""How answers are written: a table for people, JSON, YAML or CSV for programs; what is not finite is null."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec


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
        import yaml

        return yaml.safe_dump(ready, sort_keys=False, allow_unicode=True)
    return msgspec.json.format(msgspec.json.encode(ready), indent=2).decode() + "\n"


def rows(columns: Sequence[str], records: Iterable[Mapping[str, object]], form: Format, title: str = "") -> str:
    """Render *records* with just *columns*, in their order, in any form for lists.

    A table leaves out empty columns and fits the terminal, see `jobs.cli.tables`.
    """
    kept = list(records)
    if form is Format.table:
        from jobs.cli.tables import table

        return table(columns, kept, title)
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


def line(text: str) -> str:
    """Make *text* one line that a terminal only shows: names of others can hold line ends and control sequences."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
