"""The page at ``/`` in a real browser, served by the demo: what it shows is what the store holds."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from jobs.demo.run import pod
from tests.support.browser import ZONE, Seen, needs_chromium, visiting
from tests.support.served_demo import PATIENCE, Demo
from tests.support.service import wait_until

pytestmark = needs_chromium

#: A directory to write pictures of the page to, for the README.
PICTURES = os.environ.get("COLOCATION_PICTURES")
WIDE = {"viewport": {"width": 1280, "height": 900}}


@pytest.fixture(scope="module")
def seen(demo: Demo, chromium: Browser) -> Iterator[Seen]:
    """The page, once it shows everything."""
    # What was published last has to be taken up, and decisions are written a little later.
    wait_until(lambda: httpx.get(f"{demo.url}/v1/regions").json()["total"] == 2, PATIENCE)
    with visiting(chromium, demo.url, **WIDE) as seen:
        filled(seen.page)
        yield seen
        refused = "the server responded with a status of 400"  # bad pods are posted below
        assert [each for each in seen.wrong if refused not in each] == []


@pytest.fixture
def page(seen: Seen) -> Page:
    return seen.page


def filled(page: Page) -> None:
    for part in ("#sources tr", "#node-rows tr", "#map tbody tr", "#decision-rows tr", "#region-rows tr"):
        expect(page.locator(part).first).to_be_visible()


def rows(demo: Demo, query: str, *given: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = demo.store.read(lambda con: con.execute(query, list(given)).fetchall())
    return found


def local(at: datetime) -> str:
    return at.astimezone(ZoneInfo(ZONE)).strftime("%Y-%m-%d %H:%M:%S")


def test_the_demo_says_where_the_page_is(demo: Demo) -> None:
    assert "The page: / on the port that is logged" in demo.said


def test_health_tells_each_source_as_its_last_run_went(demo: Demo, seen: Seen) -> None:
    shown = {row[0]: row for row in seen.texts("#sources tr")}
    last = rows(
        demo, 'SELECT source, arg_max(outcome, started), max(finished), sum("rows") FROM runs GROUP BY source'
    )
    assert set(shown) == {source for source, *_ in last}
    for source, outcome, finished, number in last:
        word = "✖ failed: timeout" if outcome == "failed" else "● ok"
        assert (shown[source][1], shown[source][5], shown[source][6]) == (word, local(finished), f"{number:,}")
    marks = dict(rows(demo, 'SELECT source, min("at") FROM watermarks GROUP BY source'))
    assert {source: row[4] for source, row in shown.items()} == {
        source: local(marks[source]) if source in marks else "–" for source in shown
    }
    summary = seen.page.inner_text("#snapshot")
    assert f"{len(shown) - 1} of {len(shown)} sources were whole when last collected; workflows failed." in summary


def test_times_tell_utc_when_they_are_pointed_at(demo: Demo, page: Page) -> None:
    [[at]] = rows(demo, "SELECT max(finished) FROM runs WHERE source = 'nodes'")
    time = page.locator("#sources tr", has_text="nodes").locator("time").nth(2)
    assert time.get_attribute("title") == f"{at.astimezone(ZoneInfo('UTC')):%Y-%m-%d %H:%M:%S} UTC"
    assert ZONE in page.inner_text("#zone")


def test_nodes_tell_their_load_and_the_functions_that_have_pods_there(demo: Demo, seen: Seen) -> None:
    shown = {row[0]: row for row in seen.texts("#node-rows tr")}
    nodes = rows(demo, "SELECT node, cpu_cores, memory_bytes FROM node_specs WHERE valid_to IS NULL")
    assert set(shown) == {node for node, *_ in nodes}
    for node, cores, memory in nodes:
        used = dict(
            rows(
                demo,
                "SELECT metric, arg_max(value, \"at\") FROM usage WHERE scope = 'node' AND name = ? GROUP BY metric",
                node,
            )
        )
        _, state, cpu_cell, memory_cell, pods, functions, *_ = shown[node]
        assert state == "● ready"
        assert cpu_cell.startswith(f"{round(100 * used['cpu_cores'] / cores)}% ")
        assert cpu_cell.endswith(f" of {cores:g} cores")
        assert memory_cell == (
            f"{round(100 * used['memory_bytes'] / memory)}% {used['memory_bytes'] / 2**20:,.1f} MiB"
            f" of {memory / 2**30:.1f} GiB"
        )
        alive = rows(
            demo,
            "SELECT function, count(*) FROM placements WHERE ended IS NULL AND node = ? AND phase = 'Running'"
            " GROUP BY function",
            node,
        )
        assert int(pods) == sum(number for _, number in alive)
        assert {f"{name} {number};" for name, number in alive if name} <= {
            f"{' '.join(chip.split()[:2])}" for chip in _chips(seen.page, node)
        }, functions


def _chips(page: Page, node: str) -> list[str]:
    return page.locator("#node-rows tr", has_text=node).locator("td > .chips li").all_inner_texts()


def test_a_search_narrows_the_nodes(demo: Demo, page: Page) -> None:
    [[node, function]] = rows(
        demo, "SELECT node, function FROM placements WHERE ended IS NULL AND function <> '' ORDER BY 1, 2 LIMIT 1"
    )
    page.fill("#nodes-search", node)
    expect(page.locator("#nodes-count")).to_contain_text(f"1 node that match “{node}”")
    expect(page.locator("#node-rows tr")).to_have_count(1)
    page.fill("#nodes-search", function.upper())
    expect(page.locator("#nodes-count")).to_contain_text(function.upper())
    assert node in page.locator("#node-rows th").all_inner_texts()
    page.fill("#nodes-search", "")
    expect(page.locator("#nodes-count")).to_have_text("5 nodes, the busiest first.")


def figure(percents: float) -> str:
    exact = Decimal("0.1") if percents < 10 else Decimal(1)
    return str(Decimal(percents).quantize(exact, ROUND_HALF_UP)).removesuffix(".0")


def test_every_cell_of_the_heat_map_is_a_pair_of_the_model(demo: Demo, seen: Seen) -> None:
    pairs = rows(demo, "SELECT victim, aggressor, status, slowdown FROM pairs JOIN models USING (cluster, model)"
                       " WHERE promoted")  # fmt: skip
    best: dict[str, float] = {}
    for victim, _, _, slowdown in pairs:
        best[victim] = max(best.get(victim, -9.0), slowdown)
    marks = {"observed": "{}", "predicted": "({})", "shared_cause": "~{}"}
    columns = seen.page.locator("#map thead th").all_inner_texts()
    shown = {
        (row[0], column): cell
        for row in seen.texts("#map tbody tr")
        for column, cell in zip(columns, row[1:], strict=True)
    }
    assert shown == {
        (victim, aggressor): "?" if status == "unknown" else marks[status].format(figure(100 * slowdown))
        for victim, aggressor, status, slowdown in pairs
    }
    victims = seen.page.locator("#map tbody th").all_inner_texts()
    assert [best[victim] for victim in victims] == sorted(best.values(), reverse=True)


def test_a_click_on_a_pair_shows_its_evidence(demo: Demo, page: Page) -> None:
    [[victim, aggressor, slowdown, low, high, overlaps, runs]] = rows(
        demo,
        "SELECT victim, aggressor, slowdown, low, high, effective_overlaps, activations FROM pairs"
        " JOIN models USING (cluster, model) WHERE promoted AND status = 'observed' ORDER BY slowdown DESC LIMIT 1",
    )
    page.get_by_role("button", name=f"{victim} beside {aggressor}:").click()
    evidence = page.locator("#evidence")
    expect(evidence.get_by_role("heading", name=f"{victim} beside {aggressor}")).to_be_focused()
    expect(evidence.locator("dl")).to_be_visible()
    facts = dict(zip(evidence.locator("dt").all_inner_texts(), evidence.locator("dd").all_inner_texts(), strict=True))
    assert facts["Status"] == "observed"
    assert facts["Slowdown"] == f"+{round(100 * slowdown)}%"
    assert facts["90% interval"] == f"{round(100 * low)}% to {round(100 * high)}%"
    assert facts["Effective overlaps"] == f"{overlaps:,.1f}"
    assert facts["Runs that met it"].split(" of ")[0] == f"{runs:,}"
    expect(evidence.locator(".meaning")).to_contain_text(f"{victim} takes {100 * slowdown:.1f}% longer")
    expect(evidence).to_contain_text(f"{aggressor} beside {victim}:")
    for name in (victim, aggressor):
        [[dominant, disk]] = rows(
            demo,
            "SELECT dominant, disk FROM function_profiles JOIN models USING (cluster, model)"
            " WHERE promoted AND node_type = '' AND function = ?",
            name,
        )
        expect(evidence.locator("li", has_text=f"{name}:")).to_contain_text(f"disk {disk}; dominant: {dominant}")
    page.keyboard.press("Escape")
    expect(evidence).to_be_hidden()
    expect(page.get_by_role("button", name=f"{victim} beside {aggressor}:")).to_be_focused()


def test_decisions_are_those_of_the_history_the_newest_first(demo: Demo, page: Page, seen: Seen) -> None:
    while page.locator("#decisions-more").is_visible():
        page.click("#decisions-more")
    shown = seen.texts("#decision-rows tr:not(.details)")
    stored = rows(
        demo,
        'SELECT d."at", d.namespace, d.pod, d.function, d.mode, o.node, o.followed FROM decisions AS d'
        ' JOIN decision_outcomes AS o USING (cluster, decision) ORDER BY d."at" DESC',
    )
    asked, kept = shown[: -len(stored)], shown[-len(stored) :]
    assert [row[1] for row in asked] == ["team/p"] * 3
    assert {tuple(row[:4]) + tuple(row[5:7]) for row in kept} == {
        (local(at), f"{namespace}/{name}", function, mode, node, "yes" if followed else "no")
        for at, namespace, name, function, mode, node, followed in stored
    }
    assert [row[0] for row in shown] == sorted((row[0] for row in shown), reverse=True)
    page.fill("#decisions-search", stored[0][2])
    expect(page.locator("#decision-rows tr:not(.details)")).to_have_count(
        sum(stored[0][2] in name for _, _, name, *_ in stored)
    )
    # A stored one tells what its record holds: these were made up without reasons.
    told = opened(page)
    expect(told).to_contain_text("The record holds no reasons.")
    expect(told).to_contain_text("Nodes, the best of 2 first:")
    expect(told.locator("li").nth(1)).to_contain_text("last")
    page.fill("#decisions-search", "")
    # What is below moves down as they come back: the next test shall not ask where it is before.
    expect(page.locator("#decision-rows tr:not(.details)")).to_have_count(len(shown))


def test_regions_tell_their_state_with_drains_and_resets(seen: Seen) -> None:
    """Of what `served_demo` puts in; its moments are 8:00 of 5 January 2026, UTC."""
    expect(seen.page.locator("#regions-count")).to_have_text("2 regions.")
    at = local(datetime(2026, 1, 5, 8, tzinfo=UTC))
    told = ["streams", "periodic", "7", "1200 ms", "300 ms", "1 of 5", at, at]
    cells = [row.locator("th, td").all_inner_texts() for row in seen.page.locator("#region-rows tr").all()]
    assert [[text.replace("\u00a0", " ") for text in row] for row in cells] == [
        ["j", str(index), "● PROCESSING, healthy", *told] for index in range(2)
    ]
    seen.page.get_by_role("link", name="Regions").focus()
    seen.page.keyboard.press("Enter")
    expect(seen.page.get_by_role("heading", name="Consistent regions")).to_be_in_viewport()


def test_every_column_of_the_regions_is_seen_at_an_ordinary_width(seen: Seen) -> None:
    page = seen.page
    page.set_viewport_size({"width": 1200, "height": 700})
    expect(page.locator("#region-rows tr")).to_have_count(2)
    box = page.locator("#regions .scroll")
    assert box.evaluate("each => each.scrollWidth - each.clientWidth") == 0
    page.set_viewport_size(WIDE["viewport"])


def opened(page: Page) -> Locator:
    """Ask for the reasons of the decision that is the first now; return where they stand, whatever comes above it."""
    row = page.locator("#decision-rows button").first.get_attribute("aria-controls")
    page.locator(f"#decision-rows button[aria-controls='{row}']").click()
    return page.locator(f"[id='{row}']")


def test_a_decision_tells_its_reasons_and_keeps_telling_them_when_the_page_is_refreshed(
    demo: Demo, page: Page
) -> None:
    newest = httpx.get(f"{demo.url}/v1/decisions?limit=1").json()["items"][0]["decision"]
    reasons = httpx.get(f"{demo.url}/v1/decisions/{newest}").json()["document"]["reasons"]
    # By its id: decisions that are stored only now come to stand above it.
    toggle = page.locator(f"#decision-rows button[aria-controls='why-{newest}']")
    toggle.click()
    told = page.locator(f"[id='why-{newest}']")
    for reason in reasons:
        expect(told).to_contain_text(reason["sentence"])
    assert toggle.get_attribute("aria-expanded") == "true"
    with page.expect_response("**/v1/decisions?*"):
        page.evaluate("document.getElementById('refresh').click()")
    expect(page.locator("#decisions-mode")).to_be_visible()
    expect(toggle).to_be_focused()
    expect(told).to_be_visible()
    toggle.click()
    expect(told).to_be_hidden()


def test_a_pasted_pod_gets_its_recommendation_with_reasons(demo: Demo, page: Page) -> None:
    victim = page.locator("#map tbody th").first.inner_text()
    asked = pod(victim)
    wanted = httpx.post(f"{demo.url}/v1/recommendations", json={"pod": asked, "mode": "require"}).json()
    page.fill("#pod", json.dumps(asked))
    page.select_option("#mode", "require")
    page.get_by_role("button", name="Recommend", exact=True).click()
    answer = page.locator("#answer")
    expect(answer).to_contain_text(f"the best node is {wanted['nodes'][0]['name']}. In mode require")
    for reason in wanted["reasons"]:
        expect(answer.locator(".reasons")).to_contain_text(reason["sentence"])
    shown = answer.locator("table tbody tr").all()
    assert [row.locator("td").nth(1).inner_text() for row in shown] == [node["name"] for node in wanted["nodes"]]
    answer.get_by_text("Affinity, as JSON").click()
    assert json.loads(answer.locator("pre").first.inner_text()) == {"affinity": wanted["affinity"]}


def test_the_example_is_yaml_that_is_understood_from_the_keyboard(page: Page) -> None:
    victim = page.locator("#map tbody th").first.inner_text()
    page.get_by_role("button", name="Fill in an example").press("Enter")
    expect(page.locator("#pod")).to_be_focused()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#answer .reasons")).to_contain_text(f"function {victim}, by its labels")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Deployment\nspec: {}\n", "body: kind 'Deployment': not a Pod."),
        ("a: b: c", "body: neither JSON nor YAML"),
        ("- just\n- a list", "body: expected one object, in JSON or YAML."),
        ('{"kind": "Pod", "spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}}', "lots"),
    ],
)
def test_a_bad_pod_is_one_sentence_beside_the_box(page: Page, text: str, said: str) -> None:
    page.fill("#pod", text)
    page.get_by_role("button", name="Recommend", exact=True).click()
    problem = page.locator("#pod-problem")
    expect(problem).to_contain_text(said)
    assert "\n" not in problem.inner_text()
    assert problem.get_attribute("role") == "alert"
    assert page.get_attribute("#pod", "aria-invalid") == "true"
    expect(page.locator("#answer")).to_be_empty()


def test_everything_can_be_reached_and_done_by_the_keyboard(demo: Demo, seen: Seen, chromium: Browser) -> None:
    with visiting(chromium, demo.url, **WIDE) as fresh:
        page = fresh.page
        filled(page)
        page.keyboard.press("Tab")
        assert fresh.focused() == "Skip to the content"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert fresh.focused() == "Table of sources"
        stops = []
        while fresh.focused() != "Recommend" and len(stops) < 100:
            page.keyboard.press("Tab")
            stops.append(fresh.focused())
        victims, aggressors = (page.locator(f"#map {part} th").all_inner_texts() for part in ("tbody", "thead"))
        pairs = [stop for stop in stops if " beside " in stop]
        assert [stop.split(":")[0] for stop in pairs] == [f"{victims[0]} beside {aggressors[0]}"]  # one stop for all
        assert {"nodes-search", "pairs-search", "pairs-size", "decisions-mode", "pod", "mode"} <= set(stops)
        page.locator("#map button[tabindex='0']").focus()
        for key, row, column in (
            ("ArrowRight", 0, 1), ("ArrowDown", 1, 1), ("End", 1, -1), ("Control+End", -1, -1), ("ArrowDown", -1, -1),
            ("Home", -1, 0), ("ArrowUp", -2, 0), ("Control+Home", 0, 0), ("ArrowLeft", 0, 0), ("ArrowDown", 1, 0),
        ):  # fmt: skip
            page.keyboard.press(key)
            assert fresh.focused().startswith(f"{victims[row]} beside {aggressors[column]}:"), key
        page.keyboard.press("Enter")
        expect(page.locator("#evidence-head")).to_be_focused()
        page.keyboard.press("Tab")
        assert fresh.focused() == "evidence-close"
        page.keyboard.press("Enter")
        assert fresh.focused().startswith(f"{victims[1]} beside {aggressors[0]}:")


def test_it_is_accessible_asks_nobody_else_and_fits_a_narrow_screen(demo: Demo, chromium: Browser) -> None:
    with visiting(chromium, demo.url, color_scheme="light", reduced_motion="reduce", **WIDE) as fresh:
        page = fresh.page
        filled(page)
        page.locator("#map tbody button").first.click()
        expect(page.locator("#evidence dl")).to_be_visible()
        page.click("#example")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#answer .reasons")).to_be_visible()
        expect(opened(page).locator("li").first).to_be_visible()
        assert fresh.violations() == []
        assert brightness(page) > 600
        picture(page, "light")
        page.emulate_media(color_scheme="dark")
        assert brightness(page) < 150
        assert fresh.violations("color-contrast") == []
        picture(page, "dark")
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
        assert fresh.asked
        assert fresh.elsewhere == []
        assert fresh.wrong == []


def brightness(page: Page) -> int:
    ground: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, ground.removeprefix("rgb(").removesuffix(")").split(", ")))


def picture(page: Page, scheme: str) -> None:
    """Write what the README and docs/ show, where this is asked for."""
    if PICTURES:
        page.set_viewport_size({"width": 1200, "height": 700})
        page.evaluate("document.getElementById('interference').scrollIntoView()")
        page.screenshot(path=Path(PICTURES) / f"page-{scheme}.png")
        page.locator("#regions").screenshot(path=Path(PICTURES) / f"regions-{scheme}.png")
