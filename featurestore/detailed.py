"""The tables of what a fit knows beside its pairs, apart from what fills them: who only reads them fits nothing."""

from collections.abc import Mapping

import pyarrow as pa

from featurestore.columnar import TEXT

_NUMBER = pa.float64()

#: Every table of details, with its columns in the store's order.
DETAILS: Mapping[str, pa.Schema] = {
    "pair_evidence": pa.schema(
        [
            *(("victim", TEXT), ("aggressor", TEXT), ("estimate", _NUMBER), ("error", _NUMBER)),
            *(("inflation", _NUMBER), ("discovered", pa.bool_()), ("placebo", _NUMBER), ("placebo_error", _NUMBER)),
        ]
    ),
    "fits": pa.schema(
        [("function", TEXT), ("runs", pa.int64()), ("reason", TEXT), ("noise", _NUMBER), ("drift", _NUMBER)]
    ),
    "base_times": pa.schema([("function", TEXT), ("node_type", TEXT), ("base_ms", _NUMBER)]),
    "controls": pa.schema([("function", TEXT), ("control", TEXT), ("moved", _NUMBER)]),
    "comparisons": pa.schema(
        [
            *(("victim", TEXT), ("aggressor", TEXT), ("alone", pa.int64()), ("naive", _NUMBER)),
            *((f"{part}_part", _NUMBER) for part in ("own", "others", "node_types", "rest")),
            *(("cold_beside", _NUMBER), ("cold_without", _NUMBER)),
        ]
    ),
}
