"""``colocate simulate`` on a real store, whose history is worked out by hand."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs.cli.main import main
from jobs.config.settings import load
from jobs.simulating import run

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


def activations() -> str:
    """Every minute of an hour: b runs 10 s on n0, a beside it 2 s and alone 1 s, c alone 1 s on n1."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("activation_id", "function", "start", "end", "node", "node_type"))
    begin = int(BEGIN.timestamp() * 1000)
    runs = (("b", 5, 10, "n0"), ("a", 7, 2, "n0"), ("a", 20, 1, "n0"), ("c", 30, 1, "n1"))
    for minute in range(60):
        for number, (name, at, seconds, node) in enumerate(runs):
            start = begin + (minute * 60 + at) * 1000
            writer.writerow((f"{minute}-{number}", f"guest/{name}", start, start + seconds * 1000, node, "t"))
    return out.getvalue()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("simulate")
    (home / "colocate.toml").write_text(f"[store]\npath = '{home / 'db'}'\nspool = '{home / 'spool'}'\n")
    (home / "runs.csv").write_text(activations())
    (home / "truth.csv").write_text("victim,aggressor,slowdown\nguest/a,guest/b,1.0\nguest/b,guest/a,\n")
    command = ["import", "activations", str(home / "runs.csv"), "--cluster", "hand"]
    assert main(["--config", str(home / "colocate.toml"), *command]) == 0
    return home


def simulate(home: Path, *arguments: str) -> int:
    return main(["--config", str(home / "colocate.toml"), "simulate", *arguments])


def test_nothing_need_be_asked_for(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(home) == 0
    said = capsys.readouterr().out
    assert "as-happened" in said and "advised" in said


def test_a_hand_made_history_with_its_truth(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policies = ("as-happened", "least-loaded", "predecessor", "advised", "oracle")
    asked = [word for name in policies for word in ("--policy", name)]
    assert simulate(home, *asked, "--truth", str(home / "truth.csv"), "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    by_policy = {each["policy"]: each for each in found["outcomes"]}
    assert list(by_policy) == list(policies)
    # As it happened a takes twice as long once a minute, of four runs: 5 / 4. Apart, all take what they take alone.
    assert by_policy["as-happened"]["mean"] == pytest.approx(1.25, abs=1e-6)
    assert by_policy["as-happened"]["slowed"] == pytest.approx(0.25)
    for name in ("predecessor", "oracle"):
        assert by_policy[name]["mean"] == pytest.approx(1.0, abs=1e-6)
        assert by_policy[name]["pending"] == 0
    assert {(each["pods"], each["unserved"]) for each in by_policy.values()} == {(3, 0)}
    assert {each["runs"] for each in by_policy.values()} == {by_policy["oracle"]["runs"]}
    half = (BEGIN + timedelta(minutes=30)).replace(tzinfo=UTC)
    assert abs(datetime.fromisoformat(found["split"]) - half) < timedelta(minutes=1)


def test_a_history_that_ended_a_moment_ago_is_replayed_up_to_its_last_run(home: Path) -> None:
    """The window reaches to now, three days later; the last run starts half a minute before the hour ends."""
    found = run(load(home / "colocate.toml"), "hand", now=BEGIN + timedelta(days=3), policies=("as-happened",))
    assert found.until == BEGIN + timedelta(minutes=59, seconds=31)
    assert abs(found.split - (BEGIN + timedelta(minutes=29, seconds=48))) < timedelta(seconds=1)


def test_csv_and_a_window_of_ones_own(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    window = ("--since", "2026-01-05T00:00:00Z", "--split", "2026-01-05T00:40:00Z", "--until", "2026-01-05T00:50:00Z")
    truth = ("--truth", str(home / "truth.csv"))
    assert simulate(home, "--policy", "as-happened", *window, *truth, "-o", "csv") == 0
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["policy"], row["runs"], row["cluster"]) == ("as-happened", "40", "hand")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "best"), "--policy: 'best' is none; there are as-happened, least-loaded"),
        (("--policy", "informed"), "--policy: 'informed' needs the true slowdowns (--truth FILE)"),
        (("--policy", "oracle"), "--policy: 'oracle' needs the true slowdowns (--truth FILE)"),
        (("--since", "yesterday"), "--since: 'yesterday' is no RFC 3339 time"),
        (("--since", "0001-01-01T00:00:00+01:00"), "--since: '0001-01-01T00:00:00+01:00' is no RFC 3339 time"),
        (("--since", "2026-01-01"), "--since: '2026-01-01' is no RFC 3339 time with a time zone, such as"),
        (("--until", "2026-01-05T00:00:00"), "--until: '2026-01-05T00:00:00' is no RFC 3339 time with a time zone"),
        (("--split", "2027-01-01T00:00:00Z"), "--split: 2027-01-01 00:00 UTC is not within the window"),
        (("--cluster", "other"), "--cluster: no cluster 'other'; name one of hand"),
        (("--truth", "runs.csv"), "no column victim"),
        (("--truth", "strange.csv"), "none of its functions with a slowdown ran"),
        (("--since", "2026-01-07T00:00:00Z"), "is not before the end of the window"),
    ],
)
def test_bad_input_is_one_line(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, str], said: str
) -> None:
    (home / "strange.csv").write_text("victim,aggressor,slowdown\nx/y,x/z,0.5\n")
    option, value = arguments
    given = str(home / value) if option == "--truth" else value
    assert simulate(home, option, given) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_without_any_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "colocate.toml").write_text(f"[store]\npath = '{tmp_path / 'db'}'\n")
    assert simulate(tmp_path) == 2
    assert "no such file" in capsys.readouterr().err
