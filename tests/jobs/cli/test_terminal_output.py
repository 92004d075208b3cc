"""What commands write for people: names of others are shown as they are, and never move the terminal's hand."""

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from jobs.cli import main
from jobs.cli.output import Format, rows
from jobs.cli.tables import table


@pytest.mark.parametrize("name", ["[red]web[/red]", "a[/b]", "http(s)://HOST[:PORT][/PATH]", "[link=x]y", r"\[bold]"])
def test_a_name_in_brackets_is_shown_and_not_obeyed(name: str) -> None:
    assert name in rows(("pod",), [{"pod": name}], Format.table)


def test_a_line_end_or_an_escape_sequence_in_a_name_stays_in_its_cell() -> None:
    shown = rows(("pod",), [{"pod": "a\nb\x1b[31mc\rd"}], Format.table)
    assert r"a\nb\x1b[31mc\rd" in shown
    assert "\x1b" not in shown


def test_a_source_whose_address_is_none_is_told_with_the_form_it_should_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("colocate.toml").write_text('[[clusters]]\nname = "c"\n[clusters.prometheus]\nurl = "localhost:9090"\n')
    assert main(["collect"]) == 2
    assert "clusters.0.prometheus.url: must be http(s)://HOST[:PORT][/PATH]\n" in capsys.readouterr().err


def test_a_refused_manifest_is_one_line_also_before_the_first_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a\nb.yaml").write_text("kind: Node\n")
    assert main(["recommend", "-f", "a\nb.yaml"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "colocate: a\\nb.yaml: kind 'Node': neither a Pod nor a workload with a pod template\n"


def test_a_time_is_shown_in_utc_to_the_second() -> None:
    at = datetime(2026, 1, 5, 13, 45, 7, 123456, timezone(timedelta(hours=5, minutes=45)))
    assert "2026-01-05 08:00:07Z" in rows(("at",), [{"at": at}], Format.table)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5.4e-5, "<0.0001"),
        (-5.4e-5, ">-0.0001"),
        (0.0, " 0 "),
        (True, "true"),
        (10886.4, "10,886"),
        (9999.6, "10,000"),
    ],
)
def test_a_cell_says_what_it_holds(value: object, shown: str) -> None:
    assert shown in rows(("wide heading",), [{"wide heading": value}], Format.table)


def test_what_is_the_same_in_every_row_stands_under_a_table_that_would_be_too_wide() -> None:
    records = [{"pod": letter * 100, "node": "n" * 100, "cluster": "edge"} for letter in "ab"]
    shown = table(("pod", "node", "cluster"), records, width=200)
    assert shown.endswith(f"node: {'n' * 100}\ncluster: edge\n")
    assert "a" * 100 in shown
    assert "b" * 100 in shown


PAIRS = [
    {
        "victim": f"guest/{letter * 20}", "aggressor": "guest/compress-the-archive", "node_type": f"type-{letter}",
        "status": "observed", "slowdown": 0.25, "low": 0.2, "high": 0.3, "probability": 0.99,
        "effective_overlaps": 123456.0, "window_start": datetime(2026, 1, 5, 8, tzinfo=UTC),
        "message": f"a long sentence about {letter} that has to go over several lines",
    }
    for letter in "abc"
]  # fmt: skip


@pytest.mark.parametrize("width", range(60, 260, 7))
@pytest.mark.parametrize("count", [1, 3])
def test_a_table_fits_the_terminal_and_says_everything(width: int, count: int) -> None:
    records = PAIRS[:count]
    shown = table(tuple(PAIRS[0]), records, "pairs", width=width)
    assert max(map(len, shown.splitlines())) <= width
    read = re.sub(r"[\s│]", "", shown)
    for record in records:
        assert str(record["slowdown"]) in read
    if "│" not in shown:  # a block of lines a row: each name beside its value, no word torn apart
        for record in records:
            assert re.search(rf"^victim +{record['victim']}$", shown, re.MULTILINE)
            assert re.sub(r"\s", "", str(record["message"])) in read
        assert shown.count("2026-01-05 08:00:00Z") == count


def test_what_goes_to_another_program_is_not_wrapped() -> None:
    records = [{"message": letter * 5000, "also": letter * 5000} for letter in "ab"]
    shown = rows(("message", "also"), records, Format.table)
    assert "a" * 5000 in shown
    assert max(map(len, shown.splitlines())) > 10_000


def test_a_table_that_is_narrow_enough_keeps_every_column() -> None:
    shown = rows(("pod", "cluster"), [{"pod": "a", "cluster": "edge"}, {"pod": "b", "cluster": "edge"}], Format.table)
    assert shown.count("edge") == 2


def test_truth_is_written_alike_in_csv_and_json() -> None:
    assert rows(("ready",), [{"ready": True}, {"ready": False}], Format.csv) == "ready\ntrue\nfalse\n"


@pytest.mark.parametrize("arguments", [["decisions"], ["learn"]])
def test_asking_before_anything_was_collected_is_refused_and_leaves_no_file(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [["functions", "-o", "patch"], ["interference", "--status", "odd"], ["functions", "--dominant", "odd"]],
)
def test_a_word_that_is_not_among_the_choices_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "is not one of" in capsys.readouterr().err


def test_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jobs.cli", "recommend", "-f", "-"]
    pod = "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, input=pod, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "colocate: output: No space left on device"
    assert "Traceback" not in done.stderr
