"""Samples of usage against a dictionary: whatever comes, in whatever parts it is written, each is there once."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurestore.store import samples
from featurestore.store.duck import Store
from featurestore.store.ingest import Written
from tests.support.stores import NOON, minutes, put, select

#: Samples by what they are of: a pod, a metric and a time, each one of a few; and a value.
SAMPLES = st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 2), st.integers(0, 2))
BATCHES = st.lists(st.lists(SAMPLES, max_size=15), min_size=1, max_size=3)
Key = tuple[int, int, int]


def sample(pod: int, metric: int, step: int, value: float) -> dict[str, Any]:
    named = {
        "scope": "pod",
        "namespace": "apps",
        "name": f"web-{pod}",
        "metric": ("cpu_cores", "memory_bytes")[metric],
    }
    return named | {"at": NOON + minutes(5 * step), "value": value}


def stored(store: Store) -> list[tuple[Any, ...]]:
    return select(store, 'SELECT name, metric, "at", value FROM usage ORDER BY ALL')


def expected(known: dict[Key, int]) -> list[tuple[Any, ...]]:
    rows = (sample(*key, value) for key, value in known.items())
    return sorted((row["name"], row["metric"], row["at"], row["value"]) for row in rows)


@settings(max_examples=25, deadline=None)
@given(batches=BATCHES, part=st.sampled_from([1, 4, 1000]))
def test_the_last_value_of_each_sample_is_kept(batches: Sequence[Sequence[Any]], part: int) -> None:
    known: dict[Key, int] = {}
    with tempfile.TemporaryDirectory() as place, mock.patch.object(samples, "PART", part):
        store = Store(Path(place) / "s.duckdb")
        for batch in batches:
            told = {(pod, metric, step): value for pod, metric, step, value in batch}
            rows = sum(known.get(key) != value for key, value in told.items())
            written = put(store, "usage", *(sample(*each) for each in batch))
            assert written == Written(rows=rows, duplicates=len(batch) - rows)
            known |= told
            assert stored(store) == expected(known)


@pytest.mark.parametrize("killed", range(4))
def test_parts_are_bounded_and_what_is_killed_between_them_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: int
) -> None:
    monkeypatch.setattr(samples, "PART", 10)
    store = Store(tmp_path / "s.duckdb")
    batch = [sample(pod, metric, step, pod) for pod in range(6) for metric in range(2) for step in range(3)]
    told = {(pod, metric, step): pod for pod in range(6) for metric in range(2) for step in range(3)}
    whole, grown = Store.write, [0]

    def write(self: Store, work: Any, prepared: Any = None) -> Any:
        if len(grown) > killed:
            raise KeyboardInterrupt
        done = whole(self, work, prepared)
        grown.append(len(stored(self)))
        return done

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Store, "write", write)
        put(store, "usage", *batch, watermark=NOON)
    assert grown == [0, 10, 20, 30][: killed + 1]
    assert select(store, "FROM watermarks") == []
    rows = len(batch) - grown[-1]
    assert put(store, "usage", *batch, watermark=NOON) == Written(rows=rows, duplicates=grown[-1])
    assert stored(store) == expected(told)
    assert len(select(store, "FROM watermarks")) == 1


def test_earlier_steps_are_written_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored lies by time, so that a part looks through little of it."""
    monkeypatch.setattr(samples, "PART", 4)
    store = Store(tmp_path / "s.duckdb")
    put(store, "usage", *(sample(pod, 0, step, 1.0) for pod in range(4) for step in (2, 0, 1)))
    assert select(store, 'SELECT "at" FROM usage') == [
        (NOON + minutes(5 * step),) for step in (0, 1, 2) for _ in range(4)
    ]
