"""Sources that settings switch off are neither collected nor scheduled; of what nobody has nothing is asked."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from featurestore.store import queries
from featurestore.store.duck import Store
from jobs import collect, wire
from jobs.config import Settings
from jobs.supervisor.schedule import plan

ALL = {"nodes", "workflows", "placements", "disks", "regions"}


@pytest.mark.parametrize(
    ("off", "gone"),
    [({}, set()), ({"disks": {"collect": False}}, {"disks"}), ({"regions": {"follow": False}}, {"regions"})],
)
def test_what_is_switched_off_is_left_out(off: dict[str, object], gone: set[str], tmp_path: Path) -> None:
    settings = Settings.model_validate({"clusters": [{"name": "c1", "kubernetes": {}}], **off})
    store = Store(tmp_path / "s.duckdb", timedelta(seconds=1))
    assert {source.name for source in wire.sources(settings, settings.clusters[0], store)} == ALL - gone
    scheduled = {job.name for job in plan(settings, None)}
    assert scheduled == ALL - gone - {"regions"} | {"learn"}  # regions are followed by the supervisor itself


def test_however_long_the_last_collection_is_past_drives_that_nobody_has_take_one_step(tmp_path: Path) -> None:
    prometheus = {"url": "http://127.0.0.1:9"}
    settings = Settings.model_validate(
        {
            "clusters": [{"name": "c1", "prometheus": prometheus}],
            "store": {"path": tmp_path / "s.duckdb", "spool": tmp_path / "spool"},
        }
    )
    now, writes = datetime(2026, 11, 29, tzinfo=UTC), []

    class Counting(Store):
        def write(self, work, prepared=None):  # type: ignore[no-untyped-def]
            writes.append(work)
            return super().write(work, prepared)

    store = Counting(tmp_path / "s.duckdb", timedelta(seconds=1))
    store.write(lambda con: queries.advance(con, "c1", "usage", "drive", now - timedelta(days=30)))
    writes.clear()
    found = collect.run(settings, now=lambda: now, store=store)
    assert [(each.scope, each.outcome) for each in found] == [("node", "failed"), ("pod", "failed"), ("drive", "ok")]
    assert store.read(lambda con: queries.watermark(con, "c1", "usage", "drive")) == now
    assert len(writes) == 2, "one for the watermark, one for what is told of the three"
