"""The published snapshot file: written aside, renamed, mapped by any number of readers.

File layout: 8 bytes magic, 8 bytes little-endian header length, the header as JSON (`_Header`), then each table as an
Arrow IPC file and each column that was laid out of them as its numbers, aligned to 64 bytes, so that any number of
processes can map the same pages. Earlier files have no such columns, and an earlier reader passes over them.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from glob import escape
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.columnar import codes, distinct, named
from featurestore.snapshot import FUNCTIONS, TABLES, Column, Snapshot
from pipeline.errors import NOT_JSON, BadInput

_MAGIC = b"COLOSNP1"
_ALIGN = 64
#: What was written aside and not since so many seconds nobody will publish any more.
_LEFT: Final = 3600.0
#: What numbers of a column may be.
_KINDS: Final = ("|b1", "|i1", "|u1", "<i4", "<u4", "<i8", "<u8", "<f8")

#: Lays out columns of a snapshot whose tables lie as they will in the file: by cluster and name.
Lay = Callable[[Snapshot], Mapping[str, Mapping[str, Column]]]


class _Header(msgspec.Struct, frozen=True):
    version: str
    created: datetime
    models: dict[str, str]
    clusters: list[str]
    attribution: dict[str, dict[str, float]]
    tables: dict[str, tuple[int, int]]
    learning: dict[str, dict[str, dict[str, float]]] = {}
    laid: dict[str, dict[str, tuple[int, int, str]]] = {}


def write(snapshot: Snapshot, path: Path, lay: Lay = lambda coded: {}) -> None:
    """Publish *snapshot* at *path*: written aside, synced, then renamed, so that a reader never sees half of it.

    Behind its tables are the columns that *lay* makes of them.
    """
    parts: list[tuple[int, pa.Buffer]] = []
    end = 0

    def place(buffer: pa.Buffer) -> tuple[int, int]:
        nonlocal end
        at = end
        parts.append((at, buffer))
        end += -(-buffer.size // _ALIGN) * _ALIGN
        return at, buffer.size

    offsets, tables = {}, {}
    for name, table in _coded(snapshot).items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        buffer = sink.getvalue()
        offsets[name], tables[name] = place(buffer), pa.ipc.open_file(buffer).read_all()
    laid = {
        cluster: {name: (*place(pa.py_buffer(column)), column.dtype.str) for name, column in columns.items()}
        for cluster, columns in lay(replace(snapshot, tables=tables)).items()
    }
    header = msgspec.json.encode(
        _Header(
            snapshot.version,
            snapshot.created,
            dict(snapshot.models),
            list(snapshot.clusters),
            {cluster: dict(counts) for cluster, counts in snapshot.attribution.items()},
            offsets,
            {cluster: {name: dict(one) for name, one in said.items()} for cluster, said in snapshot.learning.items()},
            laid,
        )
    )
    start = -(-(16 + len(header)) // _ALIGN) * _ALIGN
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
            for at, buffer in parts:
                file.seek(start + at)
                file.write(buffer)
            file.truncate(start + end)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    with suppress(OSError):
        _tidy(path)


def _tidy(path: Path) -> None:
    """Delete what publishers of *path* that were killed have left aside."""
    for left in path.parent.glob(f".{escape(path.name)}.*"):
        if left.suffix[1:].isdecimal() and time.time() - left.stat().st_mtime > _LEFT:
            left.unlink(missing_ok=True)


def _coded(snapshot: Snapshot) -> dict[str, pa.Table]:
    """Return the tables in one piece each, all names of functions by one dictionary.

    Its codes are then the numbers that functions have where a cluster is alone, and are read where they lie.
    """
    tables = {name: snapshot.tables[name].cast(schema) for name, schema in TABLES.items()}
    functions = distinct(*(tables[table][column] for table, column in FUNCTIONS))
    functions = pa.concat_arrays([functions.filter(pc.not_equal(functions, "")), pa.array([""])])
    for table, column in FUNCTIONS:
        field = TABLES[table].field(column)
        if pa.types.is_dictionary(field.type):
            at = TABLES[table].get_field_index(column)
            numbers = codes(tables[table][column], functions)
            tables[table] = tables[table].set_column(at, field, named(numbers, functions))
    return {name: table.unify_dictionaries().combine_chunks() for name, table in tables.items()}


def load(path: Path) -> Snapshot:
    """Map the snapshot at *path*; raises `BadInput` naming the file where it is none or damaged."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # to open a pipe would wait for its other end
        raise BadInput(f"{path}: is a pipe or a device, not a snapshot")
    try:
        with pa.memory_map(str(path)) as source:
            whole = source.read_buffer()
        if whole.size < 16 or whole[:8].to_pybytes() != _MAGIC:
            raise BadInput(f"{path}: not a snapshot of this version (colocate learn publishes one)")
        length = int.from_bytes(whole[8:16].to_pybytes(), "little")
        header = msgspec.json.decode(whole[16 : 16 + length].to_pybytes(), type=_Header)
        start = -(-(16 + length) // _ALIGN) * _ALIGN
        tables = {
            name: pa.ipc.open_file(whole.slice(start + at, size)).read_all()
            for name, (at, size) in header.tables.items()
        }
        for table in tables.values():  # whoever reads them relies on it, and Arrow itself would end the process
            table.validate(full=True)
        laid = {
            cluster: {
                name: np.frombuffer(whole.slice(start + at, size), kind)
                for name, (at, size, kind) in columns.items()
                if kind in _KINDS and 0 <= at <= at + size <= whole.size - start and not size % int(kind[2:])
            }
            for cluster, columns in header.laid.items()
        }
    except NOT_JSON:
        raise BadInput(f"{path}: cannot be read as a snapshot: its head is damaged") from None
    except (OSError, OverflowError, IndexError, pa.ArrowException) as error:
        raise BadInput(f"{path}: cannot be read as a snapshot: {str(error).splitlines()[0]}") from error
    for name, schema in TABLES.items():
        if name not in tables or not tables[name].schema.equals(schema):
            raise BadInput(f"{path}: table {name} is not of this version (colocate learn publishes a new one)")
    return Snapshot(
        header.version,
        header.created,
        tuple(header.clusters),
        header.models,
        header.attribution,
        tables,
        header.learning,
        laid,
    )
