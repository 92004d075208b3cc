"""The configuration reference of README.md, from the settings' own descriptions: ``python -m jobs.reference``."""

import sys
import types
import typing
from collections.abc import Iterator
from datetime import timedelta

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from jobs.config import Settings

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def markdown() -> str:
    """Return the table of every setting: name, default, meaning."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {default} | {meaning} |" for name, default, meaning in _rows(Settings, "")]
    return "\n".join(lines)


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        inner, many = _inner(field.annotation)
        path = f"{prefix}{name}"
        if inner is not None:
            if many:
                yield f"{path}", "", f"{field.description}; one `[[{path}]]` each"
            yield from _rows(inner, f"{path}.")
        else:
            yield path, _default(field), field.description or ""


def _inner(annotation: object) -> tuple[type[BaseModel] | None, bool]:
    """Return the group that a field holds, or a list of, if any."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (list, types.UnionType, typing.Union):
        for argument in arguments:
            found, _ = _inner(argument)
            if found is not None:
                return found, origin is list
    return None, False


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ("", {}, (), []):
        return ""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return next((f"`{seconds / size:g}{unit}`" for size, unit in _UNITS if seconds >= size), f"`{seconds:g}s`")
    if isinstance(value, tuple):
        return ", ".join(f"`{part}`" for part in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    sys.stdout.write(markdown() + "\n")
