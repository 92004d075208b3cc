"""What became of decisions, summed up: medians worked out by hand from the rows."""

from datetime import UTC, datetime
from pathlib import Path

from featurestore.store import followed
from featurestore.store.duck import Store

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
#: mode, followed, p50, usual
ROWS = [
    ("prefer", True, 80.0, 100.0),
    ("prefer", True, 100.0, 100.0),
    ("prefer", True, 30.0, 20.0),
    ("prefer", True, None, 20.0),
    ("prefer", False, 150.0, 100.0),
    ("observe", None, 10.0, None),
]


def test_pods_are_counted_and_their_run_times_compared_by_mode_and_whether_they_followed(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")

    def fill(con: object) -> None:
        for number, (mode, went, p50, usual) in enumerate(ROWS):
            con.execute(  # type: ignore[attr-defined]
                "INSERT INTO decisions VALUES (?, ?, 'c1', 'ns', 'p', 'f', ?, 'v', true, 'patched', '{}')",
                [str(number), AT, mode],
            )
            con.execute(  # type: ignore[attr-defined]
                "INSERT INTO decision_outcomes VALUES ('c1', ?, ?, 'u', 'n1', ?, NULL, ?, 5, ?, ?, ?)",
                [str(number), AT, AT, went, p50, usual, AT],
            )

    store.write(fill)
    found = store.read(followed.summary).to_pylist()
    assert found == [
        {"cluster": "c1", "mode": "observe", "followed": "unknown", "pods": 1, "latency_ratio": None},
        {"cluster": "c1", "mode": "prefer", "followed": "no", "pods": 1, "latency_ratio": 1.5},
        {"cluster": "c1", "mode": "prefer", "followed": "yes", "pods": 4, "latency_ratio": 1.0},
    ]
    assert store.read(lambda con: followed.summary(con, datetime(2026, 2, 1, tzinfo=UTC))).num_rows == 0
