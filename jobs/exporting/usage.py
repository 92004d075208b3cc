"""Use and size of nodes, and how busy drives were, as they were measured."""

from collections import Counter
from itertools import groupby

from duckdb import DuckDBPyConnection

from jobs.exporting.page import Page
from jobs.exporting.span import Span
from jobs.service.families import disks, nodes

_USED = {"cpu_cores": "colocation_node_cpu_used_cores", "memory_bytes": "colocation_node_memory_used_bytes"}
_SIZES = ("cpu_cores", "memory_bytes")
_IN = '"at" >= make_timestamptz(($since * 1e6)::BIGINT) AND "at" < make_timestamptz(($until * 1e6)::BIGINT)'


def load(con: DuckDBPyConnection, span: Span, page: Page) -> None:
    """Add the measured load of nodes, at the times of the samples."""
    families = {family.name: family for family in nodes.load(())}
    rows = con.execute(
        f"""
        SELECT cluster, name, metric, epoch("at"), value FROM usage
        WHERE scope = 'node' AND metric IN ('cpu_cores', 'memory_bytes') AND {_IN}
        ORDER BY metric, cluster, name, "at"
        """,
        {"since": span.since, "until": span.until},
    ).fetchall()
    for (metric, cluster, node), found in groupby(rows, lambda row: (row[2], row[0], row[1])):
        page.add_series(families[_USED[metric]], (cluster, node), ((row[3], row[4]) for row in found))


def sizes(con: DuckDBPyConnection, span: Span, page: Page) -> None:
    """Add what nodes have, and how many there were of each type and state, at the steps.

    A node that was measured before it was first listed is taken for what it was listed as.
    """
    rows = con.execute(
        """
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
        """,
        {"since": span.since, "until": span.until},
    ).fetchall()
    counted: dict[float, Counter[tuple[str, ...]]] = {step: Counter() for step in span.steps}
    for cluster, node, kind, ready, schedulable, cpu, memory, begin, end in rows:
        steps = span.between(begin, end)
        size = {"cluster": cluster, "node": node, "cpu_cores": cpu, "memory_bytes": memory}
        page.add(nodes.load([size | dict.fromkeys(("cpu_used_cores", "memory_used_bytes"))]), steps)
        state = nodes.state({"ready": ready, "schedulable": schedulable})
        for step in steps:
            counted[step][cluster, kind, state] += 1
    for step, states in counted.items():
        page.add([nodes.counted(states)], [step])


def drives(con: DuckDBPyConnection, span: Span, page: Page) -> None:
    """Add how busy drives were, at the times of the samples."""
    rows = con.execute(
        f"""
        SELECT cluster, namespace, name, epoch("at"), value FROM usage
        WHERE scope = 'drive' AND metric = 'busy_ratio' AND {_IN} ORDER BY cluster, namespace, name, "at"
        """,
        {"since": span.since, "until": span.until},
    ).fetchall()
    family = disks.busy(())
    for labels, found in groupby(rows, lambda row: row[:3]):
        page.add_series(family, labels, ((row[3], row[4]) for row in found))
