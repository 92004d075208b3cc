"""What the collectors of Kubernetes objects share: an odd object costs only itself; rows to columns."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
import pyarrow as pa

from pipeline.errors import BadInput
from pipeline.objects.wire import name_of
from pipeline.records import Refusal

T = TypeVar("T")
_SORTED = msgspec.json.Encoder(order="sorted")


def read(
    plural: str, items: Iterable[msgspec.Raw], reader: Callable[[msgspec.Raw], T]
) -> tuple[list[T], tuple[Refusal, ...]]:
    """Read each item; return what was read and, as ``plural/namespace/name``, what was refused and why.

    A refused object is still there: whoever compares lists must not take it for deleted.
    """
    found: list[T] = []
    refused: list[Refusal] = []
    for item in items:
        try:
            found.append(reader(item))
        except BadInput as error:
            refused.append(Refusal(f"{plural}/{name_of(item)}", str(error)))
    return found, tuple(refused)


def table(schema: pa.Schema, rows: list[tuple[object, ...]]) -> pa.Table:
    """Rows, each in the schema's order, as columns."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def text(value: object) -> str:
    """JSON text that is the same for equal values, whatever order they came in."""
    return _SORTED.encode(value).decode()
