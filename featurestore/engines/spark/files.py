"""Activations out of the files of an export, in the workers: Spark brings the bytes of whole files, and opens none.

A file of one node and day is small. Spark takes longer to open one than all of it takes here, and makes rows of its
columns, of which columns have to be made again.
"""

import zlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from featurestore.engines.spark.work import pack
from featurestore.exported import TABLES

#: Files of more bytes are left to Spark, which reads a part of one at a time.
LARGEST = 32 * 1024**2

#: The rows of Spark that `activations` takes.
COLUMNS = ("node", "path", "content")


def activations(batches: Iterator[pa.RecordBatch], since: int, until: int, groups: int) -> Iterator[pa.RecordBatch]:
    """Yield the activations of files (`COLUMNS`) that started from *since* to *until* (microseconds) as parcels
    (`work.pack`), by which of so many *groups* their functions belong to (`group`).

    Raises `ValueError`, which names the file, and the column, where one is no Parquet or has values of another kind.
    """
    return pack(_keyed(batches, since, until, groups), "activations")


def group(function: str, groups: int) -> str:
    """Return in SQL which of so many groups a function belongs to."""
    return f"CAST(crc32(CAST({function} AS BINARY)) % {groups} AS INT)"


def _keyed(batches: Iterator[pa.RecordBatch], since: int, until: int, groups: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for node, path, content in zip(*(batch[name] for name in COLUMNS), strict=True):
            rows = _read(path.as_py(), node.as_py(), content.as_buffer())
            start = rows["start"].cast(pa.int64())
            rows = rows.filter(pc.and_(pc.greater_equal(start, since), pc.less(start, until)))
            function = rows["function"].combine_chunks().dictionary_encode()
            of = np.array([zlib.crc32(name.encode()) % groups for name in function.dictionary.to_pylist()], np.int32)
            yield from rows.add_column(0, "key", pa.array(of[function.indices.to_numpy()])).to_batches()


def _read(path: str, node: str | None, content: pa.Buffer) -> pa.Table:
    """Return what a file has of the columns of activations, null where it does not have one."""
    schema = TABLES["activations"]
    name = ""
    columns = {}
    try:
        found = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        known = {"node": pa.repeat(pa.scalar(node, pa.string()), len(found))}
        for name, kind in zip(schema.names, schema.types, strict=True):
            if name in known:
                columns[name] = known[name]
            else:
                columns[name] = found[name].cast(kind) if name in found.column_names else pa.nulls(len(found), kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise ValueError(f"{path}{name and f', column {name}'}: {str(error).splitlines()[0]}") from error
    return pa.table(columns, schema=schema)
