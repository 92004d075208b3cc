"""What commands write for people: names of others are shown as they are, and never move the terminal's hand."""

from pathlib import Path

import pytest

from jobs.cli import main
from jobs.cli.output import Format, rows


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
    assert main(["collect"]) == 3
    assert "HOST[:PORT][/PATH]" in capsys.readouterr().out


def test_a_refused_manifest_is_one_line_also_before_the_first_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a\nb.yaml").write_text("kind: Node\n")
    assert main(["recommend", "-f", "a\nb.yaml"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "colocate: a\\nb.yaml: kind 'Node': neither a Pod nor a workload with a pod template\n"
