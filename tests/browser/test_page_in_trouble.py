"""The page in a real browser where not all is well: names that are markup, tokens, failures, large clusters."""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from jobs.service.auth import Token
from pipeline.errors import BadInput, Temporary
from tests.support.browser import PATIENCE, Seen, needs_chromium, visiting
from tests.support.service import AT, Fakes, running
from tests.support.snapshots import snapshot

pytestmark = needs_chromium

HOSTILE = '<img src=x onerror="window.taken=1">/"\'`</script><script>window.taken=1</script>'
TOKEN = "s3cret-token"


def node(name: str, cluster: str = "c1", used: float = 1.0) -> dict[str, Any]:
    return {"cluster": cluster, "node": name, "node_type": name, "ready": True, "schedulable": True, "cpu_cores": 4.0,
            "memory_bytes": 100.0, "cpu_used_cores": used, "memory_used_bytes": 1.0, "used_at": AT}  # fmt: skip


def pair(victim: str, aggressor: str, slowdown: float = 0.5, cluster: str = "c1") -> dict[str, Any]:
    return {"cluster": cluster, "victim": victim, "aggressor": aggressor, "node_type": "", "status": "observed",
            "slowdown": slowdown, "low": 0.1, "high": 0.9, "probability": 0.99, "effective_overlaps": 40.0,
            "activations": 9}  # fmt: skip


def placed(function: str, on: str, cluster: str = "c1") -> dict[str, Any]:
    return {"cluster": cluster, "uid": function + on, "namespace": "ns", "pod": "p", "node": on, "function": function,
            "phase": "Running"}  # fmt: skip


def health(source: str, reason: str = "") -> dict[str, Any]:
    return {"cluster": "c1", "source": source, "last_success": AT, "last_attempt": AT,
            "outcome": "failed" if reason else "ok", "reason": reason, "rows": 1, "refused": 0, "watermark": AT,
            "rows_total": 1, "errors_total": 0}  # fmt: skip


def told(*, explained: Mapping[str, Any]) -> dict[str, Any]:
    base = {
            "status": "observed", "slowdown": 0.5, "low": 0.1, "high": 0.9, "probability": 0.99, "window_start": None,
            "window_end": None, "model": {}, "estimate": {"slowdown": None}, "controls": {}, "placebo": None,
            "naive": None, "base_ms": {}, "other_direction": None, "missing": [],
            "evidence": {"effective_overlaps": 40.0, "activations": 9, "runs": None, "alone": None, "nodes": []},
    }  # fmt: skip
    return {**base, **explained}


def test_names_that_are_markup_are_shown_as_they_are_and_never_run(chromium: Browser) -> None:
    fakes = Fakes(snapshot(AT, {
        "nodes": [node(HOSTILE)], "placements": [placed(HOSTILE, HOSTILE)], "pairs": [pair(HOSTILE, HOSTILE)],
        "health": [health(HOSTILE, HOSTILE)],
    }))  # fmt: skip
    row = {
           "decision": HOSTILE.replace("/", ""), "at": AT, "satisfiable": True, "cluster": "c1",
           **dict.fromkeys(("namespace", "pod", "function", "mode", "outcome", "node", "snapshot"), HOSTILE),
    }  # fmt: skip
    said = {"rule": HOSTILE, "sentence": HOSTILE, "evidence": None}
    answer = {"decision": HOSTILE, "snapshot": HOSTILE, "mode": HOSTILE, "satisfiable": True, "outcome": HOSTILE,
              "affinity": {HOSTILE: HOSTILE}, "patch": [{"value": HOSTILE}], "left_out": [HOSTILE],
              "nodes": [{"name": HOSTILE, "score": 1.0, "reasons": [HOSTILE]}], "reasons": [said]}  # fmt: skip
    explained = told(explained={
        "victim": HOSTILE, "aggressor": HOSTILE, "meaning": HOSTILE, "missing": [HOSTILE],
        "model": {"model": HOSTILE}, "controls": {HOSTILE: 0.1}, "base_ms": {HOSTILE: 1.0},
        "placebo": {"meaning": HOSTILE}, "naive": {"meaning": HOSTILE}, "other_direction": pair(HOSTILE, HOSTILE),
    })  # fmt: skip
    parts = replace(
        fakes.parts(),
        history=lambda filters, limit: [row],
        stored=lambda name: {**row, "document": answer},
        recommend=lambda request: answer,
        explain=lambda *_: [explained],
    )
    with running(parts) as url, visiting(chromium, url) as seen:
        page = seen.page
        page.locator("#map button").first.click()
        expect(page.locator("#evidence .meaning")).to_have_text(f"{HOSTILE}.")
        page.locator("#decision-rows button").click()
        expect(page.locator("#decision-rows .details li").first).to_contain_text(HOSTILE)
        page.fill("#pod", "spec: {}")
        page.get_by_role("button", name="Recommend", exact=True).click()
        expect(page.locator("#answer .reasons li")).to_contain_text(HOSTILE)
        assert page.locator("#node-rows th").inner_text() == HOSTILE
        assert page.locator("#sources th").inner_text() == HOSTILE
        assert page.evaluate("window.taken") is None
        assert page.locator("body img, body script").count() == 0
        assert (seen.wrong, seen.elsewhere) == ([], [])


