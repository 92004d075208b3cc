"""``colocate demo --serve``: what it prints, and that a real Prometheus has it for every panel of every dashboard."""

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from dashboards.generate import documents
from dashboards.table import DASHBOARDS
from featurestore.store import published
from jobs.cli import main
from jobs.service import described
from jobs.service.counts import Tally
from jobs.service.families import pairs
from jobs.service.metrics import CONTENT_TYPE, Metrics
from tests.support.dashboards import panels
from tests.support.panels import Asking
from tests.support.prometheus import needs_prometheus, start_prometheus
from tests.support.served_demo import PATIENCE, Demo, ask, enrich, serving
from tests.support.service import wait_until
from tests.support.web import Reply, answering

BOARDS = {name.removesuffix(".json"): json.loads(text) for name, text in documents().items()}

#: Panels that may be empty here, and why.
MAY_BE_EMPTY = {
    ("overview", "Scheduled jobs"): "the demo collects once and runs no schedule",
    ("overview", "Duration of jobs"): "the demo collects once and runs no schedule",
    ("recommendations", "Rules left out"): "no rule is late or fails",
}

#: Metrics that may have no series here, and why: panels that name them show a zero, or are listed above.
MAY_BE_ABSENT = {
    "colocation_webhook_errors_total": "no review fails",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    directory = tmp_path_factory.mktemp("served")
    with serving(directory / "kept", COLOCATE_STORE__PATH=str(directory / "real.duckdb")) as served:
        enrich(served)
        yield served


@pytest.fixture(scope="module")
def scraped(demo: Demo) -> Iterator[Asking]:
    # As if there were two replicas, which tell of the same snapshot.
    pages = [f"{demo.url}/metrics", f"{demo.url.replace('127.0.0.1', 'localhost')}/metrics"]
    with start_prometheus(scrape=pages, interval="2s") as url, httpx.Client(base_url=demo.url) as client:
        asking = Asking(url)

        def filled() -> bool:
            """Asked again and again, so that what counts is seen to count; outcomes come last."""
            time.sleep(0.5)
            ask(client)
            return bool(asking.series('colocation_decided_latency_ratio{followed="no"}')) and bool(
                asking.series("rate(colocation_refusals_total[15s])")
            )

        wait_until(filled, PATIENCE)
        yield asking


def test_it_says_affinity_and_reasons_and_touches_no_store_of_the_environment(demo: Demo) -> None:
    said = demo.said
    assert said.index("podAntiAffinity:") < said.index("Nodes, best first") < said.index("Because")
    assert re.search(r"runs \d+% longer beside one always running", said)
    assert "is rightly not taken for interference" in said
    assert not (demo.directory.parent / "real.duckdb").exists()
    assert (demo.directory / "colocation.duckdb").exists()


def test_every_metric_that_it_answers_is_in_the_reference(demo: Demo) -> None:
    known = {described.name(family) for family in described.families()}
    for family in text_string_to_metric_families(httpx.get(f"{demo.url}/metrics").text):
        assert family.name + {"counter": "_total"}.get(family.type, "") in known


@needs_prometheus
@pytest.mark.prometheus
@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_panel_shows_series(scraped: Asking, name: str) -> None:
    listed = {panel for board, panel in MAY_BE_EMPTY if board == name}
    until = time.monotonic() + PATIENCE  # a rate needs two scrapes, and a busy machine may miss one
    while (empty := set(scraped.empty(BOARDS[name])) - listed) and time.monotonic() < until:
        time.sleep(1)
    assert not empty


def test_panels_that_may_be_empty_are_panels_and_few() -> None:
    titles = {(name, panel["title"]) for name, document in BOARDS.items() for panel in panels(document)}
    assert set(MAY_BE_EMPTY) <= titles
    assert len(MAY_BE_EMPTY) <= len(titles) / 20


@needs_prometheus
@pytest.mark.prometheus
@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_metric_that_a_panel_names_is_scraped(scraped: Asking, name: str) -> None:
    """Series by themselves, since ``or vector(0)`` gives one for a metric that is not there."""
    shown = [panel for panel in panels(BOARDS[name]) if (name, panel["title"]) not in MAY_BE_EMPTY]
    asked = set(re.findall(r"\bcolocation_\w+", json.dumps([panel["targets"] for panel in shown])))
    assert asked
    assert {metric for metric in asked if not scraped.series(metric)} <= set(MAY_BE_ABSENT)


@needs_prometheus
@pytest.mark.prometheus
@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_variable_offers_what_there_is(scraped: Asking, name: str) -> None:
    choices = scraped.choices(BOARDS[name])
    assert all(choices.values()), choices
    if "cluster" in choices:
        assert choices["cluster"] == ["recorded"]


@needs_prometheus
@pytest.mark.prometheus
def test_it_asks_the_recording_for_nothing_that_is_not_in_it(scraped: Asking, demo: Demo) -> None:
    log = (demo.directory / "log").read_text(encoding="utf-8")
    assert "snapshot loaded" in log
    assert "was not recorded" not in log


def test_what_replicas_tell_counts_once(scraped: Asking, demo: Demo) -> None:
    wait_until(lambda: len(scraped.series("up == 1")) == 2, PATIENCE)
    [[nodes]] = demo.store.read(lambda con: con.execute("SELECT count(*) FROM node_specs").fetchall())
    [panel] = [each for each in panels(BOARDS["overview"]) if each["title"] == "Nodes ready"]
    [found] = scraped.series(panel["targets"][0]["expr"].replace("$cluster", ".*"))
    assert float(found["value"][1]) == nodes


@needs_prometheus
@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("board", "metric", "panel"),
    [
        ("interference", "colocation_pair_slowdown_ratio", "Victim by aggressor"),
        ("functions", "colocation_function_latency_seconds", "Median run time by node type"),
        ("recommendations", "colocation_webhook_duration_seconds", "Latency"),
        ("regions", "colocation_region_state", "States"),
    ],
)
def test_a_metric_of_another_name_leaves_its_panels_empty(
    scraped: Asking, board: str, metric: str, panel: str
) -> None:
    """As it is where the code renames a metric and the dashboards do not know."""
    renamed = json.loads(json.dumps(BOARDS[board]).replace(metric, f"{metric}_renamed"))
    assert panel in set(scraped.empty(renamed))


