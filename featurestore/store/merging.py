"""What all merges share: the batch that is staged, and the number of rows that a statement changed."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Listed:
    """A batch that is staged: of *cluster*, as it was at *at*; *whole* as in `pipeline.records.Batch`."""

    cluster: str
    at: datetime
    whole: bool


#: Merge the staged batch; returns the number of rows that are new, changed or gone.
Merge = Callable[[DuckDBPyConnection, Listed], int]


def changed(con: DuckDBPyConnection, statement: str, values: dict[str, object]) -> int:
    """Run *statement* and return how many rows it inserted, updated or deleted."""
    row = con.execute(statement, values).fetchone()
    return int(row[0]) if row is not None else 0
