"""Learning from a small simulated history whose truth is known, and from histories that say nothing."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from featurestore.answers import busyness, schema
from featurestore.company import number
from featurestore.engines.candidate import Inputs, Options, prepare
from featurestore.engines.local import learn
from tests.support.history import BEGIN_US, history

OPTIONS = Options()


def inputs(given, **changes):
    found = Inputs(
        given.activations,
        given.placements,
        given.nodes,
        given.usage,
        given.declared,
        given.workflows,
        BEGIN_US,
        BEGIN_US + given.hours * 3_600_000_000,
    )
    return replace(found, **changes)


@pytest.fixture(scope="module")
def given():
    return history(slowdown=0.6)


@pytest.fixture(scope="module")
def learned(given):
    return learn(inputs(given), OPTIONS)


def rows(table, **wanted):
    return [row for row in table.to_pylist() if all(row[name] == value for name, value in wanted.items())]


def test_the_pair_that_interferes_is_found_with_its_slowdown(learned):
    [pair] = rows(learned.tables["pairs"], victim="guest/f0", aggressor="guest/f1")
    assert pair["status"] == "observed"
    assert pair["probability"] > 0.99
    assert pair["low"] <= 0.6 <= pair["high"]
    assert pair["slowdown"] == pytest.approx(0.6, abs=0.1)
    assert pair["effective_overlaps"] > 100


def test_no_other_pair_is_called_interfering(learned):
    others = [
        row
        for row in learned.tables["pairs"].to_pylist()
        if (row["victim"], row["aggressor"]) != ("guest/f0", "guest/f1")
    ]
    assert len(others) > 10
    assert [row for row in others if (row["probability"] or 0) > 0.5] == []


def test_every_activation_is_placed_on_its_only_pod(given, learned):
    assert learned.attribution["exact"] == given.activations.num_rows
    assert learned.attribution["skew_max_ms"] == 0


def test_tables_have_the_columns_of_the_snapshot(learned):
    for name, table in learned.tables.items():
        assert table.schema.equals(schema(name)), name


def test_latency_leaves_initialisation_out_and_is_by_node(given, learned):
    successes = given.activations
    own = successes.filter(pc.equal(successes["function"], "guest/f3"))
    execution = own["duration_ms"].to_numpy() - np.nan_to_num(own["init_ms"].to_numpy(zero_copy_only=False))
    [whole] = rows(learned.tables["latencies"], function="guest/f3", node="")
    assert whole["activations"] == own.num_rows
    assert whole["p50_ms"] == pytest.approx(np.percentile(execution, 50))
    assert whole["p95_ms"] == pytest.approx(np.percentile(execution, 95))
    by_node = [row for row in rows(learned.tables["latencies"], function="guest/f3") if row["node"]]
    assert sum(row["activations"] for row in by_node) == own.num_rows


def test_medians_by_company_are_those_of_runs_beside_the_same_functions(given, learned):
    """Counted pair by pair: f0's runs beside which f1 ran for half of their time or more, and nobody else did."""
    node_of = {(row["function"], row["started"]): row["node"] for row in given.placements.to_pylist()}
    placed = [
        (row["function"], node_of[row["function"], row["start"].replace(minute=0, second=0, microsecond=0)],
         row["start"].timestamp(), row["end"].timestamp(), row)
        for row in given.activations.select(["function", "start", "end", "duration_ms", "init_ms"]).to_pylist()
    ]  # fmt: skip
    by_place = {}
    for function, node, start, end, _ in placed:
        by_place.setdefault((function, node), []).append((start, end))
    spans = {place: np.array(rows) for place, rows in by_place.items()}
    times = []
    for function, node, start, end, row in placed:
        if function != "guest/f0":
            continue
        beside = {}
        for name in (f"guest/f{code}" for code in range(5)):
            there = spans.get((name, node), np.empty((0, 2)))
            overlap = np.maximum(np.minimum(there[:, 1], end) - np.maximum(there[:, 0], start), 0).sum()
            beside[name] = overlap / (end - start) - (name == "guest/f0")
        if {name for name, share in beside.items() if share >= 0.5} == {"guest/f1"}:
            times.append(row["duration_ms"] - (row["init_ms"] or 0))
    found = rows(learned.tables["company"], function="guest/f0", node="", company=_signed(number("guest/f1")))
    assert sum(row["activations"] for row in found) == pytest.approx(len(times), abs=2)
    assert found[0]["p50_ms"] == pytest.approx(np.median(times), rel=0.01)
    [alone] = rows(learned.tables["company"], function="guest/f0", node="", company=0)
    assert 1.4 < found[0]["p50_ms"] / alone["p50_ms"] < 1.75


