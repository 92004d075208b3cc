"""The tables of an export as Spark reads them, one cluster's."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from featurestore.exported import TABLES
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
        if name not in self._found:  # its files, thousands of them, are listed once
            self._found[name] = self._listed(name)
        found = self._found[name]
        if "day" in found.columns:
            found = found if since is None else found.filter(found["day"] >= since)
            found = found if until is None else found.filter(found["day"] <= until)
        return found.select(*TABLES[name].names)

    def _listed(self, name: str) -> Any:
        from pyspark.errors import AnalysisException

        kinds = {field.name: _TYPES[field.type] for field in TABLES[name]}
        ddl = ", ".join(f"`{column}` {kind}" for column, kind in kinds.items())
        days = "node" in TABLES[name].names
        try:
            found = self._spark.read.schema(f"{ddl}, cluster string{', day string' if days else ''}").parquet(
                f"{self._place}/{name}"
            )
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise BadInput(f"{self._place}/{name}: {str(error).splitlines()[0]}") from error
            nothing = self._spark.range(0)  # known to be empty when it is planned, so that no task is spent on it
            return nothing.selectExpr(*(f"CAST(NULL AS {kind}) AS `{column}`" for column, kind in kinds.items()))
        return found.filter(found["cluster"] == self._cluster)

    def small(self, name: str) -> pa.Table:
        """Return a table that fits into memory, as learning has it."""
        order = [(column, "ascending") for column in TABLES[name].names]
        found: pa.Table = self.table(name).toArrow()
        return found.cast(TABLES[name]).sort_by(order)