@pytest.fixture
def guarded(chromium: Browser) -> Iterator[Seen]:
    fakes = Fakes(snapshot(AT, {"nodes": [node("n1")], "pairs": [pair("a", "b")]}))
    with running(fakes.parts(Token(TOKEN, None))) as url, visiting(chromium, url) as seen:
        yield seen


def test_the_page_asks_for_the_token_and_keeps_it_in_the_tab_alone(guarded: Seen) -> None:
    page = guarded.page
    expect(page.locator("#sign-in")).to_be_visible()
    expect(page.locator("#token")).to_be_focused()
    expect(page.locator("#main")).to_be_hidden()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#problem")).to_have_text("The service does not accept this token.")
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator("#node-rows th")).to_have_text("n1")
    expect(page.locator("#sign-in")).to_be_hidden()
    expect(page.locator("#problem")).to_be_hidden()
    assert page.input_value("#token") == ""
    assert not any(TOKEN in url for url in [page.url, *guarded.asked])
    assert page.evaluate("[localStorage.length, document.cookie, sessionStorage.length]") == [0, "", 1]
    page.reload()
    expect(page.locator("#node-rows th")).to_have_text("n1")
    page.click("#forget")
    expect(page.locator("#sign-in")).to_be_visible()
    expect(page.locator("#main")).to_be_hidden()
    assert page.evaluate("sessionStorage.length") == 0


def test_a_service_that_is_gone_is_said_and_what_was_known_stays(chromium: Browser) -> None:
    fakes = Fakes(snapshot(AT, {"nodes": [node("n1")], "pairs": [pair("a", "b")]}))
    with running(fakes.parts()) as url:
        visit = visiting(chromium, url)
        seen = visit.__enter__()
        expect(seen.page.locator("#map td button")).to_have_count(1)
    try:
        seen.page.click("#refresh")
        expect(seen.page.locator("#problem")).to_have_text(
            "The service cannot be reached; what is shown is what was last known."
        )
        assert seen.page.get_attribute("#problem", "role") == "alert"
        expect(seen.page.locator("#node-rows th")).to_have_text("n1")
    finally:
        visit.__exit__(None, None, None)


def test_failures_of_single_parts_are_sentences(chromium: Browser) -> None:
    fakes = Fakes(snapshot(AT, {"nodes": [node("n1")], "pairs": [pair("a", "b"), pair("b", "a")]}))

    def explain(known: object, victim: str, *_: object) -> list[Any]:
        if victim == "a":
            raise Temporary("store", "busy", "colocation.duckdb: in use by another process")
        raise BadInput("function 'b': no such function")

    def broken(filters: object, limit: int) -> list[dict[str, object]]:
        raise RuntimeError("secret")

    with (
        running(replace(fakes.parts(), explain=explain, history=broken)) as url,
        visiting(chromium, url) as seen,
    ):
        page = seen.page
        expect(page.locator("#problem")).to_have_text("an internal error was logged.")
        expect(page.locator("#node-rows th")).to_have_text("n1")
        page.get_by_role("button", name="a beside b:").click()
        expect(page.locator("#evidence-body")).to_have_text("colocation.duckdb: in use by another process.")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="b beside a:").click()
        expect(page.locator("#evidence-body")).to_have_text("function 'b': no such function.")


