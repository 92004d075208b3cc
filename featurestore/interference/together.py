"""Where and when two functions ran at once: counts by node, from when and where each of them ran."""

import numpy as np
import pyarrow as pa

from featurestore.columnar import TEXT, TIME, codes, distinct, micros, named

#: One row a node: the first and the last start of the victim's runs that met the aggressor there, and their number.
TOGETHER = pa.schema(
    [pa.field("node", TEXT), pa.field("from", TIME), pa.field("to", TIME), pa.field("runs", pa.int64())]
)


def together(victim: pa.Table, aggressor: pa.Table, *, same: bool = False) -> pa.Table:
    """Return `TOGETHER` of two functions' runs (node, start, end; none null), most runs first.

    A run met another that ran at some moment of it; *same* says that both are one function, whose runs do not meet
    themselves. O(n log n).
    """
    nodes = distinct(victim["node"])
    own, other = codes(victim["node"], nodes), codes(aggressor["node"], nodes)
    start, end = micros(victim["start"]), micros(victim["end"])
    begin, until = micros(aggressor["start"]), micros(aggressor["end"])
    lasting = (other >= 0) & (until > begin)
    found: list[tuple[int, int, int, int]] = []
    for node in range(len(nodes)):
        mine, theirs = np.flatnonzero(own == node), np.flatnonzero(lasting & (other == node))
        begun = np.searchsorted(np.sort(begin[theirs]), end[mine])
        ended = np.searchsorted(np.sort(until[theirs]), start[mine], side="right")
        itself = (end[mine] > start[mine]) if same else 0
        met = start[mine][begun - ended - itself > 0]
        if len(met):
            found.append((node, int(met.min()), int(met.max()), len(met)))
    found.sort(key=lambda row: (-row[3], row[0]))
    code, first, last, number = np.array(found, np.int64).reshape(-1, 4).T
    return pa.table(
        {
            "node": named(code, nodes),
            "from": pa.array(first).cast(TIME),
            "to": pa.array(last).cast(TIME),
            "runs": number,
        }
    ).cast(TOGETHER)
