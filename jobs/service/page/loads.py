"""Nodes by how busy they are, with the functions that have pods on them; a pure function of a snapshot."""

from collections import defaultdict
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from featurestore.snapshot import Snapshot

_NODES: Final = (
    *("node", "node_type", "ready", "schedulable", "cpu_cores", "cpu_used_cores"),
    *("memory_bytes", "memory_used_bytes", "used_at", "cluster"),
)
#: Functions that a node tells of.
MOST_FUNCTIONS: Final = 50


def loads(snapshot: Snapshot, cluster: str | None, search: str, limit: int, offset: int) -> tuple[int, list[Any]]:
    """Return how many nodes match, and the rows of a page of them.

    A row has the node's facts, *cpu_ratio* and *memory_ratio* in use (None where not measured), *pods_now*,
    *functions_total* and *functions*: name, pods, and *running*, the mean number of activations at once; those with
    pods first, the most active before others.
    """
    nodes, pods, busy = (_of(snapshot[name], cluster) for name in ("nodes", "placements", "busyness"))
    nodes = nodes.select(list(_NODES))
    if search:
        nodes = nodes.filter(pc.or_(_contains(nodes["node"], search), _hosting(nodes, pods, busy, search)))
    for name, used, of in (("cpu_ratio", "cpu_used_cores", "cpu_cores"),
                           ("memory_ratio", "memory_used_bytes", "memory_bytes")):  # fmt: skip
        ratio = pc.divide(nodes[used], pc.if_else(pc.greater(nodes[of], 0.0), nodes[of], None))
        nodes = nodes.append_column(name, ratio)
    nodes = nodes.append_column("load", pc.max_element_wise(nodes["cpu_ratio"], nodes["memory_ratio"]))
    # Nodes without a measurement come last: Arrow sorts nulls there, whichever way.
    order = pc.sort_indices(nodes.select(["load", "node"]), [("load", "descending"), ("node", "ascending")])
    page = nodes.take(order.slice(offset, limit)).drop_columns(["load"])
    there = _functions(page, pods, busy)
    rows = page.to_pylist()
    for row in rows:
        number, functions = there[row["cluster"], row["node"]]
        functions.sort(key=lambda each: (each["pods"] == 0, -each["running"], -each["pods"], each["function"]))
        row |= {"pods_now": number, "functions_total": len(functions), "functions": functions[:MOST_FUNCTIONS]}
    return nodes.num_rows, rows


def _of(table: pa.Table, cluster: str | None) -> pa.Table:
    return table if cluster is None else table.filter(pc.equal(table["cluster"].cast(pa.string()), cluster))


def _contains(column: pa.ChunkedArray, search: str) -> pa.ChunkedArray:
    found = pc.match_substring(column.cast(pa.string()), search, ignore_case=True)
    return pc.fill_null(found, False)


def _hosting(nodes: pa.Table, pods: pa.Table, busy: pa.Table, search: str) -> pa.ChunkedArray:
    """Say of each node whether a function that is searched for is on it."""
    named = [table.filter(_contains(table["function"], search)).select(["cluster", "node"]) for table in (pods, busy)]
    keys = pa.chunked_array([_key(table) for table in named], pa.string())
    return pc.is_in(_key(nodes), value_set=pc.drop_null(keys.combine_chunks()))


def _key(table: pa.Table) -> pa.Array:
    """Return cluster and node as one text; a node's name holds no slash."""
    key = pc.binary_join_element_wise(table["cluster"].cast(pa.string()), table["node"].cast(pa.string()), "/")
    return key.combine_chunks() if isinstance(key, pa.ChunkedArray) else key


def _functions(page: pa.Table, pods: pa.Table, busy: pa.Table) -> dict[tuple[str, str], tuple[int, list[Any]]]:
    """Return, by cluster and node of *page*, the number of its pods and its functions."""
    wanted = _key(page)
    number: dict[tuple[str, str], int] = defaultdict(int)
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
    by = ["cluster", "node", "function"]

    def entry(row: dict[str, Any]) -> dict[str, Any]:
        functions = found[row["cluster"], row["node"]]
        return functions.setdefault(row["function"], {"function": row["function"], "pods": 0, "running": 0.0})

    for row in _there(pods, wanted).group_by(by).aggregate([([], "count_all")]).to_pylist():
        number[row["cluster"], row["node"]] += row["count_all"]
        if row["function"]:
            entry(row)["pods"] = row["count_all"]
    for row in _there(busy, wanted).group_by(by).aggregate([("running", "sum")]).to_pylist():
        if row["function"]:
            entry(row)["running"] = row["running_sum"] or 0.0
    return defaultdict(lambda: (0, []), {key: (number[key], list(found[key].values())) for key in {*number, *found}})


def _there(table: pa.Table, wanted: pa.Array) -> pa.Table:
    return table.filter(pc.fill_null(pc.is_in(_key(table), value_set=wanted), False))
