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

    def table(self, name: str, since: str | None = None) -> Any:
        """Return a table of the cluster, from day *since* on; empty where the export has none of it."""
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
        found = found.filter(found["cluster"] == self._cluster)
        if since is not None and days:
            found = found.filter(found["day"] >= since)
        return found.select(*TABLES[name].names)

    def small(self, name: str) -> pa.Table:
        """Return a table that fits into memory, as learning has it."""
        order = [(column, "ascending") for column in TABLES[name].names]
        found: pa.Table = self.table(name).toArrow()
        return found.cast(TABLES[name]).sort_by(order)
