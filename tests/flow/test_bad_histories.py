"""Histories that hold little or nothing: import, learn and interference end well and claim nothing."""

import csv
import io
import math
from datetime import timedelta

import numpy as np
import pytest

from featurestore.store import duck
from jobs.cli import main
from tests.support.silence import silent

BEGIN_MS = 1_714_521_600_000
COLUMNS = (
    "activation_id", "function", "start", "end", "node", "duration_ms", "init_ms", "wait_ms", "status_code",
)  # fmt: skip


def runs(function, n, *, seed=1, nodes=2, hours=12.0, seconds=0.8):
    """*n* undisturbed runs of one function, lognormal times, on random nodes at random times."""
    draw = np.random.default_rng([seed, *function.encode()])
    start = BEGIN_MS + np.sort(draw.uniform(0, hours * 3.6e6, n))
    length = 1000 * seconds * draw.lognormal(0, 0.2, n)
    return [
        {
            "activation_id": f"{function}{i}",
            "function": f"guest/{function}",
            "start": int(s),
            "end": int(s + t),
            "node": f"n{k}",
            "duration_ms": int(s + t) - int(s),
            "init_ms": "",
            "wait_ms": 3,
            "status_code": 0,
        }
        for i, (s, t, k) in enumerate(zip(start, length, draw.integers(0, nodes, n), strict=True))
    ]


def busy(*names, n=700, hours=0.5, **more):
    """Functions that run so often that they meet all the time."""
    return [row for name in names for row in runs(name, n, hours=hours, **more)]


def changed(rows, **values):
    return [row | values for row in rows]


def lasting(rows, ms):
    return [row | {"end": row["start"] + ms, "duration_ms": ms} for row in rows]


def beside_always():
    """a runs only while b runs, which takes two seconds or more, on the only node of both."""
    a = busy("a", nodes=1)
    length = 2000 * np.random.default_rng(3).lognormal(1.0, 0.2, len(a))
    b = [
        row | {"activation_id": f"b{i}", "function": "guest/b", "start": row["start"] - 100, "duration_ms": int(ms)}
        for i, (row, ms) in enumerate(zip(a, length, strict=True))
    ]
    return a + [row | {"end": row["start"] + row["duration_ms"]} for row in b]


def identical():
    """b and c do exactly the same at the same time, a runs beside both."""
    b = busy("b")
    twin = [row | {"activation_id": f"c{i}", "function": "guest/c"} for i, row in enumerate(b)]
    return busy("a") + b + twin


def mostly_once():
    often = [row for f in range(12) for row in runs(f"f{f:02}", 120, hours=1.0)]
    return often + [row for f in range(108) for row in runs(f"once{f:03}", 1, hours=1.0)]


#: The history, and the functions of which nothing can be known as victims.
HISTORIES = {
    "one function": (busy("a"), set()),
    "two functions that never meet": (busy("a", nodes=1) + changed(busy("b", nodes=1), node="n1"), set()),
    "one node": (busy("a", "b", "c", nodes=1), set()),
    "no run alone": (beside_always(), set()),
    "all cold": (changed(busy("a", "b", "c"), init_ms=200), set()),
    "one always fails": (busy("a", "b") + changed(busy("c"), status_code=1), {"c"}),
    "constant duration": (busy("a", "b") + lasting(busy("c"), 700), {"c"}),
    "0 ms": (busy("a", "b") + lasting(busy("c"), 0), {"c"}),
    "negative waits": (changed(busy("a", "b"), wait_ms=-5), set()),
    "identical functions": (identical(), set()),
    "most ran once": (mostly_once(), {f"once{f:03}" for f in range(108)}),
    "nothing": ([], set()),
}


@pytest.fixture
def colocate(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(duck, "HOLD", timedelta(hours=1))  # how long a busy machine takes is no matter here
    config = tmp_path / "colocate.toml"
    config.write_text(f'[store]\npath = "{tmp_path}/h.duckdb"\nsnapshot = "{tmp_path}/s"\n', encoding="utf-8")

    def said(*arguments):
        with silent():
            code = main(["--config", str(config), *arguments])
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        assert all(line.startswith("colocate: ") for line in told.err.splitlines()), told.err
        return code, told.out, told.err

    return said


def written(tmp_path, rows):
    file = tmp_path / "history.csv"
    with file.open("w", encoding="utf-8") as out:
        writer = csv.DictWriter(out, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return str(file)


@pytest.mark.parametrize("name", HISTORIES)
def test_nothing_is_claimed_that_the_history_does_not_hold(colocate, tmp_path, name):
    rows, hopeless = HISTORIES[name]
    assert colocate("import", "activations", written(tmp_path, rows), "--cluster", "c1")[0] == 0
    code, _, error = colocate("learn", "--cluster", "c1") if rows else colocate("learn")
    assert code == (0 if rows else 2), error
    if not rows:
        assert "nothing to learn from" in error
        return
    code, text, _ = colocate("interference", "-o", "csv")
    assert code == 0
    for row in csv.DictReader(io.StringIO(text)):
        pair = (row["victim"], row["aggressor"])
        assert row["status"] in ("observed", "predicted", "unknown", "shared_cause")
        assert (row["status"] == "unknown") == (row["slowdown"] == ""), pair
        for number in ("slowdown", "low", "high", "probability"):
            assert row[number] == "" or math.isfinite(float(row[number]))
        # Nothing interferes in any of these histories.
        assert row["slowdown"] == "" or float(row["low"]) <= 0.05, pair
        assert row["slowdown"] == "" or float(row["probability"]) < 0.9, pair
        if row["victim"].removeprefix("guest/") in hopeless:
            assert row["status"] in ("unknown", "predicted"), pair


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_profiles_that_are_no_amounts_are_refused_and_learning_goes_on(colocate, tmp_path, value):
    colocate("import", "activations", written(tmp_path, busy("a", "b", n=300)), "--cluster", "c1")
    profiles = tmp_path / "profiles.csv"
    profiles.write_text(f"function,node_type,cpu_cores\nguest/a,,{value}\nguest/b,,0.5\n", encoding="utf-8")
    code, _, error = colocate("import", "profiles", str(profiles), "--cluster", "c1")
    assert (code, error.count("\n")) == (2, 1)
    assert "cpu_cores" in error
    assert colocate("learn", "--cluster", "c1")[0] == 0
    code, text, _ = colocate("functions", "--wide", "-o", "csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["function"] for row in rows] == ["guest/a", "guest/b"]
    assert [row["cpu_cores"] for row in rows] == ["", ""]  # all of a file or nothing
