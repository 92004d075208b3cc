"""Pairs of functions: how strongly the strongest interfere, how sure that is, and on how much evidence."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from featurestore.snapshot import Snapshot
from featurestore.snapshot import rows as rows_of
from jobs.service.families.counted import gauges

_TOLD = pa.array(["observed", "predicted"])
_BY = ("cluster", "victim", "aggressor", "node_type", "status")
_VALUES = (
    (
        "slowdown",
        "colocation_pair_slowdown_ratio",
        "How much longer the victim takes beside one always-running aggressor; the strongest pairs only",
    ),
    ("low", "colocation_pair_slowdown_low_ratio", "Lower end of the slowdown's 90 % interval"),
    ("high", "colocation_pair_slowdown_high_ratio", "Upper end of the slowdown's 90 % interval"),
    ("probability", "colocation_pair_interference_probability_ratio", "Probability that the pair interferes"),
    ("effective_overlaps", "colocation_pair_effective_overlaps", "Independent meetings that the slowdown rests on"),
)


def pairs(snapshot: Snapshot, most: int) -> Iterator[Metric]:
    """Yield the *most* strongest observed or predicted pairs of *snapshot*, and how many pairs have which status."""
    yield from strongest(snapshot["pairs"], most)
    yield counts(snapshot["pairs"].group_by(["cluster", "status"]).aggregate([([], "count_all")]).to_pylist())


def strongest(table: pa.Table, most: int) -> Iterator[Metric]:
    """Yield slowdown (.25 = 25 % longer) and evidence of the *most* strongest pairs of *table*."""
    told = pc.is_in(table["status"].cast("string"), value_set=_TOLD)
    columns = [*_BY, *(column for column, _, _ in _VALUES)]
    table = table.filter(pc.and_(told, pc.fill_null(pc.is_finite(table["slowdown"]), False)))
    rows = list(rows_of(table.sort_by([("slowdown", "descending")]).slice(0, most), columns))
    yield from gauges(_VALUES, _BY, rows)


def counts(rows: Iterable[Mapping[str, Any]]) -> Metric:
    """Return the number of pairs by what is known of them."""
    family = GaugeMetricFamily(
        "colocation_pairs", "Pairs of functions by what is known of them", labels=("cluster", "status")
    )
    for row in rows:
        family.add_metric((row["cluster"], row["status"]), row["count_all"])
    return family
