"""/metrics: parses, says what happened, and adds up over serving processes."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobs.service import counts
from jobs.service.counts import BUCKETS, Tally
from jobs.service.families.sources import sources
from jobs.service.metrics import Metrics, of_snapshot, render
from jobs.supervisor import status
from jobs.supervisor.status import JobStatus, SourceHealth, Status, WatchStatus
from tests.support.metrics import Samples, key, samples
from tests.support.service import AT, Fakes, encoded, review, running
from tests.support.snapshots import snapshot

HEALTH = [
    {"cluster": "c1", "source": "usage", "last_success": AT, "last_attempt": AT + timedelta(minutes=5),
     "outcome": "failed", "reason": "timeout", "rows": 0, "refused": 3, "watermark": AT - timedelta(minutes=5),
     "rows_total": 1200, "errors_total": 4},
    {"cluster": "c1", "source": "nodes", "last_success": AT, "last_attempt": AT, "outcome": "ok", "reason": "",
     "rows": 2, "refused": 0, "watermark": None, "rows_total": 2, "errors_total": 0},
]  # fmt: skip
NODES = [
    {"cluster": "c1", "node": "n1", "cpu_cores": 8.0, "memory_bytes": 1e9, "cpu_used_cores": 2.0,
     "memory_used_bytes": float("nan")},
    {"cluster": "c1", "node": "n2", "cpu_cores": 4.0, "memory_bytes": 2e9},
]  # fmt: skip
PAIRS = [
    {"cluster": "c1", "victim": f"v{number}", "aggressor": 'a"\n\\', "node_type": "", "status": status_,
     "slowdown": slowdown, "effective_overlaps": 40.0, "activations": 5}
    for number, (slowdown, status_) in enumerate(
        [(0.1, "observed"), (0.9, "observed"), (0.5, "predicted"), (9.0, "unknown"), (float("nan"), "observed")]
    )
]  # fmt: skip
KNOWN = snapshot(
    AT,
    {"health": HEALTH, "nodes": NODES, "pairs": PAIRS},
    attribution={"c1": {"exact": 90.0, "ambiguous": 10.0, "skew_max_ms": 300.0, "skew_median_ms": 20.0}},
)


def _samples(page: bytes | str) -> Samples:
    text = page.decode() if isinstance(page, bytes) else page
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert len(names) == len(set(names)), "a family stands in two places"
    for family in families:
        assert family.name.startswith("colocation_")
        assert family.documentation
    return samples(families)


def _metrics(directory: Path | None = None, pairs: int = 100) -> Metrics:
    metrics = Metrics(Tally(), directory, 0, pairs)
    metrics.seen(KNOWN)
    return metrics


def test_a_snapshot_after_the_first_is_rendered_with_rests_and_the_former_stands_until_then() -> None:
    pauses: list[float] = []
    shown: list[bytes] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        shown.append(metrics.page())

    metrics = Metrics(Tally(), None, 0, 100, pause)
    metrics.seen(KNOWN)
    assert not pauses
    metrics.seen(replace(KNOWN, version="v2"))
    assert len(pauses) > 5
    assert all(b'version="v1"' in page and b'version="v2"' not in page for page in shown)
    assert b'version="v2"' in metrics.page()
    assert _samples(metrics.page())[key("pairs", cluster="c1", status="observed")] == 3


def test_sources_show_success_attempts_rows_errors_and_why_they_fail() -> None:
    found = _samples(_metrics().page())
    usage = {"cluster": "c1", "source": "usage"}
    assert found[key("source_last_success_timestamp_seconds", **usage)] == AT.timestamp()
    assert found[key("source_last_attempt_timestamp_seconds", **usage)] == AT.timestamp() + 300
    assert found[key("source_rows_total", **usage)] == 1200
    assert found[key("source_errors_total", **usage)] == 4
    assert found[key("source_refused", **usage)] == 3
    assert found[key("source_failing", **usage, reason="timeout")] == 1
    assert found[key("source_lag_seconds", **usage)] > 0
    assert key("source_lag_seconds", cluster="c1", source="nodes") not in found
    assert not [key for key in found if key[0].endswith("source_failing") and ("source", "nodes") in key[1]]


def test_nodes_have_their_use_and_no_sample_where_it_is_not_known() -> None:
    found = _samples(_metrics().page())
    assert found[key("node_cpu_used_cores", cluster="c1", node="n1")] == 2.0
    assert found[key("node_cpu_allocatable_cores", cluster="c1", node="n2")] == 4.0
    assert key("node_memory_used_bytes", cluster="c1", node="n1") not in found
    assert key("node_cpu_used_cores", cluster="c1", node="n2") not in found


def test_only_the_strongest_known_pairs_are_shown_and_their_names_escaped() -> None:
    found = _samples(_metrics(pairs=2).page())
    pairs = {key: value for key, value in found.items() if key[0] == "colocation_pair_slowdown_ratio"}
    assert sorted(pairs.values()) == [0.5, 0.9]
    assert all(("aggressor", 'a"\n\\') in labels for _, labels in pairs)
    assert found[key("pairs", cluster="c1", status="observed")] == 3


def test_attribution_is_counted_by_method() -> None:
    found = _samples(_metrics().page())
    assert found[key("attributed_activations", cluster="c1", method="exact")] == 90
    assert found[key("attribution_skew_seconds", cluster="c1")] == 0.3
    assert sum(value for name, value in found.items() if "attributed_activations" in str(name)) == 100


def test_the_most_drifting_functions_and_the_distance_of_the_fold_are_shown() -> None:
    drift = {"guest/a": 0.5, "guest/b": -4.5, "guest/c": 1.5}
    metrics = Metrics(Tally(), None, 0, 2)
    metrics.seen(replace(KNOWN, learning={"c1": {"drift": drift, "distance": {"largest": 1.25}}}))
    found = _samples(metrics.page())
    assert found[key("function_drift", cluster="c1", function="guest/b")] == -4.5
    assert found[key("function_drift", cluster="c1", function="guest/c")] == 1.5
    assert key("function_drift", cluster="c1", function="guest/a") not in found
    assert found[key("learning_distance", cluster="c1", of="largest")] == 1.25


def test_the_snapshot_says_its_version_age_and_failures() -> None:
    metrics = _metrics()
    metrics.loads = lambda: (3, 2)
    found = _samples(metrics.page())
    assert found[key("snapshot_info", version="v1")] == 1
    assert found[key("snapshot_created_timestamp_seconds")] == AT.timestamp()
    assert found[key("snapshot_age_seconds")] > 0
    assert (found[key("snapshot_loads_total")], found[key("snapshot_load_failures_total")]) == (3, 2)


def test_watches_show_how_stale_they_are_once_they_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    metrics = Metrics(Tally(), tmp_path, 0, 3)
    metrics.watches = lambda: [
        WatchStatus("c1", "nodes", 998.5, 2, use="answers"),
        WatchStatus("c1", "pods", None, 0, use="answers"),
    ]
    status.write(Status(watches=[WatchStatus("c1", "nodes", 990.0, 1, waiting=7)]), tmp_path / status.FILE)
    found = _samples(metrics.page())
    nodes = {"cluster": "c1", "resource": "nodes"}
    assert found[key("watch_staleness_seconds", **nodes, use="answers")] == 1.5
    assert found[key("watch_staleness_seconds", **nodes, use="history")] == 10
    assert key("watch_staleness_seconds", cluster="c1", resource="pods", use="answers") not in found
    assert found[key("watch_lists_total", **nodes, use="answers")] == 2
    assert found[key("watch_waiting", **nodes, use="history")] == 7


def test_what_the_supervisor_saw_last_counts_where_it_is_newer(tmp_path: Path) -> None:
    newer = SourceHealth("c1", "usage", AT.timestamp() + 600, AT.timestamp() + 600, "ok", "", 0, None, 1500, 4)
    older = SourceHealth("c1", "nodes", 0.0, 1.0, "failed", "timeout", 0, None, 0, 9)
    job = JobStatus(
        runs={"ok": 2, "timeout": 1}, missed=1, overrun=4, running=True, last_start=5.0, last_success=6.0,
        last_seconds=7.0,
    )  # fmt: skip
    told = Status(1.0, {"usage": job}, [newer, older], restarts=2, decisions_flushed=11, flush_errors=1)
    status.write(told, tmp_path / status.FILE)
    found = _samples(_metrics(tmp_path).page())
    assert found[key("source_rows_total", cluster="c1", source="usage")] == 1500
    assert key("source_failing", cluster="c1", source="usage", reason="timeout") not in found
    assert found[key("source_errors_total", cluster="c1", source="nodes")] == 0
    assert found[key("job_runs_total", task="usage", outcome="ok")] == 2
    assert found[key("job_runs_total", task="usage", outcome="timeout")] == 1
    assert found[key("job_missed_total", task="usage")] == 1
    assert found[key("job_overrun_total", task="usage")] == 4
    assert found[key("job_running", task="usage")] == 1
    assert found[key("serving_restarts_total")] == 2
    assert found[key("decisions_flushed_total")] == 11


def test_reviews_are_counted_by_what_became_of_them() -> None:
    fakes = Fakes()
    with running(fakes.parts()) as url, httpx.Client(base_url=url) as client:
        client.post("/mutate", content=encoded(review()))
        client.post("/mutate", content=encoded(review(namespace=1)))
        answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = _samples(answer.text)
    assert found[key("decisions_total", mode="prefer", outcome="patched", reason="none")] == 1
    assert found[key("webhook_errors_total", cause="malformed_review")] == 1
    assert found[key("webhook_duration_seconds_count")] == 2
    assert found[key("webhook_duration_seconds_bucket", le="+Inf")] == 2


def test_any_process_answers_for_all_and_a_new_one_goes_on_counting(tmp_path: Path) -> None:
    other = Tally()
    for _ in range(3):
        other.decided("prefer", "patched", "none")
        other.took(0.004)
    other.lost(5)
    other.without("fastest", "deadline")
    other.rejected("not_json")
    counts.write(other, tmp_path / "serving-1.json")
    metrics = _metrics(tmp_path)
    metrics._tally.decided("prefer", "patched", "none")
    metrics._tally.took(9.0)
    metrics._tally.without("fastest", "deadline")
    metrics._tally.rejected("not_json")
    metrics.publish()
    found = _samples(metrics.page())
    assert found[key("decisions_total", mode="prefer", outcome="patched", reason="none")] == 4
    assert found[key("decisions_dropped_total")] == 5
    assert found[key("rules_left_out_total", rule="fastest", cause="deadline")] == 2
    assert found[key("webhook_rejected_total", cause="not_json")] == 2
    assert found[key("webhook_duration_seconds_bucket", le="0.005")] == 3
    assert found[key("webhook_duration_seconds_bucket", le="2.0")] == 3
    assert found[key("webhook_duration_seconds_bucket", le="+Inf")] == 4
    assert found[key("webhook_duration_seconds_sum")] == pytest.approx(9.012)
    successor = counts.read(tmp_path / "serving-1.json")
    successor.decided("prefer", "patched", "none")
    counts.write(successor, tmp_path / "serving-1.json")
    assert _samples(metrics.page())[key("decisions_total", mode="prefer", outcome="patched", reason="none")] == 5


@pytest.mark.parametrize("content", [b"", b"{", b'{"decisions":[]}', b"\x00"])
def test_a_damaged_file_of_another_process_costs_only_itself(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "serving-1.json").write_bytes(content)
    (tmp_path / status.FILE).write_bytes(content)
    found = _samples(_metrics(tmp_path).page())
    assert found[key("webhook_duration_seconds_count")] == 0


@pytest.mark.parametrize(("seconds", "bucket"), [(0.0, 0), (BUCKETS[0], 0), (0.0003, 1), (2.0, 12), (2.1, 13)])
def test_a_bucket_holds_what_took_at_most_its_bound(seconds: float, bucket: int) -> None:
    tally = Tally()
    tally.took(seconds)
    assert tally.buckets.index(1) == bucket


@pytest.mark.parametrize("reason", ["", "chosen", "worse"])
def test_the_page_says_why_the_newest_model_does_not_answer(reason: str) -> None:
    outcome = "partial" if reason == "worse" else "ok"
    health = [SourceHealth("c1", "learn", 1.0, 1.0, outcome, reason, 0, None, 1, 0)]
    metrics = [sample for family in sources(health, 2.0) for sample in family.samples]
    held = {
        sample.labels["reason"]: sample.value for sample in metrics if sample.name == "colocation_model_held_back"
    }
    assert held == {each: float(each == reason) for each in ("chosen", "worse")}


def test_families_of_many_nodes_and_functions_stand_together_with_all_their_samples() -> None:
    nodes = [{"cluster": "c1", "node": f"n{number}", "cpu_cores": float(number)} for number in range(701)]
    names = [f"f{number}" for number in range(301)]
    functions = [{"cluster": "c1", "function": name, "node_type": "", "activations": 1} for name in names]
    latencies = [
        {"cluster": "c1", "function": name, "node_type": kind, "node": "", "p50_ms": 2.0, "p95_ms": 3.0}
        for name in names
        for kind in ("big", "small")
    ]
    many = snapshot(AT, {"nodes": nodes, "functions": functions, "latencies": latencies})
    found = _samples(render(of_snapshot(many, 1000)))
    cores = {label: value for label, value in found.items() if label[0] == "colocation_node_cpu_allocatable_cores"}
    assert sorted(cores.values()) == [float(number) for number in range(701)]
    assert len(set(cores)) == 701
    seconds = [value for label, value in found.items() if label[0] == "colocation_function_latency_seconds"]
    assert sorted(seconds) == [0.002] * 602 + [0.003] * 602
