"""The strongest victims by the strongest aggressors: a bounded part of all pairs; a pure function of a snapshot."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from featurestore.snapshot import Snapshot
from jobs.service import tables
from jobs.service.known import KNOWN
from jobs.service.page.operations import HeatMap
from pipeline.errors import BadInput

#: What is told of a pair's slowdown, and not only that nothing is known.
_TOLD: Final = pa.array(["observed", "predicted", "shared_cause"])


def heat_map(snapshot: Snapshot, cluster: str | None, search: str, size: int) -> HeatMap:
    """Return at most *size* victims and aggressors, the strongest told slowdown first, with the pairs among them.

    Pairs are told over all node types. Raises `BadInput` where *cluster* is not said and there are several.
    """
    cluster = _cluster(snapshot, cluster)
    table = snapshot["pairs"].select(list(KNOWN["interference"].columns))
    plain = [pa.field(each.name, each.type.value_type if _dictionary(each) else each.type) for each in table.schema]
    table = table.filter(pc.equal(table["cluster"].cast(pa.string()), cluster)).cast(pa.schema(plain))
    table = table.filter(pc.equal(pc.fill_null(table["node_type"], ""), ""))
    if search:
        either = (pc.match_substring(table[role], search, ignore_case=True) for role in ("victim", "aggressor"))
        table = table.filter(pc.or_(*either))
    told = pc.and_(pc.is_in(table["status"], value_set=_TOLD), pc.fill_null(pc.is_finite(table["slowdown"]), False))
    table = table.append_column("strength", pc.if_else(told, table["slowdown"], None))
    victims, aggressors = _strongest(table, "victim"), _strongest(table, "aggressor")
    rows, columns = victims.slice(0, size), aggressors.slice(0, size)
    shown = pc.and_(pc.is_in(table["victim"], value_set=rows), pc.is_in(table["aggressor"], value_set=columns))
    return HeatMap(
        snapshot.version,
        cluster,
        rows.to_pylist(),
        columns.to_pylist(),
        len(victims),
        len(aggressors),
        tables.rows(table.filter(shown).drop_columns(["strength"])),
    )


def _dictionary(field: pa.Field) -> bool:
    return bool(pa.types.is_dictionary(field.type))


def _cluster(snapshot: Snapshot, cluster: str | None) -> str:
    known = snapshot.clusters
    if cluster is None and len(known) > 1:
        raise BadInput(f"cluster: say which of {', '.join(known)}")
    return cluster or (known[0] if known else "")


def _strongest(table: pa.Table, role: str) -> pa.Array:
    """Return the functions in this *role*, the strongest first; those of which nothing is told come last."""
    best = table.group_by(role).aggregate([("strength", "max")])
    order = [("strength_max", "descending"), (role, "ascending")]
    return best.take(pc.sort_indices(best, order))[role].combine_chunks()
