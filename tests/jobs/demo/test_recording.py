"""The recording that is shipped: whole, consistent, and what a real Prometheus and a real client make of it."""

import gzip
import json
from collections import Counter
from datetime import datetime
from itertools import permutations
from pathlib import Path
from typing import Any

import duckdb
import pytest

from jobs import collect, config
from jobs.demo import recorded, replay
from jobs.demo.recorder import answers
from pipeline.errors import BadInput
from tests.support.prometheus import needs_prometheus, start_prometheus


@pytest.fixture(scope="module")
def recording() -> recorded.Recording:
    return recorded.load()


def test_it_is_small_and_says_where_it_was_made(recording: recorded.Recording) -> None:
    assert sum(path.stat().st_size for path in recorded.DIRECTORY.iterdir()) < 3_000_000
    assert recording.manifest["machine"]["cores"] >= 2
    assert "shifted by a constant" in recording.manifest["how"]
    begun, ended = (datetime.fromisoformat(text) for text in recording.manifest["recorded"])
    assert begun < ended


def test_the_manifest_counts_what_is_there(recording: recorded.Recording) -> None:
    sessions = recording.manifest["sessions"]
    kinds = Counter(key.split("-")[0] for key, *_ in sessions)
    assert kinds == {"alone": 18, "pair": 72, "three": 12}
    assert len(recording.activations) == recording.manifest["activations"]
    assert len({record["activationId"] for record in recording.activations}) == len(recording.activations)
    assert len(recording.nodes) == recording.manifest["nodes"] == 5
    assert len(recording.pods) == 18 + 2 * 72 + 3 * 12
    assert {f"{r['namespace']}/{r['name']}" for r in recording.activations} == set(recording.manifest["functions"])


def test_every_ordered_pair_was_measured_often_enough(recording: recorded.Recording) -> None:
    names = sorted(recording.manifest["functions"])
    measured = {(row["victim"], row["aggressor"]): row for row in recording.measured}
    assert set(measured) == set(permutations(names, 2))
    for row in measured.values():
        assert row["alone"] >= 25, row
        assert row["together"] >= 25, row
        assert row["low"] < row["slowdown"] < row["high"]


def test_each_activation_ran_inside_one_pod_of_its_function(recording: recorded.Recording) -> None:
    lives: dict[str, list[tuple[int, int]]] = {}
    end = int(recording.end.timestamp() * 1000)
    for pod in recording.pods:
        labels, status = pod["metadata"]["labels"], pod["status"]
        state = status["containerStatuses"][0]["state"]
        finished = _ms(state["terminated"]["finishedAt"]) if "terminated" in state else end
        function = f"{labels['openwhisk/namespace']}/{labels['openwhisk/action']}"
        lives.setdefault(function, []).append((_ms(status["startTime"]), finished))
    for record in recording.activations:
        function = f"{record['namespace']}/{record['name']}"
        around = [life for life in lives[function] if life[0] <= record["start"] and record["end"] <= life[1]]
        assert len(around) == 1, record


def test_the_replayed_records_are_the_recorded_ones(recording: recorded.Recording, tmp_path: Path) -> None:
    moment = replay.moment(recording)
    with replay.replay(recording, tmp_path) as settings:
        loaded = config.load(settings)
        outcomes = collect.run(loaded, now=lambda: moment)
        again = collect.run(loaded, now=lambda: moment)
    assert {(each.source, each.outcome, each.message) for each in outcomes} == {
        (source, "ok", "")
        for source in ("nodes", "workflows", "placements", "disks", "regions", "usage", "activations")
    }
    assert {each.outcome for each in again} == {"ok"}
    assert sum(each.rows for each in again) == 0
    with duckdb.connect(str(tmp_path / "colocation.duckdb"), read_only=True) as con:
        stored = con.execute(
            'SELECT activation_id, function, epoch_ms("start"), epoch_ms("end"), duration_ms FROM activations'
        ).fetchall()
        counts = [con.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("placements", "node_specs")]
    assert sorted(stored) == sorted(
        (r["activationId"], f"{r['namespace']}/{r['name']}", r["start"], r["end"], r["duration"])
        for r in recording.activations
    )
    assert counts == [(len(recording.pods),), (5,)]


@needs_prometheus
@pytest.mark.prometheus
def test_the_kept_answers_are_those_of_a_real_prometheus(recording: recorded.Recording, tmp_path: Path) -> None:
    history = tmp_path / "history.openmetrics"
    history.write_bytes(gzip.decompress((recorded.DIRECTORY / "history.openmetrics.gz").read_bytes()))
    with start_prometheus(history) as url:
        now = answers.keep(recording, url)
    assert set(now) == set(recording.answers)
    for request, body in now.items():
        assert _values(body) == pytest.approx(_values(recording.answers[request]), rel=1e-6), request[0]


def test_a_name_that_is_none_cannot_be_swapped() -> None:
    with pytest.raises(BadInput, match="--swap: 'media/none' is none of "):
        recorded.load(("media/none", "shop/poll"))


def test_a_swap_exchanges_the_names_everywhere(recording: recorded.Recording) -> None:
    swapped = recorded.load(("media/transcode", "shop/poll"))
    other = {"media/transcode": "shop/poll", "shop/poll": "media/transcode"}
    for before, after in zip(recording.activations, swapped.activations, strict=True):
        name = f"{before['namespace']}/{before['name']}"
        assert f"{after['namespace']}/{after['name']}" == other.get(name, name)
        assert [a["value"] for a in after["annotations"] if a["key"] == "path"] == [other.get(name, name)]
        assert (before["start"], before["end"]) == (after["start"], after["end"])
    pods = {pod["metadata"]["name"] for pod in swapped.pods}
    told = {name for body in swapped.answers.values() for name in _pods(body)}
    assert told <= pods
    assert len(told) == len({name for body in recording.answers.values() for name in _pods(body)})
    assert recorded.load(("shop/poll", "media/transcode")) == swapped


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _pods(body: str) -> set[str]:
    return {s["metric"]["pod"] for s in json.loads(body)["data"]["result"] if "pod" in s["metric"]}


def _values(body: str) -> dict[Any, float]:
    return {
        (*sorted(series["metric"].items()), at): float(value)
        for series in json.loads(body)["data"]["result"]
        for at, value in series["values"]
    }