@needs_prometheus
@pytest.mark.prometheus
def test_a_metric_that_the_code_renames_leaves_just_its_panels_empty(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric, board = "colocation_pair_slowdown_ratio", BOARDS["interference"]
    renamed = tuple(
        (column, f"{name}_renamed" if name == metric else name, text) for column, name, text in pairs._VALUES
    )
    monkeypatch.setattr(pairs, "_VALUES", renamed)
    told = Metrics(Tally(), None, 0, 100)
    told.seen(published.load(demo.directory / "colocation.snapshot"))
    reply = Reply(told.page(), headers={"Content-Type": CONTENT_TYPE})
    with answering(lambda _: reply) as page, start_prometheus(scrape=[f"{page}/metrics"], interval="1s") as url:
        asking = Asking(url)
        wait_until(lambda: asking.series(f"{metric}_renamed"), PATIENCE)
        empty = set(asking.empty(board))
    names_it = {each["title"] for each in panels(board) if metric in json.dumps(each["targets"])}
    assert "Victim by aggressor" in names_it
    # What counts from nothing shows a zero for a metric that is not there: its name is held against the code's alone.
    counts = {each["title"] for each in panels(board) if "or vector(0)" in json.dumps(each["targets"])}
    assert names_it - counts <= empty
    assert not {"Pairs observed", "Evidence"} & (names_it | empty)


@needs_prometheus
@pytest.mark.prometheus
def test_every_expression_of_the_rules_is_understood(scraped: Asking, repository: Path) -> None:
    groups = yaml.safe_load((repository / "dashboards" / "prometheus" / "rules.yaml").read_text())["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        found = scraped.series(rule["expr"])
        if "record" in rule:
            assert found, rule["record"]


#: Panels that the history alone fills: what is neither stored nor told of anything but the process is left out.
FROM_HISTORY = {
    "overview": {"Nodes ready", "CPU in use", "CPU by node", "Memory by node", "Hot spots", "Activations at once",
                 "Nodes by type and state", "Models", "Since the last success", "Rows a second", "Failing now",
                 "Failed or partial collections", "How activations were placed"},
    "interference": {panel["title"] for panel in panels(BOARDS["interference"])},
    "functions": {panel["title"] for panel in panels(BOARDS["functions"])},
    "recommendations": {"Decisions", "Followed", "Gain", "Followed or not", "By mode", "By mode and outcome",
                        "Run time of pods that followed, and of those that did not"},
    "regions": {"Drain time", "Since the last drain", "Last completed drain"},
}  # fmt: skip


@pytest.fixture(scope="module")
def learned(demo: Demo) -> float:
    [[at]] = demo.store.read(lambda con: con.execute("SELECT epoch(min(created)) FROM models").fetchall())
    return float(at)


@pytest.fixture(scope="module")
def exported(demo: Demo, learned: float, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("exported")
    # The decisions of today are another history than that of the recording.
    until = datetime.fromtimestamp(learned + 1200, UTC).isoformat()
    asked = ["export", "openmetrics", str(directory), "--until", until, "--step", "60"]
    assert main(["--config", str(demo.directory / "colocate.toml"), *asked]) == 0
    [day] = directory.iterdir()
    return day


@needs_prometheus
@pytest.mark.prometheus
def test_history_from_before_the_installation_shows_in_the_same_panels(exported: Path, learned: float) -> None:
    with start_prometheus(exported) as url:
        # What was measured ended when it was learned from; what adds up has to be seen twice.
        moments = Asking(url, learned + 90), Asking(url, learned + 900)
        for name, wanted in FROM_HISTORY.items():
            empty = [set(moment.empty(BOARDS[name], {"__rate_interval": "10m"})) for moment in moments]
            assert not wanted & empty[0] & empty[1], name
        before = Asking(url, learned - 1800)
        assert not {"CPU by node", "Memory by node", "Nodes ready"} & set(before.empty(BOARDS["overview"]))
        assert "Median run time by node type" not in set(before.empty(BOARDS["functions"]))
