"""Shared fixtures; what needs files or programs from outside the checkout skips and says why."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is; and what CI tries is the same each time.
settings.register_profile("steady", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("steady")

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("COLOCATION_SHARED", REPOSITORY.parent / "shared"))


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
