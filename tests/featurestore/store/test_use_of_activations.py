"""What activations used, written again and again: new rows come, others are replaced, the same stay."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from featurestore.store import use
from featurestore.store.duck import Store
from featurestore.used import USE
from tests.support.stores import NOON, select


def used(*numbers: int, cpu: float = 1.0) -> pa.Table:
    """One activation for each number, which is its id and when it started; numbers in tens share a start."""
    rows = [
        {
            "activation_id": str(number),
            "start": NOON + timedelta(seconds=number // 10),
            "function": f"guest/f{number % 3}",
            "cpu_seconds": cpu,
        }
        for number in numbers
    ]
    return pa.Table.from_pylist([dict.fromkeys(USE.names) | row for row in rows], schema=USE)


@pytest.mark.parametrize("part", [1, 7, 1000])
def test_new_rows_come_others_are_replaced_and_the_same_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(use, "PART", part)
    store = Store(tmp_path / "s.duckdb")

    def write(rows: pa.Table, cluster: str = "east") -> int:
        return sum(store.write(lambda con, some=some: use.write(con, cluster, some)) for some in use.parts(rows))

    assert write(used()) == 0
    assert write(used(*range(40))) == 40
    assert write(used(*range(40))) == 0, "nothing new"
    assert write(used(*range(35, 50))) == 10, "five are known"
    assert write(used(3, 41, 60, cpu=2.0)) == 3, "two say something else"
    assert write(used(3), "west") == 1, "of another cluster"
    found = select(store, "SELECT cluster, activation_id::INT, cpu_seconds FROM activation_use")
    changed = {3: 2.0, 41: 2.0, 60: 2.0}
    expected = [("east", number, changed.get(number, 1.0)) for number in [*range(50), 60]]
    assert sorted(found) == sorted([*expected, ("west", 3, 1.0)])
