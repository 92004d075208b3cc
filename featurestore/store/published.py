"""The published snapshot file: written aside, renamed, mapped by any number of readers.

File layout: 8 bytes magic, 8 bytes little-endian header length, the header as JSON (`_Header`), then each table as an
Arrow IPC file, aligned to 64 bytes, so that any number of processes can map the same pages.
"""

import os
from datetime import datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.columnar import codes, distinct, named
from featurestore.snapshot import FUNCTIONS, TABLES, Snapshot
from pipeline.errors import NOT_JSON, BadInput

_MAGIC = b"COLOSNP1"
_ALIGN = 64


class _Header(msgspec.Struct, frozen=True):
    version: str
    created: datetime
    models: dict[str, str]
    clusters: list[str]
    attribution: dict[str, dict[str, float]]
    tables: dict[str, tuple[int, int]]
    learning: dict[str, dict[str, dict[str, float]]] = {}


def write(snapshot: Snapshot, path: Path) -> None:
    """Publish *snapshot* at *path*: written aside, synced, then renamed, so that a reader never sees half of it."""
    buffers: list[tuple[str, pa.Buffer]] = []
    for name, table in _coded(snapshot).items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        buffers.append((name, sink.getvalue()))
    offsets: dict[str, tuple[int, int]] = {}
    at = 0
    for name, buffer in buffers:
        offsets[name] = (at, buffer.size)
        at += -(-buffer.size // _ALIGN) * _ALIGN
    header = msgspec.json.encode(
        _Header(
            snapshot.version,
            snapshot.created,
            dict(snapshot.models),
            list(snapshot.clusters),
            {cluster: dict(counts) for cluster, counts in snapshot.attribution.items()},
            offsets,
            {cluster: {name: dict(one) for name, one in said.items()} for cluster, said in snapshot.learning.items()},
        )
    )
    start = -(-(16 + len(header)) // _ALIGN) * _ALIGN
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
            for name, buffer in buffers:
                file.seek(start + offsets[name][0])
                file.write(buffer)
            file.truncate(start + at)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


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
    except NOT_JSON:
        raise BadInput(f"{path}: cannot be read as a snapshot: its head is damaged") from None
    except (OSError, pa.ArrowException) as error:
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
    )