def test_a_large_cluster_is_shown_in_part_and_searched(chromium: Browser) -> None:
    names = [f"ns/f{number:03d}" for number in range(120)]
    known = snapshot(AT, {
        "nodes": [node(f"node-{number:03d}", used=number / 100) for number in range(300)],
        "placements": [placed(name, "node-299") for name in names],
        "pairs": [pair(victim, aggressor, (row + column) / 100) for row, victim in enumerate(names)
                  for column, aggressor in enumerate(names)],
    })  # fmt: skip
    with running(Fakes(known).parts()) as url, visiting(chromium, url) as seen:
        page = seen.page
        expect(page.locator("#nodes-count")).to_have_text("The 50 busiest of 300 nodes.")
        assert page.locator("#node-rows th").first.inner_text() == "node-299"
        expect(page.locator("#node-rows tr")).to_have_count(50)
        page.locator("#node-rows summary").first.click()
        expect(page.locator("#node-rows details").first).to_contain_text("and 70 more")
        page.click("#nodes-more")
        expect(page.locator("#node-rows tr")).to_have_count(100)
        expect(page.locator("#node-rows details").first).to_have_attribute("open", "")
        expect(page.locator("#map tbody tr")).to_have_count(20)
        expect(page.locator("#pairs-count")).to_contain_text("the 20 strongest of 120 victims")
        assert page.locator("#map tbody th").first.inner_text() == "ns/f119"
        page.select_option("#pairs-size", "10")
        expect(page.locator("#map tbody tr")).to_have_count(10)
        page.fill("#pairs-search", "F007")
        expect(page.locator("#pairs-count")).to_contain_text("“F007”")
        page.fill("#nodes-search", "node-007")
        expect(page.locator("#node-rows tr")).to_have_count(1)
        page.fill("#nodes-search", "nowhere")
        expect(page.locator("#nodes-count")).to_have_text("0 nodes that match “nowhere”, the busiest first.")
        assert seen.wrong == []


def test_of_several_clusters_one_is_looked_at(chromium: Browser) -> None:
    rows = {"nodes": [node("east-1", "east"), node("west-1", "west")],
            "pairs": [pair("a", "b", cluster="east"), pair("x", "y", cluster="west")]}  # fmt: skip
    with (
        running(Fakes(snapshot(AT, rows, clusters=("east", "west"))).parts()) as url,
        visiting(chromium, url) as seen,
    ):
        page = seen.page
        expect(page.locator("#node-rows th")).to_have_text("east-1")
        page.select_option("#cluster", "west")
        expect(page.locator("#node-rows th")).to_have_text("west-1")
        expect(page.locator("#map tbody th")).to_have_text("x")
        # Another choice while an answer is on its way is not lost.
        waiting: list[Route] = []
        page.route("**/v1/decisions?*", lambda route: waiting.append(route))
        page.evaluate("document.getElementById('refresh').click()")
        waited(page, waiting)
        page.select_option("#cluster", "east")
        page.unroute("**/v1/decisions?*")  # lets go of what waits
        expect(page.locator("#node-rows th")).to_have_text("east-1")


def waited(page: Page, waiting: list[Route]) -> None:
    """Wait until a request waits."""
    until = time.monotonic() + PATIENCE / 1000
    while not waiting:
        assert time.monotonic() < until
        page.wait_for_timeout(20)


