"""The runs of the hold-out, copied out of the store: what ran in the blocks that no fit sees, and beside them.

Each function takes the connection that `Store.read` or `Store.write` hands to its work.
"""

from datetime import datetime

import numpy as np
import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.interference.spared import BLOCK, SHARE, aside, keys
from featurestore.store.queries import arrow
from pipeline.records import Window

#: Runs that are looked at, the newest: more tell nothing more.
MOST = 300_000

#: Blocks and activations from which on a history has evidence to spare: about eight blocks are set aside then.
LEAST_BLOCKS, LEAST_ACTIVATIONS = 8 * SHARE, 10_000

_RUNS = """
SELECT u.node, u.function, u."start", u."end", u.latency_ms, b.hour,
    coalesce(a.init_ms, 0) > 0 AS cold, a.status_code = 0 AS success
FROM activation_use AS u
JOIN blocks AS b ON b.node = u.node AND b.hour = epoch_us(u."start") // $block
JOIN activations AS a ON a.cluster = u.cluster AND a.activation_id = u.activation_id AND a."start" = u."start"
WHERE u.cluster = $cluster AND u."start" >= $since AND u."start" < $until AND u."end" IS NOT NULL
UNION ALL BY NAME
SELECT u.node, u.function, u."start", u."end", NULL AS latency_ms, b.hour, false AS cold, false AS success
FROM activation_use AS u JOIN blocks AS b ON b.node = u.node AND b.hour = epoch_us(u."end") // $block
WHERE u.cluster = $cluster AND u."start" >= $since AND u."start" < $until
    AND epoch_us(u."start") // $block < epoch_us(u."end") // $block
ORDER BY hour DESC, "start" DESC LIMIT $most
"""


def runs(con: DuckDBPyConnection, cluster: str, span: Window, most: int = MOST) -> pa.Table:
    """Copy the runs of *span* that touch a block that is set aside.

    Columns: node, function, start, end, latency_ms, hour, cold, success. *hour* (since the epoch) and node name the
    block; a run that began before it is no success there.
    """
    nodes = con.execute("SELECT DISTINCT node FROM activation_use WHERE cluster = ? AND node IS NOT NULL", [cluster])
    names = sorted(name for (name,) in nodes.fetchall())
    hours = np.arange(_hour(span.since), _hour(span.until) + 1)
    at = np.tile(hours * BLOCK, len(names))
    chosen = np.flatnonzero(aside(np.repeat(keys(names), len(hours)), at))
    blocks = {"node": pa.array(names, pa.string()).take(pa.array(chosen // len(hours))), "hour": at[chosen] // BLOCK}
    con.register("blocks", pa.table(blocks))
    given = {"cluster": cluster, "since": span.since, "until": span.until, "block": BLOCK, "most": most}
    found = arrow(con, _RUNS, given)
    con.unregister("blocks")
    return found


def enough(con: DuckDBPyConnection, cluster: str, span: Window, *, aside: bool) -> bool:
    """Return whether so much ran in *span* that a sixteenth of it can be spared.

    Where it is set *aside* already, half of that is enough: what is near the limit would change all the time.
    """
    least = 0.5 if aside else 1.0
    [[count, hours, named]] = con.execute(
        """
        SELECT count(*), count(DISTINCT epoch_us("start") // ?), count(DISTINCT node)
        FROM activations WHERE cluster = ? AND "start" >= ? AND "start" < ?
        """,
        [BLOCK, cluster, span.since, span.until],
    ).fetchall()
    [[placed]] = con.execute(
        "SELECT count(DISTINCT node) FROM placements WHERE cluster = ? AND started < ? AND coalesce(ended, ?) > ?",
        [cluster, span.until, span.until, span.since],
    ).fetchall()
    blocks = hours * max(named, placed)
    return bool(count >= least * LEAST_ACTIVATIONS and blocks >= least * LEAST_BLOCKS)


def _hour(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000 // BLOCK
