"""Shared fixtures; what needs files or programs from outside the checkout skips and says why."""

import contextlib
import functools
import inspect
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from featurestore.store import migrations

# How long an example takes says how busy the machine is; and what CI tries is the same each time.
settings.register_profile("steady", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("steady")

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("COLOCATION_SHARED", REPOSITORY.parent / "shared"))

#: The files that take longest, below `tests`. Several workers begin with them, so that none is left alone with one.
LONGEST = (
    "jobs/demo/test_demo_served.py",
    "browser/test_page.py",
    "flow/test_collect.py",
    "jobs/supervisor/test_replica.py",
    "featurestore/test_interference.py",
    "flow/test_documented_commands.py",
    "jobs/cli/test_histories_that_say_little.py",
    "featurestore/engines/test_local.py",
    "benchmarks/test_other_simulator.py",
    "jobs/test_learning_over_time.py",
    "flow/test_wheel.py",
    "jobs/supervisor/test_supervisor.py",
    "featurestore/store/test_merging_objects.py",
    "pipeline/test_openwhisk_client.py",
    "featurestore/store/test_ingesting_activations.py",
    "jobs/service/test_prepared_answers.py",
    "rules/test_pod_rules.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first; the order within a file stays."""
    ranks = {REPOSITORY / "tests" / name: rank for rank, name in enumerate(LONGEST)}
    if gone := [str(path) for path in ranks if not path.is_file()]:
        raise pytest.UsageError(f"tests/conftest.py: LONGEST names files that are not there: {', '.join(gone)}")
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def real() -> Path:
    """The directory of real inputs, which is not part of the repository."""
    directory = SHARED / "data" / "real"
    if not directory.is_dir():
        pytest.skip(f"real inputs are not at {directory} (set COLOCATION_SHARED)")
    return directory


@pytest.fixture(scope="session")
def csi_baremetal() -> Path:
    """The directory of samples of the storage driver's objects, which is not part of the repository."""
    directory = SHARED / "data" / "csi-baremetal"
    if not directory.is_dir():
        pytest.skip(f"samples of the storage driver are not at {directory} (set COLOCATION_SHARED)")
    return directory


@pytest.fixture(scope="session", autouse=True)
def _new_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A new store is a copy of the first one that the product makes: hundreds of tests begin with one.

    Tests of how it is made ask for `made_anew`.
    """
    made = tmp_path_factory.mktemp("store") / "new.duckdb"
    create = migrations.create

    @functools.wraps(create)
    def copied(path: Path) -> None:
        if not made.exists():
            create(made)
        if path.parent.is_dir() and os.access(path.parent, os.W_OK) and not path.exists():
            shutil.copyfile(made, aside := path.with_name(f".{path.name}.{uuid.uuid4()}"))
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
            aside.unlink()
        else:
            create(path)

    migrations.create = copied
    yield
    migrations.create = create


@pytest.fixture
def made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """New stores are made by the product, each."""
    monkeypatch.setattr(migrations, "create", inspect.unwrap(migrations.create))
