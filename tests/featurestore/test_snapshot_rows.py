"""Rows of a snapshot's table as Python values."""

import pyarrow as pa

from featurestore.snapshot import rows

NAMES = [None if number % 7 == 0 else f"name-{number % 3}" for number in range(600)]
TABLE = pa.table(
    {
        "name": pa.chunked_array(
            [pa.array(NAMES[:100]).dictionary_encode(), pa.array(NAMES[100:]).dictionary_encode()]
        ),
        "count": pa.array(range(600), pa.int64()),
        "unused": pa.nulls(600, pa.int32()),
    }
)


def test_all_rows_come_in_order_with_texts_for_codes() -> None:
    assert list(rows(TABLE)) == [{"name": name, "count": number, "unused": None} for number, name in enumerate(NAMES)]


def test_only_the_columns_that_are_asked_for() -> None:
    assert list(rows(TABLE, ["count"])) == [{"count": number} for number in range(600)]


def test_no_rows() -> None:
    assert list(rows(TABLE.slice(0, 0))) == []
