"""What a file says of activations that are known: where they ran is taken up, what contradicts them is not.

A collection reads again what it has read, and the same id has the same start. Who writes files corrects them: a node
is added, times move. Ids are therefore looked for at any time, once for all of the files.
"""

from datetime import datetime

from duckdb import DuckDBPyConnection

from featurestore.store.merging import changed

#: Where an activation ran, which OpenWhisk's own records do not say.
_PLACE = ("node", "pod", "node_type")
_MISSING = " OR ".join(f"a.{name} IS NULL AND s.{name} IS NOT NULL" for name in _PLACE)
_SAID = ("start", "end", "function", "status_code", *_PLACE)

_TAKEN = ", ".join(f"{name} = coalesce(a.{name}, s.{name})" for name in _PLACE)

_FILL = f"""
UPDATE activations AS a SET collected = $collected, {_TAKEN} FROM staged AS s
WHERE a.cluster = $cluster AND a.activation_id = s.activation_id AND s.verdict IS NULL AND ({_MISSING})
"""

# A file that does not say where a run was contradicts nothing.
_OTHER = " OR ".join(
    f'a."{name}" IS DISTINCT FROM ' + (f'coalesce(s."{name}", a."{name}")' if name in _PLACE else f's."{name}"')
    for name in _SAID
)
_DIFFER = f"""
CREATE OR REPLACE TEMP TABLE differ AS SELECT s.rowid AS place, a."start" IS DISTINCT FROM s."start" AS elsewhere
FROM staged AS s JOIN activations AS a ON a.activation_id = s.activation_id
WHERE a.cluster = $cluster AND s.verdict IS NULL AND ({_OTHER})
"""


def reconciled(con: DuckDBPyConnection, cluster: str, collected: datetime) -> tuple[int, int]:
    """Take up where known activations ran from the rows in ``staged`` (`openwhisk`) that say so, and leave out those
    that are known at another time; return how many were told more, and how many of the others contradict."""
    filled = changed(con, _FILL, {"cluster": cluster, "collected": collected})
    con.execute(_DIFFER, {"cluster": cluster})
    con.execute("DELETE FROM staged USING differ WHERE staged.rowid = differ.place AND differ.elsewhere")
    [[differ]] = con.execute("SELECT count(DISTINCT place) FROM differ").fetchall()
    return filled, int(differ)
