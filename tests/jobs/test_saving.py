"""What is published: what the store knows, and the columns that all processes that answer would lay out of it."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from featurestore.snapshot import Column, Snapshot
from featurestore.store import published
from jobs import saving
from jobs.config import Settings, StoreSettings
from tests.support.snapshots import snapshot

AT = datetime(2025, 6, 1, tzinfo=UTC)
NODES = [{"cluster": "c1", "node": f"node-{number:04d}", "allocatable": '{"cpu":4}'} for number in range(600)]


def put(path: Path) -> Snapshot:
    """Publish 600 nodes at *path*, and load them."""
    saving.put(Settings(store=StoreSettings(snapshot=path)), snapshot(AT, {"nodes": NODES}))
    return published.load(path)


def test_what_processes_would_lay_out_is_published(tmp_path: Path) -> None:
    [(cluster, laid)] = put(tmp_path / "snapshot").laid.items()
    assert cluster == "c1"
    np.testing.assert_array_equal(laid["nodes.allocatable.cpu"], np.full(600, 4.0))


def test_what_cannot_be_laid_out_is_published_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(given: Snapshot) -> dict[str, dict[str, Column]]:
        raise ValueError("a workflow that cannot be read")

    monkeypatch.setattr(saving, "columns", fails)
    found = put(tmp_path / "snapshot")
    assert found.laid == {}
    assert found["nodes"]["node"].to_pylist() == [node["node"] for node in NODES]
