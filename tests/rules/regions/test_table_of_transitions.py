"""The table of transitions: in the documents as it runs, and the same as the one that was asked for."""

import os
import re
from collections import defaultdict
from pathlib import Path

import pytest

from rules.regions.document import markdown
from rules.regions.machine import TABLE
from rules.regions.region import State

ROOT = Path(__file__).parents[3]
PAGE = Path(os.environ.get("COLOCATION_SHARED", ROOT.parent / "shared")) / "spec" / "consistent-region.md"

STATES = {state.value: state for state in State} | {"MAX": State.MAXIMUM_RESET_ATTEMPTS_REACHED}
EVENTS = {
    "became healthy": "BecameHealthy",
    "became unhealthy": "BecameUnhealthy",
    "operator drain": "OperatorDrain",
    "operator reset": "OperatorReset",
}
TOLD = re.compile(r'notify (\w+) "([^"]*)"')
STARTED = re.compile(r"(?:start|periodic:)\s+(?:start\s+)?(DrainPeriod|DrainTimeout|ResetTimeout)")

Change = tuple[set[State], set[tuple[str, str]], set[str]]


def test_the_document_holds_the_table_that_runs() -> None:
    text = (ROOT / "docs" / "consistent-regions.md").read_text(encoding="utf-8")
    assert markdown() in text, "docs/consistent-regions.md: run python -m jobs.regions.reference and paste"


def _asked_for(page: str) -> dict[tuple[State, str], Change]:
    """What the page's table says by state and event: other states, notifications, timers."""
    section = page.split("### A4.")[1].split("### A5.")[0]
    before = section.split("| State |")[0]
    found: dict[tuple[State, str], Change] = defaultdict(lambda: (set(), set(), set()))
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert len(lines) > 20
    for line in lines:
        states, events, _, action, following = (cell.strip() for cell in line.strip("|").split("|"))
        if states.startswith("any"):
            continue  # what is ignored everywhere; see the exhaustive tests
        reset = re.search(r"(^|[,;] )R($|,)", action) is not None
        told = set(TOLD.findall(action)) | (set(TOLD.findall(before)) if reset else set())
        timers = set(STARTED.findall(action)) | ({"ResetTimeout"} if reset else set())
        for state in (STATES[name.strip()] for name in states.split(",")):
            nexts = {STATES[name] for name in re.findall(r"\w+", following) if name in STATES} - {state}
            for event in _events(events):
                change = found[state, event]
                change[0].update(nexts)
                change[1].update(told)
                change[2].update(timers)
    return found


def _events(cell: str) -> list[str]:
    if cell == "became healthy / unhealthy":
        return ["BecameHealthy", "BecameUnhealthy"]
    if cell == "any timeout":
        return ["DrainPeriod", "DrainTimeout", "ResetTimeout"]
    return [EVENTS.get(name, name) for name in cell.split(" or ")]


def test_the_table_is_the_one_that_was_asked_for() -> None:
    if not PAGE.is_file():
        pytest.skip(f"the page with the table is not at {PAGE} (set COLOCATION_SHARED)")
    asked = {key: change for key, change in _asked_for(PAGE.read_text(encoding="utf-8")).items() if any(change)}
    runs: dict[tuple[State, str], Change] = defaultdict(lambda: (set(), set(), set()))
    for row in TABLE:
        for state in row.states:
            change = runs[state, row.event.__name__]
            change[0].update(set(row.next) - {state})
            change[1].update(row.action.tells)
            change[2].update(kind.value for kind in row.action.starts)
    runs = {key: change for key, change in runs.items() if any(change)}
    # MAX with force and health: the attempts were raised just before, so that its R cannot fail.
    asked[State.MAXIMUM_RESET_ATTEMPTS_REACHED, "OperatorReset"][1].discard(("resetFailed", "seqId=<last>"))
    assert runs.keys() == asked.keys()
    for key in sorted(asked, key=str):
        assert runs[key] == asked[key], key
