"""Use and size of nodes, and how busy drives were, as they were measured."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from featurestore.store.queries import arrow
from jobs.exporting.page import Page
from jobs.exporting.span import Span
from jobs.service.families import disks, nodes

_Rows = list[tuple[Any, ...]]

_USED = {"cpu_cores": "colocation_node_cpu_used_cores", "memory_bytes": "colocation_node_memory_used_bytes"}

#: One row a series: its times and values as lists.
_MEASURED = """
SELECT cluster, namespace, name, metric, list(epoch("at") ORDER BY "at") AS times,
    list(value ORDER BY "at") AS values
FROM usage
WHERE scope = $scope AND list_contains($metrics, metric)
    AND "at" >= make_timestamptz(($since * 1e6)::BIGINT) AND "at" < make_timestamptz(($until * 1e6)::BIGINT)
GROUP BY ALL ORDER BY ALL
"""

_SPECS = """
WITH measured AS (
    SELECT cluster, name AS node, epoch(min("at")) AS first FROM usage WHERE scope = 'node' GROUP BY ALL
), valid AS (
    SELECT s.*, CASE WHEN row_number() OVER (PARTITION BY s.cluster, s.node ORDER BY valid_from) = 1
        THEN least(epoch(valid_from), coalesce(first, epoch(valid_from))) ELSE epoch(valid_from) END AS begin,
        coalesce(epoch(valid_to), 'inf'::DOUBLE) AS until
    FROM node_specs AS s LEFT JOIN measured ON measured.cluster = s.cluster AND measured.node = s.node
)
SELECT cluster, node, node_type, ready, schedulable, cpu_cores, memory_bytes, begin, until
FROM valid WHERE begin < $until AND until > $since ORDER BY begin, node
"""


class Load:
    """Adds the measured load of nodes, at the times of the samples."""

    def read(self, con: DuckDBPyConnection, span: Span) -> pa.Table:
        return _measured(con, span, "node", list(_USED))

    def add(self, found: pa.Table, span: Span, page: Page) -> None:
        families = {family.name: family for family in nodes.load(())}
        for (cluster, _, node, metric), times, values in _series(found):
            page.add_series(families[_USED[metric]], (cluster, node), times, values)


class Drives:
    """Adds how busy drives were, at the times of the samples."""

    def read(self, con: DuckDBPyConnection, span: Span) -> pa.Table:
        return _measured(con, span, "drive", ["busy_ratio"])

    def add(self, found: pa.Table, span: Span, page: Page) -> None:
        family = disks.busy(())
        for (cluster, node, device, _), times, values in _series(found):
            page.add_series(family, (cluster, node, device), times, values)


class Sizes:
    """Adds what nodes have, and how many there were of each type and state, at the steps.

    A node that was measured before it was first listed is taken for what it was listed as.
    """

    def read(self, con: DuckDBPyConnection, span: Span) -> _Rows:
        return con.execute(_SPECS, {"since": span.since, "until": span.until}).fetchall()

    def add(self, found: _Rows, span: Span, page: Page) -> None:
        came: list[Counter[tuple[str, ...]]] = [Counter() for _ in range(len(span.steps) + 1)]
        for cluster, node, kind, ready, schedulable, cpu, memory, begin, until in found:
            steps = span.range(begin, until)
            size = {"cluster": cluster, "node": node, "cpu_cores": cpu, "memory_bytes": memory}
            page.add(nodes.load([size | _UNUSED]), span.steps[steps.start : steps.stop])
            key = (cluster, kind, nodes.state({"ready": ready, "schedulable": schedulable}))
            came[steps.start][key] += 1
            came[steps.stop][key] -= 1
        there: Counter[tuple[str, ...]] = Counter()
        for step, change in zip(span.steps, came, strict=False):
            there.update(change)
            page.add([nodes.counted({key: count for key, count in there.items() if count})], [step])


_UNUSED = dict.fromkeys(("cpu_used_cores", "memory_used_bytes"))


def _measured(con: DuckDBPyConnection, span: Span, scope: str, metrics: list[str]) -> pa.Table:
    values = {"scope": scope, "metrics": metrics, "since": span.since, "until": span.until}
    return arrow(con, _MEASURED, values)


def _series(found: pa.Table) -> Iterator[tuple[tuple[str, ...], list[float], list[float]]]:
    """Yield cluster, namespace, name and metric, the times and the values of each series of `_MEASURED`."""
    for batch in found.to_batches():
        times, values = (batch[column].flatten().to_numpy() for column in ("times", "values"))
        begin = 0
        for *labels, length in zip(
            *(batch[column].to_pylist() for column in ("cluster", "namespace", "name", "metric")),
            pc.list_value_length(batch["times"]).to_pylist(),
            strict=True,
        ):
            part = slice(begin, begin + length)
            begin += length
            yield tuple(labels), times[part].tolist(), values[part].tolist()
