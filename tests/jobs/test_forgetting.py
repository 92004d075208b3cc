"""`colocate forget`: nothing of a cluster is left, everything of the others is."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from featurestore.store import published
from featurestore.store.duck import Store
from featurestore.store.forgotten import known
from jobs import forgetting, importing, learn
from jobs.config import ClusterSettings, Settings
from pipeline.errors import BadInput
from tests.support.history import fill, history

NOW = datetime(2024, 5, 4, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(tmp_path)
    held = Settings()
    store = Store(held.store.path)
    for cluster in ("edge", "trial"):
        fill(store, history(hours=24, an_hour=8), cluster)
        learn.run(held, cluster, now=lambda: NOW)
    return held


def rows(settings: Settings, cluster: str) -> dict[str, int]:
    def counted(con: object) -> dict[str, int]:
        execute = con.execute  # type: ignore[attr-defined]
        tables = execute("SELECT table_name FROM information_schema.columns WHERE column_name = 'cluster'").fetchall()
        asked = {name: f"SELECT count(*) FROM {name} WHERE cluster = ?" for (name,) in tables}
        return {name: execute(text, [cluster]).fetchone()[0] for name, text in asked.items()}

    return Store(settings.store.path).read(counted)


def test_all_of_one_cluster_goes_and_all_of_the_other_stays(settings: Settings) -> None:
    before, kept = rows(settings, "trial"), rows(settings, "edge")
    gone = forgetting.run(settings, "trial", now=lambda: NOW)
    assert {each.table: each.rows for each in gone} == {name: count for name, count in before.items() if count}
    assert {"activations", "placements", "models", "pairs", "runs"} <= {each.table for each in gone}
    assert not any(rows(settings, "trial").values())
    assert rows(settings, "edge") == kept
    assert Store(settings.store.path).read(known) == ["edge"]
    assert set(published.load(settings.store.snapshot)["functions"]["cluster"].to_pylist()) == {"edge"}


def test_what_is_configured_or_not_known_is_refused(settings: Settings) -> None:
    with pytest.raises(BadInput, match="cluster 'moon': nothing is stored of it; there are edge, trial"):
        forgetting.run(settings, "moon", now=lambda: NOW)
    configured = settings.model_copy(update={"clusters": [ClusterSettings(name="edge")]})
    before = rows(settings, "edge")
    with pytest.raises(BadInput, match="cluster 'edge': is configured"):
        forgetting.run(configured, "edge", now=lambda: NOW)
    assert rows(settings, "edge") == before


def test_a_cluster_that_was_forgotten_can_be_imported_again(settings: Settings) -> None:
    file = Path("h.csv")
    file.write_text("activation_id,function,start,end\na,ns/f,1714521600000,1714521601000\n", "utf-8")
    for _ in range(2):
        assert importing.run(settings, "activations", [file], cluster="new", now=lambda: NOW).rows == 1
        assert {each.table for each in forgetting.run(settings, "new", now=lambda: NOW)} >= {"activations"}
