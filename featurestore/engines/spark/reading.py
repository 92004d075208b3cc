"""The tables of an export as Spark reads them, one cluster's."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from featurestore.engines.spark.files import COLUMNS, LARGEST
from featurestore.exported import TABLES, partition
from pipeline.errors import BadInput

_TYPES: Mapping[pa.DataType, str] = {
    pa.string(): "string",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


class Export:
    """The export below *place*, a path or URL that the driver and every worker reach, for one *cluster*."""

    def __init__(self, spark: Any, place: str, cluster: str) -> None:
        self._spark, self._place, self._cluster = spark, place.rstrip("/"), cluster
        self._found: dict[str, Any] = {}

    def table(self, name: str, since: str | None = None, until: str | None = None) -> Any:
        """Return a table of the cluster, from day *since* to day *until*; empty where the export has none of it."""
        if name not in self._found:  # thousands of files are listed for that
            self._found[name] = self._listed(name)
        return _between(self._found[name], since, until).select(*TABLES[name].names)

    def files(self, name: str, since: str) -> tuple[Any, Any]:
        """Return the bytes of the files of a table that has days, from day *since* on, as `files.COLUMNS`, and the
        rows of those that are too large for that."""
        self.table(name)
        found = (
            self._spark.read.format("binaryFile").option("basePath", f"{self._place}/{name}").load(self._all(name))
        )
        small = _between(found, since).filter(f"length <= {LARGEST}").select(*COLUMNS)
        large = _between(self._found[name], since).filter(f"_metadata.file_size > {LARGEST}")
        return small, large.select(*TABLES[name].names)

    def _all(self, name: str) -> str:
        """Return the places of all files of a table: Spark lists them at once, and not level by level."""
        days = "/day=*/node=*" if _dated(name) else ""
        return f"{self._place}/{name}/{partition('cluster', self._cluster)}{days}"

    def _listed(self, name: str) -> Any:
        from pyspark.errors import AnalysisException

        kinds = {field.name: _TYPES[field.type] for field in TABLES[name]}
        ddl = ", ".join(f"`{column}` {kind}" for column, kind in kinds.items())
        schema = f"{ddl}, cluster string{', day string' if _dated(name) else ''}"
        try:
            return (
                self._spark.read.schema(schema).option("basePath", f"{self._place}/{name}").parquet(self._all(name))
            )
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise BadInput(f"{self._place}/{name}: {str(error).splitlines()[0]}") from error
            nothing = self._spark.range(0)  # known to be empty when it is planned, so that no task is spent on it
            return nothing.selectExpr(*(f"CAST(NULL AS {kind}) AS `{column}`" for column, kind in kinds.items()))

    def small(self, name: str) -> pa.Table:
        """Return a table that fits into memory, as learning has it."""
        order = [(column, "ascending") for column in TABLES[name].names]
        found: pa.Table = self.table(name).toArrow()
        return found.cast(TABLES[name]).sort_by(order)


def _dated(name: str) -> bool:
    return "node" in TABLES[name].names


def _between(rows: Any, since: str | None, until: str | None = None) -> Any:
    """Return *rows* from day *since* to day *until*, where they have days."""
    if "day" in rows.columns:
        rows = rows if since is None else rows.filter(rows["day"] >= since)
        rows = rows if until is None else rows.filter(rows["day"] <= until)
    return rows
