"""The demo: what it says is what was measured directly, and follows the names."""

import socket
from pathlib import Path

import pytest
from scipy import stats

from jobs import config
from jobs.demo import recorded, replay, run, show
from jobs.demo.findings import covered, strongest, undisturbed
from pipeline.errors import BadInput

_SWAP = ("shop/journal", "shop/poll")


def _run(directory: Path, swap: tuple[str, str] | None = None) -> run.Result:
    recording = recorded.load(swap)
    with replay.replay(recording, directory) as settings:
        return run.run(recording, config.load(settings))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> run.Result:
    return _run(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def swapped(tmp_path_factory: pytest.TempPathFactory) -> run.Result:
    return _run(tmp_path_factory.mktemp("swapped"), _SWAP)


def test_what_takes_long_is_told_before_it_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    heard: list[str] = []

    def learns(*_: object, **__: object) -> None:
        heard.append("it learns")
        raise Enough

    monkeypatch.setattr(run.collect, "run", lambda *_, **__: heard.append("it collects"))
    monkeypatch.setattr(run.learn, "run", learns)
    with pytest.raises(Enough):
        run.run(recorded.load(None), config.Settings(), told=heard.append)
    assert [said.split()[0] for said in heard] == ["Collecting", "it", "Learning", "it"]
    assert [said for said in heard if said.startswith("it")] == ["it collects", "it learns"]


def test_it_ends_with_a_command_that_a_shell_finds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "clone"
    (home / ".venv" / "bin").mkdir(parents=True)
    monkeypatch.chdir(home)
    monkeypatch.setattr("sys.executable", str(home / ".venv/bin/python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert show.command() == ".venv/bin/colocate"
    there = tmp_path / "colocate"
    there.touch(0o755)
    assert show.command() == "colocate"


def test_every_source_is_collected(result: run.Result) -> None:
    assert {each.outcome for each in result.outcomes} == {"ok"}
    assert sum(each.rows for each in result.outcomes if each.source == "activations") == len(
        result.recording.activations
    )


def test_the_strongest_pair_is_the_one_measured_to_be_the_strongest(result: run.Result) -> None:
    found = strongest(result.findings)
    assert found is not None
    most = max(result.recording.measured, key=lambda row: row["slowdown"])
    assert (found.evidence.victim, found.evidence.aggressor) == (most["victim"], most["aggressor"])
    assert found.evidence.low < most["high"]
    assert most["low"] < found.evidence.high


def test_a_pair_measured_not_to_interfere_is_not_flagged(result: run.Result) -> None:
    quiet = undisturbed(result.findings, 0.05)
    assert quiet is not None
    assert quiet.measured is not None
    assert -0.05 < quiet.measured["low"] < quiet.measured["high"] < 0.05
    assert not quiet.interferes
    assert quiet.evidence.aggressor not in str(result.answer.recommendation.affinity) or quiet.evidence.victim != (
        result.answer.recommendation.function
    )


def test_slowdowns_are_as_measured_at_the_promised_rate(result: run.Result) -> None:
    """Each is promised with 90 %: fewer than the 1 % quantile of that many trials would break the promise."""
    inside, compared = covered(result.findings)
    assert compared == len(result.recording.measured)
    assert inside >= stats.binom.ppf(0.01, compared, 0.9)


def test_the_affinity_keeps_the_victim_from_its_strongest_disturber(result: run.Result) -> None:
    found = strongest(result.findings)
    assert found is not None
    recommendation = result.answer.recommendation
    assert recommendation.function == found.evidence.victim
    terms = recommendation.affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    namespace, action = found.evidence.aggressor.split("/")
    matched = [
        {e["key"]: e.get("values") for e in term["podAffinityTerm"]["labelSelector"]["matchExpressions"]}
        for term in terms
    ]
    assert any(
        action in (keys.get("openwhisk/action") or ()) and namespace in (keys.get("openwhisk/namespace") or ())
        for keys in matched
    )
    [sentence] = [
        reason.sentence
        for reason in recommendation.reasons
        if reason.evidence is not None
        and (reason.evidence.victim, reason.evidence.aggressor) == (found.evidence.victim, found.evidence.aggressor)
    ]
    assert found.evidence.victim in sentence
    assert found.evidence.aggressor in sentence
    assert f"{found.evidence.slowdown:.0%} longer" in sentence
    assert f"interval {found.evidence.low:.0%} to {found.evidence.high:.0%}" in sentence
    assert f"{found.evidence.effective_overlaps:.0f} effective overlaps" in sentence


def test_nodes_with_a_strong_disturber_come_after_those_without(result: run.Result) -> None:
    found = strongest(result.findings)
    assert found is not None
    with_it = {
        pod["spec"]["nodeName"]
        for pod in result.recording.pods
        if pod["status"]["phase"] == "Running"
        and pod["metadata"]["labels"]["openwhisk/action"] == found.evidence.aggressor.split("/")[1]
    }
    scores = {node.name: node.score for node in result.answer.recommendation.nodes}
    assert with_it
    assert max(scores[name] for name in with_it) < max(scores.values())
    assert result.answer.recommendation.nodes[0].name not in with_it


def test_what_functions_use_most_is_what_they_were_written_to_use(result: run.Result) -> None:
    measured = {row["function"]: row for row in result.snapshot["functions"].to_pylist() if not row["node_type"]}
    written = {"disk bandwidth": "disk", "network over loopback": "network", "cpu": "cpu"}
    checked = 0
    for function, purpose in result.recording.manifest["functions"].items():
        expected = written.get(purpose, written.get(purpose.split(",")[0]))
        if expected is not None:
            checked += 1
            assert measured[function]["dominant"] == expected, function
    assert checked == 4
    assert all(row[name] for row in measured.values() for name in ("cpu", "memory", "network", "disk"))


def test_with_two_names_swapped_the_answer_follows(result: run.Result, swapped: run.Result) -> None:
    other = {_SWAP[0]: _SWAP[1], _SWAP[1]: _SWAP[0]}
    before = {
        (
            other.get(each.evidence.victim, each.evidence.victim),
            other.get(each.evidence.aggressor, each.evidence.aggressor),
        ): each
        for each in result.findings
    }
    after = {(each.evidence.victim, each.evidence.aggressor): each for each in swapped.findings}
    assert set(before) == set(after)
    for pair, each in after.items():
        assert each.interferes == before[pair].interferes, pair
        assert each.evidence.effective_overlaps == pytest.approx(before[pair].evidence.effective_overlaps, rel=1e-9)
        if each.interferes:
            assert each.evidence.slowdown == pytest.approx(before[pair].evidence.slowdown, rel=0.02, abs=0.01), pair
    first, second = strongest(result.findings), strongest(swapped.findings)
    assert first is not None
    assert second is not None
    assert (second.evidence.victim, second.evidence.aggressor) == (
        other.get(first.evidence.victim, first.evidence.victim),
        other.get(first.evidence.aggressor, first.evidence.aggressor),
    )
    assert second.evidence.victim != first.evidence.victim
    assert swapped.answer.recommendation.function == second.evidence.victim


def test_a_port_that_is_taken_is_told_before_anything_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"serve.port: 127.0.0.1:{port} is in use by another program"):
            run.demo(directory=None, serve=True, port=port)
    assert capsys.readouterr().out == ""
