"""``import``, ``learn``, ``interference``, ``functions`` and a pair explained, of histories that allow no conclusion.

Each is brought in by the commands, as a person would: what is not known is said to be unknown, in plain words, never
with a library's warning, an error of arithmetic, or a confident number.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.cli import main
from tests.support.silence import silent

BEGIN_MS = 1_767_225_600_000
DAY_MS = 86_400_000

Row = dict[str, Any]


def _history(functions: int = 4, runs: int = 400, nodes: int = 3, seed: int = 4) -> list[Row]:
    """Runs at random times on random nodes; who runs beside whom changes nothing."""
    draw = np.random.default_rng(seed)
    span = runs * functions * 600 // nodes  # about one and a half others run beside each
    rows = []
    for number in range(runs * functions):
        start, node = BEGIN_MS + int(draw.integers(0, span)), int(draw.integers(0, nodes))
        rows.append(
            {
                "activation_id": f"a{number}",
                "function": f"ns/f{number % functions}",
                "start": start,
                "end": start + int(1000 * np.exp(draw.normal(0, 0.2))),
                "init_ms": "",
                "wait_ms": "",
                "status_code": 0,
                "node": f"node-{node}",
                "node_type": ("small", "big")[node % 2],
            }
        )
    return rows


def _run_in_2099() -> Row:
    return _history(functions=1, runs=1)[0] | {
        "activation_id": "z",
        "start": 4_070_908_800_000,
        "end": 4_070_908_801_000,
    }


def _of(rows: Sequence[Row], function: str, **changes: Any) -> list[Row]:
    """The rows, those of *function* with *changes*."""
    return [row | changes if row["function"] == function else row for row in rows]


def _lasting(rows: Sequence[Row], milliseconds: int, function: str = "") -> list[Row]:
    return [
        row | {"end": row["start"] + milliseconds} if not function or row["function"] == function else row
        for row in rows
    ]


@dataclass(frozen=True)
class Kind:
    """*rows* are the history, *unknown* says of which pairs (victim, aggressor) nothing may be stated, *said* what
    standard error of ``learn`` says; *missing* is part of the explanation of f0 beside f1."""

    rows: Callable[[], list[Row]]
    unknown: Callable[[str, str], bool] = lambda victim, aggressor: True
    said: str = ""
    missing: str = ""


def _victim(name: str) -> Callable[[str, str], bool]:
    return lambda victim, aggressor: victim == name


def _nothing(victim: str, aggressor: str) -> bool:
    return False


def _identical() -> list[Row]:
    """f1 and f2 always run at the very same moments on the same nodes, and f0 beside both or neither."""
    rows = []
    for row in _history():
        if row["function"] == "ns/f1":
            rows += [row, row | {"function": "ns/f2", "activation_id": f"{row['activation_id']}-2"}]
        elif row["function"] != "ns/f2":
            rows.append(row)
    return rows


def _inside() -> list[Row]:
    """Each run of f0 is within one of f1, on one of two nodes; both differ in length from run to run."""
    draw, rows = np.random.default_rng(5), []
    for number, (inner, outer) in enumerate(
        zip(draw.integers(300, 360, 600), draw.integers(900, 1100, 600), strict=True)
    ):
        for name, start, lasts in (("f1", 0, outer), ("f0", 200, inner)):
            begin = BEGIN_MS + 2000 * number + start
            rows.append(_history(functions=1, runs=1)[0] | {
                "activation_id": f"{name}-{number}", "function": f"ns/{name}", "start": begin,
                "end": begin + int(lasts), "node": f"node-{number % 2}", "node_type": "small",
            })  # fmt: skip
    return rows


def _rare() -> list[Row]:
    rows = _history(functions=100, runs=30, nodes=10)
    span = max(row["start"] for row in rows) - BEGIN_MS
    draw = np.random.default_rng(9)
    for number in range(900):
        start = BEGIN_MS + int(draw.integers(0, span))
        rows.append(rows[0] | {"activation_id": f"r{number}", "function": f"ns/rare{number:03d}", "start": start,
                               "end": start + 1000, "node": f"node-{number % 10}"})  # fmt: skip
    return rows


def _is_rare(victim: str, aggressor: str) -> bool:
    return "rare" in victim or "rare" in aggressor


_CONSTANT = "constant duration): every pair is unknown"

KINDS: Mapping[str, Kind] = {
    "one function": Kind(lambda: _history(functions=1), _nothing, said="only one function ran"),
    "one node": Kind(lambda: _history(nodes=1), _nothing, missing="the cluster has one node"),
    "no run of f0 alone": Kind(
        lambda: [
            *_of(_history(), "ns/f0", node="node-0", node_type="small"),
            {
                "activation_id": "long",
                "function": "ns/f1",
                "start": BEGIN_MS,
                "end": BEGIN_MS + DAY_MS - 1,
                "init_ms": "",
                "wait_ms": "",
                "status_code": 0,
                "node": "node-0",
                "node_type": "small",
            },
        ],
        _nothing,
        missing="never ran without ns/f1",
    ),
    "f0 always wholly beside f1": Kind(_inside, _victim("ns/f0"), missing="never ran without ns/f1"),
    "all cold": Kind(lambda: [row | {"init_ms": 300, "end": row["end"] + 300} for row in _history()], _nothing),
    "f0 always fails": Kind(lambda: _of(_history(), "ns/f0", status_code=1), _victim("ns/f0"), missing="0 runs"),
    "all fail": Kind(lambda: [row | {"status_code": 2} for row in _history()], said="no successful activation"),
    "f0 takes always as long": Kind(
        lambda: _lasting(_history(), 1000, "ns/f0"), _victim("ns/f0"), missing="constant duration"
    ),
    "all take always as long": Kind(
        lambda: _lasting(_history(), 1000), said="constant duration): every pair is unknown"
    ),
    "f0 takes 0 ms": Kind(lambda: _lasting(_history(), 0, "ns/f0"), _victim("ns/f0"), missing="constant duration"),
    "all take 0 ms": Kind(lambda: _lasting(_history(), 0), said=_CONSTANT),
    "negative waits": Kind(lambda: [row | {"wait_ms": -40} for row in _history()], _nothing),
    "identical pairs": Kind(_identical, _nothing),
    "a thousand functions, nine hundred ran once": Kind(_rare, _is_rare),
    "a clock decades ahead": Kind(lambda: [*_history(), _run_in_2099()], _nothing),
    "a run": Kind(lambda: _history(functions=1, runs=1), said="only one function ran"),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with silent():
        yield tmp_path


def _run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    found = main(list(arguments))
    out, err = capsys.readouterr()
    assert found == code, err
    assert not re.search(r"Traceback|Warning|singular|invalid value|\bnan\b|\binf\b", out + err), out + err
    return out, err


def _written(rows: Sequence[Row], file: Path) -> str:
    names = list(_history(functions=1, runs=1)[0])
    with file.open("w", encoding="utf-8", newline="") as text:
        writer = csv.DictWriter(text, names)
        writer.writeheader()
        writer.writerows(rows)
    return str(file)


def _all(capsys: pytest.CaptureFixture[str], command: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(_run(capsys, command, "-o", "csv")[0])))


@pytest.mark.parametrize("name", KINDS)
def test_what_cannot_be_known_is_said_to_be_unknown(
    name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, rows = KINDS[name], KINDS[name].rows()
    _run(capsys, "import", "activations", _written(rows, home / "runs.csv"), "--cluster", "c")
    _, err = _run(capsys, "learn")
    said = [line for line in err.splitlines() if line.startswith("colocate:")]  # beside what a busy machine logs
    assert kind.said in " ".join(said)
    assert len(said) <= 1, err
    functions = _all(capsys, "functions")
    assert {row["function"] for row in functions} == {row["function"] for row in rows}
    for pair in _all(capsys, "interference"):
        if kind.unknown(pair["victim"], pair["aggressor"]):
            assert (pair["status"], pair["slowdown"], pair["probability"]) == ("unknown", "", ""), pair
        else:
            assert not pair["probability"] or float(pair["probability"]) < 0.9, pair  # in truth nothing interferes
    if len(functions) > 1:
        [told] = json.loads(_run(capsys, "interference", "ns/f0", "ns/f1", "-o", "json")[0])
        assert kind.missing in " ".join(told["missing"]), told["missing"]
        if kind.unknown("ns/f0", "ns/f1"):
            assert (told["status"], told["slowdown"], told["probability"]) == ("unknown", None, None)
            assert told["missing"]


def test_a_window_without_a_run_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "profiles.csv").write_text("function,cpu_cores\nns/f0,1\nns/f1,\n", encoding="utf-8")
    _run(capsys, "import", "profiles", "profiles.csv", "--cluster", "c")
    _, err = _run(capsys, "learn")
    assert err == "colocate: c: no activations in the window: nothing is known\n"
    assert _all(capsys, "interference") == []


def test_a_clock_that_is_centuries_behind_is_of_no_history(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What ran in the year 1 would have a window that begins before the calendar."""
    rows = [row | {"start": -62_135_596_800_000, "end": -62_135_596_799_000} for row in _history(runs=2)]
    _run(capsys, "import", "activations", _written(rows, home / "runs.csv"), "--cluster", "c")
    _, err = _run(capsys, "learn")
    assert err == "colocate: c: no activations in the window: nothing is known\n"
    assert _all(capsys, "interference") == []


def test_one_run_centuries_ago_keeps_no_increment_from_the_others(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The use of a run that came since the last model is told with the next one, however long ago it ran."""
    old = _history(functions=1, runs=1)[0] | {"start": -62_135_596_800_000, "end": -62_135_596_799_000}
    rows = [*_history(runs=2), old | {"activation_id": "old"}]
    _run(capsys, "import", "activations", _written(rows, home / "runs.csv"), "--cluster", "c")
    _run(capsys, "learn")
    _, err = _run(capsys, "learn")
    assert "c: nothing new since model 1 was learned" in err


@pytest.mark.parametrize("value", ["NaN", "inf", "-1", "1e999"])
def test_profiles_that_are_no_amounts_name_their_line(
    value: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "profiles.csv").write_text(f"function,cpu_cores\nns/f0,{value}\n", encoding="utf-8")
    assert main(["import", "profiles", "profiles.csv", "--cluster", "c"]) == 2
    out, err = capsys.readouterr()
    [said] = [line for line in err.splitlines() if line.startswith("colocate:")]
    assert out == ""
    assert said.startswith(f"colocate: profiles.csv, line 2: cpu_cores '{value}'")
    assert not (home / "colocation.duckdb").exists()
