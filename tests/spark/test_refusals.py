"""What Spark cannot do is one line that names the culprit, not a page of two languages' traces."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from featurestore.engines.spark.session import session
from featurestore.store.duck import Store
from jobs.cli import main
from jobs.cli.common import BAD, DONE
from jobs.exporting.parquet import export
from pipeline.errors import Permanent
from tests.support.history import fill, history


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A place with an hour of history of cluster c1, and its tables."""
    (tmp_path / "colocate.toml").write_text(
        f'[store]\npath = "{tmp_path}/history.duckdb"\nsnapshot = "{tmp_path}/snapshot"\n', encoding="utf-8"
    )
    store = Store(tmp_path / "history.duckdb")
    fill(store, history(hours=1, an_hour=5))
    export(store, tmp_path / "tables")
    return tmp_path


def learned(home: Path, master: str, tables: object) -> int:
    command = ["learn", "--engine", "spark", "--master", master, "--from", str(tables)]
    return main(["--config", str(home / "colocate.toml"), *command])


def test_a_master_that_is_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as bound:  # a port that nobody listens on
        bound.bind(("127.0.0.1", 0))
        url = f"spark://127.0.0.1:{bound.getsockname()[1]}"
        assert learned(home, url, home / "tables") == BAD
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"--master {url}: no master answers: Connection refused")
    assert not (home / "snapshot").exists()


def test_a_machine_without_java(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home))
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert learned(home, "local[1]", home / "tables") == BAD
    assert "--engine spark: there is no Java" in capsys.readouterr().err.splitlines()[-1]


def test_a_master_of_no_known_kind(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learned(home, "sparkk://x", home / "tables") == BAD
    assert "--master sparkk://x: " in (said := capsys.readouterr().err.splitlines()[-1])
    assert "Could not parse Master URL" in said


def test_tables_that_are_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learned(home, "local[1]", home / "elsewhere") == BAD
    assert f"{home}/elsewhere: no activations of cluster 'c1'" in capsys.readouterr().err.splitlines()[-1]
    assert not (home / "snapshot").exists()


def test_a_clock_that_is_ahead_hides_no_history(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "ahead.csv").write_text("activation_id,function,start,end\nz,f,4070908800000,4070908801000\n")
    told = ["import", "activations", str(home / "ahead.csv"), "--cluster", "c1"]
    assert main(["--config", str(home / "colocate.toml"), *told]) == DONE
    export(Store(home / "history.duckdb"), home / "tables")
    assert learned(home, "local[1]", home / "tables") == DONE
    assert (home / "snapshot").exists()


def test_an_object_store_that_spark_has_no_connector_for(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learned(home, "local[1]", "s3a://history/tables") == BAD
    assert "S3AFileSystem not found" in capsys.readouterr().err.splitlines()[-1]


def test_a_file_that_is_no_parquet(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sorted((home / "tables" / "activations").rglob("*.parquet"))[0]
    path.write_bytes(b"no table at all")
    assert learned(home, "local[1]", home / "tables") == BAD
    assert path.name in capsys.readouterr().err.splitlines()[-1]


def test_what_breaks_in_a_worker() -> None:
    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise ValueError("the step broke")

    with (
        pytest.raises(Permanent, match=r"^--master local\[1\]: ValueError: the step broke$"),
        session("local[1]") as spark,
    ):
        spark.range(3).mapInArrow(broken, "id long").toArrow()
