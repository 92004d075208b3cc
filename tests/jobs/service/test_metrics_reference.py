"""docs/metrics.md: what the code says, and every metric of a page."""

import re
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from featurestore.snapshot import empty
from jobs.service import described
from jobs.service.counts import Tally
from jobs.service.metrics import Metrics
from jobs.supervisor import status
from jobs.supervisor.status import Status
from tests.support.service import AT

SUFFIXES = ("_seconds", "_bytes", "_ratio", "_cores", "_total", "_info", "_bytes_per_second", "_milliseconds")
#: Counts of things, which have no unit, and values of other scales.
UNITLESS = re.compile(r"_(drift|distance|pairs|nodes|drives|overlaps|activations|volumes|reservations|pods|refused"
                      r"|failing|held_back|waiting|running|state|attempts|seq_id)$")  # fmt: skip


def test_the_page_in_docs_is_what_the_code_says(repository: Path) -> None:
    assert (repository / "docs" / "metrics.md").read_text(encoding="utf-8") == described.markdown()


def test_every_family_of_a_page_is_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: AT.timestamp())
    status.write(Status(), tmp_path / status.FILE)
    metrics = Metrics(Tally(), tmp_path, 0, 10)
    metrics.seen(empty(AT))
    page = {family.name: family.type for family in text_string_to_metric_families(metrics.page().decode())}
    told = {described.name(family): family.type for family in described.families()}
    assert page
    for name, kind in page.items():
        full = name + {"counter": "_total"}.get(kind, "")
        assert full in told, f"{full} is on the page and not in the reference"


def test_names_say_their_unit() -> None:
    names = [described.name(family) for family in described.families()]
    assert len(names) == len(set(names))
    for name in names:
        assert name.startswith("colocation_")
        assert name.endswith(SUFFIXES) or UNITLESS.search(name), name