def test_an_answer_that_comes_late_does_not_undo_a_newer_one(chromium: Browser) -> None:
    fakes = Fakes(snapshot(AT, {"nodes": [node("n1"), node("n2")]}))
    with running(fakes.parts()) as url, visiting(chromium, url) as seen:
        page, waiting = seen.page, list[Route]()
        page.uncheck("#repeat")
        expect(page.locator("#node-rows th")).to_have_count(2)
        page.route("**/v1/loads?*search=n2*", lambda route: waiting.append(route))
        page.fill("#nodes-search", "n2")
        waited(page, waiting)
        page.fill("#nodes-search", "n1")
        expect(page.locator("#nodes-count")).to_contain_text("“n1”")
        with page.expect_response("**/v1/loads?*search=n2*"):
            waiting[0].continue_()
        page.evaluate("new Promise(done => setTimeout(done, 100))")
        assert page.locator("#node-rows th").all_inner_texts() == ["n1"]


def test_what_is_refreshed_keeps_the_focus_on_the_same_pair(chromium: Browser) -> None:
    fakes = Fakes(snapshot(AT, {"nodes": [node("n1")], "pairs": [pair("a", "b"), pair("c", "d", 0.2)]}))
    with running(fakes.parts()) as url, visiting(chromium, url) as seen:
        page = seen.page
        page.locator("#map button").first.focus()
        page.keyboard.press("Control+End")
        assert seen.focused().startswith("c beside d: 20% longer")
        later = datetime(2026, 3, 1, 13, tzinfo=UTC)
        fakes.snapshot = snapshot(later, {"nodes": [node("n1")], "pairs": [pair("a", "b"), pair("c", "d", 0.9)]})
        page.evaluate("document.getElementById('refresh').click()")
        expect(page.locator("#map tbody th").first).to_have_text("c")
        assert seen.focused().startswith("c beside d: 90% longer")
        assert page.locator("#map button[tabindex='0']").count() == 1


def test_it_refreshes_itself_as_long_as_it_is_let(chromium: Browser) -> None:
    fakes = Fakes(snapshot(AT, {"nodes": [node("n1")]}))
    with running(fakes.parts()) as url, visiting(chromium, url, clock=True) as seen:
        page = seen.page
        name = page.locator("#node-rows th")
        expect(name).to_have_text("n1")
        fakes.snapshot = snapshot(AT, {"nodes": [node("n2")]}, version="v2")
        page.clock.fast_forward(15_000)
        expect(name).to_have_text("n2")
        page.uncheck("#repeat")
        fakes.snapshot = snapshot(AT, {"nodes": [node("n3")]}, version="v3")
        before = sum("/v1/sources" in url for url in seen.asked)
        page.clock.fast_forward(60_000)
        page.click("#refresh")
        expect(name).to_have_text("n3")
        assert sum("/v1/sources" in url for url in seen.asked) == before + 1


def test_a_service_that_does_not_answer_in_time_is_said(chromium: Browser) -> None:
    fakes, answered = Fakes(snapshot(AT, {"nodes": [node("n1")]})), threading.Event()

    def stuck(filters: object, limit: int) -> list[dict[str, object]]:
        answered.wait(PATIENCE / 1000)
        return []

    with running(replace(fakes.parts(), history=stuck)) as url, visiting(chromium, url, clock=True) as seen:
        try:
            expect(seen.page.locator("#node-rows th")).to_have_text("n1")
            seen.page.clock.fast_forward(30_000)
            expect(seen.page.locator("#problem")).to_have_text("The service did not answer within 30 s.")
        finally:
            answered.set()
        seen.page.click("#refresh")
        expect(seen.page.locator("#problem")).to_be_hidden()


def test_with_nothing_learned_the_page_says_so(chromium: Browser) -> None:
    with running(Fakes().parts()) as url, visiting(chromium, url) as seen:
        page = seen.page
        expect(page.locator("#pairs-count")).to_have_text("Nothing has been learned of any pair yet.")
        expect(page.locator("#nodes-count")).to_have_text("0 nodes, the busiest first.")
        expect(page.locator("#decisions-count")).to_have_text("0 decisions.")
        expect(page.locator("#snapshot")).to_contain_text("stale: only stated needs are advised")
        assert seen.violations() == []
        assert seen.wrong == []
