"""Sources that settings switch off are neither collected nor scheduled."""

from datetime import timedelta
from pathlib import Path

import pytest

from featurestore.store.duck import Store
from jobs import wire
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
