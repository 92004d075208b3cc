"""`colocate doctor`: each check on its own, whatever goes wrong in it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs import doctor
from jobs.config import ClusterSettings, Settings

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_fault_of_ours_in_one_check_costs_only_that_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def broken(*_: object) -> None:
        raise RecursionError("a fault of ours")

    monkeypatch.setitem(doctor._SOURCES, "kubernetes", broken)
    found = list(doctor.examine(Settings(clusters=[ClusterSettings(name="c")]), NOW))
    assert [each.verdict for each in found if each.source == "kubernetes"] == ["failed"]
    assert {each.source for each in found} >= {"store", "kubernetes", "prometheus", "openwhisk"}