def _signed(number):
    return number - 2**64 if number >= 2**63 else number


def test_profiles_are_per_second_busy(learned):
    for function, cores in (("guest/f0", 0.8), ("guest/f3", 0.1)):
        [row] = rows(learned.tables["functions"], function=function, node_type="")
        assert row["cpu_cores"] == pytest.approx(cores, rel=0.02)
        assert row["memory_bytes"] == pytest.approx(1e8)
        assert row["source"] == "measured"
    [row] = rows(learned.tables["functions"], function="guest/f0", node_type="")
    assert row["dominant"] == "cpu"  # .8 of 4 cores against 1e8 of 8e9 bytes
    [row] = rows(learned.tables["functions"], function="guest/f2", node_type="")
    assert row["dominant"] == "network"  # 50 MB/s of 125 MB/s
    assert row["network_bytes_per_s"] == pytest.approx(50e6, rel=0.02)


def test_profiles_are_per_run_as_well(given, learned):
    [row] = rows(learned.tables["functions"], function="guest/f2", node_type="")
    own = given.activations.filter(pc.equal(given.activations["function"], "guest/f2"))
    seconds = (own["duration_ms"].to_numpy() - np.nan_to_num(own["init_ms"].to_numpy(zero_copy_only=False))) / 1000
    assert row["network_bytes_per_run"] == pytest.approx(50e6 * seconds.mean(), rel=0.02)
    assert row["cpu_seconds_per_run"] == pytest.approx(0.1 * seconds.mean(), rel=0.02)
    assert row["memory_bytes_p95"] == pytest.approx(1e8)
    assert row["disk_bytes_per_run"] is None


def test_busyness_is_the_mean_of_the_last_hour(given, learned):
    last = BEGIN_US + given.hours * 3_600_000_000
    start = given.activations["start"].cast(pa.int64()).to_numpy()
    end = given.activations["end"].cast(pa.int64()).to_numpy()
    overlap = np.clip(np.minimum(end, last) - np.maximum(start, last - 3_600_000_000), 0, None)
    name = np.array(given.activations["function"].to_pylist())
    for function in ("guest/f0", "guest/f1"):
        found = sum(row["running"] for row in rows(learned.tables["busyness"], function=function))
        assert found == pytest.approx(overlap[name == function].sum() / 3.6e9)


def test_beside_busyness_stands_how_many_pods_there_were(given):
    """Of f1's pod the last fifteen minutes, of f0's the twelve since it is f0's; of others nothing is known."""
    last = BEGIN_US + given.hours * 3_600_000_000
    time = pa.timestamp("us", tz="UTC")

    def placed(function, started, since, ended):
        row = given.placements.filter(pc.equal(given.placements["function"], function))[-1:]
        for name, at in (("started", started), ("function_from", since), ("ended", ended)):
            value = pa.array([None if at is None else last - at * 60_000_000], pa.int64()).cast(time)
            place = row.schema.get_field_index(name)
            row = row.set_column(place, row.schema.field(place), value.cast(row.schema.field(place).type))
        return row

    placements = pa.concat_tables([placed("guest/f0", 40, 22, 10), placed("guest/f1", 15, None, None)])
    found = rows(busyness(prepare(inputs(given), OPTIONS).runs, last, placements))
    pods = {row["function"]: row["pods"] for row in found if row["pods"] is not None}
    assert pods == pytest.approx({"guest/f0": 12 / 60, "guest/f1": 15 / 60})


def test_failures_are_no_evidence_but_run_beside_others(given):
    """With f1's runs all failed, f1 is no victim, and still the one that disturbs f0."""
    failed = pc.equal(given.activations["function"], "guest/f1")
    status = pc.if_else(failed, pa.scalar(1, pa.int32()), pa.scalar(0, pa.int32()))
    position = given.activations.schema.get_field_index("status_code")
    found = learn(inputs(given, activations=given.activations.set_column(position, "status_code", status)), OPTIONS)
    [pair] = rows(found.tables["pairs"], victim="guest/f0", aggressor="guest/f1")
    assert pair["low"] <= 0.6 <= pair["high"]
    assert rows(found.tables["pairs"], victim="guest/f1") == []
    assert rows(found.tables["latencies"], function="guest/f1") == []


def test_a_composite_around_its_parts_changes_nothing(given, learned):
    whole = given.activations.slice(0, 1)
    for name, value in (("activation_id", "ff"), ("function", "guest/all")):
        whole = whole.set_column(whole.schema.get_field_index(name), name, pa.array([value]))
    whole = whole.set_column(whole.schema.get_field_index("composite"), "composite", pa.array([True]))
    end = whole.schema.get_field_index("end")
    whole = whole.set_column(end, "end", given.activations["end"].slice(given.activations.num_rows - 1))
    found = learn(inputs(given, activations=pa.concat_tables([given.activations, whole])), OPTIONS)
    assert found.tables["pairs"].equals(learned.tables["pairs"])
    assert rows(found.tables["functions"], function="guest/all") == []
    assert found.metrics["composites"] == 1


