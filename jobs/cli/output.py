"""How answers are written: a table for people, JSON, YAML or CSV for programs; what is not finite is null."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from jobs.cli.plain import plain


class Format(StrEnum):
    """The forms of ``-o``."""

    table = "table"
    json = "json"
    yaml = "yaml"
    csv = "csv"


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
        from jobs.cli.tables import table  # rich takes long to import

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
