"""What is laid out of a snapshot as it is published: the same as each process lays out, mapped and not copied."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.webhook_world import CLUSTER, reviews, snapshot
from featurestore.snapshot import Snapshot
from featurestore.store import published
from jobs.service import review
from pipeline.objects import pod_of
from rules import laid
from rules.policy import Policy
from rules.publishing import columns
from rules.recommend import recommend
from rules.request import from_pod
from rules.view import View, prepare

POLICY = Policy(mode="prefer")
WORLD = snapshot(600, 4000, 1200, 6000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    published.write(WORLD, tmp_path / "snapshot", columns)
    return tmp_path / "snapshot"


def view(given: Snapshot) -> View:
    return prepare(given, CLUSTER, WORLD.created)


def patches(given: View) -> list[Any]:
    """What 20 pods get in the view *given*."""
    found = []
    for body in reviews(20, 1200):
        asked = review.decode(body).request
        pod = json.loads(bytes(asked.object))
        request = from_pod(pod, pod_of(pod), given, namespace=asked.namespace, cluster=CLUSTER, policy=POLICY)
        found.append(recommend(request, given, POLICY, decision="d").patch)
    return found


def arrays(name: str, value: object) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Every column of the view *value*, by a name."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif is_dataclass(value):
        for each in fields(value):
            yield from arrays(f"{name}.{each.name}", getattr(value, each.name))
    elif isinstance(value, Mapping) and not name.endswith(".tables"):
        for key, each in value.items():
            yield from arrays(f"{name}[{key}]", each)


def lies_in_the_file(column: np.ndarray[Any, Any]) -> bool:
    """Whether *column* is memory that a file is mapped to."""
    at = column.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        extent, *_, where = line.split(maxsplit=5)
        first, last = (int(each, 16) for each in extent.split("-"))
        if first <= at < last:
            return where.endswith("snapshot")
    return False


def test_a_view_of_a_published_file_equals_one_that_is_laid_out_anew(path: Path) -> None:
    mapped, anew = view(published.load(path)), view(WORLD)
    found, expected = dict(arrays("view", mapped)), dict(arrays("view", anew))
    assert found.keys() == expected.keys()
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column, name)
    assert list(mapped.functions.names) == list(anew.functions.names)
    assert list(mapped.nodes.names) == list(anew.nodes.names)
    assert patches(mapped) == patches(anew)


def test_columns_of_a_published_file_are_no_process_s_own(path: Path) -> None:
    own = {
        name: column.nbytes
        for name, column in arrays("view", view(published.load(path)))
        if column.nbytes >= 4096 and column.flags.c_contiguous and not lies_in_the_file(column)
    }
    # What pods hold changes with each of them.
    assert {name for name in own if not name.startswith(("view.held.", "view.nodes.free"))} == set()


def test_columns_that_say_something_else_are_not_believed(path: Path) -> None:
    given = published.load(path)
    wrong = {
        cluster: {name: np.zeros_like(column) for name, column in found.items()}
        for cluster, found in given.laid.items()
    }
    assert wrong[CLUSTER]
    assert patches(view(replace(given, laid=wrong))) == patches(view(WORLD))
    short = {cluster: {name: column[1:] for name, column in found.items()} for cluster, found in given.laid.items()}
    assert patches(view(replace(given, laid=short))) == patches(view(WORLD))


def test_a_file_of_an_earlier_version_has_none_and_is_read(tmp_path: Path) -> None:
    published.write(WORLD, tmp_path / "snapshot")
    earlier = published.load(tmp_path / "snapshot")
    assert earlier.laid == {}
    assert patches(view(earlier)) == patches(view(WORLD))


def test_what_a_later_version_adds_to_the_head_is_passed_over(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"laid":', b'"more":', 1))
    later = published.load(path)
    assert later.laid == {}
    assert later.tables.keys() == WORLD.tables.keys()


def test_a_column_that_is_not_whole_is_left_out(path: Path) -> None:
    content, whole = path.read_bytes(), published.load(path).laid[CLUSTER]
    path.write_bytes(content.replace(b'"<i4"', b'"<i9"'))  # no numbers have nine bytes
    assert set(published.load(path).laid[CLUSTER]) == {
        name for name, column in whole.items() if column.dtype != "<i4"
    }
    path.write_bytes(content[:-4096])
    assert set(published.load(path).laid[CLUSTER]) < set(whole)
    assert patches(view(published.load(path))) == patches(view(WORLD))


def test_what_is_no_number_equals_itself() -> None:
    column = np.array([np.nan, 1.0])
    twin = column.copy()
    assert laid.twins({"a": twin})("a", column).base is twin
    assert laid.twins({"a": twin})("b", column) is column