def test_the_order_of_rows_changes_nothing(given, learned):
    shuffled = given.activations.take(pa.array(np.random.default_rng(3).permutation(given.activations.num_rows)))
    found = learn(inputs(given, activations=shuffled), OPTIONS)
    assert found.tables["pairs"].equals(learned.tables["pairs"])
    assert found.tables["latencies"].equals(learned.tables["latencies"])


def test_an_empty_window_knows_nothing(given):
    found = learn(
        inputs(given, activations=given.activations[:0], placements=given.placements[:0], usage=given.usage[:0]),
        OPTIONS,
    )
    assert {name: table.num_rows for name, table in found.tables.items()} == {
        "pairs": 0,
        "functions": 0,
        "latencies": 0,
        "busyness": 0,
        "company": 0,
    }


def test_one_function_alone_has_a_latency_and_no_neighbour(given):
    alone = given.activations.filter(pc.equal(given.activations["function"], "guest/f3"))
    found = learn(inputs(given, activations=alone), OPTIONS)
    assert {row["aggressor"] for row in found.tables["pairs"].to_pylist()} <= {"guest/f3"}
    assert len(rows(found.tables["latencies"], function="guest/f3", node="")) == 1


def test_without_placements_nothing_is_evidence(given):
    found = learn(inputs(given, placements=given.placements[:0]), OPTIONS)
    assert found.attribution["none"] == given.activations.num_rows
    assert found.tables["pairs"].num_rows == 0
    assert found.metrics["evidence"] == 0


@pytest.mark.parametrize("hopeless", ["failed", "cold", "constant", "zero"])
def test_hopeless_histories_are_unknown_and_not_an_error(given, hopeless):
    table = given.activations
    n = table.num_rows
    changes = {
        "failed": {"status_code": pa.array(np.full(n, 2, np.int32))},
        "cold": {"init_ms": pa.array(np.full(n, 1.0))},
        "constant": {"duration_ms": pa.array(np.full(n, 1000.0)), "init_ms": pa.nulls(n, pa.float64())},
        "zero": {"duration_ms": pa.array(np.zeros(n)), "init_ms": pa.nulls(n, pa.float64()), "end": table["start"]},
    }
    for name, column in changes[hopeless].items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    with np.errstate(all="raise", under="ignore"):
        found = learn(inputs(given, activations=table), OPTIONS)
    if hopeless != "cold":
        assert [row for row in found.tables["pairs"].to_pylist() if row["status"] == "observed"] == []


def test_progress_counts_the_victims(given):
    said = []
    few = given.activations[:500]
    learn(inputs(given, activations=few), OPTIONS, lambda done, of: said.append((done, of)))
    functions = len(set(few["function"].to_pylist()))
    assert said == [(k + 1, functions) for k in range(functions)]


def test_declared_amounts_and_workflow_classes_stand_until_measured(given):
    import msgspec

    from pipeline.records import Action, Workflow

    document = msgspec.json.encode(
        Workflow("wf", "w", actions=(Action("f4", performance_profile={"cpu": "high", "memory": "low"}),))
    ).decode()
    declared = pa.table(
        {
            "function": ["guest/f3", "guest/new"],
            "node_type": ["", ""],
            "cpu_cores": [3.0, 2.0],
            "memory_bytes": [1e9, None],
            "network_bytes_per_s": pa.array([None, None], pa.float64()),
            "disk_bytes_per_s": pa.array([None, None], pa.float64()),
        }
    )
    workflows = pa.table({"namespace": ["wf"], "document": [document]})
    only_f3 = given.usage.filter(pc.match_substring_regex(given.usage["name"], r"-3$"))
    found = learn(inputs(given, declared=declared, workflows=workflows, usage=only_f3), OPTIONS).tables["functions"]
    [measured] = rows(found, function="guest/f3", node_type="")
    assert (measured["source"], measured["cpu_cores"]) == ("measured", pytest.approx(0.1, rel=0.02))
    [new] = rows(found, function="guest/new", node_type="")
    assert (new["source"], new["cpu_cores"], new["activations"]) == ("declared", 2.0, 0)
    [stated] = rows(found, function="guest/f4", node_type="")
    assert (stated["source"], stated["dominant"], stated["cpu"], stated["memory"]) == (
        "declared",
        "cpu",
        "high",
        "low",
    )
