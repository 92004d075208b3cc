"""Tables that no machine has as files: Spark reads them over the network, from where a URL says."""

from pathlib import Path

import pytest

from featurestore.store import published
from featurestore.store.duck import Store
from jobs.cli import main
from jobs.cli.common import BAD, DONE
from jobs.exporting.parquet import export
from tests.spark.test_learning_on_spark import assert_same
from tests.spark.webhdfs import served
from tests.support.history import fill, history


def learned(home: Path, name: str, tables: str) -> int:
    """Learn on Spark, into a store and a snapshot of that *name*."""
    config = home / f"{name}.toml"
    config.write_text(f'[store]\npath = "{home}/{name}.duckdb"\nsnapshot = "{home}/{name}.snapshot"\n', "utf-8")
    command = ["learn", "--engine", "spark", "--master", "local[2]", "--from", tables]
    return main(["--config", str(config), *command])


def test_tables_of_a_url_say_what_those_of_a_path_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("path", "url"):
        fill(Store(tmp_path / f"{name}.duckdb"), history(slowdown=0.6, hours=12, an_hour=40))
    shelf = tmp_path / "bucket"
    export(Store(tmp_path / "path.duckdb"), shelf / "tables")
    assert learned(tmp_path, "path", str(shelf / "tables")) == DONE
    with served(shelf) as there:
        assert learned(tmp_path, "url", f"{there.address}/tables/") == DONE
        files = {str(path.relative_to(shelf)) for path in shelf.rglob("*.parquet")}
        assert there.read <= files
        of_runs = {path for path in files if path.startswith("tables/activations/")}
        assert of_runs
        assert of_runs <= there.read

        capsys.readouterr()
        assert learned(tmp_path, "url", f"{there.address}/elsewhere") == BAD
        said = capsys.readouterr().err.splitlines()[-1]
        assert f"{there.address}/elsewhere: no activations of cluster 'c1'" in said
    by_path, by_url = (published.load(tmp_path / f"{name}.snapshot") for name in ("path", "url"))
    for table in ("pairs", "functions", "latencies"):
        assert_same(by_url[table], by_path[table])
    assert any(row["status"] == "observed" for row in by_url["pairs"].to_pylist())
